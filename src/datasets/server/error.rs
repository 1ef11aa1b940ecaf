//! Errors in the form that clients receive: a status and `{"details":null,"error":"…"}`.

use std::error::Error;

use accounts::AccountsError;
use accounts::gate::Refusal as Refused;
use axum::Json;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use db::postgres::fault::Rejection;
use serde_json::json;
use task::causes::{causes, chain};
use tracing::{error, warn};
use tsdb::catalog::Refusal as NotAllowed;
use tsdb::store::StoreError;
use web::auth::NoKey;
use wire::error::{DatasetsError, KeyError};

use crate::error::OperationError;

/// Seconds after which a caller that has reached a limit can retry.
const RETRY_AFTER_SECONDS: u32 = 5;

/// Seconds after which a caller can retry while its first attempt is in progress, or while a read-only
/// service lags. Both take little longer than a commit.
const REPEAT_AFTER_SECONDS: u32 = 1;

/// The API key of the request is malformed or unknown.
pub(super) const KEY_INVALID: OperationError =
    OperationError::denied(StatusCode::UNAUTHORIZED, "Invalid API key");
/// No route exists for the path of the request.
pub(super) const NO_PATH: OperationError =
    OperationError::denied(StatusCode::NOT_FOUND, "path not found");
/// No route exists for the path of the request, which has no slash at the end.
pub(super) const NO_SLASH: OperationError = OperationError::denied(
    StatusCode::NOT_FOUND,
    "path not found; a path of the API ends in a slash",
);
/// The decoded path of the request is not valid UTF-8.
pub(super) const PATH_NO_TEXT: OperationError =
    OperationError::denied(StatusCode::BAD_REQUEST, "path is not valid UTF-8");
