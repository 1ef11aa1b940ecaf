//! Errors of calls to services, with their causes and advice.

use std::time::Duration;

use model::escape::escape_line;
use task::causes::chain;

/// Texts in errors of broken connections, with advice for each. The errors are from several crates and
/// from proxies, and only their texts distinguish the causes.
const CONNECTION_ADVICE: [(&str, &str); 9] = [
    (
        "CaUsedAsEndEntity",
        "the service uses the certificate of an authority: create a server's certificate (openssl req \
         -x509 … -addext basicConstraints=critical,CA:FALSE)",
    ),
    (
        "certificate expired",
        "renew the certificate of the service, or set the clock of this machine",
    ),
    ("certificate not valid yet", "set the clock of this machine"),
    ("certificate not valid for name", "use a name that the certificate of the service lists"),
    // A certificate without a trusted issuer has different causes, such as a trusted issuer of the same
    // name.
    (
        "invalid peer certificate",
        "to trust a certificate of your own, name its file in SSL_CERT_FILE, and check that the file can be \
         read",
    ),
    (
        "corrupt message of type InvalidContentType",
        "perhaps the service is at http://, without TLS",
    ),
    ("invalid HTTP version parsed", AT_HTTPS),
    // Responses of nginx, and of servers written in Go.
    ("sent to HTTPS port", AT_HTTPS),
    ("to an HTTPS server", AT_HTTPS),
];

/// Advice after an unencrypted request to a port with TLS.
const AT_HTTPS: &str = "perhaps the service is at https://, with TLS";

