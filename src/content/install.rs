//! Installs functions before their first call, also from the address of a manifest.
//!
//! b7s installs from the address of a manifest, which contains the address and the SHA-256 of an
//! archive. It calls the function by the SHA-256 of the manifest's address. Here the files of the
//! archive are packed as a directory and stored under its content id like any other function. It is
//! also found by the id of the address. An installer can choose a name that is not a CID. Content cannot
//! be verified against such ids. So they are not requested from peers: each node reads the address
//! itself and verifies the archive with the manifest. Content that is installed from an address under a
//! CID is verified against the CID.

use bytes::Bytes;
use model::function::FunctionId;
use model::parse::ParseError;
use reqwest::Url;
use tokio::time::Instant;
use tracing::info;

use super::archive::unpack;
use super::fetch::SEARCH_WITHIN;
use super::http::{ReadLimits, START_WITHIN, WebError};
use super::kept::{InstallSource, Requester};
use super::manifest::{self, Manifest};
use super::pack::Entry;
use super::peers::Peers;
use super::single_flight::Flight;
use super::turns::{Claim, Purpose};
use super::verify::{NameHints, VerifiedFunction};
use super::{FetchError, Function, Functions, FunctionsError, blocking};

/// Maximum length of an address in bytes.
const ADDRESS_BYTES_MAX: usize = 2048;

