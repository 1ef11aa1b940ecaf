//! Keys as the file stores them: numbers, hashes, prefixes and names, never secrets.

use std::str::FromStr;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use model::{
    key::{ApiKey, KeyId},
    timestamp::Timestamp,
};
use sha2::{Digest as _, Sha256};
use wire::accounts::{KeyBody, KeyLimits, VerifiedBody};

use crate::account::AccountId;

/// How much of a key is kept to be recognized by: the prefix that all have, and four digits. Eighty
/// unknown bits remain.
const SHOWN_CHARS: usize = 7;

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// The key's number.
    pub id: KeyId,
    /// Whose it is; none for one that an operator made.
    pub account: Option<AccountId>,
    /// What its owner calls it.
    pub name: String,
    /// How it begins; none for one made before beginnings were kept.
    pub prefix: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used, give or take half a minute.
    pub used_at: Option<Timestamp>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
    /// Its own limits.
    pub limits: KeyLimits,
}

/// What a service needs to know of a good key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The key's number.
    pub id: KeyId,
    /// Whose it is; none for one that an operator made.
    pub account: Option<AccountId>,
    /// Its own limits.
    pub limits: KeyLimits,
}

/// Which keys an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every key: an operator's view.
    All,
    /// The keys of one account.
    Of(AccountId),
}

/// The SHA-256 hash of a key. A key has 96 random bits, so that a slow hash would add nothing.
#[derive(derive_more::Debug, derive_more::Display, Clone, Copy, PartialEq, Eq, Hash)]
#[debug("KeyHash(…)")]
#[display("{}", HEXLOWER.encode(_0))]
pub struct KeyHash([u8; 32]);

/// A text is no hash of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read the hash of a key, which is 64 hexadecimal digits")]
pub struct KeyHashError;

impl Scope {
    pub(crate) fn account(self) -> Option<i64> {
        match self {
            Self::All => None,
            Self::Of(account) => Some(account.get()),
        }
    }
}

impl KeyHash {
    /// The hash of `key`.
    #[must_use]
    pub fn from_key(key: &ApiKey) -> Self {
        Self(Sha256::digest(key.reveal().as_bytes()).into())
    }

    pub(crate) const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| KeyHashError)?;
        bytes.try_into().map(Self).map_err(|_| KeyHashError)
    }
}

/// How `key` begins.
pub(crate) fn key_prefix(key: &ApiKey) -> String {
    key.reveal().chars().take(SHOWN_CHARS).collect()
}

impl KeyRecord {
    /// The key as its owner gets to see it.
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
            last_used_at: self.used_at.map(|moment| moment.to_string()),
            revoked_at: self.revoked_at.map(|moment| moment.to_string()),
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
    fn a_hash_is_read_as_it_is_written_and_nothing_else_is() {
        let hash = KeyHash::from_key(&ApiKey::from_random([7; 12]));
        let text = hash.to_string();
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(text.to_uppercase().parse(), Ok(hash));
        for unfit in [
            "",
            "00",
            "zz",
            &text.replacen(char::is_alphanumeric, "", 1),
            &format!("{text}0"),
            &text.replace('0', "é"),
        ] {
            assert_eq!(unfit.parse::<KeyHash>(), Err(KeyHashError), "{unfit}");
        }
        assert_eq!(format!("{hash:?}"), "KeyHash(…)");
    }
}
