//! Reads bodies and queries; each room words its own refusals.

use axum::{
    body::Bytes,
    extract::{FromRequest as _, Query, Request},
    http::{StatusCode, Uri},
};
use serde::de::DeserializeOwned;

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
    /// The body is not the JSON that is expected.
    #[error("read the body as JSON: {reason}")]
    Json {
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The query string is not what is expected.
    #[error("read the query: {reason}")]
    Query {
        /// What is wrong with it.
        reason: String,
    },
}

impl BodyError {
    /// The status that answers it.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Broken | Self::Json { .. } | Self::Query { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads a request's whole body, at most as long as [`add_layers`](crate::middleware::add_layers) allows.
///
/// # Errors
/// [`BodyError::TooLarge`] past that length, [`BodyError::Broken`] if it does not arrive whole.
pub async fn bytes(request: Request) -> Result<Bytes, BodyError> {
    Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => BodyError::TooLarge,
        _ => BodyError::Broken,
    })
}

/// Reads a request's body as a JSON object, whatever its content type says.
///
/// # Errors
/// As [`bytes`], and [`BodyError::Json`] if it is no object, or not a `T`.
pub async fn json<T: DeserializeOwned>(request: Request) -> Result<T, BodyError> {
    let body = bytes(request).await?;
    // An array would be read as well, field by field.
    match body.trim_ascii_start().first() {
        None | Some(b'{') => parse_json(&body),
        Some(_) => Err(BodyError::Json { reason: "expected an object".to_owned() }),
    }
}

/// Reads a body that is here as JSON. Takes a second for the longest ones.
///
/// # Errors
/// [`BodyError::Json`] if it is not a `T`.
pub fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|error| BodyError::Json { reason: error.to_string() })
}

/// Reads a query string.
///
/// # Errors
/// [`BodyError::Query`] if it is not a `T`.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, BodyError> {
    Query::try_from_uri(uri)
        .map(|Query(query)| query)
        .map_err(|rejection| BodyError::Query { reason: rejection.body_text() })
}

/// Returns the names and values of a query string, decoded, in their order.
///
/// # Errors
/// [`BodyError::Query`] if an escape is broken.
pub fn pairs(uri: &Uri) -> Result<Vec<(String, String)>, BodyError> {
    query(uri)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
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

    #[tokio::test]
    async fn an_array_is_refused_where_an_object_is_expected() {
        let error = json::<TagName>(Request::new(Body::from(" [\"public\"]"))).await.unwrap_err();
        assert_eq!(error.to_string(), "read the body as JSON: expected an object");
    }
}
