//! Installs functions before their first call, by CID or from the address of a manifest.
//!
//! b7s installs a function from the address of a manifest. The manifest contains the address and the
//! SHA-256 of an archive. Calls then name the function by the SHA-256 of the manifest's address. Here
//! the files of the archive are packed as a directory and stored under the directory's content id like
//! any other function. The SHA-256 of the manifest's address is an alias of this id.
//!
//! An installer can also choose a name that is neither a CID nor such a hash. Content cannot be verified
//! against either alias, so it is not requested from peers: each node downloads the manifest itself and
//! verifies the archive against it. Content that is installed from an address under a CID is verified
//! against the CID.

use bytes::Bytes;
use model::function::FunctionId;
use model::parse::ParseError;
use reqwest::Url;
use tokio::time::{Instant, timeout_at};
use tracing::info;

use super::archive::unpack;
use super::fetch::{Crowded, SEARCH_WITHIN};
use super::http::{ReadLimits, START_WITHIN, WebError};
use super::kept::{InstallSource, Requester};
use super::manifest::{self, Manifest};
use super::pack::Entry;
use super::peers::Peers;
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
    /// The id is the hash of another address than the given one.
    #[error("id {id} does not match the address of the manifest")]
    Address {
        /// The id in the request.
        id: FunctionId,
    },
    /// The function was installed from another address.
    #[error("{id} is already installed from {address}: remove the function first")]
    Taken {
        /// The id in the request.
        id: FunctionId,
        /// Address from which the function was installed.
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
    /// The function proved to be large.
    #[error(transparent)]
    Crowded(#[from] Crowded),
    /// The content is not a function or could not be stored.
    #[error("cannot store the function")]
    Keep(#[from] FunctionsError),
}

impl Functions {
    /// Installs function `id`, whose manifest is at `address`, unless it is already in the store.
    ///
    /// If the id is a CID, the content comes from the manifest, a peer or a gateway, and is verified
    /// against the CID. With any other id, the content comes from the manifest. The function is stored
    /// on behalf of `requester`.
    ///
    /// # Errors
    /// [`InstallError`] if no source has the function or its content is invalid.
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
        // If the function was stored on behalf of a stranger, the stranger's other functions could
        // evict it. Claiming it for `requester` prevents that.
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
        // Heads send the usual address if a request contains no address. The usual address is ignored,
        // since there is rarely a manifest at this address.
        let claim = Claim { requester: requester.clone(), purpose: Purpose::Install };
        let is_usual = address.is_empty() || address == usual_address(cid);
        if is_usual || self.get(id).is_some() {
            return Ok(self.obtain_by(id, &claim, peers).await?);
        }
        match self.install_from(id, address, requester).await {
            Ok(function) => Ok(function),
            // The files of the archive might have been split into blocks that differ from the blocks
            // under the CID. A peer or a gateway can have the expected blocks.
            Err(error) => self.obtain_by(id, &claim, peers).await.map_err(|_| error),
        }
    }

    /// Installs function `id` from the manifest at `address`, unless it is already in the store. The waits
    /// for other installations have a time limit.
    ///
    /// # Errors
    /// [`FetchError::TimedOut`] if a wait is too long, [`InstallError::Web`] if the download fails,
    /// [`InstallError::Keep`] if the content is not a function or does not match the CID,
    /// [`InstallError::Crowded`], [`InstallError::NoCid`] and [`InstallError::Taken`].
    pub async fn install_from(
        &self,
        id: FunctionId,
        address: &str,
        requester: &Requester,
    ) -> Result<Function, InstallError> {
        if self.0.requires_cid && !id.is_cid() {
            return Err(InstallError::NoCid { id });
        }
        let until = Instant::now() + SEARCH_WITHIN;
        let late = |_| FetchError::TimedOut { id };
        let _lock = self.lock_fetch(id, requester, until).await?;
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
        let turn = self.0.turns.transfers.take(claim.clone());
        let _turn = timeout_at(until, turn).await.map_err(late)?;
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
        let verify = move |bytes_max| {
            let id = Some(id).filter(FunctionId::is_cid);
            id.map_or_else(|| package.checked(bytes_max), |id| package.checked_as(id, bytes_max))
        };
        let function = self.keep(large.verify(verify).await??, requester.clone()).await?;
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
    /// [`InstallError::Taken`] if the id was installed from another address in the meantime.
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
                // The function was evicted in the meantime.
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
    /// Packs the files of the archive as a function and verifies it.
    fn checked(&self, bytes_max: usize) -> Result<VerifiedFunction, FunctionsError> {
        let dag = unpack(&self.archive, bytes_max)?.to_dag()?;
        VerifiedFunction::of_dag(self.label(), dag, bytes_max)
    }

    /// Returns the content that `id` identifies: the files of the archive, a single module among them,
    /// or the directory of the manifest with its archive.
    fn checked_as(
        &self,
        id: FunctionId,
        bytes_max: usize,
    ) -> Result<VerifiedFunction, FunctionsError> {
        let id = id.normalize();
        let files = unpack(&self.archive, bytes_max)?;
        if let Entry::Folder(entries) = &files {
            for (name, entry) in entries {
                let (Entry::File(bytes), Ok(method)) = (entry, name.parse()) else { continue };
                if let Ok(checked) = VerifiedFunction::of_file(None, method, bytes)
                    && (checked.function.id == id || checked.raw_id == Some(id))
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
                return VerifiedFunction::of_dag(self.label(), dag, bytes_max);
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
