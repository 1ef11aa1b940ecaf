//! Records of a CSV file, with detection of its layout: lines before the header, the delimiter, and the
//! number of header lines.
//!
//! The first records are compared with each other: lines before the table have fewer fields, and the
//! names in a header differ from the values of the columns. If two interpretations remain possible, the
//! file is rejected. The error names the options that select one of them.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Cursor, Read as _};

use super::cell::{Cell, shorten};
use super::csv::{CsvReader, UNCLOSED};
use super::sniff::time_column::is_time_name;
use super::source::{BYTE_ORDER_MARK, Input, Position};
use super::time_text::{TimeTexts, day_first, is_clock};
use super::timestamps::TimeUnit;
use super::{BadRow, FileError, Place, ReadOptions, Record, Stop, Take};

/// Delimiters that are detected. If several of them give equally good tables, the first is chosen. The
/// comma is last, since it may also be a decimal mark.
const DELIMITERS: [u8; 4] = *b";\t|,";

/// Maximum size of the sample: a header of 1 024 long names, or many usual records.
const SAMPLE_BYTES: u64 = 1024 * 1024;

/// Number of records that are compared, enough to detect the type of a column.
const SAMPLE_RECORDS: usize = 100;

/// Maximum number of header lines: two or three levels of column names, and a line with the name of the
/// index.
const HEADER_LINES_MAX: usize = 4;

/// First character of a comment line.
const COMMENT: &str = "#";

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
        let is_stream = input.size_bytes().is_none();
        let again = input.again()?;
        let mut text = BufReader::new(input.text(0)?);
        let sample = read_sample(&mut text, options, is_stream)?;
        let CsvHead { delimiter, fields, begin } = CsvHead::read(&sample, options)?;
        let (text, at): (Box<dyn BufRead + Send>, _) =
            if from.offset_bytes > begin.offset_bytes && !is_stream {
                drop(text);
                (Box::new(BufReader::new(again.text(from.offset_bytes)?)), from)
            } else {
                let n_head = usize::try_from(begin.offset_bytes).unwrap_or(usize::MAX);
                let rest = sample.get(n_head..).unwrap_or_default().to_vec();
                (Box::new(Cursor::new(rest).chain(text)), begin)
            };
        Ok(Self { reader: CsvReader::resume(text, delimiter, at), fields })
    }

    pub(super) fn next(&mut self, take: Take<'_>) -> Record {
        loop {
            if !self.reader.read()? {
                return Ok(None);
            }
            let (line, next) = self.reader.position();
            let bad = |reason: String| Stop::Bad(BadRow { line, reason });
            let Some(mut texts) = self.reader.fields() else {
                return Err(bad("line is not UTF-8".to_owned()));
            };
            if self.reader.fault() == Some(UNCLOSED) {
                return Err(bad(UNCLOSED.to_owned()));
            }
            if self.reader.n_fields() == self.fields.len() {
                for (field, (name, (text, is_quoted))) in self.fields.iter().zip(texts).enumerate()
                {
                    // A quoted text is a value, even if it would represent a missing value without
                    // the quotes.
                    let cell = if is_quoted { Cell::Text(text) } else { Cell::Bare(text) };
                    take(field, name, cell);
                }
                return Ok(Some(Place { line, next }));
            }
            if !texts.next().is_some_and(|(text, _)| text.starts_with('#')) {
                let (n_fields, n_names) = (self.reader.n_fields(), self.fields.len());
                return Err(bad(format!("expected {n_names} fields, found {n_fields}")));
            }
        }
    }
}

/// Layout of a CSV file.
#[derive(Debug, PartialEq, Eq)]
struct CsvHead {
    delimiter: u8,
    /// Names of the fields.
    fields: Vec<String>,
    /// Start of the first row.
    begin: Position,
}

/// A record of the sample and its position.
struct SampleRecord {
    begin: Position,
    end: Position,
    fields: Vec<String>,
}

