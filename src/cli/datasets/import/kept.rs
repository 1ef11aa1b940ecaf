//! How far an import is, kept in a file, so that the same command goes on where it was stopped.
//!
//! A file counts as the same as long as its size and date are. What is kept may lag behind what is
//! stored by a moment: rows sent twice are stored once.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use formats::read::Place;
use model::dataset::DatasetId;
use serde_json::{Map, Value, json};
use stack::data_dir::project_dirs;
use task::file::{FileMode, write_atomic};
use tokio::time::Instant;

use super::files::Sourced;

/// How often it is written: seldom enough to cost nothing.
const WRITE_EVERY: Duration = Duration::from_millis(200);

/// How far a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Begun {
    pub(super) n_rows: u64,
    pub(super) place: Place,
}

/// How far the files of one import are.
#[derive(Debug)]
pub(super) struct Kept {
    /// None: there is no folder to keep it in.
    path: Option<PathBuf>,
    files: Map<String, Value>,
    written: Option<Instant>,
}

impl Kept {
    /// What an import of the same files to the same datasets left that was `reading` them in the
    /// same way, unless it is to begin `again`: rows read in another way are others.
    pub(super) fn open((address, reading): (&str, &str), files: &[Sourced], again: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        (address, reading).hash(&mut hasher);
        for file in files {
            (&file.path, &file.dataset, format!("{:?}", file.format)).hash(&mut hasher);
            std::env::current_dir().ok().hash(&mut hasher);
        }
        let name = format!("{:016x}.json", hasher.finish());
        let path = project_dirs().ok().map(|it| it.data_local_dir().join("imports").join(name));
        let text = path.as_ref().filter(|_| !again).and_then(|path| fs::read(path).ok());
        let files = text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Self { path, files, written: None }
    }

    /// Whether all of the file is stored in `dataset`.
    pub(super) fn is_done(&self, file: &Sourced, dataset: DatasetId) -> bool {
        self.of(file).is_some_and(|kept| {
            kept.get("done") == Some(&json!(true))
                && kept.get("dataset") == Some(&json!(dataset.get()))
        })
    }

    /// Forgets what was noted of a dataset with this number.
    pub(super) fn forget(&mut self, dataset: DatasetId) {
        self.files.retain(|_, kept| kept.get("dataset") != Some(&json!(dataset.get())));
    }

    /// How far the file is into `dataset`.
    pub(super) fn begun(&self, file: &Sourced, dataset: DatasetId) -> Begun {
        let begun = self.of(file).and_then(|kept| {
            let number = |name: &str| kept.get(name)?.as_u64();
            let place: Vec<u64> = serde_json::from_value(kept.get("place")?.clone()).ok()?;
            let is_of = kept.get("dataset") == Some(&json!(dataset.get()));
            let place = Place::of_numbers(place.try_into().ok()?);
            is_of.then_some(Begun { n_rows: number("rows")?, place })
        });
        begun.unwrap_or_default()
    }

    /// Notes how far the file is.
    pub(super) fn note(&mut self, file: &Sourced, dataset: DatasetId, begun: Begun) {
        let Some((name, stamp)) = identity(file) else { return };
        let kept = json!({
            "file": stamp,
            "dataset": dataset.get(),
            "rows": begun.n_rows,
            "place": begun.place.to_numbers(),
        });
        self.files.insert(name, kept);
        if self.written.is_none_or(|written| written.elapsed() >= WRITE_EVERY) {
            self.write();
        }
    }

    /// Notes that all of the file is stored.
    pub(super) fn done(&mut self, file: &Sourced, dataset: DatasetId) {
        let Some((name, stamp)) = identity(file) else { return };
        self.files.insert(name, json!({"file": stamp, "dataset": dataset.get(), "done": true}));
        self.write();
    }

    /// Writes what was noted. Where that fails, a stopped import begins again: nothing is lost.
    pub(super) fn write(&mut self) {
        self.written = Some(Instant::now());
        let Some(path) = &self.path else { return };
        let text = Value::Object(self.files.clone()).to_string();
        let folder = path.parent().map(fs::create_dir_all);
        let written =
            folder.transpose().and_then(|_| write_atomic(path, text.as_bytes(), FileMode::Private));
        if let Err(error) = written {
            tracing::debug!(%error, "how far the import is was not kept");
        }
    }

    /// Forgets everything: the import is done.
    pub(super) fn remove(self) {
        // Where nothing was kept there is nothing to remove.
        drop(self.path.map(fs::remove_file));
    }

    fn of(&self, file: &Sourced) -> Option<&Map<String, Value>> {
        let (name, stamp) = identity(file)?;
        let kept = self.files.get(&name)?.as_object()?;
        (kept.get("file") == Some(&stamp)).then_some(kept)
    }
}

/// A file's whole path, and what changes when its content does; none of standard input.
fn identity(file: &Sourced) -> Option<(String, Value)> {
    if file.is_stdin() {
        return None;
    }
    let path = fs::canonicalize(&file.path).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let changed = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let changed = u64::try_from(changed.as_micros()).ok()?;
    Some((path.display().to_string(), json!([metadata.len(), changed, file.dataset])))
}
