//! The function store: functions in a folder, each under the content id that proves it.
//!
//! A function is one module or a folder of files with modules at its top. Its id is the CID that
//! `ipfs add --cid-version=1 --raw-leaves` prints for it: of a raw block for a module of at most 256
//! KiB, of a tree of blocks for anything else. A module of any size is also taken by the id of one
//! raw block, which proves it as well; one that was added answers to both. Of the ids that b7s makes
//! of addresses, see `install.rs`.
//!
//! `<folder>/<id>/<method>` holds a module that is one block, `<folder>/<id>/content.car` the blocks
//! of anything else, and `<folder>/<id>.json` the record, written last. All are put in place by a
//! rename, so a crash leaves a function whole or absent. Content is checked against its id whenever
//! it is read from disk or arrives from wherever; what does not match is removed or refused, and
//! fetched when it is next needed (see `fetch.rs`). Absent on purpose: what runs functions.

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
mod single_flight;
mod turns;
mod varint;
mod verify;

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use model::function::{FunctionId, Method};
use parking_lot::{Mutex, RwLock};
use task::cache::{Cache, Capacity};
use tokio::{sync::Notify, task::spawn_blocking};
use tracing::{info, warn};
use wire::functions::{FileBody, FunctionBody, FunctionDetail};

use self::{
    contents::Contents,
    dag::Dag,
    fetch::FetchTurns,
    files::{FunctionFiles, ScanResult, ScannedFunction},
    gateway::GATEWAYS_MAX,
    http::WebReader,
    kept::{Custody, Index, Removed},
    single_flight::FlightKey,
    verify::VerifiedFunction,
};
pub use self::{
    error::{ContentError, FunctionsError},
    fetch::FetchError,
    gateway::{GATEWAYS_DEFAULT, Gateway, GatewayError},
    http::{Hosts, WebError},
    install::{InstallError, usual_address},
    kept::{Requester, StoreLimits, Usage},
    peers::{Answer, AnswerHead, AnswerLimits, AskError, FUNCTION_PROTOCOL, Peers},
    verify::{Function, Kind, NameHints},
};

/// The largest content kept, in bytes. Interpreters compiled to WebAssembly have some 30 MiB, with
/// their libraries some hundred.
pub const FUNCTION_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The largest archive of blocks (CAR) taken, in bytes: the largest content, in 256 pieces or more,
/// and room for the nodes above them.
pub const CAR_BYTES_MAX: usize = FUNCTION_BYTES_MAX + 4 * 1024 * 1024;

/// Default maximum number of kept functions. Each costs a record in memory. One more evicts another.
pub const FUNCTIONS_MAX: usize = 10_000;

/// Default maximum size of all kept functions, in bytes, since any peer may have a worker fetch
/// functions. Content that would not fit evicts other content.
pub const STORE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// What is held in memory of functions that were read and checked, so that each run need not do it
/// again: the demo functions many times over, or one of the largest modules.
pub const LOADED: Capacity = Capacity { n_values_max: FUNCTIONS_MAX, bytes_max: 128 * 1024 * 1024 };

/// What a WebAssembly module begins with.
const MAGIC: &[u8] = b"\0asm";

/// Where functions come from, beside the machine itself and peers, and how many are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// IPFS gateways that are asked in turn for what no peer gives. None is asked where there are
    /// none.
    pub gateways: Vec<Gateway>,
    /// Which hosts addresses may name that others give: those of manifests and archives.
    pub hosts: Hosts,
    /// Hosts that may be asked whatever their addresses are, next to those of gateways.
    pub allowed_hosts: BTreeSet<String>,
    /// Whether only what a CID proves is installed, and nothing by a manifest alone.
    pub requires_cid: bool,
    /// Limits of the store, past which functions are evicted.
    pub limits: StoreLimits,
}

/// A module of this machine that is kept nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModule {
    /// What it is called.
    pub method: Method,
    /// The module; none if the folder has none of that name.
    pub module: Option<Bytes>,
    /// Whether it is one file of a folder.
    pub is_folder: bool,
}

/// A function in the form in which it is handed to a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// What it is.
    pub function: Function,
    /// Its blocks, as a CAR of version 1.
    pub car: Bytes,
}

/// A use of a function that is to be saved: see [`Functions::note_use`].
#[derive(Debug)]
pub struct FunctionUse((Function, Custody));

