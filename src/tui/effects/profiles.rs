//! Profiles and their keys: opened, tried on a service, kept.

use std::sync::Arc;

use client::{
    datasets::{Datasets, DatasetsQuery},
    inference::Inference,
    transport::Transport,
};
use model::key::ApiKey;

use super::{absent, failure, innermost};
use crate::{
    event::{Event, ProfileEvent},
    local::Addresses,
    profiles::{KeyPlace, ProfileError, Profiles},
    state::loadable::Failure,
};

/// Who keeps the profiles, if anybody does.
type Keeper = Option<Arc<dyn Profiles>>;

pub(super) async fn open(keeper: Keeper, name: String) -> Event {
    let result = match keeper {
        None => Err(absent("open the profile")),
        Some(keeper) => keeper.open(&name).await.map_err(|error| refused(&error)),
    };
    Event::Profile(ProfileEvent::Opened { name, result })
}

pub(super) async fn keep(
    keeper: Keeper,
    profile: String,
    addresses: Addresses,
    key: ApiKey,
) -> Event {
    let result = tried_and_kept(keeper, &profile, &addresses, &key).await;
    Event::Profile(ProfileEvent::Kept { profile, result: result.map(|place| (place, key)) })
}

async fn tried_and_kept(
    keeper: Keeper,
    profile: &str,
    addresses: &Addresses,
    key: &ApiKey,
) -> Result<KeyPlace, Failure> {
    try_on(addresses, key).await?;
    let keeper = keeper.ok_or_else(|| absent("keep the key"))?;
    keeper.keep_key(profile, key).await.map_err(|error| refused(&error))
}

/// Asks a service that wants a key for something small.
async fn try_on(addresses: &Addresses, key: &ApiKey) -> Result<(), Failure> {
    let what = "try the key";
    let opened = |address: &String| {
        Transport::new(address, Some(key.clone())).map_err(|error| failure(what, &error))
    };
    let answered = match addresses {
        Addresses { datasets: Some(address), .. } => {
            let query = DatasetsQuery { search: String::new(), limit: Some(1), offset: 0 };
            Datasets::new(opened(address)?).list(&query).await.map(drop)
        }
        Addresses { inference: Some(address), .. } => {
            Inference::new(opened(address)?).topics().await.map(drop)
        }
        _ => return Err(absent(what)),
    };
    answered.map_err(|error| failure(what, &error))
}

pub(super) async fn forget(keeper: Keeper, profile: String) -> Event {
    let result = match keeper {
        None => Err(absent("forget the key")),
        Some(keeper) => keeper.forget_key(&profile).await.map_err(|error| refused(&error)),
    };
    Event::Profile(ProfileEvent::Forgotten { profile, result })
}

fn refused(error: &ProfileError) -> Failure {
    Failure { what: error.to_string(), why: innermost(error), ..Failure::default() }
}
