//! Why an operation on datasets was refused or failed. The texts of refusals are for the caller.

use std::io;

use model::timestamp::Timestamp;
use tsdb::{catalog::Refusal, store::StoreError};
use wire::datasets::RowRefusals;

/// The result of an operation.
pub(crate) type Result<T, E = OperationError> = std::result::Result<T, E>;

/// A query, text, name, list or column that is invalid: which, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unfit(String);

impl<T: Into<String>> From<T> for Unfit {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// Kind of an operation that is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    NotFound,
    Forbidden,
    Conflict,
    /// It may succeed later.
    Busy,
    /// The idempotency key is that of another request.
    OtherBatch,
}

/// Why an operation was refused or failed. It changed nothing then, unless the store was lost before it
/// could say so: [`StoreError::Unreachable`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OperationError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// Denied, for this reason.
    #[error("{1}")]
    Denied(Denial, &'static str),
    /// The request is invalid.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The catalog does not allow it.
    #[error(transparent)]
    Refused(Refusal),
    /// The dataset has rows, whose buckets depend on the column.
    #[error("the dataset has rows, and its buckets are made of column {name}")]
    ColumnUsed { name: String },
    /// The service is read-only, and its copy of the store has not reached a commit that the caller names.
    #[error("this read-only service has not reached revision {revision} of the dataset yet")]
    Behind {
        /// The commit that the caller has seen.
        revision: u64,
    },
    /// What the commits stored is not known any more, or the reader's revision is one of another life of
    /// the store.
    #[error(
        "the log does not have these commits any more; read the rows again, then go on after revision {revision}"
    )]
    LogGone {
        /// The dataset's last commit: rows that are read from now on include it.
        revision: u64,
        /// The era of the store.
        era: u32,
    },
    /// There are more rows than are inserted, or merged, at once.
    #[error("at most {n_max} rows can be {done} at once")]
    TooMany { n_max: usize, done: &'static str },
    /// Some rows do not fit.
    #[error("rows do not fit the dataset")]
    Rows(RowRefusals),
    /// The body is not in its format.
    #[error("read the body: {what}")]
    Unreadable {
        /// What is wrong.
        what: String,
    },
    /// The decompressed body is longer than the service accepts.
    #[error("read the body: it is too large")]
    TooLarge,
    /// A row is older than the dataset's retention.
    #[error("rows before {kept_from} are no longer kept")]
    LetGo {
        /// The earliest timestamp that the dataset keeps.
        kept_from: Timestamp,
    },
    /// The same request is under way, or stored on a server that does not say so soon.
    #[error(
        "a request with this Idempotency-Key is under way, or its answer cannot be read now; send it again with the same key"
    )]
    UnderWay,
    /// The store failed.
    #[error("use the store")]
    Store(#[source] StoreError),
    /// Writing or reading the spooled file of a partial download failed.
    #[error("keep the file for reading in parts")]
    Spool(#[source] io::Error),
}

impl OperationError {
    /// The key may read the dataset only.
    pub(crate) const NOT_OWNER: Self =
        Self::Denied(Denial::Forbidden, "only the owner of the dataset may do that");

    /// The key holds the tag.
    pub(crate) const TAG_HELD: Self = Self::Denied(Denial::Conflict, "tag already acquired");

    /// The tag is private: its owner gives it.
    pub(crate) const TAG_PRIVATE: Self =
        Self::Denied(Denial::Forbidden, "tag cannot be acquired; only public tags can");

    /// There is no such tag.
    pub(crate) const TAG_UNKNOWN: Self = Self::Denied(Denial::NotFound, "tag not found");

    /// The tag is public: nobody gives it.
    pub(crate) const TAG_PUBLIC: Self =
        Self::Denied(Denial::Forbidden, "tag is public: any key can acquire it");

    /// There is no such key.
    pub(crate) const KEY_UNKNOWN: Self = Self::Denied(Denial::NotFound, "key not found");

    /// There are too many downloads.
    pub(crate) const BUSY: Self = Self::Denied(Denial::Busy, "too many downloads are under way");

    /// There are too many streams.
    pub(crate) const FULL: Self = Self::Denied(Denial::Busy, "too many streams are open");

    /// Another request had its idempotency key.
    pub(crate) const OTHER_BATCH: Self = Self::Denied(
        Denial::OtherBatch,
        "Idempotency-Key was sent before with another request; give each batch a key of its own",
    );
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            StoreError::Pruned { kept_from } => Self::LetGo { kept_from },
            // It was deleted meanwhile.
            StoreError::NoDataset { .. } => Self::NotFound,
            StoreError::BatchStored => Self::UnderWay,
            error => Self::Store(error),
        }
    }
}
