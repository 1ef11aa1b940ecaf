//! Refusals of requests, with their status and message.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use content::{ContentError, FunctionsError};
use serde::Serialize;
use task::file::is_no_space;
use tracing::error;
use web::extract::BodyError;
use web::host_names::UNKNOWN_HOST;
use wire::error::HeadError;

use super::super::Unavailable;
use super::BODY_BYTES_MAX;
use crate::head::node_registry::ChangeError;
use crate::network::PublishError;

/// Response to a request that was not accepted: status and message.
#[derive(Debug, PartialEq)]
pub(super) struct RestError(StatusCode, Cow<'static, str>);

impl RestError {
    /// Unknown path. Messages that begin with a capital letter are the messages of existing heads.
    pub(super) const NOT_FOUND: Self = Self::new(StatusCode::NOT_FOUND, "Not Found");
    /// The path is known but does not support the method.
    pub(super) const METHOD_NOT_ALLOWED: Self =
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    /// The body is not declared as JSON.
    pub(super) const NOT_JSON: Self = Self::new(
        StatusCode::BAD_REQUEST,
        "could not unpack request: code=415, message=Unsupported Media Type",
    );
    /// The request does not contain an id.
    pub(super) const MISSING_ID: Self = Self::new(StatusCode::BAD_REQUEST, "missing request ID");
    /// No such execution is remembered. The body is empty, as in existing heads.
    pub(super) const UNKNOWN_RESULT: Self = Self::new(StatusCode::NOT_FOUND, "");
    /// No such execution is remembered.
    pub(super) const UNKNOWN_EXECUTION: Self =
        Self::new(StatusCode::NOT_FOUND, "no execution with this id is remembered");
    /// The head does not hold the function.
    pub(super) const UNKNOWN_FUNCTION: Self =
        Self::new(StatusCode::NOT_FOUND, "this head holds no function with this id");
    /// The head does not know the node.
    pub(super) const UNKNOWN_NODE: Self = Self::new(
        StatusCode::NOT_FOUND,
        "this head knows no node with this id: GET /api/v1/nodes lists the known ones",
    );
    /// The limit of simultaneous uploads is reached.
    pub(super) const TOO_MANY_UPLOADS: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many functions are being uploaded; try again later",
    );
    /// The limit of memory for bodies is reached.
    pub(super) const TOO_MANY_BODIES: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many requests are arriving; try again later",
    );
    /// The limit of memory for results is reached.
    pub(super) const TOO_MANY_RESULTS: Self = Self::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many large results are being sent; try again later",
    );
    /// The limit of readers of the events is reached.
    pub(super) const TOO_MANY_READERS: Self =
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too many readers of events; try again later");
    /// The token is missing or wrong.
    pub(super) const UNAUTHORIZED: Self = Self::new(
        StatusCode::UNAUTHORIZED,
        "the token is missing or wrong: Authorization: Bearer …",
    );
    /// Only programs on this machine can make the request while there is no token.
    pub(super) const NOT_LOCAL: Self = Self::new(
        StatusCode::FORBIDDEN,
        "only programs on the head's machine may do this, unless the head has a token (--rest-token)",
    );
    /// The `Host` of the request is not a name of the head.
    pub(super) const UNKNOWN_HOST: Self = Self::new(StatusCode::FORBIDDEN, UNKNOWN_HOST);

    const fn new(status: StatusCode, message: &'static str) -> Self {
        Self(status, Cow::Borrowed(message))
    }

    /// The body exceeds `bytes_max`, a number of whole MiB.
    pub(super) fn too_large(bytes_max: usize) -> Self {
        // The message begins like the message of existing heads.
        let limit = bytes_max >> 20;
        let message = format!("Request Entity Too Large: the body exceeds {limit} MiB");
        Self(StatusCode::PAYLOAD_TOO_LARGE, message.into())
    }

    /// The body is not a valid request. The message lists the `reasons`, in the format of existing
    /// heads.
    pub(super) fn invalid(reasons: &[String]) -> Self {
        let errors = if reasons.len() == 1 { "error" } else { "errors" };
        let lines: String = reasons.iter().flat_map(|reason| ["\t* ", reason, "\n"]).collect();
        let message = format!("invalid request: {} {errors} occurred:\n{lines}\n", reasons.len());
        Self(StatusCode::BAD_REQUEST, message.into())
    }
}

