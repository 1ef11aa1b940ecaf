//! Metrics of the inference service, beside those of every HTTP service.

use accounts::{Keys, database_metrics};
use web::metrics::{Metrics, process, requests};

use crate::{Inference, InferenceError, blocking};

/// The prefix of every name.
const PREFIX: &str = "triptych_inference_";

/// Bounds of the histogram of steps, in seconds: from an epoch of a few workers to one of a thousand on a
/// busy disk.
const STEP_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

web::metrics! {
    /// Submissions by outcome: taken, refused, or failed for a reason that is the service's.
    SUBMISSIONS = counter("submissions_total", &["outcome"]);
    /// Time from the end of an epoch's window to its bundle durable.
    CLOSE = histogram("close_seconds", &[], STEP_SECONDS);
    /// Time to learn from an epoch, or to give it up, durably.
    LEARN = histogram("learn_seconds", &[], STEP_SECONDS);
    /// Topics with epochs.
    TOPICS = gauge("topics_active", &[]);
    /// Topics whose newest epoch failed.
    FAILING = gauge("topics_failing", &[]);
    /// Streams open now.
    STREAMS = gauge("streams_open", &[]);
    /// The program: always 1, with its version as label.
    BUILD = gauge("build_info", &["version"]);
}

/// The metrics of a service, all zero.
pub(crate) fn new() -> Metrics {
    let metrics = Metrics::new(PREFIX, &[requests::METRICS, METRICS, database_metrics::METRICS]);
    metrics.set(BUILD, &[env!("CARGO_PKG_VERSION")], 1);
    metrics
}

/// What came of a submission.
pub(crate) const fn outcome(submitted: &Result<(), InferenceError>) -> &'static str {
    match submitted {
        Ok(()) => "taken",
        Err(InferenceError::Store(_) | InferenceError::Stopped) => "failed",
        Err(_) => "refused",
    }
}

impl Inference {
    /// All metrics as Prometheus text, with those of the process, and of the database of `keys`.
    ///
    /// # Errors
    /// [`InferenceError::Stopped`] if the program is stopping.
    pub(crate) async fn render_metrics(&self, keys: &Keys) -> Result<String, InferenceError> {
        let metrics = self.shared.metrics.clone();
        keys.set_metrics(&metrics);
        if let Some(figures) = self.shared.store.database() {
            database_metrics::set(&metrics, "network", figures);
        }
        let topics = self.topics();
        let active = topics.iter().filter(|topic| topic.is_active);
        metrics.set(TOPICS, &[], active.count());
        metrics.set(FAILING, &[], self.failing_topics().len());
        blocking(move || Ok(metrics.text() + &process::text())).await
    }
}
