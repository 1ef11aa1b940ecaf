//! Quota of a guest's files.
//!
//! The files are counted whenever the guest is interrupted ([`ticker`](crate::ticker)) and when it has
//! ended, both in its directory and unlinked files that are still open. So a guest exceeds its limits at
//! most by the files that it creates and the bytes that it writes between two interruptions.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tokio::time::Instant;
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;

use crate::files::{Files, FilesLimits};
use crate::system;

/// Minimum time between two counts, as a multiple of the duration of a count. Counting thousand files
/// takes about a millisecond, so a guest with many files must not be interrupted for each tick.
const COUNT_PAUSE_FACTOR: u32 = 9;

/// Usage and limits of a guest's files.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
    limits: FilesLimits,
    /// Files opened by the guest.
    open: Vec<Weak<File>>,
    /// Time of the next count.
    count_at: Instant,
}

/// The guest's files exceed these limits.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("files exceed their limits")]
pub(crate) struct FilesFull(pub(crate) FilesLimits);

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
        let (folder, limits) = (files.folder.clone(), files.limits?);
        Some(Self { folder, limits, open: Vec::new(), count_at: Instant::now() })
    }

    /// Like [`Self::check`], unless the files were counted just before.
    pub(crate) fn check_if_due(&mut self, table: &mut ResourceTable) -> Result<(), FilesFull> {
        let started = Instant::now();
        if started < self.count_at {
            return Ok(());
        }
        let checked = self.check(table);
        self.count_at = Instant::now() + started.elapsed() * COUNT_PAUSE_FACTOR;
        checked
    }

    /// Counts the files of a guest with this table. Blocks.
    ///
    /// # Errors
    /// [`FilesFull`] if a limit is exceeded. The guest must be stopped.
    pub(crate) fn check(&mut self, table: &mut ResourceTable) -> Result<(), FilesFull> {
        self.note_open(table);
        count(&self.folder, &self.open, self.limits).map(drop).ok_or(FilesFull(self.limits))
    }

    /// Records the open files in `table`, so that they count after they are unlinked.
    pub(crate) fn note_open(&mut self, table: &mut ResourceTable) {
        self.open.retain(|open| open.strong_count() > 0);
        for entry in table.iter_mut() {
            if let Some(Descriptor::File(file)) = entry.downcast_ref() {
                let file = Arc::downgrade(&file.file);
                if !self.open.iter().any(|open| open.ptr_eq(&file)) {
                    self.open.push(file);
                }
            }
        }
    }
}

impl Usage {
    fn add(&mut self, metadata: &Metadata) {
        self.n_files += 1;
        self.bytes = self.bytes.saturating_add(system::disk_bytes(metadata));
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
            usage.add(&metadata);
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
            usage.add(&metadata);
        }
    }
    usage
}
