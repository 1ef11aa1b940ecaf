//! Failures of requests to the archive, with advice for operators.

use std::path::PathBuf;

use object_store::client::{HttpError, HttpErrorKind};
use task::causes::causes;

use crate::store::Cause;

/// Description of an object that differs because of a concurrent write.
pub(super) const REPLACED: &str = "it was replaced while another version was written";

/// Failure of a request to the archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The server cannot be reached, is overloaded, or is too slow. The request can succeed later.
    #[error("archive cannot be reached")]
    Unreachable(#[source] Cause),
    /// The server does not know the credentials, or they lack a permission. Or there are no credentials in
    /// the environment, and none could be fetched from the machine's metadata service or a service that
    /// the environment names.
    #[error("the archive rejects the credentials, or there are none")]
    Denied(#[source] Cause),
    /// The object does not exist. A rule of the bucket might have deleted it.
    #[error("archive object {key} is missing")]
    Missing {
        /// Key of the object.
        key: String,
    },
    /// The object differs from the version that was written.
    #[error("archive object {key} was changed or damaged: {what}")]
    Damaged {
        /// Key of the object.
        key: String,
        /// Description of how the object differs.
        what: String,
    },
    /// The directory does not exist, or is a file.
    #[error("directory {} of the archive does not exist, or is a file", path.display())]
    NoDirectory {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The settings are incomplete, the bucket does not exist, or the server rejected the request.
    #[error("archive failed")]
    Failed(#[source] Cause),
}

impl ObjectError {
    /// Returns advice for an operator.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "check that it runs, and its endpoint",
            Self::Denied(_) => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role; allow s3:PutObject, s3:GetObject and s3:DeleteObject on the objects, and s3:ListBucket on the bucket"
            }
            Self::Missing { .. } | Self::Damaged { .. } => {
                "restore the object from a backup or an earlier version; look for other programs that write to the archive"
            }
            Self::Failed(_) => {
                "check its address and the variables that begin with AWS_; create a missing bucket"
            }
            Self::NoDirectory { .. } => "create it, or mount its disk",
        }
    }

    /// Returns the error for the object `key`, which differs from its record as `what` describes.
    pub(in crate::archive) fn damaged(key: &str, what: impl Into<String>) -> Self {
        Self::Damaged { key: key.to_owned(), what: what.into() }
    }

    /// Converts an error of a request for the object `key`, according to its kind.
    pub(super) fn classify(key: &str, error: object_store::Error) -> Self {
        use object_store::Error::{AlreadyExists, Precondition};
        if matches!(error, AlreadyExists { .. } | Precondition { .. }) {
            return Self::damaged(key, REPLACED);
        }
        let transport = causes(&error).find_map(|cause| cause.downcast_ref::<HttpError>());
        if let Some(transport) = transport {
            // Errors of an unknown kind, such as an untrusted certificate, do not go away with a retry.
            let is_lasting = transport.kind() == HttpErrorKind::Unknown;
            let innermost = causes(transport).last().map(ToString::to_string);
            let cause = innermost.unwrap_or_default().into();
            if is_of_credentials(&error) {
                return Self::Denied(cause);
            }
            return if is_lasting { Self::Failed } else { Self::Unreachable }(cause);
        }
        let Some((status, code)) = parse_response(&error.to_string()) else {
            return match error {
                object_store::Error::NotFound { .. } => Self::Missing { key: key.to_owned() },
                // A range beyond the end of a file. The type of this error is private, too.
                error if error.to_string().contains("Requested range was invalid") => {
                    Self::damaged(key, "it is too short")
                }
                error => Self::Failed(error.into()),
            };
        };
        let cause = format!("response has status {status} {code}").into();
        match (status, &*code) {
            _ if is_of_credentials(&error) => Self::Denied(cause),
            (404, code) if code != "NoSuchBucket" => Self::Missing { key: key.to_owned() },
            (401 | 403, _) => Self::Denied(cause),
            (416, _) => Self::damaged(key, "it is too short"),
            (408 | 429 | 500 | 502.., _) => Self::Unreachable(cause),
            _ => Self::Failed(cause),
        }
    }
}

/// Returns true if `error` comes from a request for credentials. The type of such errors is private, so
/// they are recognized by an address in the text: the address of the machine's metadata service, of a
/// container's role, or of Amazon's token service.
fn is_of_credentials(error: &object_store::Error) -> bool {
    let text = error.to_string();
    let request = text.split_once("Error performing ").and_then(|(_, rest)| rest.split(' ').nth(1));
    request.is_some_and(|url| {
        let places =
            ["://169.254.", "://[fd00:ec2:", "://sts.", "/latest/api/token", "/latest/meta-data/"];
        places.iter().any(|place| url.contains(place))
    })
}

/// Parses the HTTP status and the S3 error code from `text`, the message of an error with a private
/// type. Drops the rest of the message, which repeats the request with all inputs of its signature.
fn parse_response(text: &str) -> Option<(u16, String)> {
    let (_, response) = text.split_once("status code: ")?;
    let status = response.get(..3)?.parse().ok()?;
    let code = response.split_once("<Code>").and_then(|(_, code)| code.split_once("</Code>"));
    let code = code.map(|(code, _)| code).filter(|code| code.len() < 64).unwrap_or_default();
    Some((status, code.to_owned()))
}
