//! Content ids: the names of blocks of bytes, as IPFS gives them.

use cid::{Cid, multihash::Multihash};
use multihash_codetable::{Code, MultihashDigest as _};

/// The multihash code of SHA-256, the only hash taken.
const SHA2_256: u64 = 0x12;

/// What every version 1 id has between its codec and its digest: SHA-256, 32 bytes long.
const HASH_PREFIX: [u8; 2] = [0x12, 32];

/// How many bytes SHA-256 makes.
const DIGEST_BYTES: usize = 32;

/// The name of one block: what kind it is, and the SHA-256 of its bytes.
///
/// Version 0 ids are read as the version 1 ids of the same block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
#[display("{}", self.cid())]
pub struct ContentId {
    codec: Codec,
    digest: [u8; DIGEST_BYTES],
}

/// What a block's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// The content itself.
    Raw,
    /// A node that links to others: a file in pieces, or a directory.
    DagPb,
}

impl Codec {
    /// Its number among the multicodecs.
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
    /// Names a block.
    #[must_use]
    pub fn from_block(codec: Codec, block: &[u8]) -> Self {
        let mut digest = [0; DIGEST_BYTES];
        digest.copy_from_slice(Code::Sha2_256.digest(block).digest());
        Self { codec, digest }
    }

    /// The name of a block whose SHA-256 is known.
    #[must_use]
    pub const fn from_digest(codec: Codec, digest: [u8; DIGEST_BYTES]) -> Self {
        Self { codec, digest }
    }

    /// What the block's bytes are.
    #[must_use]
    pub const fn codec(self) -> Codec {
        self.codec
    }

    /// Whether it names `block`.
    #[must_use]
    pub fn names(self, block: &[u8]) -> bool {
        self == Self::from_block(self.codec, block)
    }

    /// Reads an id in its binary form at the beginning of `bytes`, and returns how long it is, too.
    /// None for anything but the id of a raw or dag-pb block by SHA-256.
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

    /// The binary form, version 1.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        [&[1, self.codec.number()], HASH_PREFIX.as_slice(), &self.digest].concat()
    }

    /// Returns what a CID names, if it is a block of this kind.
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
    fn the_binary_form_is_read_back_with_its_length() {
        for codec in [Codec::Raw, Codec::DagPb] {
            let id = ContentId::from_block(codec, b"hello world");
            let bytes = [id.bytes(), b"rest".to_vec()].concat();
            assert_eq!(ContentId::read(&bytes), Some((id, 36)));
            assert!(id.names(b"hello world") && !id.names(b"hello worle"));
        }
    }

    #[test]
    fn a_version_0_id_names_the_same_block_as_its_version_1() {
        let id = ContentId::from_block(Codec::DagPb, b"");
        assert_eq!(ContentId::read(&id.bytes()[2..]), Some((id, 34)));
    }

    #[test]
    fn other_hashes_and_kinds_and_pieces_are_refused() {
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
