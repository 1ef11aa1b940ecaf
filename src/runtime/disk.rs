//! Compiled code on the disk, shared by all processes of one user on one machine.
//!
//! The engine has a cache of its own, the one safe way to hand it compiled code, but it runs
//! whatever it finds there. So what is kept here are entries of our own, each with the hash of its
//! bytes. An entry that matches its hash is laid into a folder that only this process uses, where
//! the engine finds it; one that does not is removed, and the program is compiled anew. A folder
//! that others may write to is not used at all.
//!
//! ```text
//! <folder>/code/<program and engine>     hash, name in the engine's cache, compiled code
//! <folder>/staging/<process>/modules/…   the engine's cache: empty but while a program is loaded
//! ```

use std::{
    collections::BTreeSet,
    error::Error as StdError,
    fmt::Write as _,
    fs::{self, DirBuilder, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};
use wasmtime::{Cache, CacheConfig, Engine};

use crate::program::Program;

/// What an entry begins with: what it is, and in which form.
const MAGIC: &[u8] = b"triptych code 1\n";

/// The most that the entries of one folder take. The code of a demo function takes some ten
/// kilobytes, that of a large program several megabytes. What was used longest ago goes first.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The largest entry that is read: the code of the largest module accepted, and then some.
const ENTRY_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// How long the engine's own cleaning waits after the last one: it has nothing to clean, and would
/// take what is not its own.
const NEVER: Duration = Duration::from_hours(24 * 365);

/// The file in which the engine looks for the time of its last cleaning.
const CLEANED: &str = ".cleanup.wip-kept";

/// Tries to remove the staging folder while the engine's own thread may still write into it.
const REMOVALS_MAX: usize = 5;

/// After so long without a change, what a process has left in its own folder is removed by others.
const STALE_AFTER: Duration = Duration::from_hours(24);

/// Tells the staging folders of one process apart.
static N_OPENED: AtomicU64 = AtomicU64::new(0);

/// Why compiled code is not kept on the disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("make the folder {}", folder.display())]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("trust the folder {}, which others may write to", folder.display())]
    Shared { folder: PathBuf },
    #[error("set up the engine's cache")]
    Cache {
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Entries in a folder.
#[derive(Debug)]
pub(crate) struct Disk {
    code: PathBuf,
    staging: PathBuf,
    cache: Cache,
    /// Names in the staging folder that were laid there, not compiled.
    staged: Mutex<BTreeSet<PathBuf>>,
}

/// One entry, checked.
struct Entry {
    /// Where the engine looks for it, below the staging folder.
    name: PathBuf,
    code: Vec<u8>,
}

/// An entry that lies in the staging folder until this is dropped.
struct Staged<'a> {
    disk: &'a Disk,
    name: PathBuf,
}

impl Disk {
    /// Uses `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`DiskError`] if it cannot be used, or must not.
    pub(crate) fn open(folder: &Path) -> Result<Self, DiskError> {
        let failed = |source| DiskError::Folder { folder: folder.to_owned(), source };
        let own = |path: &Path| DirBuilder::new().recursive(true).mode(0o700).create(path);
        own(folder).map_err(failed)?;
        let metadata = fs::metadata(folder).map_err(failed)?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o022 != 0 {
            return Err(DiskError::Shared { folder: folder.to_owned() });
        }
        let code = folder.join("code");
        let all_staging = folder.join("staging");
        own(&code).map_err(failed)?;
        own(&all_staging).map_err(failed)?;
        remove_stale(&all_staging);
        let staging = all_staging.join(unique());
        own(&staging).map_err(failed)?;
        // The engine wants its folder as the system spells it.
        let staging = staging.canonicalize().map_err(failed)?;
        File::create(staging.join(CLEANED)).map_err(failed)?;
        let mut config = CacheConfig::new();
        config.with_directory(&staging).with_cleanup_interval(NEVER);
        let cache = Cache::new(config)
            .map_err(|error| DiskError::Cache { source: error.into_boxed_dyn_error() })?;
        Ok(Self { code, staging, cache, staged: Mutex::default() })
    }

    /// What the engine is given.
    pub(crate) fn cache(&self) -> Cache {
        self.cache.clone()
    }

    /// How many programs were found here, and not compiled again.
    pub(crate) fn n_found(&self) -> usize {
        self.cache.cache_hits()
    }

    /// Compiles `program` with `compile`, which asks the engine's cache first, and keeps what was
    /// compiled. A disk that fails costs time alone.
    pub(crate) fn compiled<T, E>(
        &self,
        engine: &Engine,
        program: &Program,
        compile: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let path = self.code.join(entry_name(engine, program));
        let staged = self.find(&path);
        let made = compile();
        if made.is_ok()
            && let Err(error) = self.keep(&path)
        {
            tracing::warn!(%error, "compiled code is not kept on the disk");
        }
        drop(staged);
        made
    }

    /// Lays the entry at `path` where the engine finds it.
    fn find(&self, path: &Path) -> Option<Staged<'_>> {
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "compiled code could not be read");
                return None;
            }
        };
        let Some(entry) = Entry::checked(&bytes) else {
            tracing::warn!(path = %path.display(), "compiled code was damaged; it is made again");
            discard(path);
            return None;
        };
        // The folders' date tells which entries are in use.
        if let Ok(file) = File::options().write(true).open(path)
            && let Err(error) = file.set_modified(SystemTime::now())
        {
            tracing::debug!(%error, "compiled code keeps its old date");
        }
        let place = self.staging.join(&entry.name);
        self.staged.lock().insert(entry.name.clone());
        let staged = Staged { disk: self, name: entry.name };
        let laid = place.parent().map_or(Ok(()), fs::create_dir_all);
        match laid.and_then(|()| fs::write(&place, &entry.code)) {
            Ok(()) => Some(staged),
            Err(error) => {
                tracing::warn!(%error, "compiled code could not be laid out");
                None
            }
        }
    }

    /// Moves what the engine compiled since into the entry at `path`. Where two programs were
    /// compiled at the same moment, it is not known which is whose, and neither is kept.
    fn keep(&self, path: &Path) -> io::Result<()> {
        let staged = self.staged.lock();
        let fresh: Vec<PathBuf> =
            self.names()?.into_iter().filter(|name| !staged.contains(name)).collect();
        let [name] = fresh.as_slice() else {
            for name in &fresh {
                discard(&self.staging.join(name));
            }
            return Ok(());
        };
        let code = fs::read(self.staging.join(name))?;
        discard(&self.staging.join(name));
        drop(staged);
        let entry = Entry { name: name.clone(), code };
        let (temporary, bytes) = (self.staging.join(unique()), entry.bytes());
        let mut file = File::create_new(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        shrink(&self.code, BYTES_MAX)
    }

    /// The compiled code in the staging folder: two folders down, under names without an ending.
    fn names(&self) -> io::Result<Vec<PathBuf>> {
        let mut names = Vec::new();
        let Ok(folders) = fs::read_dir(self.staging.join("modules")) else { return Ok(names) };
        for folder in folders {
            for file in fs::read_dir(folder?.path())? {
                let path = file?.path();
                if path.extension().is_none()
                    && let Ok(name) = path.strip_prefix(&self.staging)
                {
                    names.push(name.to_owned());
                }
            }
        }
        Ok(names)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir_all(&self.staging) {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                Err(error) => tracing::debug!(%error, "a staging folder stays"),
            }
        }
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        discard(&self.disk.staging.join(&self.name));
        self.disk.staged.lock().remove(&self.name);
    }
}

