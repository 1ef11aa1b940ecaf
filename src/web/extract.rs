//! Reads bodies and queries; each room words its own refusals.

use std::{error::Error, fmt::Display, iter::successors, time::Duration};

use axum::{
    RequestExt as _,
    body::{Bytes, HttpBody as _},
    extract::{Query, Request},
    http::{StatusCode, Uri},
};
use futures::StreamExt as _;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// Time in which a short body must arrive: some round trips over the slowest of lines. A caller that
/// sends one byte of it holds a connection for no longer.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Bytes of a body that give it one more second: a line of half a megabit is fast enough.
const BYTES_PER_SECOND_MIN: u32 = 64 * 1024;

/// Memory that is allocated at most for a body before it arrives.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// Why a body or a query could not be read. The text may be shown to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the service takes.
    #[error("read the body: it is too large")]
    TooLarge,
    /// The body ended early, or its connection broke.
    #[error("read the body: it is incomplete")]
    Broken,
    /// The body or the query is not what is expected: how, and where.
    #[error("{0}")]
    Invalid(String),
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s", within.as_secs())]
    Slow {
        /// The time that it had.
        within: Duration,
    },
}

impl BodyError {
    /// The error of a body that is not the JSON that is expected.
    pub fn json(reason: impl Display) -> Self {
        Self::Invalid(format!("read the body as JSON: {reason}"))
    }

    /// Returns the status of the response to it.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Broken | Self::Invalid(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a request's whole body, at most as long as [`add_layers`](crate::middleware::add_layers) allows.
///
/// It must arrive within [`BODY_WITHIN`], and a second more for each 64 KiB of it.
///
/// # Errors
/// [`BodyError::TooLarge`] past that length, [`BodyError::Slow`] past that time,
/// [`BodyError::Broken`] if it is truncated.
pub async fn bytes(request: Request) -> Result<Bytes, BodyError> {
    let body = request.into_limited_body();
    let length_min = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    let (began, mut within) = (Instant::now(), BODY_WITHIN);
    while let Some(part) =
        timeout_at(began + within, parts.next()).await.map_err(|_| BodyError::Slow { within })?
    {
        let part = part.map_err(|error| {
            let mut causes = successors(error.source(), |cause| (*cause).source());
            let is_long = causes.any(<dyn Error>::is::<LengthLimitError>);
            if is_long { BodyError::TooLarge } else { BodyError::Broken }
        })?;
        // Most bodies arrive in one part.
        if bytes.is_empty() && part.len() == length_min {
            return Ok(part);
        }
        if bytes.is_empty() {
            bytes.reserve(length_min.min(FIRST_BYTES_MAX).max(part.len()));
        }
        bytes.extend_from_slice(&part);
        let n_bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        within = BODY_WITHIN + Duration::from_secs(1) * (n_bytes / BYTES_PER_SECOND_MIN);
    }
    Ok(bytes.into())
}

/// Reads a request's body as a JSON object, whatever its content type says.
///
/// # Errors
/// As [`bytes`], and [`BodyError::Invalid`] if it is no object, or not a `T`.
pub async fn json<T: DeserializeOwned>(request: Request) -> Result<T, BodyError> {
    let body = bytes(request).await?;
    // An array would be read as well, field by field.
    match body.trim_ascii_start().first() {
        None | Some(b'{') => parse_json(&body),
        Some(_) => Err(BodyError::json("expected an object")),
    }
}

/// Reads a body that is here as JSON. Takes a second for the longest ones.
///
/// # Errors
/// [`BodyError::Invalid`] if it is not a `T`.
pub fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(BodyError::json)
}

/// Reads a query string.
///
/// # Errors
/// [`BodyError::Invalid`] if it is not a `T`.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, BodyError> {
    Query::try_from_uri(uri)
        .map(|Query(query)| query)
        .map_err(|error| BodyError::Invalid(format!("read the query: {}", error.body_text())))
}

/// Returns the names and values of a query string, decoded, in their order.
///
/// # Errors
/// [`BodyError::Invalid`] if an escape is broken.
pub fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, BodyError> {
    query(uri)
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, iter::repeat_n};

    use axum::body::Body;
    use futures::stream;
    use tokio::time::sleep;
    use wire::datasets::TagName;

    use super::*;

    #[test]
    fn pairs_are_decoded_in_their_order() {
        let uri: Uri =
            "/api/rows/?start=2026-07-30T00%3A00%3A00Z&dataset_name=a+b&x=".parse().unwrap();
        let want = [("start", "2026-07-30T00:00:00Z"), ("dataset_name", "a b"), ("x", "")];
        assert_eq!(pairs(&uri).unwrap(), want.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(pairs(&"/api/rows/".parse().unwrap()).unwrap(), []);
    }

    #[tokio::test]
    async fn json_needs_no_content_type_and_errors_name_the_missing_field() {
        let request = |body: &'static str| Request::new(Body::from(body));
        let read = json::<TagName>(request(r#"{"tag_name":"public"}"#)).await;
        assert_eq!(read.unwrap().tag_name, "public");
        let error = json::<TagName>(request("{}")).await.unwrap_err();
        assert!(error.to_string().contains("missing field `tag_name`"), "{error}");
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_is_cut_off_and_a_long_one_has_more_time() {
        static PART: [u8; 32 * 1024] = [b'x'; 32 * 1024];
        let drip = |part: &'static [u8], every: Duration| {
            let parts = stream::iter(repeat_n(part, 40)).then(move |part| async move {
                sleep(every).await;
                Ok::<_, Infallible>(Bytes::from_static(part))
            });
            Request::new(Body::from_stream(parts))
        };
        let slow = bytes(drip(b"x", Duration::from_secs(1))).await;
        assert_eq!(slow, Err(BodyError::Slow { within: BODY_WITHIN }));
        assert_eq!(slow.unwrap_err().status(), StatusCode::REQUEST_TIMEOUT);
        let fast = bytes(drip(&PART, Duration::from_millis(600))).await;
        assert_eq!(fast.unwrap().len(), 40 * PART.len());
    }

    #[tokio::test]
    async fn an_array_is_refused_where_an_object_is_expected() {
        let error = json::<TagName>(Request::new(Body::from(" [\"public\"]"))).await.unwrap_err();
        assert_eq!(error.to_string(), "read the body as JSON: expected an object");
    }
}
