//! Records of a CSV file: with whichever delimiter its header has, or without a header.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Cursor, Read as _},
    sync::atomic::Ordering,
};

use super::{
    BadRow, FileError, Place, ReadOptions, Record, Stop, Take,
    cell::Cell,
    csv::CsvReader,
    source::{Input, Position},
    time_text::{TimeTexts, day_first, is_clock},
};

/// What may separate fields, the likeliest first.
const DELIMITERS: [u8; 4] = *b",;\t|";

/// The most bytes of a header: more names than any dataset has columns.
const HEADER_BYTES_MAX: u64 = 1024 * 1024;

/// What some programs begin a text with.
const BYTE_ORDER_MARK: &str = "\u{feff}";

pub(super) struct CsvRecords {
    reader: CsvReader<Box<dyn BufRead + Send>>,
    fields: Vec<String>,
}

impl CsvRecords {
    pub(super) fn open(
        input: Input,
        options: ReadOptions,
        from: Position,
    ) -> Result<Self, FileError> {
        let (counter, is_stream) = (input.counter(), input.size_bytes().is_none());
        let again = input.again()?;
        let mut text = BufReader::new(input.text(0)?);
        let first = read_header(&mut text)?;
        let delimiter = options.delimiter.unwrap_or_else(|| likeliest(&first));
        let (fields, is_header) = names(&first, delimiter, options.has_header)?;
        let has_mark = first.starts_with(BYTE_ORDER_MARK.as_bytes());
        let begin = match (is_header, has_mark) {
            (true, _) => Position { offset_bytes: first.len() as u64, line: count_lines(&first) },
            (false, true) => Position { offset_bytes: 3, line: 0 },
            (false, false) => Position::default(),
        };
        let (text, at): (Box<dyn BufRead + Send>, _) =
            if from.offset_bytes > begin.offset_bytes && !is_stream {
                drop(text);
                counter.store(0, Ordering::Relaxed);
                (Box::new(BufReader::new(again.text(from.offset_bytes)?)), from)
            } else {
                let n_header = usize::try_from(begin.offset_bytes).unwrap_or(usize::MAX);
                let rest = first.get(n_header..).unwrap_or_default().to_vec();
                (Box::new(Cursor::new(rest).chain(text)), begin)
            };
        Ok(Self { reader: CsvReader::resume(text, delimiter, at), fields })
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        if !self.reader.read()? {
            return Ok(None);
        }
        let (line, next) = self.reader.position();
        let bad = |reason: String| Stop::Bad(BadRow { line, reason });
        let Some(texts) = self.reader.fields() else {
            return Err(bad("it is not UTF-8".to_owned()));
        };
        if self.reader.n_fields() != self.fields.len() {
            let (n_fields, n_names) = (self.reader.n_fields(), self.fields.len());
            return Err(bad(format!("it has {n_fields} fields where the header has {n_names}")));
        }
        for (field, (name, (text, _))) in self.fields.iter().zip(texts).enumerate() {
            take(field, name, Cell::Bare(text));
        }
        Ok(Some(Place { line, next }))
    }
}

/// Reads the first record that is not blank, with its line end and the blank lines before it.
fn read_header(text: &mut impl BufRead) -> Result<Vec<u8>, FileError> {
    let mut read = Vec::new();
    let mut limited = text.take(HEADER_BYTES_MAX);
    while limited.read_until(b'\n', &mut read)? > 0 {
        let is_quoted = read.iter().fold(false, |is_quoted, byte| is_quoted ^ (*byte == b'"'));
        if !is_quoted && !read.trim_ascii().is_empty() {
            break;
        }
    }
    if read.trim_ascii().is_empty() { Err(FileError::Empty) } else { Ok(read) }
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

/// The names of the fields by the first record, which `has_header` says is a header, or else what
/// it holds; and whether it is one.
fn names(
    first: &[u8],
    delimiter: u8,
    has_header: Option<bool>,
) -> Result<(Vec<String>, bool), FileError> {
    let first = first.strip_prefix(BYTE_ORDER_MARK.as_bytes()).unwrap_or(first);
    let mut reader = CsvReader::new(first, delimiter);
    if !reader.read()? {
        return Err(FileError::no_header());
    }
    let names = reader.fields().ok_or_else(|| FileError::form("its header is not UTF-8"))?;
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let numbered = |idx: usize| format!("column_{}", idx + 1);
    if !has_header.unwrap_or_else(|| !is_data(&names)) {
        return Ok(((0..names.len()).map(numbered).collect(), false));
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
            return Err(FileError::named_twice(&name));
        }
        fields.push(name);
    }
    Ok((fields, true))
}

/// Whether a first record is data: it has nothing but numbers and times, or at least half of it are
/// fractions, dates and times, which hardly anybody names columns by.
fn is_data(record: &[&str]) -> bool {
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