impl Entry {
    /// Reads an entry. None if it is not as it was written.
    fn checked(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (hash, rest) = rest.split_first_chunk::<32>()?;
        if *hash != *Sha256::digest(rest) {
            return None;
        }
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (name, code) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let name = PathBuf::from(str::from_utf8(name).ok()?);
        let is_plain =
            name.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        is_plain.then(|| Self { name, code: code.to_vec() })
    }

    fn bytes(&self) -> Vec<u8> {
        let name = self.name.to_string_lossy();
        let length = u16::try_from(name.len()).unwrap_or(0).to_le_bytes();
        let hash = Sha256::new()
            .chain_update(length)
            .chain_update(name.as_bytes())
            .chain_update(&self.code)
            .finalize();
        [MAGIC, &hash, &length, name.as_bytes(), &self.code].concat()
    }
}

/// The name of the entry of `program`, compiled by `engine` in its version and with its settings.
fn entry_name(engine: &Engine, program: &Program) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let mut name = String::new();
    for byte in program.key() {
        // Writing into a text cannot fail.
        write!(name, "{byte:02x}").ok();
    }
    format!("{name}-{:016x}", hasher.finish())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(ENTRY_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn discard(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "a file stays");
    }
}

/// Removes the entries used longest ago until the others take at most `bytes_max`.
fn shrink(code: &Path, bytes_max: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    let mut bytes = 0_u64;
    for entry in fs::read_dir(code)? {
        let entry = entry?;
        // Another process may have removed it meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes = bytes.saturating_add(metadata.len());
        entries.push((metadata.modified()?, metadata.len(), entry.path()));
    }
    entries.sort();
    for (_, n_bytes, path) in entries {
        if bytes <= bytes_max {
            break;
        }
        discard(&path);
        bytes = bytes.saturating_sub(n_bytes);
    }
    Ok(())
}

/// A name that no other process and no other call uses.
fn unique() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let n_opened = N_OPENED.fetch_add(1, Ordering::Relaxed);
    format!("{}-{}-{n_opened}", process::id(), since.as_nanos())
}

/// Removes what processes that ended badly left behind.
fn remove_stale(all_staging: &Path) {
    let Ok(folders) = fs::read_dir(all_staging) else { return };
    for folder in folders.flatten() {
        let modified = folder.metadata().and_then(|metadata| metadata.modified());
        let is_stale = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER));
        if is_stale && let Err(error) = fs::remove_dir_all(folder.path()) {
            tracing::debug!(%error, "a stale folder stays");
        }
    }
}

#[cfg(test)]
mod tests;
