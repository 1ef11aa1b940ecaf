//! Responses with the output of functions, within a memory limit that all of them share.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::RestError;
use super::respond;

/// Output of at most this size is encoded immediately and not counted, since this takes about a
/// millisecond.
const SMALL_BYTES: usize = 256 * 1024;

/// Memory for larger output and its JSON, in KiB.
const LIMIT_KIB: usize = 512 * 1024;

/// Memory that a byte of output can take: one byte itself, and six bytes of JSON if it is escaped.
const MEMORY_FACTOR: usize = 7;

/// Maximum time to wait until enough memory is free: half of the time reserved for a response.
const WAIT_WITHIN: Duration = Duration::from_secs(5);

/// Size of the parts in which a response is sent. Its memory is released with the last part.
const PART_BYTES: usize = 64 * 1024;

/// Memory of responses. Clones share the limit.
#[derive(Debug, Clone)]
pub(super) struct Results(Arc<Semaphore>);

/// Memory of one response; `None` if it is small.
#[derive(Debug)]
pub(super) struct ResultMemory(Option<OwnedSemaphorePermit>);

impl Results {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LIMIT_KIB)))
    }

    /// Reserves memory for a response with `n_bytes` of output.
    pub(super) async fn reserve(&self, n_bytes: usize) -> Result<ResultMemory, RestError> {
        if n_bytes <= SMALL_BYTES {
            return Ok(ResultMemory(None));
        }
        let n_kib = n_bytes.saturating_mul(MEMORY_FACTOR).div_ceil(1024).min(LIMIT_KIB);
        let n_kib = u32::try_from(n_kib).unwrap_or(u32::MAX);
        match timeout(WAIT_WITHIN, Arc::clone(&self.0).acquire_many_owned(n_kib)).await {
            Ok(Ok(reserved)) => Ok(ResultMemory(Some(reserved))),
            _ => Err(RestError::TOO_MANY_RESULTS),
        }
    }
}

impl ResultMemory {
    /// Responds with JSON like [`respond`]. A large body is encoded on a thread of its own, so that the
    /// other work of the head continues.
    pub(super) async fn respond(self, body: impl Serialize + Send + 'static) -> Response {
        let Some(mut reserved) = self.0 else { return respond(&body) };
        let encoding = spawn_blocking(move || {
            let mut bytes = crate::message::json(&body);
            bytes.push(b'\n');
            Bytes::from(bytes)
        });
        // Fails only if the head is stopping.
        let Ok(bytes) = encoding.await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        // Most output is hardly escaped.
        let n_unused = reserved.num_permits().saturating_sub(bytes.len().div_ceil(1024));
        drop(reserved.split(n_unused));
        let length = bytes.len().to_string();
        let headers = [
            (header::CONTENT_TYPE, "application/json".to_owned()),
            (header::CONTENT_LENGTH, length),
        ];
        let parts = stream::unfold((bytes, reserved), |(mut bytes, reserved)| async move {
            let part = bytes.split_to(bytes.len().min(PART_BYTES));
            (!part.is_empty()).then_some((Ok::<_, Infallible>(part), (bytes, reserved)))
        });
        (headers, Body::from_stream(parts)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn large_response_holds_its_memory_until_it_is_sent() {
        let results = Results::new();
        assert!(results.reserve(SMALL_BYTES).await.unwrap().0.is_none());
        let text = "\0".repeat(LIMIT_KIB * 1024 / MEMORY_FACTOR / 16);
        let memory = results.reserve(text.len()).await.unwrap();
        let want = json!({"stdout": text}).to_string() + "\n";
        let response = memory.respond(json!({"stdout": text})).await;
        assert_eq!(response.headers()[header::CONTENT_LENGTH], want.len().to_string());
        let others = results.reserve(usize::MAX).await;
        assert_eq!(others.unwrap_err(), RestError::TOO_MANY_RESULTS);
        let sent = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(sent == want, "{} bytes", sent.len());
        assert!(results.reserve(usize::MAX).await.is_ok());
    }
}
