//! Profiles: named sets of addresses, each with an API key, and the trait of the store that
//! contains them.
//!
//! The command line implements [`ProfileStore`] with its configuration file and the system's
//! keyring.

use async_trait::async_trait;
use model::key::ApiKey;

use crate::local::{Addresses, LocalError};

/// Named addresses of services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Addresses of the profile's services, without the key.
    pub addresses: Addresses,
}

/// Place of a stored API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum KeyPlace {
    /// In the environment of this process.
    #[strum(to_string = "from the environment")]
    Environment,
    /// In the system's keyring.
    #[strum(to_string = "in the system's keyring")]
    Keyring,
    /// In a file that only its owner can read.
    #[strum(to_string = "in a file only you can read")]
    File,
}

/// Result of opening a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Addresses of the profile's services, with the key.
    pub addresses: Addresses,
    /// Place of the key. `None` if there is no key.
    pub key_place: Option<KeyPlace>,
}

/// Reads profiles and stores their keys.
#[async_trait]
pub trait ProfileStore: Send + Sync {
    /// Reads the profile `name` and its key.
    ///
    /// # Errors
    /// [`LocalError`] if the profile does not exist or cannot be read.
    async fn open(&self, name: &str) -> Result<Opened, LocalError>;

    /// Stores `key` for the profile `name` in the keyring, or in a file if there is no keyring.
    /// Returns the place.
    ///
    /// # Errors
    /// [`LocalError`] if the key cannot be stored in either place.
    async fn keep_key(&self, name: &str, key: &ApiKey) -> Result<KeyPlace, LocalError>;

    /// Removes the key of the profile `name` from all places. Returns true if a key was stored.
    ///
    /// # Errors
    /// [`LocalError`] if the key cannot be removed.
    async fn forget_key(&self, name: &str) -> Result<bool, LocalError>;
}

/// Name under which a key is stored if no profile is in use.
pub const NO_PROFILE: &str = "default";

/// The known profiles and the profile in use.
#[derive(Debug, Clone, Default)]
pub struct Profiles {
    /// All profiles, in the order of the list.
    pub list: Vec<Profile>,
    /// Name of the profile in use. `None` if other addresses or the local stack are in use.
    pub current: Option<String>,
    /// Addresses from flags or the environment.
    pub given: Option<Addresses>,
    /// Place of the key in use.
    pub key_place: Option<KeyPlace>,
    /// Name of the profile that is being read.
    pub opening: Option<String>,
}

/// An entry of the list of profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// The local stack.
    Local,
    /// The addresses from flags or the environment.
    Given(&'a Addresses),
    /// A profile of the configuration file.
    Profile(&'a Profile),
}

impl Choice<'_> {
    /// Returns the name under which the entry's key is stored. `None` for the local stack, which
    /// creates its own key.
    pub(crate) const fn name(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Given(_) => Some(NO_PROFILE),
            Self::Profile(profile) => Some(profile.name.as_str()),
        }
    }
}

impl Profiles {
    /// Returns all entries, in the order of the list.
    pub(crate) fn choices(&self) -> Vec<Choice<'_>> {
        let given = self.given.as_ref().map(Choice::Given);
        let listed = self.list.iter().map(Choice::Profile);
        [Choice::Local].into_iter().chain(given).chain(listed).collect()
    }

    /// Returns the name under which the key in use is stored.
    pub(crate) fn key_name(&self) -> &str {
        self.current.as_deref().unwrap_or(NO_PROFILE)
    }

    /// Returns true if `choice` is in use, given the addresses in use.
    pub(crate) fn is_in_use(&self, choice: Choice<'_>, in_use: &Addresses) -> bool {
        let is_given = self.current.is_none()
            && self.given.as_ref().is_some_and(|given| {
                let of =
                    |it: &Addresses| (it.heads.clone(), it.datasets.clone(), it.inference.clone());
                of(given) == of(in_use) || self.opening.as_deref() == Some(NO_PROFILE)
            });
        match choice {
            Choice::Local => self.current.is_none() && !is_given,
            Choice::Given(_) => is_given,
            Choice::Profile(profile) => self.current.as_ref() == Some(&profile.name),
        }
    }
}