/// The route does not support the method of the request.
pub(super) const NO_METHOD: OperationError =
    OperationError::denied(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
/// `If-Match` does not list the entity tag of the response.
pub(super) const NOT_MATCHED: OperationError =
    OperationError::denied(StatusCode::PRECONDITION_FAILED, "If-Match lists other tags");
/// The first byte of `Range` is beyond the end of the file.
pub(super) const BEYOND_END: OperationError = OperationError::denied(
    StatusCode::RANGE_NOT_SATISFIABLE,
    "Range begins beyond the end of the file",
);
/// The account has reached its limit of streams and waiting requests.
pub(super) const STREAMS_FULL: OperationError = OperationError::denied(
    StatusCode::SERVICE_UNAVAILABLE,
    "too many streams and waiting requests of this account are open",
);
/// The caller accepts none of the supported content codings.
pub(super) const NO_CODING: OperationError = OperationError::denied(
    StatusCode::NOT_ACCEPTABLE,
    "responses are available with Accept-Encoding gzip, zstd or identity",
);
/// The next part of the body did not arrive in time.
pub(super) const STALLED: OperationError =
    OperationError::denied(StatusCode::REQUEST_TIMEOUT, "the body stopped arriving");
/// Other bodies occupy all the memory for bodies.
pub(super) const CROWDED: OperationError =
    OperationError::denied(StatusCode::SERVICE_UNAVAILABLE, "too many rows are being inserted");

/// Status, text and details of an error as the client receives them.
struct Public {
    status: StatusCode,
    text: String,
    details: Option<serde_json::Value>,
}

impl Public {
    fn new(status: StatusCode, text: &(impl ToString + ?Sized)) -> Self {
        Self { status, text: text.to_string(), details: None }
    }
}

/// Returns the status and the text for the client, or `None` for an internal error.
fn public(error: &OperationError) -> Option<Public> {
    if let Some(rejection) = Rejection::of(error) {
        error!(causes = causes_of(error), "{error}");
        return Some(Public::new(StatusCode::SERVICE_UNAVAILABLE, rejection.text));
    }
    let store_error = causes(error).find_map(|error| error.downcast_ref());
    if let Some(public) = store_error.and_then(store_failure) {
        return Some(public);
    }
    Some(match error {
        OperationError::Rows(refusals) => {
            let details = serde_json::to_value(refusals).ok();
            Public { details, ..Public::new(StatusCode::BAD_REQUEST, error) }
        }
        OperationError::Accounts(cause) => {
            let is_unreachable = matches!(cause, AccountsError::Unreachable(_));
            if is_unreachable {
                warn!(causes = causes_of(error), "{error}");
            } else if !cause.is_busy() && !matches!(cause, AccountsError::Replaced) {
                return None;
            }
            Public::new(StatusCode::SERVICE_UNAVAILABLE, "API keys cannot be checked now")
        }
        error => Public::new(operation_status(error)?, error),
    })
}

/// Returns the status and the text for a failure of the store, or `None` for an internal error.
fn store_failure(error: &StoreError) -> Option<Public> {
    if let StoreError::Locked
    | StoreError::Unreachable(_)
    | StoreError::Archive { .. }
    | StoreError::NoArchive
    | StoreError::Format(_) = error
    {
        warn!(causes = causes_of(error), "{error}");
    }
    let unavailable = |text: &str| Public::new(StatusCode::SERVICE_UNAVAILABLE, text);
    Some(match error {
        // The dataset was deleted after its access was checked.
        StoreError::NoDataset { .. } => Public::new(StatusCode::NOT_FOUND, "dataset not found"),
        StoreError::SharedName { datasets, .. } => {
            let ids: Vec<i64> = datasets.iter().map(|dataset| dataset.get()).collect();
            let details = Some(json!({"dataset_ids": ids}));
            Public { details, ..Public::new(StatusCode::CONFLICT, error) }
        }
        StoreError::Full => Public::new(
            StatusCode::INSUFFICIENT_STORAGE,
            "the service's disk is full: nothing was stored; retry once there is space",
        ),
        StoreError::Locked => {
            unavailable("the service's file is locked by another process: nothing was stored")
        }
        StoreError::Replaced => {
            unavailable("the service's file was removed or replaced: nothing was stored")
        }
        StoreError::Archive { dataset, month, .. } => unavailable(&format!(
            "archived rows of dataset {dataset} in {month} cannot be read now; newer rows are \
            served"
        )),
        StoreError::ArchiveChanged { .. } => {
            unavailable("these rows are being archived: nothing was stored; send them again")
        }
        StoreError::NoArchive => unavailable(
            "rows of the dataset were moved to an archive that this service does not have; \
             start it with the same --archive as the other services of its database",
        ),
        StoreError::Format(_) => unavailable(
            "the store was upgraded by a newer version of the program: nothing was stored; \
             upgrade this service",
        ),
        StoreError::Unreachable(_) => unavailable(
            "the service's database cannot be reached now: a change may or may not be stored; \
             send the request again",
        ),
        StoreError::ReadOnly => unavailable(
            "this service is read-only: nothing was stored; send writes to a writable \
             service",
        ),
        _ => return None,
    })
}

/// Returns the status for a rejection, or `None` for an internal error.
fn operation_status(error: &OperationError) -> Option<StatusCode> {
    Some(match error {
        OperationError::NotFound | OperationError::Refused(NotAllowed::ColumnUnknown) => {
            StatusCode::NOT_FOUND
        }
        OperationError::Denied(status, _) => *status,
        OperationError::Body(error) => error.status(),
        OperationError::Limited(_) => StatusCode::TOO_MANY_REQUESTS,
        OperationError::Invalid(_)
        | OperationError::Refused(NotAllowed::ColumnsFull | NotAllowed::Unstorable)
        | OperationError::Rows(_) => StatusCode::BAD_REQUEST,
        OperationError::Refused(_) | OperationError::InProgress => StatusCode::CONFLICT,
        OperationError::Behind { .. } => StatusCode::SERVICE_UNAVAILABLE,
        OperationError::TooMany { .. }
        | OperationError::TooManyCells
        | OperationError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        OperationError::Accounts(_) | OperationError::Store(_) | OperationError::Spool(_) => {
            return None;
        }
    })
}

impl IntoResponse for OperationError {
    fn into_response(self) -> Response {
        let Some(Public { status, text, details }) = public(&self) else {
            error!(causes = causes_of(&self), "{self}");
            return refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
        };
        if status == StatusCode::UNAUTHORIZED {
            return (status, Json(KeyError { error: text })).into_response();
        }
        let mut response = body(status, &text, details);
        let retry_after = match self {
            Self::InProgress | Self::Behind { .. } => Some(REPEAT_AFTER_SECONDS),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(RETRY_AFTER_SECONDS),
        };
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Converts a rejection by the gate to a response.
pub(super) fn refused(refusal: Refused) -> Response {
    let error = match refusal {
        Refused::NoKey(NoKey::Missing) => {
            OperationError::denied(StatusCode::UNAUTHORIZED, "Missing API key")
        }
        Refused::NoKey(_) | Refused::KeyUnknown => KEY_INVALID,
        Refused::Limited(exceeded) => OperationError::Limited(exceeded),
        Refused::Failed(error) => OperationError::Accounts(error),
    };
    error.into_response()
}

/// Returns the response for a rejected request, without details.
pub(super) fn refusal(status: StatusCode, reason: &'static str) -> Response {
    body(status, reason, None)
}

/// Returns the response with an error. The text ends with the kind of the error, as in the upstream,
/// which wraps errors in Go.
fn body(status: StatusCode, text: &str, details: Option<serde_json::Value>) -> Response {
    let kind = match status {
        StatusCode::BAD_REQUEST => ": bad request",
        StatusCode::FORBIDDEN => ": forbidden",
        StatusCode::CONFLICT => ": conflict",
        StatusCode::GONE => ": gone",
        StatusCode::PAYLOAD_TOO_LARGE => ": too large",
        StatusCode::UNPROCESSABLE_ENTITY => ": unprocessable content",
        StatusCode::TOO_MANY_REQUESTS => ": too many requests",
        StatusCode::SERVICE_UNAVAILABLE => ": unavailable",
        StatusCode::INSUFFICIENT_STORAGE => ": insufficient storage",
        _ => "",
    };
    let error = format!("{text}{kind}");
    (status, Json(DatasetsError { details, error })).into_response()
}

/// Returns the causes of an error, outermost first.
fn causes_of(error: &dyn Error) -> String {
    error.source().map(chain).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use model::dataset::DatasetId;

    use super::*;

    #[test]
    fn error_of_a_deleted_dataset_returns_404() {
        let gone = || StoreError::NoDataset { dataset: DatasetId::new(7).unwrap() };
        let error = OperationError::from(gone());
        assert_eq!(error.into_response().status(), StatusCode::NOT_FOUND);
        let error = OperationError::Store(gone());
        assert_eq!(error.into_response().status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn read_only_service_responds_503_with_retry_after_and_a_broken_store_500() {
        let response = OperationError::Store(StoreError::ReadOnly).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(response.headers().contains_key(RETRY_AFTER));
        let response = OperationError::Store(StoreError::Closed).into_response();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.headers().contains_key(RETRY_AFTER));
    }

    #[test]
    fn repeated_request_in_progress_returns_409_with_retry_after() {
        let error = OperationError::from(StoreError::BatchStored);
        let response = error.into_response();
        assert_eq!(response.status(), StatusCode::CONFLICT);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
    }
}
