//! Long texts in lines of a width.

use unicode_width::UnicodeWidthStr as _;

/// Breaks `text` into lines of at most `width` columns: at spaces, and in words that are longer
/// than a line.
pub(crate) fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width.max(1));
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let is_first = line.is_empty();
            if !is_first && line.width() + 1 + word.width() > width {
                lines.push(std::mem::take(&mut line));
            } else if !is_first {
                line.push(' ');
            }
            for letter in word.chars() {
                let columns = letter.to_string().width();
                if line.width() + columns > width && !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                }
                line.push(letter);
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, width: u16, want: &[&str]) {
        assert_eq!(wrapped(text, width), want);
    }

    #[test]
    fn lines_break_at_spaces_and_in_long_words() {
        check("one two three", 8, &["one two", "three"]);
        check("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]);
        check("日本語", 4, &["日本", "語"]);
        check("a\n\nb", 9, &["a", "", "b"]);
        check("", 9, &[]);
    }
}
