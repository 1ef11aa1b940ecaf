//! A single-line text field.

use std::collections::VecDeque;

use crossterm::event::KeyCode;
use tui_input::{Input, InputRequest};

use crate::keymap::Chord;

/// Maximum length of a text. A pasted row of a dataset is much shorter.
const CHARS_MAX: usize = 64 * 1024;

/// Maximum number of edits that can be undone. With texts of the maximum length, these take 2 MiB.
const UNDO_MAX: usize = 32;

/// A line of text with a caret.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    input: Input,
    is_edited: bool,
    /// Text and caret before each edit, oldest edit first.
    undo: VecDeque<Input>,
    /// Kind of the last edit. Consecutive edits of the same kind are undone together.
    last_edit: Option<Edit>,
}

/// Kind of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// Typing the letters of a word.
    Type,
    /// Deleting single letters.
    Erase,
    /// Any larger edit.
    Other,
}

impl Field {
    /// Returns a field that contains `text` and has focus.
    pub(crate) fn edited(text: &str) -> Self {
        Self { input: Input::new(text.to_owned()), is_edited: true, ..Self::default() }
    }

    pub(crate) fn value(&self) -> &str {
        self.input.value()
    }

    /// Replaces the text and moves the caret to its end.
    pub(crate) fn set(&mut self, text: &str) {
        if self.value() != text {
            self.remember(Edit::Other);
            self.input = Input::new(text.to_owned());
        }
    }

    /// Undoes the last edit. Returns false if there is nothing to undo.
    pub(crate) fn undo(&mut self) -> bool {
        self.last_edit = None;
        let Some(before) = self.undo.pop_back() else { return false };
        self.input = before;
        true
    }

    /// Stores the text and the caret for [`Self::undo`], unless `edit` continues the previous
    /// edit.
    fn remember(&mut self, edit: Edit) {
        let is_continued = edit != Edit::Other && self.last_edit == Some(edit);
        self.last_edit = Some(edit);
        if is_continued {
            return;
        }
        if self.undo.len() == UNDO_MAX {
            self.undo.pop_front();
        }
        self.undo.push_back(self.input.clone());
    }

    /// Returns the first visible column, if the field is `width` columns wide and the caret is
    /// visible.
    pub(crate) fn scroll(&self, width: usize) -> usize {
        self.input.visual_scroll(width)
    }

    /// Returns the column of the caret, counted from the start of the text.
    pub(crate) fn cursor_column(&self) -> usize {
        self.input.visual_cursor()
    }

    /// Returns true if the field has focus.
    pub(crate) const fn is_edited(&self) -> bool {
        self.is_edited
    }

    /// Focuses the field.
    pub(crate) const fn edit(&mut self) {
        self.is_edited = true;
    }

    /// Ends editing. The text does not change.
    pub(crate) const fn confirm(&mut self) {
        self.is_edited = false;
    }

    /// Ends editing and clears the text. Returns false if the field had neither focus nor text.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.is_edited || !self.value().is_empty();
        self.set("");
        self.is_edited = false;
        was
    }

    /// Handles a key press. Returns true if the press changed the text or moved the caret.
    pub(crate) fn press(&mut self, chord: Chord) -> bool {
        let request = match (chord.code, chord.is_ctrl) {
            // Terminals send the same byte for Ctrl with each of these three keys.
            (KeyCode::Char('_' | '/' | '7'), true) => return self.undo(),
            (KeyCode::Left, true) => InputRequest::GoToPrevWord,
            (KeyCode::Right, true) => InputRequest::GoToNextWord,
            (KeyCode::Left, false) => InputRequest::GoToPrevChar,
            (KeyCode::Right, false) => InputRequest::GoToNextChar,
            (KeyCode::Home, _) | (KeyCode::Char('a'), true) => InputRequest::GoToStart,
            (KeyCode::End, _) | (KeyCode::Char('e'), true) => InputRequest::GoToEnd,
            (KeyCode::Backspace, false) => InputRequest::DeletePrevChar,
            (KeyCode::Delete, _) => InputRequest::DeleteNextChar,
            (KeyCode::Char('w') | KeyCode::Backspace, true) => InputRequest::DeletePrevWord,
            (KeyCode::Char('u'), true) => InputRequest::DeleteFromStart,
            (KeyCode::Char('k'), true) => InputRequest::DeleteTillEnd,
            _ => match chord.letter() {
                Some(letter) => return self.insert(letter),
                None => return false,
            },
        };
        self.apply(request)
    }

    /// Applies `request`. Returns true if the request changed the text or moved the caret.
    fn apply(&mut self, request: InputRequest) -> bool {
        let edit = match request {
            InputRequest::InsertChar(letter) if !letter.is_whitespace() => Edit::Type,
            InputRequest::DeletePrevChar | InputRequest::DeleteNextChar => Edit::Erase,
            _ => Edit::Other,
        };
        let before = self.input.clone();
        let Some(change) = self.input.handle(request) else { return false };
        if change.value {
            let after = std::mem::replace(&mut self.input, before);
            self.remember(edit);
            self.input = after;
        } else {
            self.last_edit = None;
        }
        true
    }

    /// Inserts a pasted text. Line breaks and tabs become spaces, and other control characters are
    /// removed. Returns true if the text has changed.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        let room = CHARS_MAX.saturating_sub(self.value().len());
        let text: String = text
            .trim_end_matches(['\r', '\n'])
            .replace("\r\n", "\n")
            .chars()
            .map(|letter| if matches!(letter, '\r' | '\n' | '\t') { ' ' } else { letter })
            .filter(|letter| !letter.is_control())
            .take(room)
            .collect();
        let cursor = self.input.cursor();
        let before = self.value().chars().take(cursor);
        let after = self.value().chars().skip(cursor);
        let whole: String = before.chain(text.chars()).chain(after).collect();
        let pasted = Input::new(whole).with_cursor(cursor + text.chars().count());
        if !text.is_empty() {
            self.remember(Edit::Other);
            self.input = pasted;
        }
        !text.is_empty()
    }

    fn insert(&mut self, letter: char) -> bool {
        // The length in bytes is at least the number of characters, so this limits the characters,
        // too.
        self.value().len() < CHARS_MAX && self.apply(InputRequest::InsertChar(letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(keys: &str, n_undone: usize, want: &str) {
        let mut field = Field::edited("");
        for key in keys.split(' ') {
            field.press(Chord::named(key).unwrap());
        }
        for _ in 0..n_undone {
            field.undo();
        }
        assert_eq!(field.value(), want, "{keys}, {n_undone} times");
    }

    #[test]
    fn undo_reverts_typed_words_and_deletions() {
        let keys = "a b space c d backspace backspace x";
        for (n_undone, want) in
            [(0, "ab x"), (1, "ab "), (2, "ab cd"), (3, "ab "), (4, "ab"), (5, ""), (6, "")]
        {
            check(keys, n_undone, want);
        }
        check("a b ctrl-u", 1, "ab");
        check("a left b", 1, "a");
        check("a b ctrl-_", 0, "");
    }

    #[test]
    fn pasted_line_breaks_become_spaces() {
        let mut field = Field::edited("");
        field.paste("with\rnew\r\nlines\n");
        assert_eq!(field.value(), "with new lines");
    }

    #[test]
    fn undo_reverts_pasted_and_cleared_text() {
        let mut field = Field::edited("old");
        field.paste(" new");
        field.clear();
        assert!(field.undo());
        assert_eq!(field.value(), "old new");
        assert!(field.undo() && !field.undo());
        assert_eq!(field.value(), "old");
    }
}
