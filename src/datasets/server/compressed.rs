//! Compresses responses by `Accept-Encoding`.
//!
//! Only complete bodies of a minimum length are compressed here. Downloads are compressed as they
//! are read. Event streams are not compressed, since each event is flushed immediately.

use axum::{
    body::{Body, HttpBody as _, to_bytes},
    extract::{FromRequestParts, Request},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY},
        request::Parts,
    },
    response::{IntoResponse as _, Response},
};
use formats::content_coding::Coding;
use tracing::error;
use web::middleware::Next;

use super::error::{ApiError, NO_CODING, Result, refusal};
use crate::run_blocking;

/// Minimum length of a compressed body. Less saves a packet or two at most.
const BYTES_MIN: u64 = 4 * 1024;

/// Maximum length of a body that is compressed here, which bounds the memory.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Content coding that a caller accepts; `None` if it accepts none of ours.
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
    /// [`NO_CODING`] if the caller accepts none.
    pub(super) fn coding(self) -> Result<Coding> {
        self.0.ok_or(NO_CODING)
    }
}

impl<S: Sync> FromRequestParts<S> for Accepted {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        Ok(Self::from_headers(&parts.headers))
    }
}

/// Sets the headers for the coding of a body.
pub(super) fn set_coding(headers: &mut HeaderMap, coding: Coding) {
    headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    if let Some(name) = coding.name() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(name));
    }
}

/// Compresses the response to a request if the caller accepts it and it is worth it.
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

/// Returns true if a body is complete, textual, not yet compressed, and within the length limits.
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

/// Adds the coding to the tag of a compressed body, since its bytes differ.
fn set_coded_tag(headers: &mut HeaderMap, coding: Coding) {
    let Some(plain) = headers.get(ETAG).and_then(|tag| tag.to_str().ok()) else { return };
    let (Some(name), Some(plain)) = (coding.name(), plain.strip_suffix('"')) else { return };
    if let Ok(tag) = HeaderValue::try_from(format!("{plain}-{name}\"")) {
        headers.insert(ETAG, tag);
    }
}
