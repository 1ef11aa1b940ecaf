//! Errors in the form of the chain's gateway: `{"code":5,"message":"…","details":[]}`.

use std::error::Error;
use std::fmt::Display;

use accounts::AccountsError;
use accounts::gate::Refusal;
use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use db::postgres::fault::Rejection;
use task::causes::chain;
use tracing::{error, warn};
use uuid::Uuid;
use web::auth::NoKey;
use web::extract::BodyError;
use wire::error::InferenceError as Body;
use wire::inference::consumer::Envelope;
use wire::paths::{API_KEY_HEADER, EMISSIONS_VERSIONS};

use crate::InferenceError;
use crate::network::signer::SignerError;
use crate::store::StoreError;

/// Message of an internal error, which does not tell the cause.
const INTERNAL: &str = "internal error";

/// Result of a request.
pub(super) type Result<T, E = ApiError> = std::result::Result<T, E>;

/// Reason why a request is refused.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    code: Code,
    message: String,
}

/// gRPC codes of the gateway, each with its HTTP status.
mod code {
    use super::{Code, StatusCode};

    /// The request is invalid.
    pub(super) const INVALID_ARGUMENT: Code = (3, StatusCode::BAD_REQUEST);
    /// The response timed out.
    pub(super) const DEADLINE_EXCEEDED: Code = (4, StatusCode::GATEWAY_TIMEOUT);
    /// The resource does not exist.
    pub(super) const NOT_FOUND: Code = (5, StatusCode::NOT_FOUND);
    /// The worker already submitted another payload.
    pub(super) const ALREADY_EXISTS: Code = (6, StatusCode::CONFLICT);
    /// The API key has no permission for the request.
    pub(super) const PERMISSION_DENIED: Code = (7, StatusCode::FORBIDDEN);
    /// The rate limit is exceeded.
    pub(super) const RESOURCE_EXHAUSTED: Code = (8, StatusCode::TOO_MANY_REQUESTS);
    /// The disk is full. The code is the same as for an exceeded rate limit, but the HTTP status is
    /// more specific.
    pub(super) const DISK_FULL: Code = (8, StatusCode::INSUFFICIENT_STORAGE);
    /// The request conflicts with a limit or with the current state.
    pub(super) const ABORTED: Code = (10, StatusCode::CONFLICT);
    /// The path, the method or the version is not implemented.
    pub(super) const UNIMPLEMENTED: Code = (12, StatusCode::NOT_IMPLEMENTED);
    /// The service failed.
    pub(super) const INTERNAL: Code = (13, StatusCode::INTERNAL_SERVER_ERROR);
    /// A required service is temporarily unavailable.
    pub(super) const UNAVAILABLE: Code = (14, StatusCode::SERVICE_UNAVAILABLE);
    /// The API key is missing or unknown.
    pub(super) const UNAUTHENTICATED: Code = (16, StatusCode::UNAUTHORIZED);
}

/// Code and HTTP status.
type Code = (u32, StatusCode);

impl ApiError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The version in the path is not supported.
    pub(super) fn version(version: &str) -> Self {
        let version: String = version.chars().take(32).collect();
        let served = EMISSIONS_VERSIONS.join(", ");
        let message = format!("version {version} is not supported, use one of: {served}");
        Self::new(code::UNIMPLEMENTED, message)
    }

    /// The path or the method is not implemented.
    pub(super) fn not_implemented() -> Self {
        Self::new(code::UNIMPLEMENTED, "Not Implemented")
    }

    /// A path or query parameter is invalid.
    pub(super) fn mismatch(parameter: &str, reason: impl Display) -> Self {
        Self::invalid(format!("type mismatch, parameter: {parameter}, error: {reason}"))
    }

    /// A path or query parameter cannot be parsed.
    pub(super) fn syntax(parameter: &str, text: &str) -> Self {
        let text: String = text.chars().take(96).collect();
        Self::mismatch(parameter, format_args!("parsing {text:?}: invalid syntax"))
    }

    /// The body or a parameter is invalid.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENT, message)
    }

    /// Returns this error with the subject to which it applies.
    pub(super) fn about(self, subject: &str) -> Self {
        Self { message: format!("{subject}: {}", self.message), ..self }
    }

    /// The resource does not exist.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// The API key has no permission for the request.
    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(code::PERMISSION_DENIED, message)
    }

    /// A required service is temporarily unavailable.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(code::UNAVAILABLE, message)
    }

    /// The API key is missing or unknown.
    pub(super) fn unknown_key() -> Self {
        Self::new(code::UNAUTHENTICATED, "invalid API key")
    }

    fn full() -> Self {
        let message = "disk of the service is full, nothing was stored; retry later";
        Self::new(code::DISK_FULL, message)
    }

    fn replaced() -> Self {
        Self::unavailable("file of the service was removed or replaced, nothing was stored")
    }

    pub(super) fn stopping() -> Self {
        Self::unavailable("service is stopping; retry")
    }

    /// Converts an internal error. An unexpected error is logged, and the response does not contain its
    /// cause.
    pub(super) fn broken(error: &(dyn Error + 'static)) -> Self {
        if let Some(rejection) = Rejection::of(error) {
            error!(cause = chain(error), "database rejected a request");
            return Self::unavailable(rejection.text);
        }
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref() {
                Some(StoreError::DiskFull) => return Self::full(),
                Some(StoreError::Replaced) => return Self::replaced(),
                Some(StoreError::ReadOnly) => {
                    return Self::unavailable(
                        "service is read-only, nothing was stored; use a writable service",
                    );
                }
                Some(error) if error.is_busy() => {
                    return Self::unavailable(
                        "file of the service is locked, nothing was stored; retry",
                    );
                }
                Some(StoreError::Unreachable(_)) => {
                    return Self::unavailable("database of the service is unreachable; retry");
                }
                Some(error @ StoreError::Raced) => {
                    return Self::unavailable(format!("{error}; retry"));
                }
                _ => cause = error.source(),
            }
        }
        error!(cause = chain(error), "request failed");
        Self::new(code::INTERNAL, INTERNAL)
    }
}

