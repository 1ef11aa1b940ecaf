use super::*;
use crate::rules::Rules;

const SECOND: i64 = 1_000_000;

struct Watched {
    watcher: Watcher,
    start: Instant,
}

impl Watched {
    fn new(rule: &str) -> Self {
        let rules: Rules = format!("[[rules]]\nname = 'r'\n{rule}").parse().unwrap();
        let start = Instant::now();
        Self { watcher: Watcher::new(rules.rules, None, start), start }
    }

    /// Adds a rule `seconds` after the start.
    fn add_rule(&mut self, seconds: u64) {
        let mut rules: Vec<Rule> = self.watcher.rules().cloned().collect();
        let other = format!("[[rules]]\nname = '{seconds}'\nservice = 'head'\ndown_for = '1s'");
        rules.splice(0..0, other.parse::<Rules>().unwrap().rules);
        let now = self.start + Duration::from_secs(seconds);
        self.watcher.replace_rules(rules, self.watcher.repeat, now);
    }

    /// Observes a fact `seconds` after the start. Returns the state and the text of the
    /// resulting alert.
    fn at(&mut self, seconds: u64, fact: &Fact) -> Option<(AlertState, String)> {
        let mut alerts = self.all_at(seconds, fact);
        assert!(alerts.len() <= 1);
        alerts.pop()
    }

    fn all_at(&mut self, seconds: u64, fact: &Fact) -> Vec<(AlertState, String)> {
        let now = self.start + Duration::from_secs(seconds);
        let alerts = self.watcher.observe(fact, now).into_iter();
        alerts.map(|alert| (alert.state, alert.text)).collect()
    }
}

fn rows(points: &[(i64, f64)]) -> Fact {
    let point = |&(seconds, value): &(i64, f64)| Point {
        column: "close".to_owned(),
        micros: seconds * SECOND,
        value: Some(value),
    };
    Fact::Rows { dataset: "btc".to_owned(), points: points.iter().map(point).collect() }
}

fn firing(text: &str) -> (AlertState, String) {
    (AlertState::Firing, text.to_owned())
}

fn resolved(text: &str) -> (AlertState, String) {
    (AlertState::Resolved, text.to_owned())
}

#[test]
fn level_rule_fires_once_and_is_resolved_once() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nbelow = 100");
    assert_eq!(rule.at(0, &rows(&[(1, 101.0), (2, 100.0)])), None);
    assert_eq!(rule.at(1, &rows(&[(3, 99.5)])), Some(firing("close of btc is 99.5, below 100")));
    assert_eq!(rule.at(2, &rows(&[(4, 98.0)])), None, "fires already");
    assert_eq!(rule.at(3, &rows(&[(2, 150.0)])), None, "late row");
    assert_eq!(rule.at(4, &rows(&[(5, 101.0)])), Some(resolved("close of btc is 101")));
}

#[test]
fn rise_or_fall_is_measured_from_the_extreme_value_within_the_time_span() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nfalls = 2\nwithin = '10s'");
    assert_eq!(rule.at(0, &rows(&[(0, 100.0), (5, 99.0)])), None);
    let fell = "close of btc is 97, -3.00 % from 100";
    assert_eq!(rule.at(1, &rows(&[(9, 97.0)])), Some(firing(fell)));
    let later = rule.at(2, &rows(&[(17, 97.5)]));
    assert_eq!(later, Some(resolved("close of btc is 97.5, +0.00 % from 97.5")));
}

#[test]
fn change_from_zero_has_no_percentage() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nrises = 5\nwithin = '10s'");
    assert_eq!(rule.at(0, &rows(&[(0, 0.0)])), None);
    assert_eq!(rule.at(1, &rows(&[(1, 1.0)])), Some(firing("close of btc is 1, up from 0")));
    let same = "close of btc is 0, +0.00 % from 0";
    assert_eq!(rule.at(2, &rows(&[(2, 0.0)])), Some(resolved(same)));

    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nfalls = 5\nwithin = '10s'");
    assert_eq!(rule.at(0, &rows(&[(0, 0.0)])), None);
    assert_eq!(rule.at(1, &rows(&[(1, -1.0)])), Some(firing("close of btc is -1, down from 0")));
}

#[test]
fn each_row_of_a_batch_is_judged_in_the_order_of_time() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nbelow = 100");
    let spike = rows(&[(3, 130.0), (1, 130.0), (2, 80.0)]);
    let fired = firing("close of btc is 80, below 100");
    assert_eq!(rule.all_at(0, &spike), [fired, resolved("close of btc is 130")]);
    let fall = firing("close of btc is 70, below 100");
    assert_eq!(rule.all_at(1, &rows(&[(4, 80.0), (5, 130.0), (6, 70.0)])), [fall]);
}

