//! `GET /api/rows/stream/`: new rows as server-sent events on a connection that stays open.

use std::convert::Infallible;

use accounts::gate::{Admitted, StreamKey};
use axum::Extension;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::stream;
use model::key::KeyId;
use model::timestamp::Timestamp;
use task::causes::chain;
use tokio::select;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tracing::{error, warn};
use tsdb::catalog::DatasetRef;
use wire::datasets::{Connected, EVENT_CONNECTED, EVENT_END, EVENT_HEARTBEAT, End, Heartbeat};
use wire::paths;

use super::error::STREAMS_FULL;
use super::openapi::{InColumns, KeyInQuery, WhichDataset};
use super::{App, Caller, HEARTBEAT_EVERY, read_params};
use crate::error::{Invalid, Result};
use crate::follow::{Cursor, FollowEnd, FollowFrom, FollowStream, render_event};

/// Parameter with the key on the paths that allow it, since a browser's `EventSource` cannot send
/// headers. Query strings are not logged.
pub(super) const KEY_PARAM: &str = "api_key";

/// Header with the cursor of a reader that resumes a stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// Parameter with the cursor, for readers that cannot send headers.
const LAST_EVENT_ID_PARAM: &str = "last_event_id";

/// Parameter that selects if deletions are sent and corrections are marked.
const CHANGES_PARAM: &str = "changes";

/// Event that sets the delay after which a disconnected reader reconnects.
const RETRY: &[u8] = b"retry: 3000\n\n";
/// Follows a dataset as server-sent events, on a connection held open.
///
/// The stream begins with `connected` and the latest 100 rows as `data`, oldest first. Then each
/// new row follows as it is inserted, and a `heartbeat` every 30 seconds. If heartbeats stop, the
/// connection is lost.
///
/// If the service does not know the id of the last event, the event `reset` with a `dataset_id` and a
/// `message` precedes the latest 100 rows, since earlier rows and changes can be missing. The last
/// event of a stream is `end` with a `dataset_id` and a `reason`, such as a slow reader or a deleted
/// dataset.
#[utoipa::path(get, path = paths::ROWS_STREAM, operation_id = "follow_rows", tag = "rows",
    params(WhichDataset, InColumns, KeyInQuery, ("last_event_id" = Option<String>, Query,
        description = "The id of the last event that the reader has received, for readers that cannot \
            send the header `Last-Event-ID`. The rows after it are sent first."),
        ("changes" = Option<bool>, Query, description = "True to also receive deletions and \
            corrections, in the order of the commits. A row that replaced a stored row is the event \
            `correction` in place of `data`. The event `deletion` has the `start`, which is null if \
            all rows up to the end were deleted, the `end`, which is inclusive, and the `revision` of \
            a range whose rows were deleted, by a request or since they are no longer kept. The ids \
            of such a stream resume it exactly, and a row that was replaced or deleted before it was \
            sent is omitted.")),
    responses((status = 200, description = "Events", body = String,
        content_type = "text/event-stream")))]
pub(super) async fn get(
    Caller { app, key: caller }: Caller,
    Extension(admitted): Extension<Admitted>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response> {
    let params = read_params(&uri)?;
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let last = header.filter(|id| !id.is_empty()).or_else(|| params.get(LAST_EVENT_ID_PARAM));
    let from = last.map_or(FollowFrom::Newest, |last| FollowFrom::After(Cursor::parse(last)));
    let changes = params.get(CHANGES_PARAM).map_or(Ok(false), str::parse);
    let changes = changes.map_err(|_| Invalid::from("changes must be true or false"))?;
    let permit = app.streams.take(&admitted.key).ok_or(STREAMS_FULL)?;
    let (dataset, columns) = (params.dataset()?, params.columns()?);
    let follow = app.datasets.follow(caller, dataset, columns, changes, from).await?;
    let key = StreamKey::new(app.gate.keys(), &admitted);
    let events = (Events::new(follow, caller, key, app), permit);
    let body = stream::unfold(events, async |(mut events, permit)| {
        let bytes = events.next().await?;
        Some((Ok::<_, Infallible>(bytes), (events, permit)))
    });
    let content_type = HeaderValue::from_static("text/event-stream");
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(body)).into_response())
}

