//! Counts the rows of a download while it arrives. Line feeds and braces within strings are ignored.

use super::elements::{Elements, ElementsError};

/// Number of rows that have arrived so far.
#[derive(Debug)]
pub struct RowCounter(Seen);

#[derive(Debug)]
enum Seen {
    /// CSV: counts line feeds outside of quotes. The first line is the header.
    Csv { n_lines: u64, is_quoted: bool },
    /// NDJSON: counts line feeds, which strings cannot contain.
    Ndjson { n_lines: u64 },
    /// JSON: counts the objects of an array.
    Json { n_objects: u64, elements: Elements },
    /// A format in which rows cannot be counted.
    Unknown,
}

impl RowCounter {
    /// Returns a counter for a download in the format `output`.
    #[must_use]
    pub fn new(output: &str) -> Self {
        Self(match output {
            "csv" => Seen::Csv { n_lines: 0, is_quoted: false },
            "ndjson" => Seen::Ndjson { n_lines: 0 },
            "json" => Seen::Json { n_objects: 0, elements: Elements::default() },
            _ => Seen::Unknown,
        })
    }

    /// Returns the number of rows so far, or `None` if they cannot be counted.
    #[must_use]
    pub const fn n_rows(&self) -> Option<u64> {
        match &self.0 {
            Seen::Csv { n_lines, .. } => Some(n_lines.saturating_sub(1)),
            Seen::Ndjson { n_lines } => Some(*n_lines),
            Seen::Json { n_objects, .. } => Some(*n_objects),
            Seen::Unknown => None,
        }
    }

    /// Counts the rows that are completed by `bytes`, the next part of the download.
    pub fn count(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Seen::Csv { n_lines, is_quoted } => {
                for byte in bytes {
                    // A quote within a string is doubled, so it changes the state twice.
                    *is_quoted ^= *byte == b'"';
                    *n_lines += u64::from(*byte == b'\n' && !*is_quoted);
                }
            }
            Seen::Ndjson { n_lines } => {
                *n_lines += bytes.split(|byte| *byte == b'\n').skip(1).count() as u64;
            }
            Seen::Json { n_objects, elements } => {
                let fed = elements.feed(bytes, |_| {
                    *n_objects += 1;
                    Ok::<_, ElementsError>(())
                });
                if fed.is_err() {
                    self.0 = Seen::Unknown;
                }
            }
            Seen::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the count does not depend on how the bytes are split.
    #[track_caller]
    fn check(output: &str, text: &str, want: u64) {
        for length in 1..=text.len() {
            let mut counter = RowCounter::new(output);
            text.as_bytes().chunks(length).for_each(|bytes| counter.count(bytes));
            assert_eq!(counter.n_rows(), Some(want), "{text:?} by {length}");
        }
    }

    #[test]
    fn line_feeds_and_braces_in_strings_are_not_counted_as_rows() {
        check("csv", "t,note\n1,\"a\nb \"\"c\"\"\n\"\n2,\n", 2);
        check("csv", "t,note\n", 0);
        check("ndjson", "{\"note\":\"a\\nb\"}\n{}\n", 2);
        check("json", r#"[{"note":"}\\\"}{"},{"values":{"x":1}},{}]"#, 3);
        check("json", "[]", 0);
        assert_eq!(RowCounter::new("parquet").n_rows(), None);
    }
}
