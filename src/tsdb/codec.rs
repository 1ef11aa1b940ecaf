//! Blocks as bytes, independent of what keeps them.
//!
//! The moments are apart from the rest, so that a reader can find rows without touching it. Every
//! number is little-endian. There are two versions: single rows are in version 1, runs of rows in
//! version 2, which `sealed` describes; runs of rows in version 1 are read, too. Version 1:
//!
//! ```text
//! times   moment i64 × n
//! body    version u8 = 1 · n u32 · columns u16 · id i64 × n · created i64 × n · column × columns
//! column  kind u8 · dtype u8 · length u32 · payload of that length
//! kind    0: no row has a value, no payload · 1: every row has one · 2: a bitmap of n bits, lowest
//!         first, tells which rows have one; the others hold zeros
//! values  float f64 · integer i64 · boolean u8 · string: u32 × (n + 1) offsets, then UTF-8
//! ```

mod ints;
mod moments;
mod sealed;

use std::ops::Range;

use model::{
    block::{Block, Series},
    dataset::Dtype,
    timestamp::Timestamp,
};

pub(crate) use self::{
    moments::Moments,
    sealed::{Packing, seal},
};

/// The version of the format of single rows.
const VERSION: u8 = 1;

/// The bytes of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) times: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Some bytes are not a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decode a block: {what}")]
pub struct DecodeError {
    what: &'static str,
}

impl DecodeError {
    /// What a list says is there is not.
    pub(crate) const MISSING: Self = damaged("it is not where it should be");
}

const fn damaged(what: &'static str) -> DecodeError {
    DecodeError { what }
}

/// Writes `rows` of `block`.
pub(crate) fn encode(block: &Block, rows: Range<usize>) -> Encoded {
    let n = rows.len();
    let mut times = Vec::with_capacity(n * 8);
    put_moments(&mut times, &block.times, &rows);
    let mut body = Vec::with_capacity(7 + n * 8 * (2 + block.columns.len()));
    body.push(VERSION);
    put_u32(&mut body, n);
    let n_columns = u16::try_from(block.columns.len()).unwrap_or(u16::MAX);
    body.extend_from_slice(&n_columns.to_le_bytes());
    for id in block.ids.get(rows.clone()).unwrap_or_default() {
        body.extend_from_slice(&id.to_le_bytes());
    }
    put_moments(&mut body, &block.created, &rows);
    for series in block.columns.iter().take(n_columns.into()) {
        put_series(&mut body, series, &rows);
    }
    Encoded { times, body }
}

fn put_u32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_moments(to: &mut Vec<u8>, moments: &[Timestamp], rows: &Range<usize>) {
    for moment in moments.get(rows.clone()).unwrap_or_default() {
        to.extend_from_slice(&moment.micros().to_le_bytes());
    }
}

