//! Why a call failed: what was tried, the cause, and what to do next.

use std::{error::Error as _, time::Duration};

/// Why a call to a service failed. Holds no secret: neither header nor body of the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is no address of a service.
    #[error("read `{text}` as an address such as http://127.0.0.1:8080")]
    Address {
        /// The text, shortened.
        text: String,
    },
    /// The address has a user or a password in it, which would be printed and logged with it.
    #[error(
        "take a user or password in the address of a service; set TRIPTYCH_API_KEY, or TRIPTYCH_REST_TOKEN for a head"
    )]
    Credentials,
    /// The text is no token.
    #[error("send a token of other than printable characters")]
    Token,
    /// The machine lacks what HTTP needs.
    #[error("prepare HTTP")]
    Prepare(#[source] reqwest::Error),
    /// Nobody answers at the address, or the line broke.
    #[error("reach {address}")]
    Reach {
        /// The address called, without path and query.
        address: String,
        /// The transport's own error.
        #[source]
        source: reqwest::Error,
    },
    /// The service took too long.
    #[error("get an answer from {address} within {} s", within.as_secs())]
    TimedOut {
        /// The address called, without path and query.
        address: String,
        /// How long was waited.
        within: Duration,
    },
    /// The service asks to come back later (429, or 503 with a date to return).
    #[error("the service asks to wait: {message}")]
    Limited {
        /// What the service said.
        message: String,
        /// How long it asked to wait, where it said so.
        retry_after: Option<Duration>,
    },
    /// The service refused.
    #[error("the service answers {status}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the service said, shortened.
        message: String,
    },
    /// The service refused rows, and took none of those sent with them.
    #[error("have rows taken ({status}): {message}")]
    Rows {
        /// The HTTP status.
        status: u16,
        /// What the service said, shortened.
        message: String,
        /// Each row's place in the insert, from 0, and what is wrong with it.
        refusals: Vec<(usize, String)>,
    },
    /// The answer is longer than is taken.
    #[error("take an answer of more than {limit_bytes} bytes")]
    TooLong {
        /// The most that is taken.
        limit_bytes: usize,
    },
    /// The answer is not what the documents describe.
    #[error("understand the answer as {what}")]
    Shape {
        /// What was expected.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ClientError {
    /// The HTTP status, where the service answered with a refusal.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } | Self::Rows { status, .. } => Some(*status),
            Self::Limited { .. } => Some(429),
            _ => None,
        }
    }

    /// How long the service asked to wait, where it did.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The innermost cause, as one line for people.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Refused { message, .. }
            | Self::Rows { message, .. }
            | Self::Limited { message, .. } => message.clone(),
            _ => {
                let mut cause = self.source();
                let mut last = None;
                while let Some(error) = cause {
                    last = Some(error.to_string());
                    cause = error.source();
                }
                last.unwrap_or_else(|| self.to_string())
            }
        }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Address { .. } | Self::Credentials => "correct the address",
            Self::Token => "correct the token",
            Self::Prepare(_) => "check the certificates of this machine",
            Self::Reach { .. } => "check that the service runs and that the address is right",
            Self::TimedOut { .. } => "try again, or ask for less",
            Self::Limited { .. } => "wait, then try again",
            Self::Refused { status: 401 | 403, .. } => "check the API key and its tags",
            Self::Refused { status: 404, .. } => "check the number, and that a tag shows it",
            Self::Refused { status: 500.., .. } => "look at the log of the service",
            Self::Refused { .. } => "correct the request",
            Self::Rows { .. } => "correct the rows",
            Self::TooLong { .. } => "ask for less at a time",
            Self::Shape { .. } => "check that the address is that of the right service",
        }
    }

    /// An answer that is not `what` was expected.
    pub(crate) fn shape(
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Shape { what, source: source.into() }
    }
}
