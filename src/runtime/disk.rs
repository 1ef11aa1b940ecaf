//! Cache of compiled code on the disk, shared by all processes of one user on one machine.
//!
//! The engine runs any code that it loads. So each entry has a tag, made with a key in a file that only
//! its owner can read. An entry without a valid tag for its name is removed, and the program is compiled
//! again. A directory that other users can write to is not used.
//!
//! ```text
//! <directory>/key                       the key, mode 0600
//! <directory>/code/<program and engine> magic, tag, compiled code
//! <directory>/turn-<number>             empty; locked while a program whose key has this hash is compiled
//! ```

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use task::file::{FileMode, read_at_most, write_atomic, write_new};
use task::private;
use wasmtime::Engine;

use crate::program::Program;
use crate::seal::{AuthenticCode, SealKey, TAG_BYTES};
use crate::single_flight::WANTED_EVERY;
use crate::system;

/// First bytes of an entry: its type and version.
const MAGIC: &[u8] = b"triptych code 2\n";

/// Maximum size of all entries: the code of several of the largest modules. The code of a demo function
/// has some ten kilobytes, the code of an interpreter some ten megabytes. The least recently used
/// entries are evicted first.
const BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Maximum size of an entry: the code of the largest module and its tag.
const ENTRY_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Number of lock files for compilations. Two programs with the same lock file are compiled one after
/// the other. This is rare, since there are far fewer programs.
const N_TURNS: u64 = 4096;

/// Name of the key file.
const KEY: &str = "key";

/// Reason why compiled code cannot be stored on the disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("cannot create the directory {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("other users can write to the directory {}", folder.display())]
    Shared { folder: PathBuf },
    #[error("cannot read the key {}", path.display())]
    Key { path: PathBuf, source: io::Error },
    #[error("key file {} has another owner or a mode other than 0600: remove the file", path.display())]
    KeyShared { path: PathBuf },
}

/// The cache in its directory.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    code: PathBuf,
    key: SealKey,
}

impl Disk {
    /// Opens `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// [`DiskError`] if it cannot or must not be used.
    pub(crate) fn open(folder: &Path) -> Result<Self, DiskError> {
        let failed = |source| DiskError::Folder { folder: folder.to_owned(), source };
        private::create_folder(folder).map_err(failed)?;
        let metadata = fs::metadata(folder).map_err(failed)?;
        if !system::is_own(&metadata, 0o022) {
            return Err(DiskError::Shared { folder: folder.to_owned() });
        }
        let code = folder.join("code");
        private::create_folder(&code).map_err(failed)?;
        let key = open_key(&folder.join(KEY))?;
        Ok(Self { folder: folder.to_owned(), code, key })
    }

    /// Returns the code of `program` for `engine`, if there is a valid entry for it.
    pub(crate) fn find(&self, engine: &Engine, program: &Program) -> Option<AuthenticCode> {
        let name = entry_name(engine, program);
        let path = self.code.join(&name);
        let bytes = match read_at_most(&path, ENTRY_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!(%error, "compiled code could not be read");
                return None;
            }
        };
        let Some(code) = self.checked(&name, bytes) else {
            tracing::warn!(path = %path.display(), "compiled code is damaged; compiling it again");
            discard(&path);
            return None;
        };
        // The modification time of an entry is the time of its last use.
        if let Ok(file) = File::options().write(true).open(&path)
            && let Err(error) = file.set_modified(SystemTime::now())
        {
            tracing::debug!(%error, "modification time of compiled code cannot be set");
        }
        Some(code)
    }

    /// Returns true if there is an entry for `program` and `engine`. The entry may be damaged.
    pub(crate) fn holds(&self, engine: &Engine, program: &Program) -> bool {
        self.code.join(entry_name(engine, program)).exists()
    }

    /// Returns the code of `program` if [`Self::find`] does. If another process compiles `program`,
    /// first waits for it as long as `is_wanted` returns true. If there is still no code, returns a lock
    /// that makes other processes wait while this process compiles, or `None` if the lock cannot be
    /// acquired. Blocks.
    ///
    /// The system releases the lock of a process that exits, and each compilation has a time limit.
    pub(crate) fn find_or_take_turn(
        &self,
        engine: &Engine,
        program: &Program,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<AuthenticCode, Option<File>> {
        if let Some(code) = self.find(engine, program) {
            return Ok(code);
        }
        let mut hasher = DefaultHasher::new();
        program.key.hash(&mut hasher);
        let path = self.folder.join(format!("turn-{}", hasher.finish() % N_TURNS));
        let opened = File::options().create(true).truncate(false).write(true).open(&path);
        let turn = opened.inspect_err(|error| {
            tracing::debug!(path = %path.display(), %error, "lock of a compilation cannot be opened");
        });
        let Ok(turn) = turn else { return Err(None) };
        while let Err(TryLockError::WouldBlock) = turn.try_lock() {
            if !is_wanted() {
                return Err(None);
            }
            thread::park_timeout(WANTED_EVERY);
            if let Some(code) = self.find(engine, program) {
                return Ok(code);
            }
        }
        // Another process might have compiled the program before the lock was acquired.
        self.find(engine, program).ok_or(Some(turn))
    }

    /// Stores the code of `program` for `engine`. Failures are only logged.
    pub(crate) fn keep(&self, engine: &Engine, program: &Program, code: &AuthenticCode) {
        let name = entry_name(engine, program);
        let bytes = self.entry(&name, code.bytes());
        let kept = write_atomic(&self.code.join(name), &bytes, FileMode::Private)
            .and_then(|()| shrink(&self.code, BYTES_MAX));
        if let Err(error) = kept {
            tracing::warn!(%error, "compiled code is not kept on the disk");
        }
    }

    fn entry(&self, name: &str, code: &[u8]) -> Vec<u8> {
        [MAGIC, &self.key.tag(name.as_bytes(), code), code].concat()
    }

    /// Returns the code of an entry, or `None` if its tag is not valid for `name`.
    fn checked(&self, name: &str, bytes: Vec<u8>) -> Option<AuthenticCode> {
        let tag = *bytes.strip_prefix(MAGIC)?.first_chunk::<TAG_BYTES>()?;
        self.key.open(name.as_bytes(), &tag, bytes, MAGIC.len() + TAG_BYTES)
    }
}

/// Reads the key, which is created if it does not exist. Refuses a key that other users could have read
/// or written.
fn open_key(path: &Path) -> Result<SealKey, DiskError> {
    let failed = |source| DiskError::Key { path: path.to_owned(), source };
    match write_new(path, &SealKey::random().0, FileMode::Private) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !system::is_own(&metadata, 0o177) {
        return Err(DiskError::KeyShared { path: path.to_owned() });
    }
    let mut bytes = [0; TAG_BYTES];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(SealKey(bytes))
}

/// Returns the name of the entry for `program`, compiled by this version of `engine` with its settings.
fn entry_name(engine: &Engine, program: &Program) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{}-{:016x}", HEXLOWER.encode(&program.key), hasher.finish())
}

fn discard(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(path = %path.display(), %error, "file cannot be removed");
    }
}

/// Removes the least recently used entries until the remaining entries have at most `bytes_max`.
fn shrink(code: &Path, bytes_max: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    let mut bytes = 0_u64;
    for entry in fs::read_dir(code)? {
        let entry = entry?;
        // Another process might have removed the entry.
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

#[cfg(test)]
mod tests;
