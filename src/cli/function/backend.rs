//! Stores of functions: the head of a cluster, or a directory of this machine.

use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, fs};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use client::error::ClientError;
use client::functions::Functions as Head;
use content::{Function, Functions, NameHints, Upload, Usage};
use model::function::FunctionId;
use stack::data_dir::{lock_folder, project_dirs};
use stack::running::find_running;
use task::causes::chain;
use task::lock::Lock;
use task::wait;
use wire::functions::{EvictRequest, EvictedBody, FunctionBody, FunctionDetail};

use crate::cli::config::{self, AddressFlags, TOKEN_VARIABLE};
use crate::cli::output::with_progress;
use crate::cli::services;

/// Environment variable with the address of the head. It is used if no flag names a head.
const HEAD_VARIABLE: &str = "TRIPTYCH_HEAD";

/// Environment variable with the name of the profile. It is used if no flag names a profile.
const PROFILE_VARIABLE: &str = "TRIPTYCH_PROFILE";

/// Maximum time to wait for another command that has locked the store: longer than checking and writing
/// a large function takes. A running node, which holds the lock until it exits, is reported as an error
/// after this time.
const LOCK_WITHIN: Duration = Duration::from_secs(10);

/// HTTP status of a head's response if it does not have the requested function or execution.
pub(crate) const NOT_FOUND: u16 = 404;

/// Heading of these flags in the help.
const WHERE: &str = "Where functions are";

/// Flags that name a head.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WHERE)]
pub(crate) struct HeadFlags {
    /// Head of the cluster, such as `http://127.0.0.1:8080` [default: `TRIPTYCH_HEAD`, or the head in
    /// the profile. Without either, the head of the running local stack]
    #[arg(long, value_name = "URL")]
    head: Option<String>,
    /// Profile in the configuration file that supplies the head [default: `TRIPTYCH_PROFILE`]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// Function to run.
#[derive(Debug, Clone)]
pub(super) enum RunTarget {
    /// A stored function.
    Stored(FunctionId),
    /// A module or directory of this machine.
    Path(PathBuf),
}

/// Flags that name a head, or a store of this machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WHERE)]
pub(super) struct BackendFlags {
    #[command(flatten)]
    head: HeadFlags,
    /// Use this machine, even if a head is configured
    #[arg(long, conflicts_with_all = ["head", "profile"])]
    local: bool,
    /// Function store on this machine that no running node uses [default: this user's]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["head", "profile"])]
    function_db: Option<PathBuf>,
}

/// Function store on this machine. A lock excludes other commands that use the same store.
#[derive(Debug)]
pub(super) struct LocalStore {
    pub(super) functions: Functions,
    folder: PathBuf,
    /// Lock of the store. The system releases it when the process exits, even if the process is killed.
    _lock: Option<Lock>,
}

/// Store of functions.
#[derive(Debug)]
pub(super) enum FunctionBackend {
    Head(Head),
    Local(LocalStore),
}

impl HeadFlags {
    /// Creates a client of the head that the flags, the environment or a profile names.
    ///
    /// # Errors
    /// If no head is named, or the address is invalid.
    pub(crate) fn connect(self) -> anyhow::Result<Head> {
        match self.address()? {
            Some(address) => services::head(&address),
            None => bail!("no head is configured\nhint: pass --head URL, or set {HEAD_VARIABLE}"),
        }
    }

    fn address(self) -> anyhow::Result<Option<String>> {
        let head = self.head.map_or_else(|| config::variable(HEAD_VARIABLE), |it| Ok(Some(it)))?;
        let profile =
            self.profile.map_or_else(|| config::variable(PROFILE_VARIABLE), |it| Ok(Some(it)))?;
        let flags =
            AddressFlags { heads: head.into_iter().collect(), profile, ..AddressFlags::default() };
        match config::profile(flags)? {
            None => {
                let stack = find_running();
                Ok(stack.and_then(|stack| stack.addresses.heads.into_iter().next()))
            }
            Some(profile) => Ok(profile.heads.into_iter().next()),
        }
    }
}

impl BackendFlags {
    /// Returns a client of the head, or `None` if the flags or the lack of a head select the store on
    /// this machine.
    ///
    /// # Errors
    /// If the address of the head is invalid.
    pub(super) fn head(&self) -> anyhow::Result<Option<Head>> {
        if self.local || self.function_db.is_some() {
            return Ok(None);
        }
        self.head.clone().address()?.map(|address| services::head(&address)).transpose()
    }

