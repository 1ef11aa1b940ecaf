//! Errors of the accounts API. An error is sent as an HTTP status and `{"details":null,"error":"…"}`.

use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use db::postgres::fault::Rejection;
use task::causes::chain;
use tracing::{error, warn};
use web::extract::BodyError;
use web::rate_limit::retry_seconds;
use wire::error::DatasetsError;

use crate::{AccountsError, InputError};

/// Value of `Retry-After`, in seconds, if too many passwords are being checked.
const BUSY_RETRY_SECONDS: u64 = 2;

/// Value of `Retry-After`, in seconds, if the database does not respond. A failover can take longer, so
/// that clients have to retry several times.
const AWAY_RETRY_SECONDS: u64 = 5;

/// Reason why a request is refused or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("{1}")]
    Refused(StatusCode, &'static str),
    #[error("too many attempts; retry in {} s", retry_seconds(*.wait))]
    TooOften { wait: Duration },
    #[error(transparent)]
    Unreadable(#[from] BodyError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Accounts(#[from] AccountsError),
}

impl ApiError {
    /// The request has no valid session.
    pub(super) const NOT_LOGGED_IN: Self = Self::Refused(StatusCode::UNAUTHORIZED, "log in first");
    /// The request lacks the operator's token.
    pub(super) const NO_TOKEN: Self =
        Self::Refused(StatusCode::UNAUTHORIZED, "the operator's token is required");
    /// A page of another site sent the request.
    pub(super) const FOREIGN: Self =
        Self::Refused(StatusCode::FORBIDDEN, "another site's page made this request");
    /// The current password of the account is wrong.
    pub(super) const CURRENT_PASSWORD: Self =
        Self::Refused(StatusCode::FORBIDDEN, "the current password is wrong");
    /// The path does not support the request's method.
    pub(super) const NO_METHOD: Self =
        Self::Refused(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
    /// The path does not exist.
    pub(super) const NO_PATH: Self = Self::Refused(StatusCode::NOT_FOUND, "path not found");
    /// The account has no key with this id.
    pub(super) const NO_KEY: Self = Self::Refused(StatusCode::NOT_FOUND, "no such key");
    /// The account has no session with this id.
    pub(super) const NO_SESSION: Self = Self::Refused(StatusCode::NOT_FOUND, "no such session");
    /// The request must contain either a hash or an id.
    pub(super) const HASH_OR_ID: Self =
        Self::Refused(StatusCode::BAD_REQUEST, "name either key_hash or id");

    /// Converts the error of an operation that requires the account's current password.
    pub(super) fn of_current_password(error: AccountsError) -> Self {
        match error {
            AccountsError::WrongPassword => Self::CURRENT_PASSWORD,
            error => error.into(),
        }
    }

    /// Returns the HTTP status, or `None` for an internal failure, of which clients do not see the
    /// cause.
    fn public_status(&self) -> Option<StatusCode> {
        Some(match self {
            Self::Refused(status, _) => *status,
            Self::Accounts(AccountsError::WrongPassword) => StatusCode::UNAUTHORIZED,
            Self::Accounts(AccountsError::SignUpClosed) => StatusCode::FORBIDDEN,
            Self::Input(_) | Self::Accounts(AccountsError::Name) => StatusCode::BAD_REQUEST,
            Self::TooOften { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Unreadable(error) => error.status(),
            Self::Accounts(AccountsError::NameTaken | AccountsError::TooManyKeys) => {
                StatusCode::CONFLICT
            }
            Self::Accounts(
                AccountsError::Busy
                | AccountsError::ReadOnly
                | AccountsError::Replaced
                | AccountsError::Stopped
                | AccountsError::Unreachable(_),
            ) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Accounts(error) if error.is_busy() => StatusCode::SERVICE_UNAVAILABLE,
            Self::Accounts(AccountsError::Full) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Accounts(_) => return None,
        })
    }

    fn retry_seconds(&self) -> Option<u64> {
        match self {
            Self::TooOften { wait } => Some(retry_seconds(*wait)),
            Self::Accounts(AccountsError::Busy) => Some(BUSY_RETRY_SECONDS),
            Self::Accounts(error) if error.is_busy() => Some(BUSY_RETRY_SECONDS),
            Self::Accounts(
                AccountsError::Unreachable(_) | AccountsError::ReadOnly | AccountsError::Stopped,
            ) => Some(AWAY_RETRY_SECONDS),
            _ => None,
        }
    }
}

/// Returns the response to a request that was refused with `status` because of `reason`.
pub(super) fn refusal(status: StatusCode, reason: &str) -> Response {
    let error = reason.to_owned();
    (status, Json(DatasetsError { details: None, error })).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Accounts(AccountsError::Unreachable(_)) = &self {
            warn!(cause = chain(&self), "accounts cannot be reached");
        }
        let mut response = if let Some(rejection) = Rejection::of(&self) {
            error!(cause = chain(&self), "database rejected a request about accounts");
            refusal(StatusCode::SERVICE_UNAVAILABLE, rejection.text)
        } else if let Some(status) = self.public_status() {
            refusal(status, &self.to_string())
        } else {
            error!(cause = chain(&self), "request about accounts failed");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
        };
        if let Some(retry_seconds) = self.retry_seconds() {
            response.headers_mut().insert(RETRY_AFTER, retry_seconds.into());
        }
        response
    }
}
