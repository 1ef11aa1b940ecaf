//! Content ids: names of blocks, as in IPFS.

use cid::Cid;
use cid::multihash::Multihash;
use multihash_codetable::{Code, MultihashDigest as _};

/// Multihash code of SHA-256, the only supported hash.
const SHA2_256: u64 = 0x12;

/// Bytes between the codec and the digest of a version 1 id: the codes for SHA-256 and for a length of
/// 32 bytes.
const HASH_PREFIX: [u8; 2] = [0x12, 32];

/// Size of a SHA-256 digest.
const DIGEST_BYTES: usize = 32;

/// Id of a block: its codec and the SHA-256 of its bytes.
///
/// Version 0 ids are converted to the equivalent version 1 ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.cid())]
pub struct ContentId {
    codec: Codec,
    digest: [u8; DIGEST_BYTES],
}

/// Format of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// Any bytes, without links.
    Raw,
    /// A dag-pb node, which links to other blocks: a file in parts, or a directory.
    DagPb,
}

impl Codec {
    /// Returns the multicodec number of the format.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Raw => 0x55,
            Self::DagPb => 0x70,
        }
    }

    fn from_number(number: u64) -> Option<Self> {
        [Self::Raw, Self::DagPb].into_iter().find(|codec| u64::from(codec.number()) == number)
    }
}

impl ContentId {
    /// Computes the id of a block.
    #[must_use]
    pub fn from_block(codec: Codec, block: &[u8]) -> Self {
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(Code::Sha2_256.digest(block).digest());
        Self { codec, digest }
    }

    /// Returns the id of a block with a known SHA-256.
    #[must_use]
    pub const fn from_digest(codec: Codec, digest: [u8; DIGEST_BYTES]) -> Self {
        Self { codec, digest }
    }

    /// Returns the format of the block.
    #[must_use]
    pub const fn codec(self) -> Codec {
        self.codec
    }

    /// Returns true if this is the id of `block`.
    #[must_use]
    pub fn names(self, block: &[u8]) -> bool {
        self == Self::from_block(self.codec, block)
    }

    /// Parses a binary id at the start of `bytes`. Returns the id and its length in bytes, or `None`
    /// unless it is the id of a raw or dag-pb block with SHA-256.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (codec, rest) = match bytes {
            [0x12, 32, rest @ ..] => (Codec::DagPb, rest),
            [1, codec, rest @ ..] => {
                (Codec::from_number((*codec).into())?, rest.strip_prefix(&HASH_PREFIX)?)
            }
            _ => return None,
        };
        let (digest, after) = rest.split_first_chunk()?;
        Some((Self { codec, digest: *digest }, bytes.len() - after.len()))
    }

    /// Returns the binary form of the version 1 id.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        [&[1, self.codec.number()], HASH_PREFIX.as_slice(), &self.digest].concat()
    }

    /// Converts a CID with a supported codec and hash.
    pub(super) fn from_cid(cid: &Cid) -> Option<Self> {
        if cid.hash().code() != SHA2_256 {
            return None;
        }
        let digest = cid.hash().digest().try_into().ok()?;
        Some(Self { codec: Codec::from_number(cid.codec())?, digest })
    }

    #[expect(clippy::expect_used, reason = "a multihash holds up to 64 bytes")]
    pub(super) fn cid(self) -> Cid {
        let hash = Multihash::wrap(SHA2_256, &self.digest).expect("32 bytes are a multihash");
        Cid::new_v1(self.codec.number().into(), hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_form_of_a_content_id_round_trips_with_its_length() {
        for codec in [Codec::Raw, Codec::DagPb] {
            let id = ContentId::from_block(codec, b"hello world");
            let bytes = [id.bytes(), b"rest".to_vec()].concat();
            assert_eq!(ContentId::read(&bytes), Some((id, 36)));
            assert!(id.names(b"hello world") && !id.names(b"hello worle"));
        }
    }

    #[test]
    fn content_ids_of_version_0_are_converted_to_version_1() {
        let id = ContentId::from_block(Codec::DagPb, b"");
        assert_eq!(ContentId::read(&id.bytes()[2..]), Some((id, 34)));
    }

    #[test]
    fn incomplete_content_ids_and_ids_with_other_hashes_or_codecs_are_rejected() {
        let whole = ContentId::from_block(Codec::Raw, b"x").bytes();
        for (at, byte) in [(0, 2), (1, 0x71), (2, 0x13), (3, 31)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(ContentId::read(&other), None, "byte {at}");
        }
        for n_bytes in 0..whole.len() {
            assert_eq!(ContentId::read(&whole[..n_bytes]), None);
        }
    }
}
