//! Reading chunks.

use std::ops::Range;

use model::{
    block::{Block, Series},
    timestamp::Timestamp,
};

use super::{
    DecodeError, Reader, Timestamps, bit_packing::unpack, check_sum, damaged, dtype_of, float_of,
    ordered, scale, unscaled,
};

/// Adds `rows` of the chunk in `body`, at `timestamps`, to `block`; see [`decode_body`].
///
/// # Errors
/// As [`decode_body`].
pub(crate) fn decode_rows(
    block: &mut Block,
    timestamps: &Timestamps<'_>,
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    timestamps.extend(&mut block.times, &rows);
    decode_body(block, timestamps.len(), body, rows, wanted)
}

/// Adds `rows` of the `n_rows` in `body` to `block`, except their timestamps.
///
/// Columns that the dataset got after the chunk was written have no values. With some columns
/// `wanted`, the others have none either, and rows get no ids and creation times.
///
/// # Errors
/// [`DecodeError`] if the bytes are no chunk, or one of other columns. Then `block` is left
/// inconsistent and must not be used.
pub(crate) fn decode_body(
    block: &mut Block,
    n_rows: usize,
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    let mut reader = check_sum(body)?;
    let n = reader.length()?;
    let n_columns = usize::from(u16::from_le_bytes(reader.array()?));
    if n != n_rows || rows.end > n || rows.start > rows.end {
        return Err(damaged("another number of rows"));
    }
    let ids = reader.prefixed()?;
    if !ids.is_empty() && wanted.is_none() {
        unpack(&mut block.ids, ids, n, &rows, |id| id)?;
    }
    let created = reader.prefixed()?;
    if !created.is_empty() && wanted.is_none() {
        unpack(&mut block.created, created, n, &rows, Timestamp::from_micros)?;
    }
    if n_columns > block.columns.len() {
        return Err(damaged("unknown columns"));
    }
    let mut columns = Vec::with_capacity(n_columns);
    for _ in 0..n_columns {
        let [kind, dtype, coding] = reader.array()?;
        columns.push(Column { kind, dtype, coding, payload: reader.prefixed()? });
    }
    let is_wanted = |column_idx| wanted.is_none_or(|wanted| wanted.contains(&column_idx));
    let mut origin: Option<(u16, Vec<i64>)> = None;
    for column_idx in 0..block.columns.len() {
        let (before, from) = block.columns.split_at_mut(column_idx);
        let Some(series) = from.first_mut() else { break };
        match columns.get(column_idx) {
            Some(column) if is_wanted(column_idx) => {
                let origin = &mut origin;
                decode_column(series, *column, n, &rows, |column_idx: u16| {
                    if origin.as_ref().is_none_or(|(known, _)| *known != column_idx) {
                        let Column { kind, coding, payload, .. } = *columns
                            .get(usize::from(column_idx))
                            .ok_or(damaged("distances to a column that is not there"))?;
                        if (kind, coding) != (1, 1) {
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
                            _ => unpack(&mut numbers, payload, n, &rows, |number| number)?,
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

#[derive(Clone, Copy)]
struct Column<'a> {
    kind: u8,
    dtype: u8,
    coding: u8,
    payload: &'a [u8],
}

fn decode_column<'o>(
    series: &mut Series,
    column: Column<'_>,
    n: usize,
    rows: &Range<usize>,
    origin: impl FnOnce(u16) -> Result<&'o [i64], DecodeError>,
) -> Result<(), DecodeError> {
    if column.dtype != dtype_of(series.dtype()) {
        return Err(damaged("another type of column"));
    }
    let mut payload = Reader { bytes: column.payload };
    let bitmap = match column.kind {
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
        unpack(&mut numbers, payload.bytes, n, rows, |number| number).map(|()| numbers)
    };
    match (series, column.coding) {
        (Series::Float(to), 0) => {
            let values = words(payload.bytes, rows)?.iter().map(|word| f64::from_le_bytes(*word));
            put_values(to, values, bitmap, rows);
        }
        (Series::Float(to), 1) => put_numbers(to, payload.bytes, n, rows, bitmap, float_of)?,
        (Series::Float(to), 2) => {
            let [exponent] = payload.array()?;
            let scale = scale(exponent);
            let unscaled = |number| unscaled(number, scale);
            put_numbers(to, payload.bytes, n, rows, bitmap, unscaled)?;
        }
        (Series::Float(to), 3) => {
            let origin = origin(u16::from_le_bytes(payload.array()?))?;
            let apart = numbers(&payload)?.into_iter().zip(origin);
            put_values(to, apart.map(|(a, b)| float_of(a.wrapping_add(*b))), bitmap, rows);
        }
        (Series::Integer(to), 1) => {
            put_numbers(to, payload.bytes, n, rows, bitmap, |number| number)?;
        }
        (Series::Boolean(to), 1) => {
            put_numbers(to, payload.bytes, n, rows, bitmap, |number| number != 0)?;
        }
        (Series::String(to), 0) => {
            let offsets = payload.take((n + 1).saturating_mul(4))?;
            for row_idx in rows.clone() {
                let text = text_at(offsets, payload.bytes, row_idx)?;
                to.push(has_value(bitmap, row_idx).then(|| text.into()));
            }
        }
        (Series::String(to), 1) => {
            let n_texts = payload.length()?;
            let mut texts = Reader { bytes: payload.prefixed()? };
            let offsets = texts.take((n_texts + 1).saturating_mul(4))?;
            for (row_idx, number) in rows.clone().zip(numbers(&payload)?) {
                let place = usize::try_from(number).unwrap_or(usize::MAX);
                if place >= n_texts {
                    return Err(damaged("a text that is not there"));
                }
                let text = text_at(offsets, texts.bytes, place)?;
                to.push(has_value(bitmap, row_idx).then(|| text.into()));
            }
        }
        _ => return Err(damaged("unknown coding of a column")),
    }
    Ok(())
}

/// Adds what `make` makes of numbers `rows` of `n`, where a row has one.
fn put_numbers<T>(
    to: &mut Vec<Option<T>>,
    bytes: &[u8],
    n: usize,
    rows: &Range<usize>,
    bitmap: Option<&[u8]>,
    make: impl Fn(i64) -> T,
) -> Result<(), DecodeError> {
    let start = to.len();
    unpack(to, bytes, n, rows, |number| Some(make(number)))?;
    if bitmap.is_some() {
        let places = to.get_mut(start..).unwrap_or_default().iter_mut();
        for (_, place) in
            rows.clone().zip(places).filter(|(row_idx, _)| !has_value(bitmap, *row_idx))
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
                .map(|(row_idx, value)| has_value(bitmap, row_idx).then_some(value)),
        ),
    }
}

/// Whether row `row_idx` has a value; every row without a bitmap.
fn has_value(bitmap: Option<&[u8]>, row_idx: usize) -> bool {
    bitmap
        .is_none_or(|bits| bits.get(row_idx / 8).is_some_and(|byte| byte >> (row_idx % 8) & 1 == 1))
}

fn text_at<'a>(offsets: &[u8], texts: &'a [u8], row_idx: usize) -> Result<&'a str, DecodeError> {
    let offset = |idx: usize| {
        let bytes = offsets.as_chunks::<4>().0.get(idx).ok_or(damaged("too few values"))?;
        usize::try_from(u32::from_le_bytes(*bytes)).map_err(|_| damaged("too long a text"))
    };
    let text = texts.get(offset(row_idx)?..offset(row_idx + 1)?).ok_or(damaged("too few texts"))?;
    std::str::from_utf8(text).map_err(|_| damaged("a text that is not UTF-8"))
}

/// The 8-byte words of `rows`.
fn words<'a>(bytes: &'a [u8], rows: &Range<usize>) -> Result<&'a [[u8; 8]], DecodeError> {
    bytes.as_chunks::<8>().0.get(rows.clone()).ok_or(damaged("too few values"))
}
