//! Errors as the chain's gateway words them: `{"code":5,"message":"…","details":[]}`.

use std::error::Error;

use accounts::{
    AccountsError,
    gate::{Exceeded, Refusal},
};
use axum::{
    Json,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use model::topic::TopicId;
use task::causes::chain;
use tracing::error;
use uuid::Uuid;
use web::{auth::NoKey, extract::BodyError};
use wire::{
    error::InferenceError as Body,
    inference::consumer::Envelope,
    paths::{API_KEY_HEADER, EMISSIONS_VERSIONS},
};

use crate::{
    InferenceError, ReadError, SubmitError,
    network::{addresses::AddressError, topics::TopicChangeError},
    signer::SignerError,
    store::StoreError,
};

/// Seconds after which a caller may come again where the service cannot answer now.
const RETRY_AFTER_SECONDS: u32 = 5;

/// The public text of an internal failure.
const INTERNAL: &str = "internal error";

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum ApiError {
    /// No key was sent, or something else in its place.
    NoKey(NoKey),
    /// The key opens nothing.
    UnknownKey,
    /// There were too many requests.
    Limited(Exceeded),
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
    /// A body or a query that cannot be served, in words.
    Invalid(String),
    /// Something else than a topic or a bundle is not there, in words.
    NotFound(String),
    /// There is one already, in words.
    Exists(String),
    /// The key may not, in words.
    Denied(String),
    /// There are as many as may be, and waiting does not help: in words.
    TooMany(String),
    /// Whether it can be served depends on another service that does not answer, in words.
    Unchecked(String),
    /// As many as possible follow topics.
    TooManyReaders,
    /// Something broke, and was logged.
    Broken,
    /// A file was removed or replaced.
    Replaced,
    /// The disk of a file is full.
    Full,
    /// The network has no answer.
    Read(ReadError),
}

/// The gRPC codes that the gateway shows.
#[derive(Clone, Copy)]
enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Aborted = 10,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
    /// Ours: also 8 to the caller, with a status that says more than 429.
    DiskFull,
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<BodyError> for ApiError {
    fn from(error: BodyError) -> Self {
        Self::Invalid(chain(&error))
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::UnknownTopic { topic } => Self::Read(ReadError::UnknownTopic { topic }),
            SubmitError::NotOpen { nonce } => {
                Self::Invalid(format!("the submission window of nonce {nonce} is not open"))
            }
            SubmitError::Repeated { nonce } => {
                Self::Exists(format!("this worker has submitted for nonce {nonce} already"))
            }
            SubmitError::Full { .. }
            | SubmitError::FullOfLabels { .. }
            | SubmitError::FullOfSubmitter { .. } => Self::TooMany(format!("cannot {error}")),
            SubmitError::NotWhitelisted { topic, worker } => Self::Denied(format!(
                "topic {topic} takes submissions of the workers on its whitelist alone, and {worker} \
                 is not on it: ask who created the topic to add it"
            )),
            SubmitError::Payload(error) => Self::Invalid(format!("cannot {error}")),
            SubmitError::Failed(error) => Self::broken(&error),
        }
    }
}

impl From<SignerError> for ApiError {
    fn from(error: SignerError) -> Self {
        Self::broken(&error)
    }
}

impl From<TopicChangeError> for ApiError {
    fn from(error: TopicChangeError) -> Self {
        match error {
            TopicChangeError::Unknown { topic } => Self::Read(ReadError::UnknownTopic { topic }),
            TopicChangeError::NotYours { topic, is_built_in: false } => {
                Self::Denied(format!("another key created topic {topic}"))
            }
            TopicChangeError::NotYours { topic, is_built_in: true } => Self::Denied(format!(
                "topic {topic} came with the program, and no key can change it: start the service \
                 without --demo to be without it"
            )),
            TopicChangeError::Unfit(error) => Self::Invalid(format!("cannot {error}")),
            TopicChangeError::Fixed { .. } | TopicChangeError::WindowOpen { .. } => {
                Self::Invalid(format!("cannot {error}"))
            }
            TopicChangeError::TooMany => Self::TooMany(format!("cannot {error}")),
            TopicChangeError::Failed(error) => Self::broken(&error),
        }
    }
}

impl From<AddressError> for ApiError {
    fn from(error: AddressError) -> Self {
        Self::broken(&error)
    }
}

impl From<InferenceError> for ApiError {
    fn from(error: InferenceError) -> Self {
        Self::Read(ReadError::Failed(error))
    }
}

