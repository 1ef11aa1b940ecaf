//! Where the standard input of a run comes from: typed, a file of this machine, rows of a dataset.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

/// The longest span of rows as they were ingested, by document 2.
const SPAN_MAX: Duration = Duration::from_hours(24);

/// The most rows by number: a page of the dataset service.
const ROWS_MAX: u32 = 10_000;

/// The source of standard input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Input {
    /// The request holds it.
    #[default]
    Typed,
    /// A file of this machine, read when the run is sent.
    File(String),
    /// The newest rows of a dataset when the run is sent, a JSON object a line.
    Rows {
        /// The dataset's name.
        dataset: String,
        window: Window,
    },
}

/// How many of the newest rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Window {
    /// Those of so long.
    Span(Duration),
    Count(u32),
}

/// The kinds of input, as the form offers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub(crate) enum Source {
    /// The field below holds it.
    #[default]
    Typed,
    /// The field below names a file.
    File,
    /// The field below names a dataset and how much of it.
    Rows,
}

impl Input {
    /// What `text` means as input from `source`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(source: Source, text: &str) -> Result<Self, String> {
        let text = text.trim();
        match source {
            Source::Typed => Ok(Self::Typed),
            Source::File if text.is_empty() => Err("a file path is required".to_owned()),
            Source::File => Ok(Self::File(text.to_owned())),
            Source::Rows => {
                let (dataset, window) = text.rsplit_once(char::is_whitespace).unwrap_or((text, ""));
                if dataset.is_empty() || window.is_empty() {
                    return Err("a dataset and a window: NAME 24h, or NAME 120 for rows".to_owned());
                }
                let dataset = dataset.trim().to_owned();
                Ok(Self::Rows { dataset, window: Window::read(window)? })
            }
        }
    }

    /// The kind of it, and the text that stands for it in the form; none for typed input.
    pub(crate) fn text(&self) -> Option<(Source, String)> {
        match self {
            Self::Typed => None,
            Self::File(path) => Some((Source::File, path.clone())),
            Self::Rows { dataset, window } => {
                Some((Source::Rows, format!("{dataset} {}", window.text())))
            }
        }
    }
}

impl Window {
    fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a window: a span up to 24h, or a number of rows");
        if let Ok(n_rows) = text.parse::<u32>() {
            return if (1..=ROWS_MAX).contains(&n_rows) {
                Ok(Self::Count(n_rows))
            } else {
                Err(format!("1 to {ROWS_MAX} rows"))
            };
        }
        let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let seconds: u64 = match text.strip_prefix(number) {
            Some("s") => 1,
            Some("m") => 60,
            Some("h") => 3_600,
            Some("d") => 86_400,
            _ => return Err(wrong()),
        };
        let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(seconds));
        let span = Duration::from_secs(seconds.ok_or_else(wrong)?);
        if span.is_zero() || span > SPAN_MAX { Err(wrong()) } else { Ok(Self::Span(span)) }
    }

    fn text(self) -> String {
        match self {
            Self::Count(n_rows) => n_rows.to_string(),
            Self::Span(span) => match span.as_secs() {
                seconds if seconds % 3_600 == 0 => format!("{}h", seconds / 3_600),
                seconds if seconds % 60 == 0 => format!("{}m", seconds / 60),
                seconds => format!("{seconds}s"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<(&str, Window)>) {
        let got = Input::read(Source::Rows, text);
        let Some((dataset, window)) = want else {
            return assert!(got.is_err(), "{got:?}");
        };
        let input = Input::Rows { dataset: dataset.to_owned(), window };
        assert_eq!(got.as_ref(), Ok(&input));
        let (source, text) = input.text().unwrap();
        assert_eq!(Input::read(source, &text), got, "its text means the same");
    }

    #[test]
    fn rows_are_a_name_and_a_window() {
        let hours = |n| Window::Span(Duration::from_hours(n));
        check("btc 24h", Some(("btc", hours(24))));
        check(" my set  90m ", Some(("my set", Window::Span(Duration::from_mins(90)))));
        check("btc 120", Some(("btc", Window::Count(120))));
        check("btc 1d", Some(("btc", hours(24))));
        for text in ["", "btc", "btc 25h", "btc 0", "btc 0m", "btc 10001", "btc 3x", "btc 1é"] {
            check(text, None);
        }
    }

    #[test]
    fn a_file_needs_a_name() {
        assert!(Input::read(Source::File, " ").is_err());
        assert_eq!(Input::read(Source::File, "a b.csv"), Ok(Input::File("a b.csv".to_owned())));
        assert_eq!(Input::read(Source::Typed, ""), Ok(Input::Typed));
    }
}
