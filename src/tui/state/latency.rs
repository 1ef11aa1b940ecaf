//! Smoothed round-trip times: the median of recent samples, held steady within noise.

use std::collections::VecDeque;
use std::time::Duration;

use model::timestamp::Timestamp;

/// Number of samples for the median. With one sample every 2 s they span 10 s, so that a single slow
/// response has no effect.
const SAMPLES_MAX: usize = 5;

/// Differences up to this are noise of a busy machine. Larger differences are shown immediately if they
/// reach a factor of two.
const NOISE_MS: f64 = 20.0;

/// Minimum time between two changes within the noise, so that a quiet screen stays quiet.
const HELD_FOR: Duration = Duration::from_mins(1);

/// Smallest relative difference that is shown at all.
const CHANGE_MIN: f64 = 0.25;

/// A round-trip time in milliseconds, measured periodically.
#[derive(Debug, Clone, Default)]
pub(crate) struct Latency {
    /// The most recent samples, oldest first.
    samples: VecDeque<f64>,
    shown_ms: Option<f64>,
    shown_at: Timestamp,
}

impl Latency {
    /// Adds a sample and returns the time to show.
    ///
    /// The first sample can include the connection's setup. It is shown until there are enough others.
    pub(crate) fn add(&mut self, sample_ms: f64, now: Timestamp) -> f64 {
        let is_filled = self.samples.len() + 1 == SAMPLES_MAX;
        self.samples.push_back(sample_ms);
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
        let median = self.median().unwrap_or(sample_ms);
        let shown = match self.shown_ms {
            Some(shown) if !is_filled && !self.is_news(shown, median, now) => return shown,
            _ => median,
        };
        (self.shown_ms, self.shown_at) = (Some(shown), now);
        shown
    }

    /// Returns the time to show, if there is a sample.
    pub(crate) const fn shown_ms(&self) -> Option<f64> {
        self.shown_ms
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.samples.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    /// Returns true if `median` is worth a frame although `shown` is on the screen.
    fn is_news(&self, shown: f64, median: f64, now: Timestamp) -> bool {
        let (least, most) = (shown.min(median), shown.max(median));
        let is_full = self.samples.len() == SAMPLES_MAX;
        let is_jump = most - least > NOISE_MS && most >= least * 2.0;
        let is_drift = most - least > most * CHANGE_MIN && now.since(self.shown_at) >= HELD_FOR;
        is_full && (is_jump || is_drift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shown times of samples measured every 2 s.
    fn shown(samples: &[f64]) -> Vec<f64> {
        let mut latency = Latency::default();
        let times = (0..).map(|n| Timestamp::from_seconds(2 * n));
        samples.iter().zip(times).map(|(sample, now)| latency.add(*sample, now)).collect()
    }

    #[test]
    fn noise_does_not_change_shown_latency() {
        let noise = [1.0, 9.0, 1.0, 4.0, 1.0, 14.0, 2.0, 60.0, 1.0, 15.0, 3.0, 400.0, 12.0];
        assert_eq!(shown(&noise), [1.0; 13]);
    }

    #[test]
    fn setup_time_of_the_first_sample_is_forgotten() {
        assert_eq!(shown(&[80.0, 1.0, 1.0, 2.0, 1.0, 1.0]), [80.0, 80.0, 80.0, 80.0, 1.0, 1.0]);
    }

    #[test]
    fn slower_service_is_shown_once_most_samples_agree() {
        let samples = [1.0, 1.0, 1.0, 1.0, 1.0, 200.0, 200.0, 200.0, 210.0];
        assert_eq!(shown(&samples)[5..], [1.0, 1.0, 200.0, 200.0]);
    }

    #[test]
    fn drift_within_the_noise_is_shown_once_a_minute() {
        let mut samples = vec![1.0; 5];
        samples.extend([10.0; 35]);
        let shown = shown(&samples);
        assert_eq!(shown[33..35], [1.0, 10.0], "58 s and 60 s after the last change");
    }
}
