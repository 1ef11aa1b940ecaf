//! Blocks that are sealed: checked by a sum, and packed once they are cold.
//!
//! ```text
//! times   version u8 = 2 · sum u32 · numbers, and a zero byte where this would be 8 × n long
//! body    version u8 = 2 · sum u32 · n u32 · columns u16 · ids · created · column × columns
//! sum     CRC-32 of all bytes after it
//! ids, created   length u32 · numbers of that length; of length 0 the block has none
//! column  kind u8 · dtype u8 · coding u8 · length u32 · payload of that length
//! kind    as in version 1; where a row has no value the values hold that of the row before
//! payload by dtype and coding, after the bitmap of kind 2:
//!         float 0: f64 × n · 1: numbers, the floats in their order · 2: exponent u8, numbers that
//!         divided by ten to it are the floats · 3: column u16, numbers, the distances to that column
//!         integer, boolean 1: numbers · string 0: as in version 1 · 1: texts u32, length u32, that
//!         many texts as in version 1 of that length, numbers that say which
//! ```
//!
//! Numbers are written by `ints`. The order of floats is that of their bits, those of negative
//! ones inverted, so that floats near one another are near as numbers, too.

use std::{collections::HashMap, ops::Range};

use model::{
    block::{Block, Series},
    dataset::Dtype,
    timestamp::Timestamp,
};

use super::{
    DecodeError, Encoded, Frame, Reader, bits_of, damaged, dtype_of,
    ints::{self, Packed, Trend},
    kind_of, put_bitmap, put_texts, put_u32, text_at, words,
};

/// The version of the format.
pub(super) const VERSION: u8 = 2;

/// The most decimals that a float is tried with. Prices and volumes have eight.
const DECIMALS_MAX: u8 = 10;

/// Whole numbers up to here are exact as floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Texts of which there are more different ones than one in this many rows are written as they are.
const ROWS_PER_TEXT: usize = 2;

/// How much work goes into making a block small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Floats as they are: for rows that just came.
    Quick,
    /// Every column in as few bits as there are: for rows that stay.
    Small,
}

/// Writes `rows` of `block`.
pub(crate) fn seal(block: &Block, rows: Range<usize>, packing: Packing) -> Encoded {
    let n = rows.len();
    let mut times = vec![VERSION, 0, 0, 0, 0];
    ints::pack(&mut times, &micros(&block.times, &rows), Trend::Growing);
    if times.len() == n * 8 {
        times.push(0);
    }
    put_sum(&mut times);
    let mut body = Vec::with_capacity(64 + n * 8 * (1 + block.columns.len()));
    body.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    put_u32(&mut body, n);
    let n_columns = u16::try_from(block.columns.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&n_columns.to_le_bytes());
    let ids = block.ids.get(rows.clone()).unwrap_or_default();
    put_long(&mut body, |to| ints::pack(to, ids, Trend::Growing));
    let created = micros(&block.created, &rows);
    put_long(&mut body, |to| ints::pack(to, &created, Trend::Growing));
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
                    ints::pack(to, &filled(values, 0), Trend::Growing);
                });
            }
            Series::Boolean(values) => {
                let values = values.get(rows.clone()).unwrap_or_default();
                put_column(&mut body, Dtype::Boolean, 1, values, |to| {
                    let numbers: Vec<i64> =
                        filled(values, false).into_iter().map(i64::from).collect();
                    ints::pack(to, &numbers, Trend::Spread);
                });
            }
            Series::String(texts) => {
                put_strings(&mut body, texts.get(rows.clone()).unwrap_or_default());
            }
        }
    }
    put_sum(&mut body);
    Encoded { times, body }
}

/// The floats that others in the block are told from.
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
        ints::pack(&mut payload, &apart, Trend::Spread);
        if payload.len() < best.1.len() {
            best = (3, payload);
        }
    }
    if let Some((exponent, numbers)) = decimals(&filled) {
        let mut payload = vec![exponent];
        ints::pack(&mut payload, &numbers, Trend::Spread);
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
    ints::pack(&mut payload, numbers, Trend::Spread);
    payload
}

/// A float as a number, in the order of floats.
const fn ordered(value: f64) -> i64 {
    turned(value.to_bits().cast_signed())
}

