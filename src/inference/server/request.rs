//! Access to the parameters of a request by name.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::Uri;
use axum::http::request::Parts;
use model::topic::{Address, BlockHeight, TopicId};
use web::extract::pairs;
use wire::paths::{EMISSIONS_OLD, EMISSIONS_VERSIONS};

use super::error::{ApiError, Result};
use super::{App, Holder};
use crate::network::topic::Topic;

/// Parameters of a request, with the state of the service and the holder of the API key.
pub(super) struct Params {
    pub(super) service: App,
    pub(super) holder: Holder,
    path: HashMap<String, String>,
    uri: Uri,
}

impl FromRequestParts<App> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &App) -> Result<Self> {
        let path = Path::from_request_parts(parts, service).await;
        let Path(path) = path.map_err(|error| ApiError::invalid(error.body_text()))?;
        let holder = Holder::from_request_parts(parts, service).await?;
        Ok(Self { service: Arc::clone(service), holder, path, uri: parts.uri.clone() })
    }
}

impl Params {
    /// Returns the path or query parameter `name`, or `None` if the request does not have it.
    pub(super) fn find(&self, name: &str) -> Result<Option<String>> {
        if let Some(part) = self.path.get(name) {
            return Ok(Some(part.clone()));
        }
        let pairs = pairs(&self.uri).map_err(|error| ApiError::mismatch(name, error))?;
        Ok(pairs.into_iter().find(|(other, _)| other == name).map(|(_, value)| value))
    }

    /// Returns true if the path has the parameter `name`.
    pub(super) fn has_part(&self, name: &str) -> bool {
        self.path.contains_key(name)
    }

    /// Returns the required parameter `name`.
    pub(super) fn text(&self, name: &str) -> Result<String> {
        self.find(name)?.ok_or_else(|| ApiError::mismatch(name, "missing"))
    }

    /// Parses the required parameter `name`.
    pub(super) fn read<T: FromStr>(&self, name: &str) -> Result<T> {
        parse(name, &self.text(name)?)
    }

    /// Parses the parameter `name`, or returns `default` if it is missing.
    pub(super) fn read_or<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        if self.find(name)?.is_some() { self.read(name) } else { Ok(default) }
    }

    /// Parses the parameter `name` as a number from 1 to `max`, or returns `default` if it is
    /// missing.
    pub(super) fn limit(&self, name: &str, default: u32, max: u32) -> Result<u32> {
        let Some(text) = self.find(name)? else { return Ok(default) };
        let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
        limit.ok_or_else(|| {
            ApiError::mismatch(name, format_args!("expected a number from 1 to {max}"))
        })
    }

    /// Returns the range of nonces from the parameter `from` to the parameter `to`, both inclusive. By
    /// default, the range includes all nonces.
    pub(super) fn nonces(&self) -> Result<RangeInclusive<BlockHeight>> {
        let nonces = self.read_or("from", 0)?..=self.read_or("to", BlockHeight::MAX)?;
        if nonces.is_empty() {
            let (from, to) = (nonces.start(), nonces.end());
            return Err(ApiError::invalid(format!("from {from} exceeds to {to}")));
        }
        Ok(nonces)
    }

    /// Checks the version in the path and returns the topic's id.
    pub(super) fn topic_id(&self) -> Result<TopicId> {
        self.check_version()?;
        read_topic_id("topic_id", &self.text("topic_id")?)
    }

    /// Checks the version in the path and returns the topic.
    pub(super) fn topic(&self) -> Result<Arc<Topic>> {
        Ok(self.service.inference.find_topic(self.topic_id()?)?)
    }

    pub(super) fn height(&self) -> Result<BlockHeight> {
        self.read("block_height")
    }

    pub(super) fn address(&self, name: &str) -> Result<Address> {
        self.read(name)
    }

    /// Returns true if the request is for the old version, in which values have no labels.
    pub(super) fn is_old(&self) -> bool {
        self.path.get("version").is_some_and(|version| version == EMISSIONS_OLD)
    }

    /// Checks that the version in the path is supported.
    pub(super) fn check_version(&self) -> Result<()> {
        match self.path.get("version") {
            Some(version) if !EMISSIONS_VERSIONS.contains(&version.as_str()) => {
                Err(ApiError::version(version))
            }
            _ => Ok(()),
        }
    }
}

/// Parses a parameter. Like the chain's gateway, rejects numbers with a plus sign.
fn parse<T: FromStr>(name: &str, text: &str) -> Result<T> {
    let parsed = text.parse().ok().filter(|_| !text.starts_with('+'));
    parsed.ok_or_else(|| ApiError::syntax(name, text))
}

/// Parses a topic id.
pub(super) fn read_topic_id(name: &str, text: &str) -> Result<TopicId> {
    let number: u64 = parse(name, text)?;
    // Rejects 0, since ids start at 1.
    TopicId::new(number).ok_or_else(|| ApiError::invalid("invalid topic id"))
}
