//! Answers to callers that have what they ask for already.

use axum::{
    extract::FromRequestParts,
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{ETAG, IF_NONE_MATCH},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use formats::content_coding::Coding;

use super::error::ApiError;
use crate::tag::{Seen, Tag};

/// The tags that a caller sends along.
#[derive(Debug)]
pub(super) struct IfNoneMatch(pub(super) Seen);

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let header = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        Ok(Self(header.map(Seen::of).unwrap_or_default()))
    }
}

/// Sets the tag of an answer whose body has this coding.
pub(super) fn set_tag(headers: &mut HeaderMap, tag: Tag, coding: Coding) {
    let text = match coding.name() {
        None => format!("\"{tag}\""),
        Some(name) => format!("\"{tag}-{name}\""),
    };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(ETAG, value);
    }
}

/// 304: the caller has the answer, under the tag `known`.
pub(super) fn unchanged(known: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    let known = known.strip_prefix("W/").unwrap_or(known);
    if let Ok(value) = HeaderValue::try_from(known) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}