    /// Opens the function store on this machine.
    ///
    /// # Errors
    /// If its directory cannot be used.
    pub(super) async fn store(self) -> anyhow::Result<LocalStore> {
        LocalStore::open(match self.function_db {
            Some(folder) => folder,
            None => project_dirs()?.data_local_dir().join("functions"),
        })
        .await
    }

    /// Opens the store that the flags name.
    ///
    /// # Errors
    /// As [`Self::head`] and [`Self::store`].
    pub(super) async fn open(self) -> anyhow::Result<FunctionBackend> {
        Ok(match self.head()? {
            Some(head) => FunctionBackend::Head(head),
            None => FunctionBackend::Local(self.store().await?),
        })
    }
}

impl LocalStore {
    async fn open(folder: PathBuf) -> anyhow::Result<Self> {
        let shown = folder.display().to_string();
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {shown}"))?;
        let locking = wait::until(LOCK_WITHIN, || async {
            match lock_folder(&folder) {
                Ok(None) => Err("another command or a node uses it"),
                locked => Ok(locked),
            }
        });
        let waiting = format!("waiting for the process that uses {shown}");
        let lock = with_progress(&waiting, locking).await;
        let lock = lock.with_context(|| format!("cannot lock the function store {shown}"))??;
        let opening = Functions::open(folder.clone());
        let opened = with_progress(&format!("checking the functions in {shown}"), opening).await;
        let functions =
            opened.with_context(|| format!("cannot open the function store {shown}"))?;
        Ok(Self { functions, folder, _lock: lock })
    }
}

impl FunctionBackend {
    /// Adds a function to the store.
    ///
    /// # Errors
    /// If the head or the store rejects the function.
    pub(super) async fn add(&self, upload: Upload) -> anyhow::Result<FunctionBody> {
        match self {
            Self::Head(head) => self::upload(head, upload).await,
            Self::Local(store) => {
                let Upload { function: Function { name, method, .. }, car } = upload;
                let hints = NameHints { name: Some(name.clone()), method: Some(method) };
                let added = store.functions.add_car(hints, car).await;
                Ok(added.with_context(|| format!("cannot store {name}"))?.body())
            }
        }
    }

    /// Returns all functions, by name.
    ///
    /// # Errors
    /// If the request fails.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<FunctionBody>> {
        match self {
            Self::Head(head) => head.functions().await.context("cannot list functions"),
            Self::Local(store) => Ok(store.functions.bodies()),
        }
    }

    /// Returns a function with its files.
    ///
    /// # Errors
    /// If there is no such function.
    pub(super) async fn show(&self, id: FunctionId) -> anyhow::Result<FunctionDetail> {
        match self {
            Self::Head(head) => match head.function(id).await {
                Err(error) if error.status() == Some(NOT_FOUND) => bail!(self.missing(id)),
                detail => detail.with_context(|| format!("cannot read function {id}")),
            },
            Self::Local(store) => {
                let detail = store.functions.detail(id).await;
                detail
                    .with_context(|| format!("cannot read function {id}"))?
                    .with_context(|| self.missing(id))
            }
        }
    }

    /// Removes a function and returns its name.
    ///
    /// # Errors
    /// If there is no such function.
    pub(super) async fn remove(&self, id: FunctionId) -> anyhow::Result<String> {
        match self {
            Self::Head(head) => match head.remove(id).await {
                Err(error) if error.status() == Some(NOT_FOUND) => bail!(self.missing(id)),
                removed => {
                    Ok(removed.with_context(|| format!("cannot remove function {id}"))?.name)
                }
            },
            Self::Local(store) => {
                let function = store.functions.get(id).with_context(|| self.missing(id))?;
                let removed = store.functions.remove(function.id).await;
                removed.with_context(|| format!("cannot remove function {id}"))?;
                Ok(function.name)
            }
        }
    }

