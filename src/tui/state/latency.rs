//! Smoothed round-trip times: the median of recent samples. Small differences do not change it.

use std::collections::VecDeque;

/// Number of samples in the median. At one sample per 2 s they span 10 s, so that a single slow
/// response has no effect.
const SAMPLES_MAX: usize = 5;

/// Differences up to this size are noise of a busy machine.
const NOISE_MS: f64 = 20.0;

/// A round-trip time in milliseconds, measured periodically.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latency {
    /// Recent samples, oldest first.
    samples: VecDeque<f64>,
    shown_ms: Option<f64>,
}

impl Latency {
    /// Adds a sample and returns the time to display.
    ///
    /// The first sample can include the time to connect. The first sample is displayed only until there
    /// are enough samples for a median.
    pub(crate) fn add(&mut self, sample_ms: f64) -> f64 {
        let is_filled = self.samples.len() + 1 == SAMPLES_MAX;
        self.samples.push_back(sample_ms);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        let mut sorted: Vec<f64> = self.samples.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(sample_ms);
        let is_full = self.samples.len() == SAMPLES_MAX;
        let is_news = |shown: f64| {
            is_filled || (is_full && (median - shown).abs() > NOISE_MS.max(shown / 4.0))
        };
        let shown = self.shown_ms.filter(|shown| !is_news(*shown)).unwrap_or(median);
        self.shown_ms = Some(shown);
        shown
    }

    /// Returns the time to display, or `None` before the first sample.
    pub(crate) const fn shown_ms(&self) -> Option<f64> {
        self.shown_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the displayed time after each of `samples`.
    fn shown(samples: &[f64]) -> Vec<f64> {
        let mut latency = Latency::default();
        samples.iter().map(|sample| latency.add(*sample)).collect()
    }

    #[test]
    fn noise_does_not_change_the_displayed_latency() {
        let noise = [1.0, 9.0, 1.0, 4.0, 1.0, 14.0, 2.0, 60.0, 1.0, 15.0, 3.0, 400.0, 12.0];
        assert_eq!(shown(&noise), [1.0; 13]);
    }

    #[test]
    fn displayed_latency_forgets_the_setup_time_of_the_first_request() {
        assert_eq!(shown(&[80.0, 1.0, 1.0, 2.0, 1.0, 1.0]), [80.0, 80.0, 80.0, 80.0, 1.0, 1.0]);
    }

    #[test]
    fn displayed_latency_rises_once_most_samples_are_slower() {
        let samples = [1.0, 1.0, 1.0, 1.0, 1.0, 200.0, 200.0, 200.0, 210.0];
        assert_eq!(shown(&samples)[5..], [1.0, 1.0, 200.0, 200.0]);
    }
}
