//! API keys: the secret that opens the dataset and the inference service, and the number that
//! services know a key by.

use std::str::FromStr;

use data_encoding::HEXLOWER;

/// What every key begins with, by documents 2 and 3.
pub const KEY_PREFIX: &str = "UP-";

/// Hexadecimal digits after the prefix: 96 bits, too many to guess.
pub const KEY_DIGITS: usize = 24;

/// An API key: `UP-` and 24 lower-case hexadecimal digits.
///
/// A secret. Its `Debug` shows the prefix alone, and it has no `Display`: who needs the text asks
/// for it with [`ApiKey::reveal`].
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Hash)]
#[debug("ApiKey({KEY_PREFIX}…)")]
pub struct ApiKey(String);

/// A text is no API key. It does not say which text: that may be a mistyped secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read an API key, which is UP- and 24 hexadecimal digits")]
pub struct KeyError;

/// A key's number. Never used again after the key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct KeyId(i64);

impl ApiKey {
    /// Makes a key of 12 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; KEY_DIGITS / 2]) -> Self {
        Self(format!("{KEY_PREFIX}{}", HEXLOWER.encode(&bytes)))
    }

    /// The secret itself, for a request header, or to show it to its owner once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl KeyId {
    /// The key numbered `number`, which came from [`Self::get`].
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number, for storing and showing.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl FromStr for ApiKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim().strip_prefix(KEY_PREFIX).ok_or(KeyError)?;
        let is_digit = |byte: u8| byte.is_ascii_hexdigit();
        if digits.len() != KEY_DIGITS || !digits.bytes().all(is_digit) {
            return Err(KeyError);
        }
        Ok(Self(format!("{KEY_PREFIX}{}", digits.to_ascii_lowercase())))
    }
}

#[cfg(test)]
mod tests;
