//! Encoding of lists of integers and floats.
//!
//! ```text
//! numbers  form u8 · 0: first i64, step i64 · 1: i64 × n · 2: pco of n i64 · 4: packed
//! floats   form u8 · 1: f64 × n · 2: pco of n f64 · 3: exponent u8, numbers. Each float is its number
//!          divided by 10^exponent. · 4: packed · 5: exponent u8, length u32, numbers of that length,
//!          numbers. Each float is its number divided by 10^exponent, plus its second number in units
//!          of the last place.
//! pco      head · page × pages, each after its length u32
//! ```
//!
//! `codec/packed.rs` describes `packed`, which contains the ranks of the numbers. Ranks are integers in
//! the order of the numbers. Chunks of stores before format 13 have lists of the crate `pco`. Their head
//! is the header and the metadata of a chunk in the wrapped format, and every page has
//! [`PCO_PAGE_ROWS`] rows, except for the last.

use std::ops::Range;

use pco::FULL_BATCH_N;
use pco::data_types::Number;
use pco::wrapped::FileDecompressor;

use super::packed::{put_packed, read_packed};
use super::{DecodeError, Packing, Reader, damaged, put_long};

/// Form byte of a list of evenly spaced numbers: row ids, creation times of a batch, most timestamps,
/// and lists of one number.
const LINE: u8 = 0;

/// Form byte of a list stored as uncompressed words of 8 bytes.
const WORDS: u8 = 1;

/// Form byte of a list stored as pages of the crate `pco`.
const PCO: u8 = 2;

/// Form byte of a list of floats stored as integers without their decimal point.
const DECIMAL: u8 = 3;

/// Form byte of a list of packed integers. Bars with two decimals need the same space as in `pco`, and
/// half the time to read.
const PACKED: u8 = 4;

/// Form byte of a list of floats near decimals, such as sums of decimals.
const NEAR_DECIMAL: u8 = 5;

/// Number of rows of a page of `pco`.
const PCO_PAGE_ROWS: usize = 2 * FULL_BATCH_N;

/// Sign bit of a number.
const SIGN: u64 = 1 << 63;

/// Maximum number of decimals. Prices and volumes have up to eight.
const DECIMALS_MAX: u8 = 10;

/// Whole numbers below this limit are represented exactly by floats.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Maximum distance of a float from a decimal in units of the last place. The sum of a thousand decimals
/// is usually nearer.
const UNITS_MAX: u64 = 8;

/// Limit of the numbers of floats that are not decimals. Full mantissas are further than [`UNITS_MAX`]
/// from such a decimal, except for one in eight.
const NEAR_MAX: f64 = EXACT_MAX / 128.0;

