//! The address of a bucket.

use std::{fmt, str::FromStr};

use object_store::path::Path;
use reqwest::Url;

/// The address of a bucket on S3, such as `s3://bucket/prefix?region=eu-central-1`.
///
/// Of a server other than Amazon's it names the address: `s3://bucket?endpoint=http://10.0.0.9:9000`.
/// What it leaves out comes from the variables of the environment that other tools for S3 read, as
/// the credentials always do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdUrl {
    bucket: String,
    /// Before every key; it may be empty.
    prefix: Path,
    endpoint: Option<String>,
    region: Option<String>,
}

/// Why a text is no address of a bucket. It does not say which text, which may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColdUrlError {
    /// It is none, or has options that are unknown.
    #[error(
        "read the address of a bucket, such as s3://bucket/prefix?region=eu-central-1, or s3://bucket?endpoint=http://host:9000"
    )]
    Form,
    /// It holds credentials, which everybody could read who sees the command line.
    #[error(
        "take credentials in the address of a bucket; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
    )]
    Credentials,
}

impl ColdUrl {
    /// The name of the bucket.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    pub(super) fn prefix(&self) -> Path {
        self.prefix.clone()
    }

    pub(super) fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// Whether it names a server without TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.endpoint().is_some_and(|endpoint| endpoint.starts_with("http://"))
    }
}

impl FromStr for ColdUrl {
    type Err = ColdUrlError;

    fn from_str(text: &str) -> Result<Self, ColdUrlError> {
        let url = Url::parse(text).map_err(|_| ColdUrlError::Form)?;
        refuse_credentials(&url)?;
        let bucket = url.host_str().filter(|host| url.scheme() == "s3" && !host.is_empty());
        let bucket = bucket.ok_or(ColdUrlError::Form)?.to_owned();
        if url.port().is_some() || url.fragment().is_some() {
            return Err(ColdUrlError::Form);
        }
        let prefix = Path::from_url_path(url.path()).map_err(|_| ColdUrlError::Form)?;
        let mut cold = Self { bucket, prefix, endpoint: None, region: None };
        for (name, value) in url.query_pairs() {
            let option = match &*name {
                "endpoint" => &mut cold.endpoint,
                "region" => &mut cold.region,
                _ => return Err(ColdUrlError::Form),
            };
            if value.is_empty() || option.is_some() {
                return Err(ColdUrlError::Form);
            }
            *option = Some(value.into_owned());
        }
        if let Some(endpoint) = &cold.endpoint {
            let url = Url::parse(endpoint).map_err(|_| ColdUrlError::Form)?;
            refuse_credentials(&url)?;
            if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.query().is_some()
            {
                return Err(ColdUrlError::Form);
            }
        }
        Ok(cold)
    }
}

fn refuse_credentials(url: &Url) -> Result<(), ColdUrlError> {
    let has_none = url.username().is_empty() && url.password().is_none();
    if has_none { Ok(()) } else { Err(ColdUrlError::Credentials) }
}

impl fmt::Display for ColdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}", self.bucket)?;
        if !self.prefix.is_root() {
            write!(f, "/{}", self.prefix)?;
        }
        let options = [("endpoint", &self.endpoint), ("region", &self.region)];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (i, (name, value)) in given.enumerate() {
            write!(f, "{}{name}={value}", if i == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}
