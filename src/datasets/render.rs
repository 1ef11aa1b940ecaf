//! Rows as text: JSON in the three forms of document 2, and CSV.
//!
//! Written by hand because a bulk download spends nearly all its time here, and because the numbers
//! are to look as the upstream (in Go) prints them. Bodies without rows go through `wire`. Whole
//! files of rows, also in the formats that hold columns, are in [`document`].

mod arrow;
pub(crate) mod document;
pub(crate) mod number;
mod parquet;

use model::{
    dataset::{Column, DatasetId, Dtype},
    row::Bucket,
    timestamp::Timestamp,
};

use crate::{
    append::ROW_TEXT_BYTES_MAX,
    block::{Block, Series},
};
use number::{Moments, push_float, push_integer, push_short};

/// The name of the member of a flat row that says when. No column may have it.
pub(crate) const TIMESTAMP: &str = "timestamp";

/// About how long a row is beside its values, at most.
const ROW_BYTES: usize = 160;

/// The longest number, and what stands around a name and a value.
const VALUE_BYTES: usize = 30;

/// The header of buckets as CSV, by document 2.
const BUCKETS_HEADER: &[u8] = b"timestamp,open,high,low,close,volume,count\n";

/// Writes the rows of one dataset.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    dataset: DatasetId,
    /// What is between the number of a row of a page and its moment.
    place: Vec<u8>,
    names: Vec<String>,
    /// `,"name":` for each column, in their order.
    keys: Vec<Vec<u8>>,
    /// The members of a flat row in alphabetical order: a column's place, or none for the moment.
    flat: Vec<Option<usize>>,
    moments: Moments,
    created: Created,
}

/// What is between the moment of a row of a page and its values. Rows are seldom created on the day
/// that they are about, and often many at one moment.
#[derive(Debug, Clone, Default)]
struct Created {
    moments: Moments,
    /// The moment that was asked for last.
    moment: Option<Timestamp>,
    text: Vec<u8>,
}

impl Created {
    fn text(&mut self, moment: Timestamp) -> &[u8] {
        if self.moment != Some(moment) {
            self.text.clear();
            self.text.extend_from_slice(b"\",\"created_at\":");
            self.moments.push(&mut self.text, moment);
            self.text.extend_from_slice(b",\"values\":");
            self.moment = Some(moment);
        }
        &self.text
    }
}

impl Writer {
    pub(crate) fn new(dataset: DatasetId, columns: &[Column]) -> Self {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let keys = names.iter().map(|name| {
            let mut key = vec![b','];
            push_text(&mut key, name);
            key.push(b':');
            key
        });
        let mut flat: Vec<Option<usize>> =
            std::iter::once(None).chain((0..names.len()).map(Some)).collect();
        flat.sort_by_key(|place| {
            place.and_then(|idx| names.get(idx)).map_or(TIMESTAMP, |name| name)
        });
        Self {
            dataset,
            place: format!(",\"dataset_id\":{dataset},\"timestamp\":\"").into_bytes(),
            keys: keys.collect(),
            flat,
            moments: Moments::default(),
            created: Created::default(),
            names,
        }
    }

    /// A flat row, without a line end: `{"close":…,"timestamp":"…"}`, keys sorted, members without
    /// a value left out.
    #[inline]
    pub(crate) fn flat_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        let start = to.len();
        for place in &self.flat {
            match place {
                None => {
                    to.extend_from_slice(b",\"timestamp\":");
                    self.moments.push(to, moment(&block.times, row_idx));
                }
                Some(idx) => {
                    if let (Some(key), Some(series)) =
                        (self.keys.get(*idx), block.columns.get(*idx))
                    {
                        push_member(to, key, series, row_idx);
                    }
                }
            }
        }
        open_object(to, start);
    }

    /// The moment of a row, without quotes.
    pub(crate) fn moment(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        self.moments.push_bare(to, moment(&block.times, row_idx));
    }

    /// A row of a page: its number, dataset, moments, and its values in the order of the columns.
    pub(crate) fn page_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        to.extend_from_slice(b"{\"id\":");
        push_integer(to, block.ids.get(row_idx).copied().unwrap_or_default());
        push_short(to, &self.place);
        self.moments.push_bare(to, moment(&block.times, row_idx));
        to.extend_from_slice(self.created.text(moment(&block.created, row_idx)));
        let start = to.len();
        for (key, series) in self.keys.iter().zip(&block.columns) {
            push_member(to, key, series, row_idx);
        }
        open_object(to, start);
        to.push(b'}');
    }

    /// A bucket of a page.
    pub(crate) fn page_bucket(&mut self, to: &mut Vec<u8>, bucket: &Bucket) {
        to.extend_from_slice(b"{\"dataset_id\":");
        push_integer(to, self.dataset.get());
        to.extend_from_slice(b",\"timestamp\":");
        self.moments.push(to, bucket.timestamp);
        for (key, number) in [
            (&b",\"open\":"[..], bucket.open),
            (b",\"high\":", bucket.high),
            (b",\"low\":", bucket.low),
            (b",\"close\":", bucket.close),
            (b",\"volume\":", bucket.volume),
        ] {
            to.extend_from_slice(key);
            push_float(to, number);
        }
        to.extend_from_slice(b",\"count\":");
        push_count(to, bucket.count);
        to.push(b'}');
    }

    /// The first line of a CSV file.
    pub(crate) fn csv_header(&self, to: &mut Vec<u8>, is_bucketed: bool) {
        if is_bucketed {
            return to.extend_from_slice(BUCKETS_HEADER);
        }
        to.extend_from_slice(TIMESTAMP.as_bytes());
        for name in &self.names {
            to.push(b',');
            push_cell(to, name);
        }
        to.push(b'\n');
    }

    /// A bucket in the form of a flat row.
    pub(crate) fn flat_bucket(&mut self, to: &mut Vec<u8>, bucket: &Bucket) {
        to.extend_from_slice(b"{\"close\":");
        push_float(to, bucket.close);
        to.extend_from_slice(b",\"count\":");
        push_count(to, bucket.count);
        to.extend_from_slice(b",\"high\":");
        push_float(to, bucket.high);
        to.extend_from_slice(b",\"low\":");
        push_float(to, bucket.low);
        to.extend_from_slice(b",\"open\":");
        push_float(to, bucket.open);
        to.extend_from_slice(b",\"timestamp\":");
        self.moments.push(to, bucket.timestamp);
        to.extend_from_slice(b",\"volume\":");
        push_float(to, bucket.volume);
        to.push(b'}');
    }

    /// A row as a line of CSV.
    pub(crate) fn csv_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        self.moments.push_bare(to, moment(&block.times, row_idx));
        for series in &block.columns {
            to.push(b',');
            push_value_cell(to, series, row_idx);
        }
        to.push(b'\n');
    }

    /// A bucket as a line of CSV.
    pub(crate) fn csv_bucket(&mut self, to: &mut Vec<u8>, bucket: &Bucket) {
        self.moments.push_bare(to, bucket.timestamp);
        for number in [bucket.open, bucket.high, bucket.low, bucket.close, bucket.volume] {
            to.push(b',');
            push_float(to, number);
        }
        to.push(b',');
        push_count(to, bucket.count);
        to.push(b'\n');
    }
}

