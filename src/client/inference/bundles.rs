//! The stream of a topic's new bundles, which reconnects.
//!
//! An extension: the chain's API has no stream. A service without one is distinguished from one that
//! is down, so that the caller can poll instead.

use std::{convert::Infallible, time::Duration};

use model::topic::TopicId;
use task::backoff::Backoff;
use tokio::sync::mpsc;
use wire::{inference::LatestBundle, paths};

use super::Inference;
use crate::{
    stream::{Follow, Line, Lost, StreamEvent, reconnect},
    transport::parse,
};

/// The longest silence on a line that is up. An epoch may take an hour, and the service's signs of
/// life between two bundles are no events; a line that is dead is found out by then.
const SILENCE_MAX: Duration = Duration::from_hours(1);

/// What a new bundle is called on the line.
const EVENT_BUNDLE: &str = "bundle";

/// What happens on a stream of bundles. Once connected, the newest one follows, and each new one.
pub type BundleEvent = StreamEvent<Box<LatestBundle>>;

/// Follows the bundles of `topic` and sends what happens to `events`, until nobody listens any more.
///
/// Full, the queue makes this wait; the service then skips to its newest bundle. Dropping it closes
/// the line.
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
        let mut line = Line::open(self.service.get(paths::TOPIC_STREAM, self.topic)).await?;
        backoff.reset();
        events.send(StreamEvent::Connected).await?;
        loop {
            let event = line.next(SILENCE_MAX).await?;
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
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use axum::{
        Router,
        response::{
            IntoResponse as _, Response,
            sse::{Event, Sse},
        },
        routing::get,
    };
    use futures::stream;
    use task::group::Group;

    use super::*;
    use crate::{tests::fake::Fake, transport::Transport};

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

    /// Checks the first events of a service whose `n`th line is `lines(n)`.
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
    async fn a_reconnect_brings_the_newest_bundle() {
        let lines = |n: usize| {
            let events = [bundle(10 + n as u64)].map(Ok::<_, Infallible>);
            Sse::new(stream::iter(events)).into_response()
        };
        check(lines, &["connected", "bundle 10", "lost", "connected", "bundle 11"]).await;
    }

    #[tokio::test]
    async fn a_service_without_the_stream_is_not_retried() {
        let lines = |_| axum::http::StatusCode::NOT_FOUND.into_response();
        check(lines, &["not served"]).await;
    }
}
