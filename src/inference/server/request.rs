//! What a request asks for: parts of its path and members of its query, each read by its name.

use std::{collections::HashMap, str::FromStr, sync::Arc};

use axum::{
    extract::{FromRequestParts, Path},
    http::{Uri, request::Parts},
};
use model::topic::{Address, BlockHeight, TopicId};
use web::extract::pairs;
use wire::paths::{EMISSIONS_OLD, EMISSIONS_VERSIONS};

use super::{App, Holder, error::ApiError};
use crate::network::topic::Topic;

/// A request without its body.
pub(super) struct Asked {
    pub(super) service: App,
    pub(super) holder: Holder,
    path: HashMap<String, String>,
    uri: Uri,
}

impl FromRequestParts<App> for Asked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, service: &App) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, service).await;
        let Path(path) = path.map_err(|error| ApiError::invalid(error.body_text()))?;
        let holder = Holder::from_request_parts(parts, service).await?;
        Ok(Self { service: Arc::clone(service), holder, path, uri: parts.uri.clone() })
    }
}

impl Asked {
    /// The part of the path called `name`, or the member of the query, if there is one.
    pub(super) fn find(&self, name: &str) -> Result<Option<String>, ApiError> {
        if let Some(part) = self.path.get(name) {
            return Ok(Some(part.clone()));
        }
        let pairs = pairs(&self.uri).map_err(|error| ApiError::mismatch(name, error))?;
        Ok(pairs.into_iter().find(|(other, _)| other == name).map(|(_, value)| value))
    }

    /// Returns true if the path has a part called `name`.
    pub(super) fn has_part(&self, name: &str) -> bool {
        self.path.contains_key(name)
    }

    /// As [`Self::find`], of one that has to be there.
    pub(super) fn text(&self, name: &str) -> Result<String, ApiError> {
        self.find(name)?.ok_or_else(|| ApiError::mismatch(name, "it is missing"))
    }

    /// As [`Self::text`], read as a `T`.
    pub(super) fn read<T: FromStr>(&self, name: &str) -> Result<T, ApiError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| ApiError::syntax(name, &text))
    }

    /// As [`Self::read`], or `default` without one.
    pub(super) fn read_or<T: FromStr>(&self, name: &str, default: T) -> Result<T, ApiError> {
        if self.find(name)?.is_some() { self.read(name) } else { Ok(default) }
    }

    /// The member of the query called `name`, a number from 1 to `max`; `default` without one.
    pub(super) fn limit(&self, name: &str, default: u32, max: u32) -> Result<u32, ApiError> {
        let Some(text) = self.find(name)? else { return Ok(default) };
        let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
        limit
            .ok_or_else(|| ApiError::mismatch(name, format_args!("it is a number from 1 to {max}")))
    }

    /// The number of the topic, in a version that is served.
    pub(super) fn topic_id(&self) -> Result<TopicId, ApiError> {
        self.check_version()?;
        read_topic_id("topic_id", &self.text("topic_id")?)
    }

    /// The topic, in a version that is served.
    pub(super) fn topic(&self) -> Result<Arc<Topic>, ApiError> {
        Ok(self.service.inference.find_topic(self.topic_id()?)?)
    }

    pub(super) fn height(&self) -> Result<BlockHeight, ApiError> {
        self.read("block_height")
    }

    pub(super) fn address(&self, name: &str) -> Result<Address, ApiError> {
        self.read(name)
    }

    /// Whether numbers stand alone, without labels.
    pub(super) fn is_old(&self) -> bool {
        self.path.get("version").is_some_and(|version| version == EMISSIONS_OLD)
    }

    /// Refuses a version in the path that is not served.
    pub(super) fn check_version(&self) -> Result<(), ApiError> {
        match self.path.get("version") {
            Some(version) if !EMISSIONS_VERSIONS.contains(&version.as_str()) => {
                Err(ApiError::version(version))
            }
            _ => Ok(()),
        }
    }
}

/// Reads the number of a topic.
pub(super) fn read_topic_id(name: &str, text: &str) -> Result<TopicId, ApiError> {
    let number: u64 = text.parse().map_err(|_| ApiError::syntax(name, text))?;
    // Topics are numbered from 1.
    TopicId::new(number).ok_or_else(|| ApiError::invalid("invalid topic id"))
}
