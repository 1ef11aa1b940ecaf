//! Writing chunks.

use std::{collections::HashMap, ops::Range};

use model::{
    block::{Block, Series},
    dataset::Dtype,
    timestamp::Timestamp,
};

use super::{
    VERSION,
    bit_packing::{Trend, pack},
    dtype_of, ordered, scale, unscaled,
};

/// The most decimals that a float is tried with. Prices and volumes have eight.
const DECIMALS_MAX: u8 = 10;

/// Whole numbers up to here are exact as floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A column with more distinct texts than one in this many rows is written without a dictionary.
const ROWS_PER_TEXT: usize = 2;

/// The bytes of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) times: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// How much work goes into making a chunk small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Floats as they are: for rows that just came.
    Quick,
    /// Every column in as few bits as possible: for rows that stay.
    Small,
}

/// Writes `rows` of `block` as a chunk.
pub(crate) fn encode(block: &Block, rows: Range<usize>, packing: Packing) -> Encoded {
    let mut times = vec![VERSION, 0, 0, 0, 0];
    pack(&mut times, &micros(&block.times, &rows), Trend::Growing);
    put_sum(&mut times);
    Encoded { times, body: encode_body(block, rows, packing) }
}

/// Writes `rows` of `block` without their timestamps.
pub(crate) fn encode_body(block: &Block, rows: Range<usize>, packing: Packing) -> Vec<u8> {
    let n = rows.len();
    let mut body = Vec::with_capacity(64 + n * 8 * (1 + block.columns.len()));
    body.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    put_u32(&mut body, n);
    let n_columns = u16::try_from(block.columns.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&n_columns.to_le_bytes());
    let ids = block.ids.get(rows.clone()).unwrap_or_default();
    put_long(&mut body, |to| pack(to, ids, Trend::Growing));
    let created = micros(&block.created, &rows);
    put_long(&mut body, |to| pack(to, &created, Trend::Growing));
    let mut origin = None;
    for (column_idx, series) in block.columns.iter().take(n_columns.into()).enumerate() {
        match series {
            Series::Float(values) => {
                let values = values.get(rows.clone()).unwrap_or_default();
                put_floats(&mut body, values, packing, column_idx, &mut origin);
            }
            Series::Integer(values) => {
                let values = values.get(rows.clone()).unwrap_or_default();
                put_column(&mut body, Dtype::Integer, 1, values, |to| {
                    pack(to, &filled(values, 0), Trend::Growing);
                });
            }
            Series::Boolean(values) => {
                let values = values.get(rows.clone()).unwrap_or_default();
                put_column(&mut body, Dtype::Boolean, 1, values, |to| {
                    let numbers: Vec<i64> =
                        filled(values, false).into_iter().map(i64::from).collect();
                    pack(to, &numbers, Trend::Spread);
                });
            }
            Series::String(texts) => {
                put_strings(&mut body, texts.get(rows.clone()).unwrap_or_default());
            }
        }
    }
    put_sum(&mut body);
    body
}

/// The floats that other columns are stored as distances from.
struct Origin {
    column_idx: u16,
    ordered: Vec<i64>,
}

fn put_floats(
    to: &mut Vec<u8>,
    values: &[Option<f64>],
    packing: Packing,
    column_idx: usize,
    origin: &mut Option<Origin>,
) {
    if packing == Packing::Quick {
        put_column(to, Dtype::Float, 0, values, |to| put_words(to, values));
        return;
    }
    let filled = filled(values, 0.0);
    let ordered: Vec<i64> = filled.iter().map(|value| ordered(*value)).collect();
    let mut best = (1, packed(&ordered));
    if let Some(origin) = &*origin {
        let apart: Vec<i64> =
            ordered.iter().zip(&origin.ordered).map(|(a, b)| a.wrapping_sub(*b)).collect();
        let mut payload = origin.column_idx.to_le_bytes().to_vec();
        pack(&mut payload, &apart, Trend::Spread);
        if payload.len() < best.1.len() {
            best = (3, payload);
        }
    }
    if let Some((exponent, numbers)) = decimals(&filled) {
        let mut payload = vec![exponent];
        pack(&mut payload, &numbers, Trend::Spread);
        if payload.len() < best.1.len() {
            best = (2, payload);
        }
    }
    let (coding, payload) = best;
    put_column(to, Dtype::Float, coding, values, |to| to.extend_from_slice(&payload));
    let is_whole = values.iter().all(Option::is_some);
    if let (1, true, Ok(column_idx)) = (coding, is_whole, u16::try_from(column_idx))
        && origin.is_none()
    {
        *origin = Some(Origin { column_idx, ordered });
    }
}

