//! Lines of a text, and characters that names and descriptions must not contain.

/// Returns the line, counted from 1, of the byte at `at`.
#[must_use]
pub fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// Returns true if `letter` controls a terminal or affects adjacent characters instead of being visible:
/// C0 and C1 controls, line separators, annotations, and the characters that Unicode calls
/// `Default_Ignorable_Code_Point`, such as zero-width characters, fillers, direction marks and tags.
/// Variation selectors are accepted, since emoji and Japanese names contain them.
///
/// Services reject such characters in names and descriptions. Output of untrusted text escapes them.
#[must_use]
pub fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_are_counted_from_one() {
        assert_eq!([0, 1, 2, 9].map(|at| line_of("a\nb\n", at)), [1, 1, 2, 3]);
    }

    #[test]
    fn controls_and_invisible_characters_are_unprintable() {
        let unprintable = "\0\u{1b}\n\t\u{7f}\u{80}\u{9b}\u{9f}\u{200b}\u{200d}\u{200f}\u{202a}\u{202e}\u{2060}\u{2066}\u{2069}\u{feff}\u{61c}\u{2028}\u{fff9}\u{e0041}\u{ad}\u{34f}\u{115f}\u{206a}\u{3164}\u{ffa0}";
        for letter in unprintable.chars() {
            assert!(is_unprintable(letter), "{letter:?}");
        }
        for letter in
            " aé\u{a0}\u{200a}\u{2010}\u{202f}\u{205f}\u{301}\u{fe0f}\u{e0100}\u{65e5}\u{1f980}"
                .chars()
        {
            assert!(!is_unprintable(letter), "{letter:?}");
        }
    }
}
