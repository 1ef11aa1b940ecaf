//! `/api/v1/executions` lists executions, `/api/v1/executions/{id}` describes or cancels one, and
//! `/api/v1/events` sends the events of the cluster (server-sent events).

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde::Deserialize;
use task::wait;
use tokio::select;
use tokio::time::sleep;
use tracing::warn;
use web::extract;
use wire::executions::{ClusterEvent, ClusterEventKind, ExecutionBody, ExecutionsResponse};
use wire::paths;

use super::super::executions::EventReader;
use super::super::{ExecutionStatus, Head};
use super::error::RestError;
use super::execute::client;
use super::{Rest, respond};

/// Query of the list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// Maximum number of executions; 100 by default.
    limit: Option<usize>,
}

/// The latest executions without their results, the latest first.
#[utoipa::path(get, path = paths::EXECUTIONS, tag = "executions", params(Query),
    responses((status = 200, description = "Executions", body = ExecutionsResponse)))]
pub(super) async fn executions(State(head): State<Head>, uri: Uri) -> Result<Response, RestError> {
    let query: Query = extract::query(&uri)?;
    let executions = head.executions().list(query.limit.unwrap_or(100));
    Ok(respond(&ExecutionsResponse { executions }))
}

/// One execution, with its results.
#[utoipa::path(get, path = paths::EXECUTION, tag = "executions",
    params(("id" = String, Path, description = "The id of the request.")),
    responses((status = 200, description = "The execution", body = ExecutionBody)))]
pub(super) async fn execution(
    State(rest): State<Rest>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    let executions = rest.head.executions();
    let n_bytes = match executions.find(&id) {
        Some(ExecutionStatus::Ended(execution)) => execution.n_output_bytes(),
        _ => 0,
    };
    let memory = rest.results.reserve(n_bytes).await?;
    let body = executions.get(&id).ok_or(RestError::UNKNOWN_EXECUTION)?;
    Ok(memory.respond(body).await)
}

/// Cancels an execution, also on its workers. Has no effect on a completed execution.
#[utoipa::path(delete, path = paths::EXECUTION, tag = "executions",
    params(("id" = String, Path, description = "The id of the request.")),
    responses((status = 200, description = "The execution", body = ExecutionBody)))]
pub(super) async fn cancel(
    State(rest): State<Rest>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    let head = &rest.head;
    head.executions().cancel(&id).ok_or(RestError::UNKNOWN_EXECUTION)?;
    // The execution ends as soon as its task is polled, unless the machine is overloaded.
    let ended = wait::until(Duration::from_secs(1), || async {
        match head.executions().find(&id) {
            Some(ExecutionStatus::InProgress) => Err("in progress"),
            _ => Ok(()),
        }
    });
    if ended.await.is_err() {
        warn!(request = %id, "a canceled execution has not ended yet");
    }
    execution(State(rest), Path(id)).await
}

/// Streams the events of the cluster.
///
/// The name of an event is its kind, and its data is a JSON object. The first event is `connected`. If
/// there is no event for 15 s, a `heartbeat` is sent. A reader that lags too far behind is disconnected
/// and can reconnect.
#[utoipa::path(get, path = paths::EVENTS, tag = "cluster",
    responses((status = 200, description = "The data of each event", body = ClusterEvent,
        content_type = "text/event-stream")))]
pub(super) async fn events(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, RestError> {
    let events = rest.head.0.events.subscribe(&client(&request));
    let events = events.ok_or(RestError::TOO_MANY_READERS)?;
    let connected = sse(&rest.head.0.events.timestamped(ClusterEventKind::Connected));
    let stream = stream::iter(connected).chain(stream::unfold((events, rest), next));
    Ok(Sse::new(stream.map(Ok::<_, Infallible>)).into_response())
}

type Followed = (EventReader, Rest);

async fn next(((mut events, share), rest): Followed) -> Option<(Event, Followed)> {
    let event = select! {
        event = events.recv() => event.ok()?,
        () = sleep(Duration::from_secs(15)) => {
            rest.head.0.events.timestamped(ClusterEventKind::Heartbeat)
        }
        () = rest.group.stopped() => return None,
    };
    Some((sse(&event)?, ((events, share), rest)))
}

fn sse(event: &ClusterEvent) -> Option<Event> {
    let data = String::from_utf8(crate::message::json(event)).ok()?;
    let name = serde_json::to_value(&event.kind).ok()?;
    Some(Event::default().event(name["event"].as_str()?).data(data))
}
