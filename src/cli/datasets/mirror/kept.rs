//! How far each copy is, kept in a file for each, so that a killed mirror goes on where it was.
//!
//! It is written after the rows are stored, never before: what it says is there, is there.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
};

use anyhow::Context as _;
use model::{dataset::DatasetId, timestamp::Timestamp};
use serde_json::{Value, json};
use stack::data_dir::project_dirs;
use task::file::{FileMode, write_atomic};

/// The folder of one source and one target.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Kept {
    /// The moment up to which all rows are stored that the source had when they were read.
    pub(super) done_until: Option<Timestamp>,
    /// The moment before which rows were not wanted, if any.
    pub(super) start: Option<Timestamp>,
    /// Whether that was once all there was: then the stream is enough to go on.
    pub(super) is_whole: bool,
    /// The event of the source's stream up to which all rows are stored, late ones included.
    pub(super) last_event_id: Option<String>,
}

impl Folder {
    /// That of copies from `source` to `target`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(super) fn of(folder: Option<PathBuf>, source: &str, target: &str) -> anyhow::Result<Self> {
        let base = match folder {
            Some(folder) => folder,
            None => project_dirs()?.data_local_dir().join("mirrors"),
        };
        let mut hasher = DefaultHasher::new();
        (source, target).hash(&mut hasher);
        let folder = base.join(format!("{:016x}", hasher.finish()));
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self(folder))
    }

    /// How far the copy of `source` to `target` is.
    pub(super) fn read(&self, source: DatasetId, target: DatasetId) -> Kept {
        let kept = || {
            let text = fs::read(self.path(source)).ok()?;
            let kept: Value = serde_json::from_slice(&text).ok()?;
            // Another copy, such as one before that was deleted, has other rows.
            (kept.get("target")?.as_i64()? == target.get()).then_some(())?;
            let text = |name: &str| Some(kept.get(name)?.as_str()?.to_owned());
            // Where it is not told, as by earlier versions, all may be lacking.
            let all = json!(Timestamp::MAX.to_string());
            let start = kept.get("start").unwrap_or(&all).as_str();
            Some(Kept {
                start: start.and_then(|text| text.parse().ok()),
                done_until: text("done_until").and_then(|text| text.parse().ok()),
                is_whole: kept.get("is_whole")?.as_bool()?,
                last_event_id: text("last_event_id"),
            })
        };
        kept().unwrap_or_default()
    }

    /// Keeps how far the copy is.
    ///
    /// # Errors
    /// If it cannot be written: then a mirror that is killed begins again.
    pub(super) fn write(
        &self,
        source: DatasetId,
        target: DatasetId,
        kept: &Kept,
    ) -> anyhow::Result<()> {
        let path = self.path(source);
        let text = json!({
            "target": target.get(),
            "start": kept.start.map(|moment| moment.to_string()),
            "done_until": kept.done_until.map(|moment| moment.to_string()),
            "is_whole": kept.is_whole,
            "last_event_id": kept.last_event_id,
        });
        let written = write_atomic(&path, text.to_string().as_bytes(), FileMode::Private);
        written.with_context(|| format!("keep how far the copy is in {}", path.display()))
    }

    fn path(&self, source: DatasetId) -> PathBuf {
        self.0.join(format!("{source}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_for_the_same_copy() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::of(Some(base.path().to_owned()), "http://a", "http://b").unwrap();
        let [one, two] = [1, 2].map(|number| DatasetId::new(number).unwrap());
        let kept = Kept {
            done_until: Some("2026-07-30T21:57:00.000001Z".parse().unwrap()),
            start: None,
            is_whole: true,
            last_event_id: Some("x:1".to_owned()),
        };
        folder.write(one, two, &kept).unwrap();
        assert_eq!(folder.read(one, two), kept);
        let later = Kept { start: kept.done_until, ..kept.clone() };
        folder.write(one, two, &later).unwrap();
        assert_eq!(folder.read(one, two), later);
        folder.write(one, two, &kept).unwrap();
        assert_eq!(folder.read(one, one), Kept::default());
        assert_eq!(folder.read(two, two), Kept::default());
        let other = Folder::of(Some(base.path().to_owned()), "http://a", "http://c").unwrap();
        assert_eq!(other.read(one, two), Kept::default());
    }
}
