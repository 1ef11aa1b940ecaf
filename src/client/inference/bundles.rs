//! Stream of a topic's new bundles, which reconnects after failures.
//!
//! The chain's API does not have this stream. A service without the stream is distinguished from an
//! unavailable service, so that the caller can poll instead.

use std::convert::Infallible;

use model::topic::TopicId;
use task::backoff::Backoff;
use tokio::sync::mpsc;
use wire::inference::LatestBundle;
use wire::paths;

use super::Inference;
use crate::stream::{Connection, Follow, Lost, StreamEvent, reconnect};
use crate::transport::parse;

/// Name of the server-sent event that contains a new bundle.
const EVENT_BUNDLE: &str = "bundle";

/// An event of a stream of bundles. The service sends the latest bundle after the
/// first connect, and later the bundles since the last event.
pub type BundleEvent = StreamEvent<Box<LatestBundle>>;

/// Sends the bundles of `topic` to `events` until the receiver is dropped.
///
/// If the queue is full, this function waits, and the service then skips bundles up to its latest
/// bundle. Dropping the future closes the connection.
pub async fn follow(service: Inference, topic: TopicId, events: mpsc::Sender<BundleEvent>) {
    reconnect(BundleStream { service, topic, last_event_id: String::new() }, events).await;
}

struct BundleStream {
    service: Inference,
    topic: TopicId,
    last_event_id: String,
}

impl Follow for BundleStream {
    type Item = Box<LatestBundle>;

    const NOT_SERVED: &'static [u16] = &[404, 405, 501];

    async fn follow_once(
        &mut self,
        events: &mpsc::Sender<BundleEvent>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        let mut call = self.service.get(paths::TOPIC_STREAM, self.topic);
        if !self.last_event_id.is_empty() {
            call = call.after_event(&self.last_event_id);
        }
        let mut connection = Connection::open(call).await?;
        events.send(StreamEvent::Connected).await?;
        loop {
            let event = connection.next().await?;
            if event.event != EVENT_BUNDLE {
                continue;
            }
            let latest: LatestBundle = parse(event.data.as_bytes(), "a bundle of a topic")?;
            events.send(StreamEvent::Item(Box::new(latest))).await?;
            self.last_event_id = event.id;
            backoff.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::response::sse::{Event, Sse};
    use axum::response::{IntoResponse as _, Response};
    use axum::routing::get;
    use futures::stream;
    use task::group::Group;

    use super::*;
    use crate::tests::fake::Fake;
    use crate::transport::Transport;

    fn bundle(nonce: u64) -> Event {
        let data = format!(
            r#"{{"network_inferences":{{"topic_id":"1","nonce":"{nonce}","combined_value":[],
            "inferer_values":[],"forecaster_values":[],"naive_value":[]}},
            "inference_block_height":"{nonce}"}}"#
        );
        Event::default().event("bundle").id(nonce.to_string()).data(data.replace('\n', ""))
    }

    fn word(event: &BundleEvent) -> String {
        match event {
            StreamEvent::Connected => "connected".to_owned(),
            StreamEvent::Item(latest) => format!("bundle {}", latest.bundle.nonce),
            StreamEvent::Lost { .. } => "lost".to_owned(),
            StreamEvent::NotServed => "not served".to_owned(),
            StreamEvent::Reset | StreamEvent::Heartbeat => unreachable!("bundles have none"),
        }
    }

    /// Checks the first events from a service that sends `lines(n)` on its `n`th connection.
    async fn check(
        lines: impl Fn(usize) -> Response + Clone + Send + Sync + 'static,
        want: &[&str],
    ) {
        let n_lines = Arc::new(AtomicUsize::new(0));
        let serve = move || {
            let answer = lines(n_lines.fetch_add(1, Ordering::SeqCst));
            async move { answer }
        };
        check_router(Router::new().route(paths::TOPIC_STREAM, get(serve)), want).await;
    }

    async fn check_router(router: Router, want: &[&str]) {
        let fake = Fake::serve(router).await;
        let service = Inference::new(Transport::new(&fake.address, None).unwrap());
        let (sender, mut events) = mpsc::channel(8);
        let group = Group::default();
        group.spawn("follow", follow(service, TopicId::new(1).unwrap(), sender));
        for want in want {
            assert_eq!(word(&events.recv().await.unwrap()), *want);
        }
        drop(events);
        group.shutdown().await;
    }

    #[tokio::test]
    async fn latest_bundle_is_sent_after_reconnect() {
        let lines = |n: usize| {
            let events = [bundle(10 + n as u64)].map(Ok::<_, Infallible>);
            Sse::new(stream::iter(events)).into_response()
        };
        check(lines, &["connected", "bundle 10", "lost", "connected", "bundle 11"]).await;
    }

    #[tokio::test]
    async fn stream_resumes_after_the_last_bundle_even_if_bundles_are_large() {
        let serve = async |headers: HeaderMap| {
            let last = headers
                .get(paths::LAST_EVENT_ID_HEADER)
                .map_or(0, |id| id.to_str().unwrap().parse().unwrap());
            let padding = Event::default().event("padding").data("x".repeat(2 * 1024 * 1024));
            let events = [padding, bundle(last + 1)].map(Ok::<_, Infallible>);
            Sse::new(stream::iter(events))
        };
        let router = Router::new().route(paths::TOPIC_STREAM, get(serve));
        check_router(router, &["connected", "bundle 1", "lost", "connected", "bundle 2"]).await;
    }

    #[tokio::test]
    async fn stream_of_bundles_is_not_retried_after_a_404_response() {
        let lines = |_| axum::http::StatusCode::NOT_FOUND.into_response();
        check(lines, &["not served"]).await;
    }
}
