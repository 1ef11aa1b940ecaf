//! `GET /api/v1/events`: follows what happens in the cluster, as server-sent events.
//!
//! The name of an event is its kind, its data a JSON object. The first is `connected`, and where
//! nothing happens, a `heartbeat` comes each 15 s. A reader that is too far behind sees the stream
//! end, and may follow again.

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse as _, Response,
        sse::{Event, Sse},
    },
};
use futures::{StreamExt as _, stream};
use tokio::{select, sync::broadcast, time::sleep};
use wire::{
    executions::{ClusterEvent, ClusterEventKind},
    paths,
};

use super::{Rest, error::Refused};

/// How often a heartbeat is sent where nothing happens, so that a broken line is noticed.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// Follows what happens in the cluster. A reader that is too far behind is cut off.
#[utoipa::path(get, path = paths::EVENTS, tag = "cluster",
    responses((status = 200, description = "The data of each event", body = ClusterEvent,
        content_type = "text/event-stream")))]
pub(super) async fn events(State(rest): State<Rest>) -> Result<Response, Refused> {
    let events = rest.head.0.events.subscribe().ok_or(Refused::TOO_MANY_READERS)?;
    let connected = sse(&rest.head.0.events.dated(ClusterEventKind::Connected));
    let stream = stream::iter(connected).chain(stream::unfold((events, rest), next));
    Ok(Sse::new(stream.map(Ok::<_, Infallible>)).into_response())
}

type Followed = (broadcast::Receiver<ClusterEvent>, Rest);

async fn next((mut events, rest): Followed) -> Option<(Event, Followed)> {
    // Lagging behind ends the stream as its own end does.
    let event = select! {
        event = events.recv() => event.ok()?,
        () = sleep(HEARTBEAT_EVERY) => rest.head.0.events.dated(ClusterEventKind::Heartbeat),
        () = rest.group.stopped() => return None,
    };
    Some((sse(&event)?, (events, rest)))
}

fn sse(event: &ClusterEvent) -> Option<Event> {
    let data = String::from_utf8(crate::message::json(event)).ok()?;
    let name = serde_json::to_value(&event.kind).ok()?;
    Some(Event::default().event(name["event"].as_str()?).data(data))
}
