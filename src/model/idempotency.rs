//! Idempotency keys, by which a service recognizes repeated requests.

use std::str::FromStr;

use data_encoding::HEXLOWER;

/// Maximum length of a key, far longer than a UUID.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 128;

/// Name that a client gives to a request, so that a retry is not executed twice.
///
/// In the header, quotes around the key are optional, unlike in the draft standard of `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, derive_more::Display)]
pub struct IdempotencyKey(Box<str>);

/// Error for a text that is not a valid idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "idempotency key must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters other than \
     quotes and backslashes"
)]
pub struct IdempotencyKeyError;

impl IdempotencyKey {
    /// Creates a key from random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(HEXLOWER.encode(&bytes).into())
    }
}

impl FromStr for IdempotencyKey {
    type Err = IdempotencyKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        if !(1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&bare.len()) || !bare.bytes().all(is_allowed) {
            return Err(IdempotencyKeyError);
        }
        Ok(Self(bare.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let got = text.parse::<IdempotencyKey>().ok().map(|key| key.to_string());
        assert_eq!(got.as_deref(), want, "{text}");
    }

    #[test]
    fn quotes_around_an_idempotency_key_are_ignored() {
        check("8e03978e-40d5-43dd", Some("8e03978e-40d5-43dd"));
        check(" \"a:b/7\" ", Some("a:b/7"));
        let made = IdempotencyKey::from_random([171; 16]).to_string();
        check(&made, Some(&"ab".repeat(16)));
        let longest = "x".repeat(IDEMPOTENCY_KEY_CHARS_MAX);
        check(&longest, Some(&longest));
        check(&format!("\"{longest}\""), Some(&longest));
    }

    #[test]
    fn empty_too_long_and_invisible_idempotency_keys_are_rejected() {
        for text in ["", "\"\"", "\"", "\"a", "a b", "a\\", "a\"b", "ä", "a\u{7f}", "\"a\";b=c"] {
            check(text, None);
        }
        check(&"x".repeat(IDEMPOTENCY_KEY_CHARS_MAX + 1), None);
    }
}
