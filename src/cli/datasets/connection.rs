//! The flags that name a dataset service and its key; finds datasets by name or number.

use anyhow::{Context as _, bail};
use clap::Args;
use client::{datasets::Datasets, transport::Transport};
use model::{
    dataset::{Dataset, DatasetId},
    key::ApiKey,
};

use crate::cli::{
    config::{AddressFlags, KEY_VARIABLE},
    services::{DATASETS_ADDRESS, KeyFlag, Services},
};

/// What a service answers where there is no such dataset, or none for the key.
pub(super) const NOT_FOUND: u16 = 404;

/// The flags that name a dataset service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which service")]
pub(crate) struct DatasetServiceFlags {
    /// The dataset service's address, ending in `/api` [default: the profile's, else
    /// that of the local stack that runs, else that of `datasets serve` on this machine]
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: Option<String>,
    /// The profile of the configuration file to take the address from
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    key: KeyFlag,
}

impl DatasetServiceFlags {
    /// Connects to the service that the flags, the environment or a profile name.
    ///
    /// # Errors
    /// If they name none that could be one, or there is no key.
    pub(crate) async fn connect(self) -> anyhow::Result<Datasets> {
        let Self { datasets, profile, key } = self;
        let flags = AddressFlags { datasets, profile, ..AddressFlags::default() };
        let Services { profile, key } = Services::choose(flags, key).await?;
        let Some(key) = key else {
            bail!(
                "use the dataset service without a key: `triptych keys store` keeps one, or set \
                 {KEY_VARIABLE}, or name --key-file"
            )
        };
        connect(profile.datasets.as_deref().unwrap_or(DATASETS_ADDRESS), key)
    }
}

/// Prepares calls of the service at `address`.
///
/// # Errors
/// If it is none.
pub(super) fn connect(address: &str, key: ApiKey) -> anyhow::Result<Datasets> {
    let transport = Transport::new(address, Some(key)).context("use the dataset service")?;
    Ok(Datasets::new(transport))
}

/// Finds the dataset called `name`, or of that number.
///
/// # Errors
/// If the key sees none.
pub(super) async fn find_dataset(service: &Datasets, name: &str) -> anyhow::Result<Dataset> {
    match look_up_dataset(service, name).await? {
        Some(dataset) => Ok(dataset),
        None => bail!(
            "find dataset {name} at {}: there is none, or none that this key may see (perhaps \
             `triptych datasets tags --acquire public` helps)",
            service.address()
        ),
    }
}

/// Finds the dataset called `name`, or of that number; `None` where the key sees none.
///
/// # Errors
/// Those of a broken line.
pub(super) async fn look_up_dataset(
    service: &Datasets,
    name: &str,
) -> anyhow::Result<Option<Dataset>> {
    let looking = || format!("look for dataset {name} at {}", service.address());
    let Ok(id) = name.parse::<DatasetId>() else {
        return service.find_by_name(name).await.with_context(looking);
    };
    match service.dataset(id).await {
        Ok(dataset) => Ok(Some(dataset)),
        // A name may be a number, too.
        Err(error) if error.status() == Some(NOT_FOUND) => {
            service.find_by_name(name).await.with_context(looking)
        }
        Err(error) => Err(error).with_context(looking),
    }
}
