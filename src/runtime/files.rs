//! The folder a guest sees as `/`. The host's calls keep a guest inside of it, and `quota.rs` within
//! its limits.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What a guest's folder may hold unless its host says otherwise: the scratch files of a run, not a
/// store.
pub const LIMITS_DEFAULT: FilesLimits =
    FilesLimits { n_files_max: 1000, bytes_max: 256 * 1024 * 1024 };

/// Where a guest sees the files that its function consists of.
pub const FUNCTION_DIR: &str = "/function";

/// A folder for one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Where it is. It is made if it is not there.
    pub folder: PathBuf,
    /// What happens to the folder once the guest has ended.
    pub afterwards: FolderCleanup,
    /// How much it may hold. None: as much as the disk.
    pub limits: Option<FilesLimits>,
    /// The folder of the function's own files, which the guest sees as [`FUNCTION_DIR`] and cannot
    /// change. None: it has none but its module.
    pub function: Option<PathBuf>,
}

/// What happens to a guest's folder once the guest has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderCleanup {
    /// It is removed with all it holds.
    Remove,
    /// It stays as the guest left it.
    Keep,
}

/// How much a folder may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesLimits {
    /// Files, folders and links together.
    pub n_files_max: usize,
    /// What they take on the disk.
    pub bytes_max: u64,
}

/// A guest's folder while the guest runs.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) Files);

impl Folder {
    /// Makes the folder.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn make(files: Files) -> io::Result<Self> {
        fs::create_dir_all(&files.folder)?;
        Ok(Self(files))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0.afterwards == FolderCleanup::Remove
            && let Err(error) = remove(&self.0.folder)
        {
            tracing::warn!(folder = %self.0.folder.display(), %error, "a guest's folder stays");
        }
    }
}

/// Removes `folder` and all below it, however deep: no path here is longer than two steps, and no
/// more than two folders are open at a time.
///
/// # Errors
/// The system's.
pub fn remove(folder: &Path) -> io::Result<()> {
    let mut n_lifted = 0_u64;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            is_empty = false;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            for inner in fs::read_dir(entry.path())? {
                let inner = inner?;
                if inner.file_type()?.is_dir() {
                    lift(&inner.path(), folder, &mut n_lifted)?;
                } else {
                    fs::remove_file(inner.path())?;
                }
            }
            fs::remove_dir(entry.path())?;
        }
        if is_empty {
            return fs::remove_dir(folder);
        }
    }
}

/// Moves the folder `inner` right into `folder`, under a name that nothing there has.
fn lift(inner: &Path, folder: &Path, n_lifted: &mut u64) -> io::Result<()> {
    loop {
        *n_lifted += 1;
        let place = folder.join(format!("lifted-{n_lifted}"));
        if place.symlink_metadata().is_err() {
            return fs::rename(inner, place);
        }
    }
}

#[cfg(test)]
mod tests;
