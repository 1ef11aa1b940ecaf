//! Errors of the inference store.

use std::error::Error;
use std::io;

use db::connection::FileError;
use db::fault::{DatabaseFault, FaultKind};

use super::SubmitOutcome;

/// Result of an operation of the inference store.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Error of the inference store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory, the lock file or the writer thread could not be created.
    #[error("inference file could not be created")]
    Prepare(#[source] io::Error),
    /// The file could not be opened, or its tables could not be created or upgraded.
    #[error(transparent)]
    Open(FileError),
    /// Another process has locked the file.
    #[error(
        "inference file is locked by another process; stop that process, or use another directory"
    )]
    InUse,
    /// The file was removed or replaced while it was open. Reads and writes are refused.
    #[error("inference file was removed or replaced while in use; restart the service")]
    Replaced,
    /// The store was opened read-only.
    #[error("inference store is read-only")]
    ReadOnly,
    /// The disk is full. Reads still work.
    #[error("disk of the inference file is full; writes resume once there is space")]
    DiskFull,
    /// A statement or a commit failed.
    #[error("inference file could not be read or written")]
    Statement(#[source] DatabaseFault),
    /// The database is unreachable or overloaded. A retry might succeed.
    #[error("inference database is unreachable")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The database failed for another reason.
    #[error("inference database failed")]
    Database(#[source] Box<dyn Error + Send + Sync>),
    /// Another service changed the topics concurrently.
    #[error("topics were changed by another service at the same time")]
    Raced,
    /// The writer of the file has stopped.
    #[error("inference file is closed")]
    Closed,
    /// A submission was rolled back, because a limit is reached or because it is a dry run.
    #[error("submission was rolled back")]
    NotKept(SubmitOutcome),
    /// A record is malformed.
    #[error("invalid record in the inference file: {0}")]
    Record(String),
}

impl StoreError {
    /// Returns true if another process is using the file, so a retry might succeed.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Open(error) => error.is_busy(),
            Self::Statement(fault) => fault.kind == FaultKind::Busy,
            _ => false,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        FileError::from(error).into()
    }
}

impl From<serde_json::Error> for StoreError {
    fn from(error: serde_json::Error) -> Self {
        Self::Record(error.to_string())
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Full => Self::DiskFull,
            FileError::Replaced => Self::Replaced,
            FileError::Closed => Self::Closed,
            FileError::Commit(fault) => Self::Statement(fault),
            error => Self::Open(error),
        }
    }
}
