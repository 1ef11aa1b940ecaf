//! Content codings: compression of bodies, and bodies assembled from compressed pieces.
//!
//! A piece is compressed independently, so that it can be cached and sent again. With gzip, all pieces
//! are part of one member: each piece is raw deflate data up to a byte boundary. The header precedes the
//! first piece. The end marker and the checksum of all pieces follow the last piece. Several members
//! would be valid, but curl stops after the first. With zstd, each piece is a frame, since all clients
//! continue with the next frame.

use std::io;

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress};

/// Header of a gzip member: method deflate, without a name, a time or an operating system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Empty last block of deflate.
const DEFLATE_END: [u8; 2] = [3, 0];

/// Compression level of gzip. A higher level hardly reduces the size of numbers.
const GZIP_LEVEL: u32 = 1;

/// Compression level of zstd.
const ZSTD_LEVEL: i32 = 1;

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// The content is not compressed.
    Identity,
    /// gzip, supported by all clients.
    Gzip,
    /// Zstandard, which is faster than gzip and produces the same size.
    Zstd,
}

/// A compressed piece of a body, with the data that are needed to insert it into a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Compressed bytes, without the header and trailer of a body.
    pub bytes: Vec<u8>,
    /// CRC-32 of the uncompressed bytes.
    pub sum: u32,
    /// Number of uncompressed bytes.
    pub plain_bytes: u64,
}

impl Coding {
    /// Selects the preferred coding according to `accept`, the value of `Accept-Encoding`. Returns
    /// `None` if no supported coding is accepted.
    ///
    /// Only codings that `accept` names are used, although `*` would allow other codings, since the
    /// client may not support these. If several codings have the same weight, zstd is preferred, since
    /// it is faster.
    pub fn negotiate(accept: &str) -> Option<Self> {
        let (mut gzip, mut zstd, mut identity, mut others) = (None, None, None, None);
        for choice in accept.split(',') {
            let (name, weight) = choice.split_once(';').unwrap_or((choice, ""));
            let place = match name.trim().to_ascii_lowercase().as_str() {
                "gzip" | "x-gzip" => &mut gzip,
                "zstd" => &mut zstd,
                "identity" => &mut identity,
                "*" => &mut others,
                _ => continue,
            };
            *place = Some(weight_of(weight));
        }
        let plain = identity.or(others);
        // If several codings have the same weight, the first coding is selected.
        let choices = [(zstd, Self::Zstd), (gzip, Self::Gzip), (plain, Self::Identity)];
        let best = choices
            .into_iter()
            .filter_map(|(weight, coding)| Some((weight.filter(|weight| *weight > 0)?, coding)))
            .rev()
            .max_by_key(|(weight, _)| *weight);
        match best {
            Some((_, coding)) => Some(coding),
            None if plain == Some(0) => None,
            None => Some(Self::Identity),
        }
    }

    /// Returns the name of the coding in headers, or `None` for identity.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Identity => None,
            Self::Gzip => Some("gzip"),
            Self::Zstd => Some("zstd"),
        }
    }
}

/// Parses the weight of a coding in thousandths: `q=0.5` is 500, empty text 1000, invalid text 0.
fn weight_of(text: &str) -> u16 {
    let text = text.trim();
    if text.is_empty() {
        return 1000;
    }
    let number = text.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    let weight = number.and_then(|(_, number)| number.trim().parse::<f32>().ok());
    let weight = weight.filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 1000")]
    let thousandths = (weight * 1000.0).round() as u16;
    thousandths
}

/// Assembles a body from pieces.
#[derive(Debug)]
pub struct Encoder {
    coding: Coding,
    sum: Hasher,
}

impl Encoder {
    /// Starts an empty body.
    #[must_use]
    pub fn new(coding: Coding) -> Self {
        Self { coding, sum: Hasher::new() }
    }

