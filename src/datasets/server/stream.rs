//! `GET /api/rows/stream/`: new rows as server-sent events, on a connection held open.

use std::{convert::Infallible, time::Duration};

use accounts::Accounts;
use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderMap, HeaderValue, Uri,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::stream;
use model::key::ApiKey;
use serde::Serialize;
use task::{clock::Clock, group::Group};
use tokio::{
    select,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};
use tracing::warn;
use web::auth::NoKey;
use wire::datasets::{Connected, EVENT_CONNECTED, EVENT_HEARTBEAT, Heartbeat};

use super::{App, Caller, error::ApiError};
use crate::{follow::Following, query::params::Params};

/// The parameter that may carry the key, on this path alone: a browser's `EventSource` cannot send
/// headers. Queries are not logged.
const KEY_PARAM: &str = "api_key";

pub(super) async fn get(
    State(app): State<App>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let key = match params.get(KEY_PARAM) {
        None => web::auth::api_key(&headers)?,
        Some(text) => text.parse().map_err(NoKey::Unreadable)?,
    };
    let Caller(caller) = Caller::of_key(&key, &app).await?;
    let following = app.datasets.follow(caller, params.dataset()?).await?;
    let events = Events::new(following, key, &app);
    let body = stream::unfold(events, async |mut events| {
        let bytes = events.next().await?;
        Some((Ok::<_, Infallible>(bytes), events))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// The events of one reader, in their order.
struct Events {
    first: Option<Bytes>,
    following: Following,
    heartbeats: Interval,
    key: ApiKey,
    accounts: Accounts,
    clock: Clock,
    group: Group,
}

impl Events {
    fn new(mut following: Following, key: ApiKey, app: &App) -> Self {
        let connected = Connected {
            dataset_id: following.dataset.get(),
            message: "Connected to real-time stream".to_owned(),
        };
        let mut first = event(EVENT_CONNECTED, &connected);
        first.extend_from_slice(&std::mem::take(&mut following.replay));
        let every = app.heartbeat_every.max(Duration::from_millis(1));
        let mut heartbeats = interval_at(Instant::now() + every, every);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (accounts, clock, group) = (app.accounts.clone(), app.clock.clone(), app.group.clone());
        Self { first: Some(first.into()), following, heartbeats, key, accounts, clock, group }
    }

    /// The next bytes to send; none at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        select! {
            () = self.group.stopped() => None,
            _ = self.heartbeats.tick() => {
                // A key that is revoked ends its streams, too. One that cannot be checked does not.
                if let Ok(None) = self.accounts.verify(&self.key).await {
                    return None;
                }
                let heartbeat = Heartbeat { timestamp: self.clock.now().to_string() };
                Some(event(EVENT_HEARTBEAT, &heartbeat).into())
            }
            rows = self.following.next() => match rows {
                Ok(rows) => rows,
                Err(cut_off) => {
                    let (id, lag_frames) = (self.following.dataset, cut_off.lag_frames);
                    warn!(dataset.id = %id, lag_frames, "cut off a slow stream of dataset {id}");
                    None
                }
            },
        }
    }
}

/// An event in the form of server-sent events.
fn event(name: &str, data: &impl Serialize) -> Vec<u8> {
    let mut event = format!("event: {name}\ndata: ").into_bytes();
    // Writing numbers and text to memory cannot fail.
    serde_json::to_writer(&mut event, data).unwrap_or_default();
    event.extend_from_slice(b"\n\n");
    event
}
