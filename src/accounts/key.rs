//! Keys as the file knows them: numbers, hashes and names, never secrets.

use std::fmt;

use model::{key::ApiKey, timestamp::Timestamp};
use sha2::{Digest as _, Sha256};

/// A key's number. Never used again after the key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(i64);

/// A key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    /// Its number.
    pub id: KeyId,
    /// What its owner calls it.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// The SHA-256 hash of a key. A key has 96 random bits, so that a slow hash would add nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KeyHash([u8; 32]);

impl KeyId {
    /// The key numbered `number`, which came from [`Self::get`].
    #[must_use]
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl KeyHash {
    pub(crate) fn of(key: &ApiKey) -> Self {
        Self(Sha256::digest(key.reveal().as_bytes()).into())
    }

    pub(crate) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
