use super::*;

fn market() -> Topic {
    crate::tests::test_topics().pop().unwrap()
}

#[track_caller]
fn check_truth(before: f64, after: f64, want: [f64; 3]) {
    let labels = market().labels;
    let labels = labels.iter().map(String::as_str);
    assert_eq!(market().truth.of_labels(labels, before, after), want);
}

#[test]
fn demo_topics_are_valid() {
    let topics = demo_topics();
    assert_eq!(topics.iter().map(|topic| topic.id.get()).collect::<Vec<_>>(), [1, 2]);
    for topic in topics {
        assert_eq!(topic.check(), Ok(()));
        assert_eq!(topic.check_horizon(Duration::from_secs(1)), Ok(()));
    }
}

#[test]
fn price_change_within_the_threshold_is_flat() {
    check_truth(1000.0, 1001.5, [1.0, 0.0, 0.0]);
    check_truth(1000.0, 998.5, [0.0, 1.0, 0.0]);
    check_truth(1000.0, 1000.9, [0.0, 0.0, 1.0]);
    check_truth(0.0, 5.0, [0.0, 0.0, 1.0]);
}

#[track_caller]
fn check_fault(topic: &Topic, want: &str) {
    let fault = topic.check().unwrap_err().fault;
    assert!(fault.starts_with(want), "{fault}");
}

#[test]
fn topic_with_invalid_settings_is_rejected() {
    let timing = |timing| Topic { timing, ..market() };
    let usual = market().timing;
    check_fault(&timing(Timing { ground_truth_lag: 11, ..usual }), "ground truth lag");
    check_fault(&timing(Timing { worker_submission_window: 13, ..usual }), "submission window");
    let labels = |labels: &[&str]| Topic {
        labels: labels.iter().map(|l| (*l).to_owned()).collect(),
        ..market()
    };
    check_fault(&labels(&[]), "a direction must have");
    check_fault(&labels(&["Up"]), "labels must be");
    check_fault(&labels(&["up", "up"]), "labels must be");
    check_fault(&labels(&["up", "dö"]), "labels must be");
    check_fault(&labels(&["up", "down"]), "a direction must have");
    let single = Topic {
        labels: vec!["y".into()],
        labeling: Labeling { is_multi: false, ..Labeling::MULTI },
        ..market()
    };
    check_fault(&single, "a single output");
    check_fault(&Topic { labels: vec!["z".into()], ..single }, "labels must be");
    check_fault(&Topic { truth: Truth::Value, ..market() }, "the value of a column");
    let labeling = Labeling { default: 0.1, ..Labeling::MULTI };
    check_fault(&Topic { labeling, ..market() }, "values that sum to 1");
    let judging = Judging { alpha_regret: f64::NAN, ..market().judging };
    check_fault(&Topic { judging, ..market() }, "alpha_regret must be above 0 and at most 1");
    let value_range = ValueRange { min: Some(0.5), max: Some(0.4) };
    check_fault(&Topic { value_range, ..market() }, "value_min exceeds value_max");
    let far = timing(Timing { ground_truth_lag: u64::MAX, ..usual });
    check_fault(&far, "ground_truth_lag must be at most 4294967296 blocks");
    let truth = Truth::Direction { threshold: 1.5 };
    check_fault(&Topic { truth, ..market() }, "direction_threshold must be from 0 to 1");
    for name in ["", "  ", "price\u{202e}"] {
        check_fault(&Topic { name: name.to_owned(), ..market() }, "metadata is missing");
    }
}

impl Labeling {
    /// Default rules for a topic with several labels.
    pub(crate) const MULTI: Self = Self {
        is_multi: true,
        is_case_sensitive: false,
        default: 0.0,
        per_submission_max: LABELS_PER_SUBMISSION_MAX,
    };
}

#[track_caller]
fn check_label(text: &str, is_case_sensitive: bool, want: Option<&str>) {
    let labeling = Labeling { is_case_sensitive, ..Labeling::MULTI };
    assert_eq!(canonical_label(text, labeling).as_deref(), want, "{text:?}");
}

#[test]
fn labels_are_trimmed_and_lowercase_unless_case_sensitive() {
    check_label("  Up ", false, Some("up"));
    check_label("  Up ", true, Some("Up"));
    check_label("BTC/USD 5-min_v1.2", false, Some("btc/usd 5-min_v1.2"));
    assert!(!is_valid_label("Up", Labeling::MULTI) && is_valid_label("up", Labeling::MULTI));
}

#[test]
fn invalid_labels_are_rejected() {
    for text in ["", "  ", "a\tb", "größe", "a;b", &"x".repeat(65)] {
        check_label(text, false, None);
    }
    check_label(&"x".repeat(64), false, Some(&"x".repeat(64)));
}
