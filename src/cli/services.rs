//! Addresses of the services, and the API key, that a command uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use client::datasets::Datasets;
use client::error::ClientError;
use client::functions::Functions;
use client::inference::Inference;
use client::transport::Transport;
use model::key::ApiKey;
use stack::local::Addresses;
use stack::running::{RunningStack, find_running, read};
use task::file::permissions;

use crate::cli::config::{self, AddressFlags, Profile};
use crate::cli::{output, secret};

/// Default address of `datasets serve`.
const DATASETS_ADDRESS: &str = "http://127.0.0.1:8081/api";

/// Default address of `inference serve`.
const INFERENCE_ADDRESS: &str = "http://127.0.0.1:8082";

/// Flag with the location of the API key.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyFlag {
    /// File with the API key, instead of `TRIPTYCH_API_KEY` or the key of `keys store`
    #[arg(long, env = "TRIPTYCH_API_KEY_FILE", value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// Services that a command uses, with their API key.
#[derive(Debug)]
pub(crate) struct Services {
    /// Addresses of the services. A service that is not named has no address.
    pub(crate) profile: Profile,
    pub(crate) key: Option<ApiKey>,
    /// The local stack, if these are its services.
    pub(crate) stack: Option<RunningStack>,
}

impl Services {
    /// Returns the services that `flags` and the profile in use name. If neither an address nor a key is
    /// configured, returns the services of the running local stack, which are also returned for their
    /// addresses without a key.
    ///
    /// # Errors
    /// If the configuration or the key is invalid.
    pub(crate) async fn choose(flags: AddressFlags, key: KeyFlag) -> anyhow::Result<Self> {
        let (chosen, _) = config::choose_profile(flags, None)?;
        let name = chosen.as_ref().and_then(|chosen| chosen.name.as_deref());
        let key = match key.key_file {
            Some(path) => Some(read_key_file(&path)?),
            None => secret::key(name).await?,
        };
        let is_named = chosen.is_some();
        let profile = chosen.map(|chosen| chosen.profile).unwrap_or_default();
        let names_service = profile.datasets.is_some() || profile.inference.is_some();
        // The key of the stack is not sent to any other service.
        if key.is_none()
            && (names_service || !is_named)
            && let Some(stack) = find_running()
            && is_of(profile.datasets.as_deref(), stack.addresses.datasets.as_deref())
            && is_of(profile.inference.as_deref(), stack.addresses.inference.as_deref())
        {
            let Addresses { heads, datasets, inference, api_key, .. } = stack.addresses.clone();
            let heads = if profile.heads.is_empty() { heads } else { profile.heads };
            let profile = Profile { heads, datasets, inference };
            return Ok(Self { profile, key: api_key, stack: Some(stack) });
        }
        Ok(Self { profile, key, stack: None })
    }

    /// Returns a client of the dataset service.
    ///
    /// # Errors
    /// If its address is invalid.
    pub(crate) fn datasets(&self) -> anyhow::Result<Datasets> {
        let address = self.profile.datasets.as_deref().unwrap_or(DATASETS_ADDRESS);
        let transport = self.transport(address, |stack| stack.datasets);
        Ok(Datasets::new(transport.context("cannot use the dataset service")?))
    }

    /// Returns a client of the inference service.
    ///
    /// # Errors
    /// If its address is invalid.
    pub(crate) fn inference(&self) -> anyhow::Result<Inference> {
        let address = self.profile.inference.as_deref().unwrap_or(INFERENCE_ADDRESS);
        let transport = self.transport(address, |stack| stack.inference);
        Ok(Inference::new(transport.context("cannot use the inference service")?))
    }

    /// Returns a connection to the service at `address`. If the local stack restarts, its new address,
    /// which `of_stack` returns, and its new key are used.
    fn transport(
        &self,
        address: &str,
        of_stack: fn(Addresses) -> Option<String>,
    ) -> Result<Transport, ClientError> {
        let transport = Transport::new(address, self.key.clone())?;
        let Some(RunningStack { folder, .. }) = self.stack.clone() else { return Ok(transport) };
        Ok(transport.with_location(Arc::new(move || {
            let stack = read(&folder)?;
            let key = stack.api_key.clone();
            Some((of_stack(stack)?, key))
        })))
    }

    /// Returns a client of the first head, if there is one, with the token in the environment.
    ///
    /// # Errors
    /// If its address or the token is invalid.
    pub(crate) fn head(&self) -> anyhow::Result<Option<Functions>> {
        let Some(address) = self.profile.heads.first() else { return Ok(None) };
        let mut transport = head_transport(address)?;
        if let Some(RunningStack { folder, addresses }) = self.stack.clone()
            && addresses.heads.contains(address)
        {
            let locate = move || Some((read(&folder)?.heads.into_iter().next()?, None));
            transport = transport.with_location(Arc::new(locate));
        }
        Ok(Some(Functions::new(transport)))
    }
}

/// Returns true if `address` is missing or the address of a service of the local stack.
fn is_of(address: Option<&str>, of_stack: Option<&str>) -> bool {
    address.is_none_or(|address| Some(address.trim_end_matches('/')) == of_stack)
}

/// Returns a client of the head at `address`, with the token in the environment.
///
/// # Errors
/// If the address or the token is invalid.
pub(crate) fn head(address: &str) -> anyhow::Result<Functions> {
    Ok(Functions::new(head_transport(address)?))
}

fn head_transport(address: &str) -> anyhow::Result<Transport> {
    let transport = Transport::new(address, None).context("cannot use the head")?;
    Ok(transport.with_token(config::head_token()?))
}

/// Reads the key in the file at `path`.
///
/// # Errors
/// If the file cannot be read or contains no key. The error does not contain its content.
pub(crate) fn read_key_file(path: &Path) -> anyhow::Result<ApiKey> {
    let shown = path.display();
    if permissions(path).is_some_and(|mode| mode & 0o077 != 0) {
        output::tell(&format!(
            "other users of this machine can read the API key in {shown}: chmod 600 {shown}"
        ));
    }
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the API key in {shown}"))?;
    text.trim().parse().with_context(|| format!("invalid API key in {shown}"))
}
