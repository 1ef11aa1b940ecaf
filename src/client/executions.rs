//! Asynchronous executions, and the stream of events of a cluster.

use std::convert::Infallible;

use task::backoff::Backoff;
use tokio::sync::mpsc;
use wire::executions::{ClusterEvent, ClusterEventKind, ExecutionBody, ExecutionsResponse};
use wire::functions::{ExecuteRequest, ExecuteResponse, ResultRequest};
use wire::paths;

use crate::error::ClientError;
use crate::functions::Functions;
use crate::stream::{Connection, Follow, Lost, StreamEvent, reconnect};
use crate::transport::{parse, segment};

/// Value of `code` in a head's response about an execution in progress.
pub const CODE_IN_PROGRESS: &str = "202";

/// An event of a cluster's stream.
pub type ClusterStreamEvent = StreamEvent<ClusterEvent>;

impl Functions {
    /// Starts an execution. Returns its request id without waiting for results. The id can be passed to
    /// [`Self::result`] and [`Self::execution`].
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the request is malformed, [`ClientError::Shape`] if the head does not
    /// support asynchronous executions and responded with results.
    pub async fn execute_async(&self, request: &ExecuteRequest) -> Result<String, ClientError> {
        let mut request = request.clone();
        request.config.is_async = Some(true);
        let response: ExecuteResponse = self
            .transport
            .post(paths::FUNCTIONS_EXECUTE)
            .body(&request)
            .json("an execution in progress")
            .await?;
        if response.code != CODE_IN_PROGRESS {
            let reason = format!("it answered code {} at once", response.code);
            return Err(ClientError::shape("an execution in progress", reason));
        }
        Ok(response.request_id)
    }

    /// Returns the response of execution `id`. Its `code` is [`CODE_IN_PROGRESS`] until the execution is
    /// complete. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head no longer remembers the execution.
    pub async fn result(&self, id: &str) -> Result<ExecuteResponse, ClientError> {
        let request = ResultRequest { id: id.to_owned() };
        self.transport
            .post(paths::FUNCTIONS_RESULT)
            .body(&request)
            .json("the result of an execution")
            .await
    }

    /// Lists the latest `limit` executions without their results, latest first. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not have this endpoint.
    pub async fn executions(&self, limit: usize) -> Result<Vec<ExecutionBody>, ClientError> {
        let call = self.transport.get(paths::EXECUTIONS).query(&[("limit", limit)]);
        let list: ExecutionsResponse = call.json("a list of executions").await?;
        Ok(list.executions)
    }

    /// Returns execution `id` with its results and the state of each work order. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not remember the execution.
    pub async fn execution(&self, id: &str) -> Result<ExecutionBody, ClientError> {
        let path = paths::EXECUTION.replace("{id}", &segment(id)?);
        self.transport.get(&path).json("an execution").await
    }

    /// Cancels execution `id`, also on its workers. Returns its state. Has no effect on a complete
    /// execution.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head no longer remembers the execution, 401 or
    /// 403 if it requires a token.
    pub async fn cancel(&self, id: &str) -> Result<ExecutionBody, ClientError> {
        let path = paths::EXECUTION.replace("{id}", &segment(id)?);
        self.transport.delete(&path).json("an execution").await
    }

    /// Returns the head's metrics as Prometheus text. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if the head does not have this endpoint.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let bytes = self.transport.get(paths::METRICS).bytes().await?;
        String::from_utf8(bytes).map_err(|error| ClientError::shape("metrics as text", error))
    }
}

/// Sends the events of a head's cluster to `events` until the receiver is dropped. Reconnects if
/// necessary.
///
/// If the queue is full, this function waits, and the head then closes the connection. Dropping the
/// future also closes the connection.
pub async fn follow(functions: Functions, events: mpsc::Sender<ClusterStreamEvent>) {
    reconnect(functions, events).await;
}

impl Follow for Functions {
    type Item = ClusterEvent;

    const NOT_SERVED: &'static [u16] = &[404];

