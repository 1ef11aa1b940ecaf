//! Authentication of compiled code, so that only code with a valid tag is loaded.
//!
//! The tag is an HMAC-SHA256 over the code and its context (the program and the engine). Entries on the
//! disk use a key in a file that only its owner can read. Each compilation in a child process has its
//! own key.

use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use rand::Rng as _;
use sha2::Sha256;

/// Size of a key and of a tag: the output size of SHA-256.
pub(crate) const TAG_BYTES: usize = 32;

/// Block size of SHA-256.
const BLOCK_BYTES: usize = 64;

/// Authentication tag of code in a context.
pub(crate) type Tag = [u8; TAG_BYTES];

/// A secret key.
#[derive(Clone, derive_more::Debug)]
#[debug("SealKey(secret)")]
pub(crate) struct SealKey(pub(crate) [u8; TAG_BYTES]);

/// Code that this process compiled itself or that has a valid tag.
pub(crate) struct AuthenticCode(Bytes);

impl SealKey {
    /// Returns a random key.
    pub(crate) fn random() -> Self {
        let mut bytes = [0; TAG_BYTES];
        rand::rng().fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// Returns the tag that authenticates `code` in `context`.
    pub(crate) fn tag(&self, context: &[u8], code: &[u8]) -> Tag {
        self.mac(context, code).finalize().into_bytes().into()
    }

    /// Returns the code that begins at `start` in `bytes`, if `tag` is valid for it in `context`.
    pub(crate) fn open(
        &self,
        context: &[u8],
        tag: &Tag,
        bytes: Vec<u8>,
        start: usize,
    ) -> Option<AuthenticCode> {
        self.mac(context, bytes.get(start..)?).verify_slice(tag).ok()?;
        Some(AuthenticCode(Bytes::from(bytes).slice(start..)))
    }

    fn mac(&self, context: &[u8], code: &[u8]) -> Hmac<Sha256> {
        // HMAC pads a key shorter than a block with zeros.
        let mut block = [0; BLOCK_BYTES];
        block[..TAG_BYTES].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        // The length makes the boundary between context and code unambiguous.
        mac.update(&u64::try_from(context.len()).unwrap_or(u64::MAX).to_le_bytes());
        mac.update(context);
        mac.update(code);
        mac
    }
}

impl AuthenticCode {
    /// Wraps code that this process has compiled.
    pub(crate) fn compiled_here(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SealKey {
        SealKey([byte; TAG_BYTES])
    }

    #[test]
    fn sealed_code_is_opened_only_if_the_code_the_key_and_the_context_are_unchanged() {
        let tag = key(1).tag(b"hello", b"code");
        let opens = |key: SealKey, context: &[u8], code: &[u8]| {
            let bytes = [b"ab", code].concat();
            key.open(context, &tag, bytes, 2).is_some_and(|opened| opened.bytes() == code)
        };
        assert!(opens(key(1), b"hello", b"code"));
        assert!(!opens(key(2), b"hello", b"code"));
        assert!(!opens(key(1), b"hell", b"ocode"));
        assert!(!opens(key(1), b"other", b"code"));
        assert!(!opens(key(1), b"hello", b"codf"));
        assert!(!opens(key(1), b"hello", b"cod"));
    }
}
