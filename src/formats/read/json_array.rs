//! Records of a JSON array: objects, or arrays with the values of the fields in order.
//!
//! If the rows are arrays, the first array can have the names of the fields. Texts in such rows may
//! represent numbers, as in CSV. Only one row is in memory at a time.

use std::io::BufRead as _;
use std::mem;

use super::cell::Cell;
use super::csv_file::{is_value, numbered, unique};
use super::ndjson::{JsonText, Objects, ROW_BYTES_MAX, check_large, is_large};
use super::source::Position;
use super::{BadRow, FileError, Place, Record, Stop, Take, json};

pub(super) struct JsonArrayRecords {
    text: JsonText,
    /// Number of rows that were read, including a header.
    n_rows: u64,
    /// Text of the latest row.
    row: Vec<u8>,
    /// True if the latest row was read ahead.
    is_ahead: bool,
    /// True after the end of the array.
    is_done: bool,
    /// Names of the fields, if the rows are arrays.
    names: Option<Vec<String>>,
    objects: Objects,
}

impl JsonArrayRecords {
    /// Opens the array whose opening bracket is next in `text`. If its rows are arrays, `has_header`
    /// determines if the first row contains the names of the fields. With `None`, the first row is a
    /// header if all its values are texts that are neither numbers nor times.
    ///
    /// # Errors
    /// If the first row is invalid.
    pub(super) fn open(mut text: JsonText, has_header: Option<bool>) -> Result<Self, FileError> {
        text.skip(1);
        let objects = Objects::default();
        let mut records = Self {
            text,
            n_rows: 0,
            row: Vec::new(),
            is_ahead: false,
            is_done: false,
            names: None,
            objects,
        };
        records.is_ahead = records.read_row()?;
        if !records.row.starts_with(b"[") {
            return Ok(records);
        }
        let (mut texts, mut is_named) = (Vec::new(), true);
        let read = json::items(&records.row, &mut |_, cell| {
            is_named &= matches!(cell, Cell::Text(text) if !is_value(text));
            texts.push(cell.plain_text().unwrap_or_default());
        });
        read.map_err(|reason| FileError::Invalid(format!("row 1: {reason}")))?;
        let is_header = has_header.unwrap_or(is_named);
        records.is_ahead = !is_header;
        let names =
            if is_header { unique(texts)? } else { (0..texts.len()).map(numbered).collect() };
        records.names = Some(names);
        Ok(records)
    }

    /// Returns the position after the latest row.
    pub(super) const fn position(&self) -> Position {
        Position { offset_bytes: self.text.at.offset_bytes, line: self.n_rows }
    }

    /// Continues with `text`, which begins after the row at position `from`.
    pub(super) fn resume(self, text: JsonText, from: Position) -> Self {
        Self { text, n_rows: from.line, is_ahead: false, is_done: false, ..self }
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        if !mem::take(&mut self.is_ahead) && !self.read_row()? {
            return Ok(None);
        }
        let line = self.n_rows;
        let read = match &self.names {
            None => self.objects.read(&self.row, line, take),
            Some(names) => read_array(&self.row, names, take),
        };
        read.map_err(|reason| Stop::Bad(BadRow { line, reason }))?;
        Ok(Some(Place { line, next: self.position() }))
    }

    /// Reads the text of the next row. Returns false at the end of the array.
    fn read_row(&mut self) -> Result<bool, FileError> {
        if self.is_done {
            return Ok(false);
        }
        let n_rows = self.n_rows;
        let mut next = self.text.peek()?;
        if next == Some(b']') {
            self.text.skip(1);
            self.is_done = true;
            return match self.text.peek()? {
                None => Ok(false),
                Some(_) => {
                    Err(FileError::Invalid("text after the end of the JSON array".to_owned()))
                }
            };
        }
        if n_rows > 0 {
            if next.is_some_and(|byte| byte != b',') {
                return Err(FileError::Invalid(format!("no comma after row {n_rows}")));
            }
            self.text.skip(usize::from(next.is_some()));
            next = self.text.peek()?;
        }
        self.n_rows += 1;
        match next {
            Some(b'{' | b'[') => self.read_brackets().map(|()| true),
            None => Err(self.truncated()),
            Some(_) => {
                let row = self.n_rows;
                Err(FileError::Invalid(format!("row {row} is neither an object nor an array")))
            }
        }
    }

    /// Reads from an opening bracket to the matching closing bracket.
    fn read_brackets(&mut self) -> Result<(), FileError> {
        self.row.clear();
        let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
        loop {
            let buffer = self.text.text.fill_buf()?;
            let end = buffer.iter().position(|byte| {
                match byte {
                    _ if mem::take(&mut is_escaped) => {}
                    b'\\' => is_escaped = is_text,
                    b'"' => is_text = !is_text,
                    b'{' | b'[' if !is_text => depth += 1,
                    b'}' | b']' if !is_text => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            let n_bytes = end.map_or(buffer.len(), |end| end + 1);
            if n_bytes == 0 {
                return Err(self.truncated());
            }
            self.row.extend(buffer.iter().take(n_bytes));
            self.text.skip(n_bytes);
            if self.row.len() as u64 > ROW_BYTES_MAX {
                let row = self.n_rows;
                return Err(FileError::Invalid(format!("row {row} exceeds {ROW_BYTES_MAX} bytes")));
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }

    fn truncated(&self) -> FileError {
        FileError::Invalid(format!("JSON array is truncated at row {}", self.n_rows))
    }
}

/// Passes the values of a row to `take`, with the names of their fields.
fn read_array(row: &[u8], names: &[String], take: Take<'_>) -> Result<(), String> {
    let (mut n_values, mut has_large) = (0, false);
    json::items(row, &mut |idx, cell| {
        n_values = idx + 1;
        has_large |= is_large(cell);
        let cell = match cell {
            Cell::Text(text) => Cell::Bare(text),
            cell => cell,
        };
        if let Some(name) = names.get(idx) {
            take(idx, name, cell);
        }
    })?;
    if n_values != names.len() {
        return Err(format!("expected {} values, found {n_values}", names.len()));
    }
    if has_large { check_large(row) } else { Ok(()) }
}
