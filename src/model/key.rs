//! API keys for the dataset and inference services, and the ids by which services refer to keys.

use std::str::FromStr;

use data_encoding::HEXLOWER;

/// Prefix of all keys, as in the upstream services.
pub const KEY_PREFIX: &str = "UP-";

/// Number of hexadecimal digits after the prefix: 96 bits, too many to guess.
pub const KEY_DIGITS: usize = 24;

/// API key: `UP-` and 24 lower-case hexadecimal digits.
///
/// This is a secret. `Debug` shows only the prefix, and there is no `Display`. [`ApiKey::reveal`]
/// returns the text.
#[derive(derive_more::Debug, Clone, PartialEq, Eq, Hash)]
#[debug("ApiKey({KEY_PREFIX}…)")]
pub struct ApiKey(String);

/// Error for a text that is not a valid API key. Does not contain the text, which could be a mistyped
/// secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("API key must be {KEY_PREFIX} followed by {KEY_DIGITS} hexadecimal digits")]
pub struct KeyError;

/// Id of a key. Ids of revoked keys are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct KeyId(i64);

impl ApiKey {
    /// Creates a key from random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; KEY_DIGITS / 2]) -> Self {
        Self(format!("{KEY_PREFIX}{}", HEXLOWER.encode(&bytes)))
    }

    /// Returns the secret text, for a request header, or to show the key to its owner once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

crate::row_id!(KeyId);

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
mod tests {
    use super::*;

    #[test]
    fn api_keys_round_trip_and_are_hidden_in_debug_output() {
        let key = ApiKey::from_random([0xab; 12]);
        assert_eq!(key.reveal(), "UP-abababababababababababab");
        assert_eq!(key.reveal().parse(), Ok(key.clone()));
        assert_eq!(format!("{key:?}"), "ApiKey(UP-…)");
    }

    #[test]
    fn invalid_api_keys_are_rejected_without_repeating_them() {
        for text in
            ["", "UP-", "UP-xyz", "AP-abababababababababababab", "UP-ababababababababababababé"]
        {
            assert_eq!(text.parse::<ApiKey>(), Err(KeyError), "{text}");
        }
    }
}
