//! Reads request bodies and query strings. Each crate renders its own error responses.

use std::error::Error;
use std::fmt::Display;
use std::iter::successors;
use std::time::Duration;

use axum::RequestExt as _;
use axum::body::{Bytes, HttpBody as _};
use axum::extract::{Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use futures::StreamExt as _;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

/// Time limit for a short body to arrive. It suffices for some round trips over the slowest connections.
/// It also limits how long a slow caller occupies a connection.
pub const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Number of body bytes for which the time limit is extended by a second. Callers with a long body must
/// therefore send at least half a megabit per second.
const BYTES_PER_SECOND_MIN: u32 = 64 * 1024;

/// Maximum memory that is allocated for a body in advance.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// Terms of serde and of Rust in reasons, by their plain forms.
const PLAIN_TERMS: [(&str, &[&str]); 12] = [
    (
        "expected a whole number",
        &[
            "expected i8",
            "expected i16",
            "expected i32",
            "expected i64",
            "expected isize",
            "invalid digit found in string",
            "cannot parse integer from empty string",
        ],
    ),
    ("expected a whole number from 0 to 255", &["expected u8"]),
    ("expected a whole number from 0 to 65535", &["expected u16"]),
    ("expected a whole number from 0 to 4294967295", &["expected u32"]),
    ("expected a whole number from 0", &["expected u64", "expected usize"]),
    ("expected a number", &["expected f32", "expected f64", "invalid float literal"]),
    ("expected true or false", &["provided string was not `true` or `false`"]),
    ("number is too large", &["number too large to fit in target type"]),
    ("expected a list", &["expected a sequence"]),
    ("expected an object", &["expected a map"]),
    ("type: list", &["type: sequence"]),
    ("type: object", &["type: map"]),
];

/// Error in a body or query string. The text can be shown to the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body exceeds the service's limit.
    #[error("body is too large")]
    TooLarge,
    /// The body was truncated, or the connection was lost.
    #[error("body ended before it was complete")]
    Broken,
    /// The content of the body or query string is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The body is not declared as JSON.
    #[error("content-type must be application/json")]
    NotJson,
    /// The body did not arrive in time.
    #[error("the body did not arrive within {} s", within.as_secs())]
    Slow {
        /// Time limit of the body.
        within: Duration,
    },
}

impl BodyError {
    /// Creates an error for a body that is not the expected JSON.
    pub fn json(reason: impl Display) -> Self {
        Self::Invalid(format!("invalid JSON body: {}", plain(reason)))
    }

    /// Returns the status of the error response.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Broken | Self::Invalid(_) => StatusCode::BAD_REQUEST,
        }
    }
}

/// Rewrites the reason for an error of serde without the terms of Rust.
pub fn plain(reason: impl Display) -> String {
    let mut text = reason.to_string();
    if let Some((before, name)) = text.split_once("expected struct ") {
        let rest = name.find(' ').and_then(|end| name.get(end..)).unwrap_or_default();
        text = format!("{before}expected an object{rest}");
    }
    for (plain, terms) in PLAIN_TERMS {
        text = terms.iter().fold(text, |text, term| text.replace(term, plain));
    }
    text
}

/// Returns the media type of a body without parameters, in lower case. Empty if it is not declared.
pub fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|text| text.split(';').next()).unwrap_or_default();
    media_type.trim().to_ascii_lowercase()
}

/// Reads the whole body of a request, up to the limit of [`add_layers`](crate::middleware::add_layers).
///
/// The body must arrive within [`BODY_WITHIN`], plus a second for each 64 KiB.
///
/// # Errors
/// [`BodyError::TooLarge`] if the body exceeds the size limit, [`BodyError::Slow`] if it exceeds the
/// time limit, [`BodyError::Broken`] if it is truncated.
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
        // Most bodies arrive in one part, which is not copied.
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

/// Reads the body of a request as a JSON object. The `Content-Type` header is ignored.
///
/// # Errors
/// The errors of [`bytes`], and [`BodyError::Invalid`] if the body is not an object or not a `T`.
pub async fn json<T: DeserializeOwned>(request: Request) -> Result<T, BodyError> {
    let body = bytes(request).await?;
    // Arrays are rejected, because serde would parse an array of field values as a struct.
    match body.trim_ascii_start().first() {
        None | Some(b'{') => parse_json(&body),
        Some(_) => Err(BodyError::json("expected an object")),
    }
}

