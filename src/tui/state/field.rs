//! One line of text that is edited.

use crossterm::event::KeyCode;
use tui_input::{Input, InputRequest};

use crate::keymap::Chord;

/// The longest text taken, in characters. A row of a dataset pasted as standard input is far less.
const CHARS_MAX: usize = 64 * 1024;

/// A line of text with a caret.
#[derive(Debug, Clone, Default)]
pub(crate) struct Field {
    input: Input,
    is_edited: bool,
}

impl Field {
    /// A field that holds `text` and has focus.
    pub(crate) fn edited(text: &str) -> Self {
        Self { input: Input::new(text.to_owned()), is_edited: true }
    }

    pub(crate) fn value(&self) -> &str {
        self.input.value()
    }

    /// Puts another text in, with the caret at its end.
    pub(crate) fn set(&mut self, text: &str) {
        self.input = Input::new(text.to_owned());
    }

    /// The first column to be shown in `width` columns so that the caret is among them.
    pub(crate) fn scroll(&self, width: usize) -> usize {
        self.input.visual_scroll(width)
    }

    /// The caret, in columns from the start.
    pub(crate) fn cursor_column(&self) -> usize {
        self.input.visual_cursor()
    }

    /// Whether the field has focus.
    pub(crate) const fn is_edited(&self) -> bool {
        self.is_edited
    }

    /// Gives the field focus.
    pub(crate) const fn edit(&mut self) {
        self.is_edited = true;
    }

    /// Takes focus from the field and keeps its text.
    pub(crate) const fn confirm(&mut self) {
        self.is_edited = false;
    }

    /// Takes focus from the field and clears its text; returns whether that changed anything.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.is_edited || !self.value().is_empty();
        self.is_edited = false;
        self.input.reset();
        was
    }

    /// Takes a key; returns whether that changed the text or moved the caret.
    pub(crate) fn press(&mut self, chord: Chord) -> bool {
        let request = match (chord.code, chord.is_ctrl) {
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
        self.input.handle(request).is_some()
    }

    /// Takes a pasted text: line breaks and tabs become spaces, other control characters nothing.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        let room = CHARS_MAX.saturating_sub(self.value().len());
        let text: String = text
            .trim_end_matches(['\r', '\n'])
            .chars()
            .map(|letter| if matches!(letter, '\n' | '\t') { ' ' } else { letter })
            .filter(|letter| !letter.is_control())
            .take(room)
            .collect();
        let cursor = self.input.cursor();
        let before = self.value().chars().take(cursor);
        let after = self.value().chars().skip(cursor);
        let whole: String = before.chain(text.chars()).chain(after).collect();
        self.input = Input::new(whole).with_cursor(cursor + text.chars().count());
        !text.is_empty()
    }

    fn insert(&mut self, letter: char) -> bool {
        // Bytes are never fewer than characters, so this errs on the safe side.
        self.value().len() < CHARS_MAX
            && self.input.handle(InputRequest::InsertChar(letter)).is_some()
    }
}