/// Handle to the store. Cheap to clone; all clones share one folder.
#[derive(Debug, Clone)]
pub struct Functions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: FunctionFiles,
    kept: RwLock<Index>,
    /// Held by whoever changes files and index, so that both agree.
    changing: Mutex<()>,
    loaded: Cache<FunctionId, Contents>,
    /// One lock for each function being fetched, so that it is fetched once. Unnamed peers have locks
    /// of their own: nobody else waits for a fetch that was asked of a peer they chose.
    flights: Mutex<HashMap<FlightKey, Arc<tokio::sync::Mutex<()>>>>,
    turns: FetchTurns,
    gateways: Vec<Gateway>,
    requires_cid: bool,
    web: WebReader,
    /// Rung when a function is kept or forgotten.
    changed: Notify,
}

impl Functions {
    /// Opens the store in `folder`, which is made if need be, and checks every content in it. What
    /// is damaged is removed. Peers are its only source.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the folder cannot be made or read.
    pub async fn open(folder: PathBuf) -> Result<Self, FunctionsError> {
        Self::open_with(folder, SourceOptions::default()).await
    }

    /// Opens the store as [`Self::open`] does, with further sources.
    ///
    /// # Errors
    /// As [`Self::open`].
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
            flights: Mutex::new(HashMap::new()),
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

    /// Takes over what a scan found, and deletes what exceeds the limits.
    fn fill(&self, found: ScanResult) -> Result<(), FunctionsError> {
        let mut kept = self.0.kept.write();
        for ScannedFunction { function, whole, custody, .. } in found.functions {
            kept.insert(function, whole, custody);
        }
        for address in found.addresses {
            let id = address.id;
            // Without its function, an address is of no use.
            if !kept.insert_address(address) {
                self.0.files.delete_address(id)?;
            }
        }
        let removed = kept.trim();
        drop(kept);
        self.delete(&removed)
    }