/// Reason for closing a stream after its key has lost access to the dataset, or the dataset was deleted.
pub(super) const NO_ACCESS: &str = "the dataset was deleted, or the key can no longer read it";

/// Reason for closing a stream after the service lost track of the commits that follow.
const LOST: &str = "the service has no record of the rows that follow; connect again with the id of \
                    the last event as Last-Event-ID";

/// Source of the events that a reader receives.
struct Events {
    first: Option<Bytes>,
    has_ended: bool,
    follow: FollowStream,
    heartbeats: Interval,
    caller: KeyId,
    key: StreamKey,
    app: App,
}

impl Events {
    fn new(follow: FollowStream, caller: KeyId, key: StreamKey, app: App) -> Self {
        let connected = Connected {
            dataset_id: follow.dataset.get(),
            message: "Connected to real-time stream".to_owned(),
        };
        let mut first = render_event(EVENT_CONNECTED, &connected);
        // Removes the empty line that ends the first event, so that the delay becomes part of this
        // event.
        first.pop();
        first.extend_from_slice(RETRY);
        let mut heartbeats = interval_at(Instant::now() + HEARTBEAT_EVERY, HEARTBEAT_EVERY);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { first: Some(first.into()), has_ended: false, follow, heartbeats, caller, key, app }
    }

    /// Returns the next bytes to send. Returns `None` after the event with the reason for closing the
    /// stream.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        match self.read_next().await {
            Ok(bytes) => Some(bytes),
            Err(reason) => {
                self.has_ended = true;
                let dataset_id = self.follow.dataset.get();
                Some(render_event(EVENT_END, &End { dataset_id, reason }).into())
            }
        }
    }

    /// Waits for rows or for the next heartbeat.
    ///
    /// # Errors
    /// The reason for closing the stream, which is sent to the reader.
    async fn read_next(&mut self) -> Result<Bytes, String> {
        select! {
            () = self.app.group.stopped() => Err("the service is stopping; connect again".to_owned()),
            _ = self.heartbeats.tick() => {
                self.verify_key().await?;
                // Loss of access to the dataset also closes the stream.
                let which = DatasetRef::Id(self.follow.dataset);
                if let Ok(None) = self.app.datasets.find_sight(self.caller, which).await {
                    return Err(NO_ACCESS.to_owned());
                }
                let now = Timestamp::from_seconds(self.app.clock.now().seconds());
                let heartbeat = Heartbeat { timestamp: now.to_string() };
                Ok(render_event(EVENT_HEARTBEAT, &heartbeat).into())
            }
            rows = self.follow.next() => match rows {
                Ok(Some(rows)) => {
                    self.verify_key().await?;
                    Ok(rows)
                }
                Ok(None) => Err(NO_ACCESS.to_owned()),
                Err(FollowEnd::CutOff(cut_off)) => {
                    let (id, lag_frames) = (self.follow.dataset, cut_off.lag_frames);
                    warn!(dataset.id = %id, lag_frames, "cut off a slow stream of dataset {id}");
                    Err(format!(
                        "the reader is {lag_frames} batches behind; to continue, connect again with \
                         the id of the last event as Last-Event-ID"
                    ))
                }
                Err(FollowEnd::Lost) => Err(LOST.to_owned()),
                Err(broken) => {
                    let id = self.follow.dataset;
                    error!(causes = chain(&broken), dataset.id = %id, "a stream failed");
                    Err("the service failed to read the rows that follow; connect again".to_owned())
                }
            },
        }
    }

    /// Checks that the key was not revoked.
    ///
    /// # Errors
    /// The reason for closing the stream.
    async fn verify_key(&mut self) -> Result<(), String> {
        if self.key.is_valid().await { Ok(()) } else { Err("the key is revoked".to_owned()) }
    }
}
