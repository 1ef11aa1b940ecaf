//! Records of NDJSON: one object per line.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read};

use super::cell::Cell;
use super::number_text::{Decimal, is_rounded_integer};
use super::source::{Input, Position};
use super::{BadRow, FileError, Place, Record, Stop, Take, json};

/// Maximum length of a line, twenty times the length of a row with a thousand columns.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The parser returns whole numbers beyond 64 bits as floats. A float of at least this size may have
/// lost digits.
const LARGE_FROM: f64 = 18_446_744_073_709_551_615.0;

pub(super) struct NdjsonRecords {
    text: BufReader<Box<dyn Read + Send>>,
    fields: HashMap<String, FieldPlace>,
    line: Vec<u8>,
    at: Position,
}

/// A field that occurred in a record.
struct FieldPlace {
    /// Index among all fields that occurred so far.
    idx: usize,
    /// Latest line in which the field occurred.
    line: u64,
}

impl NdjsonRecords {
    pub(super) fn open(input: Input, from: Position) -> Result<Self, FileError> {
        let text = BufReader::new(input.text(from.offset_bytes)?);
        Ok(Self { text, fields: HashMap::new(), line: Vec::new(), at: from })
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            let line = self.at.line;
            let object = object(&self.line);
            if object.is_empty() {
                continue;
            }
            let bad = |reason: String| Stop::Bad(BadRow { line, reason });
            if object == b"[" || object.starts_with(b"[{") && object.ends_with(b"}]") {
                let what =
                    "the file is a JSON array; convert it to one object per line (jq -c '.[]')";
                return Err(FileError::form(what).into());
            }
            let fields = &mut self.fields;
            let (mut duplicate, mut has_large) = (None, false);
            let read = json::members(object, &mut |name, cell| {
                let n_fields = fields.len();
                let idx = if let Some(field) = fields.get_mut(name) {
                    if std::mem::replace(&mut field.line, line) == line {
                        duplicate = Some(name.to_owned());
                    }
                    field.idx
                } else {
                    fields.insert(name.to_owned(), FieldPlace { idx: n_fields, line });
                    n_fields
                };
                has_large |= matches!(cell, Cell::Float(number) if number.abs() >= LARGE_FROM);
                take(idx, name, cell);
            });
            read.map_err(bad)?;
            if let Some(name) = duplicate {
                return Err(bad(format!("duplicate column {name}")));
            }
            if let Some(number) = has_large.then(|| rounded_integer(object)).flatten() {
                let reason = format!("{number} is not exact as a float; write it as a text");
                return Err(bad(reason));
            }
            return Ok(Some(Place { line, next: self.at }));
        }
    }

    /// Reads a line. Returns false at the end.
    fn read_line(&mut self) -> Result<bool, Stop> {
        self.line.clear();
        let mut limited = self.text.by_ref().take(LINE_BYTES_MAX);
        let n_read = limited.read_until(b'\n', &mut self.line)? as u64;
        self.at.offset_bytes += n_read;
        self.at.line += u64::from(n_read > 0);
        if n_read == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
            let what = format!("line {} exceeds {LINE_BYTES_MAX} bytes", self.at.line);
            return Err(FileError::form(what).into());
        }
        Ok(n_read > 0)
    }
}

/// Returns the object on a line, without surrounding whitespace and without a byte order mark.
fn object(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    line.trim_ascii()
}

/// Finds a whole number in an object that the parser has rounded. It rounds numbers beyond 64 bits.
fn rounded_integer(object: &[u8]) -> Option<String> {
    let mut rest = object.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => {
                while let Some(byte) = rest.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        rest.next();
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                let mut text = String::from(char::from(byte));
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-".contains(byte);
                while let Some(byte) = rest.next_if(is_part) {
                    text.push(char::from(byte));
                }
                let number: f64 = text.parse().unwrap_or(0.0);
                if number.abs() >= LARGE_FROM && is_rounded_integer(&text, number, Decimal::Point) {
                    return Some(text);
                }
            }
            _ => {}
        }
    }
    None
}
