//! Address of an archive.

use std::collections::HashMap;
use std::path::{Path as FilePath, PathBuf};
use std::str::FromStr;

use object_store::aws::AmazonS3ConfigKey;
use object_store::path::Path;
use reqwest::Url;

/// Address of an archive: `s3://bucket/prefix?region=eu-central-1`, or `file:///path` for a directory.
///
/// `endpoint=http://10.0.0.9:9000` selects a server other than Amazon's. Missing parts and the
/// credentials come from the environment variables that other S3 tools use.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct ArchiveUrl {
    text: String,
    pub(super) target: Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Directory(PathBuf),
    Bucket { bucket: String, prefix: Path, options: HashMap<AmazonS3ConfigKey, String> },
}

/// Rejection of an address. The error does not contain the address, which can include a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveUrlError {
    /// The text is not an address, or has unknown options.
    #[error(
        "address of an archive must have the form s3://bucket/prefix?region=eu-central-1, s3://bucket?endpoint=http://host:9000 or file:///path"
    )]
    Form,
    /// The address contains credentials, which every user could see in the list of processes.
    #[error(
        "address of an archive contains credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead"
    )]
    Credentials,
}

impl FromStr for ArchiveUrl {
    type Err = ArchiveUrlError;

    fn from_str(text: &str) -> Result<Self, ArchiveUrlError> {
        let url = Url::parse(text).map_err(|_| ArchiveUrlError::Form)?;
        reject_credentials(&url)?;
        if url.port().is_some() || url.fragment().is_some() {
            return Err(ArchiveUrlError::Form);
        }
        if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| ArchiveUrlError::Form)?;
            let is_plain = url.query().is_none() && path != FilePath::new("/");
            return if is_plain {
                Ok(Self { text: text.to_owned(), target: Target::Directory(path) })
            } else {
                Err(ArchiveUrlError::Form)
            };
        }
        let bucket = url.host_str().filter(|host| url.scheme() == "s3" && !host.is_empty());
        let bucket = bucket.ok_or(ArchiveUrlError::Form)?.to_owned();
        let prefix = Path::from_url_path(url.path()).map_err(|_| ArchiveUrlError::Form)?;
        let mut options = HashMap::new();
        for (name, value) in url.query_pairs() {
            let option = match &*name {
                "endpoint" => AmazonS3ConfigKey::Endpoint,
                "region" => AmazonS3ConfigKey::Region,
                _ => return Err(ArchiveUrlError::Form),
            };
            if value.is_empty() || options.insert(option, value.into_owned()).is_some() {
                return Err(ArchiveUrlError::Form);
            }
        }
        if let Some(endpoint) = options.get(&AmazonS3ConfigKey::Endpoint) {
            let url = Url::parse(endpoint).map_err(|_| ArchiveUrlError::Form)?;
            reject_credentials(&url)?;
            if !matches!(url.scheme(), "http" | "https") || !url.has_host() || url.query().is_some()
            {
                return Err(ArchiveUrlError::Form);
            }
        }
        let target = Target::Bucket { bucket, prefix, options };
        Ok(Self { text: text.to_owned(), target })
    }
}

fn reject_credentials(url: &Url) -> Result<(), ArchiveUrlError> {
    let has_none = url.username().is_empty() && url.password().is_none();
    if has_none { Ok(()) } else { Err(ArchiveUrlError::Credentials) }
}
