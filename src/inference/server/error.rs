//! Errors as the chain's gateway words them: `{"code":5,"message":"…","details":[]}`.

use std::{error::Error, fmt::Display};

use accounts::{AccountsError, gate::Refusal};
use axum::{
    Json,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use task::causes::chain;
use tracing::error;
use uuid::Uuid;
use web::{auth::NoKey, extract::BodyError};
use wire::{
    error::InferenceError as Body,
    inference::consumer::Envelope,
    paths::{API_KEY_HEADER, EMISSIONS_VERSIONS},
};

use crate::{InferenceError, network::signer::SignerError, store::StoreError};

/// Seconds after which a caller may come again where the service cannot answer now.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The public text of an internal failure.
const INTERNAL: &str = "internal error";

/// Why a request is refused, as the caller reads it.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    code: Code,
    message: String,
}

/// The gRPC codes that the gateway shows, each with the status that it makes of it.
mod code {
    use super::{Code, StatusCode};

    /// A part of the request is not what it should be.
    pub(super) const INVALID_ARGUMENT: Code = (3, StatusCode::BAD_REQUEST);
    /// The answer took too long.
    pub(super) const DEADLINE_EXCEEDED: Code = (4, StatusCode::GATEWAY_TIMEOUT);
    /// What is asked for does not exist.
    pub(super) const NOT_FOUND: Code = (5, StatusCode::NOT_FOUND);
    /// The same was submitted before.
    pub(super) const ALREADY_EXISTS: Code = (6, StatusCode::CONFLICT);
    /// The key may not do that.
    pub(super) const PERMISSION_DENIED: Code = (7, StatusCode::FORBIDDEN);
    /// The key asked too often.
    pub(super) const RESOURCE_EXHAUSTED: Code = (8, StatusCode::TOO_MANY_REQUESTS);
    /// Ours: also 8 to the caller, with a status that says more than 429.
    pub(super) const DISK_FULL: Code = (8, StatusCode::INSUFFICIENT_STORAGE);
    /// There are as many as may be.
    pub(super) const ABORTED: Code = (10, StatusCode::CONFLICT);
    /// The path or its version is not served.
    pub(super) const UNIMPLEMENTED: Code = (12, StatusCode::NOT_IMPLEMENTED);
    /// The service failed.
    pub(super) const INTERNAL: Code = (13, StatusCode::INTERNAL_SERVER_ERROR);
    /// Something that the answer needs is away for now.
    pub(super) const UNAVAILABLE: Code = (14, StatusCode::SERVICE_UNAVAILABLE);
    /// The key is missing or unknown.
    pub(super) const UNAUTHENTICATED: Code = (16, StatusCode::UNAUTHORIZED);
}

/// A code, and its status.
type Code = (u32, StatusCode);

