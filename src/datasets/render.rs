//! Rows as text: JSON in the three forms of document 2, and CSV.
//!
//! Written by hand because a bulk download spends nearly all its time here, and because the numbers
//! are to look as the upstream (in Go) prints them. Bodies without rows go through `wire`.

pub(crate) mod number;

use model::{
    dataset::{Column, DatasetId},
    row::Bucket,
    timestamp::Timestamp,
};

use crate::{
    block::{Block, Series},
    query::params::Output,
};
use number::{Moments, push_float, push_integer};

/// The name of the member of a flat row that says when. No column may have it.
pub(crate) const TIMESTAMP: &str = "timestamp";

/// The header of buckets as CSV, by document 2.
const BUCKETS_HEADER: &[u8] = b"timestamp,open,high,low,close,volume,count\n";

/// Writes the rows of one dataset.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    dataset: DatasetId,
    names: Vec<String>,
    /// `"name":` for each column, in their order.
    keys: Vec<Vec<u8>>,
    /// The members of a flat row in alphabetical order: a column's place, or none for the moment.
    flat: Vec<Option<usize>>,
    moments: Moments,
}

impl Writer {
    pub(crate) fn new(dataset: DatasetId, columns: &[Column]) -> Self {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let keys = names.iter().map(|name| {
            let mut key = Vec::new();
            push_text(&mut key, name);
            key.push(b':');
            key
        });
        let mut flat: Vec<Option<usize>> =
            std::iter::once(None).chain((0..names.len()).map(Some)).collect();
        flat.sort_by_key(|place| {
            place.and_then(|idx| names.get(idx)).map_or(TIMESTAMP, |name| name)
        });
        Self { dataset, keys: keys.collect(), flat, moments: Moments::default(), names }
    }

    /// A flat row, without a line end: `{"close":…,"timestamp":"…"}`, keys sorted, members without
    /// a value left out.
    pub(crate) fn flat_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        let mut separator = b'{';
        for place in &self.flat {
            let before = to.len();
            to.push(separator);
            match place {
                None => {
                    to.extend_from_slice(b"\"timestamp\":");
                    self.moments.push(to, moment(&block.times, row_idx));
                }
                Some(idx) => {
                    to.extend_from_slice(self.keys.get(*idx).map_or(&[], Vec::as_slice));
                    let series = block.columns.get(*idx);
                    if !series.is_some_and(|series| push_value(to, series, row_idx)) {
                        to.truncate(before);
                        continue;
                    }
                }
            }
            separator = b',';
        }
        to.push(b'}');
    }

    /// A row of a page: its number, dataset, moments, and its values in the order of the columns.
    pub(crate) fn page_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        to.extend_from_slice(b"{\"id\":");
        push_integer(to, block.ids.get(row_idx).copied().unwrap_or_default());
        to.extend_from_slice(b",\"dataset_id\":");
        push_integer(to, self.dataset.get());
        to.extend_from_slice(b",\"timestamp\":");
        self.moments.push(to, moment(&block.times, row_idx));
        to.extend_from_slice(b",\"created_at\":");
        // Rows are created together far more often than not on the day they are about.
        self.moments.push(to, moment(&block.created, row_idx));
        to.extend_from_slice(b",\"values\":{");
        let mut is_first = true;
        for (key, series) in self.keys.iter().zip(&block.columns) {
            let before = to.len();
            if !is_first {
                to.push(b',');
            }
            to.extend_from_slice(key);
            if push_value(to, series, row_idx) {
                is_first = false;
            } else {
                to.truncate(before);
            }
        }
        to.extend_from_slice(b"}}");
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

    /// The first line of a download, if its format has one.
    pub(crate) fn header(&self, to: &mut Vec<u8>, output: Output, is_bucketed: bool) {
        match (output, is_bucketed) {
            (Output::Json, _) => to.push(b'['),
            (Output::Csv, true) => to.extend_from_slice(BUCKETS_HEADER),
            (Output::Csv, false) => {
                to.extend_from_slice(TIMESTAMP.as_bytes());
                for name in &self.names {
                    to.push(b',');
                    push_cell(to, name);
                }
                to.push(b'\n');
            }
        }
    }

    /// All rows of `block` for a download.
    pub(crate) fn rows(&mut self, to: &mut Vec<u8>, block: &Block, output: Output) {
        for row_idx in 0..block.len() {
            match output {
                Output::Json => {
                    push_comma(to);
                    self.flat_row(to, block, row_idx);
                }
                Output::Csv => self.csv_row(to, block, row_idx),
            }
        }
    }

    /// Buckets for a download.
    pub(crate) fn buckets(&mut self, to: &mut Vec<u8>, buckets: &[Bucket], output: Output) {
        for bucket in buckets {
            match output {
                Output::Json => {
                    push_comma(to);
                    self.flat_bucket(to, bucket);
                }
                Output::Csv => self.csv_bucket(to, bucket),
            }
        }
    }

    fn flat_bucket(&mut self, to: &mut Vec<u8>, bucket: &Bucket) {
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

    fn csv_row(&mut self, to: &mut Vec<u8>, block: &Block, row_idx: usize) {
        self.moments.push_bare(to, moment(&block.times, row_idx));
        for series in &block.columns {
            to.push(b',');
            if let Series::String(texts) = series {
                if let Some(Some(text)) = texts.get(row_idx) {
                    push_cell(to, text);
                }
            } else {
                push_value(to, series, row_idx);
            }
        }
        to.push(b'\n');
    }

    fn csv_bucket(&mut self, to: &mut Vec<u8>, bucket: &Bucket) {
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

/// The value of a row as JSON; whether there is one.
fn push_value(to: &mut Vec<u8>, series: &Series, row_idx: usize) -> bool {
    match series {
        Series::Float(values) => {
            values.get(row_idx).copied().flatten().map(|number| push_float(to, number))
        }
        Series::Integer(values) => {
            values.get(row_idx).copied().flatten().map(|number| push_integer(to, number))
        }
        Series::Boolean(values) => values.get(row_idx).copied().flatten().map(|truth| {
            to.extend_from_slice(if truth { b"true" } else { b"false" });
        }),
        Series::String(values) => {
            values.get(row_idx).and_then(Option::as_deref).map(|text| push_text(to, text))
        }
    }
    .is_some()
}

/// A JSON string.
pub(crate) fn push_text(to: &mut Vec<u8>, text: &str) {
    // Writing a string to memory cannot fail.
    serde_json::to_writer(to, text).unwrap_or_default();
}

/// A cell of CSV by RFC 4180: in quotes where it has to be.
fn push_cell(to: &mut Vec<u8>, text: &str) {
    if text.contains(['"', ',', '\n', '\r']) {
        to.push(b'"');
        to.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        to.push(b'"');
    } else {
        to.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
