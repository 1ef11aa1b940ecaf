//! Answers of the terminal, which come among the keys: told apart from what a person typed.
//!
//! A terminal answers the question for its background with `ESC ] 11;rgb:1111/1313/1a1a ESC \`,
//! whenever it likes to. What reads keys takes that for `Alt-]`, letters and `Alt-\`. The letters
//! are held back as long as they may be such an answer, and given back if they turn out not to be.
//! Where the answer arrives in pieces, an escape at the end of one is taken for the key of that name.

use crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What every answer begins with.
const START: &str = "11;rgb:";

/// The longest answer: three numbers of four digits.
const LENGTH_MAX: usize = START.len() + 3 * 5;

/// Keys that may be an answer.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    held: Vec<TermEvent>,
    text: String,
    /// An answer that comes in pieces may be parted after an escape, which then is a key by itself.
    is_after_escape: bool,
    /// Whether the rest of an answer that was parted in its end is still to come.
    is_end_due: bool,
}

/// What a key is to an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Start,
    Letter(char),
    End,
    Escape,
    Foreign,
    NoKey,
}

impl Replies {
    /// Takes what the terminal sent; returns the background, if it was told, and what a person did.
    pub(crate) fn take(&mut self, event: TermEvent) -> (Option<[u8; 3]>, Vec<TermEvent>) {
        let part = part(&event);
        // A terminal may be resized while it answers.
        if part == Part::NoKey {
            return (None, vec![event]);
        }
        let is_after_escape = std::mem::replace(&mut self.is_after_escape, part == Part::Escape);
        if std::mem::take(&mut self.is_end_due) && part == Part::Letter('\\') {
            return (None, Vec::new());
        }
        match (part, self.held.is_empty()) {
            (Part::Letter(']'), true) if is_after_escape => {
                self.held.push(event);
                (None, Vec::new())
            }
            (Part::Start, true) => {
                self.held.push(event);
                (None, Vec::new())
            }
            (_, true) => (None, vec![event]),
            (Part::Letter(letter), false) if self.goes_on(letter) => {
                self.text.push(letter);
                self.held.push(event);
                (None, Vec::new())
            }
            (end @ (Part::End | Part::Escape), false) if self.text.starts_with(START) => {
                self.is_end_due = end == Part::Escape;
                self.held.clear();
                (background(&std::mem::take(&mut self.text)), Vec::new())
            }
            _ => {
                self.text.clear();
                let mut events = std::mem::take(&mut self.held);
                events.push(event);
                (None, events)
            }
        }
    }

    fn goes_on(&self, letter: char) -> bool {
        match START.chars().nth(self.text.len()) {
            Some(wanted) => letter == wanted,
            None => self.text.len() < LENGTH_MAX && (letter.is_ascii_hexdigit() || letter == '/'),
        }
    }
}

fn part(event: &TermEvent) -> Part {
    let TermEvent::Key(KeyEvent { code, modifiers, kind, .. }) = event else {
        return Part::NoKey;
    };
    if *kind == KeyEventKind::Release {
        return Part::NoKey;
    }
    let (is_alt, is_ctrl) =
        (modifiers.contains(KeyModifiers::ALT), modifiers.contains(KeyModifiers::CONTROL));
    match code {
        KeyCode::Esc if !is_alt => Part::Escape,
        KeyCode::Char(']') if is_alt => Part::Start,
        KeyCode::Char('\\') if is_alt => Part::End,
        // The other end there is: BEL, which is what control and G send.
        KeyCode::Char('g') if is_ctrl => Part::End,
        KeyCode::Char(letter) if !is_alt && !is_ctrl => Part::Letter(*letter),
        _ => Part::Foreign,
    }
}

/// The color that an answer names, of one to four digits a part.
fn background(text: &str) -> Option<[u8; 3]> {
    let mut parts = text.strip_prefix(START)?.split('/').map(|digits| {
        let high = match digits.len() {
            1 => u8::from_str_radix(digits, 16).ok()? * 0x11,
            2..=4 => u8::from_str_radix(digits.get(..2)?, 16).ok()?,
            _ => return None,
        };
        Some(high)
    });
    let color = [parts.next()??, parts.next()??, parts.next()??];
    Some(color)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: char, modifiers: KeyModifiers) -> TermEvent {
        TermEvent::Key(KeyEvent::new(KeyCode::Char(code), modifiers))
    }

    fn sent(text: &str) -> Vec<TermEvent> {
        let mut is_alt = false;
        let mut events = Vec::new();
        for letter in text.chars() {
            match letter {
                '\x1b' => is_alt = true,
                '|' => {
                    is_alt = false;
                    events.push(TermEvent::Key(KeyCode::Esc.into()));
                }
                '#' => events.push(TermEvent::Resize(3, 4)),
                '\x07' => events.push(key('g', KeyModifiers::CONTROL)),
                _ => {
                    let alt = if is_alt { KeyModifiers::ALT } else { KeyModifiers::NONE };
                    events.push(key(letter, alt));
                    is_alt = false;
                }
            }
        }
        events
    }

    #[track_caller]
    fn check(text: &str, want: Option<[u8; 3]>, typed: &str) {
        let (mut replies, mut told, mut passed) = (Replies::default(), None, Vec::new());
        for event in sent(text) {
            let (background, events) = replies.take(event);
            told = told.or(background);
            passed.extend(events);
        }
        assert_eq!((told, passed), (want, sent(typed)), "{text:?}");
    }

    #[test]
    fn an_answer_is_taken_out_of_what_is_typed() {
        check("j\x1b]11;rgb:1111/1313/1a1a\x1b\\k", Some([0x11, 0x13, 0x1a]), "jk");
        check("\x1b]11;rgb:ff/fb/fd\x07", Some([0xff, 0xfb, 0xfd]), "");
        check("\x1b]11;rgb:f/0/8\x1b\\", Some([0xff, 0, 0x88]), "");
        // A bar stands for an escape after which nothing came for a while.
        check("j|]11;rgb:f/0/8|\\k", Some([0xff, 0, 0x88]), "j|k");
        // A hash stands for another size.
        check("|#]11;#rgb:f/#0/8|#\\k", Some([0xff, 0, 0x88]), "|####k");
    }

    #[test]
    fn what_is_no_answer_is_what_somebody_typed() {
        check("\x1b]12", None, "\x1b]12");
        check("\x1b]11;q", None, "\x1b]11;q");
        check("11;rgb:1/1/1", None, "11;rgb:1/1/1");
        check("|]x|\\", None, "|]x|\\");
    }
}