/// Reads the body of a request like [`json`] if it is declared as JSON. A form on a page of another site
/// cannot send such a body.
///
/// # Errors
/// The errors of [`json`], and [`BodyError::NotJson`].
pub async fn declared_json<T: DeserializeOwned>(request: Request) -> Result<T, BodyError> {
    let media_type = media_type(request.headers());
    let is_json = media_type.strip_prefix("application/");
    if !is_json.is_some_and(|kind| kind == "json" || kind.ends_with("+json")) {
        return Err(BodyError::NotJson);
    }
    json(request).await
}

/// Parses a received body as JSON. This takes a second for the longest bodies.
///
/// # Errors
/// [`BodyError::Invalid`] if it is not a `T`.
pub fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(BodyError::json)
}

/// Parses a query string.
///
/// # Errors
/// [`BodyError::Invalid`] if it is not a `T`.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, BodyError> {
    Query::try_from_uri(uri)
        .map(|Query(query)| query)
        .map_err(|error| BodyError::Invalid(format!("invalid query: {}", plain(error.body_text()))))
}

/// Returns the decoded names and values in a query string, in order.
///
/// # Errors
/// [`BodyError::Invalid`] if an escape sequence is invalid.
pub fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, BodyError> {
    query(uri)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::convert::Infallible;
    use std::iter::repeat_n;

    use axum::body::Body;
    use futures::stream;
    use tokio::time::sleep;
    use wire::datasets::TagName;

    use super::*;

    #[test]
    fn query_parameters_are_decoded_in_order() {
        let uri: Uri =
            "/api/rows/?start=2026-07-30T00%3A00%3A00Z&dataset_name=a+b&x=".parse().unwrap();
        let want = [("start", "2026-07-30T00:00:00Z"), ("dataset_name", "a b"), ("x", "")];
        assert_eq!(pairs(&uri).unwrap(), want.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert_eq!(pairs(&"/api/rows/".parse().unwrap()).unwrap(), []);
    }

    #[tokio::test]
    async fn json_body_is_read_without_a_content_type_and_errors_name_missing_fields() {
        let request = |body: &'static str| Request::new(Body::from(body));
        let read = json::<TagName>(request(r#"{"tag_name":"public"}"#)).await;
        assert_eq!(read.unwrap().tag_name, "public");
        let error = json::<TagName>(request("{}")).await.unwrap_err();
        assert!(error.to_string().contains("missing field `tag_name`"), "{error}");
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_body_is_rejected_unless_it_arrives_at_the_minimum_rate() {
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

    #[test]
    fn errors_of_bodies_and_queries_use_plain_words() {
        fn reason<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
            parse_json::<BTreeMap<String, T>>(body.as_bytes()).unwrap_err().to_string()
        }
        for (error, want) in [
            (reason::<i64>(r#"{"n":"x"}"#), "type: string \"x\", expected a whole number at"),
            (
                reason::<u32>(r#"{"n":-1}"#),
                "value: integer `-1`, expected a whole number from 0 to 4294967295 at",
            ),
            (reason::<f64>(r#"{"n":[]}"#), "type: list, expected a number at"),
            (reason::<Vec<String>>(r#"{"n":{}}"#), "type: object, expected a list at"),
            (
                reason::<BTreeMap<String, i64>>(r#"{"n":3}"#),
                "type: integer `3`, expected an object",
            ),
        ] {
            assert!(error.starts_with(&format!("invalid JSON body: invalid {want}")), "{error}");
        }
        for text in ["n=x", "n="] {
            let error = query::<BTreeMap<String, i64>>(&format!("/?{text}").parse().unwrap());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("expected a whole number"), "{error}");
        }
    }

    #[tokio::test]
    async fn json_array_is_rejected_if_an_object_is_expected() {
        let error = json::<TagName>(Request::new(Body::from(" [\"public\"]"))).await.unwrap_err();
        assert_eq!(error.to_string(), "invalid JSON body: expected an object");
    }
}
