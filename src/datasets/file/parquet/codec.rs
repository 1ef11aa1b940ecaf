//! What pages are compressed with: Snappy, gzip and Zstandard, the three that common writers use.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

use super::thrift::Bytes;

/// The longest page taken: writers make pages of about a megabyte.
const PAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Uncompresses a page of `size_bytes`.
///
/// # Errors
/// What is wrong with it.
pub(super) fn uncompressed(codec: i64, page: &[u8], size_bytes: usize) -> Result<Vec<u8>, String> {
    if size_bytes > PAGE_BYTES_MAX {
        return Err(format!("a page of it has more than {PAGE_BYTES_MAX} bytes"));
    }
    let limit = size_bytes as u64 + 1;
    let mut text = Vec::with_capacity(size_bytes);
    let read = match codec {
        0 => {
            text.extend_from_slice(page);
            Ok(0)
        }
        1 => {
            text = snappy(page, size_bytes).ok_or("a page of it is damaged")?;
            Ok(0)
        }
        2 => MultiGzDecoder::new(page).take(limit).read_to_end(&mut text),
        6 => zstd::Decoder::new(page).and_then(|zstd| zstd.take(limit).read_to_end(&mut text)),
        _ => {
            let names = ["", "", "", "LZO", "Brotli", "LZ4", "", "LZ4"];
            let name = usize::try_from(codec).ok().and_then(|codec| names.get(codec));
            let name = name.unwrap_or(&"an unknown codec");
            return Err(format!("it is compressed with {name}; write it with snappy or zstd"));
        }
    };
    read.map_err(|error| format!("a page of it is damaged: {error}"))?;
    if text.len() == size_bytes { Ok(text) } else { Err("a page of it is damaged".to_owned()) }
}

/// Snappy's raw form: a length, then literals and copies of what came before.
fn snappy(page: &[u8], size_bytes: usize) -> Option<Vec<u8>> {
    let mut rest = Bytes(page);
    if usize::try_from(rest.varint()?).ok()? != size_bytes {
        return None;
    }
    let mut text: Vec<u8> = Vec::with_capacity(size_bytes);
    while !rest.0.is_empty() && text.len() <= size_bytes {
        let tag = rest.byte()?;
        let high = usize::from(tag >> 2);
        let (offset, length) = match tag & 3 {
            0 => {
                // From 60 on the length follows, in one to four bytes.
                let length = match high {
                    ..60 => high,
                    _ => little_endian(rest.take(high - 59)?),
                };
                text.extend_from_slice(rest.take(length.checked_add(1)?)?);
                continue;
            }
            1 => (((high >> 3) << 8) | usize::from(rest.byte()?), (high & 7) + 4),
            2 => (little_endian(rest.take(2)?), high + 1),
            _ => (little_endian(rest.take(4)?), high + 1),
        };
        let mut from = text.len().checked_sub(offset).filter(|_| offset > 0)?;
        if offset >= length {
            text.extend_from_within(from..from + length);
        } else {
            // The copy runs into what it writes.
            for _ in 0..length {
                let byte = *text.get(from)?;
                text.push(byte);
                from += 1;
            }
        }
    }
    (text.len() == size_bytes).then_some(text)
}

fn little_endian(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
}
