//! Filters the terminal's replies out of the key input.
//!
//! A terminal replies to the query for its background color with `ESC ] 11;rgb:1111/1313/1a1a ESC \`, at
//! any time. The key parser reads this as the keys `Alt-]`, letters and `Alt-\`. Keys are held back
//! while they can belong to a reply. Keys that turn out not to belong to a reply are released. If a
//! reply arrives in parts, the parser reads an escape character at the end of a part as the escape key.

use crossterm::event::{Event as TermEvent, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Start of every reply.
const START: &str = "\x1b]11;rgb:";

/// Maximum length of an incomplete reply after [`START`]: three numbers of four digits, two
/// slashes and an escape character.
const REST_MAX: usize = 3 * 4 + 2 + 1;

/// Keys that are held back, since they can be part of a reply.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    held: Vec<TermEvent>,
    /// Characters that the terminal sent for the held keys. Can begin with an escape key, which is
    /// not held.
    text: String,
}

impl Replies {
    /// Returns the background color if `event` completes a reply, and the events that are not part
    /// of a reply.
    pub(crate) fn filter(&mut self, event: TermEvent) -> (Option<[u8; 3]>, Vec<TermEvent>) {
        // An event that is no key, such as a resize, can arrive within a reply. Such an event is passed
        // on.
        let Some(text) = text_of(&event) else { return (None, vec![event]) };
        if self.held.is_empty() && text == "\x1b" {
            // The escape key is not held back, because it is usually pressed by the user. The key is
            // only remembered as the possible start of a reply.
            self.text = text;
            return (None, vec![event]);
        }
        if self.held.is_empty() && text.starts_with('\x1b') {
            // The event brings its own escape character, so an earlier escape key was pressed by
            // the user.
            self.text.clear();
        }
        self.text.push_str(&text);
        self.held.push(event);
        let rest = self.text.strip_prefix(START);
        // Some terminals end the reply with BEL.
        let mut ends = ["\x1b\\", "\x07"].into_iter();
        if let Some(color) = ends.find_map(|end| rest?.strip_suffix(end)) {
            let color = parse_color(color);
            *self = Self::default();
            return (color, Vec::new());
        }
        let is_digit = |letter: char| letter.is_ascii_hexdigit() || letter == '/';
        let is_start = match rest {
            Some(rest) => {
                rest.len() <= REST_MAX && rest.trim_end_matches('\x1b').chars().all(is_digit)
            }
            None => START.starts_with(&self.text),
        };
        if is_start {
            return (None, Vec::new());
        }
        (None, std::mem::take(self).held)
    }
}

/// Returns the characters that the terminal sends for a key, or `None` for other events.
fn text_of(event: &TermEvent) -> Option<String> {
    let TermEvent::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    let is_alt = modifiers.contains(KeyModifiers::ALT);
    let is_ctrl = modifiers.contains(KeyModifiers::CONTROL);
    match code {
        _ if *kind == KeyEventKind::Release => None,
        KeyCode::Esc if !is_alt => Some("\x1b".to_owned()),
        KeyCode::Char('g') if is_ctrl => Some("\x07".to_owned()),
        KeyCode::Char(letter) if is_alt => Some(format!("\x1b{letter}")),
        KeyCode::Char(letter) if !is_ctrl => Some(letter.to_string()),
        // Stands for all other keys. No reply contains a NUL.
        _ => Some("\0".to_owned()),
    }
}

/// Parses the color in a reply, with one to four hexadecimal digits per channel.
fn parse_color(text: &str) -> Option<[u8; 3]> {
    let mut parts = text.split('/').map(|digits| match digits.len() {
        1 => Some(u8::from_str_radix(digits, 16).ok()? * 0x11),
        2..=4 => u8::from_str_radix(digits.get(..2)?, 16).ok(),
        _ => None,
    });
    Some([parts.next()??, parts.next()??, parts.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: char, modifiers: KeyModifiers) -> TermEvent {
        TermEvent::Key(KeyEvent::new(KeyCode::Char(code), modifiers))
    }

    /// Returns the events that `text` stands for: a bar is the escape key, a hash is a resize.
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
    fn terminal_reply_is_removed_from_the_keys() {
        check("j\x1b]11;rgb:1111/1313/1a1a\x1b\\k", Some([0x11, 0x13, 0x1a]), "jk");
        check("\x1b]11;rgb:ff/fb/fd\x07", Some([0xff, 0xfb, 0xfd]), "");
        check("\x1b]11;rgb:f/0/8\x1b\\", Some([0xff, 0, 0x88]), "");
        check("j|]11;rgb:f/0/8|\\k", Some([0xff, 0, 0x88]), "j|k");
        check("|\x1b]11;rgb:f/0/8\x1b\\k", Some([0xff, 0, 0x88]), "|k");
        check("|#]11;#rgb:f/#0/8|#\\k", Some([0xff, 0, 0x88]), "|####k");
    }

    #[test]
    fn keys_that_do_not_belong_to_a_terminal_reply_are_returned() {
        check("\x1b]12", None, "\x1b]12");
        check("\x1b]11;q", None, "\x1b]11;q");
        check("11;rgb:1/1/1", None, "11;rgb:1/1/1");
        check("|]x|\\", None, "|]x|\\");
    }
}
