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

/// Bytes of a number of 64 bits in sevens.
const VARINT_MAX: usize = 10;

/// Numbers whose bits are looked at together.
const RUN: usize = 64;

/// Bytes of a run of the widest numbers. Whatever the width, each number of a run begins within them.
const WIDEST: usize = RUN * 8;

/// Bytes of a run, and those behind it that are read with the last number.
const WINDOW: usize = WIDEST + 16;

/// Whether numbers may grow from one to the next, such as timestamps, or only spread, such as prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trend {
    Growing,
    Spread,
}

/// Appends `values` to `to`.
pub(super) fn pack(to: &mut Vec<u8>, values: &[i64], trend: Trend) {
    let (Some(base), Some(last)) = (values.first().copied(), values.last().copied()) else {
        return;
    };
    if let Some(even) = even_step(values)
        && (even == 0 || trend == Trend::Growing)
    {
        // As below, without a look at each number: timestamps and row numbers mostly are so.
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

/// Numbers as [`pack`] writes them, none of them read yet.
#[derive(Debug)]
pub(super) struct PackedNumbers<'a> {
    base: i64,
    unit: i64,
    step: i64,
    blocks: Vec<Bits<'a>>,
    n: usize,
}

/// A block of numbers: how wide each is, the least of them, and their bits.
#[derive(Debug, Clone, Copy)]
struct Bits<'a> {
    width: usize,
    least: i64,
    data: &'a [u8],
}

impl<'a> PackedNumbers<'a> {
    /// The `n` numbers in `bytes`.
    pub(super) fn read(bytes: &'a [u8], n: usize) -> Result<Self, DecodeError> {
        let mut reader = Reader { bytes };
        let mut packed = Self { base: 0, unit: 0, step: 0, blocks: Vec::new(), n };
        if n == 0 {
            return Ok(packed);
        }
        for place in [&mut packed.base, &mut packed.unit, &mut packed.step] {
            *place = varint(&mut reader)?;
        }
        // Each has two bytes at least: a number of rows that is not true takes little memory.
        let n_blocks = n.div_ceil(BLOCK);
        packed.blocks.reserve_exact(n_blocks.min(bytes.len() / 2));
        for _ in 0..n_blocks {
            let [width] = reader.array()?;
            if width > 64 {
                return Err(damaged("a number of more than 64 bits"));
            }
            let least = varint(&mut reader)?;
            packed.blocks.push(Bits { width: width.into(), least, data: &[] });
        }
        for (block_idx, block) in packed.blocks.iter_mut().enumerate() {
            let n_bits = (n - block_idx * BLOCK).min(BLOCK).saturating_mul(block.width);
            block.data = reader.take(n_bits.div_ceil(8))?;
        }
        Ok(packed)
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.n
    }

    /// Number `idx` of a block before its bits are added, if the block begins with number `first`.
    fn line(&self, least: i64, first: usize, idx: usize) -> i64 {
        let idx = i64::try_from(first + idx).unwrap_or(i64::MAX);
        let least = self.base.wrapping_add(self.unit.wrapping_mul(least));
        least.wrapping_add(self.unit.wrapping_mul(self.step).wrapping_mul(idx))
    }

    /// Number `idx`; `None` past the end.
    pub(super) fn get(&self, idx: usize) -> Option<i64> {
        let Bits { width, least, data } = *self.blocks.get(idx / BLOCK).filter(|_| idx < self.n)?;
        let within = idx % BLOCK;
        let line = self.line(least, idx - within, within);
        if width == 0 {
            return Some(line);
        }
        let bit = within * width;
        let mut sixteen = [0; 16];
        for (to, from) in sixteen.iter_mut().zip(data.get(bit / 8..).unwrap_or_default()) {
            *to = *from;
        }
        let above = bits_of(sixteen, bit % 8, width);
        Some(line.wrapping_add(self.unit.wrapping_mul(above)))
    }

    /// Adds numbers `wanted` to `to`, as `make` makes them.
    pub(super) fn extend<T>(
        &self,
        to: &mut Vec<T>,
        wanted: &Range<usize>,
        make: impl Fn(i64) -> T,
    ) {
        to.reserve(wanted.len());
        let (unit, make) = (self.unit, &make);
        let mut window = [0; WINDOW];
        for (block_idx, Bits { width, least, data }) in self.blocks.iter().copied().enumerate() {
            let first = block_idx * BLOCK;
            let wanted = wanted.start.max(first)..wanted.end.min(first + BLOCK).min(self.n);
            if wanted.is_empty() {
                continue;
            }
            let within = wanted.start - first..wanted.end - first;
            let step = unit.wrapping_mul(self.step);
            if width == 0 {
                let mut line = self.line(least, first, within.start);
                to.extend(within.map(move |_| make(next(&mut line, step))));
                continue;
            }
            for start in within.clone().step_by(RUN) {
                let run = start..within.end.min(start + RUN);
                // What changes from one number to the next belongs to the loop, so that it stays in
                // registers; and the window has a length that is known, so that nothing is checked.
                let mut line = self.line(least, first, run.start);
                let start = run.start * width / 8;
                let bytes = data.get(start..(run.end * width).div_ceil(8)).unwrap_or_default();
                if let Some(window) = window.get_mut(..bytes.len()) {
                    window.copy_from_slice(bytes);
                }
                let (window, mut bit) = (&window, run.start * width - start * 8);
                to.extend(run.map(move |_| {
                    let above = bits_of(sixteen(window, bit / 8), bit % 8, width);
                    bit += width;
                    make(next(&mut line, step).wrapping_add(unit.wrapping_mul(above)))
                }));
            }
        }
    }
}

/// Adds numbers `rows` of the `n` in `bytes` to `to`, as `make` makes them.
pub(super) fn unpack<T>(
    to: &mut Vec<T>,
    bytes: &[u8],
    n: usize,
    rows: &Range<usize>,
    make: impl Fn(i64) -> T,
) -> Result<(), DecodeError> {
    if !rows.is_empty() {
        PackedNumbers::read(bytes, n)?.extend(to, rows, make);
    }
    Ok(())
}

/// The number that the line is at, which goes on by a step.
#[inline]
const fn next(line: &mut i64, step: i64) -> i64 {
    let now = *line;
    *line = now.wrapping_add(step);
    now
}

/// The bytes from `at` on that a number may be in.
#[inline]
fn sixteen(window: &[u8; WINDOW], at: usize) -> [u8; 16] {
    // No number begins beyond the widest ones: this only tells the compiler so.
    let sixteen = window.get(at % WIDEST..).and_then(|rest| rest.first_chunk());
    sixteen.copied().unwrap_or_default()
}

/// The number of `width` bits, which is not 0, that begins at bit `first` of the first byte.
#[inline]
fn bits_of(sixteen: [u8; 16], first: usize, width: usize) -> i64 {
    let bits = u128::from_le_bytes(sixteen) >> first;
    #[expect(clippy::cast_possible_truncation, reason = "a number has 64 bits at most")]
    let bits = bits as u64 & u64::MAX >> (64 - width);
    bits.cast_signed()
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
    for (idx, byte) in reader.bytes.iter().enumerate().take(VARINT_MAX) {
        number |= u64::from(byte & 0x7F) << (7 * idx);
        if byte & 0x80 == 0 {
            reader.bytes = reader.bytes.get(idx + 1..).unwrap_or_default();
            return Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    Err(damaged("a number that does not end"))
}