/// A failed call to a service. The error contains no secrets, since it includes neither the headers nor
/// the body of the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is not a valid address of a service.
    #[error("invalid address `{text}`, expected an address such as http://127.0.0.1:8080")]
    Address {
        /// The text, shortened.
        text: String,
    },
    /// The address contains a user name or password, which would be printed and logged.
    #[error(
        "service address contains a user name or password; set TRIPTYCH_API_KEY instead, or TRIPTYCH_REST_TOKEN for a head"
    )]
    Credentials,
    /// The text cannot be used as a token.
    #[error("token contains unprintable characters")]
    Token,
    /// The name cannot be sent as a part of a path.
    #[error("name must not be `{name}`")]
    Name {
        /// Name that would change the path, such as `..`.
        name: String,
    },
    /// The HTTP client cannot be created, for example because the system has no certificates.
    #[error("cannot create the HTTP client")]
    Prepare(#[source] reqwest::Error),
    /// The service cannot be reached.
    #[error("cannot connect to {address}: {why}")]
    Reach {
        /// Address of the service, without path and query.
        address: String,
        /// The innermost cause, such as `Connection refused (os error 111)`. The causes around it name
        /// parts of the HTTP library.
        why: String,
    },
    /// The connection was lost after it was established. The service may have handled the request.
    #[error("lost the connection to {address}: {why}")]
    Lost {
        /// Address of the service, without path and query.
        address: String,
        /// The innermost cause, as in [`Self::Reach`].
        why: String,
    },
    /// The service did not respond in time.
    #[error("no response from {address} within {} s", within.as_secs())]
    TimedOut {
        /// Address of the service, without path and query.
        address: String,
        /// The time limit.
        within: Duration,
    },
    /// The service asks to retry later (429, or 503 with `Retry-After`).
    #[error("service cannot do this now: {message}")]
    Limited {
        /// Message of the service.
        message: String,
        /// Pause that the service asked for, if any.
        retry_after: Option<Duration>,
    },
    /// The service refused the request.
    #[error("service responded {status}: {message}")]
    Refused {
        /// HTTP status of the response.
        status: u16,
        /// Message of the service, shortened.
        message: String,
    },
    /// The service rejected rows and did not store any.
    #[error("rows were rejected ({status}): {message}")]
    Rows {
        /// HTTP status of the response.
        status: u16,
        /// Message of the service, shortened.
        message: String,
        /// Index of each rejected row in the insert, with the reason for its rejection.
        refusals: Vec<(usize, String)>,
    },
    /// The service responded to a health check that its database cannot be used.
    #[error("service responded {status}: database: {database}")]
    Unhealthy {
        /// HTTP status of the response.
        status: u16,
        /// State of the database, as in [`HealthBody`](wire::datasets::HealthBody), shortened.
        database: String,
    },
    /// The response is too long.
    #[error("response exceeds {limit_bytes} bytes")]
    TooLong {
        /// Maximum length of a response.
        limit_bytes: usize,
    },
    /// The response does not have the expected form.
    #[error("response is not {what}")]
    Shape {
        /// The expected form.
        what: &'static str,
        /// Error of the parser.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Returns the text of the innermost cause of `error`, or of `error` itself if it has no cause.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

impl ClientError {
    /// Returns the HTTP status, if the service refused the request.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. }
            | Self::Rows { status, .. }
            | Self::Unhealthy { status, .. } => Some(*status),
            Self::Limited { .. } => Some(429),
            _ => None,
        }
    }

    /// Returns the pause that the service asked for, if any.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the innermost cause as one line for human readers.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::Refused { message, .. }
            | Self::Rows { message, .. }
            | Self::Limited { message, .. } => message.clone(),
            Self::Reach { why, .. } | Self::Lost { why, .. } => why.clone(),
            Self::Unhealthy { database, .. } => format!("database: {database}"),
            _ => innermost(self),
        }
    }

    /// Returns advice about the address or the certificate of the service, if one of them is the likely
    /// cause.
    #[must_use]
    pub fn connection_advice(&self) -> Option<&'static str> {
        let text = match self {
            Self::Refused { status: 300..400, .. } => {
                return Some("use the address of the redirect if it is that of the service");
            }
            Self::Reach { why, .. } | Self::Lost { why, .. } => why,
            Self::Refused { status: 400, message } => message,
            _ => return None,
        };
        let (_, advice) = CONNECTION_ADVICE.iter().find(|(cause, _)| text.contains(cause))?;
        Some(advice)
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        if let Some(advice) = self.connection_advice() {
            return advice;
        }
        match self {
            Self::Address { .. } | Self::Credentials => "correct the address",
            Self::Token => "correct the token",
            Self::Name { .. } => "correct the name",
            Self::Prepare(_) => "check the certificates of this machine",
            Self::Reach { .. } => "check that the service runs and that the address is right",
            Self::Lost { .. } => "check that the service runs, and whether it handled the request",
            Self::TimedOut { .. } => "try again, or request less data",
            Self::Limited { .. } => "wait, then try again",
            Self::Refused { status: 507, .. } | Self::Unhealthy { status: 507, .. } => {
                "free space on the disk of the service"
            }
            Self::Unhealthy { database, .. } => match database.trim_start_matches("accounts: ") {
                "replaced" => "restart the service",
                "archive missing" => "start the service with the --archive of its other services",
                "not writable" => "make the database of the service writable",
                "no privilege" => "run `triptych doctor --store` where the service runs",
                _ => "look at the log of the service",
            },
            Self::Refused { status: 401, message } if message.contains("Bearer") => {
                "set TRIPTYCH_REST_TOKEN to the token of the head"
            }
            Self::Refused { status: 401, .. } => "check the API key",
            Self::Refused { status: 403, .. } => "check the API key and its tags",
            Self::Refused { status: 404, .. } => {
                "check the name or id, and that a tag of the key grants access"
            }
            Self::Refused { status: 500.., .. } => "look at the log of the service",
            Self::Refused { .. } => "correct the request",
            Self::Rows { .. } => "correct the rows",
            Self::TooLong { .. } => "request less data at a time",
            Self::Shape { .. } => "check that the address is that of the right service",
        }
    }

    /// Creates an error for a response that does not have the expected form `what`. The text of `source`
    /// can quote the response, so it is escaped.
    pub(crate) fn shape(
        what: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let source = chain(source.into().as_ref());
        Self::Shape { what, source: escape_line(&source).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_about_the_form_of_a_response_escapes_what_it_quotes() {
        let error = chain(&ClientError::shape("a topic", "unknown field `a\nb`"));
        assert_eq!(error, r"response is not a topic: unknown field `a\nb`");
    }
}
