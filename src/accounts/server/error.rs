//! Errors as callers of accounts see them: a status and `{"details":null,"error":"…"}`.

use std::time::Duration;

use axum::{
    Json,
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use task::causes::chain;
use tracing::error;
use web::{extract::BodyError, rate_limit::retry_seconds};
use wire::error::DatasetsError;

use crate::{AccountNameError, AccountsError, KeyHashError, PasswordError};

/// Seconds after which to come again where too many passwords are being checked.
const BUSY_RETRY_SECONDS: u64 = 2;

/// Why a request was refused or failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("log in first")]
    NotLoggedIn,
    #[error("another site's page made this request")]
    Foreign,
    #[error("path not found")]
    NoPath,
    #[error("method not allowed")]
    NoMethod,
    #[error("no such key")]
    NoKey,
    #[error("no such session")]
    NoSession,
    #[error("this needs the operator's token")]
    NoToken,
    #[error("too many attempts; retry in {} s", retry_seconds(*.wait))]
    TooOften { wait: Duration },
    #[error("the current password is wrong")]
    CurrentPassword,
    #[error("read the request")]
    Unreadable(#[from] BodyError),
    #[error("take the name")]
    AccountName(#[from] AccountNameError),
    #[error("take the password")]
    Password(#[from] PasswordError),
    #[error("name either key_hash or id")]
    Question,
    #[error("take the hash")]
    KeyHash(#[from] KeyHashError),
    #[error("use accounts")]
    Accounts(#[from] AccountsError),
}

impl ApiError {
    /// The status, and what the caller may know; none where the fault is ours.
    fn public(&self) -> Option<(StatusCode, String)> {
        Some(match self {
            Self::NotLoggedIn | Self::NoToken => (StatusCode::UNAUTHORIZED, self.to_string()),
            Self::Foreign | Self::CurrentPassword => (StatusCode::FORBIDDEN, self.to_string()),
            Self::NoMethod => (StatusCode::METHOD_NOT_ALLOWED, self.to_string()),
            Self::NoKey | Self::NoSession | Self::NoPath => {
                (StatusCode::NOT_FOUND, self.to_string())
            }
            Self::Question => (StatusCode::BAD_REQUEST, self.to_string()),
            Self::TooOften { .. } => (StatusCode::TOO_MANY_REQUESTS, self.to_string()),
            Self::Unreadable(error) => (error.status(), error.to_string()),
            Self::AccountName(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Self::Password(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Self::KeyHash(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Self::Accounts(error) => {
                let status = match error {
                    AccountsError::Name => StatusCode::BAD_REQUEST,
                    AccountsError::WrongPassword => StatusCode::UNAUTHORIZED,
                    AccountsError::SignUpClosed => StatusCode::FORBIDDEN,
                    AccountsError::NameTaken | AccountsError::TooManyKeys => StatusCode::CONFLICT,
                    AccountsError::Busy | AccountsError::Replaced => {
                        StatusCode::SERVICE_UNAVAILABLE
                    }
                    AccountsError::Full => StatusCode::INSUFFICIENT_STORAGE,
                    _ => return None,
                };
                (status, error.to_string())
            }
        })
    }

    fn retry_seconds(&self) -> Option<u64> {
        match self {
            Self::TooOften { wait } => Some(retry_seconds(*wait)),
            Self::Accounts(AccountsError::Busy) => Some(BUSY_RETRY_SECONDS),
            _ => None,
        }
    }
}

/// Words a refusal that was made around the handlers.
pub(super) fn refusal(status: StatusCode, reason: &'static str) -> Response {
    let error = reason.to_owned();
    (status, Json(DatasetsError { details: None, error })).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, error) = self.public().unwrap_or_else(|| {
            error!(cause = chain(&self), "failed to answer a request about accounts");
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error".to_owned())
        });
        let mut response = (status, Json(DatasetsError { details: None, error })).into_response();
        if let Some(retry_seconds) = self.retry_seconds() {
            response.headers_mut().insert(RETRY_AFTER, retry_seconds.into());
        }
        response
    }
}
