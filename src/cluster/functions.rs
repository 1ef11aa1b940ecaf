//! The function store: modules in a folder, each under the content id that proves it.
//!
//! `<folder>/<content id>/<method>` holds the content and `<folder>/<content id>.json` its record,
//! written last. Both are put in place by a rename, so a crash leaves a function whole or absent.
//! Content is checked against its id whenever it is read from disk; what does not match is removed,
//! and fetched from a peer when it is next needed (see `fetch.rs`). Absent on purpose: what runs
//! them, and functions of more than one file.

mod fetch;
mod files;
pub(crate) mod loaded;

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use model::function::{FunctionId, Method};
use parking_lot::{Mutex, RwLock};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

pub use self::fetch::FetchError;
use self::{files::Files, loaded::Loaded};

/// The largest module kept, in bytes. Interpreters compiled to WebAssembly have some 30 MiB.
pub const FUNCTION_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most functions kept. Each costs a record in memory; one more is refused.
pub const FUNCTIONS_MAX: usize = 10_000;

/// The most content kept, in bytes, since any peer may have a worker fetch functions. Content that
/// would not fit is refused.
pub const STORE_BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// What a WebAssembly module begins with.
const MAGIC: &[u8] = b"\0asm";

/// A function that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its content id.
    pub id: FunctionId,
    /// What people call it: its file name without the ending.
    pub name: String,
    /// The name of the file.
    pub method: Method,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// A file could not be read or written.
    #[error("{step} {path}")]
    Files {
        /// What was being done.
        step: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The content is no WebAssembly module in the binary format.
    #[error("find a WebAssembly module in {method}")]
    NotModule {
        /// The file's name.
        method: Method,
    },
    /// The content is not what its id names.
    #[error("match {size_bytes} bytes of content with {id}")]
    Mismatch {
        /// The id.
        id: FunctionId,
        /// How long the content is.
        size_bytes: usize,
    },
    /// The content is longer than [`FUNCTION_BYTES_MAX`].
    #[error("keep a function of {size_bytes} bytes")]
    TooLarge {
        /// How long it is.
        size_bytes: usize,
    },
    /// The store is at [`FUNCTIONS_MAX`] or [`STORE_BYTES_MAX`].
    #[error("keep one more function: the store is full")]
    Full,
    /// The program is stopping.
    #[error("finish work on the store before the program stopped")]
    Stopped,
}

/// Handle to the store. Cheap to clone; all clones share one folder.
#[derive(Debug, Clone)]
pub struct Functions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: Files,
    kept: RwLock<BTreeMap<FunctionId, Function>>,
    loaded: Mutex<Loaded<Bytes>>,
    /// One lock for each function being fetched, so that it is fetched once.
    flights: Mutex<HashMap<FunctionId, Arc<tokio::sync::Mutex<()>>>>,
}

impl Functions {
    /// Opens the store in `folder`, which is made if need be, and checks every content in it. What
    /// is damaged is removed.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the folder cannot be made or read.
    pub async fn open(folder: PathBuf) -> Result<Self, FunctionsError> {
        let files = Files::new(folder);
        let scanning = files.clone();
        let kept = blocking(move || scanning.scan()).await?;
        info!(functions = kept.len(), "opened the function store");
        Ok(Self(Arc::new(Inner {
            files,
            kept: RwLock::new(kept.into_iter().map(|function| (function.id, function)).collect()),
            loaded: Mutex::new(Loaded::new()),
            flights: Mutex::new(HashMap::new()),
        })))
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
        let bytes = bytes.into();
        if !bytes.starts_with(MAGIC) {
            return Err(FunctionsError::NotModule { method });
        }
        let id = FunctionId::of_module(&bytes);
        self.keep(id, method, bytes).await
    }

    /// Forgets a function and deletes its content. Returns whether it was kept.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if its content cannot be deleted.
    pub async fn remove(&self, id: FunctionId) -> Result<bool, FunctionsError> {
        let was_kept = self.0.kept.write().remove(&id).is_some();
        self.0.loaded.lock().forget(id);
        let files = self.0.files.clone();
        blocking(move || files.delete(id)).await?;
        Ok(was_kept)
    }

    /// Returns all functions, by name and id.
    #[must_use]
    pub fn list(&self) -> Vec<Function> {
        let mut functions: Vec<Function> = self.0.kept.read().values().cloned().collect();
        functions.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        functions
    }

    /// Returns the function `id` if it is kept.
    #[must_use]
    pub fn get(&self, id: FunctionId) -> Option<Function> {
        self.0.kept.read().get(&id).cloned()
    }

    /// Returns the content of function `id`, checked, or none if it is not kept or was damaged.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if it cannot be read.
    pub async fn content(&self, id: FunctionId) -> Result<Option<Bytes>, FunctionsError> {
        if let Some(bytes) = self.0.loaded.lock().get(id) {
            return Ok(Some(bytes));
        }
        let Some(function) = self.get(id) else { return Ok(None) };
        let files = self.0.files.clone();
        let read = blocking(move || files.read(&function)).await?;
        let Some(bytes) = read else {
            warn!(function = %id, "removed a function whose content does not match its id");
            self.remove(id).await?;
            return Ok(None);
        };
        let bytes = Bytes::from(bytes);
        self.0.loaded.lock().put(id, bytes.clone(), bytes.len());
        Ok(Some(bytes))
    }

    async fn keep(
        &self,
        id: FunctionId,
        method: Method,
        bytes: Arc<[u8]>,
    ) -> Result<Function, FunctionsError> {
        let size_bytes = bytes.len();
        if size_bytes > FUNCTION_BYTES_MAX {
            return Err(FunctionsError::TooLarge { size_bytes });
        }
        let name = method.as_str().rsplit_once('.').map_or(method.as_str(), |(name, _)| name);
        let function = Function {
            id,
            name: name.to_owned(),
            method: method.clone(),
            size_bytes: u64::try_from(size_bytes).unwrap_or(u64::MAX),
        };
        if !self.has_room_for(&function) {
            return Err(FunctionsError::Full);
        }
        let (files, kept) = (self.0.files.clone(), function.clone());
        blocking(move || {
            if !id.is_of_module(&bytes) {
                return Err(FunctionsError::Mismatch { id, size_bytes });
            }
            files.write(&kept, &bytes)
        })
        .await?;
        self.0.kept.write().insert(id, function.clone());
        Ok(function)
    }

    fn has_room_for(&self, function: &Function) -> bool {
        let kept = self.0.kept.read();
        let others = || kept.values().filter(|other| other.id != function.id);
        let bytes: u64 = others().map(|other| other.size_bytes).sum();
        others().count() < FUNCTIONS_MAX && bytes + function.size_bytes <= STORE_BYTES_MAX
    }
}

/// Does work on files away from the tasks that wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FunctionsError> + Send + 'static,
) -> Result<T, FunctionsError> {
    spawn_blocking(work).await.unwrap_or(Err(FunctionsError::Stopped))
}

#[cfg(test)]
mod tests;
