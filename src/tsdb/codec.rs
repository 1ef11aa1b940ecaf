//! Rows and buckets as bytes, independent of the engine that keeps them.
//!
//! A chunk is two texts of bytes: its timestamps, so that a reader can find rows without touching
//! the rest, and its body. A single row is a body alone. Every number is little-endian.
//!
//! ```text
//! times   version u8 · sum u32 · numbers
//! body    version u8 · sum u32 · n u32 · columns u16 · ids · created · column × columns
//! sum     CRC-32 of all bytes after it
//! ids, created   length u32 · numbers of that length; of length 0 the chunk has none
//! column  kind u8 · dtype u8 · coding u8 · length u32 · payload of that length
//! kind    0: no row has a value, no payload · 1: every row has one · 2: a bitmap of n bits, lowest
//!         first, for the rows that have one; the others repeat the value of the row before
//! payload by dtype and coding, after the bitmap of kind 2:
//!         float 0: f64 × n · 1: numbers, the floats in their order · 2: exponent u8, numbers that
//!         divided by ten to it are the floats · 3: column u16, numbers, the distances to that column
//!         integer, boolean 1: numbers · string 0: u32 × (n + 1) offsets, then UTF-8 · 1: texts u32,
//!         length u32, that many texts as in coding 0 of that length, numbers of the rows' texts
//! ```
//!
//! Numbers are packed by `bit_packing`. The order of floats is that of their bits, those of negative
//! ones inverted, so that floats near one another are near as numbers, too.

mod bit_packing;
mod decode;
mod encode;
mod timestamps;

use model::dataset::Dtype;

pub(crate) use self::{
    decode::{decode_body, decode_rows},
    encode::{Packing, encode, encode_body},
    timestamps::Timestamps,
};

/// The version of the format, which each text of bytes begins with.
const VERSION: u8 = 2;

/// Some bytes are no chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("decode a chunk: {what}")]
pub struct DecodeError {
    what: &'static str,
}

impl DecodeError {
    /// A list names a chunk that is missing.
    pub(crate) const MISSING: Self = damaged("it is not where it should be");
}

const fn damaged(what: &'static str) -> DecodeError {
    DecodeError { what }
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

/// A float as a number, in the order of floats.
const fn ordered(value: f64) -> i64 {
    invert_negative(value.to_bits().cast_signed())
}

/// Inverts the bits of negative floats; its own inverse.
const fn invert_negative(bits: i64) -> i64 {
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// The inverse of [`ordered`].
const fn float_of(ordered: i64) -> f64 {
    f64::from_bits(invert_negative(ordered).cast_unsigned())
}

/// A number without its decimals as the float it stands for.
fn unscaled(number: i64, scale: f64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 it is exact")]
    let number = number as f64;
    number / scale
}

fn scale(exponent: u8) -> f64 {
    10_f64.powi(i32::from(exponent))
}

/// The bytes after version and sum, once both are checked.
fn check_sum(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
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

/// Takes bytes from the front.
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
    fn prefixed(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.length()?;
        self.take(length)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| damaged("too long"))
    }
}

#[cfg(test)]
pub(crate) mod tests;
