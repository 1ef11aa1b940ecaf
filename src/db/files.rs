//! Detects that the files of an open database were deleted or replaced.
//!
//! A process can still write to a deleted file that it has open, but these writes are lost. SQLite does
//! not notice this, so the files must be checked before a write is acknowledged.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use tracing::error;

/// Suffix of SQLite's write-ahead log.
const LOG: &str = "-wal";

/// Suffix of the index of the log. SQLite can rebuild it.
const LOG_INDEX: &str = "-shm";

/// Suffix of a log that was moved away from a new main file, to which it does not belong. SQLite would
/// apply any log with the matching name, and thereby ruin the main file.
const LOG_ASIDE: &str = "-wal.replaced";

/// Files of an open database: the main file and its log.
#[derive(Debug)]
pub struct DatabaseFiles {
    main: OpenFile,
    /// The write-ahead log; `None` if the database has no log.
    log: Option<OpenFile>,
    is_replaced: AtomicBool,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl DatabaseFiles {
    /// Returns the files of the database at `path`. The caller must have just opened and read the
    /// database, so that its log exists.
    ///
    /// # Errors
    /// An I/O error if the main file cannot be found.
    pub fn open(path: &Path) -> io::Result<Self> {
        let main = OpenFile::open(path.to_owned())?;
        let log = match OpenFile::open(with_ending(path, LOG)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        Ok(Self { main, log, is_replaced: AtomicBool::new(false) })
    }

    /// Returns false if an earlier [`Self::check`] found that the files were replaced. Costs only one
    /// atomic load.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        !self.is_replaced.load(Ordering::Acquire)
    }

    /// Returns true if the files are still in place. Blocks for two system calls.
    ///
    /// Once a file is not in place, the result remains false, and the service must be restarted. The first
    /// call that finds this logs an error. If the main file was removed or replaced, but not its log,
    /// renames the log, so that SQLite does not apply it to a new main file.
    pub fn check(&self) -> bool {
        if !self.is_intact() {
            return false;
        }
        let is_in_place = |file: &OpenFile| file.is_in_place();
        if is_in_place(&self.main) && self.log.as_ref().is_none_or(is_in_place) {
            return true;
        }
        if !self.is_replaced.swap(true, Ordering::AcqRel) {
            let path = self.main.path.display();
            error!(
                "{path} was removed or replaced while it was in use: nothing more is written to it \
                 or read from it; restart the service"
            );
            self.set_log_aside();
        }
        false
    }

    fn set_log_aside(&self) {
        let Some(log) = self.log.as_ref().filter(|log| log.is_in_place()) else { return };
        if self.main.is_in_place() {
            return;
        }
        let aside = with_ending(&self.main.path, LOG_ASIDE);
        let index = with_ending(&self.main.path, LOG_INDEX);
        let moved = fs::rename(&log.path, &aside).and_then(|()| fs::remove_file(index));
        if let Err(error) = moved {
            error!(%error, "failed to rename {}, which does not belong to the file next to it", log.path.display());
        }
    }
}

impl OpenFile {
    fn open(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path)?;
        Ok(Self { path, identity: identity(&metadata) })
    }

    fn is_in_place(&self) -> bool {
        match fs::metadata(&self.path) {
            Ok(metadata) => identity(&metadata) == self.identity,
            // Other errors, such as errors of a network file system, do not prove that the file was
            // replaced.
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        }
    }
}

/// Identity of a file: device and inode.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// Returns the same identity for all files, since an open file cannot be replaced on these systems.
#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// Returns `path` with `ending` appended to the file name.
#[must_use]
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (tempfile::TempDir, PathBuf, DatabaseFiles) {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("db");
        for ending in ["", LOG, LOG_INDEX] {
            fs::write(with_ending(&path, ending), ending).unwrap();
        }
        let files = DatabaseFiles::open(&path).unwrap();
        assert!(files.check());
        (base, path, files)
    }

    #[test]
    fn deleted_directory_is_still_reported_after_it_is_created_again() {
        let (base, path, files) = database();
        fs::remove_dir_all(base.path()).unwrap();
        assert!(files.is_intact() && !files.check() && !files.is_intact());
        fs::create_dir(base.path()).unwrap();
        fs::write(&path, "").unwrap();
        assert!(!files.check());
    }

    #[test]
    fn write_ahead_log_of_a_replaced_file_is_moved_aside() {
        let (base, path, files) = database();
        let backup = base.path().join("backup");
        fs::write(&backup, "older").unwrap();
        fs::rename(&backup, &path).unwrap();
        assert!(!files.check());
        assert!(!with_ending(&path, LOG).exists() && !with_ending(&path, LOG_INDEX).exists());
        assert_eq!(fs::read(with_ending(&path, LOG_ASIDE)).unwrap(), LOG.as_bytes());
        assert_eq!(fs::read(&path).unwrap(), b"older");
    }

    #[test]
    fn write_ahead_log_of_a_new_file_is_not_moved() {
        let (base, path, files) = database();
        // Keeps the old files open, so that the new files cannot get the same inodes.
        let open = ["", LOG].map(|ending| fs::File::open(with_ending(&path, ending)).unwrap());
        fs::remove_file(with_ending(&path, LOG)).unwrap();
        fs::remove_file(&path).unwrap();
        for ending in ["", LOG] {
            fs::write(with_ending(&path, ending), "new").unwrap();
        }
        assert!(!files.check());
        assert_eq!(fs::read(with_ending(&path, LOG)).unwrap(), b"new");
        drop((open, base));
    }
}
