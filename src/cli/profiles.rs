//! What the screen asks for profiles: the configuration file's, with keys out of `secret`.

use std::collections::BTreeMap;

use ::tui::profiles::{KeyPlace, Opened, Profile as Named, ProfileError, ProfileStore};
use anyhow::Context as _;
use async_trait::async_trait;
use model::key::ApiKey;
use stack::local::Addresses;

use crate::cli::{
    config::{self, Profile},
    secret::Keys,
};

/// The profiles that can be opened.
pub(crate) struct Keeper {
    profiles: BTreeMap<String, Profile>,
    keys: Keys,
}

impl Keeper {
    /// The profiles of the configuration file.
    pub(crate) const fn new(profiles: BTreeMap<String, Profile>, keys: Keys) -> Self {
        Self { profiles, keys }
    }

    async fn try_open(&self, name: &str) -> anyhow::Result<Opened> {
        let profile = self.profiles.get(name).context("the configuration file has none")?;
        let head_token = config::head_token()?;
        let named = name.to_owned();
        let found = self.keys.on_a_thread(move |keys| keys.find(&named)).await?;
        let key_place = found.as_ref().map(|found| found.place);
        let api_key = found.map(|found| found.key);
        let addresses = Addresses { head_token, api_key, ..addresses(profile.clone()) };
        Ok(Opened { addresses, key_place })
    }
}

/// Where a profile's services are, without a key.
pub(crate) fn addresses(profile: Profile) -> Addresses {
    let Profile { heads, datasets, inference } = profile;
    Addresses { heads, datasets, inference, ..Addresses::default() }
}

/// The profiles as the screen lists them.
pub(crate) fn listed(profiles: &BTreeMap<String, Profile>) -> Vec<Named> {
    let named = |(name, profile): (&String, &Profile)| Named {
        name: name.clone(),
        addresses: addresses(profile.clone()),
    };
    profiles.iter().map(named).collect()
}

#[async_trait]
impl ProfileStore for Keeper {
    async fn open(&self, name: &str) -> Result<Opened, ProfileError> {
        self.try_open(name).await.map_err(|error| refused(&format!("open profile {name}"), error))
    }

    async fn keep_key(&self, name: &str, key: &ApiKey) -> Result<KeyPlace, ProfileError> {
        let (named, key) = (name.to_owned(), key.clone());
        let kept = self.keys.on_a_thread(move |keys| keys.keep(&named, &key)).await;
        let kept = kept.map_err(|error| refused(&format!("keep the key of {name}"), error))?;
        if let Some(note) = kept.note {
            tracing::info!("the key of {name} is in a file: {note}");
        }
        Ok(kept.place)
    }

    async fn forget_key(&self, name: &str) -> Result<bool, ProfileError> {
        let named = name.to_owned();
        let forgotten = self.keys.on_a_thread(move |keys| keys.forget(&named)).await;
        forgotten.map_err(|error| refused(&format!("forget the key of {name}"), error))
    }
}

fn refused(what: &str, error: anyhow::Error) -> ProfileError {
    ProfileError { what: what.to_owned(), source: error.into() }
}
