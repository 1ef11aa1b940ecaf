//! The viewer of a result group's output: scroll position, horizontal offset and search.

use std::iter;

use serde_json::Value;

use crate::state::pattern::Pattern;

/// The longest text that is formatted as JSON: a longer one would take longer than a frame may.
const PRETTY_BYTES_MAX: usize = 256 * 1024;

/// Columns that one horizontal step scrolls.
const STEP_COLUMNS: isize = 8;

/// The maximum horizontal offset, in columns.
const COLUMNS_MAX: usize = 1_000_000;

/// Which part of a text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// From this line on, counted from 0.
    FromTop(usize),
    /// This many lines before the end: 0 shows the end.
    FromEnd(usize),
}

impl Default for Position {
    fn default() -> Self {
        Self::FromTop(0)
    }
}

impl Position {
    /// The first line shown of `n_lines` where `n_fit` fit: the last line stays in view.
    pub(crate) fn first(self, n_lines: usize, n_fit: usize) -> usize {
        let last = n_lines.saturating_sub(n_fit.max(1));
        match self {
            Self::FromTop(line) => line.min(last),
            Self::FromEnd(n_below) => last.saturating_sub(n_below),
        }
    }

    /// The position `by` lines further, in a text of `n_lines` of which about `page` are in view.
    pub(crate) fn moved(self, by: isize, n_lines: usize, page: usize) -> Self {
        match self {
            Self::FromTop(line) => {
                // Beyond the end nothing moves, so the way back begins at the end.
                let line = if by < 0 { line.min(n_lines.saturating_sub(page)) } else { line };
                Self::FromTop(line.saturating_add_signed(by).min(n_lines.saturating_sub(1)))
            }
            Self::FromEnd(n_below) => {
                Self::FromEnd(n_below.saturating_add_signed(by.saturating_neg()).min(n_lines))
            }
        }
    }
}

/// The horizontal offset, in columns, `by` steps further to the right.
pub(crate) fn shifted(n_hidden: usize, by: isize) -> usize {
    n_hidden.saturating_add_signed(by.saturating_mul(STEP_COLUMNS)).min(COLUMNS_MAX)
}

/// `text` formatted as JSON, if it is an object or a list and not too long.
pub(crate) fn pretty(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > PRETTY_BYTES_MAX || !text.starts_with(['{', '[']) {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    serde_json::to_string_pretty(&value).ok()
}

/// The next line of `text` after `from`, or before it, that matches `wanted`; wraps around.
pub(crate) fn find(
    text: &str,
    wanted: &Pattern,
    from: Option<usize>,
    is_forward: bool,
) -> Option<usize> {
    let found: Vec<usize> = (0..)
        .zip(text.lines())
        .filter(|(_, line)| wanted.matches(&[line], &iter::empty()))
        .map(|(idx, _)| idx)
        .collect();
    let next = match (from, is_forward) {
        (None, true) => found.first(),
        (None, false) => found.last(),
        (Some(from), true) => found.iter().find(|line| **line > from).or(found.first()),
        (Some(from), false) => found.iter().rfind(|line| **line < from).or(found.last()),
    };
    next.copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_stops_at_the_end_and_returns_at_once() {
        let end = Position::FromEnd(0);
        assert_eq!(end.first(100, 10), 90);
        assert_eq!(end.moved(-1, 100, 10).first(100, 10), 89);
        assert_eq!(end.moved(5, 100, 10), end);
        let beyond = Position::FromTop(0).moved(1_000, 100, 10);
        assert_eq!(beyond.first(100, 10), 90);
        assert_eq!(beyond.moved(-1, 100, 10).first(100, 10), 89, "no dead presses");
        assert_eq!(Position::FromTop(3).first(2, 10), 0);
    }

    #[test]
    fn only_json_is_formatted() {
        assert_eq!(pretty("{\"a\":[1]}").as_deref(), Some("{\n  \"a\": [\n    1\n  ]\n}"));
        assert_eq!(pretty("12"), None);
        assert_eq!(pretty("{not json}"), None);
    }

    #[test]
    fn searches_wrap_around_in_both_directions() {
        let find = |wanted: &str, from, is_forward| {
            find("Mean 1\nx\nmean 2", &Pattern::parse_phrase(wanted), from, is_forward)
        };
        assert_eq!(find("mean", None, true), Some(0));
        assert_eq!(find("mean", Some(0), true), Some(2));
        assert_eq!(find("mean", Some(2), true), Some(0));
        assert_eq!(find("mean", Some(0), false), Some(2));
        assert_eq!(find("nowhere", None, true), None);
        assert_eq!(find("n.2$", None, true), Some(2));
        assert_eq!(find("ean 2", None, true), Some(2), "a phrase");
        assert_eq!(find("!mean", None, true), Some(1));
    }
}
