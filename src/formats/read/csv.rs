//! Reads CSV as in RFC 4180: fields are separated by delimiters, and quoted if they contain a delimiter,
//! a quote (which is doubled) or a line end.
//!
//! The `csv` crate is not used for two reasons: it does not report quotes, which distinguish an empty
//! text from a missing value, and reading must be able to resume at any record.

use std::io::{self, BufRead, Read as _};

use super::source::Position;

/// Fault of a record whose quoted field reaches the end of the file.
pub(super) const UNCLOSED: &str = "quoted field is not closed";

/// Maximum length of a record. It limits the memory for a file with an unclosed quote or without lines.
const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Reads records one by one. Blank lines are skipped.
#[derive(derive_more::Debug)]
#[debug("CsvReader at {at:?}")]
pub struct CsvReader<R> {
    text: R,
    delimiter: u8,
    line: Vec<u8>,
    /// Contents of the fields of the record, concatenated, without quotes.
    fields: Vec<u8>,
    /// End of each field, and true if the field is quoted.
    ends: Vec<(usize, bool)>,
    /// Maximum number of fields that are read per record.
    fields_max: usize,
    fault: Option<&'static str>,
    /// Line on which the record begins, counted from 1.
    begin_line: u64,
    /// Start of the next record.
    at: Position,
}

/// State of the reader within a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldState {
    /// Before the first byte of the field.
    Start,
    Bare,
    Quoted,
    /// After a quote, which closes the field unless another quote follows.
    AfterQuote,
}

impl<R: BufRead> CsvReader<R> {
    /// Creates a reader of `text`.
    pub fn new(text: R, delimiter: u8) -> Self {
        Self::resume(text, delimiter, Position::default())
    }

    /// Creates a reader of `text`, which starts at position `at` of a longer text.
    pub(super) fn resume(text: R, delimiter: u8, at: Position) -> Self {
        let (line, fields, ends) = (Vec::new(), Vec::new(), Vec::new());
        let fields_max = usize::MAX;
        Self { text, delimiter, line, fields, ends, fields_max, fault: None, begin_line: 0, at }
    }

    /// Limits the memory of a record: stops reading it at the first field after `fields_max`. For such a
    /// record, [`n_fields`](Self::n_fields) returns `fields_max` plus one.
    #[must_use]
    pub fn with_fields_max(self, fields_max: usize) -> Self {
        Self { fields_max, ..self }
    }

    /// Reads the next record. Returns false at the end.
    ///
    /// # Errors
    /// If the text cannot be read, or a record exceeds 16 MiB.
    pub fn read(&mut self) -> io::Result<bool> {
        self.fields.clear();
        self.ends.clear();
        self.fault = None;
        let mut state = FieldState::Start;
        while self.read_line()? {
            if state == FieldState::Start {
                self.begin_line = self.at.line;
            }
            let end = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let n_bytes = end.strip_suffix(b"\r").unwrap_or(end).len();
            if state == FieldState::Start && n_bytes == 0 {
                continue;
            }
            state = self.split(n_bytes, state);
            if state != FieldState::Quoted {
                self.end_field(state);
                return Ok(true);
            }
            self.fields.extend_from_slice(self.line.get(n_bytes..).unwrap_or_default());
        }
        if state == FieldState::Quoted {
            self.fault = Some(UNCLOSED);
            self.end_field(state);
        }
        Ok(state == FieldState::Quoted)
    }

    /// Returns the text of each field of the record, and true if the field is quoted. Returns `None` if
    /// the record is not UTF-8.
    pub fn fields(&self) -> Option<impl Iterator<Item = (&str, bool)>> {
        let text = std::str::from_utf8(&self.fields).ok()?;
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        let field = move |(start, (end, is_quoted)): (usize, &(usize, bool))| {
            (text.get(start..*end).unwrap_or_default(), *is_quoted)
        };
        Some(starts.zip(&self.ends).map(field))
    }

    /// Returns the number of fields of the record.
    pub fn n_fields(&self) -> usize {
        self.ends.len()
    }