impl SampleRecord {
    fn is_comment(&self) -> bool {
        self.fields.first().is_some_and(|field| field.starts_with(COMMENT))
    }

    fn n_filled(&self) -> usize {
        self.fields.iter().filter(|field| !field.trim().is_empty()).count()
    }

    /// Returns true if only the first of several fields has a value.
    fn has_first_only(&self) -> bool {
        self.n_filled() == 1 && self.fields.first().is_some_and(|field| !field.trim().is_empty())
    }
}

/// Reads the sample of a file, which is its beginning. Since a stream may be slow, its sample only
/// consists of the skipped lines and the lines up to the first record after them.
fn read_sample(
    text: &mut impl BufRead,
    options: ReadOptions,
    is_stream: bool,
) -> Result<Vec<u8>, FileError> {
    let mut sample = Vec::new();
    let mut limited = text.take(SAMPLE_BYTES);
    if !is_stream {
        limited.read_to_end(&mut sample)?;
        return Ok(sample);
    }
    let (mut n_lines, mut begin) = (0, 0);
    while limited.read_until(b'\n', &mut sample)? > 0 {
        n_lines += 1;
        let record = sample.get(begin..).unwrap_or_default();
        let is_quoted = record.iter().fold(false, |is_quoted, byte| is_quoted ^ (*byte == b'"'));
        let is_skipped = n_lines <= options.skip_lines || record.starts_with(COMMENT.as_bytes());
        if is_skipped || record.trim_ascii().is_empty() {
            begin = sample.len();
        } else if !is_quoted {
            break;
        }
    }
    Ok(sample)
}

impl CsvHead {
    /// Detects the layout of the file that begins with `sample`.
    ///
    /// # Errors
    /// [`FileError::Empty`] if there is no record, [`FileError::Invalid`] if the header is missing,
    /// has a duplicate name, or is ambiguous.
    fn read(sample: &[u8], options: ReadOptions) -> Result<Self, FileError> {
        if sample.contains(&b'\r') && !sample.contains(&b'\n') {
            return Err(FileError::carriage_returns());
        }
        let begin = skip_lines(sample, options.skip_lines);
        let delimiter = options.delimiter.unwrap_or_else(|| likeliest_delimiter(sample, begin));
        let mut records = split(sample, begin, delimiter)?;
        let n_fields = usual_width(&records.iter().filter(|record| !record.is_comment()));
        let comment = take_comments(&mut records, n_fields);
        if options.skip_lines == 0 {
            drop_banner(&mut records, n_fields)?;
        }
        let Some(first) = records.first() else { return Err(FileError::Empty) };
        let (first_begin, first_end) = (first.begin, first.end);
        if options.has_header != Some(false)
            && let Some(n_lines) = index_line(&records, n_fields)
        {
            let (names, end) = (level_names(&records, n_lines), records.get(n_lines));
            let begin = end.map_or(first_end, |record| record.end);
            return Ok(Self { delimiter, fields: header(names)?, begin });
        }
        let is_header = match options.has_header {
            Some(is_header) => is_header,
            None => is_header(&records)?,
        };
        if is_header {
            return Ok(Self { delimiter, fields: header(first.fields.clone())?, begin: first_end });
        }
        // If there is no header, a comment just before the data can contain the names of the fields.
        let fields = match comment.filter(|_| options.has_header.is_none()) {
            Some(names) => header(names)?,
            None => (0..first.fields.len()).map(numbered).collect(),
        };
        Ok(Self { delimiter, fields, begin: first_begin })
    }
}

/// Returns the position after the byte order mark and the first `n_lines` lines of the text.
fn skip_lines(sample: &[u8], n_lines: u64) -> Position {
    let mut begin = Position::default();
    if sample.starts_with(BYTE_ORDER_MARK) {
        begin.offset_bytes = BYTE_ORDER_MARK.len() as u64;
    }
    for _ in 0..n_lines {
        let rest = rest(sample, begin);
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else { break };
        begin.offset_bytes += end as u64 + 1;
        begin.line += 1;
    }
    begin
}

