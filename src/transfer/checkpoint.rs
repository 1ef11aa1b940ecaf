//! Checkpoints: small JSON files from which a stopped transfer resumes.
//!
//! A checkpoint is written after its rows are stored, never before. If the last checkpoint is missing,
//! the transfer resumes at an earlier checkpoint and sends some rows again. A row that is sent twice is
//! stored once.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::path::Path;
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;
use task::file::{FileMode, write_atomic};

/// Returns the name of the checkpoint file of the transfer that `identity` identifies.
pub(crate) fn name(identity: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Reads the checkpoint at `path`. Returns the default if the file is missing or cannot be read.
pub(crate) fn read<T: DeserializeOwned + Default>(path: &Path) -> T {
    let text = fs::read(path).ok();
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Writes the checkpoint at `path`. Creates the directory if it is missing.
///
/// # Errors
/// An I/O error if the file cannot be written.
pub(crate) fn write(path: &Path, checkpoint: &impl Serialize) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    write_atomic(path, &serde_json::to_vec(checkpoint)?, FileMode::Private)
}