    /// Returns the deviation of the record from RFC 4180, if any. The fields are read nevertheless.
    pub fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// Returns the line on which the record begins, counted from 1, and the start of the next record.
    pub(super) fn position(&self) -> (u64, Position) {
        (self.begin_line, self.at)
    }

    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let n_bytes_max = RECORD_BYTES_MAX.saturating_sub(self.fields.len());
        let mut text = self.text.by_ref().take(n_bytes_max as u64 + 1);
        let n_read = text.read_until(b'\n', &mut self.line)?;
        if n_read > n_bytes_max {
            let line = self.at.line + 1;
            let text = format!("record at line {line} exceeds {RECORD_BYTES_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.at.offset_bytes += n_read as u64;
        self.at.line += u64::from(n_read > 0);
        Ok(n_read > 0)
    }

    /// Splits the first `n_bytes` of the line into fields. The last field stays open.
    fn split(&mut self, n_bytes: usize, mut state: FieldState) -> FieldState {
        let mut at = 0;
        while at < n_bytes && self.ends.len() <= self.fields_max {
            let rest = self.line.get(at..n_bytes).unwrap_or_default();
            let length = |is_end: &dyn Fn(u8) -> bool| {
                rest.iter().position(|byte| is_end(*byte)).unwrap_or(rest.len())
            };
            let delimiter = self.delimiter;
            let n_plain = match state {
                FieldState::Quoted => length(&|byte| byte == b'"'),
                FieldState::Bare => length(&|byte| byte == delimiter),
                FieldState::Start if rest.first() != Some(&b'"') => {
                    length(&|byte| byte == delimiter)
                }
                FieldState::Start | FieldState::AfterQuote => 0,
            };
            self.fields.extend_from_slice(rest.get(..n_plain).unwrap_or_default());
            at += n_plain + 1;
            state = match (state, rest.get(n_plain)) {
                (FieldState::Quoted, Some(_)) => FieldState::AfterQuote,
                (FieldState::AfterQuote, Some(b'"')) => {
                    self.fields.push(b'"');
                    FieldState::Quoted
                }
                (_, Some(byte)) if *byte == delimiter => {
                    self.end_field(state);
                    FieldState::Start
                }
                (FieldState::Quoted, None) | (FieldState::Start, Some(_)) => FieldState::Quoted,
                (FieldState::AfterQuote, Some(_)) => {
                    self.fault = Some("quoted field is followed by text");
                    at -= 1;
                    FieldState::Bare
                }
                (_, _) => FieldState::Bare,
            };
        }
        state
    }

    fn end_field(&mut self, state: FieldState) {
        let is_quoted = matches!(state, FieldState::Quoted | FieldState::AfterQuote);
        if self.ends.len() <= self.fields_max {
            self.ends.push((self.fields.len(), is_quoted));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: &[&[&str]]) {
        let mut reader = CsvReader::new(text.as_bytes(), b',');
        let mut records = Vec::new();
        while reader.read().unwrap() {
            let field = |(text, is_quoted): (&str, bool)| {
                if is_quoted { format!("<{text}>") } else { text.to_owned() }
            };
            records.push(reader.fields().unwrap().map(field).collect::<Vec<_>>());
        }
        assert_eq!(records, want, "{text:?}");
        let position =
            Position { offset_bytes: text.len() as u64, line: text.lines().count() as u64 };
        assert_eq!(reader.position().1, position);
    }

    #[test]
    fn quoted_csv_fields_can_contain_delimiters_quotes_and_line_ends() {
        check("a,b\n1,2\r\n", &[&["a", "b"], &["1", "2"]]);
        check("\"a,\"\"b\"\"\r\nc\",\"\",\n\n", &[&["<a,\"b\"\r\nc>", "<>", ""]]);
        check("\n\r\nx\n\n\"\"", &[&["x"], &["<>"]]);
        check("a\"b,c\"\n,", &[&["a\"b", "c\""], &["", ""]]);
        check("", &[]);
    }

    #[test]
    fn csv_record_is_read_up_to_the_maximum_number_of_fields() {
        let text = format!("a,b\n{}\nc,d\n", ",".repeat(1000));
        let mut reader = CsvReader::new(text.as_bytes(), b',').with_fields_max(2);
        let mut counts = Vec::new();
        while reader.read().unwrap() {
            counts.push(reader.n_fields());
        }
        assert_eq!(counts, [2, 3, 2]);
    }

    #[test]
    fn csv_record_that_exceeds_the_maximum_is_rejected() {
        let line = "x".repeat(RECORD_BYTES_MAX / 2 - 10);
        for (text, is_read) in [
            (format!("\"{line}\n{line}\"\n"), true),
            (format!("\"{line}\n{line}\n{line}\"\n"), false),
            (line.repeat(3), false),
        ] {
            let mut reader = CsvReader::new(text.as_bytes(), b',');
            assert_eq!(reader.read().is_ok(), is_read, "{} bytes", text.len());
        }
    }

    #[test]
    fn malformed_csv_record_is_reported_and_reading_continues() {
        for (text, want) in [
            ("\"a\"b,c\n", "quoted field is followed by text"),
            ("a,\"b\nc", "quoted field is not closed"),
        ] {
            let mut reader = CsvReader::new(text.as_bytes(), b',');
            assert!(reader.read().unwrap());
            assert_eq!((reader.fault(), reader.n_fields()), (Some(want), 2));
        }
    }
}