/// A refusal in the form of the consumer API.
#[derive(Debug)]
pub(super) struct ConsumerError(ApiError);

impl From<ApiError> for ConsumerError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for ConsumerError {
    fn into_response(self) -> Response {
        let (code, message) = self.0.into_public();
        let body = Envelope::<()> {
            request_id: Uuid::new_v4().to_string(),
            status: false,
            api_response_message: Some(message),
            data: None,
        };
        (code.status(), Json(body)).into_response()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, message) = self.into_public();
        respond(code, message)
    }
}

impl ApiError {
    /// Logs what broke, which is not told.
    pub(super) fn broken(error: &(dyn Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            match error.downcast_ref() {
                Some(StoreError::DiskFull) => return Self::Full,
                Some(StoreError::Replaced) => return Self::Replaced,
                _ => cause = error.source(),
            }
        }
        error!(cause = chain(error), "failed to answer a request");
        Self::Broken
    }

    /// The code and the words of a refusal.
    fn into_public(self) -> (Code, String) {
        let respond = |code, message| (code, message);
        let not_found = |topic: TopicId| format!("topic {topic} not found");
        match self {
            Self::NoKey(NoKey::Missing) => respond(
                Code::Unauthenticated,
                format!("missing API key: send it in the {API_KEY_HEADER} header"),
            ),
            Self::NoKey(_) | Self::UnknownKey => {
                respond(Code::Unauthenticated, "invalid API key".to_owned())
            }
            Self::Limited(exceeded) => respond(Code::ResourceExhausted, exceeded.to_string()),
            Self::Accounts(error @ AccountsError::Unreachable(_)) => {
                error!(cause = chain(&error), "failed to check an API key");
                respond(Code::Unavailable, "API keys cannot be checked now".to_owned())
            }
            Self::Accounts(AccountsError::Full) | Self::Full => respond(
                Code::DiskFull,
                "the service's disk is full: nothing was stored; retry once there is space"
                    .to_owned(),
            ),
            Self::Accounts(AccountsError::Replaced) | Self::Replaced => respond(
                Code::Unavailable,
                "the service's file was removed or replaced: nothing was stored".to_owned(),
            ),
            Self::Accounts(error) => Self::broken(&error).into_public(),
            Self::TooManyReaders => {
                respond(Code::Unavailable, "too many follow topics; try again later".to_owned())
            }
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
            Self::Invalid(message) => respond(Code::InvalidArgument, message),
            Self::NotFound(message) => respond(Code::NotFound, message),
            Self::Exists(message) => respond(Code::AlreadyExists, message),
            Self::Denied(message) => respond(Code::PermissionDenied, message),
            Self::TooMany(message) => respond(Code::Aborted, message),
            Self::Unchecked(message) => respond(Code::Unavailable, message),
            Self::Broken => respond(Code::Internal, INTERNAL.to_owned()),
            Self::Read(ReadError::UnknownTopic { topic }) => {
                respond(Code::NotFound, not_found(topic))
            }
            Self::Read(ReadError::NoBundle { topic }) => respond(
                Code::NotFound,
                format!("network inference not available for topic {topic}"),
            ),
            Self::Read(error @ ReadError::Failed(_)) => Self::broken(&error).into_public(),
        }
    }
}

impl Code {
    const fn number(self) -> u32 {
        match self {
            Self::DiskFull => Self::ResourceExhausted as u32,
            code => code as u32,
        }
    }

    /// The status that the gateway makes of it.
    const fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists | Self::Aborted => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
        }
    }
}

/// Words a refusal of the gate.
pub(super) fn refused(refusal: Refusal) -> Response {
    let error = match refusal {
        Refusal::NoKey(no_key) => ApiError::NoKey(no_key),
        Refusal::KeyUnknown => ApiError::UnknownKey,
        Refusal::Limited(exceeded) => ApiError::Limited(exceeded),
        Refusal::Failed(error) => ApiError::Accounts(error),
    };
    error.into_response()
}

/// Words a refusal that was made around the handlers.
pub(super) fn refusal(status: StatusCode, message: &'static str) -> Response {
    let code = match status {
        StatusCode::GATEWAY_TIMEOUT => Code::DeadlineExceeded,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        _ => Code::Internal,
    };
    respond(code, message.to_owned())
}

fn respond(code: Code, message: String) -> Response {
    let status = code.status();
    let body = Json(Body { code: code.number(), message, details: Vec::new() });
    let mut response = (status, body).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SECONDS.into());
    }
    response
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
