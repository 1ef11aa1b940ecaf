//! Headers that many responses share: content codings, entity tags and revisions.
//!
//! This module compresses only complete bodies of a minimum length. Downloads are compressed elsewhere,
//! while they are read. Event streams are not compressed, since each event is flushed immediately.
//!
//! `If-None-Match` can result in status 304, `If-Match` in status 412. In a response, `X-Revision` is
//! the latest revision of which it has all rows. In a request, it is a revision that the response must
//! include. A read-only service reads a replica of the database, which can lag, and responds with status
//! 503 then.

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH,
    VARY,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use formats::content_coding::Coding;
use tracing::error;
use web::middleware::Next;
use wire::paths::REVISION_HEADER;

use super::error::{NO_CODING, NOT_MATCHED, refusal};
use crate::error::{Invalid, OperationError, Result};
use crate::etag::{ETag, KnownETags};
use crate::run_blocking;

/// Minimum length of a body that is compressed. For a shorter body, compression would save only a packet
/// or two.
const BYTES_MIN: u64 = 4 * 1024;

/// Maximum length of a body that is compressed here, since the whole body is held in memory.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Content coding that the client accepts. `None` if it accepts none that is supported.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted(Option<Coding>);

impl Accepted {
    fn from_headers(headers: &HeaderMap) -> Self {
        let values = headers.get_all(ACCEPT_ENCODING).iter();
        let texts: Vec<_> = values.map(|value| value.to_str().unwrap_or_default()).collect();
        Self(Coding::negotiate(&texts.join(",")))
    }

    /// Returns the coding of the response.
    ///
    /// # Errors
    /// [`NO_CODING`] if the caller accepts no supported coding.
    pub(super) fn coding(self) -> Result<Coding> {
        self.0.ok_or(NO_CODING)
    }
}

impl<S: Sync> FromRequestParts<S> for Accepted {
    type Rejection = OperationError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Ok(Self::from_headers(&parts.headers))
    }
}

/// Sets the headers that name the coding of a body.
pub(super) fn set_coding(headers: &mut HeaderMap, coding: Coding) {
    headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(name) = coding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
}

/// Compresses a response if the client accepts a coding and the body is worth compressing.
pub(super) async fn compress(request: Request, next: Next) -> Response {
    let accepted = Accepted::from_headers(request.headers());
    let response = next.run(request).await;
    if !is_worth_it(&response) {
        return response;
    }
    match accepted.coding() {
        Err(error) => error.into_response(),
        Ok(coding) => compress_body(response, coding).await,
    }
}

/// Returns true if a body is complete, not compressed yet, a text, and within the limits of length.
fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_text = content_type.is_some_and(|content_type| {
        content_type.starts_with("application/json")
            || content_type.starts_with("application/x-ndjson")
            || content_type.starts_with("text/")
    });
    let length = response.body().size_hint().exact();
    is_text
        && !headers.contains_key(CONTENT_ENCODING)
        && length.is_some_and(|length| (BYTES_MIN..=BYTES_MAX).contains(&length))
}

async fn compress_body(response: Response, coding: Coding) -> Response {
    let (mut parts, body) = response.into_parts();
    set_coding(&mut parts.headers, coding);
    if coding == Coding::Identity {
        return Response::from_parts(parts, body);
    }
    let packed = match to_bytes(body, usize::MAX).await {
        Ok(plain) => {
            let compress = move || formats::content_coding::compress(coding, &plain);
            run_blocking(compress).await.ok().and_then(Result::ok)
        }
        Err(_) => None,
    };
    let Some(packed) = packed else {
        error!("a response could not be compressed");
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error");
    };
    parts.headers.remove(CONTENT_LENGTH);
    set_coded_tag(&mut parts.headers, coding);
    Response::from_parts(parts, Body::from(packed))
}

/// Adds the coding to the entity tag of a compressed body, since its bytes are different.
fn set_coded_tag(headers: &mut HeaderMap, coding: Coding) {
    let Some(plain) = headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else { return };
    let (Some(name), Some(plain)) = (coding.name(), plain.strip_suffix('"')) else { return };
    if let Ok(tag) = HeaderValue::try_from(format!("{plain}-{name}\"")) {
        headers.insert(ETAG, tag);
    }
}

/// Header with a revision of the dataset, in requests and responses.
const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// Latest revision of the dataset that the caller has seen, if it sent one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen(pub(super) Option<u64>);

impl<S: Sync> FromRequestParts<S> for Seen {
    type Rejection = OperationError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let Some(value) = parts.headers.get(REVISION) else { return Ok(Self(None)) };
        let seen = value.to_str().ok().and_then(|text| text.parse().ok());
        seen.map(|seen| Self(Some(seen))).ok_or_else(|| {
            Invalid::from("X-Revision must be the number of a commit from an earlier response")
                .into()
        })
    }
}

/// Sets the header with the revision of the dataset up to which the response has all rows.
pub(super) fn set_revision(mut response: Response, revision: u64) -> Response {
    response.headers_mut().insert(REVISION, HeaderValue::from(revision));
    response
}

/// Entity tags in the `If-None-Match` header. Empty without the header.
#[derive(Debug)]
pub(super) struct IfNoneMatch(pub(super) KnownETags);

impl<S: Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = OperationError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let header = parts.headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        Ok(Self(header.map(KnownETags::parse).unwrap_or_default()))
    }
}

/// Responds with status 412 if the request has an `If-Match` header that does not list the entity tag of
/// the response.
///
/// Only reads have entity tags, so a change with this header is always rejected.
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

/// Sets the entity tag of a response with this content coding.
pub(super) fn set_tag(headers: &mut HeaderMap, tag: ETag, coding: Coding) {
    let text = match coding.name() {
        None => format!("\"{tag}\""),
        Some(name) => format!("\"{tag}-{name}\""),
    };
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(ETAG, value);
    }
}

/// Returns a response with status 304 for a client that has the current response, with the entity tag
/// `known`.
pub(super) fn not_modified(known: &str) -> Response {
    let mut response = StatusCode::NOT_MODIFIED.into_response();
    let known = known.strip_prefix("W/").unwrap_or(known);
    if let Ok(value) = HeaderValue::try_from(known) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}
