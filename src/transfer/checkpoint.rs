//! Checkpoints: small JSON files from which a stopped transfer resumes.
//!
//! A checkpoint is written after the rows are stored, never before. It may lag behind the stored rows,
//! since rows that are sent twice are stored once.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;
use task::file::{FileMode, write_atomic};

/// Returns the name of the checkpoint file for the transfer with this identity.
pub(crate) fn name(identity: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Reads the checkpoint at `path`. Returns the default if it is missing or cannot be read.
pub(crate) fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let text = fs::read(path).ok();
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Writes the checkpoint at `path`. Creates the directory if it is missing.
///
/// # Errors
/// If it cannot be written, so that a stopped transfer would start over.
pub(crate) fn write(path: &Path, checkpoint: &impl Serialize) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    write_atomic(path, &serde_json::to_vec(checkpoint)?, FileMode::Private)
}