fn rest(sample: &[u8], from: Position) -> &[u8] {
    let from = usize::try_from(from.offset_bytes).unwrap_or(usize::MAX);
    sample.get(from..).unwrap_or_default()
}

/// Splits the sample into records, at most [`SAMPLE_RECORDS`]. Drops the last record if the end of the
/// sample may have truncated it, unless it is the only one.
fn split(sample: &[u8], begin: Position, delimiter: u8) -> Result<Vec<SampleRecord>, FileError> {
    let mut reader = CsvReader::resume(rest(sample, begin), delimiter, begin);
    let (mut records, mut at) = (Vec::new(), begin);
    let is_cut = sample.len() as u64 >= SAMPLE_BYTES;
    while records.len() < SAMPLE_RECORDS && reader.read()? {
        let (_, end) = reader.position();
        if is_cut && end.offset_bytes >= sample.len() as u64 && !records.is_empty() {
            break;
        }
        let fields = match reader.fields() {
            Some(fields) => fields.map(|(field, _)| field.to_owned()).collect(),
            None if records.is_empty() => {
                return Err(FileError::Invalid("header is not UTF-8".to_owned()));
            }
            // The error is ignored here, since it is reported when the rows are read.
            None => Vec::new(),
        };
        records.push(SampleRecord { begin: at, end, fields });
        at = end;
    }
    Ok(records)
}

/// Returns the most frequent number of fields. If several are equally frequent, returns the first.
fn usual_width<'a>(records: &(impl Iterator<Item = &'a SampleRecord> + Clone)) -> usize {
    let n_of = |width: usize| records.clone().filter(|it| it.fields.len() == width).count();
    let widths = records.clone().map(|record| record.fields.len());
    let counted = widths.map(|width| (n_of(width), width));
    let usual = counted.reduce(|best, next| if next.0 > best.0 { next } else { best });
    usual.map_or(0, |(_, width)| width)
}

/// Returns the delimiter that gives the most records of equal width, preferring wide records.
fn likeliest_delimiter(sample: &[u8], begin: Position) -> u8 {
    let table = |delimiter: &u8| {
        let records = split(sample, begin, *delimiter).unwrap_or_default();
        let rows = records.iter().filter(|record| !record.is_comment());
        let width = usual_width(&rows);
        let n_equal = rows.filter(|record| record.fields.len() == width).count();
        if width < 2 { (0, 0) } else { (n_equal, width) }
    };
    let tables = DELIMITERS.iter().map(|delimiter| (table(delimiter), *delimiter));
    let best = tables.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(table, _)| *table != (0, 0)).map_or(b',', |(_, delimiter)| delimiter)
}

/// Removes comment lines. Returns the fields of the last comment before the first record if it has
/// `n_fields` fields.
fn take_comments(records: &mut Vec<SampleRecord>, n_fields: usize) -> Option<Vec<String>> {
    let n_before = records.iter().take_while(|record| record.is_comment()).count();
    let before: Vec<_> = records.drain(..n_before).collect();
    records.retain(|record| !(record.is_comment() && record.fields.len() != n_fields));
    let last = before.into_iter().next_back().filter(|record| record.fields.len() == n_fields)?;
    let mut fields = last.fields;
    if let Some(first) = fields.first_mut() {
        *first = first.trim_start_matches(COMMENT).trim().to_owned();
    }
    (n_fields > 1).then_some(fields)
}

