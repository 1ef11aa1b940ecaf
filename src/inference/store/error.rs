//! Why the inference file failed, or the database.

use std::{error::Error, io};

use db::{
    connection::{OpenError, Schema},
    fault::DatabaseFault,
    writer::{CommitError, WriteError},
};

use super::{SubmitOutcome, tables};

/// Why the inference file failed, or the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Its folder or lock could not be made, or its writer not be started.
    #[error("prepare the inference file")]
    Prepare(#[source] io::Error),
    /// It could not be opened or set up.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Another process serves the file.
    #[error(
        "open the inference file, which another process has in use; stop that one, or name another folder"
    )]
    InUse,
    /// The file was removed or replaced while it was open. Nothing more is written or read.
    #[error(
        "use the inference file, which was removed or replaced while it was in use; restart the service"
    )]
    Replaced,
    /// The store was opened read-only.
    #[error("inference store is read-only")]
    ReadOnly,
    /// The disk is full. Reads go on.
    #[error("write to the inference file, whose disk is full; writes go on once there is space")]
    DiskFull,
    /// A statement failed.
    #[error("read or write the inference file")]
    Statement(#[source] DatabaseFault),
    /// The database cannot be reached, or takes no work now: the same will do a little later.
    #[error("use the database of the network, which cannot be reached now")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The database failed otherwise.
    #[error("use the database of the network")]
    Database(#[source] Box<dyn Error + Send + Sync>),
    /// Another service changed the topics since this one read them.
    #[error("change topics, which another service changed at the same time")]
    Raced,
    /// The changes of several callers were not kept.
    #[error("commit to the inference file")]
    Commit(#[source] DatabaseFault),
    /// The file's writer has ended.
    #[error("write to the inference file, which is closed")]
    Closed,
    /// A payload is not kept: it is one too many, or was only to be checked.
    #[error("keep the payload")]
    NotKept(SubmitOutcome),
    /// A record is not what was written.
    #[error("read or write a record of the inference file")]
    Record(#[source] serde_json::Error),
    /// A word in a record is not one that was written.
    #[error("read `{text}` in the inference file")]
    Word {
        /// The text, shortened.
        text: String,
    },
}

impl StoreError {
    /// Whether another process was at the file, so that trying again may help.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Open(error) => error.is_busy(),
            Self::Statement(fault) | Self::Commit(fault) => fault.is_busy(),
            _ => false,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let fault = DatabaseFault::from(error);
        if fault.is_full() { Self::DiskFull } else { Self::Statement(fault) }
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full => Self::DiskFull,
            CommitError::Replaced => Self::Replaced,
            CommitError::Database(fault) => Self::Commit(fault),
            CommitError::Upgraded { found } => {
                let Schema { name, version: known, .. } = tables::SCHEMA;
                Self::Open(OpenError::Version { name, found, known })
            }
            _ => Self::Closed,
        }
    }
}

impl WriteError for StoreError {
    fn is_full(&self) -> bool {
        matches!(self, Self::DiskFull)
    }
}
