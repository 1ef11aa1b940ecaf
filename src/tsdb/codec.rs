//! Encoding of rows and buckets, independent of the engine.
//!
//! A chunk consists of two byte strings: its timestamps, so that a reader can find rows without
//! reading the rest, and its body. A single row is a body only. All integers are little-endian.
//!
//! ```text
//! times    version u8 · sum u32 · numbers
//! body     version u8 · sum u32 · n u32 · columns u16 · ids · created · column × columns
//! sum      CRC-32 of all bytes after it
//! ids, created   length u32 · numbers of that length; of length 0 the chunk has none
//! column   presence u8 · dtype u8 · length u32 · payload of that length
//! presence 0: no row has a value, no payload · 1: every row has a value · 2: n bits before the payload,
//!          1 for a row with a value. The values of other rows in the payload are ignored.
//! payload  float: floats · integer: numbers · boolean: n bits ·
//!          string: form u8 · 0: texts of all rows · 1: number of texts u32, length u32, texts of
//!          that length, numbers: the index of each row's text
//! bits     lowest bit of each byte first
//! texts    u32 × (number of texts + 1) offsets, then UTF-8
//! ```
//!
//! `codec/numbers.rs` describes `numbers` and `floats`. The checksum detects damage. Bytes with a
//! correct checksum that are invalid for another reason are rejected, too. Invalid lengths allocate at
//! most [`ROWS_MAX`] values for each column.

mod decode;
mod encode;
mod numbers;
mod packed;

use model::dataset::Dtype;
use model::timestamp::Timestamp;

use self::numbers::read_numbers;

pub(crate) use self::decode::{decode_body, decode_rows};
pub(crate) use self::encode::{encode, encode_body};

/// Version of the encoding: the first byte of the timestamps and of the body of a chunk.
const VERSION: u8 = 3;

/// Maximum number of rows of a chunk, far more than stores write. It limits the memory that a damaged
/// row count can allocate.
const ROWS_MAX: usize = 1 << 16;

/// Compression effort of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    /// Does not compress floats, unless most of them are missing, which is fast. For new rows.
    Quick,
    /// Minimizes the size. For rows that will not change soon.
    Small,
}

/// Error for bytes that do not encode a valid chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct DecodeError {
    what: &'static str,
}

impl DecodeError {
    /// The index lists a chunk that does not exist.
    pub(crate) const MISSING: Self = damaged("chunk is missing");
}

const fn damaged(what: &'static str) -> DecodeError {
    DecodeError { what }
}

/// Returns the number that represents a column type in a chunk.
const fn dtype_of(dtype: Dtype) -> u8 {
    match dtype {
        Dtype::Float => 0,
        Dtype::Integer => 1,
        Dtype::String => 2,
        Dtype::Boolean => 3,
    }
}

const fn check_rows(n: usize) -> Result<(), DecodeError> {
    if n <= ROWS_MAX { Ok(()) } else { Err(damaged("too many rows")) }
}

/// Checks version and checksum and returns the bytes after them.
fn check_sum(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader { bytes };
    let [version] = reader.array()?;
    let sum = u32::from_le_bytes(reader.array()?);
    if version != VERSION {
        return Err(damaged("unknown chunk version"));
    }
    if crc32fast::hash(reader.bytes) != sum {
        return Err(damaged("wrong checksum"));
    }
    Ok(reader)
}

/// Writes a length and then the output of `write`. Returns the result of `write`.
fn put_long<T>(to: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let length_at = to.len();
    to.extend_from_slice(&[0; 4]);
    let written = write(to);
    let length = u32::try_from(to.len() - length_at - 4).unwrap_or(u32::MAX);
    if let Some(place) = to.get_mut(length_at..length_at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    written
}

fn put_sum(bytes: &mut [u8]) {
    if let Some((head, rest)) = bytes.split_at_mut_checked(5)
        && let Some(place) = head.get_mut(1..5)
    {
        place.copy_from_slice(&crc32fast::hash(rest).to_le_bytes());
    }
}

fn put_u32(to: &mut Vec<u8>, number: usize) {
    to.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

/// Reader that removes values from the front of a byte slice.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n_bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.bytes.split_at_checked(n_bytes).ok_or(damaged("chunk is truncated"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| damaged("chunk is truncated"))
    }

    /// Reads a length, and then as many bytes.
    fn prefixed(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.length()?;
        self.take(length)
    }

    fn length(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(u32::from_le_bytes(self.array()?)).map_err(|_| damaged("chunk is too long"))
    }
}

/// Reads the timestamps of `n` rows.
///
/// # Errors
/// [`DecodeError`] if the bytes do not encode `n` timestamps.
pub(crate) fn decode_times(bytes: &[u8], n: usize) -> Result<Vec<Timestamp>, DecodeError> {
    check_rows(n)?;
    let mut times = Vec::new();
    read_numbers(&mut times, check_sum(bytes)?.bytes, n, &(0..n), Timestamp::from_micros)?;
    Ok(times)
}

#[cfg(test)]
pub(crate) mod tests;