/// The envelope of a page up to its results.
pub(crate) fn push_envelope(to: &mut Vec<u8>, count: i64, next: Option<&str>) {
    to.extend_from_slice(b"{\"count\":");
    push_integer(to, count);
    to.extend_from_slice(b",\"next\":");
    match next {
        Some(link) => push_text(to, link),
        None => to.extend_from_slice(b"null"),
    }
    to.extend_from_slice(b",\"previous\":null,\"results\":[");
}

/// A comma, unless a list has just been opened.
pub(crate) fn push_comma(to: &mut Vec<u8>) {
    if to.last() != Some(&b'[') {
        to.push(b',');
    }
}

fn moment(moments: &[Timestamp], row_idx: usize) -> Timestamp {
    moments.get(row_idx).copied().unwrap_or_default()
}

fn push_count(to: &mut Vec<u8>, count: u64) {
    push_integer(to, i64::try_from(count).unwrap_or(i64::MAX));
}

/// Makes an object of the members since `start`, each of which begins with a comma.
fn open_object(to: &mut Vec<u8>, start: usize) {
    match to.get_mut(start) {
        Some(comma) => *comma = b'{',
        None => to.push(b'{'),
    }
    to.push(b'}');
}

/// The value of a row as a member of an object, if there is one.
#[inline]
fn push_member(to: &mut Vec<u8>, key: &[u8], series: &Series, row_idx: usize) {
    match series {
        Series::Float(values) => {
            if let Some(Some(number)) = values.get(row_idx) {
                push_short(to, key);
                push_float(to, *number);
            }
        }
        Series::Integer(values) => {
            if let Some(Some(number)) = values.get(row_idx) {
                push_short(to, key);
                push_integer(to, *number);
            }
        }
        Series::Boolean(values) => {
            if let Some(Some(truth)) = values.get(row_idx) {
                push_short(to, key);
                push_truth(to, *truth);
            }
        }
        Series::String(values) => {
            if let Some(Some(text)) = values.get(row_idx) {
                push_short(to, key);
                push_text(to, text);
            }
        }
    }
}

/// The value of a row as a cell, if there is one.
#[inline]
fn push_value_cell(to: &mut Vec<u8>, series: &Series, row_idx: usize) {
    match series {
        Series::Float(values) => {
            if let Some(Some(number)) = values.get(row_idx) {
                push_float(to, *number);
            }
        }
        Series::Integer(values) => {
            if let Some(Some(number)) = values.get(row_idx) {
                push_integer(to, *number);
            }
        }
        Series::Boolean(values) => {
            if let Some(Some(truth)) = values.get(row_idx) {
                push_truth(to, *truth);
            }
        }
        Series::String(values) => {
            if let Some(Some(text)) = values.get(row_idx) {
                push_cell(to, text);
            }
        }
    }
}

fn push_truth(to: &mut Vec<u8>, truth: bool) {
    to.extend_from_slice(if truth { b"true" } else { b"false" });
}

/// About how long a row of these columns is as JSON at most.
pub(crate) fn row_bytes_max(columns: &[Column]) -> usize {
    let has_texts = columns.iter().any(|column| column.dtype == Dtype::String);
    bare_row_bytes(columns) + if has_texts { ROW_TEXT_BYTES_MAX } else { 0 }
}

/// The same without its texts.
pub(crate) fn bare_row_bytes(columns: &[Column]) -> usize {
    let names = columns.iter().map(|column| text_bytes(&column.name) + VALUE_BYTES);
    ROW_BYTES + names.sum::<usize>()
}

/// How long `text` is as a JSON string, without its quotes.
pub(crate) fn text_bytes(text: &str) -> usize {
    let length = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(length).sum()
}

/// A JSON string.
pub(crate) fn push_text(to: &mut Vec<u8>, text: &str) {
    // Writing a string to memory cannot fail.
    serde_json::to_writer(to, text).unwrap_or_default();
}

/// A cell of CSV by RFC 4180: in quotes where it has to be.
fn push_cell(to: &mut Vec<u8>, text: &str) {
    // An empty text is told from a missing one by its quotes.
    if text.is_empty() || text.contains(['"', ',', '\n', '\r']) {
        to.push(b'"');
        to.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        to.push(b'"');
    } else {
        to.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
