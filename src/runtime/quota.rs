//! Quota of a guest's files.
//!
//! Each call is charged the maximum that it could have added. When the charges since the last count
//! could exceed a limit, all files are counted again, both in the directory and unlinked files that are
//! still open. So a guest exceeds its limit by at most one write of [`WRITE_BYTES_MAX`], and files are
//! rarely counted while their size is far below the limit.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;

use crate::files::{Files, FilesLimits};
use crate::system;

/// Maximum number of bytes per write. Longer writes are shortened, as POSIX allows. The guest writes the
/// rest with its next calls.
pub(crate) const WRITE_BYTES_MAX: u32 = 1024 * 1024;

/// Allocation unit that is assumed if the file system reports a smaller one.
const CLUSTER_BYTES_MIN: u64 = 4096;

/// Usage and limits of a guest's files. Cheap to clone: all clones share the usage.
#[derive(Debug, Clone)]
pub(crate) struct Quota(Arc<Mutex<QuotaState>>);

/// The guest's files exceed these limits.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("files exceed their limits")]
pub(crate) struct FilesFull(pub(crate) FilesLimits);

#[derive(Debug)]
struct QuotaState {
    folder: PathBuf,
    limits: FilesLimits,
    /// Allocation unit of the file system.
    cluster_bytes: u64,
    /// Usage at the last count.
    counted: Usage,
    /// Charges since then.
    charged: Usage,
    /// Files opened by the guest.
    open: Vec<Weak<File>>,
}

/// Number and size of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Number of files, directories and links.
    n_files: usize,
    /// Size of the files on the disk.
    bytes: u64,
}

impl Quota {
    /// Creates the quota of a directory, or `None` if it has no limits.
    pub(crate) fn new(files: &Files) -> Option<Self> {
        let limits = files.limits?;
        let cluster_bytes =
            fs::metadata(&files.folder).map_or(0, |about| system::cluster_bytes(&about));
        // The charges begin at the limits, so that the first call counts the existing files.
        let charged = Usage { n_files: limits.n_files_max, bytes: limits.bytes_max };
        Some(Self(Arc::new(Mutex::new(QuotaState {
            folder: files.folder.clone(),
            limits,
            cluster_bytes: cluster_bytes.max(CLUSTER_BYTES_MIN),
            counted: Usage::default(),
            charged,
            open: Vec::new(),
        }))))
    }

    /// Charges `n_bytes` that were written to a file. Blocks.
    ///
    /// # Errors
    /// [`FilesFull`] if a limit is exceeded. The guest must be stopped.
    pub(crate) fn wrote(&self, n_bytes: u64) -> Result<(), FilesFull> {
        self.0.lock().charge(0, n_bytes)
    }

    /// Charges a file, directory or link that could have been created. Blocks.
    ///
    /// # Errors
    /// As [`Self::wrote`].
    pub(crate) fn charge_entry(&self) -> Result<(), FilesFull> {
        self.0.lock().charge(1, 0)
    }

    /// Records the open files in `table`, so that they count after they are unlinked.
    pub(crate) fn note_open(&self, table: &mut ResourceTable) {
        for entry in table.iter_mut() {
            if let Some(Descriptor::File(file)) = entry.downcast_ref() {
                self.hold(&file.file);
            }
        }
    }

    /// Records an open file.
    fn hold(&self, file: &Arc<File>) {
        let open = &mut self.0.lock().open;
        open.retain(|open| open.strong_count() > 0);
        let file = Arc::downgrade(file);
        if !open.iter().any(|open| open.ptr_eq(&file)) {
            open.push(file);
        }
    }
}

impl QuotaState {
    fn charge(&mut self, n_files: usize, n_bytes: u64) -> Result<(), FilesFull> {
        // An unaligned write touches one more cluster.
        let n_clusters = n_bytes.div_ceil(self.cluster_bytes).saturating_add(1);
        let bytes = n_clusters.saturating_mul(self.cluster_bytes);
        self.charged = self.charged.and(Usage { n_files, bytes });
        if self.counted.and(self.charged).is_within(self.limits) {
            return Ok(());
        }
        self.counted =
            count(&self.folder, &self.open, self.limits).ok_or(FilesFull(self.limits))?;
        // The latest write might not be on the disk yet, so its charge is kept.
        self.charged = Usage { n_files, bytes };
        Ok(())
    }
}

impl Usage {
    const fn and(self, other: Self) -> Self {
        Self {
            n_files: self.n_files.saturating_add(other.n_files),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    const fn is_within(self, limits: FilesLimits) -> bool {
        self.n_files <= limits.n_files_max && self.bytes <= limits.bytes_max
    }
}

/// Counts the files in `folder` and the unlinked files in `open`. Returns `None` if they exceed the
/// limits or are nested too deeply to be counted.
pub(crate) fn count(folder: &Path, open: &[Weak<File>], limits: FilesLimits) -> Option<Usage> {
    let mut usage = nameless(open);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(_) => return None,
        };
        for entry in entries.flatten() {
            // Links are not followed.
            let Ok(metadata) = entry.metadata() else { continue };
            usage = usage.and(Usage { n_files: 1, bytes: system::disk_bytes(&metadata) });
            if !usage.is_within(limits) {
                return None;
            }
            if metadata.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    usage.is_within(limits).then_some(usage)
}

/// Counts the unlinked open files, each once.
fn nameless(open: &[Weak<File>]) -> Usage {
    let (mut usage, mut seen) = (Usage::default(), BTreeSet::new());
    for file in open.iter().filter_map(Weak::upgrade) {
        let Ok(metadata) = file.metadata() else { continue };
        if system::nameless_file(&metadata).is_some_and(|number| seen.insert(number)) {
            usage = usage.and(Usage { n_files: 1, bytes: system::disk_bytes(&metadata) });
        }
    }
    usage
}