    /// Returns the coding of the body.
    pub const fn coding(&self) -> Coding {
        self.coding
    }

    /// Writes the gzip header.
    pub fn begin(&self, to: &mut Vec<u8>) {
        if self.coding == Coding::Gzip {
            to.extend_from_slice(&GZIP_HEADER);
        }
    }

    /// Compresses and writes `plain`.
    ///
    /// # Errors
    /// The same as for [`pack`].
    pub fn push(&mut self, to: &mut Vec<u8>, plain: &[u8]) -> io::Result<()> {
        if self.coding == Coding::Identity {
            to.extend_from_slice(plain);
        } else if !plain.is_empty() {
            self.push_packed(to, &pack(self.coding, plain)?);
        }
        Ok(())
    }

    /// Writes the few bytes that separate pieces.
    ///
    /// # Errors
    /// The same as for [`pack`].
    pub fn glue(&mut self, to: &mut Vec<u8>, plain: &[u8]) -> io::Result<()> {
        match u16::try_from(plain.len()) {
            Ok(length) if self.coding == Coding::Gzip && length > 0 => {
                // A stored block of deflate, which is not compressed.
                to.push(0);
                to.extend_from_slice(&length.to_le_bytes());
                to.extend_from_slice(&(!length).to_le_bytes());
                to.extend_from_slice(plain);
                self.sum.update(plain);
                Ok(())
            }
            _ => self.push(to, plain),
        }
    }

    /// Writes a piece that [`pack`] compressed with the same coding.
    pub fn push_packed(&mut self, to: &mut Vec<u8>, packed: &Packed) {
        to.extend_from_slice(&packed.bytes);
        self.sum.combine(&Hasher::new_with_initial_len(packed.sum, packed.plain_bytes));
    }

    /// Writes the gzip trailer. Its length and checksum reveal missing pieces.
    pub fn end(&self, to: &mut Vec<u8>) {
        if self.coding == Coding::Gzip {
            let [length @ .., _, _, _, _] = self.sum.total_len().to_le_bytes();
            to.extend_from_slice(&DEFLATE_END);
            to.extend_from_slice(&self.sum.clone().finalize().to_le_bytes());
            to.extend_from_slice(&length);
        }
    }
}

/// Compresses `plain` as a piece.
///
/// # Errors
/// If the compressor fails, which only happens when memory is exhausted.
pub fn pack(coding: Coding, plain: &[u8]) -> io::Result<Packed> {
    let bytes = match coding {
        Coding::Identity => plain.to_vec(),
        Coding::Gzip => deflate_piece(plain)?,
        Coding::Zstd => zstd::bulk::compress(plain, ZSTD_LEVEL)?,
    };
    let plain_bytes = u64::try_from(plain.len()).unwrap_or(u64::MAX);
    Ok(Packed { bytes, sum: crc32fast::hash(plain), plain_bytes })
}

/// Compresses a whole body.
///
/// # Errors
/// The same as for [`pack`].
pub fn compress(coding: Coding, plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding);
    let mut body = Vec::new();
    encoder.begin(&mut body);
    encoder.push(&mut body, plain)?;
    encoder.end(&mut body);
    Ok(body)
}

/// Compresses to raw deflate data up to a byte boundary, without the end of the gzip member.
fn deflate_piece(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflate = Compress::new(Compression::new(GZIP_LEVEL), false);
    // There is space for data that do not compress, since the crate does not complete a flush that the
    // end of the space interrupts.
    let mut bytes = Vec::with_capacity(plain.len() + plain.len() / 10 + 128);
    deflate.compress_vec(plain, &mut bytes, FlushCompress::Full).map_err(io::Error::other)?;
    if deflate.total_in() != plain.len() as u64 || bytes.len() == bytes.capacity() {
        return Err(io::Error::other("deflate makes no progress"));
    }
    bytes.shrink_to_fit();
    Ok(bytes)
}

#[cfg(test)]
mod tests;
