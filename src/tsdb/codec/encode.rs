//! Encodes chunks.

use std::collections::HashMap;
use std::ops::Range;

use model::block::{Block, Series};
use model::timestamp::Timestamp;

use super::numbers::{put_floats, put_numbers};
use super::{Packing, VERSION, dtype_of, put_long, put_sum, put_u32};

/// Minimum average number of rows per distinct text for which a column is written with a dictionary.
const ROWS_PER_TEXT: usize = 2;

/// The two byte strings of a chunk: timestamps and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) times: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Encodes the rows of `block` with the indices `rows` as a chunk.
pub(crate) fn encode(block: &Block, rows: Range<usize>, packing: Packing) -> Encoded {
    let mut times = vec![VERSION, 0, 0, 0, 0];
    put_numbers(&mut times, &micros(&block.times, &rows));
    put_sum(&mut times);
    Encoded { times, body: encode_body(block, rows, packing) }
}

/// Encodes the body of a chunk: the rows of `block` with the indices `rows`, without their timestamps.
pub(crate) fn encode_body(block: &Block, rows: Range<usize>, packing: Packing) -> Vec<u8> {
    let n = rows.len();
    let mut body = Vec::with_capacity(64 + n * 8 * (1 + block.columns.len()));
    body.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    put_u32(&mut body, n);
    let n_columns = u16::try_from(block.columns.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&n_columns.to_le_bytes());
    let ids = block.ids.get(rows.clone()).unwrap_or_default();
    put_long(&mut body, |to| put_some_numbers(to, ids));
    let created = micros(&block.created, &rows);
    put_long(&mut body, |to| put_some_numbers(to, &created));
    for series in block.columns.iter().take(n_columns.into()) {
        put_series(&mut body, series, rows.clone(), packing);
    }
    put_sum(&mut body);
    body
}

/// Writes `numbers`, or no bytes if the list is empty.
fn put_some_numbers(to: &mut Vec<u8>, numbers: &[i64]) {
    if !numbers.is_empty() {
        put_numbers(to, numbers);
    }
}

fn put_series(body: &mut Vec<u8>, series: &Series, rows: Range<usize>, packing: Packing) {
    let dtype = dtype_of(series.dtype());
    match series {
        Series::Float(values) => put_column(body, dtype, values.get(rows), |to, values| {
            put_floats(to, &filled(values, 0.0), packing_of(values, packing));
        }),
        Series::Integer(values) => put_column(body, dtype, values.get(rows), |to, values| {
            put_numbers(to, &filled(values, 0));
        }),
        Series::Boolean(values) => put_column(body, dtype, values.get(rows), |to, values| {
            put_bits(to, values, |value| value.unwrap_or_default());
        }),
        Series::String(texts) => put_column(body, dtype, texts.get(rows), put_strings),
    }
}

/// Returns the packing of a column. Mostly missing values, which repeat the previous value, are always
/// compressed.
fn packing_of<T>(values: &[Option<T>], packing: Packing) -> Packing {
    let n_present = values.iter().flatten().count();
    if n_present * 2 < values.len() { Packing::Small } else { packing }
}

fn put_strings(to: &mut Vec<u8>, texts: &[Option<Box<str>>]) {
    let mut places: HashMap<&str, i64> = HashMap::new();
    let mut different: Vec<&str> = Vec::new();
    let mut last = 0;
    let mut of_rows = Vec::with_capacity(texts.len());
    for text in texts {
        if let Some(text) = text.as_deref() {
            last = *places.entry(text).or_insert_with(|| {
                different.push(text);
                i64::try_from(different.len() - 1).unwrap_or(i64::MAX)
            });
        }
        of_rows.push(last);
    }
    if different.len() * ROWS_PER_TEXT > texts.len() {
        to.push(0);
        put_texts(to, texts.iter().map(|text| text.as_deref().unwrap_or_default()));
        return;
    }
    to.push(1);
    put_u32(to, different.len());
    put_long(to, |to| put_texts(to, different.iter().copied()));
    put_numbers(to, &of_rows);
}

/// Returns the values, with each missing value replaced by the previous value, or by the first value if
/// there is no previous one.
fn filled<T: Copy>(values: &[Option<T>], start: T) -> Vec<T> {
    let mut last = values.iter().flatten().next().copied().unwrap_or(start);
    values
        .iter()
        .map(|value| {
            last = value.unwrap_or(last);
            last
        })
        .collect()
}

fn micros(timestamps: &[Timestamp], rows: &Range<usize>) -> Vec<i64> {
    let timestamps = timestamps.get(rows.clone()).unwrap_or_default();
    timestamps.iter().map(|timestamp| timestamp.micros()).collect()
}

fn put_column<T>(
    to: &mut Vec<u8>,
    dtype: u8,
    values: Option<&[Option<T>]>,
    payload: impl FnOnce(&mut Vec<u8>, &[Option<T>]),
) {
    let values = values.unwrap_or_default();
    let presence = match values.iter().flatten().count() {
        0 => 0,
        n if n == values.len() => 1,
        _ => 2,
    };
    to.extend_from_slice(&[presence, dtype]);
    put_long(to, |to| {
        if presence == 2 {
            put_bits(to, values, Option::is_some);
        }
        if presence != 0 {
            payload(to, values);
        }
    });
}

/// Writes a zero and the end offset of each text, followed by the texts.
fn put_texts<'a>(to: &mut Vec<u8>, texts: impl Iterator<Item = &'a str> + Clone) {
    let mut offset = 0;
    put_u32(to, offset);
    for text in texts.clone() {
        offset += text.len();
        put_u32(to, offset);
    }
    texts.for_each(|text| to.extend_from_slice(text.as_bytes()));
}

fn put_bits<T>(to: &mut Vec<u8>, values: &[T], is_set: impl Fn(&T) -> bool) {
    to.extend(values.chunks(8).map(|eight| {
        eight.iter().rev().fold(0_u8, |bits, value| (bits << 1) | u8::from(is_set(value)))
    }));
}