/// Writes floats as they are, all places made at once; where there is none, the one before.
fn put_words(to: &mut Vec<u8>, values: &[Option<f64>]) {
    let mut last = values.iter().flatten().next().copied().unwrap_or_default();
    let start = to.len();
    to.resize(start + values.len() * 8, 0);
    let (places, _) = to.get_mut(start..).unwrap_or_default().as_chunks_mut::<8>();
    for (place, value) in places.iter_mut().zip(values) {
        last = value.unwrap_or(last);
        *place = last.to_le_bytes();
    }
}

fn packed(numbers: &[i64]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(numbers.len() * 8);
    pack(&mut payload, numbers, Trend::Spread);
    payload
}

/// The fewest decimals with which all floats are exact, and the numbers without the point.
fn decimals(values: &[f64]) -> Option<(u8, Vec<i64>)> {
    let mut exponent = 0;
    // A few tell most columns apart, and how many decimals to begin with.
    for value in values.iter().step_by(values.len().div_ceil(16).max(1)) {
        while scaled(*value, exponent).is_none() {
            exponent += 1;
            if exponent > DECIMALS_MAX {
                return None;
            }
        }
    }
    while exponent <= DECIMALS_MAX {
        if let Some(numbers) = values.iter().map(|value| scaled(*value, exponent)).collect() {
            return Some((exponent, numbers));
        }
        exponent += 1;
    }
    None
}

fn scaled(value: f64, exponent: u8) -> Option<i64> {
    let scale = scale(exponent);
    let number = (value * scale).round();
    if number.abs() >= EXACT_MAX {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    let number = number as i64;
    // The bits are compared, since -0 is no whole number.
    (unscaled(number, scale).to_bits() == value.to_bits()).then_some(number)
}

fn put_strings(to: &mut Vec<u8>, texts: &[Option<Box<str>>]) {
    let mut places: HashMap<&str, i64> = HashMap::new();
    let mut different: Vec<Option<Box<str>>> = Vec::new();
    let mut numbers = Vec::with_capacity(texts.len());
    for text in texts.iter().flatten() {
        let next = i64::try_from(different.len()).unwrap_or(i64::MAX);
        let place = *places.entry(text).or_insert_with(|| {
            different.push(Some(text.clone()));
            next
        });
        numbers.push(place);
    }
    if different.len() * ROWS_PER_TEXT > texts.len() {
        put_column(to, Dtype::String, 0, texts, |to| put_texts(to, texts));
        return;
    }
    put_column(to, Dtype::String, 1, texts, |to| {
        put_u32(to, different.len());
        put_long(to, |to| put_texts(to, &different));
        let mut numbers = numbers.into_iter();
        let mut last = 0;
        let of_rows: Vec<i64> = texts
            .iter()
            .map(|text| {
                if text.is_some() {
                    last = numbers.next().unwrap_or(last);
                }
                last
            })
            .collect();
        pack(to, &of_rows, Trend::Spread);
    });
}

/// The values, and where there is none that of the row before.
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
    timestamps
        .get(rows.clone())
        .unwrap_or_default()
        .iter()
        .map(|timestamp| timestamp.micros())
        .collect()
}

fn put_column<T>(
    to: &mut Vec<u8>,
    dtype: Dtype,
    coding: u8,
    values: &[Option<T>],
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let kind = kind_of(values);
    to.extend_from_slice(&[kind, dtype_of(dtype), coding]);
    put_long(to, |to| {
        if kind == 2 {
            put_bitmap(to, values);
        }
        if kind != 0 {
            payload(to);
        }
    });
}

/// Writes something after its length.
pub(super) fn put_long(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    write(to);
    let length = u32::try_from(to.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(place) = to.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

pub(super) fn put_sum(bytes: &mut [u8]) {
    if let Some((head, rest)) = bytes.split_at_mut_checked(5)
        && let Some(place) = head.get_mut(1..5)
    {
        place.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
    }
}

/// Writes texts behind one another, after where they begin.
fn put_texts(to: &mut Vec<u8>, texts: &[Option<Box<str>>]) {
    let mut offset = 0;
    put_u32(to, offset);
    for text in texts {
        offset += text.as_deref().map_or(0, str::len);
        put_u32(to, offset);
    }
    for text in texts.iter().flatten() {
        to.extend_from_slice(text.as_bytes());
    }
}

/// Whether no row, every row or some rows have a value.
fn kind_of<T>(values: &[Option<T>]) -> u8 {
    match values.iter().flatten().count() {
        0 => 0,
        n if n == values.len() => 1,
        _ => 2,
    }
}

fn put_bitmap<T>(to: &mut Vec<u8>, values: &[Option<T>]) {
    to.extend(values.chunks(8).map(|eight| {
        eight.iter().rev().fold(0_u8, |bits, value| (bits << 1) | u8::from(value.is_some()))
    }));
}

pub(super) fn put_u32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}
