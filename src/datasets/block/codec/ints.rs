//! Whole numbers in few bits: what they have in common is written once.
//!
//! ```text
//! base · unit · step     varints
//! (width u8 · least varint) × blocks of 256
//! (number of `width` bits × 256) × blocks, lowest bit first, each block from a new byte on
//! number i = base + unit × (step × i + least of its block + its bits), modulo 2^64
//! ```

use std::ops::Range;

use super::{DecodeError, Reader, damaged};

/// Numbers that share a width. Few enough that a page decodes little more than it needs, enough that
/// the width and the least number cost a third of a bit each.
const BLOCK: usize = 256;

/// Whether numbers may grow from one to the next, such as moments, or only spread, such as prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
    Growing,
    Spread,
}

/// Writes `values`.
pub(super) fn pack(to: &mut Vec<u8>, values: &[i64], trend: Trend) {
    let (Some(base), Some(last)) = (values.first().copied(), values.last().copied()) else {
        return;
    };
    if let Some(even) = even_step(values)
        && (even == 0 || trend == Trend::Growing)
    {
        // As below, without a look at each number: moments and row numbers mostly are so.
        for number in [base, even.max(1), even.min(1)] {
            put_varint(to, number);
        }
        to.extend(std::iter::repeat_n([0, 0], values.len().div_ceil(BLOCK)).flatten());
        return;
    }
    let unit = unit(values, base);
    let shares: Vec<i64> =
        values.iter().map(|value| value.wrapping_sub(base).wrapping_div(unit)).collect();
    let mut step = 0;
    if trend == Trend::Growing {
        let n_steps = i64::try_from(values.len() - 1).unwrap_or(i64::MAX).max(1);
        let even = last.wrapping_sub(base).wrapping_div(unit).wrapping_div(n_steps);
        if even != 0 && width_sum(&shares, even) < width_sum(&shares, 0) {
            step = even;
        }
    }
    for number in [base, unit, step] {
        put_varint(to, number);
    }
    let mut blocks: Vec<(i64, u32, Vec<i64>)> = Vec::with_capacity(shares.len().div_ceil(BLOCK));
    for (block_idx, block) in shares.chunks(BLOCK).enumerate() {
        let left = residuals(block, block_idx, step);
        let (least, width) = bounds(&left);
        blocks.push((least, width, left));
    }
    for (least, width, _) in &blocks {
        to.push(u8::try_from(*width).unwrap_or(64));
        put_varint(to, *least);
    }
    for (least, width, left) in blocks {
        put_bits(to, &left, least, width);
    }
}

/// By how much numbers grow, if each does by as much.
fn even_step(values: &[i64]) -> Option<i64> {
    let [first, second, ..] = values else { return Some(0) };
    let step = second.checked_sub(*first).filter(|step| *step >= 0)?;
    let (_, others) = values.split_first()?;
    values.iter().zip(others).all(|(a, b)| b.wrapping_sub(*a) == step).then_some(step)
}

/// What all differences to `base` are multiples of.
fn unit(values: &[i64], base: i64) -> i64 {
    let mut unit: u64 = 0;
    for value in values {
        let (mut a, mut b) = (unit, value.wrapping_sub(base).unsigned_abs());
        while b != 0 {
            (a, b) = (b, a % b);
        }
        unit = a;
        if unit == 1 {
            break;
        }
    }
    i64::try_from(unit).unwrap_or(1).max(1)
}

fn residuals(block: &[i64], block_idx: usize, step: i64) -> Vec<i64> {
    let first = i64::try_from(block_idx * BLOCK).unwrap_or(i64::MAX);
    (first..).zip(block).map(|(idx, share)| share.wrapping_sub(step.wrapping_mul(idx))).collect()
}

/// The least number, and how many bits the others are above it.
fn bounds(numbers: &[i64]) -> (i64, u32) {
    let least = numbers.iter().copied().min().unwrap_or_default();
    let most = numbers.iter().copied().max().unwrap_or_default();
    (least, 64 - above(most, least).leading_zeros())
}

fn above(number: i64, least: i64) -> u64 {
    number.wrapping_sub(least).cast_unsigned()
}

fn width_sum(shares: &[i64], step: i64) -> u32 {
    let blocks = shares.chunks(BLOCK).enumerate();
    blocks.map(|(block_idx, block)| bounds(&residuals(block, block_idx, step)).1).sum()
}

