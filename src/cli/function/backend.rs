//! Where functions are stored: at the head of a cluster, or on this machine.

use std::{fmt, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, bail};
use clap::Args;
use client::{functions::Functions as Head, transport::Transport};
use content::{Function, Functions, NameHints, Upload, Usage};
use model::function::FunctionId;
use stack::{
    data_dir::{lock_folder, project_dirs},
    running::find_running,
};
use task::{lock::Lock, wait};
use wire::functions::{EvictRequest, EvictedBody, FunctionBody, FunctionDetail};

use super::progress::with_progress;
use crate::cli::config::{self, AddressFlags};

/// The environment variable that names the head where no flag does.
const HEAD_VARIABLE: &str = "TRIPTYCH_HEAD";

/// The environment variable that names the profile where no flag does.
const PROFILE_VARIABLE: &str = "TRIPTYCH_PROFILE";

/// How long a command waits for another that uses the same store: longer than a large function takes
/// to be checked and written. A node lets go of its store when it stops.
const LOCK_WITHIN: Duration = Duration::from_secs(10);

/// What a head answers where it holds no function of an id, or remembers no execution.
pub(crate) const NOT_FOUND: u16 = 404;

/// The heading of these flags in the help.
const WHERE: &str = "Where functions are";

/// The flags that name a head.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WHERE)]
pub(crate) struct HeadFlags {
    /// The head of the cluster, such as `http://127.0.0.1:8080` [default: that of `TRIPTYCH_HEAD`,
    /// else the profile's, else that of the local stack that runs]
    #[arg(long, value_name = "URL")]
    head: Option<String>,
    /// The profile of the configuration file to take the head from [default: `TRIPTYCH_PROFILE`]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

/// What is to be run.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A function that is kept.
    Kept(FunctionId),
    /// A module or folder of this machine.
    Path(PathBuf),
}

/// The flags that name a head, or a folder of this machine.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = WHERE)]
pub(super) struct BackendFlags {
    #[command(flatten)]
    head: HeadFlags,
    /// Mean this machine, whatever head is configured
    #[arg(long, conflicts_with_all = ["head", "profile"])]
    local: bool,
    /// The function store on this machine to use, not that of a node that runs [default: this
    /// user's]
    #[arg(long, value_name = "DIR", conflicts_with_all = ["head", "profile"])]
    function_db: Option<PathBuf>,
}

/// A store of this machine, which no other command uses meanwhile.
#[derive(Debug)]
pub(super) struct LocalStore {
    pub(super) functions: Functions,
    folder: PathBuf,
    /// Locked. The system unlocks it when the process ends, however it ends.
    _lock: Option<Lock>,
}

/// Where functions are stored.
#[derive(Debug)]
pub(super) enum FunctionBackend {
    Head(Head),
    Local(LocalStore),
}

impl HeadFlags {
    /// The head that the flags, the environment or a profile name.
    ///
    /// # Errors
    /// If none does, or what they name is no address.
    pub(crate) fn connect(self) -> anyhow::Result<Head> {
        match self.address()? {
            Some(address) => connect(&address),
            None => bail!("find a head to ask: name one with --head URL, or in {HEAD_VARIABLE}"),
        }
    }

    fn address(self) -> anyhow::Result<Option<String>> {
        let head = self.head.map_or_else(|| config::variable(HEAD_VARIABLE), |it| Ok(Some(it)))?;
        let profile =
            self.profile.map_or_else(|| config::variable(PROFILE_VARIABLE), |it| Ok(Some(it)))?;
        let flags =
            AddressFlags { heads: head.into_iter().collect(), profile, ..AddressFlags::default() };
        match config::profile(flags)? {
            None => Ok(find_running().and_then(|stack| stack.heads.into_iter().next())),
            Some(profile) => Ok(profile.heads.into_iter().next()),
        }
    }
}

impl BackendFlags {
    /// The head that is meant, or none where this machine is.
    ///
    /// # Errors
    /// If what is named is no head's address.
    pub(super) fn head(&self) -> anyhow::Result<Option<Head>> {
        if self.local || self.function_db.is_some() {
            return Ok(None);
        }
        self.head.clone().address()?.map(|address| connect(&address)).transpose()
    }

    /// The store of this machine that is meant.
    ///
    /// # Errors
    /// If its folder cannot be used.
    pub(super) async fn store(self) -> anyhow::Result<LocalStore> {
        LocalStore::open(match self.function_db {
            Some(folder) => folder,
            None => project_dirs()?.data_local_dir().join("functions"),
        })
        .await
    }

    /// Opens the backend that the flags name.
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
        fs::create_dir_all(&folder).with_context(|| format!("make {shown}"))?;
        let locking = wait::until(LOCK_WITHIN, || async {
            match lock_folder(&folder) {
                Ok(None) => Err("another command, or a node that runs, uses it"),
                done => Ok(done),
            }
        });
        let waiting = format!("waiting for the process that uses {shown}");
        let lock = with_progress(&waiting, locking).await;
        let lock = lock.with_context(|| format!("have the function store {shown} alone"))??;
        let opening = Functions::open(folder.clone());
        let opened = with_progress(&format!("checking the functions in {shown}"), opening).await;
        let functions = opened.with_context(|| format!("open the function store {shown}"))?;
        Ok(Self { functions, folder, _lock: lock })
    }
}

