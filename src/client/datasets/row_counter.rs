//! Counts the rows of a download as its bytes go by, where they are to be seen: line ends and braces
//! inside texts are none.

use super::elements::{Elements, ElementsError};

/// How many rows went by.
#[derive(Debug)]
pub struct RowCounter(Seen);

#[derive(Debug)]
enum Seen {
    /// Lines, of which the first is the header.
    Csv { n_lines: u64, is_quoted: bool },
    /// Lines. Texts have no line ends.
    Ndjson { n_lines: u64 },
    /// Objects inside of an array.
    Json { n_objects: u64, elements: Elements },
    /// They are not to be seen.
    Unseen,
}

impl RowCounter {
    /// Returns a counter for a download whose format the service calls `output`.
    #[must_use]
    pub fn new(output: &str) -> Self {
        Self(match output {
            "csv" => Seen::Csv { n_lines: 0, is_quoted: false },
            "ndjson" => Seen::Ndjson { n_lines: 0 },
            "json" => Seen::Json { n_objects: 0, elements: Elements::default() },
            _ => Seen::Unseen,
        })
    }

    /// How many rows went by; none where they are not to be seen.
    #[must_use]
    pub const fn n_rows(&self) -> Option<u64> {
        match &self.0 {
            Seen::Csv { n_lines, .. } => Some(n_lines.saturating_sub(1)),
            Seen::Ndjson { n_lines } => Some(*n_lines),
            Seen::Json { n_objects, .. } => Some(*n_objects),
            Seen::Unseen => None,
        }
    }

    /// Counts the rows that end in `bytes`.
    pub fn count(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Seen::Csv { n_lines, is_quoted } => {
                for byte in bytes {
                    // A quote within a text is written twice.
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
                    self.0 = Seen::Unseen;
                }
            }
            Seen::Unseen => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut.
    #[track_caller]
    fn check(output: &str, text: &str, want: u64) {
        for length in 1..=text.len() {
            let mut counter = RowCounter::new(output);
            text.as_bytes().chunks(length).for_each(|bytes| counter.count(bytes));
            assert_eq!(counter.n_rows(), Some(want), "{text:?} by {length}");
        }
    }

    #[test]
    fn what_is_inside_of_texts_is_no_row() {
        check("csv", "t,note\n1,\"a\nb \"\"c\"\"\n\"\n2,\n", 2);
        check("csv", "t,note\n", 0);
        check("ndjson", "{\"note\":\"a\\nb\"}\n{}\n", 2);
        check("json", r#"[{"note":"}\\\"}{"},{"values":{"x":1}},{}]"#, 3);
        check("json", "[]", 0);
        assert_eq!(RowCounter::new("parquet").n_rows(), None);
    }
}
