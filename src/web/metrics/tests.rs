use super::*;

/// Metrics for these tests, one of each kind.
const TABLE: &[Metric] = &[
    counter("asked", &["topic"], " Asked."),
    gauge("open", &[], " Open."),
    histogram("answer_seconds", &["path"], &[0.001, 0.01], " Answers."),
    summary("took_milliseconds", " Took."),
];

const ASKED: Metric = TABLE[0];
const OPEN: Metric = TABLE[1];
const ANSWER: Metric = TABLE[2];
const TOOK: Metric = TABLE[3];

fn metrics() -> Metrics {
    Metrics::new("test_", &[TABLE])
}

#[track_caller]
fn check(metrics: &Metrics, lines: &[&str]) {
    let text = metrics.text();
    for line in lines {
        assert!(text.lines().any(|told| told == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn metric_labels_are_escaped_and_uncounted_metrics_are_zero() {
    let metrics = metrics();
    metrics.add(ASKED, &["a\"b\\c\nd"]);
    metrics.observe(TOOK, &[], Duration::from_millis(3));
    check(
        &metrics,
        &[
            "# HELP test_asked Asked.",
            "# TYPE test_asked counter",
            "test_asked{topic=\"a\\\"b\\\\c\\nd\"} 1",
            "test_open 0",
            "test_took_milliseconds_sum 3",
            "test_took_milliseconds_count 1",
        ],
    );
}

#[test]
fn histogram_counts_values_up_to_each_bound() {
    let metrics = metrics();
    for micros in [500, 1_000, 5_000, 1_000_000] {
        metrics.observe(ANSWER, &["/a"], Duration::from_micros(micros));
    }
    check(
        &metrics,
        &[
            "# TYPE test_answer_seconds histogram",
            "test_answer_seconds_bucket{path=\"/a\",le=\"0.001\"} 2",
            "test_answer_seconds_bucket{path=\"/a\",le=\"0.01\"} 3",
            "test_answer_seconds_bucket{path=\"/a\",le=\"+Inf\"} 4",
            "test_answer_seconds_count{path=\"/a\"} 4",
        ],
    );
}

#[test]
fn gauge_is_higher_until_its_guard_is_dropped() {
    let metrics = metrics();
    let first = metrics.raise(OPEN);
    let second = metrics.raise(OPEN);
    check(&metrics, &["test_open 2"]);
    drop(first);
    check(&metrics, &["test_open 1"]);
    drop(second);
    check(&metrics, &["test_open 0"]);
}

#[test]
fn number_of_different_label_values_is_limited() {
    let metrics = metrics();
    for n in 0..LABELS_MAX + 10 {
        metrics.add(ASKED, &[&format!("topic-{n}")]);
    }
    let text = metrics.text();
    let n_lines = text.lines().filter(|line| line.starts_with("test_asked{")).count();
    assert_eq!(n_lines, LABELS_MAX + 1);
    check(&metrics, &["test_asked{topic=\"other\"} 10"]);
}
