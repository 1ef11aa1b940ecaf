//! Metrics of the inference service.

use accounts::{Keys, database_metrics};
use web::metrics::{Metrics, requests};

use crate::{Inference, InferenceError, Result};

/// Prefix of all names.
const PREFIX: &str = "triptych_inference_";

/// Bucket bounds of the histograms, in seconds. They range from an epoch with a few workers to an epoch
/// with a thousand on a busy disk.
const STEP_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

web::metrics! {
    /// Submissions by outcome: accepted, refused, or failed because of the service.
    SUBMISSIONS = counter("submissions_total", &["outcome"]);
    /// Time from the end of an epoch's window until its bundle is durable.
    CLOSE = histogram("close_seconds", &[], STEP_SECONDS);
    /// Time to learn from an epoch or to give it up, durably.
    LEARN = histogram("learn_seconds", &[], STEP_SECONDS);
    /// Topics that open epochs.
    TOPICS = gauge("topics_active", &[]);
    /// Topics with a current problem.
    FAILING = gauge("topics_failing", &[]);
    /// Number of streams that clients have open.
    STREAMS = gauge("streams_open", &[]);
    /// Version of the program as a label. Always 1.
    BUILD = gauge("build_info", &["version"]);
}

/// Creates the metrics of a service, all zero.
pub(crate) fn new() -> Metrics {
    let metrics = Metrics::new(PREFIX, &[requests::METRICS, METRICS, database_metrics::METRICS]);
    metrics.set(BUILD, &[env!("CARGO_PKG_VERSION")], 1);
    metrics
}

/// Returns the value of the `outcome` label for a submission.
pub(crate) const fn outcome(submitted: &Result<()>) -> &'static str {
    match submitted {
        Ok(()) => "taken",
        Err(InferenceError::Store(_) | InferenceError::Stopped) => "failed",
        Err(_) => "refused",
    }
}

impl Inference {
    /// Returns all metrics as Prometheus text, including metrics of the database of `keys`.
    pub(crate) fn render_metrics(&self, keys: &Keys) -> String {
        let metrics = &self.shared.metrics;
        keys.set_metrics(metrics);
        if let Some(figures) = self.shared.store.database() {
            database_metrics::set(metrics, "network", figures);
        }
        let topics = self.topics();
        let active = topics.iter().filter(|topic| topic.is_active);
        metrics.set(TOPICS, &[], active.count());
        metrics.set(FAILING, &[], self.failing_topics().len());
        metrics.text()
    }
}
