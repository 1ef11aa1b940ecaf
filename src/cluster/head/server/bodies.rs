//! Reads request bodies within a memory limit that all of them share.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use web::extract::{self, BodyError, media_type};

use super::BODY_BYTES_MAX;
use super::error::RestError;
use crate::message::read_lenient;

/// Time for a body to arrive: enough for 3 MiB at 2 Mbit/s.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(15);

/// Memory for request bodies, in KiB. Clones share the limit.
#[derive(Debug, Clone)]
pub(super) struct Bodies(Arc<Semaphore>);

impl Bodies {
    pub(super) fn new() -> Self {
        // 256 MiB, or 85 bodies of the maximum length. Further requests wait as long as a body can take
        // to arrive and are then refused.
        Self::with_limit(256 * 1024)
    }

    fn with_limit(limit_kib: usize) -> Self {
        Self(Arc::new(Semaphore::new(limit_kib)))
    }

    /// Reads a body. As in existing heads, an empty body of any media type counts as a request without
    /// fields.
    pub(super) async fn read<T: DeserializeOwned + Default>(
        &self,
        request: Request,
    ) -> Result<T, RestError> {
        let is_json = media_type(request.headers()) == "application/json";
        let reserved = timeout(BODY_WITHIN, self.0.acquire_many(n_kib(request.headers()))).await;
        let Ok(Ok(_reserved)) = reserved else { return Err(RestError::TOO_MANY_BODIES) };
        let body = timeout(BODY_WITHIN, extract::bytes(request)).await;
        let body = body.unwrap_or_else(|_: Elapsed| Err(BodyError::Broken));
        match body?.as_ref() {
            [] => Ok(T::default()),
            _ if !is_json => Err(RestError::NOT_JSON),
            bytes => read(bytes),
        }
    }
}

/// Returns the amount of memory to reserve: the announced length, or the maximum if the length is
/// unknown or too large. A longer body is refused.
fn n_kib(headers: &HeaderMap) -> u32 {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let length = length.and_then(|text| text.parse::<usize>().ok()).unwrap_or(BODY_BYTES_MAX);
    u32::try_from(length.min(BODY_BYTES_MAX).div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Parses a request, which must be a JSON object.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RestError> {
    // Serde would accept a list and assign its elements to the fields in order. Its errors name a type of
    // this program.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(BodyError::json("expected a JSON object".to_owned()).into());
    }
    read_lenient(bytes).map_err(|error| BodyError::json(error).into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wire::functions::ExecuteRequest;

    use super::*;

    #[test]
    fn null_field_of_a_request_counts_as_omitted() {
        let body = json!({
            "function_id": "f", "method": "m.wasm", "subgroup": null, "config":
                {"number_of_nodes": null, "stdin": null, "attributes": null, "env_vars": null},
        });
        let request: ExecuteRequest = read(body.to_string().as_bytes()).unwrap();
        assert_eq!((request.function_id.as_str(), request.config.number_of_nodes), ("f", 0));
        assert!(read::<ExecuteRequest>(br#"{"config":null}"#).is_ok());
        let listed = json!({
            "parameters": [{"name": null, "value": "a"}, {"value": null}],
            "config": {"env_vars": [{"name": "A", "value": null}]},
        });
        let request: ExecuteRequest = read(listed.to_string().as_bytes()).unwrap();
        assert_eq!(request.arguments(), ["a"]);
        assert_eq!(request.config.environment().get("A").map(String::as_str), Some(""));
        for text in ["[]", "null", "7", "nonsense"] {
            let want = BodyError::json("expected a JSON object".to_owned()).into();
            assert_eq!(read::<ExecuteRequest>(text.as_bytes()), Err(want), "{text}");
        }
    }

    fn request(n_bytes: usize) -> Request {
        let request = Request::builder().header(header::CONTENT_LENGTH, n_bytes);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        request.body("{}".into()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn body_is_refused_if_no_memory_becomes_free() {
        let bodies = Bodies::with_limit(4);
        let arriving = bodies.0.acquire_many(3).await.unwrap();
        assert!(bodies.read::<ExecuteRequest>(request(1024)).await.is_ok());
        let refused = bodies.read::<ExecuteRequest>(request(1025)).await;
        assert_eq!(refused, Err(RestError::TOO_MANY_BODIES));
        drop(arriving);
        assert!(bodies.read::<ExecuteRequest>(request(1025)).await.is_ok());
        assert_eq!(bodies.0.available_permits(), 4, "the memory is released");
    }

    #[test]
    fn body_reserves_memory_for_its_announced_length_up_to_the_limit() {
        let reserved = |request: &Request| n_kib(request.headers());
        assert_eq!([0, 1, 2048].map(|n| reserved(&request(n))), [0, 1, 2]);
        assert_eq!(reserved(&request(usize::MAX)), 3 * 1024);
        assert_eq!(reserved(&Request::default()), 3 * 1024, "no length is announced");
    }
}
