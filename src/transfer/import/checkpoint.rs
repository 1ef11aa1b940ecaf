//! Checkpoint of an import, from which the same command resumes.
//!
//! A file counts as unchanged if its size and the time of its last change are unchanged. Programs cannot
//! restore that time, unlike the modification time. It also changes with the permissions, the name and the
//! hard links of a file, which is then read again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::read::Place;
use model::dataset::DatasetId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::files::ImportFile;
use crate::checkpoint;

/// Minimum time between two writes of the checkpoint, so that their cost is negligible.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// Point in a file at which an interrupted import resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ResumePoint {
    pub(super) n_rows: u64,
    pub(super) place: Place,
    /// Number of rows that are stored of the rest of the file, which begins at `place` and is sent
    /// sorted. 0 while rows are sent in the order of the file.
    pub(super) n_sorted: u64,
}

/// Checkpoint of an import, with the progress of each file.
#[derive(Debug)]
pub(super) struct ImportCheckpoint {
    /// Path of the checkpoint file; `None` without a directory for checkpoints.
    path: Option<PathBuf>,
    /// Progress of each file or part of a file, by the keys that [`identity`] returns.
    files: BTreeMap<String, FileProgress>,
    written: Option<Instant>,
}

/// Progress of a file, in the format of the checkpoint file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct FileProgress {
    file: FileStamp,
    dataset: i64,
    rows: u64,
    place: [u64; 3],
    /// Value of [`ResumePoint::n_sorted`]. The name `sorted` is taken by a different count of an earlier
    /// version.
    sorted_in_parts: u64,
    done: bool,
}

/// Values that identify the content of a file: size, time of the last change in nanoseconds since 1970,
/// and dataset of its rows.
type FileStamp = (u64, i64, String);

impl ImportCheckpoint {
    /// Reads the checkpoint in `folder` of an earlier import of the same files to the same datasets,
    /// with the same options (`reading`). With other options, other rows would be read. Ignores the
    /// checkpoint if `again` is true.
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

    /// Returns true if all rows of the file are stored in `dataset`.
    pub(super) fn is_done(&self, file: &ImportFile, dataset: DatasetId) -> bool {
        self.progress(file, dataset).is_some_and(|progress| progress.done)
    }

    /// Removes the progress of all files with rows in `dataset`.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.files.retain(|_, progress| progress.dataset != dataset.get());
    }

    /// Returns the point at which the import of the file into `dataset` resumes.
    pub(super) fn resume_point(&self, file: &ImportFile, dataset: DatasetId) -> ResumePoint {
        let first = ResumePoint { place: file.begin(), ..ResumePoint::default() };
        let resume = self.progress(file, dataset).map(|progress| ResumePoint {
            n_rows: progress.rows,
            place: Place::of_numbers(progress.place),
            n_sorted: progress.sorted_in_parts,
        });
        resume.unwrap_or(first)
    }

    /// Records the progress of a file. Writes the checkpoint unless it was written shortly before.
    pub(super) fn record(&mut self, file: &ImportFile, dataset: DatasetId, resume: ResumePoint) {
        let (rows, place, sorted_in_parts) =
            (resume.n_rows, resume.place.to_numbers(), resume.n_sorted);
        self.insert(
            file,
            dataset,
            FileProgress { rows, place, sorted_in_parts, ..FileProgress::default() },
        );
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            self.write();
        }
    }

    /// Records that all rows of the file are stored, and writes the checkpoint.
    pub(super) fn mark_done(&mut self, file: &ImportFile, dataset: DatasetId) {
        self.insert(file, dataset, FileProgress { done: true, ..FileProgress::default() });
        self.write();
    }

    fn insert(&mut self, file: &ImportFile, dataset: DatasetId, mut progress: FileProgress) {
        let Some((name, stamp)) = identity(file) else { return };
        (progress.file, progress.dataset) = (stamp, dataset.get());
        self.files.insert(name, progress);
    }

    /// Writes the checkpoint. If this fails, an import that is stopped later does not resume from here.
    pub(super) fn write(&mut self) {
        self.written = Some(Instant::now());
        let Some(path) = &self.path else { return };
        if let Err(error) = checkpoint::write(path, &self.files) {
            tracing::debug!(%error, "cannot write the checkpoint of the import");
        }
    }

    /// Removes the checkpoint file, which is no longer needed after the import is done.
    pub(super) fn remove(self) {
        // An error is ignored, since there is no file if no checkpoint was written.
        drop(self.path.map(fs::remove_file));
    }

    fn progress(&self, file: &ImportFile, dataset: DatasetId) -> Option<&FileProgress> {
        let (name, stamp) = identity(file)?;
        let progress = self.files.get(&name)?;
        (progress.file == stamp && progress.dataset == dataset.get()).then_some(progress)
    }
}

/// Returns the key of a file in the checkpoint, which is its absolute path and, if the file is split,
/// the dataset. Also returns the identity of its content. Returns `None` for standard input.
fn identity(file: &ImportFile) -> Option<(String, FileStamp)> {
    if file.is_stdin() {
        return None;
    }
    let path = fs::canonicalize(&file.path).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let changed =
        metadata.ctime().checked_mul(1_000_000_000)?.checked_add(metadata.ctime_nsec())?;
    let path = path.display();
    let name =
        if file.split.is_some() { format!("{path} as {}", file.dataset) } else { path.to_string() };
    Some((name, (metadata.len(), changed, file.dataset.clone())))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use formats::read::Format;

    use super::*;

    #[test]
    fn file_with_other_content_is_changed_despite_its_size_and_modification_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "t,x\n2026-03-01,1\n").unwrap();
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let file = ImportFile {
            path: path.clone(),
            format: Format::Csv,
            dataset: "a".to_owned(),
            is_named: false,
            parts: BTreeMap::new(),
            split: None,
        };
        let before = identity(&file);
        assert_eq!(identity(&file), before);
        // Several writes can have the same time, since the clock of a file system is coarse.
        let is_changed = (0..100_000).any(|_| {
            fs::write(&path, "t,x\n2026-03-01,2\n").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
            identity(&file) != before
        });
        assert!(is_changed && before.is_some());
    }
}
