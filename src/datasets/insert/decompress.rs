//! Decompresses bodies.

use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use formats::content_coding::Coding;

use crate::error::{OperationError, Result};

/// A decompressed body, or its beginning.
#[derive(Debug)]
pub(super) struct Plain {
    pub(super) bytes: Bytes,
    /// True if the body is longer than the maximum, and this is its beginning.
    pub(super) is_truncated: bool,
}

/// Decompresses a body to at most `bytes_max`, and one byte more if there are more.
pub(super) fn decompress(coding: Coding, body: &Bytes, bytes_max: usize) -> Result<Plain> {
    let read = match coding {
        Coding::Identity => return Ok(Plain { bytes: body.clone(), is_truncated: false }),
        Coding::Gzip => read_all(MultiGzDecoder::new(&**body), bytes_max),
        Coding::Zstd => zstd::stream::read::Decoder::with_buffer(&**body)
            .and_then(|decoder| read_all(decoder, bytes_max)),
    };
    let plain = read.map_err(|error| OperationError::Unreadable {
        what: format!("it does not decompress: {error}"),
    })?;
    Ok(Plain { is_truncated: plain.len() > bytes_max, bytes: plain.into() })
}

/// Reads to the end, or one byte more than `bytes_max`: a few bytes can decompress to terabytes.
fn read_all(reader: impl Read, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut plain = Vec::new();
    reader.take(limit).read_to_end(&mut plain)?;
    Ok(plain)
}
