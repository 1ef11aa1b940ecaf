//! Compiled code on the disk, shared by all processes of one user on one machine.
//!
//! The engine runs whatever it loads, so each entry carries a tag under a key that lies beside them
//! in a file only its owner may read. An entry without a valid tag for its own name is removed, and
//! the program is compiled again. A folder that others may write to is not used at all.
//!
//! ```text
//! <folder>/key                       the key, mode 0600
//! <folder>/code/<program and engine> magic, tag, compiled code
//! <folder>/turn-<number>             empty; locked by who compiles a program of this number
//! ```

use std::{
    fs::{self, File, TryLockError},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::SystemTime,
};

use data_encoding::HEXLOWER;
use task::{
    file::{FileMode, read_at_most, write_atomic, write_new},
    private,
};
use wasmtime::Engine;

use crate::{
    program::Program,
    seal::{AuthenticCode, SealKey, TAG_BYTES},
    single_flight::WANTED_EVERY,
    system,
};

/// What an entry begins with: what it is, and in which form.
const MAGIC: &[u8] = b"triptych code 2\n";

/// The most that the entries of one folder take: the code of several of the largest modules. That of
/// a demo function takes some ten kilobytes, that of an interpreter some ten megabytes. What was used
/// longest ago goes first.
const BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// The largest entry that is read: the code of the largest module accepted, and its tag.
const ENTRY_BYTES_MAX: usize = 513 * 1024 * 1024;

/// Files whose locks tell other processes what is being compiled. Two programs that share one are
/// compiled one after the other, which must be rare: there are far fewer programs.
const N_TURNS: u64 = 4096;

/// The file of the key.
const KEY: &str = "key";

/// Why compiled code is not kept on the disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("make the folder {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("trust the folder {}, which others may write to", folder.display())]
    Shared { folder: PathBuf },
    #[error("read the key {}", path.display())]
    Key { path: PathBuf, source: io::Error },
    #[error("trust the key {}: its mode is not 0600, or it is not this user's; remove it", path.display())]
    KeyShared { path: PathBuf },
}

/// Entries in a folder.
#[derive(Debug)]
pub(crate) struct Disk {
    folder: PathBuf,
    code: PathBuf,
    key: SealKey,
    /// How many programs were found here, and not compiled again.
    pub(crate) n_found: AtomicUsize,
}

impl Disk {
    /// Uses `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// [`DiskError`] if it cannot be used, or must not.
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
        Ok(Self { folder: folder.to_owned(), code, key, n_found: AtomicUsize::new(0) })
    }

    /// Returns the code of `program` for `engine`, if it is here and what this user put here.
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
            tracing::warn!(path = %path.display(), "compiled code was damaged; it is made again");
            discard(&path);
            return None;
        };
        // The dates tell which entries are in use.
        if let Ok(file) = File::options().write(true).open(&path)
            && let Err(error) = file.set_modified(SystemTime::now())
        {
            tracing::debug!(%error, "compiled code keeps its old date");
        }
        self.n_found.fetch_add(1, Ordering::Relaxed);
        Some(code)
    }

    /// Returns true if the code of `program` for `engine` is here, be it damaged.
    pub(crate) fn holds(&self, engine: &Engine, program: &Program) -> bool {
        self.code.join(entry_name(engine, program)).exists()
    }

    /// As [`Self::find`], but while another process compiles `program`, waits for its code as long as
    /// `is_wanted` returns true. Otherwise returns the turn to compile it, which others wait for while
    /// it is held; `None` if they do not learn of it. Blocks.
    ///
    /// The system releases the turn of a process that ends, and compiling has a limit in each.
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
            tracing::debug!(path = %path.display(), %error, "others do not learn what is compiled");
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
        // It may have been compiled between the look and the lock.
        self.find(engine, program).ok_or(Some(turn))
    }

    /// Keeps the code of `program` for `engine`. A disk that fails costs time alone.
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

    /// Takes an entry for code. None if it is not as it was written under this name.
    fn checked(&self, name: &str, bytes: Vec<u8>) -> Option<AuthenticCode> {
        let tag = *bytes.strip_prefix(MAGIC)?.first_chunk::<TAG_BYTES>()?;
        self.key.open(name.as_bytes(), &tag, bytes, MAGIC.len() + TAG_BYTES)
    }
}

/// Reads the key, which is made if it is not there. One that others could have read or written is
/// not used.
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

/// The name of the entry of `program`, compiled by `engine` in its version and with its settings.
fn entry_name(engine: &Engine, program: &Program) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{}-{:016x}", HEXLOWER.encode(&program.key), hasher.finish())
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

#[cfg(test)]
mod tests;