impl ApiError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The version in the path is not served.
    pub(super) fn version(version: &str) -> Self {
        let version: String = version.chars().take(32).collect();
        let served = EMISSIONS_VERSIONS.join(", ");
        let message = format!("version {version} is not served, use one of: {served}");
        Self::new(code::UNIMPLEMENTED, message)
    }

    /// The path or the method is not served.
    pub(super) fn not_implemented() -> Self {
        Self::new(code::UNIMPLEMENTED, "Not Implemented")
    }

    /// A part of the path or the query is unfit.
    pub(super) fn mismatch(parameter: &str, reason: impl Display) -> Self {
        Self::invalid(format!("type mismatch, parameter: {parameter}, error: {reason}"))
    }

    /// `text`, a part of the path or the query, cannot be read.
    pub(super) fn syntax(parameter: &str, text: &str) -> Self {
        let text: String = text.chars().take(96).collect();
        Self::mismatch(parameter, format_args!("parsing {text:?}: invalid syntax"))
    }

    /// A body or a query that cannot be served.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_ARGUMENT, message)
    }

    /// What is asked for does not exist.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(code::NOT_FOUND, message)
    }

    /// The key may not.
    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(code::PERMISSION_DENIED, message)
    }

    /// Whether it can be served depends on something that does not answer now.
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(code::UNAVAILABLE, message)
    }

    /// The request has no key that is known.
    pub(super) fn unknown_key() -> Self {
        Self::new(code::UNAUTHENTICATED, "invalid API key")
    }

    fn full() -> Self {
        let message = "the service's disk is full: nothing was stored; retry once there is space";
        Self::new(code::DISK_FULL, message)
    }

    fn replaced() -> Self {
        Self::unavailable("the service's file was removed or replaced: nothing was stored")
    }

    /// Logs an internal failure, whose cause the caller does not see.
    pub(super) fn broken(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref() {
                Some(StoreError::DiskFull) => return Self::full(),
                Some(StoreError::Replaced) => return Self::replaced(),
                Some(StoreError::ReadOnly) => {
                    return Self::unavailable(
                        "this service is read-only: nothing was stored; use one that is not",
                    );
                }
                Some(error) if error.is_busy() => {
                    return Self::unavailable(
                        "another process has the service's file locked: nothing was stored; try again",
                    );
                }
                Some(StoreError::Unreachable(_)) => {
                    return Self::unavailable(
                        "the service's database cannot be reached; try again",
                    );
                }
                Some(error @ StoreError::Raced) => {
                    return Self::unavailable(format!("cannot {error}; try again"));
                }
                _ => cause = error.source(),
            }
        }
        error!(cause = chain(error), "failed to answer a request");
        Self::new(code::INTERNAL, INTERNAL)
    }
}

impl From<InferenceError> for ApiError {
    fn from(error: InferenceError) -> Self {
        let code = match &error {
            InferenceError::UnknownTopic { .. } | InferenceError::NoBundle { .. } => {
                code::NOT_FOUND
            }
            InferenceError::NotOpen { .. }
            | InferenceError::Payload(_)
            | InferenceError::Topic(_)
            | InferenceError::Fixed { .. }
            | InferenceError::WindowOpen { .. } => code::INVALID_ARGUMENT,
            InferenceError::Repeated { .. } => code::ALREADY_EXISTS,
            InferenceError::NotWhitelisted { .. } | InferenceError::NotYours { .. } => {
                code::PERMISSION_DENIED
            }
            InferenceError::Full { .. }
            | InferenceError::TooManyTopics
            | InferenceError::TooFarBack { .. } => code::ABORTED,
            InferenceError::Relearning => code::UNAVAILABLE,
            InferenceError::Store(_) | InferenceError::Stopped => return Self::broken(&error),
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
            AccountsError::Unreachable(_) => {
                error!(cause = chain(&error), "failed to check an API key");
                Self::unavailable("API keys cannot be checked now")
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

/// A refusal in the form of the consumer API.
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

/// `response`, which says when to come again where that helps.
fn retried(mut response: Response) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    response
}

/// Words a refusal of the gate.
pub(super) fn refused(refusal: Refusal) -> Response {
    let error = match refusal {
        Refusal::NoKey(NoKey::Missing) => ApiError::new(
            code::UNAUTHENTICATED,
            format!("missing API key: send it in the {API_KEY_HEADER} header"),
        ),
        Refusal::NoKey(_) | Refusal::KeyUnknown => ApiError::unknown_key(),
        Refusal::Limited(exceeded) => ApiError::new(code::RESOURCE_EXHAUSTED, exceeded.to_string()),
        Refusal::Failed(error) => error.into(),
    };
    error.into_response()
}

/// Words a refusal that was made around the handlers.
pub(super) fn refusal(status: StatusCode, message: &'static str) -> Response {
    let code = match status {
        StatusCode::GATEWAY_TIMEOUT => code::DEADLINE_EXCEEDED,
        StatusCode::FORBIDDEN => code::PERMISSION_DENIED,
        _ => code::INTERNAL,
    };
    ApiError::new(code, message).into_response()
}