impl From<InferenceError> for ApiError {
    fn from(error: InferenceError) -> Self {
        let code = match &error {
            InferenceError::UnknownTopic(_) | InferenceError::NoBundle(_) => code::NOT_FOUND,
            InferenceError::NotOpen(_)
            | InferenceError::AmbiguousActor { .. }
            | InferenceError::NothingSince { .. }
            | InferenceError::Payload(_)
            | InferenceError::Topic(_)
            | InferenceError::Fixed { .. }
            | InferenceError::EpochOpen { .. } => code::INVALID_ARGUMENT,
            InferenceError::Repeated(_) => code::ALREADY_EXISTS,
            InferenceError::NotWhitelisted { .. } | InferenceError::NotYours { .. } => {
                code::PERMISSION_DENIED
            }
            InferenceError::Full { .. }
            | InferenceError::TooManyTopics
            | InferenceError::TooFarBack { .. } => code::ABORTED,
            InferenceError::Relearning => code::UNAVAILABLE,
            InferenceError::Stopped => return Self::stopping(),
            InferenceError::Store(_) => return Self::broken(&error),
        };
        Self::new(code, error.to_string())
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        Self::invalid(chain(&error))
    }
}

impl From<AccountsError> for ApiError {
    fn from(error: AccountsError) -> Self {
        match error {
            AccountsError::Unreachable(_) if Rejection::of(&error).is_none() => {
                warn!(cause = chain(&error), "failed to check an API key");
                Self::unavailable("API keys cannot be checked; retry")
            }
            AccountsError::Full => Self::full(),
            AccountsError::Replaced => Self::replaced(),
            error => Self::broken(&error),
        }
    }
}

impl From<SignerError> for ApiError {
    fn from(error: SignerError) -> Self {
        Self::broken(&error)
    }
}

impl From<serde_json::Error> for ApiError {
    fn from(error: serde_json::Error) -> Self {
        Self::broken(&error)
    }
}

/// Error in the form of the consumer API.
#[derive(Debug)]
pub(super) struct ConsumerError(ApiError);

impl<E: Into<ApiError>> From<E> for ConsumerError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ConsumerError {
    fn into_response(self) -> Response {
        let body = Envelope::<()> {
            request_id: Uuid::new_v4().to_string(),
            status: false,
            api_response_message: Some(self.0.message),
            data: None,
        };
        retried((self.0.code.1, Json(body)).into_response())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, status) = self.code;
        let body = Json(Body { code, message: self.message, details: Vec::new() });
        retried((status, body).into_response())
    }
}

/// Adds the header `Retry-After` to a response with the status 503.
fn retried(mut response: Response) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, 5.into());
    }
    response
}

/// Returns the response to a request that the gate refused.
pub(super) fn refused(refusal: Refusal) -> Response {
    let error = match refusal {
        Refusal::NoKey(NoKey::Missing) => ApiError::new(
            code::UNAUTHENTICATED,
            format!("API key missing in header {API_KEY_HEADER}"),
        ),
        Refusal::NoKey(_) | Refusal::KeyUnknown => ApiError::unknown_key(),
        Refusal::Limited(exceeded) => ApiError::new(code::RESOURCE_EXHAUSTED, exceeded.to_string()),
        Refusal::Failed(error) => error.into(),
    };
    error.into_response()
}

/// Returns the response to a request that a layer refused.
pub(super) fn refusal(status: StatusCode, message: &'static str) -> Response {
    let code = match status {
        StatusCode::GATEWAY_TIMEOUT => code::DEADLINE_EXCEEDED,
        StatusCode::FORBIDDEN => code::PERMISSION_DENIED,
        _ => code::INTERNAL,
    };
    ApiError::new(code, message).into_response()
}
