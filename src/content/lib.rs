//! The function store: functions in a directory, each under a content id that verifies it.
//!
//! A function is one module, or a directory of files with modules at its top. Its id is the CID that
//! `ipfs add --cid-version=1 --raw-leaves` prints: of a raw block for a module of at most 256 KiB, of a
//! tree of blocks for anything else. A module of any size can also be identified by the id that it would
//! have as one raw block. A module that was added is found by either id. For the ids that b7s derives
//! from addresses, see `install.rs`.
//!
//! `<folder>/<id>/<method>` contains a module that is one block, `<folder>/<id>/content.car` the blocks
//! of anything else, and `<folder>/<id>.json` the record, which is written last. All are written by
//! rename, so that a function is complete or absent after a crash. Content is verified whenever it is
//! read from disk or received. Content that does not match its id is removed or rejected, and fetched
//! when it is next needed (see `fetch.rs`).
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use content::Functions;
//! let functions = Functions::open("functions".into()).await?;
//! let module = std::fs::read("hello.wasm")?;
//! let hello = functions.add("hello.wasm".parse()?, module).await?;
//! println!("{}", hello.id);
//! # Ok(())
//! # }
//! ```

mod archive;
mod car;
mod contents;
mod dag;
mod dag_pb;
mod error;
mod fetch;
mod files;
mod gateway;
mod http;
mod install;
mod kept;
mod manifest;
mod pack;
mod peers;
mod read_path;
mod turns;
mod varint;
mod verify;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use model::function::{FunctionId, Method};
use parking_lot::{Mutex, RwLock};
use task::cache::{Cache, Capacity};
use task::file::UNFINISHED_PREFIX;
use task::private::create_folder;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tracing::{info, warn};
use wire::functions::{FileBody, FunctionBody, FunctionDetail};

use self::contents::Contents;
use self::dag::Dag;
pub use self::error::{ContentError, FunctionsError};
pub use self::fetch::{Crowded, FetchError};
use self::fetch::{FetchLocks, FetchTurns};
use self::files::{FunctionFiles, ScanResult, ScannedFunction};
use self::gateway::GATEWAYS_MAX;
pub use self::gateway::{GATEWAYS_DEFAULT, Gateway, GatewayError};
use self::http::WebReader;
pub use self::http::{Hosts, WebError};
pub use self::install::{InstallError, usual_address};
use self::kept::{Custody, Index, Removed};
pub use self::kept::{Requester, StoreLimits, Usage};
pub use self::peers::{Answer, AnswerHead, AnswerLimits, AskError, FUNCTION_PROTOCOL, Peers};
pub use self::turns::duration_at_min_rate;
use self::verify::VerifiedFunction;
pub use self::verify::{Function, Kind, NameHints};

/// Maximum size of a function. Interpreters compiled to WebAssembly have some 30 MiB, or some hundred
/// with their libraries.
pub const FUNCTION_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Maximum size of an archive of blocks (CAR): the largest content in 256 or more parts, with space for
/// the nodes above them.
pub const CAR_BYTES_MAX: usize = FUNCTION_BYTES_MAX + 4 * 1024 * 1024;

/// Default maximum number of stored functions. Each function needs a record in memory. If there are more
/// functions, some are evicted.
pub const FUNCTIONS_MAX: usize = 10_000;

/// Default maximum size of all stored functions in bytes. If the size is exceeded, functions are
/// evicted, since any peer can make a worker fetch functions.
pub const STORE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// Limits of the verified functions that are cached in memory, so that a run need not verify them again.
/// The cache holds all demo functions many times over, or one of the largest modules.
pub const LOADED: Capacity = Capacity { n_values_max: FUNCTIONS_MAX, bytes_max: 128 * 1024 * 1024 };

/// First bytes of a WebAssembly module.
const MAGIC: &[u8] = b"\0asm";

/// Sources of functions in addition to peers, and limits of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// IPFS gateways, asked one after the other for functions that no peer has.
    pub gateways: Vec<Gateway>,
    /// Hosts that addresses of manifests and archives may name.
    pub hosts: Hosts,
    /// Hosts that are permitted regardless of their IP addresses, in addition to gateways.
    pub allowed_hosts: BTreeSet<String>,
    /// True if only functions with a CID can be installed.
    pub requires_cid: bool,
    /// Limits of the store. Functions are evicted when a limit is exceeded.
    pub limits: StoreLimits,
}

