//! Errors of operations on datasets. The text of a rejection is sent to the client.

use std::io;

use axum::http::StatusCode;
use model::timestamp::Timestamp;
use tsdb::catalog::Refusal;
use tsdb::store::StoreError;
use wire::datasets::RowRefusals;

/// Result of an operation on the catalog or on the rows of datasets.
pub(crate) type Result<T, E = OperationError> = std::result::Result<T, E>;

/// Maximum number of cells of an append: rows times columns. In memory, each has 16 bytes, even if its
/// value is missing.
pub(crate) const CELLS_MAX: usize = 10_000_000;

/// Maximum length of a request body, about twice the length of a body with 100 000 rows of seven
/// columns.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Error for an invalid query, text, name, list or column. The message names the invalid input and the
/// expected form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Invalid(String);

impl<T: Into<String>> From<T> for Invalid {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

/// Rejection or failure of an operation. The store is unchanged, except possibly after
/// [`StoreError::Unreachable`]: the connection might have been lost between the commit and its response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum OperationError {
    /// The dataset does not exist, or is not visible to the key.
    #[error("dataset not found")]
    NotFound,
    /// The operation is denied with this HTTP status, for this reason.
    #[error("{1}")]
    Denied(StatusCode, &'static str),
    /// A query, text, name, list or column in the request is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store refuses the change of the catalog, for the contained reason.
    #[error(transparent)]
    Refused(Refusal),
    /// The column cannot be deleted, since the dataset has rows with buckets that depend on it.
    #[error("the dataset has rows, and their buckets depend on column {name}")]
    ColumnUsed { name: String },
    /// The service reads from a replica, which does not yet have a commit that the caller has seen.
    #[error("this read-only service has not reached revision {revision} of the dataset yet")]
    Behind {
        /// Revision that the caller has seen in an earlier response.
        revision: u64,
    },
    /// The request has more rows than can be inserted or merged at a time.
    #[error("at most {n_max} rows can be {done} in one request")]
    TooMany { n_max: usize, done: &'static str },
    /// The rows of the request have more cells, including those without a value, than can be inserted
    /// at a time.
    #[error("rows times columns exceed {CELLS_MAX} in one request; send fewer rows per request")]
    TooManyCells,
    /// Some rows do not fit the dataset. The contained list names the reason for each row.
    #[error("rows do not fit the dataset")]
    Rows(RowRefusals),
    /// The body of the request is malformed, so none of its rows was inserted.
    #[error("invalid body: {reason}")]
    Malformed { reason: String },
    /// The body, or the decompressed body, exceeds the service's limit.
    #[error("body exceeds {} MiB, compressed or not; send fewer rows per request", BODY_BYTES_MAX >> 20)]
    TooLarge,
    /// A row is older than the oldest timestamp that pruning leaves in the dataset.
    #[error("rows before {kept_from} were deleted by retention and are not accepted")]
    Pruned {
        /// Earliest timestamp that the dataset accepts.
        kept_from: Timestamp,
    },
    /// The same batch is in progress, or its outcome is on a server that is currently unavailable.
    #[error(
        "a request with this Idempotency-Key is in progress, or its response cannot be read now; send the request again with the same key"
    )]
    InProgress,
    /// The store failed for a reason other than the request.
    #[error("dataset store failed")]
    Store(#[source] StoreError),
    /// The temporary file of a spooled download could not be written or read.
    #[error("temporary file of the download cannot be written or read")]
    Spool(#[source] io::Error),
}

impl OperationError {
    /// The key can read the dataset but does not own it.
    pub(crate) const NOT_OWNER: Self =
        Self::Denied(StatusCode::FORBIDDEN, "only the owner of the dataset can do this");

    /// The key already holds the tag that it wants to acquire.
    pub(crate) const TAG_HELD: Self = Self::Denied(StatusCode::CONFLICT, "tag already acquired");

    /// The tag is private, so only its owner can grant it.
    pub(crate) const TAG_PRIVATE: Self =
        Self::Denied(StatusCode::FORBIDDEN, "tag cannot be acquired; only public tags can");

    /// The request names a tag that does not exist.
    pub(crate) const TAG_UNKNOWN: Self = Self::Denied(StatusCode::NOT_FOUND, "tag not found");

    /// The tag is public, so every key can acquire it. A public tag has no owner who could manage its
    /// holders.
    pub(crate) const TAG_PUBLIC: Self =
        Self::Denied(StatusCode::FORBIDDEN, "tag is public: any key can acquire it");

    /// The request names an API key that does not exist, or that does not hold the tag.
    pub(crate) const KEY_UNKNOWN: Self = Self::Denied(StatusCode::NOT_FOUND, "key not found");

    /// The maximum number of concurrent downloads is reached.
    pub(crate) const BUSY: Self =
        Self::Denied(StatusCode::SERVICE_UNAVAILABLE, "too many downloads are in progress");

    /// The maximum number of open streams is reached.
    pub(crate) const FULL: Self =
        Self::Denied(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open");

    /// The idempotency key was already used for a different request.
    pub(crate) const OTHER_BATCH: Self = Self::Denied(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Idempotency-Key was sent before with another request; use a new key for each batch",
    );
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            StoreError::Pruned { kept_from } => Self::Pruned { kept_from },
            // The dataset was deleted during the operation.
            StoreError::NoDataset { .. } => Self::NotFound,
            StoreError::BatchStored => Self::InProgress,
            StoreError::TooManySourceRows { .. } => Self::Invalid(error.to_string().into()),
            error => Self::Store(error),
        }
    }
}
