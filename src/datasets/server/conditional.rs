//! Conditional requests: `If-None-Match` with 304, `If-Match` with 412, and `X-Revision`, the
//! commit that a response includes.
//!
//! A read-only service reads a replica of the database, which may lag. Its responses include the
//! commit that the request names, or it responds 503.

use axum::{
    extract::{FromRequestParts, Request},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{ETAG, IF_MATCH, IF_NONE_MATCH},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use formats::content_coding::Coding;
use web::middleware::Next;
use wire::paths::REVISION_HEADER;

use super::error::{ApiError, NOT_MATCHED, Result};
use crate::{
    error::Invalid,
    etag::{ETag, KnownETags},
};

/// Header with the number of a commit, in requests and responses.
const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// Last commit of the dataset that the caller has seen, if it sent one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen(pub(super) Option<u64>);

impl<S: Sync> FromRequestParts<S> for Seen {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let Some(value) = parts.headers.get(REVISION) else { return Ok(Self(None)) };
        let seen = value.to_str().ok().and_then(|text| text.parse().ok());
        seen.map(|seen| Self(Some(seen))).ok_or_else(|| {
            Invalid::from("X-Revision must be the number of a commit from an earlier response")
                .into()
        })
    }
}

/// Sets the last commit of the dataset that a response includes.
pub(super) fn set_revision(mut response: Response, revision: u64) -> Response {
    response.headers_mut().insert(REVISION, HeaderValue::from(revision));
    response
}

/// Tags of the `If-None-Match` header; empty without one.
#[derive(Debug)]
pub(super) struct IfNoneMatch(pub(super) KnownETags);

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let header = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        Ok(Self(header.map(KnownETags::parse).unwrap_or_default()))
    }
}

/// Responds with 412 if a request has `If-Match`, and the response has none of its tags.
///
/// Only reads have tags, so a change with this header is rejected.
pub(super) async fn check_match(request: Request, next: Next) -> Response {
    let Some(header) = request.headers().get(IF_MATCH) else { return next.run(request).await };
    let required = KnownETags::parse(header.to_str().unwrap_or_default());
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read && !required.contains(None) {
        return NOT_MATCHED.into_response();
    }
    let response = next.run(request).await;
    let status = response.status();
    let is_found = status.is_success() || status == StatusCode::NOT_MODIFIED;
    let tag = response.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
    if is_read && is_found && !required.contains(tag) {
        return NOT_MATCHED.into_response();
    }
    response
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

/// Returns a 304 for a caller that has the response with the tag `known`.
pub(super) fn not_modified(known: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    let known = known.strip_prefix("W/").unwrap_or(known);
    if let Ok(value) = HeaderValue::try_from(known) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}
