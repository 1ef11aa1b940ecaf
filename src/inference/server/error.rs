//! Errors as the chain's gateway words them: `{"code":5,"message":"…","details":[]}`.

use accounts::AccountsError;
use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use model::topic::TopicId;
use task::causes::chain;
use tracing::error;
use web::auth::NoKey;
use wire::{
    error::InferenceError as Body,
    paths::{API_KEY_HEADER, EMISSIONS_VERSIONS},
};

use crate::{InferenceError, ReadError};

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum ApiError {
    /// No key was sent, or something else in its place.
    NoKey(NoKey),
    /// The key opens nothing.
    UnknownKey,
    /// Nobody knows, since the accounts file failed.
    Accounts(AccountsError),
    /// The version in the path is not served.
    Version(String),
    /// The path or the method is none of ours.
    NotImplemented,
    /// A part of the path or the query is not what it should be.
    Mismatch { parameter: &'static str, reason: String },
    /// Topics are numbered from 1.
    ZeroTopic,
    /// The network has no answer.
    Read(ReadError),
}

/// The gRPC codes that the gateway shows, by their numbers.
#[derive(Clone, Copy)]
enum Code {
    DeadlineExceeded = 4,
    InvalidArgument = 3,
    NotFound = 5,
    Unimplemented = 12,
    Internal = 13,
    Unauthenticated = 16,
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<InferenceError> for ApiError {
    fn from(error: InferenceError) -> Self {
        Self::Read(ReadError::Failed(error))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let not_found = |topic: TopicId| format!("topic {topic} not found");
        match self {
            Self::NoKey(NoKey::Missing) => respond(
                Code::Unauthenticated,
                format!("missing API key: send it in the {API_KEY_HEADER} header"),
            ),
            Self::NoKey(_) | Self::UnknownKey => {
                respond(Code::Unauthenticated, "invalid API key".to_owned())
            }
            Self::Accounts(error) => internal(&error),
            Self::Version(version) => {
                let served = EMISSIONS_VERSIONS.join(", ");
                let message = format!("version {version} is not served, use one of: {served}");
                respond(Code::Unimplemented, message)
            }
            Self::NotImplemented => respond(Code::Unimplemented, "Not Implemented".to_owned()),
            Self::Mismatch { parameter, reason } => respond(
                Code::InvalidArgument,
                format!("type mismatch, parameter: {parameter}, error: {reason}"),
            ),
            Self::ZeroTopic => respond(Code::InvalidArgument, "invalid topic id".to_owned()),
            Self::Read(ReadError::UnknownTopic { topic }) => {
                respond(Code::NotFound, not_found(topic))
            }
            Self::Read(ReadError::NoBundle { topic }) => respond(
                Code::NotFound,
                format!("network inference not available for topic {topic}"),
            ),
            Self::Read(error @ ReadError::Failed(_)) => internal(&error),
        }
    }
}

/// Words a refusal that was made around the handlers.
pub(super) fn refusal(status: StatusCode, message: &'static str) -> Response {
    let code = match status {
        StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        _ => Code::Internal,
    };
    respond(code, message.to_owned())
}

fn internal(error: &(dyn std::error::Error + 'static)) -> Response {
    error!(cause = chain(error), "failed to answer a request");
    respond(Code::Internal, "internal error".to_owned())
}

fn respond(code: Code, message: String) -> Response {
    let status = match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
    };
    (status, Json(Body { code: code as u32, message, details: Vec::new() })).into_response()
}

/// Checks the version in a path.
pub(super) fn served(version: &str) -> Result<(), ApiError> {
    if EMISSIONS_VERSIONS.contains(&version) {
        Ok(())
    } else {
        Err(ApiError::Version(version.chars().take(32).collect()))
    }
}

/// Reads the topic number in a path.
pub(super) fn topic_id(text: &str) -> Result<TopicId, ApiError> {
    let number: u64 = text.parse().map_err(|_| ApiError::Mismatch {
        parameter: "topic_id",
        reason: format!("parsing {:?}: invalid syntax", text.chars().take(32).collect::<String>()),
    })?;
    TopicId::new(number).ok_or(ApiError::ZeroTopic)
}
