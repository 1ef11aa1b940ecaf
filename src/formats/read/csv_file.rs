//! Records of CSV: RFC 4180, with whichever delimiter the header has.

use std::{
    collections::{HashSet, VecDeque},
    io::{self, Read},
};

use csv::{ByteRecord, Reader, ReaderBuilder, StringRecord};

use super::{
    BadRow, FileError, Place, ReadOptions, Record, Stop, Take,
    cell::Cell,
    source::{Input, Position},
    time_text::{TimeTexts, day_first, is_clock},
};

/// What may separate fields, the likeliest first.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// The most bytes of a header: more names than any dataset has columns.
const HEADER_BYTES_MAX: usize = 1024 * 1024;

/// What some programs begin a text with.
const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) struct CsvRecords {
    reader: Reader<Lines>,
    fields: Vec<String>,
    record: StringRecord,
    /// Where in the text the reader began.
    base: Position,
}

impl CsvRecords {
    pub(super) fn open(
        input: Input,
        options: ReadOptions,
        from: Position,
    ) -> Result<Self, FileError> {
        let counter = input.counter();
        let is_stream = input.size_bytes().is_none();
        let reopened = if is_stream { None } else { Some(input.again()?) };
        let mut text = input.text(0)?;
        let (first, rest) = header(&mut text)?;
        let delimiter = options.delimiter.unwrap_or_else(|| likeliest(&first));
        let (fields, begin) = match names(&first, delimiter, options.has_header)? {
            Names::Header(fields) => {
                let n_header = first.len() as u64;
                (fields, Position { offset_bytes: n_header, line: count_lines(&first) })
            }
            Names::Numbered(fields) => {
                let n_mark = if first.starts_with(BYTE_ORDER_MARK.as_bytes()) { 3 } else { 0 };
                (fields, Position { offset_bytes: n_mark, line: 0 })
            }
        };
        let n_header = begin.offset_bytes;
        // Of a stream what was read is read again, unless it is the header.
        let begin_at = usize::try_from(n_header).unwrap_or(usize::MAX);
        let rest = [first.get(begin_at..).unwrap_or_default(), &rest].concat();
        let base = if from.offset_bytes > n_header { from } else { begin };
        let text: Box<dyn Read + Send> = match reopened {
            Some(input) => {
                drop(text);
                counter.reset();
                input.text(base.offset_bytes)?
            }
            None => Box::new(io::Cursor::new(rest).chain(text)),
        };
        let mut builder = ReaderBuilder::new();
        builder.has_headers(false).flexible(true).delimiter(delimiter);
        let record = StringRecord::new();
        let reader = builder.from_reader(Lines::new(text));
        Ok(Self { reader, fields, record, base })
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        let begin = self.reader.position().byte();
        let read = self.reader.read_record(&mut self.record);
        // Known only now that the text has been read.
        let line = self.base.line + self.reader.get_mut().before_record(begin) + 1;
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => return Err(stop(error, line)),
        }
        let bad = |reason: String| Stop::Bad(BadRow { line, reason });
        if self.record.len() != self.fields.len() {
            let (n_fields, n_names) = (self.record.len(), self.fields.len());
            return Err(bad(format!("it has {n_fields} fields where the header has {n_names}")));
        }
        for (field, (name, text)) in self.fields.iter().zip(&self.record).enumerate() {
            take(field, name, Cell::Bare(text));
        }
        let end = self.reader.position().byte();
        let lines = self.reader.get_mut();
        let end = lines.pass(end);
        let next = Position {
            offset_bytes: self.base.offset_bytes + end,
            line: self.base.line + lines.n_passed,
        };
        Ok(Some(Place { line, next }))
    }
}

/// Counts the lines of a text that is read ahead of its records.
struct Lines {
    text: Box<dyn Read + Send>,
    n_read: u64,
    is_after_return: bool,
    /// Where line ends begin and end that were read and not passed.
    ends: VecDeque<(u64, u64)>,
    n_passed: u64,
    passed_bytes: u64,
}

impl Lines {
    fn new(text: Box<dyn Read + Send>) -> Self {
        Self {
            text,
            n_read: 0,
            is_after_return: false,
            ends: VecDeque::new(),
            n_passed: 0,
            passed_bytes: 0,
        }
    }

    /// Passes the lines that end before `offset_bytes`, which never goes back, and returns where the
    /// next begins: a record ends after the return of a line end that has a feed, too.
    fn pass(&mut self, offset_bytes: u64) -> u64 {
        self.passed_bytes = self.passed_bytes.max(offset_bytes);
        while let Some((_, end)) = self.ends.pop_front_if(|(begin, _)| *begin < offset_bytes) {
            self.n_passed += 1;
            self.passed_bytes = self.passed_bytes.max(end);
        }
        self.passed_bytes
    }

