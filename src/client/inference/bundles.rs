//! Stream of a topic's new bundles, which reconnects after failures.
//!
//! The chain's API does not have this stream. A service without the stream is distinguished from an
//! unavailable service, so that the caller can poll instead.

use std::convert::Infallible;
use std::time::Duration;

use model::topic::TopicId;
use task::backoff::Backoff;
use tokio::sync::mpsc;
use wire::inference::LatestBundle;
use wire::paths;

use super::Inference;
use crate::stream::{Connection, Follow, Lost, StreamEvent, reconnect};
use crate::transport::parse;

/// Maximum time without an event on a connection. An epoch can last an hour, and heartbeats between
/// bundles do not count as events.
const SILENCE_MAX: Duration = Duration::from_hours(1);

/// Name of the server-sent event that contains a new bundle.
const EVENT_BUNDLE: &str = "bundle";

/// An event of a stream of bundles. The service sends the latest bundle after each connect.
pub type BundleEvent = StreamEvent<Box<LatestBundle>>;

/// Sends the bundles of `topic` to `events` until the receiver is dropped.
///
/// If the queue is full, this function waits, and the service then skips bundles up to its latest
/// bundle. Dropping the future closes the connection.
pub async fn follow(service: Inference, topic: TopicId, events: mpsc::Sender<BundleEvent>) {
    reconnect(BundleStream { service, topic }, events).await;
}

struct BundleStream {
    service: Inference,
    topic: TopicId,
}

impl Follow for BundleStream {
    type Item = Box<LatestBundle>;

    const NOT_SERVED: &'static [u16] = &[404, 405, 501];

    async fn follow_once(
        &mut self,
        events: &mpsc::Sender<BundleEvent>,
        backoff: &mut Backoff,
    ) -> Result<Infallible, Lost> {
        let mut connection =
            Connection::open(self.service.get(paths::TOPIC_STREAM, self.topic)).await?;
        backoff.reset();
        events.send(StreamEvent::Connected).await?;
        loop {
            let event = connection.next(SILENCE_MAX).await?;
            if event.event != EVENT_BUNDLE {
                continue;
            }
            let latest: LatestBundle = parse(event.data.as_bytes(), "a bundle of a topic")?;
            events.send(StreamEvent::Item(Box::new(latest))).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
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
        let fake = Fake::serve(Router::new().route(paths::TOPIC_STREAM, get(serve))).await;
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
    async fn stream_of_bundles_is_not_retried_after_a_404_response() {
        let lines = |_| axum::http::StatusCode::NOT_FOUND.into_response();
        check(lines, &["not served"]).await;
    }
}
