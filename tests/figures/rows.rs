//! Texts of durations.

use std::time::Duration;

use test_bench::quantile;

/// Returns the median, a high quantile and the number of `durations`.
pub(crate) fn summary(durations: &[Duration], percent: usize) -> String {
    let (p50, high) = (millis(quantile(durations, 50)), millis(quantile(durations, percent)));
    format!("p50 {p50}, p{percent} {high} ms ({} samples)", durations.len())
}

/// Returns milliseconds as text.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
