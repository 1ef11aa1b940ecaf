//! The folder a guest sees as `/`, and how much it may hold.
//!
//! The host's calls keep a guest inside of its folder. What it leaves there is counted now and then
//! while it runs, not at each call, so that a fast writer overshoots its limit by what a disk takes
//! in a few hundredths of a second, and by one write of at most its memory's size.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// How long a guest writes before its folder is counted.
const COUNT_EVERY: Duration = Duration::from_millis(10);

/// The share of a guest's time that counting may take: large folders are counted less often.
const COUNT_SHARE: u32 = 10;

/// What a block of a file is measured in, whatever the disk's own blocks are.
const BLOCK_BYTES: u64 = 512;

/// What a guest's folder may hold unless its host says otherwise: the scratch files of a run, not a
/// store.
pub const LIMITS_DEFAULT: FilesLimits =
    FilesLimits { n_files_max: 1000, bytes_max: 256 * 1024 * 1024 };

/// A folder for one guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Where it is. It is made if it is not there.
    pub folder: PathBuf,
    /// What becomes of it.
    pub afterwards: Afterwards,
    /// How much it may hold. None: as much as the disk.
    pub limits: Option<FilesLimits>,
}

/// What becomes of a guest's folder once the guest has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
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
pub(crate) struct Folder(Files);

impl Folder {
    /// Makes the folder.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn make(files: Files) -> io::Result<Self> {
        fs::create_dir_all(&files.folder)?;
        Ok(Self(files))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0.folder
    }

    /// Waits until it holds more than it may. Cancel-safe.
    pub(crate) async fn overfull(&self) {
        let Some(limits) = self.0.limits else { return std::future::pending().await };
        let mut pause = COUNT_EVERY;
        loop {
            sleep(pause).await;
            let began = Instant::now();
            if is_overfull(&self.0.folder, limits) {
                return;
            }
            pause = COUNT_EVERY.max(began.elapsed().saturating_mul(COUNT_SHARE));
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0.afterwards == Afterwards::Remove
            && let Err(error) = remove(&self.0.folder)
        {
            tracing::warn!(folder = %self.0.folder.display(), %error, "a guest's folder stays");
        }
    }
}

/// Whether `folder` holds more than it may. One that cannot be counted does, since its guest nested
/// it too deep, but for what vanishes meanwhile.
fn is_overfull(folder: &Path, limits: FilesLimits) -> bool {
    let (mut n_files, mut bytes) = (0, 0_u64);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return true,
        };
        for entry in entries.flatten() {
            // Of a link this is the link itself.
            let Ok(metadata) = entry.metadata() else { continue };
            n_files += 1;
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(BLOCK_BYTES));
            if n_files > limits.n_files_max || bytes > limits.bytes_max {
                return true;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    false
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