#[test]
fn earlier_rows_are_judged_as_a_whole_and_belong_to_the_span() {
    let rule = "dataset = 'btc'\ncolumn = 'close'\nfalls = 5\nwithin = '10s'";
    let mut rule = Watched::new(rule);
    let points = |fact| match fact {
        Fact::Rows { dataset, points } => Fact::History { dataset, points },
        fact => fact,
    };
    assert_eq!(rule.at(0, &points(rows(&[(3, 99.0), (2, 90.0), (1, 100.0)]))), None);
    let fell = firing("close of btc is 94, -6.00 % from 100");
    assert_eq!(rule.at(1, &rows(&[(4, 94.0)])), Some(fell));
    assert_eq!(
        rule.at(2, &points(rows(&[(5, 94.0)]))),
        Some(resolved("close of btc is 94, +0.00 % from 94")),
        "the dataset was replaced"
    );
}

#[test]
fn corrected_or_deleted_value_no_longer_counts_as_an_extreme() {
    let rule = "dataset = 'btc'\ncolumn = 'close'\nfalls = 8\nwithin = '10s'";
    let mut corrected = Watched::new(rule);
    assert_eq!(corrected.at(0, &rows(&[(1, 131.0), (2, 140.0)])), None);
    assert_eq!(corrected.at(1, &rows(&[(2, 125.0)])), None, "-4.58 % from 131");
    let mut deleted = Watched::new(rule);
    assert_eq!(deleted.at(0, &rows(&[(1, 131.0), (2, 140.0)])), None);
    let micros = 2 * SECOND..=2 * SECOND;
    assert_eq!(deleted.at(1, &Fact::Deletion { dataset: "btc".to_owned(), micros }), None);
    assert_eq!(deleted.at(2, &rows(&[(3, 125.0)])), None, "-4.58 % from 131");
}

#[test]
fn rule_is_resolved_if_the_value_for_which_it_fires_is_removed() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nbelow = 100");
    assert_eq!(rule.at(0, &rows(&[(1, 101.0)])), None);
    assert!(rule.at(1, &rows(&[(2, 99.0)])).is_some());
    let point = Point { column: "close".to_owned(), micros: 2 * SECOND, value: None };
    let removed = Fact::Rows { dataset: "btc".to_owned(), points: vec![point] };
    assert_eq!(rule.at(2, &removed), Some(resolved("close of btc is 101")));
    assert!(rule.at(3, &rows(&[(3, 99.0)])).is_some());
    let deletion = Fact::Deletion { dataset: "btc".to_owned(), micros: i64::MIN..=3 * SECOND };
    assert_eq!(rule.at(4, &deletion), Some(resolved("close of btc has no value")));
}

#[test]
fn silence_is_measured_since_the_latest_row() {
    let mut rule = Watched::new("dataset = 'btc'\nsilent_for = '5s'");
    assert_eq!(rule.at(4, &Fact::Tick), None);
    assert_eq!(rule.at(4, &rows(&[(1, 1.0)])), None);
    assert_eq!(rule.at(8, &Fact::Tick), None);
    assert_eq!(rule.at(9, &Fact::Tick), Some(firing("no row of btc received for 5s")));
    assert_eq!(rule.at(20, &rows(&[(2, 1.0)])), Some(resolved("rows of btc arrive again")));
}

#[test]
fn service_is_reported_as_down_after_it_has_failed_for_the_configured_time() {
    let mut rule = Watched::new("service = 'head'\ndown_for = '10s'");
    let health = |failure: Option<&str>| Fact::Health {
        service: Service::Head,
        failure: failure.map(str::to_owned),
    };
    assert_eq!(rule.at(1, &health(None)), None);
    assert_eq!(rule.at(2, &health(Some("refused"))), None);
    let down = "head has not responded for 10s: refused";
    assert_eq!(rule.at(11, &health(Some("refused"))), Some(firing(down)));
    assert_eq!(rule.at(12, &health(None)), Some(resolved("head responds again")));
}

#[test]
fn each_missed_epoch_is_counted_once() {
    let mut rule = Watched::new("topic = 1\nactor = 'mine'\nmisses = 2");
    let epoch = |nonce, name: &str| Fact::Epoch {
        topic: TopicId::FIRST,
        nonce,
        actors: vec![Actor {
            address: "allo1a".to_owned(),
            name: Some(name.to_owned()),
            weight: Some(0.5),
        }],
    };
    assert_eq!(rule.at(0, &epoch(1, "mine")), None);
    assert_eq!(rule.at(1, &epoch(2, "other")), None);
    assert_eq!(rule.at(2, &epoch(2, "other")), None, "the same epoch again");
    let missed = "mine missed 2 epochs of topic 1, up to 3";
    assert_eq!(rule.at(3, &epoch(3, "other")), Some(firing(missed)));
    assert_eq!(
        rule.at(4, &epoch(4, "mine")),
        Some(resolved("mine takes part in epoch 4 of topic 1"))
    );

    let mut rule = Watched::new("topic = 1\nactor = 'allo1a'\nweight_below = 0.6");
    let weight = "weight of allo1a is 0.5000 in epoch 1 of topic 1";
    assert_eq!(rule.at(0, &epoch(1, "mine")), Some(firing(weight)));
}