    /// Keeps a module under the file name `method`, durably and pinned, and returns it with its content
    /// id. A module that is kept already takes the new name. Cancel-safe.
    ///
    /// # Errors
    /// [`FunctionsError::NotModule`], [`FunctionsError::TooLarge`], [`FunctionsError::Full`], or
    /// [`FunctionsError::Files`].
    pub async fn add(
        &self,
        method: Method,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<Function, FunctionsError> {
        let bytes = Bytes::from_owner(bytes.into());
        let checked = blocking(move || VerifiedFunction::of_file(method, &bytes)).await?;
        self.keep(checked, Requester::Operator).await
    }

    /// Keeps the function whose blocks are in `car`, which has one root, pinned, and returns it. `names`
    /// are hints; a name that is missing is taken from the content.
    ///
    /// # Errors
    /// [`FunctionsError::Content`] if the blocks do not prove a function, and as [`Self::add`].
    pub async fn add_car(&self, names: NameHints, car: Bytes) -> Result<Function, FunctionsError> {
        let label = NameHints { name: names.name.filter(|name| !name.is_empty()), ..names };
        let checked = blocking(move || {
            let dag = Dag::read_any(&car)?;
            VerifiedFunction::of_dag(label, dag)
        });
        self.keep(checked.await?, Requester::Operator).await
    }

    /// Returns the module or the folder at `path`, ready to be handed to a head, under its name there,
    /// with the id that `ipfs add -r --cid-version=1 --raw-leaves` prints. What is hidden is left out.
    ///
    /// # Errors
    /// As [`Self::add`], [`FunctionsError::Content`] for what functions may not hold, and
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn pack_path(path: &Path) -> Result<Upload, FunctionsError> {
        let path = path.to_owned();
        blocking(move || VerifiedFunction::of_path(&path).map(VerifiedFunction::upload)).await
    }

    /// Returns the module at `path`, or of the folder there the one that `method` names. Nothing is
    /// kept. The files of a folder are written into the folder `files_to`, if it is given, as a worker
    /// lays them out.
    ///
    /// # Errors
    /// As [`Self::pack_path`], and [`FunctionsError::Files`] if the files cannot be written.
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
            // A module that stands alone goes by any name.
            let name = if is_folder { &method } else { &checked.function.method };
            let module = checked.contents.module(name);
            if let Some(to) = files_to {
                write_files(&checked.contents, &to)?;
            }
            Ok(LocalModule { method, module, is_folder })
        })
        .await
    }

    /// Forgets a function and deletes its content. Returns whether it was kept.
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

    /// Removes all functions that are not pinned, and returns how many those were.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the content of one cannot be deleted.
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

    /// Returns how many functions are kept, and their size.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.0.kept.read().total()
    }

    /// Records that `requester` uses function `id`, to run it or not, so that it is evicted later. A peer
    /// that the operator named takes over a function that was fetched for another one. Returns what is
    /// to be saved by [`Self::save`], if anything is.
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
            // It may have been evicted meanwhile.
            if store.0.kept.read().custody(function.id) != Some(&custody) {
                return Ok(());
            }
            store.0.files.write_record(&function, &custody)
        })
        .await
    }

    /// Returns all functions, by name and id.
    #[must_use]
    pub fn list(&self) -> Vec<Function> {
        let mut functions: Vec<Function> = self.0.kept.read().functions().cloned().collect();
        functions.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        functions
    }

    /// Returns the ids of at most `n` functions, those that are evicted last first.
    #[must_use]
    pub fn foremost(&self, n: usize) -> Vec<FunctionId> {
        self.0.kept.read().foremost(n)
    }

    /// Waits until a function is kept or forgotten, for one caller. Cancel-safe.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Returns the function `id` if it is kept. It may have another id of its own: that of its tree,
    /// where `id` is that of the whole module or of the address it came from.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> Option<Function> {
        self.0.kept.read().get(id).cloned()
    }

    /// Describes all functions, by name, with the ids that manifests gave them.
    #[must_use]
    pub fn bodies(&self) -> Vec<FunctionBody> {
        let listed = |function: Function| {
            let ids = self.0.kept.read().ids_by_manifest(function.id);
            let by_manifest = ids.iter().map(ToString::to_string).collect();
            FunctionBody { by_manifest, ..function.body() }
        };
        self.list().into_iter().map(listed).collect()
    }

    /// Returns the module that the function's own method names, checked, or none if the function is
    /// not kept or was damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn content(&self, id: FunctionId) -> Result<Option<Bytes>, FunctionsError> {
        let Some(function) = self.get(id) else { return Ok(None) };
        self.module(function.id, &function.method).await
    }

    /// Returns the module of function `id` that `method` names, checked, or none if there is none
    /// or the function is not kept or was damaged.
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

    /// Returns function `id` with its files, or none if it is not kept or was damaged.
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

    /// Writes the files of function `id`, which is a folder, into the folder `to`. Returns whether it
    /// is kept and whole.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if they cannot be read or written.
    pub async fn write_to(&self, id: FunctionId, to: PathBuf) -> Result<bool, FunctionsError> {
        let Some(contents) = self.contents(id).await? else { return Ok(false) };
        blocking(move || write_files(&contents, &to).map(|()| true)).await
    }

    /// Returns function `id` ready to be handed to a head, or none if it is not kept or was damaged.
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

    /// Reads a function from disk. One that is damaged is removed.
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

    /// Keeps a function on behalf of `requester`, and evicts others that stand in its way.
    async fn keep(
        &self,
        checked: VerifiedFunction,
        requester: Requester,
    ) -> Result<Function, FunctionsError> {
        let store = self.clone();
        blocking(move || {
            let _changing = store.0.changing.lock();
            let VerifiedFunction { function, bytes, whole, .. } = checked;
            let removed = store.0.kept.write().make_room(&function, &requester)?;
            if !removed.is_empty() {
                info!(function = %function.id, evicted = removed.len(), "evicted functions for a new one");
            }
            store.delete(&removed)?;
            let custody = Custody { requester, has_run: false };
            let custody = store.0.kept.read().merged(function.id, custody);
            store.0.files.write(&function, &bytes, &custody)?;
            store.0.kept.write().insert(function.clone(), whole, custody);
            store.0.changed.notify_one();
            Ok(function)
        })
        .await
    }

    /// Keeps a function that is kept already on behalf of `requester`, unless its claim is lower.
    async fn claim(&self, id: FunctionId, requester: &Requester) -> Result<(), FunctionsError> {
        match self.note_use(id, requester, false) {
            Some(noted) => self.save(noted).await,
            None => Ok(()),
        }
    }

    /// Deletes the files of functions that are no longer in the index. Blocks.
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

    /// The id under which a function is kept.
    fn resolve_id(&self, id: FunctionId) -> FunctionId {
        self.0.kept.read().resolve(id)
    }
}

/// Writes the files of a folder into the folder `to`; none of a function that is one module.
fn write_files(contents: &Contents, to: &Path) -> Result<(), FunctionsError> {
    for file in contents.folder().unwrap_or_default() {
        // The parts of the path were checked with the content: none leads elsewhere.
        let path = to.join(&file.path);
        let folder = path.parent().unwrap_or(to);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, &file.bytes))
            .map_err(error::file_error("write", &path))?;
    }
    Ok(())
}

/// Does work on files or much content away from the tasks that wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FunctionsError> + Send + 'static,
) -> Result<T, FunctionsError> {
    spawn_blocking(work).await.unwrap_or(Err(FunctionsError::Stopped))
}

#[cfg(test)]
mod tests;