impl From<BodyError> for RestError {
    fn from(error: BodyError) -> Self {
        let message = match &error {
            BodyError::TooLarge => return Self::too_large(BODY_BYTES_MAX),
            error => format!("could not unpack request: {error}"),
        };
        Self(error.status(), message.into())
    }
}

impl From<Unavailable> for RestError {
    fn from(error: Unavailable) -> Self {
        Self(StatusCode::SERVICE_UNAVAILABLE, error.to_string().into())
    }
}

impl From<ChangeError> for RestError {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Unknown => Self::UNKNOWN_NODE,
            ChangeError::Own => Self::new(
                StatusCode::CONFLICT,
                "this is the head itself, which runs no functions: name one of its workers",
            ),
            ChangeError::Full => {
                Self(StatusCode::INSUFFICIENT_STORAGE, ChangeError::Full.to_string().into())
            }
            ChangeError::Write { path, source } => {
                error!(path = %path.display(), %source, "failed to store a decision on a node");
                let status = if is_no_space(&source) {
                    StatusCode::INSUFFICIENT_STORAGE
                } else {
                    StatusCode::INTERNAL_SERVER_ERROR
                };
                Self::new(
                    status,
                    "the decision was not stored, and nothing has changed: see the head's log",
                )
            }
            ChangeError::Stopping => Unavailable::Stopping.into(),
        }
    }
}

impl From<PublishError> for RestError {
    fn from(error: PublishError) -> Self {
        let message = format!("function installation failed: {error}");
        Self(StatusCode::INTERNAL_SERVER_ERROR, message.into())
    }
}

impl From<FunctionsError> for RestError {
    fn from(error: FunctionsError) -> Self {
        Self(function_status(&error), function_message(&error).into())
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let Self(status, message) = self;
        if message.is_empty() {
            return status.into_response();
        }
        (status, super::respond(&HeadError { message: message.into() })).into_response()
    }
}

/// Returns a response with status 202.
pub(super) fn accepted(body: &impl Serialize) -> Response {
    (StatusCode::ACCEPTED, super::respond(body)).into_response()
}

/// Returns the response to a request that a layer around the handlers refuses.
pub(super) fn refuse(status: StatusCode, message: &'static str) -> Response {
    RestError::new(status, message).into_response()
}

fn function_status(error: &FunctionsError) -> StatusCode {
    match error {
        FunctionsError::Content(ContentError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
        FunctionsError::NotModule { .. }
        | FunctionsError::Mismatch { .. }
        | FunctionsError::Content(_) => StatusCode::BAD_REQUEST,
        FunctionsError::Full => StatusCode::INSUFFICIENT_STORAGE,
        error if is_disk_full(error) => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Describes what is wrong with a function. Faults of the machine are only logged.
fn function_message(error: &FunctionsError) -> String {
    match error {
        FunctionsError::Files { step, path, source } => {
            let path = path.display();
            error!(%path, %source, "cannot {step} in the function store");
            let why = if is_disk_full(error) { ": the head's disk is full" } else { "" };
            format!("the function store failed{why}")
        }
        error => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

fn is_disk_full(error: &FunctionsError) -> bool {
    matches!(error, FunctionsError::Files { source, .. } if is_no_space(source))
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    #[track_caller]
    fn check(kind: ErrorKind, want: (StatusCode, &'static str)) {
        let (step, path, source) = ("write", "store/function".into(), io::Error::from(kind));
        let refused = RestError::from(FunctionsError::Files { step, path, source });
        assert_eq!(refused, RestError::new(want.0, want.1));
    }

    #[test]
    fn full_disk_is_reported_to_clients_and_other_faults_are_only_logged() {
        let why = "the function store failed: the head's disk is full";
        check(ErrorKind::StorageFull, (StatusCode::INSUFFICIENT_STORAGE, why));
        let why = "the function store failed";
        check(ErrorKind::PermissionDenied, (StatusCode::INTERNAL_SERVER_ERROR, why));
    }
}