    /// How many lines are before the record that is read from `offset_bytes` on, blank ones in front
    /// of it included.
    fn before_record(&mut self, offset_bytes: u64) -> u64 {
        let mut begin = self.pass(offset_bytes);
        while let Some((_, end)) = self.ends.front().filter(|(blank, _)| *blank == begin) {
            begin = self.pass(*end);
        }
        self.n_passed
    }
}

impl Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self.text.read(buffer)?;
        for (at, byte) in (self.n_read..).zip(buffer.iter().take(n_read)) {
            if *byte == b'\n' {
                self.ends.push_back((at - u64::from(self.is_after_return), at + 1));
            }
            self.is_after_return = *byte == b'\r';
        }
        self.n_read += n_read as u64;
        Ok(n_read)
    }
}

fn stop(error: csv::Error, line: u64) -> Stop {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Stop::File(error.into()),
        csv::ErrorKind::Utf8 { .. } => {
            Stop::Bad(BadRow { line, reason: "it is not UTF-8".to_owned() })
        }
        _ => Stop::Bad(BadRow { line, reason: "it is no record".to_owned() }),
    }
}

/// Reads the header with its line end, and what was read beyond it.
fn header(text: &mut impl Read) -> Result<(Vec<u8>, Vec<u8>), FileError> {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = header_end(&read) {
            let rest = read.split_off(end);
            return Ok((read, rest));
        }
        let n_read = text.read(&mut piece)?;
        if n_read == 0 || read.len() > HEADER_BYTES_MAX {
            return if read.trim_ascii().is_empty() {
                Err(FileError::Empty)
            } else {
                Ok((read, Vec::new()))
            };
        }
        read.extend(piece.iter().take(n_read));
    }
}

/// Where the first record that is not blank ends, its line end included.
fn header_end(text: &[u8]) -> Option<usize> {
    let (mut is_quoted, mut is_blank) = (false, true);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' if !is_quoted && !is_blank => return Some(at + 1),
            _ => {}
        }
        is_blank &= byte.is_ascii_whitespace();
    }
    None
}

fn count_lines(text: &[u8]) -> u64 {
    text.split(|byte| *byte == b'\n').skip(1).count() as u64
}

/// The delimiter that the header has most of outside of quotes.
fn likeliest(header: &[u8]) -> u8 {
    let mut counts = DELIMITERS.map(|delimiter| (0_usize, delimiter));
    let mut is_quoted = false;
    for byte in header {
        is_quoted ^= *byte == b'"';
        if !is_quoted && let Some(count) = counts.iter_mut().find(|count| count.1 == *byte) {
            count.0 += 1;
        }
    }
    // Of equals the last is taken; the likeliest is to be that.
    counts.reverse();
    counts.into_iter().max_by_key(|count| count.0).map_or(b',', |count| count.1)
}

/// The names of the fields.
enum Names {
    /// The first record has them.
    Header(Vec<String>),
    /// The first record is data.
    Numbered(Vec<String>),
}

/// The names of the fields by the first record, which `has_header` says is a header, or else what
/// it holds.
fn names(first: &[u8], delimiter: u8, has_header: Option<bool>) -> Result<Names, FileError> {
    let first = first.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(first);
    let mut builder = ReaderBuilder::new();
    let mut reader = builder.has_headers(false).delimiter(delimiter).from_reader(first);
    let mut record = ByteRecord::new();
    reader.read_byte_record(&mut record).map_err(FileError::form)?;
    let names = StringRecord::from_byte_record(record)
        .map_err(|_| FileError::form("its header is not UTF-8"))?;
    if names.is_empty() {
        return Err(FileError::NoHeader);
    }
    let numbered = |idx: usize| format!("column_{}", idx + 1);
    if !has_header.unwrap_or_else(|| !is_data(&names)) {
        return Ok(Names::Numbered((0..names.len()).map(numbered).collect()));
    }
    let mut fields: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (idx, name) in names.iter().enumerate() {
        let name = name.trim();
        // MetaTrader writes names as <DATE>.
        let bare = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        let name = match bare.unwrap_or(name) {
            // What pandas writes for an index without a name.
            "" => numbered(idx),
            name => name.to_owned(),
        };
        if !seen.insert(name.clone()) {
            return Err(FileError::NamedTwice { name });
        }
        fields.push(name);
    }
    Ok(Names::Header(fields))
}

/// Whether a first record is data: it has nothing but numbers and times, or at least half of it are
/// fractions, dates and times, which hardly anybody names columns by.
fn is_data(record: &StringRecord) -> bool {
    let texts = TimeTexts::default();
    let is_number = |text: &str| Cell::Bare(text).float().is_some();
    let is_plain = |text: &str| {
        let is_time = texts.read(text).is_ok() || day_first(text).is_some();
        is_time || is_clock(text, false) || text.contains('.') && is_number(text)
    };
    let n_plain = record.iter().filter(|text| is_plain(text)).count();
    let n_numbers = record.iter().filter(|text| !is_plain(text) && is_number(text)).count();
    n_plain + n_numbers == record.len() || n_plain * 2 >= record.len()
}
