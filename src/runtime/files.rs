//! Directory that a guest sees as `/`. Host calls confine the guest to it. `quota.rs` enforces its
//! limits.

use std::path::{Path, PathBuf};
use std::{fs, io};

use task::private::create_folder;

/// Default limits of a guest's directory, sufficient for the temporary files of a run.
pub const LIMITS_DEFAULT: FilesLimits =
    FilesLimits { n_files_max: 1000, bytes_max: 256 * 1024 * 1024 };

/// Path at which a guest sees the files of its function.
pub const FUNCTION_DIR: &str = "/function";

/// Directory of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Path of the directory. It is created if it does not exist.
    pub folder: PathBuf,
    /// Cleanup after the run.
    pub afterwards: FolderCleanup,
    /// Limits; `None` if unlimited.
    pub limits: Option<FilesLimits>,
    /// Directory with the function's own files, which the guest can read as [`FUNCTION_DIR`]; `None` if
    /// the function is a single module.
    pub function: Option<PathBuf>,
}

/// Cleanup of a guest's directory after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderCleanup {
    /// Removes the directory with its content.
    Remove,
    /// Leaves the directory unchanged.
    Keep,
}

/// Limits of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesLimits {
    /// Maximum number of files, directories and links.
    pub n_files_max: usize,
    /// Maximum size on the disk.
    pub bytes_max: u64,
}

/// Directory of a running guest.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) Files);

impl Folder {
    /// Creates the directory. Other users cannot read it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(crate) fn make(files: Files) -> io::Result<Self> {
        create_folder(&files.folder)?;
        Ok(Self(files))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0.afterwards == FolderCleanup::Remove
            && let Err(error) = remove(&self.0.folder)
        {
            tracing::warn!(folder = %self.0.folder.display(), %error, "guest's directory cannot be removed");
        }
    }
}

/// Removes `folder` and its content at any depth. Never uses paths of more than two components below
/// `folder` or opens more than two directories at a time.
///
/// # Errors
/// If an entry cannot be removed.
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

/// Moves the directory `inner` into `folder` under an unused name.
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
