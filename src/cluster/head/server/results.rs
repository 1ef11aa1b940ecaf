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
use task::group::Group;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::RestError;
use super::{encode, respond};

/// Output of at most this size is encoded immediately and not counted, since this takes about a
/// millisecond.
const SMALL_BYTES: usize = 256 * 1024;

/// Memory for larger output and its JSON, in KiB. A response that needs more takes the whole limit.
const LIMIT_KIB: u32 = 512 * 1024;

/// Memory that a byte of output can take: one byte itself, and about six bytes of JSON if it is escaped.
const MEMORY_FACTOR: usize = 7;

/// Maximum time to wait until enough memory is free: half of the time reserved for a response.
const WAIT_WITHIN: Duration = Duration::from_secs(5);

/// Size of the parts in which a response is sent. Its memory is released with the last part.
const PART_BYTES: usize = 64 * 1024;

/// Maximum time for a part. A client that does not read must not hold the memory.
const PART_WITHIN: Duration = Duration::from_secs(30);

/// Memory of responses. Clones share the limit.
#[derive(Debug, Clone)]
pub(super) struct Results {
    free: Arc<Semaphore>,
    /// Group of the tasks that send large responses.
    group: Group,
}

/// Memory of one response.
#[derive(Debug)]
pub(super) enum ResultMemory {
    Small,
    /// Memory of a large response, which is counted unless it is `None`.
    Large(Option<OwnedSemaphorePermit>, Group),
}

impl Results {
    pub(super) fn new(group: Group) -> Self {
        Self { free: Arc::new(Semaphore::new(LIMIT_KIB as usize)), group }
    }

    /// Reserves memory for a response with `n_bytes` of output.
    ///
    /// # Errors
    /// [`RestError::TOO_MANY_RESULTS`] if the memory is not free within [`WAIT_WITHIN`].
    pub(super) async fn reserve(&self, n_bytes: usize) -> Result<ResultMemory, RestError> {
        match self.reserve_or_exceed(n_bytes).await {
            ResultMemory::Large(None, _) => Err(RestError::TOO_MANY_RESULTS),
            memory => Ok(memory),
        }
    }

    /// Like [`Self::reserve`], but exceeds the limit if necessary. It is for the response to the request
    /// that has run the function, since its client does not know the id for another request.
    pub(super) async fn reserve_or_exceed(&self, n_bytes: usize) -> ResultMemory {
        if n_bytes <= SMALL_BYTES {
            return ResultMemory::Small;
        }
        let n_kib = n_bytes.saturating_mul(MEMORY_FACTOR).div_ceil(1024);
        let n_kib = u32::try_from(n_kib).unwrap_or(u32::MAX).min(LIMIT_KIB);
        let reserved = timeout(WAIT_WITHIN, Arc::clone(&self.free).acquire_many_owned(n_kib)).await;
        ResultMemory::Large(reserved.ok().and_then(Result::ok), self.group.clone())
    }
}

impl ResultMemory {
    /// Responds with JSON like [`respond`]. A large body is encoded on a separate thread, so that the
    /// other work of the head continues.
    pub(super) async fn respond(self, body: impl Serialize + Send + 'static) -> Response {
        let Self::Large(mut reserved, group) = self else { return respond(&body) };
        let encoding = spawn_blocking(move || {
            let mut bytes = encode(&body);
            bytes.shrink_to_fit();
            // Most output is hardly escaped.
            if let Some(reserved) = &mut reserved {
                let n_unused = reserved.num_permits().saturating_sub(bytes.len().div_ceil(1024));
                drop(reserved.split(n_unused));
            }
            (Bytes::from(bytes), reserved)
        });
        // Fails only if the head is stopping.
        let Ok((mut bytes, reserved)) = encoding.await else {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        };
        let headers = [
            (header::CONTENT_TYPE, "application/json".to_owned()),
            (header::CONTENT_LENGTH, bytes.len().to_string()),
        ];
        let (parts, received) = mpsc::channel(1);
        group.spawn("result", async move {
            let _reserved = reserved;
            while !bytes.is_empty() {
                let part = bytes.split_to(bytes.len().min(PART_BYTES));
                if !matches!(timeout(PART_WITHIN, parts.send(part)).await, Ok(Ok(()))) {
                    return;
                }
            }
        });
        let parts = stream::unfold(received, |mut received| async move {
            let part = received.recv().await?;
            Some((Ok::<_, Infallible>(part), received))
        });
        (headers, Body::from_stream(parts)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use serde_json::json;

    use super::*;

    /// Returns a text whose response takes a large part of the limit.
    fn long_text() -> String {
        "\0".repeat(LIMIT_KIB as usize * 1024 / MEMORY_FACTOR / 16)
    }

    #[tokio::test(start_paused = true)]
    async fn large_response_holds_its_memory_until_it_is_sent() {
        let results = Results::new(Group::default());
        assert!(matches!(results.reserve(SMALL_BYTES).await, Ok(ResultMemory::Small)));
        let text = long_text();
        let memory = results.reserve(text.len()).await.unwrap();
        let want = json!({"stdout": text}).to_string() + "\n";
        let response = memory.respond(json!({"stdout": text})).await;
        assert_eq!(response.headers()[header::CONTENT_LENGTH], want.len().to_string());
        let others = results.reserve(usize::MAX).await;
        assert_eq!(others.unwrap_err(), RestError::TOO_MANY_RESULTS);
        let excess = results.reserve_or_exceed(usize::MAX).await;
        assert!(matches!(excess, ResultMemory::Large(None, _)));
        let sent = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(sent == want, "{} bytes", sent.len());
        assert!(results.reserve(usize::MAX).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_read_loses_the_memory_of_its_response() {
        let results = Results::new(Group::default());
        let text = long_text();
        let memory = results.reserve(text.len()).await.unwrap();
        let response = memory.respond(json!({"stdout": text})).await;
        tokio::time::sleep(PART_WITHIN * 2).await;
        assert!(results.reserve(usize::MAX).await.is_ok());
        let sent = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(sent.len() <= 2 * PART_BYTES, "{} bytes", sent.len());
    }
}