/// A failed installation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The request does not name a function.
    #[error("invalid function id")]
    Id(#[from] ParseError),
    /// The id is derived from another address than the given one.
    #[error("{id} is not the id of the manifest's address")]
    Address {
        /// The id in the request.
        id: FunctionId,
    },
    /// The id was installed from another address.
    #[error("{id} is already installed from {address}: remove the function first")]
    Taken {
        /// The id in the request.
        id: FunctionId,
        /// The address from which it was installed.
        address: String,
    },
    /// The id is not a CID, which this node requires.
    #[error("{id} is not a CID, which this node requires (--require-cid)")]
    NoCid {
        /// The id in the request.
        id: FunctionId,
    },
    /// No peer and no gateway has the function.
    #[error("cannot fetch the function")]
    Fetch(#[from] FetchError),
    /// The manifest or its archive could not be downloaded.
    #[error("cannot read the manifest or its archive")]
    Web(#[from] WebError),
    /// The content is not a function or could not be stored.
    #[error("cannot store the function")]
    Keep(#[from] FunctionsError),
}

impl Functions {
    /// Installs function `id`, whose manifest is at `address`, unless it is already in the store.
    ///
    /// With a CID, the content is read from the manifest, a peer or a gateway and is then verified. With
    /// any other id, it is read from the manifest. It is stored on behalf of `requester`.
    ///
    /// # Errors
    /// [`InstallError`] if no source has the function or the content is not what it should be.
    pub async fn install(
        &self,
        id: &str,
        address: &str,
        requester: &Requester,
        peers: &impl Peers,
    ) -> Result<Function, InstallError> {
        let cid = id;
        let id = FunctionId::parse_any(cid)?;
        let installed = self.install_by(id, cid, address, requester, peers).await?;
        // It might be stored on behalf of a stranger. Other functions of the stranger would then evict
        // it.
        if !requester.is_unnamed() {
            self.claim(installed.id, requester).await?;
        }
        Ok(installed)
    }

    async fn install_by(
        &self,
        id: FunctionId,
        cid: &str,
        address: &str,
        requester: &Requester,
        peers: &impl Peers,
    ) -> Result<Function, InstallError> {
        if id.is_address_hash() && FunctionId::from_address(address) != id {
            return Err(InstallError::Address { id });
        }
        if !id.is_cid() {
            return self.install_from(id, address, requester).await;
        }
        // Heads that were given no address send this one, which is usually missing.
        let claim = Claim { requester: requester.clone(), purpose: Purpose::Install };
        let is_usual = address.is_empty() || address == usual_address(cid);
        if is_usual || self.get(id).is_some() {
            return Ok(self.obtain_by(id, &claim, peers).await?);
        }
        match self.install_from(id, address, requester).await {
            Ok(function) => Ok(function),
            // Peers and gateways can have the content in other blocks of other tools.
            Err(error) => self.obtain_by(id, &claim, peers).await.map_err(|_| error),
        }
    }

    /// Installs function `id` from the manifest at `address`, unless it is already in the store.
    ///
    /// # Errors
    /// [`InstallError::Web`] if the download fails, [`InstallError::Keep`] if it is not a function or
    /// does not match the CID, [`InstallError::NoCid`] and [`InstallError::Taken`].
    pub async fn install_from(
        &self,
        id: FunctionId,
        address: &str,
        requester: &Requester,
    ) -> Result<Function, InstallError> {
        if self.0.requires_cid && !id.is_cid() {
            return Err(InstallError::NoCid { id });
        }
        let flight = Flight::join(self, id, requester);
        let _turn = flight.lock.lock().await;
        if let Some(function) = self.get(id) {
            let taken = self.0.kept.read().address(id).map(|taken| taken.address.clone());
            return match taken {
                Some(taken) if taken != address => Err(InstallError::Taken { id, address: taken }),
                _ => Ok(function),
            };
        }
        let wrong = || WebError::Address { text: address.chars().take(200).collect() };
        let url: Url = address.parse().map_err(|_| wrong())?;
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(wrong().into());
        }
        let claim = Claim { requester: requester.clone(), purpose: Purpose::Install };
        let _turn = self.0.turns.transfers.take(claim.clone()).await;
        let mut large = self.0.turns.large(&claim, Instant::now() + SEARCH_WITHIN);
        let wanted = ReadLimits {
            accept: "application/json, */*",
            bytes_max: manifest::BYTES_MAX,
            start_within: START_WITHIN,
        };
        let bytes = self.0.web.read(&url, wanted, &mut large).await?;
        let manifest = Manifest::read(&bytes).map_err(FunctionsError::from)?;
        let archive = manifest.archive_url(&url).map_err(FunctionsError::from)?;
        let archive = self.fetch_archive(archive.as_str(), manifest.block, &mut large).await?;
        let package = Package { manifest, manifest_bytes: bytes, archive };
        let checked =
            blocking(move || if id.is_cid() { package.checked_as(id) } else { package.checked() });
        let function = self.keep(checked.await?, requester.clone()).await?;
        if !id.is_cid() {
            let address = InstallSource { id, address: address.to_owned(), function: function.id };
            self.keep_address(address, requester.clone()).await?;
        }
        info!(function = %function.id, %id, "installed a function from an address");
        Ok(function)
    }

    /// Durably records the address from which a function was installed.
    ///
    /// # Errors
    /// [`InstallError::Taken`] if something else was installed under its id in the meantime.
    async fn keep_address(
        &self,
        address: InstallSource,
        requester: Requester,
    ) -> Result<(), InstallError> {
        let (store, id) = (self.clone(), address.id);
        let taken = blocking(move || {
            let _changing = store.0.changing.lock();
            let taken = store.0.kept.read().address(id).map(|taken| taken.address.clone());
            if let Some(taken) = taken {
                return Ok(Some(taken).filter(|taken| *taken != address.address));
            }
            let replaced =
                store.0.kept.write().make_room_for_address(address.function, &requester)?;
            if let Some(replaced) = replaced {
                store.0.files.delete_address(replaced)?;
            }
            store.0.files.write_address(&address)?;
            if !store.0.kept.write().insert_address(address) {
                // The function was evicted in between.
                store.0.files.delete_address(id)?;
            }
            Ok(None)
        });
        match taken.await? {
            Some(address) => Err(InstallError::Taken { id, address }),
            None => Ok(()),
        }
    }
}

/// Returns the address at which b7s workers look for the manifest of the function `cid`.
#[must_use]
pub fn usual_address(cid: &str) -> String {
    format!("https://{cid}.ipfs.w3s.link/manifest.json")
}

/// A manifest and its verified archive.
struct Package {
    manifest: Manifest,
    manifest_bytes: Bytes,
    archive: Bytes,
}

impl Package {
    /// Packs the files of the archive as a function.
    fn checked(self) -> Result<VerifiedFunction, FunctionsError> {
        let dag = unpack(&self.archive)?.to_dag()?;
        VerifiedFunction::of_dag(self.label(), dag)
    }

    /// Returns the part that `id` identifies: the files of the archive, one module of them, or the
    /// directory of the manifest with its archive.
    fn checked_as(self, id: FunctionId) -> Result<VerifiedFunction, FunctionsError> {
        let id = id.normalize();
        let files = unpack(&self.archive)?;
        if let Entry::Folder(entries) = &files {
            for (name, entry) in entries {
                let (Entry::File(bytes), Ok(method)) = (entry, name.parse()) else { continue };
                if let Ok(checked) = VerifiedFunction::of_file(method, bytes)
                    && (checked.function.id == id || checked.whole == Some(id))
                {
                    return Ok(checked);
                }
            }
        }
        let mut folder = Entry::folder();
        folder.place(&[manifest::FILE_NAME], Entry::File(self.manifest_bytes.clone()))?;
        if let Some(path) = self.manifest.archive_path() {
            let path: Vec<&str> = path.split('/').collect();
            folder.place(&path, Entry::File(self.archive.clone()))?;
        }
        for dag in [files.to_dag()?, folder.to_dag()?] {
            if FunctionId::from(dag.root) == id {
                return VerifiedFunction::of_dag(self.label(), dag);
            }
        }
        Err(FunctionsError::Mismatch { id, size_bytes: self.archive.len() })
    }

    fn label(&self) -> NameHints {
        let name = Some(self.manifest.name.clone()).filter(|name| !name.is_empty());
        NameHints { name, method: None }
    }
}

#[cfg(test)]
mod tests;
