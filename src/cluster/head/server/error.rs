//! Refusals: which status and words each gets.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use web::extract::Unreadable;
use wire::error::HeadError;

use super::super::Unavailable;

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
    Unreadable(Unreadable),
    /// The body is no request, for these reasons.
    Invalid(Vec<String>),
    /// The head takes no more executions for now.
    Unavailable(Unavailable),
}

impl Refused {
    const fn status(&self) -> StatusCode {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unreadable(unreadable) => unreadable.status(),
            Self::NotJson | Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::NotFound => "Not Found".to_owned(),
            Self::MethodNotAllowed => "Method Not Allowed".to_owned(),
            Self::NotJson => unpacked("code=415, message=Unsupported Media Type"),
            Self::Unreadable(Unreadable::TooLarge) => "Request Entity Too Large".to_owned(),
            Self::Unreadable(unreadable) => unpacked(&unreadable.to_string()),
            Self::Invalid(reasons) => listed(reasons),
            Self::Unavailable(unavailable) => unavailable.to_string(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refused(self.status(), self.message())
    }
}

/// Words the refusals of the layers around all handlers.
pub(super) fn refuse(status: StatusCode, message: &'static str) -> Response {
    refused(status, message.to_owned())
}

fn refused(status: StatusCode, message: String) -> Response {
    (status, super::answer(&HeadError { message })).into_response()
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