fn put_series(to: &mut Vec<u8>, series: &Series, rows: &Range<usize>) {
    match series {
        Series::Float(values) => put_column(to, Dtype::Float, values, rows, |to, value| {
            to.extend_from_slice(&value.copied().unwrap_or_default().to_le_bytes());
        }),
        Series::Integer(values) => put_column(to, Dtype::Integer, values, rows, |to, value| {
            to.extend_from_slice(&value.copied().unwrap_or_default().to_le_bytes());
        }),
        Series::Boolean(values) => put_column(to, Dtype::Boolean, values, rows, |to, value| {
            to.push(u8::from(value.copied().unwrap_or_default()));
        }),
        Series::String(values) => {
            let texts = values.get(rows.clone()).unwrap_or_default();
            put_frame(to, Dtype::String, texts, |to| put_texts(to, texts));
        }
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

fn put_column<T>(
    to: &mut Vec<u8>,
    dtype: Dtype,
    values: &[Option<T>],
    rows: &Range<usize>,
    put: impl Fn(&mut Vec<u8>, Option<&T>),
) {
    let values = values.get(rows.clone()).unwrap_or_default();
    put_frame(to, dtype, values, |to| {
        for value in values {
            put(to, value.as_ref());
        }
    });
}

/// The number that stands for a type.
const fn dtype_of(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Float => 0,
        Dtype::Integer => 1,
        Dtype::String => 2,
        Dtype::Boolean => 3,
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

/// Whether row `row_idx` has a value.
fn bits_of(bitmap: Option<&[u8]>, row_idx: usize) -> bool {
    bitmap
        .is_none_or(|bits| bits.get(row_idx / 8).is_some_and(|byte| byte >> (row_idx % 8) & 1 == 1))
}

fn put_frame<T>(
    to: &mut Vec<u8>,
    dtype: Dtype,
    values: &[Option<T>],
    payload: impl Fn(&mut Vec<u8>),
) {
    let kind = kind_of(values);
    to.extend_from_slice(&[kind, dtype_of(dtype)]);
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    if kind == 2 {
        put_bitmap(to, values);
    }
    if kind != 0 {
        payload(to);
    }
    let length = u32::try_from(to.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(place) = to.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}

/// Adds `rows` of the block in `body`, at `moments`, to `block`.
///
/// Columns that the dataset had not yet when the block was written have no values. Where some columns
/// are `wanted`, the others need not have values, nor the rows numbers and moments at which they were
/// stored.
///
/// # Errors
/// [`DecodeError`] if the bytes are no block, or one of other columns. Then `block` is left in
/// pieces, and must not be used.
pub(crate) fn decode_into(
    block: &mut Block,
    moments: &Moments<'_>,
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    moments.extend(&mut block.times, &rows);
    decode_rest(block, moments.len(), body, rows, wanted)
}

/// Adds `rows` of the `n_rows` in `body` as [`decode_into`] does, but for their moments.
///
/// # Errors
/// As [`decode_into`].
pub(crate) fn decode_rest(
    block: &mut Block,
    n_rows: usize,
    body: &[u8],
    rows: Range<usize>,
    wanted: Option<&[usize]>,
) -> Result<(), DecodeError> {
    if body.first() == Some(&sealed::VERSION) {
        return sealed::open_into(block, n_rows, body, &rows, wanted);
    }
    let mut reader = Reader { bytes: body };
    if reader.array::<1>()? != [VERSION] {
        return Err(damaged("unknown version"));
    }
    let n = reader.length()?;
    let n_columns = usize::from(u16::from_le_bytes(reader.array()?));
    if n != n_rows || rows.end > n || rows.start > rows.end {
        return Err(damaged("another number of rows"));
    }
    let ids = reader.take(n.saturating_mul(8))?;
    let created = reader.take(n.saturating_mul(8))?;
    block.ids.extend(words(ids, &rows)?.iter().map(|word| i64::from_le_bytes(*word)));
    let created = words(created, &rows)?.iter();
    block.created.extend(created.map(|word| Timestamp::from_micros(i64::from_le_bytes(*word))));
    if n_columns > block.columns.len() {
        return Err(damaged("unknown columns"));
    }
    for (column_idx, series) in block.columns.iter_mut().enumerate() {
        if column_idx >= n_columns {
            series.push_missing(rows.len());
            continue;
        }
        let [kind, dtype] = reader.array()?;
        let length = reader.length()?;
        let payload = Reader { bytes: reader.take(length)? };
        take_series(series, Frame { kind, dtype, n }, payload, &rows)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Frame {
    kind: u8,
    dtype: u8,
    n: usize,
}

fn take_series(
    series: &mut Series,
    frame: Frame,
    mut payload: Reader<'_>,
    rows: &Range<usize>,
) -> Result<(), DecodeError> {
    let Frame { kind, dtype, n } = frame;
    if dtype != dtype_of(series.dtype()) {
        return Err(damaged("another type of column"));
    }
    let bitmap = match kind {
        0 => {
            series.push_missing(rows.len());
            return Ok(());
        }
        1 => None,
        2 => Some(payload.take(n.div_ceil(8))?),
        _ => return Err(damaged("unknown kind of column")),
    };
    let is_present = |row_idx: usize| bits_of(bitmap, row_idx);
    let bytes = payload.bytes;
    match series {
        Series::Float(to) => to.extend(
            rows.clone()
                .zip(words(bytes, rows)?)
                .map(|(row_idx, word)| is_present(row_idx).then(|| f64::from_le_bytes(*word))),
        ),
        Series::Integer(to) => to.extend(
            rows.clone()
                .zip(words(bytes, rows)?)
                .map(|(row_idx, word)| is_present(row_idx).then(|| i64::from_le_bytes(*word))),
        ),
        Series::Boolean(to) => {
            let truths = bytes.get(rows.clone()).ok_or(damaged("too few values"))?;
            to.extend(
                rows.clone()
                    .zip(truths)
                    .map(|(row_idx, truth)| is_present(row_idx).then_some(*truth != 0)),
            );
        }
        Series::String(to) => {
            let offsets = payload.take((n + 1).saturating_mul(4))?;
            for row_idx in rows.clone() {
                let text = text_at(offsets, payload.bytes, row_idx)?;
                to.push(is_present(row_idx).then(|| text.into()));
            }
        }
    }
    Ok(())
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

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.bytes.split_at_checked(n_bytes).ok_or(damaged("it ends too early"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| damaged("it ends too early"))
    }

    /// What follows its own length.
    fn long(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.length()?;
        self.take(length)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| damaged("too long"))
    }
}

#[cfg(test)]
mod tests;
