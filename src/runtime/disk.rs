//! Cache of compiled code on the disk, shared by all processes of one user on one machine.
//!
//! The engine runs any code that it loads. So a directory that other users can write to is not used.
//! A process of this user could also replace this program. Each entry has a hash, to detect damage. An
//! entry without the hash of its name and code is removed, and the program is compiled again.
//!
//! ```text
//! <directory>/code/<program and engine> magic, hash, compiled code
//! <directory>/turn-<number>             empty; locked while a program whose key has this hash is compiled
//! ```

use std::fs::{self, File, TryLockError};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::SystemTime;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};
use task::file::{FileMode, read_at_most, write_atomic};
use task::private;
use wasmtime::Engine;

use crate::load::CompiledCode;
use crate::program::Program;
use crate::single_flight::WANTED_EVERY;
use crate::system;

/// First bytes of an entry: its type and version.
const MAGIC: &[u8] = b"triptych code 3\n";

/// Maximum size of all entries: the code of several of the largest modules. The code of a demo function
/// has some ten kilobytes, the code of an interpreter some ten megabytes. The least recently used
/// entries are evicted first.
const BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Size of the hash of an entry, a SHA-256.
const HASH_BYTES: usize = 32;

/// Maximum size of an entry: the code of the largest module and its hash.
const ENTRY_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Number of lock files for compilations. Two programs with the same lock file are compiled one after
/// the other. This is rare, since there are far fewer programs.
const N_TURNS: u64 = 4096;

/// Reason why compiled code cannot be stored on the disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("cannot create the directory {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("other users can write to the directory {}", folder.display())]
    Shared { folder: PathBuf },
}

/// The cache in its directory.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    code: PathBuf,
}

impl Disk {
    /// Opens `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// [`DiskError`] if it cannot or must not be used.
    pub(crate) fn open(folder: &Path) -> Result<Self, DiskError> {
        let code = folder.join("code");
        for folder in [folder, &code] {
            let failed = |source| DiskError::Folder { folder: folder.to_owned(), source };
            private::create_folder(folder).map_err(failed)?;
            if !system::is_own(&fs::metadata(folder).map_err(failed)?, 0o022) {
                return Err(DiskError::Shared { folder: folder.to_owned() });
            }
        }
        Ok(Self { folder: folder.to_owned(), code })
    }

    /// Returns the code of `program` for `engine`, if there is a valid entry for it.
    pub(crate) fn find(&self, engine: &Engine, program: &Program) -> Option<CompiledCode> {
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
        let Some(code) = checked(&name, bytes) else {
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
    ) -> Result<CompiledCode, Option<File>> {
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
    pub(crate) fn keep(&self, engine: &Engine, program: &Program, code: &CompiledCode) {
        let name = entry_name(engine, program);
        let bytes = entry(&name, code.bytes());
        let kept = write_atomic(&self.code.join(name), &bytes, FileMode::Private)
            .and_then(|()| shrink(&self.code, BYTES_MAX));
        if let Err(error) = kept {
            tracing::warn!(%error, "compiled code is not kept on the disk");
        }
    }
}

fn entry(name: &str, code: &[u8]) -> Vec<u8> {
    [MAGIC, &hash(name, code), code].concat()
}

/// Returns the code of an entry, or `None` if its hash is not the hash of `name` and the code.
fn checked(name: &str, bytes: Vec<u8>) -> Option<CompiledCode> {
    let (expected, code) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    let is_whole = hash(name, code) == *expected;
    is_whole.then(|| CompiledCode::trusted(Bytes::from(bytes).slice(MAGIC.len() + HASH_BYTES..)))
}

/// Returns the hash of an entry. All names have the same length.
fn hash(name: &str, code: &[u8]) -> [u8; HASH_BYTES] {
    Sha256::new().chain_update(name).chain_update(code).finalize().into()
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
