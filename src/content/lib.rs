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
mod manifest;
mod pack;
mod peers;
mod read_path;
mod single_flight;
mod varint;
mod verify;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use model::function::{FunctionId, Method};
use parking_lot::{Mutex, RwLock};
use task::cache::{Cache, Capacity};
use tokio::{
    sync::{Notify, Semaphore},
    task::spawn_blocking,
};
use tracing::{info, warn};
use wire::functions::{FileBody, FunctionBody, FunctionDetail};

use self::{
    contents::Contents,
    dag::Dag,
    fetch::FETCHES_MAX,
    files::{FunctionFiles, InstallSource},
    gateway::GATEWAYS_MAX,
    http::WebReader,
    verify::VerifiedFunction,
};
pub use self::{
    error::{ContentError, FunctionsError},
    fetch::FetchError,
    gateway::{GATEWAYS_DEFAULT, Gateway, GatewayError},
    http::{Hosts, WebError},
    install::{InstallError, usual_address},
    peers::{Answer, AnswerHead, AnswerLimits, AskError, FUNCTION_PROTOCOL, Peers},
    verify::{Function, Kind, NameHints},
};

/// The largest content kept, in bytes. Interpreters compiled to WebAssembly have some 30 MiB, with
/// their libraries some hundred.
pub const FUNCTION_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The largest archive of blocks (CAR) taken, in bytes: the largest content, in 256 pieces or more,
/// and room for the nodes above them.
pub const CAR_BYTES_MAX: usize = FUNCTION_BYTES_MAX + 4 * 1024 * 1024;

/// The most functions kept. Each costs a record in memory; one more is refused.
pub const FUNCTIONS_MAX: usize = 10_000;

/// The most content kept, in bytes, since any peer may have a worker fetch functions. Content that
/// would not fit is refused.
pub const STORE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// What is held in memory of functions that were read and checked, so that each run need not do it
/// again: the demo functions many times over, or one of the largest modules.
pub const LOADED: Capacity = Capacity { n_values_max: FUNCTIONS_MAX, bytes_max: 128 * 1024 * 1024 };

/// What a WebAssembly module begins with.
const MAGIC: &[u8] = b"\0asm";

/// Where functions come from, beside the machine itself and peers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOptions {
    /// IPFS gateways that are asked in turn for what no peer gives. None is asked where there are
    /// none.
    pub gateways: Vec<Gateway>,
    /// Which hosts addresses may name that others give: those of manifests and archives.
    pub hosts: Hosts,
    /// Whether only what a CID proves is installed, and nothing by a manifest alone.
    pub requires_cid: bool,
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

