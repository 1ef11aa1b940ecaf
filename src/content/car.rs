//! Archives of blocks: CAR version 1. Every block is verified against its id when it is read.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::function::content::{Codec, ContentId};

use super::error::ContentError;
use super::varint;

/// Name of the format in errors.
const WHAT: &str = "CAR of version 1 with one root";

/// Maximum number of blocks of a function. A function of the maximum size in a single file has about
/// 1000 blocks. Each further file can add a block.
pub(super) const BLOCKS_MAX: usize = 16 * 1024;

/// Maximum size of a block that links to other blocks. IPFS tools do not exchange larger blocks.
const NODE_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Header in CBOR up to the length of the root's id: a map with the first member `roots`, a list of one
/// id.
const HEADER_START: &[u8] = b"\xa2\x65roots\x81\xd8\x2a\x58";

/// Header in CBOR after the root's id: the member `version`, which is 1.
const HEADER_END: &[u8] = b"\x67version\x01";

/// Verified blocks by id.
pub(super) type Blocks = BTreeMap<ContentId, Bytes>;

/// Reads the root and the blocks of a CAR. The blocks share its memory.
pub(super) fn read(car: &Bytes) -> Result<(ContentId, Blocks), ContentError> {
    let (header, mut rest) = varint::read_prefixed(car).ok_or_else(malformed)?;
    let root = root(header).ok_or_else(malformed)?;
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
    Ok((root, blocks))
}

/// Writes a CAR with one root and `blocks` in order.
pub(super) fn write<'a>(
    root: ContentId,
    blocks: impl IntoIterator<Item = (ContentId, &'a Bytes)>,
) -> Bytes {
    let mut header = HEADER_START.to_vec();
    // CBOR requires a zero byte before an id. The length is written as a varint, which is the same byte
    // as in CBOR for lengths below 128.
    varint::write_prefixed(&[&[0], root.bytes().as_slice()].concat(), &mut header);
    header.extend_from_slice(HEADER_END);
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

/// Parses a header in the form that IPFS tools write.
fn root(header: &[u8]) -> Option<ContentId> {
    let (id, rest) = varint::read_prefixed(header.strip_prefix(HEADER_START)?)?;
    let id = id.strip_prefix(&[0])?;
    let (root, n_bytes) = ContentId::read(id)?;
    (n_bytes == id.len() && rest == HEADER_END).then_some(root)
}

fn malformed() -> ContentError {
    ContentError::Malformed { what: WHAT }
}

#[cfg(test)]
mod tests;
