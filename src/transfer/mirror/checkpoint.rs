//! The checkpoints of copies: a file for each, by which a killed mirror resumes.
//!
//! A checkpoint is written after the rows are stored, never before.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use model::{dataset::DatasetId, timestamp::Timestamp};
use serde_json::{Value, json};

use crate::checkpoint;

/// The folder of checkpoints of one source and one target.
#[derive(Debug)]
pub(super) struct CheckpointFolder(PathBuf);

/// The progress of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CopyCheckpoint {
    /// The timestamp up to which all rows are stored that the source had when they were read.
    pub(super) done_until: Option<Timestamp>,
    /// The timestamp before which rows were not copied; `None` for no bound.
    pub(super) start: Option<Timestamp>,
    /// Whether that was once all there was: then the stream is enough to go on.
    pub(super) is_whole: bool,
    /// The event of the source's stream up to which all rows are stored, late ones included.
    pub(super) last_event_id: Option<String>,
}

impl CheckpointFolder {
    /// Opens the folder of copies from `source` to `target`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn open(folder: &Path, source: &str, target: &str) -> anyhow::Result<Self> {
        let folder = folder.join(checkpoint::name((source, target)));
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// Reads the checkpoint of the copy of `source` to `target`; the default without one.
    pub(super) fn read(&self, source: DatasetId, target: DatasetId) -> CopyCheckpoint {
        let checkpoint = || {
            let checkpoint: Value = checkpoint::read(&self.path(source));
            // Another copy, such as one before that was deleted, has other rows.
            (checkpoint.get("target")?.as_i64()? == target.get()).then_some(())?;
            let text = |name: &str| Some(checkpoint.get(name)?.as_str()?.to_owned());
            Some(CopyCheckpoint {
                start: text("start").and_then(|text| text.parse().ok()),
                done_until: text("done_until").and_then(|text| text.parse().ok()),
                is_whole: checkpoint.get("is_whole")?.as_bool()?,
                last_event_id: text("last_event_id"),
            })
        };
        checkpoint().unwrap_or_default()
    }

    /// Writes the checkpoint of a copy.
    ///
    /// # Errors
    /// If it cannot be written: then a mirror that is killed begins again.
    pub(super) fn write(
        &self,
        source: DatasetId,
        target: DatasetId,
        checkpoint: &CopyCheckpoint,
    ) -> anyhow::Result<()> {
        let path = self.path(source);
        let checkpoint = json!({
            "target": target.get(),
            "start": checkpoint.start.map(|timestamp| timestamp.to_string()),
            "done_until": checkpoint.done_until.map(|timestamp| timestamp.to_string()),
            "is_whole": checkpoint.is_whole,
            "last_event_id": checkpoint.last_event_id,
        });
        let written = checkpoint::write(&path, &checkpoint);
        written.with_context(|| format!("write the checkpoint {}", path.display()))
    }

    fn path(&self, source: DatasetId) -> PathBuf {
        self.0.join(format!("{source}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_again_for_the_same_copy() {
        let base = tempfile::tempdir().unwrap();
        let folder = CheckpointFolder::open(base.path(), "http://a", "http://b").unwrap();
        let [one, two] = [1, 2].map(|number| DatasetId::new(number).unwrap());
        let checkpoint = CopyCheckpoint {
            done_until: Some("2026-07-30T21:57:00.000001Z".parse().unwrap()),
            start: None,
            is_whole: true,
            last_event_id: Some("x:1".to_owned()),
        };
        folder.write(one, two, &checkpoint).unwrap();
        assert_eq!(folder.read(one, two), checkpoint);
        let later = CopyCheckpoint { start: checkpoint.done_until, ..checkpoint.clone() };
        folder.write(one, two, &later).unwrap();
        assert_eq!(folder.read(one, two), later);
        folder.write(one, two, &checkpoint).unwrap();
        assert_eq!(folder.read(one, one), CopyCheckpoint::default());
        assert_eq!(folder.read(two, two), CopyCheckpoint::default());
        let other = CheckpointFolder::open(base.path(), "http://a", "http://c").unwrap();
        assert_eq!(other.read(one, two), CopyCheckpoint::default());
    }
}