/// Returns an integer. The integers of all floats have the order of the floats.
fn rank_of_float(float: f64) -> u64 {
    let bits = float.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

fn float_of_rank(rank: u64) -> f64 {
    f64::from_bits(if rank & SIGN == 0 { !rank } else { rank ^ SIGN })
}

/// Appends a list of integers, as its first number and step if it is evenly spaced, otherwise packed.
pub(super) fn put_numbers(to: &mut Vec<u8>, numbers: &[i64]) {
    let Some((first, step)) = line(numbers) else {
        let rank = |number: i64| number.cast_unsigned() ^ SIGN;
        return put_short(to, numbers, rank, i64::to_le_bytes);
    };
    to.push(LINE);
    to.extend_from_slice(&first.to_le_bytes());
    to.extend_from_slice(&step.to_le_bytes());
}

/// Appends a list of floats in the form that `packing` selects.
pub(super) fn put_floats(to: &mut Vec<u8>, floats: &[f64], packing: Packing) {
    if packing == Packing::Quick {
        put_words(to, floats, f64::to_le_bytes);
    } else if let Some((exponent, numbers, units)) = decimals(floats) {
        if units.iter().all(|n_units| *n_units == 0) {
            to.extend_from_slice(&[DECIMAL, exponent]);
            put_numbers(to, &numbers);
        } else {
            to.extend_from_slice(&[NEAR_DECIMAL, exponent]);
            put_long(to, |to| put_numbers(to, &numbers));
            put_numbers(to, &units);
        }
    } else {
        put_short(to, floats, rank_of_float, f64::to_le_bytes);
    }
}

/// Decodes the integers at the indices `rows` of the list of `n` in `bytes`, converts them with `make`
/// and appends them to `to`.
pub(super) fn read_numbers<T>(
    to: &mut Vec<T>,
    bytes: &[u8],
    n: usize,
    rows: &Range<usize>,
    mut make: impl FnMut(i64) -> T,
) -> Result<(), DecodeError> {
    let mut reader = Reader { bytes };
    match reader.array()? {
        [LINE] => {
            let first = i64::from_le_bytes(reader.array()?);
            let step = i64::from_le_bytes(reader.array()?);
            let start = i64::try_from(rows.start).map_err(|_| damaged("too many rows"))?;
            let mut number = first.wrapping_add(step.wrapping_mul(start));
            to.extend(rows.clone().map(|_| {
                let made = make(number);
                number = number.wrapping_add(step);
                made
            }));
            Ok(())
        }
        [WORDS] => read_words(to, reader.bytes, rows, |word| make(i64::from_le_bytes(word))),
        [PCO] => read_pco(to, reader, n, rows, make),
        [PACKED] => read_packed(to, reader, n, rows, |rank| make((rank ^ SIGN).cast_signed())),
        _ => Err(damaged("unknown encoding of numbers")),
    }
}

/// Decodes the floats at the indices `rows` of the list of `n` in `bytes`, converts them with `make` and
/// appends them to `to`.
pub(super) fn read_floats<T>(
    to: &mut Vec<T>,
    bytes: &[u8],
    n: usize,
    rows: &Range<usize>,
    mut make: impl FnMut(f64) -> T,
) -> Result<(), DecodeError> {
    let mut reader = Reader { bytes };
    match reader.array()? {
        [WORDS] => read_words(to, reader.bytes, rows, |word| make(f64::from_le_bytes(word))),
        [PCO] => read_pco(to, reader, n, rows, make),
        [PACKED] => read_packed(to, reader, n, rows, |rank| make(float_of_rank(rank))),
        [DECIMAL] => {
            let [exponent] = reader.array()?;
            let scale = scale(exponent);
            read_numbers(to, reader.bytes, n, rows, |number| make(unscaled(number, scale)))
        }
        [NEAR_DECIMAL] => {
            let [exponent] = reader.array()?;
            let scale = scale(exponent);
            let numbers = reader.prefixed()?;
            let mut units = Vec::with_capacity(rows.len());
            read_numbers(&mut units, reader.bytes, n, rows, i64::cast_unsigned)?;
            let mut units = units.into_iter();
            read_numbers(to, numbers, n, rows, |number| {
                let rank = rank_of_float(unscaled(number, scale));
                make(float_of_rank(rank.wrapping_add(units.next().unwrap_or_default())))
            })
        }
        _ => Err(damaged("unknown encoding of floats")),
    }
}

/// Returns the first number and the step, if the numbers are evenly spaced.
fn line(numbers: &[i64]) -> Option<(i64, i64)> {
    let [first, others @ ..] = numbers else { return Some((0, 0)) };
    let step = others.first().map_or(0, |second| second.wrapping_sub(*first));
    let is_even = numbers.iter().zip(others).all(|(a, b)| b.wrapping_sub(*a) == step);
    is_even.then_some((*first, step))
}

/// Appends `values` packed, or as uncompressed words if this is shorter.
fn put_short<T: Copy>(
    to: &mut Vec<u8>,
    values: &[T],
    rank: impl Fn(T) -> u64,
    word: impl Fn(T) -> [u8; 8],
) {
    let start = to.len();
    let ranks: Vec<u64> = values.iter().map(|value| rank(*value)).collect();
    to.push(PACKED);
    put_packed(to, &ranks);
    if to.len() - start > size_of_val(values) {
        to.truncate(start);
        put_words(to, values, word);
    }
}

/// Decodes the values at the indices `rows` of the list of `n` in `reader`, converts them with `make`
/// and appends them to `to`.
fn read_pco<T: Number, U>(
    to: &mut Vec<U>,
    mut reader: Reader<'_>,
    n: usize,
    rows: &Range<usize>,
    mut make: impl FnMut(T) -> U,
) -> Result<(), DecodeError> {
    let invalid = |_| damaged("invalid pco data");
    let (file, head) = FileDecompressor::new(reader.prefixed()?).map_err(invalid)?;
    let (mut chunk, _) = file.chunk_decompressor::<T, _>(head).map_err(invalid)?;
    let mut values = [T::default(); PCO_PAGE_ROWS];
    to.reserve(rows.len());
    for start in (0..n.min(rows.end)).step_by(PCO_PAGE_ROWS) {
        let page = reader.prefixed()?;
        let page_rows = PCO_PAGE_ROWS.min(n - start);
        if start + page_rows <= rows.start {
            continue;
        }
        let end = page_rows.min(rows.end - start);
        // `pco` reads only whole batches, except at the end of the page.
        let batches = values.get_mut(..end.next_multiple_of(FULL_BATCH_N)).unwrap_or_default();
        let mut page = chunk.page_decompressor(page, page_rows).map_err(invalid)?;
        page.read(batches).map_err(invalid)?;
        let wanted = batches.get(rows.start.saturating_sub(start)..end).unwrap_or_default();
        to.extend(wanted.iter().map(|value| make(*value)));
    }
    Ok(())
}

fn put_words<T: Copy>(to: &mut Vec<u8>, values: &[T], word: impl Fn(T) -> [u8; 8]) {
    to.push(WORDS);
    to.reserve(size_of_val(values));
    for value in values {
        to.extend_from_slice(&word(*value));
    }
}

/// Reads the words at the indices `rows`, converts them with `make` and appends them to `to`.
fn read_words<T>(
    to: &mut Vec<T>,
    bytes: &[u8],
    rows: &Range<usize>,
    make: impl FnMut([u8; 8]) -> T,
) -> Result<(), DecodeError> {
    let words = bytes.as_chunks().0.get(rows.clone()).ok_or(damaged("too few values"))?;
    to.extend(words.iter().copied().map(make));
    Ok(())
}

/// Returns the smallest number of decimals that represents all floats to within [`UNITS_MAX`], the floats
/// as integers without the decimal point, and the distance of each float from its decimal in units of the
/// last place. Returns `None` if [`DECIMALS_MAX`] are not enough.
fn decimals(floats: &[f64]) -> Option<(u8, Vec<i64>, Vec<i64>)> {
    (0..=DECIMALS_MAX).find_map(|exponent| {
        let scale = scale(exponent);
        let scaled = floats.iter().map(|float| scaled(*float, scale));
        let (numbers, units) = scaled.collect::<Option<_>>()?;
        Some((exponent, numbers, units))
    })
}

fn scale(exponent: u8) -> f64 {
    10_f64.powi(i32::from(exponent))
}

/// Returns `float` times `scale` as a whole number, and the distance of `float` from that number divided
/// by `scale`, in units of the last place. Returns `None` if one of them is too large.
fn scaled(float: f64, scale: f64) -> Option<(i64, i64)> {
    let product = (float * scale).round();
    if product.abs() >= EXACT_MAX {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
    let number = product as i64;
    let nearest = unscaled(number, scale);
    let n_units = rank_of_float(float).wrapping_sub(rank_of_float(nearest)).cast_signed();
    let is_near = n_units.unsigned_abs() <= UNITS_MAX && product.abs() < NEAR_MAX;
    (n_units == 0 || is_near).then_some((number, n_units))
}

fn unscaled(number: i64, scale: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 it is exact")]
    let number = number as f64;
    number / scale
}
