//! Renders rows as text: CSV, or JSON in the three forms of the service's API.
//!
//! This is hand-written because a bulk download spends nearly all its time here, and because numbers
//! must be formatted as by the upstream program, which is written in Go. `cargo bench -p datasets
//! --bench http -- download` shows the gain. Bodies without rows use `wire`. Whole files of rows,
//! including columnar formats, are in [`document`].

mod arrow;
pub mod document;
mod number;
pub mod parquet;
mod text;

use model::block::{Block, Rows, Series};
use model::dataset::{BAR_COLUMNS, Column, DatasetId, Dtype, TIMESTAMP};
use model::row::{Bucket, COMPLETE, ROW_TEXT_BYTES_MAX};
use model::timestamp::Timestamp;

use crate::read::cell::ABSENT;
use number::{TimestampWriter, put_float, put_integer};
use text::{Phrase, put, put_with};

/// Estimated maximum length of a row without its values.
const ROW_BYTES: usize = 160;

/// Maximum length of a number in JSON, with the punctuation around its name and its value.
const VALUE_BYTES: usize = 30;

/// Unicode line terminators that are not control characters in JSON.
const LINE_ENDS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

/// Output format of rows.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "lowercase")]
pub enum Output {
    /// An array of flat rows.
    Json,
    /// A header and a line for each row.
    Csv,
    /// A flat row on each line.
    Ndjson,
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC stream.
    Arrow,
}

/// A column of a file. The timestamps, which every file has, are not included.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    /// Name. Empty for a deleted column, which files do not contain.
    name: String,
    dtype: Dtype,
    /// True if some rows may have no value.
    is_nullable: bool,
}

/// Returns the columns of the buckets of a dataset, in order. If `complete` is true, the last column is
/// true for complete buckets.
#[must_use]
pub fn bucket_columns(dataset_id: DatasetId, complete: bool) -> Vec<Column> {
    let floats = BAR_COLUMNS.map(|name| (name, Dtype::Float));
    let column = |(name, dtype): (&str, Dtype)| Column {
        id: 0,
        dataset_id,
        name: name.to_owned(),
        dtype,
        created_at: Timestamp::default(),
    };
    let complete = complete.then_some((COMPLETE, Dtype::Boolean));
    floats.into_iter().chain([("count", Dtype::Integer)]).chain(complete).map(column).collect()
}

/// Writes the rows of a dataset.
#[derive(Debug, Clone)]
pub struct Writer {
    dataset: DatasetId,
    /// Text between the number of a row and its timestamp, in a page.
    place: Phrase,
    /// Names of the columns, in order. The name of a deleted column is empty.
    names: Vec<String>,
    /// Indices of the columns that are not deleted.
    shown: Vec<usize>,
    /// `,"name":` for each column, in order.
    keys: Vec<Phrase>,
    /// Members of a flat row in alphabetical order. Each is the index of a column, or `None` for the
    /// timestamp.
    flat: Vec<Option<usize>>,
    timestamps: TimestampWriter,
    /// Writer of creation times. It is separate from the writer of timestamps, since each caches its
    /// last date, and rows are rarely created on the day of their timestamp.
    created: TimestampWriter,
    /// Start of the current bucket, which is incomplete. Earlier buckets are complete.
    current: Timestamp,
}

impl Output {
    /// Returns the file extension of the format.
    pub fn extension(self) -> &'static str {
        match self {
            // The extension that is registered for streams of this format.
            Self::Arrow => "arrows",
            _ => self.into(),
        }
    }

    /// Returns the media type of the format.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
            Self::Parquet => "application/vnd.apache.parquet",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }

    /// Returns true if the format is text, which compresses well.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Json | Self::Csv | Self::Ndjson)
    }
}

impl Writer {
    /// Creates a writer of rows of `dataset` with all its columns, or of its buckets with the columns
    /// [`bucket_columns`]. Columns with an empty name are not written.
    #[must_use]
    pub fn new(dataset: DatasetId, columns: &[Column]) -> Self {
        Self::of_names(dataset, columns.iter().map(|column| column.name.clone()).collect())
    }

    /// Creates a writer for columns with these names. The names of deleted columns are empty.
    fn of_names(dataset: DatasetId, names: Vec<String>) -> Self {
        let keys = names.iter().map(|name| {
            let mut key = vec![b','];
            push_text(&mut key, name);
            key.push(b':');
            Phrase::new(&key)
        });
        let shown = names.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let shown: Vec<usize> = shown.map(|(idx, _)| idx).collect();
        let mut flat: Vec<Option<usize>> =
            std::iter::once(None).chain(shown.iter().copied().map(Some)).collect();
        flat.sort_by_key(|place| {
            place.and_then(|idx| names.get(idx)).map_or(TIMESTAMP, |name| name)
        });
        Self {
            dataset,
            place: Phrase::new(format!(",\"dataset_id\":{dataset},\"timestamp\":\"").as_bytes()),
            keys: keys.collect(),
            flat,
            timestamps: TimestampWriter::default(),
            created: TimestampWriter::default(),
            current: Timestamp::MIN,
            names,
            shown,
        }
    }

