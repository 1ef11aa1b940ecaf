//! Counting what a service does, told as Prometheus text (version 0.0.4).
//!
//! A service names what it counts in tables, with [`metrics!`](crate::metrics!), and holds a
//! [`Metrics`] of them. [`requests`] counts what any HTTP service does, [`process`] what the process
//! takes. Labels that others choose are bounded here, so that nobody can fill the memory with them.

pub mod process;
pub mod requests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use parking_lot::Mutex;

/// Sets of labels counted apart under one name. Some labels are named by others, so their number has
/// a bound; whatever is more is counted together, as [`OTHER`].
const LABELS_MAX: usize = 1000;

/// The label of what is counted together.
pub const OTHER: &str = "other";

/// The longest value of a label, in characters.
const LABEL_CHARS_MAX: usize = 128;

/// The media type of the text, as Prometheus asks for it.
const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The description of a metric: name, kind, labels and help text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    /// The doc of its constant, with the space before it.
    help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    /// Sum in milliseconds, and number.
    Summary,
    /// Numbers at or below each of these seconds, sum in seconds, and number.
    Histogram(&'static [f64]),
}

/// What is written down once in the program.
type Text = &'static str;

/// The names of labels.
type Labels = &'static [Text];

/// A number that only grows, apart for each set of `labels`.
#[must_use]
pub const fn counter(name: Text, labels: Labels, help: Text) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

/// A number that grows and shrinks.
#[must_use]
pub const fn gauge(name: Text, labels: Labels, help: Text) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

/// How long something takes, as a sum of milliseconds and a number.
#[must_use]
pub const fn summary(name: Text, help: Text) -> Metric {
    Metric { name, kind: Kind::Summary, labels: &[], help }
}

/// How long something takes, in seconds: how often at most each of `bounds`, which ascend.
#[must_use]
pub const fn histogram(name: Text, labels: Labels, bounds: &'static [f64], help: Text) -> Metric {
    Metric { name, kind: Kind::Histogram(bounds), labels, help }
}

impl Metric {
    /// Its name, without what a service puts in front.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Declares metrics as constants, each with its doc as the help text, and gathers them in the table
/// `METRICS` in the order of the output.
#[macro_export]
macro_rules! metrics {
    ($(#[doc = $help:expr] $constant:ident = $kind:ident($($argument:expr),*);)*) => {
        $(#[doc = $help] pub const $constant: $crate::metrics::Metric =
            $crate::metrics::$kind($($argument,)* $help);)*

        /// All metrics above, in the order of the output.
        pub const METRICS: &[$crate::metrics::Metric] = &[$($constant),*];
    };
}

/// Handle to the counts of a service. Cheap to clone; all clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    prefix: &'static str,
    tables: &'static [&'static [Metric]],
    values: Arc<Mutex<BTreeMap<&'static str, BTreeMap<String, Value>>>>,
}

/// Keeps a gauge one higher until it is dropped.
#[derive(Debug)]
pub struct RaisedGauge {
    metrics: Metrics,
    metric: Metric,
}

#[derive(Debug, Clone, Default)]
struct Value {
    n: u64,
    sum: f64,
    /// Of a histogram: how many fell to each bound and no lower one.
    counts: Vec<u64>,
}