    /// Removes function `id` from the stores of the workers, or from the store on this machine. If `id`
    /// is `None`, removes all functions that are not pinned. Returns the outcome at each store.
    ///
    /// # Errors
    /// If the head rejects the request, or the store cannot delete files.
    pub(super) async fn evict(&self, id: Option<FunctionId>) -> anyhow::Result<Vec<EvictedBody>> {
        let store = match self {
            Self::Head(head) => {
                let cid = id.map(|id| id.to_string()).unwrap_or_default();
                let request = EvictRequest { all: cid.is_empty(), cid };
                return head.evict(&request).await.context("cannot evict functions");
            }
            Self::Local(store) => &store.functions,
        };
        let usage = match id {
            None => store.remove_unpinned().await.context("cannot evict functions")?,
            Some(id) => {
                let function = store.get(id).with_context(|| self.missing(id))?;
                let removed = store.remove(function.id).await;
                removed.with_context(|| format!("cannot evict function {id}"))?;
                Usage { functions: 1, bytes: function.kept_bytes }
            }
        };
        let (peer_id, left) = (self.to_string(), store.usage().functions);
        let Usage { functions, bytes } = usage;
        Ok(vec![EvictedBody { peer_id, functions, bytes, left, message: String::new() }])
    }

    fn missing(&self, id: FunctionId) -> String {
        format!("no function {id} in {self}")
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the function store {}", self.folder.display())
    }
}

impl fmt::Display for FunctionBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head(head) => write!(f, "the cluster of {}", head.address()),
            Self::Local(store) => store.fmt(f),
        }
    }
}

/// Uploads a function to `head`. Returns the head's description of the function.
///
/// # Errors
/// If the head rejects the function, or computes another content id for it.
pub(super) async fn upload(head: &Head, upload: Upload) -> anyhow::Result<FunctionBody> {
    let Upload { function, car } = upload;
    let sending = format!("sending {} bytes to {}", car.len(), head.address());
    let uploading = head.upload(&function.name, function.method.as_str(), car.to_vec());
    let added = with_progress(&sending, uploading).await;
    let added = added.with_context(|| format!("cannot upload {} to the head", function.name))?;
    if added.function_id != function.id.to_string() {
        let (name, own, other) = (function.name, function.id, added.function_id);
        bail!("cannot upload {name} to the head: it computed id {other}, expected {own}");
    }
    Ok(added)
}

/// Returns function `id` of `head`, or `None` if the head does not have it or does not serve
/// descriptions of functions.
///
/// # Errors
/// If the request fails for a reason other than status 404.
pub(super) async fn find_function(
    head: &Head,
    id: FunctionId,
) -> anyhow::Result<Option<FunctionBody>> {
    match head.function(id).await {
        Ok(detail) => Ok(Some(detail.function)),
        // Heads of b7s respond 404 for all functions, since they do not serve descriptions.
        Err(error) if error.status() == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read function {id}")),
    }
}

/// Adds a `hint:` line to `error`, if advice for its cause is known.
pub(crate) fn with_advice(error: anyhow::Error) -> anyhow::Error {
    match advice(&error) {
        Some(advice) => anyhow!("{}\nhint: {advice}", chain(&*error)),
        None => error,
    }
}

fn advice(error: &anyhow::Error) -> Option<String> {
    let failed = error.chain().find_map(|cause| cause.downcast_ref::<ClientError>())?;
    // Only the other services have API keys.
    if failed.status() == Some(401) && failed.why().contains("API key") {
        return Some("check that the address is that of a head".to_owned());
    }
    if failed.status() == Some(401) {
        return Some(format!("set {TOKEN_VARIABLE} to the head's token"));
    }
    failed.connection_advice().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn store_of_a_running_node_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let unfinished = folder.path().join(".triptych-unfinished-1");
        fs::write(&unfinished, b"").unwrap();
        let lock = lock_folder(folder.path()).unwrap();
        let refused =
            format!("{:#}", LocalStore::open(folder.path().to_owned()).await.unwrap_err());
        assert!(refused.contains("another command or a node uses it"), "{refused}");
        assert!(unfinished.exists());
        drop(lock);
        LocalStore::open(folder.path().to_owned()).await.unwrap();
        assert!(!unfinished.exists(), "leftovers are removed");
    }

    #[test]
    fn rejected_token_is_reported_with_a_hint() {
        let text_of = |status, message: &str| {
            let refused = ClientError::Refused { status, message: message.to_owned() };
            with_advice(anyhow::Error::new(refused).context("cannot list functions")).to_string()
        };
        let text = |status| text_of(status, "no");
        assert!(
            text_of(401, "Missing API key")
                .ends_with("\nhint: check that the address is that of a head")
        );
        assert!(text(401).ends_with(": no\nhint: set TRIPTYCH_REST_TOKEN to the head's token"));
        assert_eq!(text(404), "cannot list functions");
    }
}
