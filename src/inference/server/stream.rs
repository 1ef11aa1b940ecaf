//! `GET /api/v1/topics/{topic_id}/stream`: new bundles of a topic, as server-sent events.
//!
//! The newest bundle there is comes first, then each new one as an event `bundle` whose id is its
//! nonce. A reader that is slow skips to the newest: a bundle it missed is in the history.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    response::sse::{Event, KeepAlive, Sse},
};
use futures::stream::{Stream, unfold};
use model::topic::{BlockHeight, TopicId};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, watch},
};
use wire::inference::LatestNetworkInferences;

use super::{
    Service,
    error::{ApiError, topic_id},
};
use crate::{News, ReadError};

/// How often a line is sent where there is no news, so that a dead line is noticed.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// A reader, and what it has seen.
struct Reader {
    service: Service,
    topic: TopicId,
    news: watch::Receiver<News>,
    seen: Option<BlockHeight>,
    _permit: OwnedSemaphorePermit,
}

pub(super) async fn get(
    State(service): State<Service>,
    Path(topic): Path<String>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let topic = topic_id(&topic)?;
    if service.inference.topic(topic).is_none() {
        return Err(ReadError::UnknownTopic { topic }.into());
    }
    let permit = Arc::clone(&service.streams).try_acquire_owned();
    let permit = permit.map_err(|_| ApiError::TooManyReaders)?;
    let mut news = service.inference.news();
    news.mark_changed();
    let reader = Reader { service, topic, news, seen: None, _permit: permit };
    let events = unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT_EVERY)))
}

impl Reader {
    /// The next event; none once the service stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            select! {
                () = self.service.group.stopped() => return None,
                changed = self.news.changed() => changed.ok()?,
            }
            // Before the first bundle there is nothing to tell.
            let Ok(bundles) = self.service.inference.latest(self.topic).await else { continue };
            let nonce = bundles.bundle.nonce;
            if self.seen.replace(nonce) == Some(nonce) {
                continue;
            }
            let body = LatestNetworkInferences::from(bundles.bundle.clone());
            let event = Event::default().event("bundle").id(nonce.to_string());
            if let Ok(event) = event.json_data(body) {
                return Some(event);
            }
        }
    }
}