    async fn follow_once(
        &mut self,
        events: &mpsc::Sender<ClusterStreamEvent>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        let mut connection = Connection::open(self.transport.get(paths::EVENTS)).await?;
        loop {
            let event = connection.next().await?;
            // An event of an unknown kind is ignored, since a later version of the head can send new
            // kinds.
            let Ok(event) = parse::<ClusterEvent>(event.data.as_bytes(), "an event") else {
                continue;
            };
            let happened = match event.kind {
                ClusterEventKind::Connected => {
                    backoff.reset();
                    StreamEvent::Connected
                }
                ClusterEventKind::Heartbeat => StreamEvent::Heartbeat,
                _ => StreamEvent::Item(event),
            };
            events.send(happened).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::response::sse::{Event, Sse};
    use axum::routing::{get, post};
    use axum::{Json, Router};
    use futures::{StreamExt as _, stream};
    use serde_json::{Value, json};

    use super::*;
    use crate::tests::fake::Fake;
    use crate::transport::Transport;

    async fn head(router: Router) -> (Fake, Functions) {
        let fake = Fake::serve(router).await;
        let functions = Functions::new(Transport::new(&fake.address, None).unwrap());
        (fake, functions)
    }

    #[tokio::test]
    async fn execution_is_started_read_and_canceled() {
        let run = |Json(request): Json<Value>| async move {
            assert_eq!(request["config"]["async"], true);
            (StatusCode::ACCEPTED, Json(json!({"code": "202", "request_id": "r1", "cluster": {}})))
        };
        let result = |Json(request): Json<Value>| async move {
            Json(
                json!({"code": "200", "request_id": request["id"], "cluster": {"peers": ["12D3A"]}}),
            )
        };
        let body = |id: &str, state: &str| {
            Json(json!({
                "request_id": id, "state": state, "function_id": "bafy", "method": "m.wasm",
                "number_of_nodes": 1, "started_at": "2026-07-30T21:57:00Z", "elapsed_ms": 1.5,
            }))
        };
        let router = Router::new()
            .route(paths::FUNCTIONS_EXECUTE, post(run))
            .route(paths::FUNCTIONS_RESULT, post(result))
            .route(
                paths::EXECUTION,
                get(async move |Path(id): Path<String>| body(&id, "running"))
                    .delete(async move |Path(id): Path<String>| body(&id, "canceled")),
            );
        let (_fake, functions) = head(router).await;
        let id = functions.execute_async(&ExecuteRequest::default()).await.unwrap();
        assert_eq!(functions.result(&id).await.unwrap().cluster.peers, ["12D3A"]);
        assert_eq!(functions.execution(&id).await.unwrap().state, "running");
        assert_eq!(functions.cancel(&id).await.unwrap().state, "canceled");
    }

    #[tokio::test]
    async fn synchronous_response_to_asynchronous_request_is_an_error() {
        let run = || async { Json(json!({"code": "408", "request_id": "r2", "cluster": {}})) };
        let (_fake, functions) =
            head(Router::new().route(paths::FUNCTIONS_EXECUTE, post(run))).await;
        let refused = functions.execute_async(&ExecuteRequest::default()).await;
        assert!(matches!(refused, Err(ClientError::Shape { .. })), "{refused:?}");
    }

    #[tokio::test]
    async fn cluster_events_are_passed_on_unchanged_and_a_lost_connection_is_reported() {
        let told = || async {
            let time = "2026-07-30T21:57:00Z";
            let events = [
                json!({"time": time, "event": "connected"}),
                json!({"time": time, "event": "of a later head"}),
                json!({"time": time, "event": "peer_joined", "peer_id": "12D3A"}),
                json!({"time": time, "event": "heartbeat"}),
            ];
            let events = stream::iter(events).map(|data| Event::default().data(data.to_string()));
            Sse::new(events.map(Ok::<_, Infallible>))
        };
        let (_fake, functions) = head(Router::new().route(paths::EVENTS, get(told))).await;
        let (sender, mut events) = mpsc::channel(8);
        let group = task::group::Group::default();
        group.spawn("follow", follow(functions, sender));
        assert!(matches!(events.recv().await, Some(StreamEvent::Connected)));
        let Some(StreamEvent::Item(event)) = events.recv().await else {
            panic!("a peer joined");
        };
        assert_eq!(event.kind, ClusterEventKind::PeerJoined { peer_id: "12D3A".to_owned() });
        assert!(matches!(events.recv().await, Some(StreamEvent::Heartbeat)));
        assert!(matches!(events.recv().await, Some(StreamEvent::Lost { .. })));
        group.shutdown().await;
    }
}
