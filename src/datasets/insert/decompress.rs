//! Decompresses bodies.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;

use crate::error::{OperationError, Result};

/// The content encoding of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The body as it is.
    Identity,
    /// As one or more members of gzip.
    Gzip,
    /// As one or more frames of Zstandard.
    Zstd,
}

/// Decompresses a body to at most `bytes_max`.
pub(super) fn decompress(encoding: Encoding, body: &Bytes, bytes_max: usize) -> Result<Bytes> {
    let read = match encoding {
        Encoding::Identity => return Ok(body.clone()),
        Encoding::Gzip => read_all(MultiGzDecoder::new(&**body), bytes_max),
        Encoding::Zstd => zstd::stream::read::Decoder::with_buffer(&**body)
            .and_then(|decoder| read_all(decoder, bytes_max)),
    };
    let plain = read.map_err(|error| OperationError::Unreadable {
        what: format!("it does not decompress: {error}"),
    })?;
    if plain.len() > bytes_max {
        return Err(OperationError::TooLarge);
    }
    Ok(plain.into())
}

/// Reads to the end, or one byte more than `bytes_max`: a few bytes can decompress to terabytes.
fn read_all(reader: impl Read, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut plain = Vec::new();
    reader.take(limit).read_to_end(&mut plain)?;
    Ok(plain)
}
