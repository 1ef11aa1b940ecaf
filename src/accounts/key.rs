//! API keys as they are stored: with id, hash, prefix and name, but without the secret.

use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use model::key::{ApiKey, KeyId};
use model::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};
use wire::accounts::{KeyBody, KeyLimits, VerifiedBody};

use crate::account::{AccountId, InputError};

/// Number of characters from the start of a key that are stored, so that the owner recognizes the key:
/// the prefix that all keys have, and four digits. The remaining eighty bits are secret.
const SHOWN_CHARS: usize = 7;

/// Stored data of a key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Id of the key.
    pub id: KeyId,
    /// Account that owns the key, or `None` if an operator created the key.
    pub account: Option<AccountId>,
    /// Name chosen by the owner.
    pub name: String,
    /// First characters of the key. `None` if the key was created before these characters were stored.
    pub prefix: Option<String>,
    /// Time at which the key was created.
    pub created_at: Timestamp,
    /// Time of the last use, or `None` if the key was never used. Other processes see a use up
    /// to half a minute later.
    pub used_at: Option<Timestamp>,
    /// Time of revocation, or `None` for a valid key.
    pub revoked_at: Option<Timestamp>,
    /// Limits of this key. Each replaces the service's limit.
    pub limits: KeyLimits,
}

/// Properties of a valid key that services need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Id of the key.
    pub id: KeyId,
    /// Account that owns the key, or `None` if an operator created the key.
    pub account: Option<AccountId>,
    /// Limits of this key. Each replaces the service's limit.
    pub limits: KeyLimits,
}

/// Keys on which an operation acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All keys, for operators.
    All,
    /// The keys of an account.
    Of(AccountId),
}

/// SHA-256 hash of a key. A slow hash would not add security, since a key has 96 random bits.
#[derive(derive_more::Debug, derive_more::Display, Clone, Copy, PartialEq, Eq, Hash)]
#[debug("KeyHash(…)")]
#[display("{}", HEXLOWER.encode(_0))]
pub struct KeyHash([u8; 32]);

impl Scope {
    pub(crate) fn account(self) -> Option<i64> {
        match self {
            Self::All => None,
            Self::Of(account) => Some(account.get()),
        }
    }
}

impl KeyHash {
    /// Returns the hash of `key`.
    #[must_use]
    pub fn from_key(key: &ApiKey) -> Self {
        Self(Sha256::digest(key.reveal().as_bytes()).into())
    }

    pub(crate) const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl FromStr for KeyHash {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| InputError::KeyHash)?;
        bytes.try_into().map(Self).map_err(|_| InputError::KeyHash)
    }
}

/// Returns the first characters of `key`, by which the owner recognizes the key.
pub(crate) fn key_prefix(key: &ApiKey) -> String {
    key.reveal().chars().take(SHOWN_CHARS).collect()
}

impl KeyRecord {
    /// Converts the key to the body that its owner sees.
    #[must_use]
    pub fn body(&self) -> KeyBody {
        let state = if self.revoked_at.is_some() { "revoked" } else { "valid" };
        KeyBody {
            id: self.id.get(),
            account_id: self.account.map(AccountId::get),
            name: self.name.clone(),
            prefix: self.prefix.clone(),
            state: state.to_owned(),
            created_at: self.created_at.to_string(),
            last_used_at: self.used_at.map(|at| at.to_string()),
            revoked_at: self.revoked_at.map(|at| at.to_string()),
            limits: self.limits,
        }
    }
}

impl From<KeyRecord> for Verified {
    fn from(key: KeyRecord) -> Self {
        Self { id: key.id, account: key.account, limits: key.limits }
    }
}

impl From<Verified> for VerifiedBody {
    fn from(key: Verified) -> Self {
        let account_id = key.account.map(AccountId::get);
        Self { id: key.id.get(), account_id, limits: key.limits }
    }
}

impl From<VerifiedBody> for Verified {
    fn from(body: VerifiedBody) -> Self {
        let account = body.account_id.map(AccountId::new);
        Self { id: KeyId::new(body.id), account, limits: body.limits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_hash_round_trips_and_invalid_texts_are_rejected() {
        let hash = KeyHash::from_key(&ApiKey::from_random([7; 12]));
        let text = hash.to_string();
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(text.to_uppercase().parse(), Ok(hash));
        for invalid in [
            "",
            "00",
            "zz",
            &text.replacen(char::is_alphanumeric, "", 1),
            &format!("{text}0"),
            &text.replace('0', "é"),
        ] {
            assert_eq!(invalid.parse::<KeyHash>(), Err(InputError::KeyHash), "{invalid}");
        }
        assert_eq!(format!("{hash:?}"), "KeyHash(…)");
    }
}
