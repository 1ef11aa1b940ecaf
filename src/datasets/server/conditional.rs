//! Conditional requests: `If-None-Match`, `ETag` and 304 responses.

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

use super::error::{ApiError, Result};
use crate::etag::{ETag, KnownETags};

/// The tags of the `If-None-Match` header; none without one.
#[derive(Debug)]
pub(super) struct IfNoneMatch(pub(super) KnownETags);

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let header = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        Ok(Self(header.map(KnownETags::parse).unwrap_or_default()))
    }
}

/// Sets the tag of a response whose body has this content coding.
pub(super) fn set_tag(headers: &mut HeaderMap, tag: ETag, coding: Coding) {
    let text = match coding.name() {
        None => format!("\"{tag}\""),
        Some(name) => format!("\"{tag}-{name}\""),
    };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(ETAG, value);
    }
}

/// 304: the caller has the response with the tag `known`.
pub(super) fn not_modified(known: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    let known = known.strip_prefix("W/").unwrap_or(known);
    if let Ok(value) = HeaderValue::try_from(known) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}
