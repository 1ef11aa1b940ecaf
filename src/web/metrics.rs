//! Metrics in the Prometheus text format (version 0.0.4).
//!
//! A service declares its metrics in tables with [`metrics!`](crate::metrics!) and stores their values
//! in a [`Metrics`]. [`requests`] has the metrics of any HTTP service, and [`respond`] adds the metrics of
//! the process. The number of labels chosen by callers is bounded, so that they cannot exhaust the memory.

mod process;
pub mod requests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use parking_lot::RwLock;
use tokio::task::spawn_blocking;

/// Maximum number of sets of label values of a metric. Callers determine some values, so the number must
/// be limited. Further sets are counted together under [`OTHER`].
const LABELS_MAX: usize = 1000;

/// Label value under which all sets of label values beyond the maximum number are counted together.
pub const OTHER: &str = "other";

/// Maximum length of a label's value, in characters.
const LABEL_CHARS_MAX: usize = 128;

/// Media type of the text format.
const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Description of a metric: name, kind, labels and help text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    /// Help text: the doc comment of the metric's constant, which starts with a space.
    help: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum MetricKind {
    Counter,
    Gauge,
    /// Sum of durations in milliseconds, and their number.
    Summary,
    /// For each of these bounds in seconds, the number of durations up to the bound. Also the sum of
    /// durations in seconds, and their number.
    Histogram(&'static [f64]),
}

/// A static text.
type Text = &'static str;

/// Names of labels.
type Labels = &'static [Text];

/// Describes a counter, which only increases. It has a value for each set of values of `labels`.
#[must_use]
pub const fn counter(name: Text, labels: Labels, help: Text) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

/// Describes a gauge, which can increase and decrease.
#[must_use]
pub const fn gauge(name: Text, labels: Labels, help: Text) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

/// Describes a duration that is exported as a sum of milliseconds and a count.
#[must_use]
pub const fn summary(name: Text, help: Text) -> Metric {
    Metric { name, kind: MetricKind::Summary, labels: &[], help }
}

/// Describes a histogram of durations. For each of the ascending `bounds` in seconds, it exports the
/// number of durations up to that bound.
#[must_use]
pub const fn histogram(name: Text, labels: Labels, bounds: &'static [f64], help: Text) -> Metric {
    Metric { name, kind: MetricKind::Histogram(bounds), labels, help }
}

impl Metric {
    /// Returns the metric's name without the prefix of a service.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Declares metrics as constants. Their doc comments become the help texts. Collects the metrics in the
/// table `METRICS` in the order of the output.
#[macro_export]
macro_rules! metrics {
    ($(#[doc = $help:expr] $constant:ident = $kind:ident($($argument:expr),*);)*) => {
        $(#[doc = $help] pub const $constant: $crate::metrics::Metric =
            $crate::metrics::$kind($($argument,)* $help);)*

        /// All metrics above, in the order of the output.
        pub const METRICS: &[$crate::metrics::Metric] = &[$($constant),*];
    };
}

/// Handle to the metrics of a service. Cheap to clone: all clones share the values.
#[derive(Debug, Clone)]
pub struct Metrics {
    prefix: &'static str,
    tables: &'static [&'static [Metric]],
    series: Arc<RwLock<BTreeMap<&'static str, BTreeMap<String, Series>>>>,
}

/// Handle to a metric with certain label values. Code that counts often should hold a handle, since
/// counting through it needs neither a lock nor formatting of labels. Cheap to clone: all clones share
/// the value.
#[derive(Debug, Clone)]
pub struct Series {
    kind: MetricKind,
    value: Arc<Measurement>,
}

/// Increases a gauge by one until this is dropped.
#[derive(Debug)]
pub struct RaisedGauge(Series);

#[derive(Debug, Default)]
struct Measurement {
    /// Value of a counter or gauge, or count of a summary. A histogram does not use this field, since
    /// its count is the sum of `counts`.
    n: AtomicU64,
    /// Sum of all durations in nanoseconds. It overflows after 584 years.
    sum_ns: AtomicU64,
    /// For a histogram: the number of values between each bound and the previous bound, and finally the
    /// number of values above all bounds.
    counts: Box<[AtomicU64]>,
}

impl Metrics {
    /// Creates the metrics of `tables`, with `prefix` before their names.
    #[must_use]
    pub fn new(prefix: &'static str, tables: &'static [&'static [Metric]]) -> Self {
        Self { prefix, tables, series: Arc::default() }
    }

    /// Adds 1 to a counter.
    pub fn add(&self, metric: Metric, labels: &[&str]) {
        self.series(metric, labels).add_n(1);
    }

    /// Adds `n` to a counter.
    pub fn add_n(&self, metric: Metric, labels: &[&str], n: impl TryInto<u64>) {
        self.series(metric, labels).add_n(n.try_into().unwrap_or(u64::MAX));
    }

    /// Sets a gauge, or a counter that is maintained elsewhere.
    pub fn set(&self, metric: Metric, labels: &[&str], n: usize) {
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        self.series(metric, labels).value.n.store(n, Relaxed);
    }

    /// Increases a gauge without labels by one until the returned guard is dropped.
    #[must_use]
    pub fn raise(&self, metric: Metric) -> RaisedGauge {
        self.series(metric, &[]).raise()
    }

    /// Records a duration.
    pub fn observe(&self, metric: Metric, labels: &[&str], time: Duration) {
        self.series(metric, labels).observe(time);
    }

    /// Returns the handle to `metric` with the label values `labels`, one for each label. If this set of
    /// values is new and the maximum is reached, returns the handle for [`OTHER`].
    #[must_use]
    pub fn series(&self, metric: Metric, labels: &[&str]) -> Series {
        let text = labels_text(metric, labels);
        let known = |labels: &BTreeMap<String, Series>| labels.get(&text).cloned();
        if let Some(series) = self.series.read().get(metric.name).and_then(known) {
            return series;
        }
        let mut all = self.series.write();
        let all = all.entry(metric.name).or_default();
        let text = if all.len() < LABELS_MAX || all.contains_key(&text) {
            text
        } else {
            labels_text(metric, &vec![OTHER; metric.labels.len()])
        };
        all.entry(text).or_insert_with(|| Series::new(metric.kind)).clone()
    }

    /// Renders all metrics as Prometheus text (version 0.0.4).
    #[must_use]
    pub fn text(&self) -> String {
        let series = self.series.read();
        let mut text = String::new();
        for metric in self.tables.iter().copied().flatten() {
            let name = format!("{}{}", self.prefix, metric.name);
            let kind = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Summary => "summary",
                MetricKind::Histogram(_) => "histogram",
            };
            push_line(&mut text, &format!("# HELP {name}{}", metric.help));
            push_line(&mut text, &format!("# TYPE {name} {kind}"));
            if let Some(series) = series.get(metric.name) {
                for (labels, series) in series {
                    series.push_text(&mut text, &name, labels);
                }
            } else if metric.labels.is_empty() {
                Series::new(metric.kind).push_text(&mut text, &name, "");
            }
        }
        text
    }
}

impl Series {
    fn new(kind: MetricKind) -> Self {
        let n_counts = if let MetricKind::Histogram(bounds) = kind { bounds.len() + 1 } else { 0 };
        let counts = (0..n_counts).map(|_| AtomicU64::default()).collect();
        Self { kind, value: Arc::new(Measurement { counts, ..Measurement::default() }) }
    }

    /// Adds `n` to a counter.
    pub fn add_n(&self, n: u64) {
        self.value.n.fetch_add(n, Relaxed);
    }

    /// Increases a gauge by one until the returned guard is dropped.
    #[must_use]
    pub fn raise(&self) -> RaisedGauge {
        self.add_n(1);
        RaisedGauge(self.clone())
    }

    /// Records a duration.
    pub fn observe(&self, time: Duration) {
        let Measurement { n, sum_ns, counts } = &*self.value;
        sum_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let count = if let MetricKind::Histogram(bounds) = self.kind {
            let seconds = time.as_secs_f64();
            counts.get(bounds.partition_point(|bound| *bound < seconds)).unwrap_or(n)
        } else {
            n
        };
        count.fetch_add(1, Relaxed);
    }

    fn push_text(&self, text: &mut String, name: &str, labels: &str) {
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let Measurement { n, sum_ns, counts } = &*self.value;
        let mut n = n.load(Relaxed);
        if matches!(self.kind, MetricKind::Counter | MetricKind::Gauge) {
            return push_line(text, &format!("{name}{braced} {n}"));
        }
        let mut sum = Duration::from_nanos(sum_ns.load(Relaxed)).as_secs_f64();
        if let MetricKind::Histogram(bounds) = self.kind {
            let comma = if labels.is_empty() { "" } else { "," };
            let bounds = bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts) {
                n += count.load(Relaxed);
                push_line(text, &format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {n}"));
            }
        } else {
            sum *= 1000.0;
        }
        push_line(text, &format!("{name}_sum{braced} {sum}"));
        push_line(text, &format!("{name}_count{braced} {n}"));
    }
}

impl Drop for RaisedGauge {
    fn drop(&mut self) {
        self.0.value.n.fetch_sub(1, Relaxed);
    }
}

/// Responds with the metrics of a service, which are `text`, and the metrics of the process.
pub async fn respond(text: String) -> Response {
    let process = spawn_blocking(process::text).await.unwrap_or_default();
    ([(CONTENT_TYPE, CONTENT)], text + &process).into_response()
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Renders labels in the form that appears between braces.
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
