//! The flags that name a dataset service and its key.

use anyhow::{Context as _, bail};
use clap::Args;
use client::{datasets::Datasets, transport::Transport};
use model::key::ApiKey;

use crate::cli::{
    config::{AddressFlags, KEY_VARIABLE},
    services::{DATASETS_ADDRESS, KeyFlag, Services},
};

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