    /// Sets the start of the current, incomplete bucket, for the last of [`bucket_columns`].
    #[must_use]
    pub const fn with_current(mut self, current: Timestamp) -> Self {
        self.current = current;
        self
    }

    /// Writes a flat row, without a line end: `{"close":…,"timestamp":"…"}`. Keys are sorted and missing
    /// values are omitted.
    pub fn flat_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        let at = self.put_flat_row(to, to.len(), block, row_idx);
        to.truncate(at);
    }

    /// Writes the timestamp of a row, without quotes.
    pub fn timestamp(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        let at = self.timestamps.put_bare(to, to.len(), timestamp_at(&block.times, row_idx));
        to.truncate(at);
    }

    /// Writes the rows of a page, separated by commas. Either all of their timestamps have a fraction or
    /// none, since pandas parses only such lists.
    pub fn page(&mut self, to: &mut Vec<u8>, rows: &Rows) {
        let mut at = to.len();
        self.timestamps.has_fractions = match rows {
            Rows::Raw(block) => block.times.iter().any(|time| time.micros() % 1_000_000 != 0),
            Rows::Buckets(_) => false,
        };
        for row_idx in 0..rows.len() {
            if row_idx > 0 {
                at = put(to, at, b",");
            }
            at = match rows {
                Rows::Raw(block) => self.put_page_row(to, at, block, row_idx),
                Rows::Buckets(buckets) => match buckets.get(row_idx) {
                    Some(bucket) => self.put_page_bucket(to, at, bucket),
                    None => at,
                },
            };
        }
        to.truncate(at);
    }

    /// Writes rows as in the middle of a text file.
    pub fn file_rows(&mut self, to: &mut Vec<u8>, block: &Block, output: Output) {
        let mut at = to.len();
        for row_idx in 0..block.len() {
            if row_idx > 0 && output == Output::Json {
                at = put(to, at, b",");
            }
            at = match output {
                Output::Csv => self.put_csv_row(to, at, block, row_idx),
                _ => self.put_flat_row(to, at, block, row_idx),
            };
            if output == Output::Ndjson {
                at = put(to, at, b"\n");
            }
        }
        to.truncate(at);
    }

    /// Writes a flat row.
    #[inline]
    fn put_flat_row(
        &mut self,
        to: &mut Vec<u8>,
        start: usize,
        block: &Block,
        row_idx: usize,
    ) -> usize {
        let mut at = start;
        for place in &self.flat {
            match place {
                None => {
                    at = put(to, at, b",\"timestamp\":");
                    at = self.timestamps.put(to, at, timestamp_at(&block.times, row_idx));
                }
                Some(idx) => {
                    if let (Some(key), Some(series)) =
                        (self.keys.get(*idx), block.columns.get(*idx))
                    {
                        at = put_member(to, at, key, series, row_idx);
                    }
                }
            }
        }
        put_object(to, start, at)
    }

    /// Writes a row of a page: its number, its dataset, its timestamps, and its values in the order of
    /// the columns.
    fn put_page_row(
        &mut self,
        to: &mut Vec<u8>,
        at: usize,
        block: &Block,
        row_idx: usize,
    ) -> usize {
        let at = put(to, at, b"{\"id\":");
        let at = put_integer(to, at, block.ids.get(row_idx).copied().unwrap_or_default());
        let at = self.place.put(to, at);
        let at = self.timestamps.put_bare(to, at, timestamp_at(&block.times, row_idx));
        let at = put(to, at, b"\",\"created_at\":");
        let at = self.created.put(to, at, timestamp_at(&block.created, row_idx));
        let start = put(to, at, b",\"values\":");
        let mut at = start;
        for idx in &self.shown {
            if let (Some(key), Some(series)) = (self.keys.get(*idx), block.columns.get(*idx)) {
                at = put_member(to, at, key, series, row_idx);
            }
        }
        let at = put_object(to, start, at);
        put(to, at, b"}")
    }

    /// Writes a bucket of a page.
    fn put_page_bucket(&mut self, to: &mut Vec<u8>, at: usize, bucket: &Bucket) -> usize {
        let at = put(to, at, b"{\"dataset_id\":");
        let at = put_integer(to, at, self.dataset.get());
        let at = put(to, at, b",\"timestamp\":");
        let at = self.timestamps.put(to, at, bucket.timestamp);
        let Bucket { open, high, low, close, volume, count, .. } = *bucket;
        let numbers = [open, high, low, close, volume];
        let mut at = at;
        for idx in &self.shown {
            at = self.keys.get(*idx).map_or(at, |key| key.put(to, at));
            at = match numbers.get(*idx) {
                Some(number) if number.is_nan() => put(to, at, b"null"),
                Some(number) => put_float(to, at, *number),
                None if *idx == numbers.len() => {
                    put_integer(to, at, i64::try_from(count).unwrap_or(i64::MAX))
                }
                None => put_truth(to, at, bucket.timestamp < self.current),
            };
        }
        put(to, at, b"}")
    }

    /// Writes the first line of a CSV file.
    pub fn csv_header(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(TIMESTAMP.as_bytes());
        for name in self.shown.iter().filter_map(|idx| self.names.get(*idx)) {
            to.push(b',');
            push_cell(to, name);
        }
        to.push(b'\n');
    }

    /// Writes a row as a line of CSV.
    fn put_csv_row(&mut self, to: &mut Vec<u8>, at: usize, block: &Block, row_idx: usize) -> usize {
        let mut at = self.timestamps.put_bare(to, at, timestamp_at(&block.times, row_idx));
        for idx in &self.shown {
            at = put(to, at, b",");
            if let Some(series) = block.columns.get(*idx) {
                at = put_value(to, at, series, row_idx, push_cell).unwrap_or(at);
            }
        }
        put(to, at, b"\n")
    }
}

