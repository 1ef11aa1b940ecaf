//! Installing: having a function before it is first called, also from where only its address is known.
//!
//! b7s installs from the address of a manifest, which names an archive and its SHA-256, and calls the
//! function by the SHA-256 of that address. Here the files of the archive are packed as a folder,
//! kept under its content id like any other, and found by the address's id, too. What such an id
//! stands for cannot be proved, so peers are not asked for it: each node reads the address itself.

use std::time::Duration;

use model::{
    function::{FunctionError, FunctionId},
    node::PeerId,
};
use reqwest::Url;
use tracing::info;

use super::{
    FUNCTIONS_MAX, FetchError, Function, Functions, FunctionsError,
    archive::unpack,
    blocking,
    checked::{Checked, Label},
    files::Address,
    flight::Flight,
    gateway::GiveError,
    manifest::{self, Manifest},
    web::{Wanted, WebError},
};
use crate::{message::InstallFunction, network::Network};

/// The longest address taken, in bytes.
const ADDRESS_BYTES_MAX: usize = 2048;

/// How long a manifest may take, as in b7s.
const MANIFEST_WITHIN: Duration = Duration::from_secs(10);

/// Why a function was not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The message names no function.
    #[error("read which function to install")]
    Id(#[from] FunctionError),
    /// The id is one of an address, but not of the address given.
    #[error("match {id} with the address of the manifest")]
    Address {
        /// The id.
        id: FunctionId,
    },
    /// Nobody gave it.
    #[error("get the function")]
    Fetch(#[from] FetchError),
    /// The manifest or its archive could not be read.
    #[error("read from the web")]
    Web(#[from] WebError),
    /// The content is no function, or could not be kept.
    #[error("keep the function")]
    Keep(#[from] FunctionsError),
}

impl From<GiveError> for InstallError {
    fn from(error: GiveError) -> Self {
        match error {
            GiveError::Web(error) => Self::Web(error),
            GiveError::Content(error) => Self::Keep(error),
        }
    }
}

impl Functions {
    /// Returns the function that `message` is to install: from one of `peers` or a gateway where it
    /// has a content id, else from the address of its manifest. One that is kept is returned at once.
    ///
    /// # Errors
    /// [`InstallError`] if it is nowhere to be had, or is not what it should be.
    pub async fn install(
        &self,
        message: &InstallFunction,
        network: &Network,
        peers: &[PeerId],
    ) -> Result<Function, InstallError> {
        let id: FunctionId = message.cid.parse()?;
        if !id.is_of_address() {
            return Ok(self.obtain(id, network, peers).await?);
        }
        if FunctionId::of_address(&message.manifest_url) != id {
            return Err(InstallError::Address { id });
        }
        self.install_from(&message.manifest_url).await
    }

    /// Returns the function whose manifest is at `address`, read from there if it is not kept yet.
    ///
    /// # Errors
    /// [`InstallError::Web`] if it cannot be read, [`InstallError::Keep`] if it is no function.
    pub async fn install_from(&self, address: &str) -> Result<Function, InstallError> {
        let id = FunctionId::of_address(address);
        let flight = Flight::join(self, id);
        let _turn = flight.lock.lock().await;
        if let Some(function) = self.get(id) {
            return Ok(function);
        }
        let wrong = || WebError::Address { text: address.chars().take(200).collect() };
        let url: Url = address.parse().map_err(|_| wrong())?;
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(wrong().into());
        }
        let _fetch = self.fetch_permit().await;
        let bytes_max = manifest::BYTES_MAX;
        let wanted = Wanted { accept: "application/json, */*", bytes_max, within: MANIFEST_WITHIN };
        let bytes = self.0.web.read(&url, wanted).await?;
        let manifest = Manifest::read(&bytes).map_err(FunctionsError::from)?;
        let archive = manifest.archive_url(&url).map_err(FunctionsError::from)?;
        let archive = self.archive(archive.as_str(), manifest.block).await?;
        let name = Some(manifest.name).filter(|name| !name.is_empty());
        let label = Label { name, method: None };
        let checked = blocking(move || {
            let dag = unpack(&archive)?.packed()?;
            Checked::of_dag(label, dag)
        });
        let function = self.keep(checked.await?).await?;
        self.note_address(address, function.id).await?;
        info!(function = %function.id, %id, "installed a function from an address");
        Ok(function)
    }

    async fn note_address(
        &self,
        address: &str,
        function: FunctionId,
    ) -> Result<(), FunctionsError> {
        if self.0.addresses.read().len() >= FUNCTIONS_MAX {
            return Err(FunctionsError::Full);
        }
        let address = Address { address: address.to_owned(), function };
        let (files, written) = (self.0.files.clone(), address.clone());
        blocking(move || files.write_address(&written)).await?;
        self.enter_address(address);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
