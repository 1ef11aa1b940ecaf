use super::*;

fn market() -> Topic {
    demo_topics().pop().unwrap()
}

#[track_caller]
fn check_truth(before: f64, after: f64, want: [f64; 3]) {
    assert_eq!(market().truth_of(&market().labels, before, after), want);
}

#[test]
fn the_demo_topics_fit_together() {
    let topics = demo_topics();
    assert_eq!(topics.iter().map(|topic| topic.id.get()).collect::<Vec<_>>(), [1, 2]);
    for topic in topics {
        assert_eq!(topic.check(), Ok(()));
    }
}

#[test]
fn a_move_within_the_threshold_is_flat() {
    check_truth(1000.0, 1001.5, [1.0, 0.0, 0.0]);
    check_truth(1000.0, 998.5, [0.0, 1.0, 0.0]);
    check_truth(1000.0, 1000.9, [0.0, 0.0, 1.0]);
    check_truth(0.0, 5.0, [0.0, 0.0, 1.0]);
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let id = market().id;
    let timing = |timing| Topic { timing, ..market() }.check();
    let usual = market().timing;
    assert_eq!(
        timing(Timing { ground_truth_lag: 11, ..usual }),
        Err(TopicSettingsError::Lag { id })
    );
    assert_eq!(
        timing(Timing { worker_submission_window: 13, ..usual }),
        Err(TopicSettingsError::Window { id })
    );
    let labels = |labels: &[&str]| {
        Topic { labels: labels.iter().map(|l| (*l).to_owned()).collect(), ..market() }.check()
    };
    // Any label is taken, and three of them are judged.
    assert_eq!(labels(&[]), Ok(()));
    assert_eq!(labels(&["Up"]), Err(TopicSettingsError::Labels { id }));
    assert_eq!(labels(&["up", "up"]), Err(TopicSettingsError::Labels { id }));
    assert_eq!(labels(&["up", "dö"]), Err(TopicSettingsError::Labels { id }));
    assert_eq!(labels(&["up", "down"]), Err(TopicSettingsError::Direction { id }));
    let single = Topic { labels: vec!["y".into()], labeling: Labeling::SINGLE, ..market() };
    assert_eq!(single.check(), Err(TopicSettingsError::Unity { id }));
    let named = Topic { labels: vec!["z".into()], ..single.clone() };
    assert_eq!(named.check(), Err(TopicSettingsError::Labels { id }));
    let value = Topic { truth: Truth::Value, ..market() };
    assert_eq!(value.check(), Err(TopicSettingsError::Truth { id }));
    let defaulted = Topic { labeling: Labeling { default: 0.1, ..Labeling::MULTI }, ..market() };
    assert_eq!(defaulted.check(), Err(TopicSettingsError::Default { id }));
    let judging = Judging { alpha_regret: f64::NAN, ..market().judging };
    let nan = Topic { judging, ..market() };
    assert_eq!(nan.check(), Err(TopicSettingsError::Range { id, what: "alpha_regret" }));
    let nameless = Topic { name: String::new(), ..market() };
    assert_eq!(nameless.check(), Err(TopicSettingsError::Text { id, what: "name" }));
    let hidden = Topic { name: "price\u{202e}".to_owned(), ..nameless };
    assert_eq!(hidden.check(), Err(TopicSettingsError::Text { id, what: "name" }));
}
