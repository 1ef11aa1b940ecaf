//! Wraps long texts, and highlights matches of a search.

use std::ops::Range;

use ratatui::prelude::*;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::state::pattern::Pattern;

/// Breaks `text` into lines of at most `width` columns. Breaks at spaces. A word that is longer
/// than a line is broken, too.
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

/// Returns the spans of `text`. Matches of `wanted` have the style `hit`.
pub(crate) fn highlighted(
    text: &str,
    style: Style,
    wanted: &Pattern,
    hit: Style,
) -> Vec<Span<'static>> {
    let part = |range: Range<usize>, style| {
        Span::styled(text.get(range).unwrap_or_default().to_owned(), style)
    };
    let mut spans = Vec::new();
    let mut from = 0;
    while let Some((start, length)) = wanted.find_at(text, from) {
        spans.extend([part(from..start, style), part(start..start + length, hit)]);
        from = start + length;
    }
    spans.push(part(from..text.len(), style));
    spans
}

/// Returns the characters of a line, each with its style and its width.
pub(crate) fn letters<'a>(line: &'a Line<'_>) -> impl Iterator<Item = (char, Style, usize)> + 'a {
    line.spans.iter().flat_map(|span| {
        span.content.chars().map(|letter| (letter, span.style, letter.width().unwrap_or(0)))
    })
}

/// Breaks `line` into lines of `width` columns, regardless of words. All lines except the first
/// begin with `indent`.
pub(crate) fn wrapped_line(line: &Line<'_>, width: usize, indent: &str) -> Vec<Line<'static>> {
    let mut parts = vec![Line::default()];
    let mut column = 0;
    for (letter, style, columns) in letters(line) {
        if column + columns > width && column > 0 {
            parts.push(Line::from(indent.to_owned()));
            column = indent.len();
        }
        if let Some(part) = parts.last_mut() {
            push(part, letter, style);
        }
        column += columns;
    }
    parts
}

/// Appends a character to a line.
pub(crate) fn push(line: &mut Line<'static>, letter: char, style: Style) {
    match line.spans.last_mut().filter(|span| span.style == style) {
        Some(span) => span.content.to_mut().push(letter),
        None => line.push_span(Span::styled(letter.to_string(), style)),
    }
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
