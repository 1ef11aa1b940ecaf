//! Bit packing of lists of integers.
//!
//! ```text
//! packed   low u64 · factor u64 · step u64 · block × blocks · 0 u64
//! block    order u8 · width u8 · extra u8 · exceptions u8 · start u64 · fields · places · rests
//! fields   width bits for each number of the block
//! places   u8 × exceptions, their indices in the block
//! rests    extra bits for each exception
//! ```
//!
//! Each number is `low` plus `factor` times its quotient. `factor` is the largest that is possible: many
//! timestamps are whole seconds, and prices whole ticks. A block has the quotients of [`BLOCK_ROWS`]
//! numbers, except for the last. All arithmetic is modulo 2^64.
//!
//! In a block of order 0, a field is the quotient minus `start`. In a block of order 1, it is the
//! difference from the previous quotient minus `step`, with its sign in the lowest bit. The first
//! quotient is `start`, and its field 0. `step` is the median of all differences. Exceptions are few
//! fields that need more than `width` bits. `rests` has their higher bits.
//!
//! The next number begins at the next bit, the lowest bit of each byte is first, and each group of
//! numbers begins at a byte. A width is at most [`WIDTH_MAX`], or 64, so that each number is within 8
//! bytes. The zeros at the end allow reading these 8 bytes of the last number.

use std::ops::Range;

use super::{DecodeError, Reader, damaged};

/// Number of rows of a block. Shorter blocks of prices in a random walk need 3 % more space.
const BLOCK_ROWS: usize = 256;

/// Maximum width other than 64.
const WIDTH_MAX: usize = 56;

/// Maximum number of exceptions of a block.
const EXCEPTIONS_MAX: usize = 255;

/// Appends the packed form of `numbers`.
pub(super) fn put_packed(to: &mut Vec<u8>, numbers: &[u64]) {
    let low = numbers.iter().copied().min().unwrap_or_default();
    let mut quotients: Vec<u64> = numbers.iter().map(|number| number - low).collect();
    let factor = common_divisor(&quotients);
    if factor > 1 {
        for quotient in &mut quotients {
            *quotient /= factor;
        }
    }
    let step = median_step(&quotients);
    for number in [low, factor, step] {
        to.extend_from_slice(&number.to_le_bytes());
    }
    for block in quotients.chunks(BLOCK_ROWS) {
        put_block(to, block, step);
    }
    to.extend_from_slice(&[0; 8]);
}

/// Reads the numbers at the indices `rows` of a list of `n`, converts them with `make` and appends them
/// to `to`.
pub(super) fn read_packed<T>(
    to: &mut Vec<T>,
    mut reader: Reader<'_>,
    n: usize,
    rows: &Range<usize>,
    mut make: impl FnMut(u64) -> T,
) -> Result<(), DecodeError> {
    let low = u64::from_le_bytes(reader.array()?);
    let factor = u64::from_le_bytes(reader.array()?);
    let step = u64::from_le_bytes(reader.array()?);
    let mut fields = [0; BLOCK_ROWS];
    to.reserve(rows.len());
    for first_row in (0..n.min(rows.end)).step_by(BLOCK_ROWS) {
        let n_rows = BLOCK_ROWS.min(n - first_row);
        let block = Block::read(&mut reader, n_rows)?;
        let end = n_rows.min(rows.end - first_row);
        let wanted = rows.start.saturating_sub(first_row)..end;
        if !wanted.is_empty() {
            block.unpack(fields.get_mut(..end).unwrap_or_default(), step);
            let quotients = fields.get(wanted).unwrap_or_default().iter();
            to.extend(
                quotients.map(|quotient| make(low.wrapping_add(factor.wrapping_mul(*quotient)))),
            );
        }
    }
    Ok(())
}

/// Block of packed numbers.
struct Block<'a> {
    has_differences: bool,
    start: u64,
    width: usize,
    /// Bytes from the first field to the end of the list.
    fields: &'a [u8],
    places: &'a [u8],
    extra: usize,
    /// Bytes from the rest of the first exception to the end of the list.
    rests: &'a [u8],
}

impl<'a> Block<'a> {
    fn read(reader: &mut Reader<'a>, n_rows: usize) -> Result<Self, DecodeError> {
        let [order, width, extra, n_exceptions] = reader.array()?;
        let [width, extra, n_exceptions] = [width, extra, n_exceptions].map(usize::from);
        let start = u64::from_le_bytes(reader.array()?);
        let is_width = |width| width <= WIDTH_MAX || width == 64;
        if order > 1 || !is_width(width) || !is_width(extra) {
            return Err(damaged("unknown encoding of a block"));
        }
        let fields = reader.bytes;
        reader.take((n_rows * width).div_ceil(8))?;
        let places = reader.take(n_exceptions)?;
        let rests = reader.bytes;
        reader.take((n_exceptions * extra).div_ceil(8))?;
        if reader.bytes.len() < 8 || places.iter().any(|place| usize::from(*place) >= n_rows) {
            return Err(damaged("chunk is truncated"));
        }
        Ok(Self { has_differences: order == 1, start, width, fields, places, extra, rests })
    }

    /// Writes the first quotients of the block to `quotients`.
    fn unpack(&self, quotients: &mut [u64], step: u64) {
        unpack_bits(quotients, self.fields, self.width);
        let mut rests = [0; EXCEPTIONS_MAX];
        let rests = rests.get_mut(..self.places.len()).unwrap_or_default();
        unpack_bits(rests, self.rests, self.extra);
        for (place, rest) in self.places.iter().zip(rests) {
            if let Some(field) = quotients.get_mut(usize::from(*place)) {
                *field |= rest.unbounded_shl(bits(self.width));
            }
        }
        if self.has_differences {
            let mut quotient = self.start.wrapping_sub(step);
            for field in quotients {
                quotient = quotient.wrapping_add(step).wrapping_add(from_zigzag(*field));
                *field = quotient;
            }
        } else {
            for field in quotients {
                *field = field.wrapping_add(self.start);
            }
        }
    }
}