/// A module that was read from a path on this machine without storing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModule {
    /// Name of the module.
    pub method: Method,
    /// The module; `None` if the directory does not have it.
    pub module: Option<Bytes>,
    /// True if the module is in a directory.
    pub is_folder: bool,
}

/// A function in the form in which it is uploaded to a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Manifest and content id of the function.
    pub function: Function,
    /// Blocks, as a CAR of version 1.
    pub car: Bytes,
}

/// A use of a function that has to be saved: see [`Functions::note_use`].
#[derive(Debug)]
pub struct FunctionUse((Function, Custody));

/// Handle of the store. Clones share one directory.
#[derive(Debug, Clone)]
pub struct Functions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: FunctionFiles,
    kept: RwLock<Index>,
    /// Locked while files and index are changed, so that they agree.
    changing: Mutex<()>,
    loaded: Cache<FunctionId, Contents>,
    /// Locks of functions that are being fetched, so that each function is fetched once. Unnamed peers
    /// have their own locks, so that other fetches do not wait for a source that such a peer chose.
    fetch_locks: Mutex<FetchLocks>,
    turns: FetchTurns,
    gateways: Vec<Gateway>,
    requires_cid: bool,
    web: WebReader,
    /// Notified when a function is stored or removed.
    changed: Notify,
}

impl Functions {
    /// Opens the store in `folder`, creating it if necessary, and verifies all contents. Damaged
    /// functions are removed. Peers are the only source.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the directory cannot be created or read.
    pub async fn open(folder: PathBuf) -> Result<Self, FunctionsError> {
        Self::open_with(folder, SourceOptions::default()).await
    }

    /// Like [`Self::open`], with further sources.
    ///
    /// # Errors
    /// Same as [`Self::open`].
    pub async fn open_with(
        folder: PathBuf,
        sources: SourceOptions,
    ) -> Result<Self, FunctionsError> {
        let SourceOptions { mut gateways, hosts, allowed_hosts, requires_cid, limits } = sources;
        gateways.truncate(GATEWAYS_MAX);
        let files = FunctionFiles::new(folder);
        let scanning = files.clone();
        let found = blocking(move || scanning.scan()).await?;
        info!(functions = found.functions.len(), "opened the function store");
        let trusted = gateways.iter().filter_map(Gateway::host).chain(allowed_hosts).collect();
        let store = Self(Arc::new(Inner {
            files,
            kept: RwLock::new(Index::new(limits)),
            changing: Mutex::default(),
            loaded: Cache::new(LOADED),
            fetch_locks: Mutex::default(),
            turns: FetchTurns::default(),
            gateways,
            requires_cid,
            web: WebReader::new(hosts, trusted),
            changed: Notify::new(),
        }));
        let filling = store.clone();
        blocking(move || filling.fill(found)).await?;
        Ok(store)
    }

    /// Adds the scanned functions to the index. Deletes functions that exceed the limits.
    fn fill(&self, found: ScanResult) -> Result<(), FunctionsError> {
        let mut kept = self.0.kept.write();
        for ScannedFunction { function, raw_id, custody, .. } in found.functions {
            kept.insert(function, raw_id, custody);
        }
        for address in found.addresses {
            let id = address.id;
            // An address is useless without its function.
            if !kept.insert_address(address) {
                self.0.files.delete_address(id)?;
            }
        }
        let removed = kept.trim();
        drop(kept);
        self.delete(&removed)
    }