#[test]
fn epochs_without_a_bundle_count_as_missed() {
    let mut rule = Watched::new("topic = 1\nactor = 'mine'\nmisses = 3");
    let no_bundle = |nonce, n_epochs| Fact::NoBundle { topic: TopicId::FIRST, nonce, n_epochs };
    assert_eq!(rule.at(0, &no_bundle(10, 1)), None);
    let missed = "mine missed 3 epochs of topic 1, up to 30";
    assert_eq!(rule.at(1, &no_bundle(30, 2)), Some(firing(missed)));
}

#[test]
fn rank_rule_and_agreement_rule_fire_beyond_their_configured_limits() {
    let mut rule = Watched::new("topic = 1\nactor = 'mine'\nrank_worse_than = 3");
    let ranks = |rank| Fact::Ranks {
        topic: TopicId::FIRST,
        ranks: vec![("allo1a".to_owned(), Some("mine".to_owned()), rank)],
    };
    assert_eq!(rule.at(0, &ranks(None)), None, "not ranked yet");
    assert_eq!(rule.at(1, &ranks(Some(3))), None);
    assert_eq!(rule.at(2, &ranks(Some(4))), Some(firing("mine has rank 4 in topic 1")));

    let mut rule = Watched::new("service = 'head'\nagreement_below = 66");
    let execution =
        |agreement| Fact::Execution { request_id: "x".to_owned(), n_groups: 2, agreement };
    assert_eq!(rule.at(0, &execution(100.0)), None);
    let split = "largest of 2 result groups has 50 % of the peers in execution x";
    assert_eq!(rule.at(1, &execution(50.0)), Some(firing(split)));
}

#[test]
fn actor_that_uses_the_address_of_another_as_its_name_is_not_taken_for_it() {
    let mut rule = Watched::new("topic = 1\nactor = 'allo1a'\nrank_worse_than = 3");
    let ranks = vec![
        ("allo1b".to_owned(), Some("allo1a".to_owned()), Some(9)),
        ("allo1a".to_owned(), None, Some(2)),
    ];
    assert_eq!(rule.at(0, &Fact::Ranks { topic: TopicId::FIRST, ranks }), None);
}

#[test]
fn alert_is_repeated_while_its_rule_fires() {
    let mut rule = Watched::new("dataset = 'btc'\ncolumn = 'close'\nabove = 1");
    rule.watcher.repeat = Some(Duration::from_mins(1));
    assert!(rule.at(0, &rows(&[(1, 2.0)])).is_some());
    assert_eq!(rule.at(30, &rows(&[(2, 3.0)])), None);
    assert_eq!(rule.at(60, &Fact::Tick), Some(firing("close of btc is 3, above 1")));
    assert_eq!(rule.at(90, &Fact::Tick), None);
}

#[test]
fn rules_keep_their_states_when_a_rule_is_added() {
    let silence = "dataset = 'btc'\nsilent_for = '10s'";
    let mut rule = Watched::new(silence);
    rule.add_rule(9);
    assert_eq!(rule.at(10, &Fact::Tick), Some(firing("no row of btc received for 10s")));
    rule.watcher.repeat = Some(Duration::from_mins(1));
    rule.add_rule(11);
    assert_eq!(rule.at(12, &Fact::Tick), None, "no row has arrived");
    assert_eq!(rule.at(13, &rows(&[(1, 1.0)])), Some(resolved("rows of btc arrive again")));

    let mut rule = Watched::new("topic = 1\nactor = 'mine'\nmisses = 2");
    let no_bundle = |nonce| Fact::NoBundle { topic: TopicId::FIRST, nonce, n_epochs: 1 };
    assert_eq!(rule.at(0, &no_bundle(10)), None);
    rule.add_rule(1);
    let missed = "mine missed 2 epochs of topic 1, up to 20";
    assert_eq!(rule.at(2, &no_bundle(20)), Some(firing(missed)));
    rule.add_rule(3);
    assert_eq!(rule.at(4, &no_bundle(30)), None, "fires already");
}

#[test]
fn firing_rule_whose_condition_is_changed_is_resolved_by_a_fact_only() {
    let mut rule = Watched::new("dataset = 'btc'\nsilent_for = '10s'");
    assert!(rule.at(10, &Fact::Tick).is_some());
    let rules: Rules =
        "[[rules]]\nname = 'r'\ndataset = 'btc'\nsilent_for = '20s'".parse().unwrap();
    let now = rule.start + Duration::from_secs(11);
    let repeat = Some(Duration::from_secs(5));
    rule.watcher.replace_rules(rules.rules, repeat, now);
    assert_eq!(rule.at(12, &Fact::Tick), None);
    assert_eq!(
        rule.at(15, &Fact::Tick),
        Some(firing("no row of btc received for 10s")),
        "repeated"
    );
    assert!(rule.at(16, &rows(&[(1, 1.0)])).is_some());
}