/// Removes lines before the table that only have a text in the first field.
///
/// # Errors
/// If such a line also has other fields, since it may be a malformed header.
fn drop_banner(records: &mut Vec<SampleRecord>, n_fields: usize) -> Result<(), FileError> {
    let is_wide = |record: &SampleRecord| record.fields.len() == n_fields;
    let is_first_value =
        |record: &SampleRecord| record.fields.first().is_some_and(|field| is_value(field));
    let is_table = |record: &SampleRecord| {
        is_wide(record) && (record.n_filled() > 1 || is_first_value(record))
    };
    let has_table = n_fields > 1 && records.iter().filter(|record| is_wide(record)).count() > 1;
    let n_banner = records.iter().take_while(|record| !is_table(record)).count();
    if !has_table || n_banner == 0 || n_banner == records.len() {
        return Ok(());
    }
    let unclear = records
        .iter()
        .take(n_banner)
        .find(|record| !record.has_first_only() || is_first_value(record));
    if let Some(record) = unclear {
        let line = record.begin.line + 1;
        return Err(FileError::Invalid(format!(
            "line {line} has {} fields, and most lines have {n_fields}: pass --skip-lines {line} if \
             it is not part of the table, or correct it",
            record.fields.len()
        )));
    }
    records.drain(..n_banner);
    Ok(())
}

/// Finds the line that names the index of a table, below a header of one or several lines. Such a line
/// has a name in the first field, and its other fields are empty.
fn index_line(records: &[SampleRecord], n_fields: usize) -> Option<usize> {
    let is_index = |record: &SampleRecord| {
        let name = record.fields.first().map_or("", |name| name.trim());
        record.fields.len() == n_fields && record.has_first_only() && is_time_name(name)
    };
    let place = records.iter().take(HEADER_LINES_MAX).position(is_index)?;
    let levels = records.get(..place)?;
    let is_level = |record: &SampleRecord| {
        record.fields.len() == n_fields && record.fields.iter().all(|name| !is_value(name))
    };
    (place > 0 && n_fields > 1 && levels.iter().all(is_level)).then_some(place)
}

/// Returns the column names of a header of `n_levels` lines. The line below the header names the first
/// column. The other columns get the names of a header line that has no duplicates, or else the joined
/// names of all header lines.
fn level_names(records: &[SampleRecord], n_levels: usize) -> Vec<String> {
    let levels: Vec<&[String]> = records
        .iter()
        .take(n_levels)
        .map(|record| record.fields.get(1..).unwrap_or_default())
        .collect();
    let is_unique = |names: &&&[String]| {
        let different: HashSet<_> = names.iter().map(|name| name.trim()).collect();
        different.len() == names.len()
    };
    let names: Vec<String> = match levels.iter().find(is_unique) {
        Some(names) => names.to_vec(),
        None => (0..levels.first().map_or(0, |names| names.len()))
            .map(|idx| {
                let parts =
                    levels.iter().filter_map(|names| names.get(idx)).map(|name| name.trim());
                parts.collect::<Vec<_>>().join("_")
            })
            .collect(),
    };
    let index = records.get(n_levels).and_then(|record| record.fields.first()).cloned();
    index.into_iter().chain(names).collect()
}

/// Returns the name of a field without a name.
pub(super) fn numbered(idx: usize) -> String {
    format!("column_{}", idx + 1)
}

/// Returns the field names of a CSV header.
///
/// # Errors
/// If a name occurs twice.
fn header(names: Vec<String>) -> Result<Vec<String>, FileError> {
    unique(names).map_err(|error| {
        FileError::Invalid(format!(
            "{error}: rename one of them, or skip the header with --skip-lines and pass --no-header"
        ))
    })
}

/// Returns the field names of a header. Duplicate names are an error.
pub(super) fn unique(names: Vec<String>) -> Result<Vec<String>, FileError> {
    let mut seen = HashSet::new();
    let name = |(idx, name): (usize, String)| {
        let name = name.trim();
        // MetaTrader encloses names in angle brackets, as in <DATE>.
        let bare = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
        let name = match bare.unwrap_or(name) {
            // pandas writes an empty name for an unnamed index.
            "" => numbered(idx),
            name => name.to_owned(),
        };
        if seen.insert(name.clone()) { Ok(name) } else { Err(FileError::named_twice(&name)) }
    };
    names.into_iter().enumerate().map(name).collect()
}

