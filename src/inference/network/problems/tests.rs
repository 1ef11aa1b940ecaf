//! Logging of problems.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use task::clock::Clock;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::*;
use crate::InferenceOptions;
use crate::network::topic::Retention;
use crate::tests::test_topics;

/// Counts log lines of level `info` and above.
struct Lines(Arc<AtomicUsize>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn repeated_problem_of_a_topic_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = InferenceOptions {
        block_time: std::time::Duration::from_secs(1),
        retention: Retention::USUAL,
        topics: test_topics(),
    };
    let path = folder.path().join("inference.sqlite");
    let inference = Inference::open(path, Clock::system(), options).await.unwrap();
    let n_lines = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Lines(Arc::clone(&n_lines)), || {
        for idx in 0..664 {
            inference.fails(TopicId::FIRST, Failing::Inferring, format!("no rows, {idx}"));
        }
        assert_eq!(n_lines.load(Ordering::SeqCst), 1);
        for _ in 0..3 {
            inference.works(TopicId::FIRST, Failing::Inferring);
        }
        assert_eq!(n_lines.load(Ordering::SeqCst), 2);
    });
}
