//! Decodes chunks.

use std::ops::Range;

use model::block::{Block, Series};
use model::timestamp::Timestamp;

use super::numbers::{read_floats, read_numbers};
use super::{DecodeError, Reader, check_rows, check_sum, damaged, dtype_of};

/// Appends `rows` of the chunk in `body` to `block` with their timestamps `times`. See [`decode_body`].
///
/// # Errors
/// The same as for [`decode_body`].
pub(crate) fn decode_rows(
    block: &mut Block,
    times: &[Timestamp],
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    block.times.extend_from_slice(times.get(rows.clone()).unwrap_or_default());
    decode_body(block, times.len(), body, rows, wanted)
}

/// Appends `rows` of a chunk to `block`, without their timestamps. The chunk has `n_rows` rows in
/// `body`.
///
/// Columns that were added to the dataset after the chunk was written have no values. If only some
/// columns are `wanted`, the other columns have no values either, and the rows get neither ids nor
/// creation times.
///
/// # Errors
/// [`DecodeError`] if the bytes are not a chunk or have other columns. `block` is then inconsistent and
/// must not be used.
pub(crate) fn decode_body(
    block: &mut Block,
    n_rows: usize,
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    let mut reader = check_sum(body)?;
    let n = reader.length()?;
    check_rows(n)?;
    let n_columns = usize::from(u16::from_le_bytes(reader.array()?));
    if n != n_rows || rows.end > n || rows.start > rows.end {
        return Err(damaged("number of rows differs"));
    }
    let ids = reader.prefixed()?;
    if !ids.is_empty() && wanted.is_none() {
        read_numbers(&mut block.ids, ids, n, &rows, |id| id)?;
    }
    let created = reader.prefixed()?;
    if !created.is_empty() && wanted.is_none() {
        read_numbers(&mut block.created, created, n, &rows, Timestamp::from_micros)?;
    }
    if n_columns > block.columns.len() {
        return Err(damaged("too many columns"));
    }
    for (column_idx, series) in block.columns.iter_mut().enumerate() {
        if column_idx >= n_columns {
            series.push_missing(rows.len());
            continue;
        }
        let [presence, dtype] = reader.array()?;
        let payload = reader.prefixed()?;
        if dtype != dtype_of(series.dtype()) {
            return Err(damaged("type of column differs"));
        }
        if presence == 0 || wanted.is_some_and(|wanted| !wanted.contains(&column_idx)) {
            series.push_missing(rows.len());
        } else {
            decode_column(series, presence, payload, n, &rows)?;
        }
    }
    Ok(())
}

fn decode_column(
    series: &mut Series,
    presence: u8,
    payload: &[u8],
    n: usize,
    rows: &Range<usize>,
) -> Result<(), DecodeError> {
    let mut payload = Reader { bytes: payload };
    let present = match presence {
        1 => None,
        2 => Some(payload.take(n.div_ceil(8))?),
        _ => return Err(damaged("unknown encoding of missing values")),
    };
    match series {
        Series::Float(to) => {
            read_floats(to, payload.bytes, n, rows, Some)?;
            remove_missing(to, present, rows);
        }
        Series::Integer(to) => {
            read_numbers(to, payload.bytes, n, rows, Some)?;
            remove_missing(to, present, rows);
        }
        Series::Boolean(to) => {
            let bits = payload.take(n.div_ceil(8))?;
            to.extend(rows.clone().map(|row_idx| Some(bit_at(bits, row_idx))));
            remove_missing(to, present, rows);
        }
        Series::String(to) => {
            let texts = texts(payload, n, rows)?;
            let is_present = |row_idx| present.is_none_or(|bits| bit_at(bits, row_idx));
            let texts = rows.clone().zip(texts);
            to.extend(texts.map(|(row_idx, text)| is_present(row_idx).then(|| text.into())));
        }
    }
    Ok(())
}

/// Returns the texts of a column for the rows with the indices `rows`.
fn texts<'a>(
    mut payload: Reader<'a>,
    n: usize,
    rows: &Range<usize>,
) -> Result<Vec<&'a str>, DecodeError> {
    match payload.array()? {
        [0] => {
            let offsets = payload.take((n + 1).saturating_mul(4))?;
            rows.clone().map(|row_idx| text_at(offsets, payload.bytes, row_idx)).collect()
        }
        [1] => {
            let n_texts = payload.length()?;
            let mut texts = Reader { bytes: payload.prefixed()? };
            let offsets = texts.take((n_texts + 1).saturating_mul(4))?;
            let mut places = Vec::new();
            let place = |number| usize::try_from(number).unwrap_or(usize::MAX);
            read_numbers(&mut places, payload.bytes, n, rows, place)?;
            places.into_iter().map(|place| text_at(offsets, texts.bytes, place)).collect()
        }
        _ => Err(damaged("unknown encoding of texts")),
    }
}

fn text_at<'a>(offsets: &[u8], texts: &'a [u8], text_idx: usize) -> Result<&'a str, DecodeError> {
    let ends = offsets.as_chunks::<4>().0.get(text_idx..).and_then(<[_]>::first_chunk::<2>);
    let [start, end] = *ends.ok_or(damaged("text is missing"))?;
    let offset = |bytes| usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    let text = texts.get(offset(start)..offset(end)).ok_or(damaged("too few texts"))?;
    std::str::from_utf8(text).map_err(|_| damaged("text is not UTF-8"))
}

/// Replaces the values of rows that have none with `None`. The values of `rows` are the last elements of
/// `values`.
fn remove_missing<T>(values: &mut [Option<T>], present: Option<&[u8]>, rows: &Range<usize>) {
    let Some(bits) = present else { return };
    for (row_idx, value) in rows.clone().rev().zip(values.iter_mut().rev()) {
        if !bit_at(bits, row_idx) {
            *value = None;
        }
    }
}

fn bit_at(bits: &[u8], idx: usize) -> bool {
    bits.get(idx / 8).is_some_and(|byte| byte >> (idx % 8) & 1 == 1)
}
