//! Whether the files of an open database are still the ones at its path.
//!
//! A file that is deleted or replaced stays open, and takes writes that nobody will ever read. SQLite
//! does not notice. Check before acknowledging a write.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use tracing::error;

/// The ending of SQLite's write-ahead log.
const LOG: &str = "-wal";

/// The ending of the log's index, which SQLite can make again.
const LOG_INDEX: &str = "-shm";

/// The ending of a log that was set aside. What follows the database's file is recovered into
/// whichever file has that name, and ruins one that it does not belong to.
const LOG_ASIDE: &str = "-wal.replaced";

/// The files of an open database: the main one and its log.
#[derive(Debug)]
pub struct DatabaseFiles {
    main: OpenFile,
    /// None if the database keeps none.
    log: Option<OpenFile>,
    is_replaced: AtomicBool,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl DatabaseFiles {
    /// The files at `path` of a database that was just opened and read, so that its log is there.
    ///
    /// # Errors
    /// If the main file cannot be found.
    pub fn open(path: &Path) -> io::Result<Self> {
        let main = OpenFile::open(path.to_owned())?;
        let log = match OpenFile::open(beside(path, LOG)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        Ok(Self { main, log, is_replaced: AtomicBool::new(false) })
    }

    /// Whether nothing was found replaced so far. Costs a look at memory.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        !self.is_replaced.load(Ordering::Acquire)
    }

    /// Looks at the files; whether they are still in place. Blocks for two calls of the system.
    ///
    /// Once they are not, that is logged, and stays so: the service must be restarted. The log that
    /// is left beside the main file is renamed, so that another file put there is not mixed with it.
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
        let aside = beside(&self.main.path, LOG_ASIDE);
        let index = beside(&self.main.path, LOG_INDEX);
        let moved = fs::rename(&log.path, &aside).and_then(|()| fs::remove_file(index));
        if let Err(error) = moved {
            error!(%error, "failed to move {} away from the file that is there now", log.path.display());
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
            // Any other error says nothing about the file, such as that of a network that is down.
            Err(error) => {
                !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
        }
    }
}

/// What tells a file from another one under its name: device and inode.
#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

/// Where files have no inodes, one that is open cannot be replaced.
#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> (u64, u64) {
    (0, 0)
}

/// The path of what is kept beside the file at `path`, called like it but for its `ending`.
#[must_use]
pub fn beside(path: &Path, ending: &str) -> PathBuf {
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
            fs::write(beside(&path, ending), ending).unwrap();
        }
        let files = DatabaseFiles::open(&path).unwrap();
        assert!(files.check());
        (base, path, files)
    }

    #[test]
    fn a_folder_that_is_gone_is_noticed_for_good() {
        let (base, path, files) = database();
        fs::remove_dir_all(base.path()).unwrap();
        assert!(files.is_intact() && !files.check() && !files.is_intact());
        fs::create_dir(base.path()).unwrap();
        fs::write(&path, "").unwrap();
        assert!(!files.check());
    }

    #[test]
    fn a_log_is_kept_from_the_file_that_replaced_its_own() {
        let (base, path, files) = database();
        let backup = base.path().join("backup");
        fs::write(&backup, "older").unwrap();
        fs::rename(&backup, &path).unwrap();
        assert!(!files.check());
        assert!(!beside(&path, LOG).exists() && !beside(&path, LOG_INDEX).exists());
        assert_eq!(fs::read(beside(&path, LOG_ASIDE)).unwrap(), LOG.as_bytes());
        assert_eq!(fs::read(&path).unwrap(), b"older");
    }

    #[test]
    fn another_ones_log_is_left_alone() {
        let (base, path, files) = database();
        // A store has its files open, so that no new file gets their inodes.
        let open = ["", LOG].map(|ending| fs::File::open(beside(&path, ending)).unwrap());
        fs::remove_file(beside(&path, LOG)).unwrap();
        fs::remove_file(&path).unwrap();
        for ending in ["", LOG] {
            fs::write(beside(&path, ending), "new").unwrap();
        }
        assert!(!files.check());
        assert_eq!(fs::read(beside(&path, LOG)).unwrap(), b"new");
        drop((open, base));
    }
}
