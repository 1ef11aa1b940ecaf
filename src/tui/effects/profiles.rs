//! Opens profiles, and checks and stores their keys.

use std::sync::Arc;

use client::{
    datasets::{Datasets, DatasetsQuery},
    inference::Inference,
    transport::Transport,
};
use model::key::ApiKey;
use task::causes::chain;

use super::{absent, failure};
use crate::{
    event::{Event, ProfileEvent},
    local::Addresses,
    profiles::{ProfileError, Profiles},
    state::loadable::Failure,
};

/// The store of profiles, if there is one.
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
    let stored = async {
        check_key(&addresses, &key).await?;
        let keeper = keeper.ok_or_else(|| absent("keep the key"))?;
        keeper.keep_key(&profile, &key).await.map_err(|error| refused(&error))
    };
    let result = stored.await.map(|place| (place, key.clone()));
    Event::Profile(ProfileEvent::Kept { profile: profile.clone(), result })
}

/// Checks `key` by a small request to a service that needs one.
async fn check_key(addresses: &Addresses, key: &ApiKey) -> Result<(), Failure> {
    let what = "check the key";
    let opened = |address: &String| {
        Transport::new(address, Some(key.clone())).map_err(|error| failure(what, &error))
    };
    let response = match addresses {
        Addresses { datasets: Some(address), .. } => {
            let query = DatasetsQuery { search: String::new(), limit: Some(1), offset: 0 };
            Datasets::new(opened(address)?).list(&query).await.map(drop)
        }
        Addresses { inference: Some(address), .. } => {
            Inference::new(opened(address)?).topics().await.map(drop)
        }
        _ => return Err(absent(what)),
    };
    response.map_err(|error| failure(what, &error))
}

pub(super) async fn forget(keeper: Keeper, profile: String) -> Event {
    let result = match keeper {
        None => Err(absent("forget the key")),
        Some(keeper) => keeper.forget_key(&profile).await.map_err(|error| refused(&error)),
    };
    Event::Profile(ProfileEvent::Forgotten { profile, result })
}

fn refused(error: &ProfileError) -> Failure {
    Failure::new(error.to_string(), chain(&*error.source), "")
}
