//! Profiles of the configuration file for the screen, with their keys.

use std::collections::BTreeMap;

use ::tui::profiles::{KeyPlace, Opened, Profile as Named, ProfileError, ProfileStore};
use anyhow::Context as _;
use async_trait::async_trait;
use model::key::ApiKey;
use stack::local::Addresses;

use crate::cli::config::{self, Profile};
use crate::cli::secret::Keys;

/// Profiles that the screen can open.
pub(crate) struct ProfileOpener {
    profiles: BTreeMap<String, Profile>,
    keys: Keys,
}

impl ProfileOpener {
    pub(crate) const fn new(profiles: BTreeMap<String, Profile>, keys: Keys) -> Self {
        Self { profiles, keys }
    }

    async fn try_open(&self, name: &str) -> anyhow::Result<Opened> {
        let profile = self.profiles.get(name).context("it is not in the configuration file")?;
        let head_token = config::head_token()?;
        let named = name.to_owned();
        let found = self.keys.on_a_thread(move |keys| keys.find(&named)).await?;
        let key_place = found.as_ref().map(|found| found.place);
        let api_key = found.map(|found| found.key);
        let addresses = Addresses { head_token, api_key, ..addresses(profile.clone()) };
        Ok(Opened { addresses, key_place })
    }
}

/// Returns the addresses of a profile, without a key.
pub(crate) fn addresses(profile: Profile) -> Addresses {
    let Profile { heads, datasets, inference } = profile;
    Addresses { heads, datasets, inference, ..Addresses::default() }
}

/// Returns the profiles as the screen lists them.
pub(crate) fn listed(profiles: &BTreeMap<String, Profile>) -> Vec<Named> {
    let named = |(name, profile): (&String, &Profile)| Named {
        name: name.clone(),
        addresses: addresses(profile.clone()),
    };
    profiles.iter().map(named).collect()
}

#[async_trait]
impl ProfileStore for ProfileOpener {
    async fn open(&self, name: &str) -> Result<Opened, ProfileError> {
        let failed = || format!("open profile {name}");
        self.try_open(name).await.map_err(|error| profile_error(failed(), error))
    }

    async fn keep_key(&self, name: &str, key: &ApiKey) -> Result<KeyPlace, ProfileError> {
        let (named, key) = (name.to_owned(), key.clone());
        let stored = self.keys.on_a_thread(move |keys| keys.store(&named, &key)).await;
        let failed = || format!("store the key of {name}");
        let stored = stored.map_err(|error| profile_error(failed(), error))?;
        if let Some(note) = stored.note {
            tracing::info!("the key of {name} is in a file: {note}");
        }
        Ok(stored.place)
    }

    async fn forget_key(&self, name: &str) -> Result<bool, ProfileError> {
        let named = name.to_owned();
        let removed = self.keys.on_a_thread(move |keys| keys.forget(&named)).await;
        let failed = || format!("remove the key of {name}");
        removed.map_err(|error| profile_error(failed(), error))
    }
}

fn profile_error(what: String, error: anyhow::Error) -> ProfileError {
    ProfileError { what, source: error.into() }
}
