//! Refusals: which status and words each gets.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use content::FunctionsError;
use serde::Serialize;
use task::file::is_no_space;
use tracing::error;
use web::{extract::BodyError, host_names::UNKNOWN_HOST};
use wire::error::HeadError;

use super::super::Unavailable;
use crate::network::PublishError;

/// Why a request was not accepted.
#[derive(Debug)]
pub(super) enum Refused {
    /// No such path.
    NotFound,
    /// The path takes other methods.
    MethodNotAllowed,
    /// The body is not said to be JSON.
    NotJson,
    /// The body could not be read.
    Unreadable(BodyError),
    /// The body is no request, for these reasons.
    Invalid(Vec<String>),
    /// The head takes no more executions for now.
    Unavailable(Unavailable),
    /// No id was given.
    MissingId,
    /// No execution of that id is remembered; existing heads answer without a body.
    UnknownResult,
    /// No execution of that id is remembered.
    UnknownExecution,
    /// Nodes could not be told to install a function.
    Install(PublishError),
    /// The head holds no such function.
    UnknownFunction,
    /// A function could not be kept, read or removed.
    Function(FunctionsError),
    /// As many functions as possible are being uploaded.
    TooManyUploads,
    /// As many bodies as possible are arriving.
    TooManyBodies,
    /// As many as possible follow the events.
    TooManyReaders,
    /// The token is missing or wrong.
    Unauthorized,
    /// Only this machine may, as there is no token.
    NotFromHere,
    /// The request names a host that is none of the head's.
    UnknownHost,
}

impl Refused {
    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound
            | Self::UnknownResult
            | Self::UnknownExecution
            | Self::UnknownFunction => StatusCode::NOT_FOUND,
            Self::Function(error) => function_status(error),
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unreadable(unreadable) => unreadable.status(),
            Self::NotJson | Self::Invalid(_) | Self::MissingId => StatusCode::BAD_REQUEST,
            Self::Unavailable(_)
            | Self::TooManyBodies
            | Self::TooManyReaders
            | Self::TooManyUploads => StatusCode::SERVICE_UNAVAILABLE,
            Self::Install(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFromHere | Self::UnknownHost => StatusCode::FORBIDDEN,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::NotFound => "Not Found".to_owned(),
            Self::MethodNotAllowed => "Method Not Allowed".to_owned(),
            Self::NotJson => unpacked("code=415, message=Unsupported Media Type"),
            Self::Unreadable(BodyError::TooLarge) => "Request Entity Too Large".to_owned(),
            Self::Unreadable(unreadable) => unpacked(&unreadable.to_string()),
            Self::Invalid(reasons) => listed(reasons),
            Self::Unavailable(unavailable) => unavailable.to_string(),
            Self::MissingId => "missing request ID".to_owned(),
            Self::UnknownResult => String::new(),
            Self::UnknownExecution => "no execution of this id is remembered".to_owned(),
            Self::Install(error) => format!("function installation failed: could not {error}"),
            Self::UnknownFunction => "this head holds no function of this id".to_owned(),
            Self::Function(error) => function_message(error),
            Self::TooManyUploads => {
                "too many functions are being uploaded; try again later".to_owned()
            }
            Self::TooManyBodies => "too many requests are arriving; try again later".to_owned(),
            Self::TooManyReaders => "too many follow the events; try again later".to_owned(),
            Self::Unauthorized => {
                "the token is missing or wrong: Authorization: Bearer …".to_owned()
            }
            Self::NotFromHere => {
                "this is for the head's own machine, unless the head is given a token (--rest-token)".to_owned()
            }
            Self::UnknownHost => UNKNOWN_HOST.to_owned(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::UnknownResult => self.status().into_response(),
            _ => refused(self.status(), self.message()),
        }
    }
}

/// Answers 202 and a body.
pub(super) fn accepted(body: &impl Serialize) -> Response {
    (StatusCode::ACCEPTED, super::answer(body)).into_response()
}

/// Words the refusals of the layers around all handlers.
pub(super) fn refuse(status: StatusCode, message: &'static str) -> Response {
    refused(status, message.to_owned())
}

fn refused(status: StatusCode, message: String) -> Response {
    (status, super::answer(&HeadError { message })).into_response()
}

fn function_status(error: &FunctionsError) -> StatusCode {
    match error {
        FunctionsError::NotModule { .. }
        | FunctionsError::Mismatch { .. }
        | FunctionsError::Content(_) => StatusCode::BAD_REQUEST,
        FunctionsError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        FunctionsError::Full => StatusCode::INSUFFICIENT_STORAGE,
        error if is_disk_full(error) => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What is wrong with a function. What is wrong with the machine is for its log.
fn function_message(error: &FunctionsError) -> String {
    match error {
        FunctionsError::Files { step, path, source } => {
            let path = path.display();
            error!(%path, %source, "failed to {step} a file of the function store");
            let why = if is_disk_full(error) { ": the head's disk is full" } else { "" };
            format!("could not use the function store{why}")
        }
        error => match std::error::Error::source(error) {
            Some(cause) => format!("could not {error}: {cause}"),
            None => format!("could not {error}"),
        },
    }
}

fn is_disk_full(error: &FunctionsError) -> bool {
    matches!(error, FunctionsError::Files { source, .. } if is_no_space(source))
}

fn unpacked(reason: &str) -> String {
    format!("could not unpack request: {reason}")
}

/// Lists reasons in the words of existing heads.
fn listed(reasons: &[String]) -> String {
    let errors = if reasons.len() == 1 { "error" } else { "errors" };
    let lines: String = reasons.iter().flat_map(|reason| ["\t* ", reason, "\n"]).collect();
    format!("invalid request: {} {errors} occurred:\n{lines}\n", reasons.len())
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    #[track_caller]
    fn check(kind: ErrorKind, want: (StatusCode, &str)) {
        let (step, path, source) = ("write", "store/function".into(), io::Error::from(kind));
        let refused = Refused::Function(FunctionsError::Files { step, path, source });
        assert_eq!((refused.status(), refused.message().as_str()), want);
    }

    #[test]
    fn a_full_disk_is_reported_and_other_faults_are_only_logged() {
        let why = "could not use the function store: the head's disk is full";
        check(ErrorKind::StorageFull, (StatusCode::INSUFFICIENT_STORAGE, why));
        let why = "could not use the function store";
        check(ErrorKind::PermissionDenied, (StatusCode::INTERNAL_SERVER_ERROR, why));
    }
}