fn put_bits(to: &mut Vec<u8>, numbers: &[i64], least: i64, width: u32) {
    let (mut held, mut n_held) = (0_u128, 0_u32);
    for number in numbers {
        held |= u128::from(above(*number, least)) << n_held;
        n_held += width;
        while n_held >= 8 {
            to.push(low_byte(held));
            held >>= 8;
            n_held -= 8;
        }
    }
    if n_held > 0 {
        to.push(low_byte(held));
    }
}

fn low_byte(bits: u128) -> u8 {
    let [low, ..] = bits.to_le_bytes();
    low
}

/// Adds numbers `rows` of the `n` in `bytes` to `to`, as `make` makes them.
pub(super) fn unpack<T>(
    to: &mut Vec<T>,
    bytes: &[u8],
    n: usize,
    rows: &Range<usize>,
    make: impl Fn(i64) -> T,
) -> Result<(), DecodeError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut reader = Reader { bytes };
    let (base, unit, step) = (varint(&mut reader)?, varint(&mut reader)?, varint(&mut reader)?);
    let mut blocks = Vec::with_capacity(n.div_ceil(BLOCK));
    for _ in 0..n.div_ceil(BLOCK) {
        let [width] = reader.array()?;
        if width > 64 {
            return Err(damaged("a number of more than 64 bits"));
        }
        blocks.push((width, varint(&mut reader)?));
    }
    to.reserve(rows.len());
    for (block_idx, (width, least)) in blocks.into_iter().enumerate() {
        let first = block_idx * BLOCK;
        let width = usize::from(width);
        let data = reader.take((n - first).min(BLOCK).saturating_mul(width).div_ceil(8))?;
        let wanted = rows.start.max(first)..rows.end.min(first + BLOCK).min(n);
        if wanted.is_empty() {
            continue;
        }
        // What is the same for the whole block comes first, so that the loop is short.
        let least = base.wrapping_add(unit.wrapping_mul(least));
        let step = unit.wrapping_mul(step);
        let mut line =
            least.wrapping_add(step.wrapping_mul(i64::try_from(wanted.start).unwrap_or(0)));
        let within = wanted.start - first..wanted.end - first;
        if width == 0 {
            to.extend(within.map(|_| make(next(&mut line, step))));
        } else if width <= 56 {
            let mask = (1_u64 << width) - 1;
            to.extend(within.map(|idx| {
                let bit = idx * width;
                let bits = load_64(data, bit / 8) >> (bit % 8) & mask;
                make(next(&mut line, step).wrapping_add(unit.wrapping_mul(bits.cast_signed())))
            }));
        } else {
            let mask = u64::MAX >> (64 - width);
            to.extend(within.map(|idx| {
                let bit = idx * width;
                let [low, high] = [load_64(data, bit / 8), load_64(data, bit / 8 + 8)];
                let both = u128::from(low) | u128::from(high) << 64;
                #[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
                let bits = (both >> (bit % 8)) as u64 & mask;
                make(next(&mut line, step).wrapping_add(unit.wrapping_mul(bits.cast_signed())))
            }));
        }
    }
    Ok(())
}

/// The number that the line is at, which goes on by a step.
const fn next(line: &mut i64, step: i64) -> i64 {
    let now = *line;
    *line = now.wrapping_add(step);
    now
}

/// Eight bytes from `at` on, zeros where there are none.
fn load_64(bytes: &[u8], at: usize) -> u64 {
    if let Some(eight) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        return u64::from_le_bytes(*eight);
    }
    let mut eight = [0; 8];
    let rest = bytes.get(at..).unwrap_or_default();
    for (to, from) in eight.iter_mut().zip(rest) {
        *to = *from;
    }
    u64::from_le_bytes(eight)
}

/// Writes a number in 1 to 10 bytes, few where it is near 0.
fn put_varint(to: &mut Vec<u8>, number: i64) {
    let mut left = (number << 1 ^ number >> 63).cast_unsigned();
    loop {
        let [low, ..] = left.to_le_bytes();
        left >>= 7;
        if left == 0 {
            to.push(low & 0x7F);
            return;
        }
        to.push(low | 0x80);
    }
}

fn varint(reader: &mut Reader<'_>) -> Result<i64, DecodeError> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let [byte] = reader.array()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    Err(damaged("a number that does not end"))
}
