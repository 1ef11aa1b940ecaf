//! Records of NDJSON: one object per line.

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader, Read};

use super::cell::{Cell, INEXACT_FROM};
use super::number_text::{Decimal, is_rounded_integer};
use super::source::{BYTE_ORDER_MARK, Position};
use super::{BadRow, FileError, Place, Record, Stop, Take, json};

/// Maximum length of a row, twenty times the length of a row with a thousand columns.
pub(super) const ROW_BYTES_MAX: u64 = 1024 * 1024;

/// Text with JSON and the position in it.
pub(super) struct JsonText {
    pub(super) text: BufReader<Box<dyn Read + Send>>,
    pub(super) at: Position,
}

impl JsonText {
    /// Opens a text that begins at position `at` of a file. Skips a byte order mark.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub(super) fn open(text: Box<dyn Read + Send>, at: Position) -> io::Result<Self> {
        let mut text = Self { text: BufReader::new(text), at };
        if text.text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            text.skip(BYTE_ORDER_MARK.len());
        }
        Ok(text)
    }

    /// Skips whitespace. Returns the next byte without reading it, or `None` at the end.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let next = self.text.fill_buf()?.first().copied();
            let Some(space) = next.filter(u8::is_ascii_whitespace) else { return Ok(next) };
            self.skip(1);
            self.at.line += u64::from(space == b'\n');
        }
    }

    /// Skips bytes that are in the buffer.
    pub(super) fn skip(&mut self, n_bytes: usize) {
        self.text.consume(n_bytes);
        self.at.offset_bytes += n_bytes as u64;
    }
}

pub(super) struct NdjsonRecords {
    text: JsonText,
    objects: Objects,
    line: Vec<u8>,
}

impl NdjsonRecords {
    pub(super) fn new(text: JsonText) -> Self {
        Self { text, objects: Objects::default(), line: Vec::new() }
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            let next = self.text.at;
            // If files were concatenated, later lines can begin with a byte order mark, too.
            let line = self.line.trim_ascii();
            let object = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
            if object.is_empty() {
                continue;
            }
            if let Err(reason) = self.objects.read(object, next.line, take) {
                // A file without LF is one line. A valid object can contain a CR, but only as white space.
                if next.line == 1 && !self.line.ends_with(b"\n") && object.contains(&b'\r') {
                    return Err(FileError::carriage_returns().into());
                }
                return Err(Stop::Bad(BadRow { line: next.line, reason }));
            }
            return Ok(Some(Place { line: next.line, next }));
        }
    }

    /// Reads a line. Returns false at the end.
    fn read_line(&mut self) -> Result<bool, Stop> {
        self.line.clear();
        let JsonText { text, at } = &mut self.text;
        let n_read = text.take(ROW_BYTES_MAX).read_until(b'\n', &mut self.line)? as u64;
        at.offset_bytes += n_read;
        at.line += u64::from(n_read > 0);
        if n_read == ROW_BYTES_MAX && !self.line.ends_with(b"\n") {
            let what = format!("line {} exceeds {ROW_BYTES_MAX} bytes", at.line);
            return Err(FileError::Invalid(what).into());
        }
        Ok(n_read > 0)
    }
}

/// Reads the objects of a file.
#[derive(Default)]
pub(super) struct Objects {
    fields: HashMap<String, FieldPlace>,
}

/// A field that occurred in an object.
struct FieldPlace {
    /// Index among all fields that occurred so far.
    idx: usize,
    /// Latest row in which the field occurred.
    row: u64,
}

impl Objects {
    /// Passes the members of the object in row number `row` to `take`.
    ///
    /// # Errors
    /// Description of the error: invalid syntax, a duplicate member, or a number that is not exact.
    pub(super) fn read(&mut self, object: &[u8], row: u64, take: Take<'_>) -> Result<(), String> {
        let fields = &mut self.fields;
        let (mut duplicate, mut has_large) = (None, false);
        json::members(object, &mut |name, cell| {
            let n_fields = fields.len();
            let idx = if let Some(field) = fields.get_mut(name) {
                if std::mem::replace(&mut field.row, row) == row {
                    duplicate = Some(name.to_owned());
                }
                field.idx
            } else {
                fields.insert(name.to_owned(), FieldPlace { idx: n_fields, row });
                n_fields
            };
            has_large |= is_large(cell);
            take(idx, name, cell);
        })
        .map_err(|reason| not_a_number(object).unwrap_or(reason))?;
        match duplicate {
            Some(name) => Err(format!("duplicate column {name}")),
            None if has_large => check_large(object),
            None => Ok(()),
        }
    }
}

/// Returns true if the parser may have rounded the value. The parser returns whole numbers beyond 64 bits,
/// and with a fraction, as floats.
pub(super) fn is_large(cell: Cell<'_>) -> bool {
    matches!(cell, Cell::Float(number) if number.abs() >= INEXACT_FROM)
}

/// Checks that the parser has not rounded a whole number of a row.
///
/// # Errors
/// Description of the error.
pub(super) fn check_large(row: &[u8]) -> Result<(), String> {
    match rounded_integer(row) {
        None => Ok(()),
        Some(number) => Err(format!("{number} is not exact as a float; write it as a text")),
    }
}

/// Describes the first number of a row that JSON does not support.
fn not_a_number(row: &[u8]) -> Option<String> {
    let is_number = |word: &String| {
        ["nan", "inf", "infinity"]
            .contains(&word.trim_start_matches('-').to_ascii_lowercase().as_str())
    };
    let word = find_bare(row, u8::is_ascii_alphabetic, is_number)?;
    Some(format!("{word} is not valid JSON: write null"))
}

/// Finds a whole number in a row that the parser has rounded because it does not fit in 64 bits or has a
/// fraction. The parser returns other whole numbers exactly.
fn rounded_integer(row: &[u8]) -> Option<String> {
    let is_rounded = |text: &String| {
        let number: f64 = text.parse().unwrap_or(0.0);
        let is_exact = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        number.abs() >= INEXACT_FROM
            && !is_exact
            && is_rounded_integer(text, number, Decimal::Point)
    };
    find_bare(row, u8::is_ascii_digit, is_rounded)
}

/// Finds a value outside of texts that begins with a minus sign or a byte that `begins` accepts, and that
/// `is_wanted` accepts.
fn find_bare(
    row: &[u8],
    begins: impl Fn(&u8) -> bool,
    is_wanted: impl Fn(&String) -> bool,
) -> Option<String> {
    let mut rest = row.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => {
                while let Some(byte) = rest.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        rest.next();
                    }
                }
            }
            byte if byte == b'-' || begins(&byte) => {
                let mut text = String::from(char::from(byte));
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-".contains(byte);
                while let Some(byte) = rest.next_if(is_part) {
                    text.push(char::from(byte));
                }
                if is_wanted(&text) {
                    return Some(text);
                }
            }
            _ => {}
        }
    }
    None
}
