//! Filters the terminal's replies out of the key input.
//!
//! A terminal replies to the query for its background with `ESC ] 11;rgb:1111/1313/1a1a ESC \`, at any
//! time. The key parser reads that as `Alt-]`, letters and `Alt-\`. Keys are held back while they can
//! belong to a reply and are released otherwise. If a reply arrives in parts, the parser reads an escape
//! at the end of a part as the escape key.

use crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Start of every reply.
const START: &str = "11;rgb:";

/// Maximum length of a reply, with three numbers of four digits.
const LENGTH_MAX: usize = START.len() + 3 * 5;

/// Held keys that can be part of a reply.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    held: Vec<TermEvent>,
    text: String,
    /// True after an escape key, which can be the start of a split reply.
    is_after_escape: bool,
    /// True if a reply was split within its end, so that its last character is missing.
    is_end_due: bool,
}

/// Role that a key can have in a reply.
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
    /// Returns the background if `event` completes a reply, and the events that do not belong to a
    /// reply.
    pub(crate) fn filter(&mut self, event: TermEvent) -> (Option<[u8; 3]>, Vec<TermEvent>) {
        let part = part_of(&event);
        // Other events, such as a resize, can arrive within a reply.
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
            (Part::Letter(letter), false) if self.accepts(letter) => {
                self.text.push(letter);
                self.held.push(event);
                (None, Vec::new())
            }
            (end @ (Part::End | Part::Escape), false) if self.text.starts_with(START) => {
                self.is_end_due = end == Part::Escape;
                self.held.clear();
                (parse_color(&std::mem::take(&mut self.text)), Vec::new())
            }
            _ => {
                self.text.clear();
                let mut events = std::mem::take(&mut self.held);
                events.push(event);
                (None, events)
            }
        }
    }

    /// Returns true if `letter` continues the reply.
    fn accepts(&self, letter: char) -> bool {
        match START.chars().nth(self.text.len()) {
            Some(wanted) => letter == wanted,
            None => self.text.len() < LENGTH_MAX && (letter.is_ascii_hexdigit() || letter == '/'),
        }
    }
}

fn part_of(event: &TermEvent) -> Part {
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
        // The alternative end is BEL, which is also `Ctrl-G`.
        KeyCode::Char('g') if is_ctrl => Part::End,
        KeyCode::Char(letter) if !is_alt && !is_ctrl => Part::Letter(*letter),
        _ => Part::Foreign,
    }
}

/// Parses the color in a reply, with one to four hexadecimal digits per channel.
fn parse_color(text: &str) -> Option<[u8; 3]> {
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

    /// Returns the events of `text`, in which a bar is the escape key and a hash a resize.
    fn keys_of(text: &str) -> Vec<TermEvent> {
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
        let mut replies = Replies::default();
        let (mut color, mut passed) = (None, Vec::new());
        for event in keys_of(text) {
            let (background, events) = replies.filter(event);
            color = color.or(background);
            passed.extend(events);
        }
        assert_eq!((color, passed), (want, keys_of(typed)), "{text:?}");
    }

    #[test]
    fn reply_is_filtered_out_of_keys() {
        check("j\x1b]11;rgb:1111/1313/1a1a\x1b\\k", Some([0x11, 0x13, 0x1a]), "jk");
        check("\x1b]11;rgb:ff/fb/fd\x07", Some([0xff, 0xfb, 0xfd]), "");
        check("\x1b]11;rgb:f/0/8\x1b\\", Some([0xff, 0, 0x88]), "");
        check("j|]11;rgb:f/0/8|\\k", Some([0xff, 0, 0x88]), "j|k");
        check("|#]11;#rgb:f/#0/8|#\\k", Some([0xff, 0, 0x88]), "|####k");
    }

    #[test]
    fn keys_that_do_not_belong_to_a_reply_are_returned() {
        check("\x1b]12", None, "\x1b]12");
        check("\x1b]11;q", None, "\x1b]11;q");
        check("11;rgb:1/1/1", None, "11;rgb:1/1/1");
        check("|]x|\\", None, "|]x|\\");
    }
}