impl FunctionBackend {
    /// Keeps a function.
    ///
    /// # Errors
    /// If it is refused.
    pub(super) async fn add(&self, upload: Upload) -> anyhow::Result<FunctionBody> {
        match self {
            Self::Head(head) => self::upload(head, upload).await,
            Self::Local(store) => {
                let Upload { function: Function { name, method, .. }, car } = upload;
                let added = store
                    .functions
                    .add_car(NameHints { name: Some(name.clone()), method: Some(method) }, car)
                    .await;
                Ok(added.with_context(|| format!("keep {name}"))?.body())
            }
        }
    }

    /// Returns all functions, by name.
    ///
    /// # Errors
    /// Those of a broken line to a head.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<FunctionBody>> {
        match self {
            Self::Head(head) => head.functions().await.context("list the functions of the head"),
            Self::Local(store) => Ok(store.functions.bodies()),
        }
    }

    /// Returns a function with its files.
    ///
    /// # Errors
    /// If it is not held.
    pub(super) async fn show(&self, id: FunctionId) -> anyhow::Result<FunctionDetail> {
        match self {
            Self::Head(head) => match head.function(id).await {
                Err(error) if error.status() == Some(NOT_FOUND) => bail!(self.missing(id)),
                answer => answer.with_context(|| format!("look up function {id}")),
            },
            Self::Local(store) => {
                let detail = store.functions.detail(id).await.context("read a function")?;
                detail.with_context(|| self.missing(id))
            }
        }
    }

    /// Forgets a function, and returns its name.
    ///
    /// # Errors
    /// If it is not held.
    pub(super) async fn remove(&self, id: FunctionId) -> anyhow::Result<String> {
        match self {
            Self::Head(head) => match head.remove(id).await {
                Err(error) if error.status() == Some(NOT_FOUND) => bail!(self.missing(id)),
                answer => Ok(answer.with_context(|| format!("remove function {id}"))?.name),
            },
            Self::Local(store) => {
                let function = store.functions.get(id).with_context(|| self.missing(id))?;
                let removed = store.functions.remove(function.id).await;
                removed.with_context(|| format!("remove function {id}"))?;
                Ok(function.name)
            }
        }
    }

    /// Removes function `id` from the stores of the workers or from that of this machine, or all functions
    /// that are not pinned. Returns what each store did.
    ///
    /// # Errors
    /// If the head refuses, or the store cannot delete.
    pub(super) async fn evict(&self, id: Option<FunctionId>) -> anyhow::Result<Vec<EvictedBody>> {
        let store = match self {
            Self::Head(head) => {
                let cid = id.map(|id| id.to_string()).unwrap_or_default();
                let request = EvictRequest { all: cid.is_empty(), cid };
                return head.evict(&request).await.context("evict functions");
            }
            Self::Local(store) => &store.functions,
        };
        let usage = match id {
            None => store.remove_unpinned().await.context("evict functions")?,
            Some(id) => {
                let function = store.get(id).with_context(|| self.missing(id))?;
                let removed = store.remove(function.id).await;
                removed.with_context(|| format!("evict function {id}"))?;
                Usage { functions: 1, bytes: function.kept_bytes }
            }
        };
        let (peer_id, left) = (self.to_string(), store.usage().functions);
        let Usage { functions, bytes } = usage;
        Ok(vec![EvictedBody { peer_id, functions, bytes, left, message: String::new() }])
    }

    fn missing(&self, id: FunctionId) -> String {
        format!("find function {id} in {self}")
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

/// Gives `head` a function, and returns what it is known by there.
///
/// # Errors
/// If the head refuses it, or takes it for another.
pub(super) async fn upload(head: &Head, upload: Upload) -> anyhow::Result<FunctionBody> {
    let Upload { function, car } = upload;
    let sending = format!("sending {} bytes to {}", car.len(), head.address());
    let uploading = head.upload(&function.name, function.method.as_str(), car.to_vec());
    let added = with_progress(&sending, uploading).await;
    let added = added.with_context(|| format!("give {} to the head", function.name))?;
    if added.function_id != function.id.to_string() {
        bail!(
            "give {} to the head: it took {} for {}",
            function.name,
            function.id,
            added.function_id
        );
    }
    Ok(added)
}

/// Asks `head` for function `id`; `None` where it does not have it.
///
/// # Errors
/// Those of a broken line, and refusals for other reasons.
pub(super) async fn find_function(
    head: &Head,
    id: FunctionId,
) -> anyhow::Result<Option<FunctionBody>> {
    match head.function(id).await {
        Ok(detail) => Ok(Some(detail.function)),
        // Existing heads do not tell what they hold.
        Err(error) if error.status() == Some(NOT_FOUND) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("look up function {id}")),
    }
}

fn connect(address: &str) -> anyhow::Result<Head> {
    let transport = Transport::new(address, None).context("use the head")?;
    Ok(Head::new(transport.with_token(config::head_token()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_a_node_uses_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let unfinished = folder.path().join(".triptych-unfinished-1");
        fs::write(&unfinished, b"").unwrap();
        let lock = lock_folder(folder.path()).unwrap();
        let refused =
            format!("{:#}", LocalStore::open(folder.path().to_owned()).await.unwrap_err());
        assert!(refused.contains("or a node that runs, uses it"), "{refused}");
        assert!(unfinished.exists());
        drop(lock);
        LocalStore::open(folder.path().to_owned()).await.unwrap();
        assert!(!unfinished.exists(), "what nobody writes any more is cleared away");
    }
}