/// The other way round, it is its own inverse.
const fn turned(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
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

fn unscaled(number: i64, scale: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 it is exact")]
    let number = number as f64;
    number / scale
}

fn scale(exponent: u8) -> f64 {
    10_f64.powi(i32::from(exponent))
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
        ints::pack(to, &of_rows, Trend::Spread);
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

fn micros(moments: &[Timestamp], rows: &Range<usize>) -> Vec<i64> {
    moments.get(rows.clone()).unwrap_or_default().iter().map(|moment| moment.micros()).collect()
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
fn put_long(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    write(to);
    let length = u32::try_from(to.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(place) = to.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

fn put_sum(bytes: &mut [u8]) {
    if let Some((head, rest)) = bytes.split_at_mut_checked(5)
        && let Some(place) = head.get_mut(1..5)
    {
        place.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
    }
}

/// What follows version and sum, if the sum is right.
fn summed(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader { bytes };
    let [version] = reader.array()?;
    let sum = u32::from_le_bytes(reader.array()?);
    if version != VERSION {
        return Err(damaged("unknown version"));
    }
    if crc32fast::hash(reader.bytes) != sum {
        return Err(damaged("its checksum is not that of its bytes"));
    }
    Ok(reader)
}

/// The moments of `n` rows.
pub(super) fn open_times(bytes: &[u8], n: usize) -> Result<Packed<'_>, DecodeError> {
    Packed::read(summed(bytes)?.bytes, n)
}

/// Adds `rows` of the `n_rows` in `body` to `block`, but for their moments: all of it, or values of the
/// `wanted` columns only.
pub(super) fn open_into(
    block: &mut Block,
    n_rows: usize,
    body: &[u8],
    rows: &Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    let mut reader = summed(body)?;
    let n = reader.length()?;
    let n_columns = usize::from(u16::from_le_bytes(reader.array()?));
    if n != n_rows || rows.end > n || rows.start > rows.end {
        return Err(damaged("another number of rows"));
    }
    let ids = reader.long()?;
    if !ids.is_empty() && wanted.is_none() {
        ints::unpack(&mut block.ids, ids, n, rows, |id| id)?;
    }
    let created = reader.long()?;
    if !created.is_empty() && wanted.is_none() {
        ints::unpack(&mut block.created, created, n, rows, Timestamp::from_micros)?;
    }
    if n_columns > block.columns.len() {
        return Err(damaged("unknown columns"));
    }
    let mut columns = Vec::with_capacity(n_columns);
    for _ in 0..n_columns {
        let [kind, dtype, coding] = reader.array()?;
        columns.push((Frame { kind, dtype, n }, coding, reader.long()?));
    }
    let is_wanted = |column_idx| wanted.is_none_or(|wanted| wanted.contains(&column_idx));
    let mut origin: Option<(u16, Vec<i64>)> = None;
    for column_idx in 0..block.columns.len() {
        let (before, from) = block.columns.split_at_mut(column_idx);
        let Some(series) = from.first_mut() else { break };
        match columns.get(column_idx) {
            Some((frame, coding, payload)) if is_wanted(column_idx) => {
                let origin = &mut origin;
                let column = Column { frame: *frame, coding: *coding, payload };
                open_column(series, &column, rows, |column_idx: u16| {
                    if origin.as_ref().is_none_or(|(known, _)| *known != column_idx) {
                        let (frame, coding, payload) = columns
                            .get(usize::from(column_idx))
                            .ok_or(damaged("distances to a column that is not there"))?;
                        if (frame.kind, *coding) != (1, 1) {
                            return Err(damaged("distances to a column of another coding"));
                        }
                        let mut numbers = Vec::with_capacity(rows.len());
                        match before.get(usize::from(column_idx)) {
                            Some(Series::Float(values)) if is_wanted(column_idx.into()) => {
                                // They were read just now.
                                let values = values.get(values.len() - rows.len()..);
                                let values = values.unwrap_or_default().iter();
                                numbers.extend(values.map(|value| value.map_or(0, ordered)));
                            }
                            _ => ints::unpack(&mut numbers, payload, n, rows, |number| number)?,
                        }
                        *origin = Some((column_idx, numbers));
                    }
                    Ok(origin.as_ref().map(|(_, numbers)| numbers.as_slice()).unwrap_or_default())
                })?;
            }
            _ => series.push_missing(rows.len()),
        }
    }
    Ok(())
}

struct Column<'a> {
    frame: Frame,
    coding: u8,
    payload: &'a [u8],
}

fn open_column<'o>(
    series: &mut Series,
    column: &Column<'_>,
    rows: &Range<usize>,
    origin: impl FnOnce(u16) -> Result<&'o [i64], DecodeError>,
) -> Result<(), DecodeError> {
    let Frame { kind, dtype, n } = column.frame;
    if dtype != dtype_of(series.dtype()) {
        return Err(damaged("another type of column"));
    }
    let mut payload = Reader { bytes: column.payload };
    let bitmap = match kind {
        0 => {
            series.push_missing(rows.len());
            return Ok(());
        }
        1 => None,
        2 => Some(payload.take(n.div_ceil(8))?),
        _ => return Err(damaged("unknown kind of column")),
    };
    let numbers = |payload: &Reader<'_>| {
        let mut numbers = Vec::new();
        ints::unpack(&mut numbers, payload.bytes, n, rows, |number| number).map(|()| numbers)
    };
    match (series, column.coding) {
        (Series::Float(to), 0) => {
            let values = words(payload.bytes, rows)?.iter().map(|word| f64::from_le_bytes(*word));
            put_values(to, values, bitmap, rows);
        }
        (Series::Float(to), 1) => put_numbers(to, payload.bytes, (n, rows, bitmap), float)?,
        (Series::Float(to), 2) => {
            let [exponent] = payload.array()?;
            let scale = scale(exponent);
            let unscaled = |number| unscaled(number, scale);
            put_numbers(to, payload.bytes, (n, rows, bitmap), unscaled)?;
        }
        (Series::Float(to), 3) => {
            let origin = origin(u16::from_le_bytes(payload.array()?))?;
            let apart = numbers(&payload)?.into_iter().zip(origin);
            put_values(to, apart.map(|(a, b)| float(a.wrapping_add(*b))), bitmap, rows);
        }
        (Series::Integer(to), 1) => {
            put_numbers(to, payload.bytes, (n, rows, bitmap), |number| number)?;
        }
        (Series::Boolean(to), 1) => {
            put_numbers(to, payload.bytes, (n, rows, bitmap), |number| number != 0)?;
        }
        (Series::String(to), 0) => {
            let offsets = payload.take((n + 1).saturating_mul(4))?;
            for row_idx in rows.clone() {
                let text = text_at(offsets, payload.bytes, row_idx)?;
                to.push(bits_of(bitmap, row_idx).then(|| text.into()));
            }
        }
        (Series::String(to), 1) => {
            let n_texts = payload.length()?;
            let mut texts = Reader { bytes: payload.long()? };
            let offsets = texts.take((n_texts + 1).saturating_mul(4))?;
            for (row_idx, number) in rows.clone().zip(numbers(&payload)?) {
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                if place >= n_texts {
                    return Err(damaged("a text that is not there"));
                }
                let text = text_at(offsets, texts.bytes, place)?;
                to.push(bits_of(bitmap, row_idx).then(|| text.into()));
            }
        }
        _ => return Err(damaged("unknown coding of a column")),
    }
    Ok(())
}

const fn float(ordered: i64) -> f64 {
    f64::from_bits(turned(ordered).cast_unsigned())
}

/// Adds what `make` makes of numbers `rows` of `n`, where a row has one.
fn put_numbers<T>(
    to: &mut Vec<Option<T>>,
    bytes: &[u8],
    (n, rows, bitmap): (usize, &Range<usize>, Option<&[u8]>),
    make: impl Fn(i64) -> T,
) -> Result<(), DecodeError> {
    let start = to.len();
    ints::unpack(to, bytes, n, rows, |number| Some(make(number)))?;
    if bitmap.is_some() {
        let places = to.get_mut(start..).unwrap_or_default().iter_mut();
        for (_, place) in rows.clone().zip(places).filter(|(row_idx, _)| !bits_of(bitmap, *row_idx))
        {
            *place = None;
        }
    }
    Ok(())
}

fn put_values<T>(
    to: &mut Vec<Option<T>>,
    values: impl Iterator<Item = T>,
    bitmap: Option<&[u8]>,
    rows: &Range<usize>,
) {
    match bitmap {
        None => to.extend(values.map(Some)),
        Some(_) => to.extend(
            rows.clone()
                .zip(values)
                .map(|(row_idx, value)| bits_of(bitmap, row_idx).then_some(value)),
        ),
    }
}