/// Handle to the store. Cheap to clone; all clones share one folder.
#[derive(Debug, Clone)]
pub struct Functions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: FunctionFiles,
    kept: RwLock<BTreeMap<FunctionId, Function>>,
    /// Other ids of functions that are kept: of whole modules, and of the addresses they came from.
    aliases: RwLock<BTreeMap<FunctionId, FunctionId>>,
    /// The addresses functions were installed from, by their ids.
    addresses: RwLock<BTreeMap<FunctionId, InstallSource>>,
    loaded: Cache<FunctionId, Contents>,
    /// One lock for each function being fetched, so that it is fetched once.
    flights: Mutex<HashMap<FunctionId, Arc<tokio::sync::Mutex<()>>>>,
    fetches: Semaphore,
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
        let SourceOptions { mut gateways, hosts, requires_cid } = sources;
        gateways.truncate(GATEWAYS_MAX);
        let files = FunctionFiles::new(folder);
        let scanning = files.clone();
        let found = blocking(move || scanning.scan()).await?;
        info!(functions = found.functions.len(), "opened the function store");
        let trusted = gateways.iter().filter_map(Gateway::host).collect();
        let store = Self(Arc::new(Inner {
            files,
            kept: RwLock::default(),
            aliases: RwLock::default(),
            addresses: RwLock::default(),
            loaded: Cache::new(LOADED),
            flights: Mutex::new(HashMap::new()),
            fetches: Semaphore::new(FETCHES_MAX),
            gateways,
            requires_cid,
            web: WebReader::new(hosts, trusted),
            changed: Notify::new(),
        }));
        for (function, whole) in found.functions {
            store.enter(&function, whole);
        }
        for address in found.addresses {
            store.enter_address(address);
        }
        Ok(store)
    }

    /// Keeps a module under the file name `method`, durably, and returns it with its content id. A
    /// module that is kept already takes the new name. Cancel-safe.
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
        self.keep(checked).await
    }

    /// Keeps the function whose blocks are in `car`, which has one root, and returns it. `names` are
    /// hints; a name that is missing is taken from the content.
    ///
    /// # Errors
    /// [`FunctionsError::Content`] if the blocks do not prove a function, and as [`Self::add`].
    pub async fn add_car(&self, names: NameHints, car: Bytes) -> Result<Function, FunctionsError> {
        let label = NameHints { name: names.name.filter(|name| !name.is_empty()), ..names };
        let checked = blocking(move || {
            let dag = Dag::read_any(&car)?;
            VerifiedFunction::of_dag(label, dag)
        });
        self.keep(checked.await?).await
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
        let id = self.resolve_id(id);
        let was_kept = self.0.kept.write().remove(&id).is_some();
        self.0.aliases.write().retain(|_, function| *function != id);
        let addresses: Vec<FunctionId> = {
            let mut addresses = self.0.addresses.write();
            let from = addresses.iter().filter(|(_, address)| address.function == id);
            let gone: Vec<FunctionId> = from.map(|(id, _)| *id).collect();
            addresses.retain(|_, address| address.function != id);
            gone
        };
        self.0.loaded.remove(&id);
        self.0.changed.notify_one();
        let files = self.0.files.clone();
        blocking(move || {
            addresses.into_iter().try_for_each(|address| files.delete_address(address))?;
            files.delete(id)
        })
        .await?;
        Ok(was_kept)
    }

    /// Returns all functions, by name and id.
    #[must_use]
    pub fn list(&self) -> Vec<Function> {
        let mut functions: Vec<Function> = self.0.kept.read().values().cloned().collect();
        functions.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        functions
    }

    /// Waits until a function is kept or forgotten, for one caller. Cancel-safe.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Returns the function `id` if it is kept. It may have another id of its own: that of its tree,
    /// where `id` is that of the whole module or of the address it came from.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> Option<Function> {
        self.0.kept.read().get(&self.resolve_id(id)).cloned()
    }

    /// Describes all functions, by name, with the ids that manifests gave them.
    #[must_use]
    pub fn bodies(&self) -> Vec<FunctionBody> {
        let listed = |function: Function| {
            let ids = self.ids_by_manifest(function.id);
            let by_manifest = ids.iter().map(ToString::to_string).collect();
            FunctionBody { by_manifest, ..function.body() }
        };
        self.list().into_iter().map(listed).collect()
    }

    /// Returns the ids that function `id` was installed under by a manifest, which do not prove its
    /// content.
    fn ids_by_manifest(&self, id: FunctionId) -> Vec<FunctionId> {
        let addresses = self.0.addresses.read();
        let from = addresses.values().filter(|address| address.function == id);
        from.map(|address| address.id).collect()
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

    async fn keep(&self, checked: VerifiedFunction) -> Result<Function, FunctionsError> {
        if !self.has_room_for(&checked.function) {
            return Err(FunctionsError::Full);
        }
        let (function, whole) = (checked.function.clone(), checked.whole);
        let files = self.0.files.clone();
        blocking(move || files.write(&checked.function, &checked.bytes)).await?;
        self.enter(&function, whole);
        Ok(function)
    }

    fn enter(&self, function: &Function, whole: Option<FunctionId>) {
        self.0.kept.write().insert(function.id, function.clone());
        self.0.changed.notify_one();
        if let Some(whole) = whole.filter(|whole| *whole != function.id) {
            self.0.aliases.write().insert(whole, function.id);
        }
    }

    fn enter_address(&self, address: InstallSource) {
        let id = address.id;
        self.0.aliases.write().insert(id, address.function);
        self.0.addresses.write().insert(id, address);
    }

    /// The id under which a function is kept.
    fn resolve_id(&self, id: FunctionId) -> FunctionId {
        let id = id.normalize();
        if self.0.kept.read().contains_key(&id) {
            return id;
        }
        self.0.aliases.read().get(&id).copied().unwrap_or(id)
    }

    fn has_room_for(&self, function: &Function) -> bool {
        let kept = self.0.kept.read();
        let others = || kept.values().filter(|other| other.id != function.id);
        let bytes: u64 = others().map(|other| other.kept_bytes).sum();
        others().count() < FUNCTIONS_MAX && bytes + function.kept_bytes <= STORE_BYTES_MAX
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