/// Type of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Time,
    Number,
    Text,
}

impl LineKind {
    /// Classifies a field. Returns `None` if it has no value.
    fn classify(field: &str) -> Option<Self> {
        let cell = Cell::Bare(field);
        if cell.is_absent() || cell.is_dash() {
            return None;
        }
        Some(match cell.float() {
            // 1700000000 may be a time, but 0.5 cannot be.
            Some(number) if TimeUnit::guess(number).is_some() => Self::Time,
            Some(_) => Self::Number,
            None if is_time(field) => Self::Time,
            None => Self::Text,
        })
    }
}

fn is_time(text: &str) -> bool {
    let is_timestamp = TimeTexts::default().read(text).is_ok();
    is_timestamp || day_first(text).is_some() || is_clock(text, false)
}

/// Returns true if a text is a time or a number, which is unlikely as the name of a column.
pub(super) fn is_value(text: &str) -> bool {
    matches!(LineKind::classify(text), Some(LineKind::Time | LineKind::Number))
}

/// Returns true if the first record is a header.
///
/// A text above times or numbers is a name. A time above times is data. Numbers above numbers are
/// ambiguous, since quantiles and years can be names. If no field is decisive, the record is a header
/// unless it is clearly data.
///
/// # Errors
/// If the record has both names and data.
fn is_header(records: &[SampleRecord]) -> Result<bool, FileError> {
    let Some((first, others)) = records.split_first() else { return Ok(true) };
    let others: Vec<_> =
        others.iter().filter(|record| record.fields.len() == first.fields.len()).collect();
    let mut name = first.fields.iter().find(|field| is_time_name(field));
    if others.is_empty() {
        return Ok(name.is_some() || !is_data(&first.fields));
    }
    let mut datum = None;
    for (idx, field) in first.fields.iter().enumerate() {
        let below = others.iter().filter_map(|record| LineKind::classify(record.fields.get(idx)?));
        let (mut n_times, mut n_numbers, mut n_all) = (0, 0, 0);
        for kind in below {
            n_all += 1;
            n_times += usize::from(kind == LineKind::Time);
            n_numbers += usize::from(kind == LineKind::Number);
        }
        let is_most = |n_of: usize| n_of > 0 && n_of * 10 >= n_all * 9;
        match LineKind::classify(field) {
            Some(LineKind::Time) if is_most(n_times) => datum = datum.or(Some(field)),
            Some(LineKind::Text) if is_most(n_times + n_numbers) => name = name.or(Some(field)),
            // Dates above numbers are column names: the table has a column for each day.
            Some(LineKind::Time) if is_most(n_numbers) && Cell::Bare(field).float().is_none() => {
                name = name.or(Some(field));
            }
            _ => {}
        }
    }
    match (name, datum) {
        (Some(_), None) => Ok(true),
        (None, Some(_)) => Ok(false),
        (None, None) => Ok(!is_data(&first.fields)),
        (Some(name), Some(datum)) => Err(FileError::Invalid(format!(
            "unclear if line {} is a header: `{}` looks like a name, and `{}` like a value: pass \
             --header or --no-header",
            first.begin.line + 1,
            shorten(name),
            shorten(datum),
        ))),
    }
}

/// Returns true if a record is clearly data, without comparing it with other records: all its fields are
/// numbers and times, or at least half are fractions, dates and times, which are unlikely names.
fn is_data(record: &[String]) -> bool {
    let is_number = |text: &str| Cell::Bare(text).float().is_some();
    let is_plain = |text: &str| is_time(text) || text.contains('.') && is_number(text);
    let n_plain = record.iter().filter(|text| is_plain(text)).count();
    let n_numbers = record.iter().filter(|text| !is_plain(text) && is_number(text)).count();
    n_plain + n_numbers == record.len() || n_plain * 2 >= record.len()
}
