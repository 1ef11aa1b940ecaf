//! The checkpoint of an import: a file by which the same command resumes where it was stopped.
//!
//! A file counts as the same as long as its size and date are. A checkpoint may lag behind what is
//! stored: rows sent twice are stored once.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use formats::read::Place;
use model::dataset::DatasetId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::files::ImportFile;
use crate::checkpoint;

/// The shortest time between two writes, which then cost nothing.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// Where the import of a file resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ResumePoint {
    pub(super) n_rows: u64,
    pub(super) place: Place,
    /// Rows after `place` that are stored, in the order of their timestamps: the rest of the file is
    /// sorted.
    pub(super) n_sorted: u64,
}

/// The progress of the files of one import.
#[derive(Debug)]
pub(super) struct ImportCheckpoint {
    /// `None`: there is no folder to write it to.
    path: Option<PathBuf>,
    /// By the whole path of each.
    files: BTreeMap<String, FileProgress>,
    written: Option<Instant>,
}

/// The progress of a file, as it is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct FileProgress {
    file: FileStamp,
    dataset: i64,
    rows: u64,
    place: [u64; 3],
    sorted: u64,
    done: bool,
}

/// What changes when a file's content does: its size, its date in microseconds since 1970, and the
/// dataset that it is meant for.
type FileStamp = (u64, u64, String);

impl ImportCheckpoint {
    /// Reads the checkpoint in `folder` of an import of the same files to the same datasets with the
    /// same flags (`reading`), unless it is to begin `again`: rows read in another way are others.
    pub(super) fn open(
        folder: Option<&Path>,
        address_and_reading: (&str, &str),
        files: &[ImportFile],
        again: bool,
    ) -> Self {
        let all =
            files.iter().map(|file| (&file.path, &file.dataset, format!("{:?}", file.format)));
        let identity = (address_and_reading, all.collect::<Vec<_>>(), std::env::current_dir().ok());
        let path = folder.map(|folder| folder.join(checkpoint::name(identity) + ".json"));
        let read = path.as_deref().filter(|_| !again).map(checkpoint::read);
        Self { path, files: read.unwrap_or_default(), written: None }
    }

    /// Whether all of the file is stored in `dataset`.
    pub(super) fn is_done(&self, file: &ImportFile, dataset: DatasetId) -> bool {
        self.progress(file, dataset).is_some_and(|progress| progress.done)
    }

    /// Forgets the progress of a dataset with this number.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.files.retain(|_, progress| progress.dataset != dataset.get());
    }

    /// Returns where the import of the file into `dataset` resumes.
    pub(super) fn resume_point(&self, file: &ImportFile, dataset: DatasetId) -> ResumePoint {
        let resume = self.progress(file, dataset).map(|progress| ResumePoint {
            n_rows: progress.rows,
            place: Place::of_numbers(progress.place),
            n_sorted: progress.sorted,
        });
        resume.unwrap_or_default()
    }

    /// Records the progress of a file.
    pub(super) fn record(&mut self, file: &ImportFile, dataset: DatasetId, resume: ResumePoint) {
        let (rows, place, sorted) = (resume.n_rows, resume.place.to_numbers(), resume.n_sorted);
        self.insert(file, dataset, FileProgress { rows, place, sorted, ..FileProgress::default() });
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            self.write();
        }
    }

    /// Records that all of the file is stored.
    pub(super) fn mark_done(&mut self, file: &ImportFile, dataset: DatasetId) {
        self.insert(file, dataset, FileProgress { done: true, ..FileProgress::default() });
        self.write();
    }

    fn insert(&mut self, file: &ImportFile, dataset: DatasetId, mut progress: FileProgress) {
        let Some((name, stamp)) = identity(file) else { return };
        (progress.file, progress.dataset) = (stamp, dataset.get());
        self.files.insert(name, progress);
    }

    /// Writes the checkpoint. Where that fails, a stopped import begins again: nothing is lost.
    pub(super) fn write(&mut self) {
        self.written = Some(Instant::now());
        let Some(path) = &self.path else { return };
        if let Err(error) = checkpoint::write(path, &self.files) {
            tracing::debug!(%error, "cannot write the checkpoint of the import");
        }
    }

    /// Removes the checkpoint: the import is done.
    pub(super) fn remove(self) {
        // Where nothing was written there is nothing to remove.
        drop(self.path.map(fs::remove_file));
    }

    fn progress(&self, file: &ImportFile, dataset: DatasetId) -> Option<&FileProgress> {
        let (name, stamp) = identity(file)?;
        let progress = self.files.get(&name)?;
        (progress.file == stamp && progress.dataset == dataset.get()).then_some(progress)
    }
}

/// A file's whole path, and what changes when its content does; none of standard input.
fn identity(file: &ImportFile) -> Option<(String, FileStamp)> {
    if file.is_stdin() {
        return None;
    }
    let path = fs::canonicalize(&file.path).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let changed = u64::try_from(changed.as_micros()).ok()?;
    Some((path.display().to_string(), (metadata.len(), changed, file.dataset.clone())))
}
