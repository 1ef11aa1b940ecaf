//! Errors of operations on datasets. The text of a rejection is sent to the client.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;

use accounts::AccountsError;
use accounts::gate::Exceeded;
use axum::http::StatusCode;
use task::group::Group;
use tsdb::catalog::Refusal;
use tsdb::store::StoreError;
use web::extract::BodyError;
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
    Denied(StatusCode, Cow<'static, str>),
    /// A query, text, name, list or column in the request is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store refuses the change of the catalog, for the contained reason.
    #[error(transparent)]
    Refused(Refusal),
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
    /// The body, or the decompressed body, exceeds the service's limit.
    #[error("body exceeds {} MiB, compressed or not; send fewer rows per request", BODY_BYTES_MAX >> 20)]
    TooLarge,
    /// The same batch is in progress, or its outcome is on a server that is currently unavailable.
    #[error(
        "a request with this Idempotency-Key is in progress, or its response cannot be read now; send the request again with the same key"
    )]
    InProgress,
    /// The key of the request cannot be verified now.
    #[error("API key could not be verified")]
    Accounts(#[from] AccountsError),
    /// The key or the network of the caller exceeds a limit.
    #[error(transparent)]
    Limited(Exceeded),
    /// The body or the query string cannot be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store failed for a reason other than the request.
    #[error("dataset store failed")]
    Store(#[source] StoreError),
    /// The temporary file of a spooled download could not be written or read.
    #[error("temporary file of the download cannot be written or read")]
    Spool(#[source] io::Error),
}

impl OperationError {
    /// Creates the error of an operation that is denied with `status`, for the reason `text`.
    pub(crate) const fn denied(status: StatusCode, text: &'static str) -> Self {
        Self::Denied(status, Cow::Borrowed(text))
    }

    /// Creates the error of a change that the state of the dataset does not allow, for the reason `text`.
    pub(crate) fn conflict(text: String) -> Self {
        Self::Denied(StatusCode::CONFLICT, text.into())
    }

    /// Creates the error for a malformed body, none of whose rows was inserted.
    pub(crate) fn malformed(reason: impl Display) -> Self {
        Invalid(format!("invalid body: {reason}")).into()
    }

    /// The key can read the dataset but does not own it.
    pub(crate) const NOT_OWNER: Self =
        Self::denied(StatusCode::FORBIDDEN, "only the owner of the dataset can do this");

    /// The key already holds the tag that it wants to acquire.
    pub(crate) const TAG_HELD: Self = Self::denied(StatusCode::CONFLICT, "tag already acquired");

    /// The tag is private, so only its owner can grant it.
    pub(crate) const TAG_PRIVATE: Self =
        Self::denied(StatusCode::FORBIDDEN, "tag cannot be acquired; only public tags can");

    /// The request names a tag that does not exist.
    pub(crate) const TAG_UNKNOWN: Self = Self::denied(StatusCode::NOT_FOUND, "tag not found");

    /// The tag is public, so every key can acquire it. A public tag has no owner who could manage its
    /// holders.
    pub(crate) const TAG_PUBLIC: Self =
        Self::denied(StatusCode::FORBIDDEN, "tag is public: any key can acquire it");

    /// The request names an API key that does not exist, or that does not hold the tag.
    pub(crate) const KEY_UNKNOWN: Self = Self::denied(StatusCode::NOT_FOUND, "key not found");

    /// The maximum number of concurrent downloads is reached.
    pub(crate) const BUSY: Self =
        Self::denied(StatusCode::SERVICE_UNAVAILABLE, "too many downloads are in progress");

    /// The group of the service's tasks was stopped before a task had a result.
    const STOPPING: Self = Self::denied(
        StatusCode::SERVICE_UNAVAILABLE,
        "this service is stopping: a change may or may not be stored; send the request again",
    );

    /// Returns the error for a task of `group` that ended without a result: the group was stopped, or the
    /// task panicked.
    pub(crate) fn lost_task(group: &Group) -> Self {
        if group.is_stopped() { Self::STOPPING } else { Self::Store(StoreError::Closed) }
    }

    /// The maximum number of open streams is reached.
    pub(crate) const FULL: Self =
        Self::denied(StatusCode::SERVICE_UNAVAILABLE, "too many streams are open");

    /// The idempotency key was already used for a different request.
    pub(crate) const OTHER_BATCH: Self = Self::denied(
        StatusCode::UNPROCESSABLE_ENTITY,
        "Idempotency-Key was sent before with another request; use a new key for each batch",
    );
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            StoreError::Pruned { kept_from } => Invalid::from(format!(
                "rows before {kept_from} were deleted by retention and are not accepted"
            ))
            .into(),
            // The dataset was deleted during the operation.
            StoreError::NoDataset { .. } => Self::NotFound,
            StoreError::BatchStored => Self::InProgress,
            StoreError::TooManySourceRows { .. } => Self::Invalid(error.to_string().into()),
            error => Self::Store(error),
        }
    }
}
