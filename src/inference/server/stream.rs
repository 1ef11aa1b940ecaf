//! `GET /api/v1/topics/{topic_id}/stream`: new bundles of a topic, as server-sent events.
//!
//! The newest bundle there is comes first, then each new one as an event `bundle` whose id is its
//! nonce. A reader that is slow skips to the newest: a bundle it missed is in the history.

use std::{iter::once, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse as _, Response},
};
use futures::{
    StreamExt as _,
    stream::{self, unfold},
};
use model::topic::{BlockHeight, TopicId};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, watch},
    time::sleep,
};
use web::metrics::RaisedGauge;
use wire::{inference::LatestBundle, paths};

use super::{
    App,
    bundle_body::{PairBody, Pieces, join, pieces},
    error::ApiError,
    openapi::parameters::TopicPart,
    request::Asked,
};
use crate::{News, metrics};

/// How often a line is sent where there is no news, so that a dead line is noticed.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// A reader, and what it has seen.
struct Reader {
    service: App,
    topic: TopicId,
    news: watch::Receiver<News>,
    seen: Option<BlockHeight>,
    _permit: OwnedSemaphorePermit,
    _open: RaisedGauge,
}

/// Follows new bundles of a topic, as server-sent events.
///
/// The newest bundle comes first, then each new one as an event `bundle`, whose id is the nonce and
/// whose data is as `v10` of the newest bundle, with every array. A slow reader skips to the newest. A
/// comment every 15 seconds tells that the line is alive.
#[utoipa::path(get, path = paths::TOPIC_STREAM, operation_id = "stream", tag = "network",
    params(TopicPart), responses((status = 200, description = "Events, without end",
        body = String, content_type = "text/event-stream")))]
pub(super) async fn get(asked: Asked) -> Result<Response, ApiError> {
    let (topic, service) = (asked.topic()?.id, asked.service);
    let permit = Arc::clone(&service.streams).try_acquire_owned();
    let permit =
        permit.map_err(|_| ApiError::unavailable("too many follow topics; try again later"))?;
    let mut news = service.inference.news();
    news.mark_changed();
    let open = service.inference.shared.metrics.raise(metrics::STREAMS);
    let reader = Reader { service, topic, news, seen: None, _permit: permit, _open: open };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((stream::iter(event), reader))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(events.flatten())).into_response())
}

impl Reader {
    /// The next event, or a comment where there is no news: piece by piece, its data in one line.
    /// None once the service stops.
    async fn next(&mut self) -> Option<Pieces> {
        loop {
            select! {
                () = sleep(HEARTBEAT_EVERY) => {
                    return Some(Box::new(once(Ok(Bytes::from_static(b":\n\n")))));
                }
                () = self.service.group.stopped() => return None,
                changed = self.news.changed() => changed.ok()?,
            }
            // Before the first bundle there is nothing to tell.
            let Ok(bundles) = self.service.inference.recent_bundle(self.topic).await else {
                continue;
            };
            let nonce = bundles.bundle.nonce;
            if self.seen.replace(nonce) == Some(nonce) {
                continue;
            }
            let pairs = PairBody::new(&bundles.bundle, false);
            let bundle = bundles.bundle.bundle.clone();
            let body = LatestBundle { block_height: nonce, bundle };
            let is_long = pairs.is_long();
            let Ok(data) = pieces(&body, [pairs]) else { continue };
            let start = once(Ok(format!("event: bundle\nid: {nonce}\ndata: ").into()));
            let event: Pieces = Box::new(start.chain(data).chain(once(Ok("\n\n".into()))));
            if is_long {
                return Some(event);
            }
            return join(event).ok().map(|event| Box::new(once(Ok(event))) as Pieces);
        }
    }
}