/// Widths of the fields of a block.
struct Widths {
    width: usize,
    extra: usize,
    n_exceptions: usize,
    /// Number of bytes of fields and exceptions.
    length: usize,
}

impl Widths {
    /// Returns the widths that need the fewest bytes.
    fn of(fields: &[u64]) -> Self {
        let mut n_by_length = [0; 65];
        for field in fields {
            if let Some(n) = n_by_length.get_mut(64 - field.leading_zeros() as usize) {
                *n += 1;
            }
        }
        let longest = n_by_length.iter().rposition(|n| *n > 0).unwrap_or_default();
        let mut best = Self::new(fields.len(), longest, 0, 0);
        let mut n_exceptions = 0;
        for (width, n) in n_by_length.iter().enumerate().take(longest + 1).skip(1).rev() {
            n_exceptions += n;
            let widths = Self::new(fields.len(), width - 1, longest + 1 - width, n_exceptions);
            if n_exceptions <= EXCEPTIONS_MAX && widths.length < best.length {
                best = widths;
            }
        }
        best
    }

    fn new(n: usize, width: usize, extra: usize, n_exceptions: usize) -> Self {
        let [width, extra] = [width, extra].map(|bits| if bits <= WIDTH_MAX { bits } else { 64 });
        let length = (n * width).div_ceil(8) + n_exceptions + (n_exceptions * extra).div_ceil(8);
        Self { width, extra, n_exceptions, length }
    }
}

fn put_block(to: &mut Vec<u8>, quotients: &[u64], step: u64) {
    let low = quotients.iter().copied().min().unwrap_or_default();
    let distances: Vec<u64> = quotients.iter().map(|quotient| quotient - low).collect();
    let first = quotients.first().copied().unwrap_or_default();
    let mut previous = first.wrapping_sub(step);
    let differences: Vec<u64> = quotients
        .iter()
        .map(|quotient| {
            let difference = quotient.wrapping_sub(previous).wrapping_sub(step);
            previous = *quotient;
            to_zigzag(difference)
        })
        .collect();
    let (of_distances, of_differences) = (Widths::of(&distances), Widths::of(&differences));
    if of_differences.length < of_distances.length {
        put_fields(to, 1, first, &differences, &of_differences);
    } else {
        put_fields(to, 0, low, &distances, &of_distances);
    }
}

fn put_fields(to: &mut Vec<u8>, order: u8, start: u64, fields: &[u64], widths: &Widths) {
    let byte = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
    let Widths { width, extra, n_exceptions, .. } = *widths;
    to.extend_from_slice(&[order, byte(width), byte(extra), byte(n_exceptions)]);
    to.extend_from_slice(&start.to_le_bytes());
    put_bits(to, fields.iter().map(|field| field & mask(width)), width);
    let rests = || fields.iter().map(|field| field.unbounded_shr(bits(width)));
    let exceptions = rests().enumerate().filter(|(_, rest)| *rest > 0);
    to.extend(exceptions.map(|(place, _)| byte(place)));
    put_bits(to, rests().filter(|rest| *rest > 0), extra);
}

/// Appends the lowest `width` bits of each number.
fn put_bits(to: &mut Vec<u8>, numbers: impl Iterator<Item = u64>, width: usize) {
    let mut pending = 0_u128;
    let mut n_bits = 0;
    for number in numbers {
        pending |= u128::from(number) << n_bits;
        n_bits += width;
        if n_bits >= 64 {
            to.extend(pending.to_le_bytes().iter().take(8));
            pending >>= 64;
            n_bits -= 64;
        }
    }
    to.extend(pending.to_le_bytes().iter().take(n_bits.div_ceil(8)));
}

/// Reads numbers of `width` bits, which are followed by at least 8 bytes.
fn unpack_bits(numbers: &mut [u64], bytes: &[u8], width: usize) {
    let mask = mask(width);
    let mut at = 0;
    for number in numbers {
        let Some(word) = bytes.get(at / 8..at / 8 + 8) else { break };
        *number = (u64::from_le_bytes(word.try_into().unwrap_or_default()) >> (at % 8)) & mask;
        at += width;
    }
}

/// Returns a number whose lowest `width` bits are set.
fn mask(width: usize) -> u64 {
    u64::MAX.unbounded_shr(64 - bits(width))
}

fn bits(width: usize) -> u32 {
    u32::try_from(width).unwrap_or(u32::MAX)
}

/// Returns the difference with its sign in the lowest bit, so that small differences are small numbers.
fn to_zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference.cast_signed() >> 63).cast_unsigned()
}

fn from_zigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Returns the median of the differences between consecutive numbers.
fn median_step(numbers: &[u64]) -> u64 {
    let pairs = numbers.iter().zip(numbers.iter().skip(1));
    let mut steps: Vec<i64> = pairs.map(|(a, b)| b.wrapping_sub(*a).cast_signed()).collect();
    if steps.is_empty() {
        return 0;
    }
    let middle = steps.len() / 2;
    steps.select_nth_unstable(middle).1.cast_unsigned()
}

/// Returns the greatest common divisor of all numbers, or 1 if all of them are 0.
fn common_divisor(numbers: &[u64]) -> u64 {
    let mut divisor = 0;
    for number in numbers {
        let mut other = *number;
        while other > 0 {
            (divisor, other) = (other, divisor % other);
        }
        if divisor == 1 {
            break;
        }
    }
    divisor.max(1)
}
