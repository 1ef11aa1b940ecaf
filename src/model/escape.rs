//! Escapes characters of untrusted text that control a terminal, or that reorder or hide other text.
//!
//! Escapes exactly the [unprintable](is_unprintable) characters. Backslashes are not escaped, so
//! escaping is idempotent.

use std::borrow::Cow;

use crate::text::is_unprintable;

/// Escapes a single line of text, such as a name or a table cell: a line feed becomes `\n`, an ESC
/// `\u{1b}`.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, |_| false, push_default)
}

/// Escapes multi-line text, like [`escape_line`] but preserving line feeds and tabs.
#[must_use]
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| matches!(letter, '\n' | '\t'), push_default)
}

/// Escapes a serialized JSON document without changing its meaning: DEL becomes `\u007f`.
///
/// Line feeds and tabs are preserved, since serializers escape them in strings.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let push_units = |escaped: &mut String, letter: char| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            escaped.push_str("\\u");
            let digits = [12, 8, 4, 0].map(|shift| (u32::from(*unit) >> shift) & 0xf);
            escaped.extend(digits.into_iter().filter_map(|digit| char::from_digit(digit, 16)));
        }
    };
    escape(json, |letter| matches!(letter, '\n' | '\t'), push_units)
}

fn push_default(escaped: &mut String, letter: char) {
    escaped.extend(letter.escape_default());
}

fn escape(
    text: &str,
    is_kept: impl Fn(char) -> bool,
    push_escaped: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    let is_escaped = |letter: char| is_unprintable(letter) && !is_kept(letter);
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_escaped(letter) {
            push_escaped(&mut escaped, letter);
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_unprintable_characters_and_no_other_characters_are_escaped() {
        let ranges = [
            0x00..=0x1f,
            0x7f..=0x9f,
            0xad..=0xad,
            0x34f..=0x34f,
            0x61c..=0x61c,
            0x115f..=0x1160,
            0x17b4..=0x17b5,
            0x180b..=0x180f,
            0x200b..=0x200f,
            0x2028..=0x202e,
            0x2060..=0x206f,
            0x3164..=0x3164,
            0xfeff..=0xfeff,
            0xffa0..=0xffa0,
            0xfff0..=0xfffb,
            0x1bca0..=0x1bca3,
            0x1d173..=0x1d17a,
            0xe0000..=0xe00ff,
            0xe01f0..=0xe0fff,
        ];
        for letter in '\0'..=char::MAX {
            let want = ranges.iter().any(|range| range.contains(&u32::from(letter)));
            let text = letter.to_string();
            assert_eq!(escape_line(&text) != text, want, "{}", letter.escape_unicode());
            assert!(!escape_line(&text).contains(is_unprintable));
        }
    }

    #[test]
    fn line_feeds_are_escaped_only_in_single_lines() {
        let text = "a\x1b]52;c;eA==\x07\tb\nC:\\d \u{202e}é\r";
        let line = r"a\u{1b}]52;c;eA==\u{7}\tb\nC:\d \u{202e}é\r";
        assert_eq!(escape_line(text), line);
        assert_eq!(escape_line(line), line);
        assert_eq!(escape_lines(text), "a\\u{1b}]52;c;eA==\\u{7}\tb\nC:\\d \\u{202e}é\\r");
    }

    #[test]
    fn json_is_escaped_without_changing_its_meaning() {
        assert_eq!(
            escape_json("{\n\"a\":\"\u{7f}\u{9b}\u{202e}é\"}"),
            "{\n\"a\":\"\\u007f\\u009b\\u202eé\"}"
        );
    }
}
