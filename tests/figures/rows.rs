//! A line of the table, and how several takes become one figure.

use std::{fmt, time::Duration};

/// A figure.
pub(crate) struct Row {
    /// What was measured, of which program.
    name: String,
    /// What it came to.
    value: String,
    /// What it may be at most; empty where nothing is asked, as of other programs.
    bar: String,
    /// Whether it is within its bar.
    pub(crate) is_met: bool,
}

impl Row {
    /// A figure of ours, and its bar.
    pub(crate) fn new(name: &str, value: String, bar: &str, is_met: bool) -> Self {
        Self { name: name.to_owned(), value, bar: bar.to_owned(), is_met }
    }

    /// A figure that is told without a bar.
    pub(crate) fn told(name: &str, value: String) -> Self {
        Self::new(name, value, "", true)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.bar.is_empty(), self.is_met) {
            (true, _) => "",
            (false, true) => "met",
            (false, false) => "MISSED",
        };
        write!(f, "{:<52} {:<44} {:<34} {verdict}", self.name, self.value, self.bar)
    }
}

/// The take below which `percent` of `takes` are. There is one at least.
pub(crate) fn quantile(takes: &[Duration], percent: usize) -> Duration {
    let mut sorted = takes.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// `takes` as text: the middle one, and the one below which `percent` are.
pub(crate) fn told(takes: &[Duration], percent: usize) -> String {
    let (middle, high) = (millis(quantile(takes, 50)), millis(quantile(takes, percent)));
    format!("p50 {middle}, p{percent} {high} ms ({} takes)", takes.len())
}

/// Milliseconds, as text.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}