    /// Durably stores a module under the file name `method` and pins it. Returns the function with its
    /// content id. A module that is already stored gets the new name. Cancel-safe.
    ///
    /// # Errors
    /// [`FunctionsError::NotModule`], [`FunctionsError::Content`] if the module is too large,
    /// [`FunctionsError::Full`], or [`FunctionsError::Files`].
    pub async fn add(
        &self,
        method: Method,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<Function, FunctionsError> {
        self.add_named(None, method, bytes).await
    }

    /// Same as [`Self::add`], but the function is called `name`. By default, the name of its method.
    ///
    /// # Errors
    /// Same as [`Self::add`].
    pub async fn add_named(
        &self,
        name: Option<String>,
        method: Method,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<Function, FunctionsError> {
        let bytes = Bytes::from_owner(bytes.into());
        let checked = blocking(move || VerifiedFunction::of_file(name, method, &bytes)).await?;
        self.keep(checked, Requester::Operator).await
    }

    /// Stores and pins the function in `car`, which has one root. `names` are hints. Missing names are
    /// derived from the content.
    ///
    /// # Errors
    /// [`FunctionsError::Content`] if the blocks are not a valid function, or same as [`Self::add`].
    pub async fn add_car(&self, names: NameHints, car: Bytes) -> Result<Function, FunctionsError> {
        let checked = blocking(move || {
            let dag = Dag::read_any(&car)?;
            VerifiedFunction::of_dag(names, dag, FUNCTION_BYTES_MAX)
        });
        self.keep(checked.await?, Requester::Operator).await
    }

    /// Packs the module or directory at `path` for an upload, with the id that `ipfs add -r
    /// --cid-version=1 --raw-leaves` prints. Hidden files are omitted.
    ///
    /// # Errors
    /// Same as [`Self::add`], [`FunctionsError::Content`] for content that functions cannot have,
    /// or [`FunctionsError::Files`] if it cannot be read.
    pub async fn pack_path(path: &Path) -> Result<Upload, FunctionsError> {
        let path = path.to_owned();
        blocking(move || VerifiedFunction::of_path(&path).map(VerifiedFunction::upload)).await
    }

    /// Returns the module at `path`, or the module `method` of the directory at `path`, without storing
    /// it. If `files_to` is given, the files of the function are written to that directory, as a worker
    /// would do.
    ///
    /// # Errors
    /// Same as [`Self::pack_path`], or [`FunctionsError::Files`] if the files cannot be written.
    pub async fn read_module(
        path: &Path,
        method: Option<Method>,
        files_to: Option<PathBuf>,
    ) -> Result<LocalModule, FunctionsError> {
        let path = path.to_owned();
        blocking(move || {
            let checked = VerifiedFunction::of_path(&path)?;
            let is_folder = checked.contents.folder().is_some();
            let method = method.unwrap_or_else(|| checked.function.method.clone());
            // A single module can be called by any name.
            let name = if is_folder { &method } else { &checked.function.method };
            let module = checked.contents.module(name);
            if let Some(to) = files_to {
                write_files(&checked.contents, &to)?;
            }
            Ok(LocalModule { method, module, is_folder })
        })
        .await
    }

    /// Removes a function and its content. Returns true if the function was stored.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if its content cannot be deleted.
    pub async fn remove(&self, id: FunctionId) -> Result<bool, FunctionsError> {
        let store = self.clone();
        blocking(move || {
            let _changing = store.0.changing.lock();
            let id = store.resolve_id(id);
            let removed = store.0.kept.write().remove(id);
            store.delete(removed.as_slice()).map(|()| removed.is_some())
        })
        .await
    }

    /// Removes all functions that are not pinned. Returns their number and size.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the content of a function cannot be deleted.
    pub async fn remove_unpinned(&self) -> Result<Usage, FunctionsError> {
        let store = self.clone();
        blocking(move || {
            let _changing = store.0.changing.lock();
            let removed = store.0.kept.write().remove_unpinned();
            let bytes = removed.iter().map(|removed| removed.bytes).sum();
            store.delete(&removed)?;
            Ok(Usage { functions: removed.len(), bytes })
        })
        .await
    }

    /// Returns the number and size of stored functions.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.kept.read().total()
    }

    /// Records that `requester` uses function `id`, for a run or otherwise, which postpones its
    /// eviction. A named peer becomes the requester of a function that was fetched for another peer.
    /// Returns a value to be passed to [`Self::save`], if the use has to be saved.
    #[must_use]
    pub fn note_use(
        &self,
        id: FunctionId,
        requester: &Requester,
        is_run: bool,
    ) -> Option<FunctionUse> {
        self.0.kept.write().note_use(id, requester, is_run).map(FunctionUse)
    }

    /// Saves a use of a function, so that the order of eviction survives a restart.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be written.
    pub async fn save(&self, noted: FunctionUse) -> Result<(), FunctionsError> {
        let (store, FunctionUse((function, custody))) = (self.clone(), noted);
        blocking(move || {
            let _changing = store.0.changing.lock();
            // The function might have been evicted or changed in the meantime.
            if store.0.kept.read().custody(function.id) != Some(&custody) {
                return Ok(());
            }
            store.0.files.write_record(&function, &custody)
        })
        .await
    }

    /// Returns all functions, sorted by name and id.
    #[must_use]
    pub fn list(&self) -> Vec<Function> {
        let mut functions: Vec<Function> = self.0.kept.read().functions().cloned().collect();
        functions.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        functions
    }

    /// Returns the ids of the `n` functions that would be evicted last, starting with the very last.
    #[must_use]
    pub fn foremost(&self, n: usize) -> Vec<FunctionId> {
        self.0.kept.read().foremost(n)
    }

    /// Waits until a function is stored or removed. Supports one waiting caller. Cancel-safe.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Returns function `id`, if it is stored. The returned function has another id if `id` identifies
    /// its module as one raw block, or an install from an address.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> Option<Function> {
        self.0.kept.read().get(id).cloned()
    }

