//! Why a request to S3 failed, and what can be done about it.

use std::{error::Error, ops::Range};

use object_store::client::{HttpError, HttpErrorKind};

use crate::store::Cause;

/// Why a request to S3 failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The settings are incomplete or make no sense.
    #[error("prepare requests to S3")]
    Prepare(#[source] Cause),
    /// The server cannot be reached, is overloaded or too slow. It may work again later.
    #[error("reach S3, which is down, overloaded or too slow")]
    Unreachable(#[source] Cause),
    /// The environment has no credentials, and the machine or the service that it names gives none.
    #[error(
        "find credentials for S3, which the environment lacks and this machine's role gives none"
    )]
    NoCredentials(#[source] Cause),
    /// The server does not know the credentials, or they lack a right.
    #[error("use the bucket on S3, which refuses these credentials")]
    Denied(#[source] Cause),
    /// There is no such bucket.
    #[error("find the bucket on S3")]
    NoBucket(#[source] Cause),
    /// There is no such object. Somebody deleted it, or a rule of the bucket did.
    #[error("find object {key} on S3, which was deleted there")]
    Missing {
        /// The missing object's key.
        key: String,
    },
    /// The object is shorter than when it was written.
    #[error("read object {key} on S3 up to byte {wanted}, which has {n_bytes} alone")]
    Short {
        /// The shortened object's key.
        key: String,
        /// The length it has, in bytes.
        n_bytes: u64,
        /// The end of what was to be read.
        wanted: u64,
    },
    /// The range to be read ends before it begins.
    #[error("read bytes {range:?} of object {key} on S3")]
    Range {
        /// The object's key.
        key: String,
        /// The bytes that were to be read.
        range: Range<u64>,
    },
    /// What was read is not what was written.
    #[error("read object {key} on S3 as it was written; this server cannot be used")]
    Unlike {
        /// The probe's key.
        key: String,
    },
    /// The server refused the request, or answered what nobody understands.
    #[error("have a request served by S3")]
    Failed(#[source] Cause),
}

/// What S3 answered in place of what was asked for. The rest of such an answer repeats the request
/// with all that its signature was made of, and is left out.
#[derive(Debug, thiserror::Error)]
#[error("it answered with status {status} {code}")]
struct Refusal {
    status: u16,
    /// S3's name of the error, or nothing.
    code: String,
}

/// What happened to a connection. Each error around it repeats those that it is made of, and is left
/// out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Broken(String);

impl ObjectError {
    /// What an operator can do about it.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Prepare(_) => "correct the variables that begin with AWS_",
            Self::NoCredentials(_) => {
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            }
            Self::Unreachable(_) => "check that it runs, and its endpoint",
            Self::Denied(_) => {
                "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; allow s3:PutObject, s3:GetObject and s3:DeleteObject on the objects, and s3:ListBucket on the bucket"
            }
            Self::NoBucket(_) => "create it, or correct its name, endpoint or region",
            Self::Missing { .. } | Self::Short { .. } | Self::Unlike { .. } => {
                "see what else writes to the bucket: its lifecycle rules, replication, people"
            }
            Self::Range { .. } | Self::Failed(_) => "see the log of the server",
        }
    }

    /// What `error` of a request for `key` means.
    pub(super) fn classify(key: &str, error: object_store::Error) -> Self {
        if let Some(transport) = transport(&error) {
            // Such as a certificate that nobody knows.
            let is_lasting = transport.kind() == HttpErrorKind::Unknown;
            let broken = Broken(innermost(transport).to_string());
            if is_of_credentials(&error) {
                return Self::NoCredentials(broken.into());
            }
            return if is_lasting { Self::Failed } else { Self::Unreachable }(broken.into());
        }
        let Some(refusal) = Refusal::parse(&error.to_string()) else {
            return match error {
                object_store::Error::NotFound { .. } => Self::Missing { key: key.to_owned() },
                error => Self::Failed(error.into()),
            };
        };
        match (refusal.status, &*refusal.code) {
            _ if is_of_credentials(&error) => Self::NoCredentials(refusal.into()),
            (404, "NoSuchBucket") => Self::NoBucket(refusal.into()),
            (404, _) => Self::Missing { key: key.to_owned() },
            (401 | 403, _) => Self::Denied(refusal.into()),
            (408 | 429 | 500 | 502.., _) => Self::Unreachable(refusal.into()),
            _ => Self::Failed(refusal.into()),
        }
    }
}

/// Whether `error` is of a request for credentials, by its address: that of a machine's metadata, of a
/// container's role, or of Amazon's service for tokens. Its own type is private.
fn is_of_credentials(error: &object_store::Error) -> bool {
    let text = error.to_string();
    let request = text.split_once("Error performing ").and_then(|(_, rest)| rest.split(' ').nth(1));
    request.is_some_and(|url| {
        let places =
            ["://169.254.", "://[fd00:ec2:", "://sts.", "/latest/api/token", "/latest/meta-data/"];
        places.iter().any(|place| url.contains(place))
    })
}

/// The cause that has none itself.
fn innermost(error: &HttpError) -> &(dyn Error + 'static) {
    let mut cause: &(dyn Error + 'static) = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause
}

/// The error of the connection that `error` comes from, if it does.
fn transport(error: &object_store::Error) -> Option<&HttpError> {
    let mut cause: &(dyn Error + 'static) = error;
    loop {
        if let Some(error) = cause.downcast_ref() {
            return Some(error);
        }
        cause = cause.source()?;
    }
}

impl Refusal {
    /// Parses the answer out of `text`, that of an error whose own type is private.
    fn parse(text: &str) -> Option<Self> {
        let (_, answer) = text.split_once("status code: ")?;
        let status = answer.get(..3)?.parse().ok()?;
        let code = answer.split_once("<Code>").and_then(|(_, code)| code.split_once("</Code>"));
        let code = code.map(|(code, _)| code).filter(|code| code.len() < 64).unwrap_or_default();
        Some(Self { status, code: code.to_owned() })
    }
}
