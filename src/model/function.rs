//! Functions: WebAssembly modules named by their content.

pub mod content;

use std::str::FromStr;

use arrayvec::ArrayString;
use cid::Cid;
use data_encoding::HEXLOWER;
use multihash_codetable::{Code, MultihashDigest as _};

use self::content::{Codec, ContentId};
use crate::{
    parse::{ParseError, checked_text},
    text::is_unprintable,
};

/// The longest chosen name taken, in bytes: as long as the hash in a content id may be.
const NAME_BYTES_MAX: usize = 64;

/// The longest method name taken, in bytes.
const METHOD_BYTES_MAX: usize = 255;

/// What identifies a function: the content id (CID) of its content.
///
/// In clusters of b7s it may also be the SHA-256 of an address, or a name that a node chose, for
/// what was installed by a manifest. Such an id proves nothing of the content; [`Self::content`]
/// tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct FunctionId(Name);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
enum Name {
    Content(Cid),
    #[display("{}", HEXLOWER.encode(_0))]
    Address([u8; 32]),
    /// A name that a node chose.
    Chosen(ArrayString<NAME_BYTES_MAX>),
}

/// The name of the file inside a function that is to run, such as `hello.wasm`.
///
/// A single path segment: it cannot name anything outside the function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Method(String);

impl FunctionId {
    /// Returns the id of a function that is one block: the version 1 CID of a raw block, by
    /// SHA-256, as any IPFS tool computes it for a file of at most one chunk of 256 KiB. A longer
    /// module may be named so, too, though IPFS tools would cut it.
    #[must_use]
    pub fn from_module(bytes: &[u8]) -> Self {
        ContentId::from_block(Codec::Raw, bytes).into()
    }

    /// Returns the id that b7s nodes give a function installed from `address`: its SHA-256.
    #[must_use]
    pub fn from_address(address: &str) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(Code::Sha2_256.digest(address.as_bytes()).digest());
        Self(Name::Address(digest))
    }

    /// Reads an id of any kind: as [`FromStr`] does, and names that nodes chose for what they install
    /// by a manifest, of ASCII letters, digits, `-`, `_` and `.`, a letter or digit first.
    ///
    /// # Errors
    /// [`ParseError`] if the text is none of these.
    pub fn parse_any(text: &str) -> Result<Self, ParseError> {
        text.parse()
            .or_else(|error| chosen_name(text).map(|name| Self(Name::Chosen(name))).ok_or(error))
    }

    /// Returns the name of the block at the root of its content; none if this is an address's id,
    /// or a CID of another codec or hash than [`ContentId`] has.
    #[must_use]
    pub fn content(&self) -> Option<ContentId> {
        match &self.0 {
            Name::Content(cid) => ContentId::from_cid(cid),
            Name::Address(_) | Name::Chosen(_) => None,
        }
    }

    /// Whether this is the SHA-256 of an address.
    #[must_use]
    pub const fn is_address_hash(&self) -> bool {
        matches!(self.0, Name::Address(_))
    }

    /// Whether this is a name that a node chose.
    #[must_use]
    pub const fn is_chosen(&self) -> bool {
        matches!(self.0, Name::Chosen(_))
    }

    /// Whether this is a CID, also of a codec or hash that [`Self::content`] does not know.
    #[must_use]
    pub const fn is_cid(&self) -> bool {
        matches!(self.0, Name::Content(_))
    }

    /// Returns the version 1 id of the same content, which is how functions are kept.
    #[must_use]
    pub fn normalize(self) -> Self {
        self.content().map_or(self, Self::from)
    }
}

/// Reads a name that a node may choose.
fn chosen_name(text: &str) -> Option<ArrayString<NAME_BYTES_MAX>> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_well && text.bytes().all(is_fit) { ArrayString::from(text).ok() } else { None }
}

impl From<ContentId> for FunctionId {
    fn from(id: ContentId) -> Self {
        Self(Name::Content(id.cid()))
    }
}

impl FromStr for FunctionId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(digest) = digest(text) {
            return Ok(Self(Name::Address(digest)));
        }
        text.parse()
            .map(|cid| Self(Name::Content(cid)))
            .map_err(|_| ParseError::new(text, "a content id (CID) such as bafkrei…"))
    }
}

/// Reads a SHA-256 in lowercase hexadecimal.
fn digest(text: &str) -> Option<[u8; 32]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn is_method(text: &str) -> bool {
    let is_unfit = |c: char| matches!(c, '/' | '\\' | ':') || is_unprintable(c);
    !matches!(text, "" | "." | "..")
        && text.len() <= METHOD_BYTES_MAX
        && !text.chars().any(is_unfit)
}

checked_text!(Method, is_method, "a method, which is one file name such as hello.wasm");

#[cfg(test)]
mod tests;