    /// Describes all functions, sorted by name, with the ids under which they were installed from
    /// manifests.
    #[must_use]
    pub fn bodies(&self) -> Vec<FunctionBody> {
        let listed = |function: Function| {
            let ids = self.0.kept.read().ids_by_manifest(function.id);
            let by_manifest = ids.iter().map(ToString::to_string).collect();
            FunctionBody { by_manifest, ..function.body() }
        };
        self.list().into_iter().map(listed).collect()
    }

    /// Returns the verified default module of a function, or `None` if it is not stored or damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn content(&self, id: FunctionId) -> Result<Option<Bytes>, FunctionsError> {
        let Some(function) = self.get(id) else { return Ok(None) };
        self.module(function.id, &function.method).await
    }

    /// Returns the verified module `method` of function `id`, or `None` if it is missing, not stored, or
    /// damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn module(
        &self,
        id: FunctionId,
        method: &Method,
    ) -> Result<Option<Bytes>, FunctionsError> {
        Ok(self.contents(id).await?.and_then(|contents| contents.module(method)))
    }

    /// Returns function `id` with its files, or `None` if it is not stored or damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn detail(&self, id: FunctionId) -> Result<Option<FunctionDetail>, FunctionsError> {
        let Some(function) = self.get(id) else { return Ok(None) };
        let Some(contents) = self.contents(id).await? else { return Ok(None) };
        let files = match contents.folder() {
            None => vec![FileBody {
                path: function.method.to_string(),
                bytes: function.size_bytes,
                runs: true,
            }],
            Some(folder) => folder
                .iter()
                .map(|file| FileBody {
                    path: file.path.clone(),
                    bytes: file.bytes.len() as u64,
                    runs: contents::is_runnable(file),
                })
                .collect(),
        };
        Ok(Some(FunctionDetail { function: function.body(), files }))
    }

    /// If function `id` is a directory, creates the directory `to` with its files, unless it exists.
    /// Returns true if the function is stored and intact. `to` is complete even if the future is dropped.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if they cannot be read or written.
    pub async fn write_to(&self, id: FunctionId, to: PathBuf) -> Result<bool, FunctionsError> {
        let Some(contents) = self.contents(id).await? else { return Ok(false) };
        blocking(move || write_files(&contents, &to).map(|()| true)).await
    }

    /// Returns function `id` in the form of an upload, or `None` if it is not stored or damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn upload(&self, id: FunctionId) -> Result<Option<Upload>, FunctionsError> {
        Ok(self.read(id).await?.map(VerifiedFunction::upload))
    }

    async fn contents(&self, id: FunctionId) -> Result<Option<Contents>, FunctionsError> {
        let id = self.resolve_id(id);
        if let Some(contents) = self.0.loaded.get(&id) {
            return Ok(Some(contents));
        }
        let Some(checked) = self.read(id).await? else { return Ok(None) };
        let contents = checked.contents;
        self.0.loaded.put(id, contents.clone(), contents.size_bytes());
        Ok(Some(contents))
    }

    /// Reads a function from disk. Removes the function if it is damaged.
    async fn read(&self, id: FunctionId) -> Result<Option<VerifiedFunction>, FunctionsError> {
        let Some(function) = self.get(id) else { return Ok(None) };
        let (files, reading) = (self.0.files.clone(), function.clone());
        let read = blocking(move || files.read(&reading)).await?;
        if read.is_none() {
            warn!(function = %function.id, "removed a function whose content does not match its id");
            self.remove(function.id).await?;
        }
        Ok(read)
    }

    /// Stores a function on behalf of `requester`, evicting other functions if necessary.
    async fn keep(
        &self,
        checked: VerifiedFunction,
        requester: Requester,
    ) -> Result<Function, FunctionsError> {
        let store = self.clone();
        blocking(move || {
            let _changing = store.0.changing.lock();
            let VerifiedFunction { function, bytes, raw_id, .. } = checked;
            let removed = store.0.kept.write().make_room(&function, &requester)?;
            if !removed.is_empty() {
                info!(function = %function.id, evicted = removed.len(), "evicted functions for a new one");
            }
            store.delete(&removed)?;
            let custody = Custody { requester, has_run: false };
            let custody = store.0.kept.read().merged(function.id, custody);
            store.0.files.write(&function, &bytes, &custody)?;
            store.0.kept.write().insert(function.clone(), raw_id, custody);
            store.0.changed.notify_one();
            Ok(function)
        })
        .await
    }

    /// Records that `requester` uses a stored function other than by a run. The operator or a named peer
    /// becomes the function's requester if its claim ranks above the claim of the current requester.
    async fn claim(&self, id: FunctionId, requester: &Requester) -> Result<(), FunctionsError> {
        match self.note_use(id, requester, false) {
            Some(noted) => self.save(noted).await,
            None => Ok(()),
        }
    }

    /// Deletes the files of functions that were removed from the index. Blocks.
    fn delete(&self, removed: &[Removed]) -> Result<(), FunctionsError> {
        for Removed { id, addresses, .. } in removed {
            self.0.loaded.remove(id);
            for address in addresses {
                self.0.files.delete_address(*address)?;
            }
            self.0.files.delete(*id)?;
        }
        if !removed.is_empty() {
            self.0.changed.notify_one();
        }
        Ok(())
    }

    /// Returns the id under which a function is stored. `id` can be any of its ids.
    fn resolve_id(&self, id: FunctionId) -> FunctionId {
        self.0.kept.read().resolve(id)
    }
}

/// Creates the directory `to` with the files of a directory. No effect for a single module.
fn write_files(contents: &Contents, to: &Path) -> Result<(), FunctionsError> {
    let Some(files) = contents.folder() else { return Ok(()) };
    let parent = to.parent().unwrap_or(to);
    let draft = create_folder(parent)
        .and_then(|()| tempfile::Builder::new().prefix(UNFINISHED_PREFIX).tempdir_in(parent))
        .map_err(error::file_error("write", parent))?;
    for file in files {
        // The path was checked together with the content, so it stays within the directory.
        let path = draft.path().join(&file.path);
        let folder = path.parent().unwrap_or(draft.path());
        create_folder(folder)
            .and_then(|()| fs::write(&path, &file.bytes))
            .map_err(error::file_error("write", &path))?;
    }
    match fs::rename(draft.path(), to) {
        Err(_) if to.is_dir() => Ok(()),
        renamed => renamed.map_err(error::file_error("write", to)),
    }
}

/// Runs work that blocks on files or processes large contents outside of async tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FunctionsError> + Send + 'static,
) -> Result<T, FunctionsError> {
    spawn_blocking(work).await.unwrap_or(Err(FunctionsError::Stopped))
}

#[cfg(test)]
mod tests;
