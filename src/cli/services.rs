//! Which services a command means, and which key goes with them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::Args;
use client::{datasets::Datasets, inference::Inference, transport::Transport};
use model::key::ApiKey;
use stack::{local::Addresses, running::find_running};
use task::file::permissions;

use crate::cli::{
    config::{self, AddressFlags, Profile},
    output, secret,
};

/// Where `datasets serve` serves by default.
const DATASETS_ADDRESS: &str = "http://127.0.0.1:8081/api";

/// Where `inference serve` serves by default.
const INFERENCE_ADDRESS: &str = "http://127.0.0.1:8082";

/// Where the API key is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyFlag {
    /// Read the API key from this file, not from `TRIPTYCH_API_KEY` or where `keys store` keeps it
    #[arg(long, env = "TRIPTYCH_API_KEY_FILE", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// The services that are meant, and the key that goes with them.
#[derive(Debug)]
pub(crate) struct Services {
    /// Their addresses; none for those that nothing names.
    pub(crate) profile: Profile,
    /// The key; none if there is none.
    pub(crate) key: Option<ApiKey>,
}

impl Services {
    /// Those of `flags` and of the profile in use; where neither an address nor a key is configured,
    /// those of the local stack that runs.
    ///
    /// # Errors
    /// If the configuration or the key is unfit.
    pub(crate) async fn choose(flags: AddressFlags, key: KeyFlag) -> anyhow::Result<Self> {
        let (chosen, _) = config::choose_profile(flags, None)?;
        let name = chosen.as_ref().and_then(|chosen| chosen.name.as_deref());
        let key = match key.key_file {
            Some(path) => Some(key_of(&path)?),
            None => secret::key(name).await?,
        };
        if chosen.is_none()
            && key.is_none()
            && let Some(Addresses { heads, datasets, inference, api_key, .. }) = find_running()
        {
            return Ok(Self { profile: Profile { heads, datasets, inference }, key: api_key });
        }
        Ok(Self { profile: chosen.map(|chosen| chosen.profile).unwrap_or_default(), key })
    }

    /// Prepares calls of the dataset service.
    ///
    /// # Errors
    /// If its address is none.
    pub(crate) fn datasets(&self) -> anyhow::Result<Datasets> {
        let address = self.profile.datasets.as_deref().unwrap_or(DATASETS_ADDRESS);
        let transport = Transport::new(address, self.key.clone());
        Ok(Datasets::new(transport.context("use the dataset service")?))
    }

    /// Prepares calls of the inference service.
    ///
    /// # Errors
    /// If its address is none.
    pub(crate) fn inference(&self) -> anyhow::Result<Inference> {
        let address = self.profile.inference.as_deref().unwrap_or(INFERENCE_ADDRESS);
        Ok(Inference::new(Transport::new(address, self.key.clone()).context("use --inference")?))
    }
}

/// The key in the file at `path`.
///
/// # Errors
/// If there is none. What is there is not repeated.
pub(crate) fn key_of(path: &Path) -> anyhow::Result<ApiKey> {
    let shown = path.display();
    if permissions(path).is_some_and(|mode| mode & 0o077 != 0) {
        output::tell(&format!(
            "other users of this machine can read the API key in {shown}: chmod 600 {shown}"
        ));
    }
    let text = fs::read_to_string(path).with_context(|| format!("read the API key in {shown}"))?;
    text.trim().parse().with_context(|| format!("use the API key in {shown}"))
}