/// Links from a page to its neighbors, if they exist.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvelopeLinks<'a> {
    /// Link to the next page.
    pub next: Option<&'a str>,
    /// Link to the previous page.
    pub previous: Option<&'a str>,
}

/// Writes the envelope of a page up to its results.
pub fn push_envelope(to: &mut Vec<u8>, count: i64, links: EnvelopeLinks<'_>) {
    to.extend_from_slice(b"{\"count\":");
    to.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    for (name, link) in [("next", links.next), ("previous", links.previous)] {
        to.extend_from_slice(format!(",\"{name}\":").as_bytes());
        match link {
            Some(link) => push_text(to, link),
            None => to.extend_from_slice(b"null"),
        }
    }
    to.extend_from_slice(b",\"results\":[");
}

fn timestamp_at(timestamps: &[Timestamp], row_idx: usize) -> Timestamp {
    timestamps.get(row_idx).copied().unwrap_or_default()
}

/// Turns the members from `start` to `at`, each of which begins with a comma, into an object by
/// replacing the first comma.
#[inline]
fn put_object(to: &mut Vec<u8>, start: usize, at: usize) -> usize {
    put(to, start, b"{");
    put(to, at.max(start + 1), b"}")
}

/// Writes the value of a row as a member of an object. If the value is missing, returns `at`, so that
/// the next write overwrites the key.
#[inline]
fn put_member(to: &mut Vec<u8>, at: usize, key: &Phrase, series: &Series, row_idx: usize) -> usize {
    let value_at = key.put(to, at);
    put_value(to, value_at, series, row_idx, push_text).unwrap_or(at)
}

/// Writes the value of a row. Texts are written with `push`. Returns `None` if the value is missing.
#[inline]
fn put_value(
    to: &mut Vec<u8>,
    at: usize,
    series: &Series,
    row_idx: usize,
    push: fn(&mut Vec<u8>, &str),
) -> Option<usize> {
    Some(match series {
        Series::Float(values) => put_float(to, at, (*values.get(row_idx)?)?),
        Series::Integer(values) => put_integer(to, at, (*values.get(row_idx)?)?),
        Series::Boolean(values) => put_truth(to, at, (*values.get(row_idx)?)?),
        Series::String(values) => {
            let text = values.get(row_idx)?.as_deref()?;
            put_with(to, at, |to| push(to, text))
        }
    })
}

fn put_truth(to: &mut Vec<u8>, at: usize, truth: bool) -> usize {
    if truth { put(to, at, b"true") } else { put(to, at, b"false") }
}

/// Estimates the maximum length of a row with these columns as JSON.
pub fn row_bytes_max(columns: &[Column]) -> usize {
    let has_texts = columns.iter().any(|column| column.dtype == Dtype::String);
    bare_row_bytes(columns) + if has_texts { ROW_TEXT_BYTES_MAX } else { 0 }
}

/// Estimates the same length as [`row_bytes_max`] for rows without texts.
pub fn bare_row_bytes(columns: &[Column]) -> usize {
    let names = columns.iter().map(|column| text_bytes(&column.name) + VALUE_BYTES);
    ROW_BYTES + names.sum::<usize>()
}

/// Returns the length of `text` as a JSON string, without quotes.
pub fn text_bytes(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// Writes a JSON string. Escapes characters that some programs treat as line terminators, so that every
/// program sees one line per row of NDJSON.
pub fn push_text(to: &mut Vec<u8>, text: &str) {
    let begin = to.len();
    // Writing a string to memory cannot fail.
    serde_json::to_writer(&mut *to, text).unwrap_or_default();
    if !text.is_ascii() && text.contains(LINE_ENDS) {
        let written = to.split_off(begin);
        for letter in String::from_utf8_lossy(&written).chars() {
            if LINE_ENDS.contains(&letter) {
                to.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
            } else {
                to.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
}

/// Writes a CSV field as in RFC 4180, quoted if necessary.
fn push_cell(to: &mut Vec<u8>, text: &str) {
    // Quotes distinguish a text such as NA from a missing value.
    let has_quotes = ABSENT.contains(&text.trim()) || text.contains(['"', ',', '\n', '\r']);
    if has_quotes {
        to.push(b'"');
        to.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        to.push(b'"');
    } else {
        to.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
