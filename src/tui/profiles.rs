//! Profiles: named sets of addresses, each with its API key, and the trait that stores them.
//!
//! The command line room implements [`Profiles`] over its configuration file, the system's keyring
//! and files. Nothing here reads one.

use async_trait::async_trait;
use model::key::ApiKey;

use crate::local::Addresses;

/// A set of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The display name.
    pub name: String,
    /// Where its services are, without the key.
    pub addresses: Addresses,
}

/// Where an API key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum KeyPlace {
    /// In the environment, for this program alone.
    #[strum(to_string = "from the environment")]
    Environment,
    /// In the system's keyring.
    #[strum(to_string = "in the system's keyring")]
    Keyring,
    /// In a file that its owner alone can read.
    #[strum(to_string = "in a file only you can read")]
    File,
}

/// A profile's services, to be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Where they are, with the key.
    pub addresses: Addresses,
    /// Where the key came from; none if there is none.
    pub key_place: Option<KeyPlace>,
}

/// The profiles there are, and their keys.
#[async_trait]
pub trait Profiles: Send + Sync {
    /// Reads the profile `name` and its key.
    ///
    /// # Errors
    /// [`ProfileError`] if there is none of that name, or it cannot be read.
    async fn open(&self, name: &str) -> Result<Opened, ProfileError>;

    /// Keeps `key` for the profile `name`: in the keyring, or in a file where there is no keyring.
    ///
    /// # Errors
    /// [`ProfileError`] if neither takes it.
    async fn keep_key(&self, name: &str, key: &ApiKey) -> Result<KeyPlace, ProfileError>;

    /// Forgets the key of the profile `name`, wherever it is kept; returns whether there was one.
    ///
    /// # Errors
    /// [`ProfileError`] if it is there and stays.
    async fn forget_key(&self, name: &str) -> Result<bool, ProfileError>;
}

/// A profile or its key could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ProfileError {
    /// What was tried, such as `read the key of profile home`.
    pub what: String,
    /// Why it did not work.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
