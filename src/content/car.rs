//! Archives of blocks: CAR version 1. Every block is verified against its id when it is read.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::function::content::{Codec, ContentId};

use super::error::ContentError;
use super::varint;

/// Name of the format in errors.
const WHAT: &str = "CAR of version 1";

/// Maximum number of blocks of a function. The largest function in one file has some 1000. Each further
/// file can add one.
pub(super) const BLOCKS_MAX: usize = 16 * 1024;

/// Maximum size of a header. A header with one root has 58 bytes.
const HEADER_BYTES_MAX: usize = 4096;

/// Maximum size of a block that links to others, which is also the maximum that IPFS tools exchange.
const NODE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// CBOR tag of a content id.
const TAG_CID: u64 = 42;

/// The value of the item is in the next byte.
const ONE_BYTE: u8 = 0x18;

/// The value of the item is in the next two bytes.
const TWO_BYTES: u8 = 0x19;

/// The value of the item is in the next eight bytes.
const EIGHT_BYTES: u8 = 0x1b;

/// Verified blocks by id.
pub(super) type Blocks = BTreeMap<ContentId, Bytes>;

/// Types of CBOR items.
mod major {
    pub(super) const NUMBER: u8 = 0;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const LIST: u8 = 4;
    pub(super) const MAP: u8 = 5;
    pub(super) const TAG: u8 = 6;
}

/// Reads the roots and blocks of a CAR. The blocks share its memory.
pub(super) fn read(car: &Bytes) -> Result<(Vec<ContentId>, Blocks), ContentError> {
    let (header, mut rest) = varint::read_prefixed(car).ok_or_else(malformed)?;
    if header.len() > HEADER_BYTES_MAX {
        return Err(malformed());
    }
    let roots = roots(header).ok_or_else(malformed)?;
    let mut blocks = Blocks::new();
    while !rest.is_empty() {
        let (section, after) = varint::read_prefixed(rest).ok_or_else(malformed)?;
        rest = after;
        let what = "a block that is not raw or dag-pb by SHA-256";
        let unsupported = || ContentError::Unsupported { what };
        let (id, length) = ContentId::read(section).ok_or_else(unsupported)?;
        let block = section.get(length..).unwrap_or_default();
        if id.codec() == Codec::DagPb && block.len() > NODE_BYTES_MAX {
            return Err(ContentError::TooMuch { what: "bytes in a node", max: NODE_BYTES_MAX });
        }
        if !id.names(block) {
            return Err(ContentError::Mismatch { id });
        }
        blocks.insert(id, car.slice_ref(block));
        if blocks.len() > BLOCKS_MAX {
            return Err(ContentError::TooMuch { what: "blocks", max: BLOCKS_MAX });
        }
    }
    Ok((roots, blocks))
}

/// Writes a CAR with one root and `blocks` in order.
pub(super) fn write<'a>(
    root: ContentId,
    blocks: impl IntoIterator<Item = (ContentId, &'a Bytes)>,
) -> Bytes {
    let mut header = Vec::new();
    put(major::MAP, 2, &mut header);
    put_text("roots", &mut header);
    put(major::LIST, 1, &mut header);
    put(major::TAG, TAG_CID, &mut header);
    let id = [vec![0], root.bytes()].concat();
    put(major::BYTES, id.len() as u64, &mut header);
    header.extend(id);
    put_text("version", &mut header);
    put(major::NUMBER, 1, &mut header);
    let mut car = Vec::new();
    varint::write_prefixed(&header, &mut car);
    for (id, block) in blocks {
        let id = id.bytes();
        varint::write((id.len() + block.len()) as u64, &mut car);
        car.extend(id);
        car.extend_from_slice(block);
    }
    car.into()
}

/// Parses a header: a CBOR map with the keys `roots` and `version` in any order.
fn roots(header: &[u8]) -> Option<Vec<ContentId>> {
    let (n_fields, mut rest) = item(header, major::MAP)?;
    let (mut roots, mut version) = (None, None);
    for _ in 0..n_fields.min(2) {
        let (length, after) = item(rest, major::TEXT)?;
        let (name, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        rest = match name {
            b"roots" => {
                let (ids, after) = ids(after)?;
                roots = Some(ids);
                after
            }
            b"version" => {
                let (number, after) = item(after, major::NUMBER)?;
                version = Some(number);
                after
            }
            _ => return None,
        };
    }
    if n_fields == 2 && version == Some(1) && rest.is_empty() { roots } else { None }
}

fn ids(list: &[u8]) -> Option<(Vec<ContentId>, &[u8])> {
    let (n_ids, mut rest) = item(list, major::LIST)?;
    let mut ids = Vec::new();
    for _ in 0..n_ids {
        let (tag, after) = item(rest, major::TAG)?;
        let (length, after) = item(after, major::BYTES)?;
        let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
        let (id, n_read) = ContentId::read(bytes.strip_prefix(&[0])?)?;
        if tag != TAG_CID || n_read + 1 != bytes.len() {
            return None;
        }
        ids.push(id);
        rest = after;
    }
    Some((ids, rest))
}

/// Parses the head of a CBOR item of type `want`. Returns the item's value or length and the remaining
/// bytes.
fn item(bytes: &[u8], want: u8) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if first >> 5 != want {
        return None;
    }
    match first & 0x1f {
        small @ ..24 => Some((small.into(), rest)),
        ONE_BYTE => rest.split_first().map(|(byte, rest)| ((*byte).into(), rest)),
        TWO_BYTES => {
            rest.split_first_chunk().map(|(n, rest)| (u16::from_be_bytes(*n).into(), rest))
        }
        _ => None,
    }
}

fn put(kind: u8, number: u64, out: &mut Vec<u8>) {
    match u8::try_from(number) {
        Ok(small @ ..24) => out.push(kind << 5 | small),
        Ok(byte) => out.extend([kind << 5 | ONE_BYTE, byte]),
        Err(_) => {
            out.push(kind << 5 | EIGHT_BYTES);
            out.extend(number.to_be_bytes());
        }
    }
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    put(major::TEXT, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn malformed() -> ContentError {
    ContentError::Malformed { what: WHAT }
}

#[cfg(test)]
mod tests;