impl Metrics {
    /// Counts what is in `tables`, each name with `prefix` in front.
    #[must_use]
    pub fn new(prefix: &'static str, tables: &'static [&'static [Metric]]) -> Self {
        Self { prefix, tables, values: Arc::default() }
    }

    /// Adds 1 to a counter.
    pub fn add(&self, metric: Metric, labels: &[&str]) {
        self.add_n(metric, labels, 1_u64);
    }

    /// Adds `n` to a counter.
    pub fn add_n(&self, metric: Metric, labels: &[&str], n: impl TryInto<u64>) {
        let n = n.try_into().unwrap_or(u64::MAX);
        self.change(metric, labels, |value| value.n = value.n.saturating_add(n));
    }

    /// Sets a gauge.
    pub fn set(&self, metric: Metric, labels: &[&str], n: usize) {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        self.change(metric, labels, |value| value.n = n);
    }

    /// Raises a gauge without labels by one, until what is returned is dropped.
    #[must_use]
    pub fn raise(&self, metric: Metric) -> RaisedGauge {
        self.add(metric, &[]);
        RaisedGauge { metrics: self.clone(), metric }
    }

    /// Takes in how long something took.
    pub fn observe(&self, metric: Metric, labels: &[&str], time: Duration) {
        let seconds = time.as_secs_f64();
        self.change(metric, labels, |value| {
            value.n = value.n.saturating_add(1);
            if let Kind::Histogram(bounds) = metric.kind {
                value.sum += seconds;
                value.counts.resize(bounds.len(), 0);
                let fits = bounds.iter().position(|bound| seconds <= *bound);
                if let Some(count) = fits.and_then(|idx| value.counts.get_mut(idx)) {
                    *count += 1;
                }
            } else {
                value.sum += seconds * 1000.0;
            }
        });
    }

    /// Returns all of them as Prometheus text (version 0.0.4).
    #[must_use]
    pub fn text(&self) -> String {
        let values = self.values.lock();
        let mut text = String::new();
        for metric in self.tables.iter().copied().flatten() {
            let name = format!("{}{}", self.prefix, metric.name);
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Summary => "summary",
                Kind::Histogram(_) => "histogram",
            };
            push_line(&mut text, &format!("# HELP {name}{}", metric.help));
            push_line(&mut text, &format!("# TYPE {name} {kind}"));
            let zero = BTreeMap::from([(String::new(), Value::default())]);
            let zero = if metric.labels.is_empty() { &zero } else { &BTreeMap::new() };
            for (labels, value) in values.get(metric.name).unwrap_or(zero) {
                push_value(&mut text, &name, metric.kind, labels, value);
            }
        }
        text
    }

    fn change(&self, metric: Metric, labels: &[&str], change: impl FnOnce(&mut Value)) {
        let text = labels_text(metric, labels);
        let mut values = self.values.lock();
        let values = values.entry(metric.name).or_default();
        if let Some(value) = values.get_mut(&text) {
            return change(value);
        }
        let text = if values.len() < LABELS_MAX {
            text
        } else {
            labels_text(metric, &vec![OTHER; metric.labels.len()])
        };
        change(values.entry(text).or_default());
    }
}

impl Drop for RaisedGauge {
    fn drop(&mut self) {
        self.metrics.change(self.metric, &[], |value| value.n = value.n.saturating_sub(1));
    }
}

/// Answers counts as text.
#[must_use]
pub fn respond(text: String) -> Response {
    ([(CONTENT_TYPE, CONTENT)], text).into_response()
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn push_value(text: &mut String, name: &str, kind: Kind, labels: &str, value: &Value) {
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    if matches!(kind, Kind::Counter | Kind::Gauge) {
        return push_line(text, &format!("{name}{braced} {}", value.n));
    }
    if let Kind::Histogram(bounds) = kind {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut n_below = 0_u64;
        for (idx, bound) in bounds.iter().enumerate() {
            n_below += value.counts.get(idx).copied().unwrap_or_default();
            push_line(text, &format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {n_below}"));
        }
        let n = value.n;
        push_line(text, &format!("{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {n}"));
    }
    push_line(text, &format!("{name}_sum{braced} {}", value.sum));
    push_line(text, &format!("{name}_count{braced} {}", value.n));
}

/// Labels as they stand between braces.
fn labels_text(metric: Metric, values: &[&str]) -> String {
    let mut text = String::new();
    for (name, value) in metric.labels.iter().zip(values) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars().take(LABEL_CHARS_MAX) {
            match c {
                '\\' | '"' => text.extend(['\\', c]),
                '\n' => text.push_str("\\n"),
                _ => text.push(c),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests;
