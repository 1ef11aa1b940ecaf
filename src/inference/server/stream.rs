//! `GET /api/v1/topics/{topic_id}/stream`: new bundles of a topic as server-sent events.
//!
//! The latest bundle is sent first, then each new bundle. The name of an event is `bundle`, and its id
//! is the nonce. A client that reconnects with the id of its last event first gets the bundles since
//! that event. Slow clients skip bundles. The stream ends before the next event or comment after its key
//! was revoked or renewed.

use std::collections::VecDeque;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use accounts::Verified;
use accounts::gate::{Admitted, StreamKey, StreamPermit};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use futures::stream::{self, unfold};
use model::topic::{BlockHeight, TopicId};
use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};
use web::metrics::RaisedGauge;
use wire::inference::LatestBundle;
use wire::paths;

use super::App;
use super::bundle_body::{PairBody, Pieces, join, pieces};
use super::error::{ApiError, Result};
use super::request::Params;
use crate::store::Bundles;
use crate::{InferenceError, News, metrics};

/// Time without an event after which a comment is sent.
const COMMENT_AFTER: Duration = Duration::from_secs(15);

/// Permits of a stream: one counts toward the limit of the service, the other toward the limit of the
/// account.
pub(super) type Permits = (OwnedSemaphorePermit, StreamPermit);

/// State of an open stream.
struct StreamReader {
    service: App,
    key: StreamKey,
    topic: TopicId,
    news: watch::Receiver<News>,
    /// Missed bundles that are still to be sent, oldest first.
    missed: VecDeque<BlockHeight>,
    seen: Option<BlockHeight>,
    _permits: Permits,
    _open: RaisedGauge,
}

/// Returns new bundles of a topic, as server-sent events.
///
/// The latest bundle is sent first, then each new bundle. The name of an event is `bundle`, its id is
/// the nonce, and its data is the bundle in the format of `v10` with all arrays. With `Last-Event-ID`,
/// the bundles since that event are sent first, at most 100. Slow clients skip bundles. A comment every
/// 15 seconds keeps the connection alive. The stream ends when the key is revoked or renewed, or the
/// topic is deleted.
#[utoipa::path(get, path = paths::TOPIC_STREAM, operation_id = "stream", tag = "network",
    params(("Last-Event-ID" = Option<String>, Header,
        description = "Id of the last received event.")),
    responses((status = 200, description = "Events",
        body = String, content_type = "text/event-stream")))]
pub(super) async fn get(
    Extension(admitted): Extension<Admitted>,
    params: Params,
    headers: HeaderMap,
) -> Result<Response> {
    let (topic, service) = (params.topic()?.id, params.service);
    let permits = admit_stream(&service, &admitted.key)?;
    let key = StreamKey::new(&service.keys, &admitted);
    let mut news = service.inference.news();
    news.mark_changed();
    let open = service.inference.shared.metrics.raise(metrics::STREAMS);
    let seen = last_event(&service, topic, &headers).await?;
    let missed = match seen.map(|seen| seen.saturating_add(1)..=BlockHeight::MAX) {
        Some(since) => service.inference.nonces(topic, since, 100).await?.into(),
        None => VecDeque::new(),
    };
    let reader =
        StreamReader { service, key, topic, news, missed, seen, _permits: permits, _open: open };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((stream::iter(event), reader))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(events.flatten())).into_response())
}

/// Returns permits for a new stream of the holder of `key`.
///
/// # Errors
/// [`ApiError`] if too many streams are open.
pub(super) fn admit_stream(service: &App, key: &Verified) -> Result<Permits> {
    let permit = Arc::clone(&service.streams).try_acquire_owned();
    let permit =
        permit.map_err(|_| ApiError::unavailable("too many streams are open; retry later"))?;
    let own = service.stream_limit.take(key);
    let own = own.ok_or_else(|| {
        ApiError::unavailable("too many streams of this account are open; retry later")
    })?;
    Ok((permit, own))
}

/// Returns the nonce of the last event that the client received. Returns `None` if the request does not
/// contain it, or if it is later than all bundles.
async fn last_event(
    service: &App,
    topic: TopicId,
    headers: &HeaderMap,
) -> Result<Option<BlockHeight>> {
    let id = headers.get(paths::LAST_EVENT_ID_HEADER).and_then(|id| id.to_str().ok());
    let Some(last) = id.and_then(|id| id.trim().parse::<BlockHeight>().ok()) else {
        return Ok(None);
    };
    let newest = service.inference.nonces(topic, 0..=BlockHeight::MAX, 1).await?;
    Ok(newest.first().filter(|newest| last <= **newest).map(|_| last))
}

/// Returns the event for a bundle, which is serialized in pieces while it is sent if it is long.
/// Returns `None` if the bundle cannot be serialized.
fn event(bundles: &Bundles) -> Option<Pieces> {
    let nonce = bundles.bundle.nonce;
    let pairs = PairBody::new(&bundles.bundle, false);
    let body = LatestBundle { block_height: nonce, bundle: bundles.bundle.bundle.clone() };
    let is_long = pairs.is_long();
    let data = pieces(&body, [pairs]).ok()?;
    let start = once(Ok(format!("event: bundle\nid: {nonce}\ndata: ").into()));
    let event: Pieces = Box::new(start.chain(data).chain(once(Ok("\n\n".into()))));
    if is_long {
        return Some(event);
    }
    join(event).ok().map(|event| Box::new(once(Ok(event))) as Pieces)
}

impl StreamReader {
    /// Returns the next event or comment, or `None` if the key is no longer valid, the topic is deleted,
    /// or the service stops.
    async fn next(&mut self) -> Option<Pieces> {
        let comment_at = Instant::now() + COMMENT_AFTER;
        let event = self.wait(comment_at).await?;
        self.key.is_valid().await.then_some(event)
    }

    /// Waits for the next event. Returns a comment at `comment_at`, and `None` when the topic is deleted
    /// or the service stops.
    async fn wait(&mut self, comment_at: Instant) -> Option<Pieces> {
        loop {
            if let Some(nonce) = self.missed.pop_front() {
                match self.service.inference.bundle_at(self.topic, nonce).await {
                    Ok(bundles) => {
                        self.seen = Some(nonce);
                        return event(&bundles);
                    }
                    // Skips a bundle that was deleted in the meantime.
                    Err(InferenceError::NoBundle(_)) => continue,
                    Err(_) => return None,
                }
            }
            select! {
                biased;
                // Sends a comment, so that a broken connection is detected.
                () = sleep_until(comment_at) => {
                    return Some(Box::new(once(Ok(Bytes::from_static(b":\n\n")))));
                }
                () = self.service.group.stopped() => return None,
                changed = self.news.changed() => changed.ok()?,
            }
            // The topic has no bundle yet, or the store failed. Waits for the next change.
            let bundles = match self.service.inference.recent_bundle(self.topic).await {
                Ok(bundles) => bundles,
                Err(InferenceError::UnknownTopic(_)) => return None,
                Err(_) => continue,
            };
            let nonce = bundles.bundle.nonce;
            if self.seen.is_some_and(|seen| nonce <= seen) {
                continue;
            }
            self.seen = Some(nonce);
            if let Some(event) = event(&bundles) {
                return Some(event);
            }
        }
    }
}
