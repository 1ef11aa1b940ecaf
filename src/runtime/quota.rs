//! How much a guest's files may take, counted where the guest writes.
//!
//! Each call that adds something is charged what it adds at most. Where the charges since the last
//! count could have passed a limit, everything is counted again: what is in the folder, and files
//! that are open and have no name any more. So a guest passes its limit by one write at most, a write
//! is [`WRITE_BYTES_MAX`] at most, and a guest far from its limit is rarely counted.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use wasmtime_wasi::{ResourceTable, filesystem::Descriptor};

use crate::{
    files::{Files, FilesLimits},
    system,
};

/// The most bytes that one call writes to a file: a short write, as POSIX allows. The guest writes the
/// rest with its next call.
pub(crate) const WRITE_BYTES_MAX: u32 = 1024 * 1024;

/// The least that a file system sets aside for a byte, where it says less.
const CLUSTER_BYTES_MIN: u64 = 4096;

/// What a guest's files take, at most its limits. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Quota(Arc<Mutex<State>>);

/// The guest's files take more than they may.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("keep files within their limits")]
pub(crate) struct FilesFull;

#[derive(Debug)]
struct State {
    folder: PathBuf,
    limits: FilesLimits,
    /// What the file system sets aside at once.
    cluster_bytes: u64,
    /// What the last count found.
    counted: Usage,
    /// What may have been added since.
    charged: Usage,
    /// Files that the guest has opened, as far as they may still be open.
    open: Vec<Weak<File>>,
}

/// An amount of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Files, folders and links together.
    n_files: usize,
    /// What they take on the disk.
    bytes: u64,
}

impl Quota {
    /// Begins to count the files in a folder. None if they have no limits.
    pub(crate) fn new(files: &Files) -> Option<Self> {
        let limits = files.limits?;
        let cluster_bytes =
            fs::metadata(&files.folder).map_or(0, |about| system::cluster_bytes(&about));
        // Nothing is counted yet: the first charge counts what was in the folder before.
        let charged = Usage { n_files: limits.n_files_max, bytes: limits.bytes_max };
        Some(Self(Arc::new(Mutex::new(State {
            folder: files.folder.clone(),
            limits,
            cluster_bytes: cluster_bytes.max(CLUSTER_BYTES_MIN),
            counted: Usage::default(),
            charged,
            open: Vec::new(),
        }))))
    }

    /// Charges `n_bytes` written to a file. Blocks.
    ///
    /// # Errors
    /// [`FilesFull`] if there is more than the limits allow; the guest is to end.
    pub(crate) fn wrote(&self, n_bytes: u64) -> Result<(), FilesFull> {
        self.0.lock().charge(0, n_bytes)
    }

    /// Charges a file, folder or link that may have been made. Blocks.
    ///
    /// # Errors
    /// As [`Self::wrote`].
    pub(crate) fn charge_entry(&self) -> Result<(), FilesFull> {
        self.0.lock().charge(1, 0)
    }

    /// Takes note of the files that a guest has open in `table`.
    pub(crate) fn note_open(&self, table: &mut ResourceTable) {
        for entry in table.iter_mut() {
            if let Some(Descriptor::File(file)) = entry.downcast_ref() {
                self.hold(&file.file);
            }
        }
    }

    /// Takes note that a file is open.
    fn hold(&self, file: &Arc<File>) {
        let open = &mut self.0.lock().open;
        open.retain(|open| open.strong_count() > 0);
        let file = Arc::downgrade(file);
        if !open.iter().any(|open| open.ptr_eq(&file)) {
            open.push(file);
        }
    }
}

impl State {
    fn charge(&mut self, n_files: usize, n_bytes: u64) -> Result<(), FilesFull> {
        // Written across the border of two clusters, a byte more takes one more.
        let n_clusters = n_bytes.div_ceil(self.cluster_bytes).saturating_add(1);
        let bytes = n_clusters.saturating_mul(self.cluster_bytes);
        self.charged = self.charged.and(Usage { n_files, bytes });
        if self.counted.and(self.charged).is_within(self.limits) {
            return Ok(());
        }
        self.counted = count(&self.folder, &self.open, self.limits).ok_or(FilesFull)?;
        // What is charged now may still be on its way to the disk.
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

/// Counts what is in `folder` and what is `open` without a name. None if it is more than the limits
/// allow, or if it cannot be counted, since the guest nested it too deep.
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
            // Of a link this is the link itself.
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

/// Counts the files that are open and have no name, each once.
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
