//! Functions: WebAssembly modules identified by their content.

pub mod content;

use std::str::FromStr;

use arrayvec::ArrayString;
use cid::Cid;
use data_encoding::HEXLOWER;
use multihash_codetable::{Code, MultihashDigest as _};

use self::content::{Codec, ContentId};
use crate::parse::{ParseError, checked_text};
use crate::text::is_unprintable;

/// Maximum length of a chosen name, in bytes: as long as a SHA-256 in hexadecimal.
const NAME_BYTES_MAX: usize = 64;

/// Maximum length of a method name, in bytes.
const METHOD_BYTES_MAX: usize = 255;

/// Id of a function: the content id (CID) of its content.
///
/// In clusters of b7s, a function that was installed from a manifest can also have the SHA-256 of the
/// manifest's address as its id, or a name chosen by a node. Such ids do not verify the content:
/// [`Self::content`] returns `None` for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct FunctionId(Name);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
enum Name {
    Content(Cid),
    #[display("{}", HEXLOWER.encode(_0))]
    Address([u8; 32]),
    /// Name chosen by a node.
    Chosen(ArrayString<NAME_BYTES_MAX>),
}

/// Name of the file that is run inside a function, such as `hello.wasm`.
///
/// The name is a single path component, so it cannot refer to a file outside of the function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Method(String);

impl FunctionId {
    /// Returns the id of a module that is stored as a single raw block: its version 1 CID with
    /// SHA-256. IPFS tools compute the same id for files of at most 256 KiB, but split longer
    /// files.
    #[must_use]
    pub fn from_module(bytes: &[u8]) -> Self {
        ContentId::from_block(Codec::Raw, bytes).into()
    }

    /// Returns the id of a function that b7s installed from `address`: the SHA-256 of the address.
    #[must_use]
    pub fn from_address(address: &str) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(Code::Sha2_256.digest(address.as_bytes()).digest());
        Self(Name::Address(digest))
    }

    /// Parses an id of any kind: an id that [`FromStr`] accepts, or a name that a node chose for a
    /// function installed from a manifest. Names consist of ASCII letters, digits, `-`, `_` and `.`, and
    /// start with a letter or digit.
    ///
    /// # Errors
    /// [`ParseError`] if the text is not an id of any kind.
    pub fn parse_any(text: &str) -> Result<Self, ParseError> {
        text.parse()
            .or_else(|error| chosen_name(text).map(|name| Self(Name::Chosen(name))).ok_or(error))
    }

    /// Returns the id of the content's root block. `None` for the hash of an address, a chosen name, or
    /// a CID whose codec or hash [`ContentId`] does not support.
    #[must_use]
    pub fn content(&self) -> Option<ContentId> {
        match &self.0 {
            Name::Content(cid) => ContentId::from_cid(cid),
            Name::Address(_) | Name::Chosen(_) => None,
        }
    }

    /// Returns true if this is the SHA-256 of an address.
    #[must_use]
    pub const fn is_address_hash(&self) -> bool {
        matches!(self.0, Name::Address(_))
    }

    /// Returns true if this is a name chosen by a node.
    #[must_use]
    pub const fn is_chosen(&self) -> bool {
        matches!(self.0, Name::Chosen(_))
    }

    /// Returns true if this is a CID, even if [`Self::content`] does not support its codec or hash.
    #[must_use]
    pub const fn is_cid(&self) -> bool {
        matches!(self.0, Name::Content(_))
    }

    /// Converts a version 0 CID to the version 1 CID of the same content, the form under which
    /// functions are stored. Other ids are unchanged.
    #[must_use]
    pub fn normalize(self) -> Self {
        self.content().map_or(self, Self::from)
    }
}

/// Parses a name chosen by a node.
fn chosen_name(text: &str) -> Option<ArrayString<NAME_BYTES_MAX>> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts_well && text.bytes().all(is_allowed) { ArrayString::from(text).ok() } else { None }
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

/// Parses a SHA-256 in lowercase hexadecimal.
fn digest(text: &str) -> Option<[u8; 32]> {
    HEXLOWER.decode(text.as_bytes()).ok()?.try_into().ok()
}

fn is_method(text: &str) -> bool {
    let is_forbidden = |c: char| matches!(c, '/' | '\\' | ':') || is_unprintable(c);
    !matches!(text, "" | "." | "..")
        && text.len() <= METHOD_BYTES_MAX
        && !text.chars().any(is_forbidden)
}

checked_text!(Method, is_method, "a method (one file name such as hello.wasm)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_of_a_module_equals_its_id_in_ipfs() {
        // Computed by `printf 'hello world' | ipfs add --cid-version=1 --raw-leaves -Q`.
        let id = FunctionId::from_module(b"hello world");
        assert_eq!(id.to_string(), "bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e");
        assert_ne!(id, FunctionId::from_module(b"hello worle"));
    }

    #[test]
    fn cid_of_version_0_is_a_valid_function_id() {
        let id: FunctionId = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn".parse().unwrap();
        assert_ne!(id, FunctionId::from_module(b""));
    }

    #[test]
    fn invalid_content_ids_are_rejected() {
        for text in ["", "hello", "bafkrei", "../../etc/passwd"] {
            assert!(text.parse::<FunctionId>().is_err(), "{text}");
        }
    }

    #[test]
    fn freely_chosen_names_are_accepted_only_by_parse_any() {
        let id = FunctionId::parse_any("whatever-cid").unwrap();
        assert_eq!(id.to_string(), "whatever-cid");
        assert!(!id.is_cid() && id.content().is_none());
        for text in ["", "..", "-a", "a/b", "a b", "a\u{202e}", "../../etc/passwd", &"a".repeat(65)]
        {
            assert!(FunctionId::parse_any(text).is_err(), "{text}");
        }
        let cid = FunctionId::from_module(b"hello world");
        assert_eq!(FunctionId::parse_any(&cid.to_string()), Ok(cid));
    }

    #[test]
    fn method_that_is_not_a_plain_file_name_is_rejected() {
        assert_eq!("hello.wasm".parse::<Method>().unwrap().as_str(), "hello.wasm");
        for text in ["", ".", "..", "a/b.wasm", "..\\a", "c:a", "a\0"] {
            assert!(text.parse::<Method>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn id_of_an_address_is_its_hash_in_lowercase_hexadecimal() {
        // Computed by `printf 'https://example.com/manifest.json' | sha256sum`.
        let text = "1eb50a3f96621a44c9e3c8172bd36862a719b887e8434c39c3e04e9cd5160a8d";
        let id = FunctionId::from_address("https://example.com/manifest.json");
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        assert!(id.is_address_hash() && id.content().is_none());
        assert!(text.to_uppercase().parse::<FunctionId>().is_err());
    }

    #[test]
    fn function_ids_of_version_0_are_converted_to_version_1() {
        let id: FunctionId = "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn".parse().unwrap();
        // Computed by `ipfs cid base32 Qm…` for the empty directory.
        let want = "bafybeiczsscdsbs7ffqz55asqdf3smv6klcw3gofszvwlyarci47bgf354";
        assert_eq!(id.normalize().to_string(), want);
        assert_eq!(id.to_string(), "QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn");
    }
}
