//! Records of NDJSON: an object in each line.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read},
};

use super::{
    BadRow, FileError, Place, Record, Stop, Take, json,
    source::{Input, Position},
};

/// The longest line. A row of a thousand columns is a twentieth of it.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

pub(super) struct NdjsonRecords {
    text: BufReader<Box<dyn Read + Send>>,
    fields: HashMap<String, usize>,
    line: Vec<u8>,
    at: Position,
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
            let bad = |reason| Stop::Bad(BadRow { line, reason });
            if object == b"[" || object.starts_with(b"[{") && object.ends_with(b"}]") {
                let what = "it is one JSON array; make lines of it (jq -c '.[]')";
                return Err(FileError::form(what).into());
            }
            let fields = &mut self.fields;
            let read = json::members(object, &mut |name, cell| {
                let n_fields = fields.len();
                let field = match fields.get(name) {
                    Some(field) => *field,
                    None => *fields.entry(name.to_owned()).or_insert(n_fields),
                };
                take(field, name, cell);
            });
            read.map_err(bad)?;
            return Ok(Some(Place { line, next: self.at }));
        }
    }

    /// Reads a line; whether there was one.
    fn read_line(&mut self) -> Result<bool, Stop> {
        self.line.clear();
        let mut limited = self.text.by_ref().take(LINE_BYTES_MAX);
        let n_read = limited.read_until(b'\n', &mut self.line)? as u64;
        self.at.offset_bytes += n_read;
        self.at.line += u64::from(n_read > 0);
        if n_read == LINE_BYTES_MAX && !self.line.ends_with(b"\n") {
            let what = format!("line {} has more than {LINE_BYTES_MAX} bytes", self.at.line);
            return Err(FileError::form(what).into());
        }
        Ok(n_read > 0)
    }
}

/// The object of a line, without what may stand around it.
fn object(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
    line.trim_ascii()
}
