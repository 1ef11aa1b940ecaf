//! The checkpoint of an import: a file by which the same command resumes where it was stopped.
//!
//! A file counts as the same as long as its size and date are. A checkpoint may lag behind what is
//! stored: rows sent twice are stored once.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use formats::read::Place;
use model::dataset::DatasetId;
use serde_json::{Map, Value, json};
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
}

/// The progress of the files of one import.
#[derive(Debug)]
pub(super) struct ImportCheckpoint {
    /// `None`: there is no folder to write it to.
    path: Option<PathBuf>,
    files: Map<String, Value>,
    written: Option<Instant>,
}

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
        self.entry(file).is_some_and(|entry| {
            entry.get("done") == Some(&json!(true))
                && entry.get("dataset") == Some(&json!(dataset.get()))
        })
    }

    /// Forgets the progress of a dataset with this number.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.files.retain(|_, entry| entry.get("dataset") != Some(&json!(dataset.get())));
    }

    /// Returns where the import of the file into `dataset` resumes.
    pub(super) fn resume_point(&self, file: &ImportFile, dataset: DatasetId) -> ResumePoint {
        let resume = self.entry(file).and_then(|entry| {
            let number = |name: &str| entry.get(name)?.as_u64();
            let place: Vec<u64> = serde_json::from_value(entry.get("place")?.clone()).ok()?;
            let is_of = entry.get("dataset") == Some(&json!(dataset.get()));
            let place = Place::of_numbers(place.try_into().ok()?);
            is_of.then_some(ResumePoint { n_rows: number("rows")?, place })
        });
        resume.unwrap_or_default()
    }

    /// Records the progress of a file.
    pub(super) fn record(&mut self, file: &ImportFile, dataset: DatasetId, resume: ResumePoint) {
        let Some((name, stamp)) = identity(file) else { return };
        let entry = json!({
            "file": stamp,
            "dataset": dataset.get(),
            "rows": resume.n_rows,
            "place": resume.place.to_numbers(),
        });
        self.files.insert(name, entry);
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            self.write();
        }
    }

    /// Records that all of the file is stored.
    pub(super) fn mark_done(&mut self, file: &ImportFile, dataset: DatasetId) {
        let Some((name, stamp)) = identity(file) else { return };
        self.files.insert(name, json!({"file": stamp, "dataset": dataset.get(), "done": true}));
        self.write();
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

    fn entry(&self, file: &ImportFile) -> Option<&Map<String, Value>> {
        let (name, stamp) = identity(file)?;
        let entry = self.files.get(&name)?.as_object()?;
        (entry.get("file") == Some(&stamp)).then_some(entry)
    }
}

/// A file's whole path, and what changes when its content does; none of standard input.
fn identity(file: &ImportFile) -> Option<(String, Value)> {
    if file.is_stdin() {
        return None;
    }
    let path = fs::canonicalize(&file.path).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let changed = u64::try_from(changed.as_micros()).ok()?;
    Some((path.display().to_string(), json!([metadata.len(), changed, file.dataset])))
}
