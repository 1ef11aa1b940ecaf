//! Decides which rules fire, given facts about the services. It does no I/O and reads no clock.

use std::collections::VecDeque;
use std::time::Duration;

use model::count::counted;
use model::topic::TopicId;
use serde::Serialize;
use tokio::time::Instant;

use crate::rules::{Condition, Direction, Rule, Service, format_duration};

/// Number of parts into which the span of a [`Condition::Change`] is divided. Only the lowest and
/// highest value of each part are stored, so that the memory does not depend on the number of
/// rows.
const SPAN_PARTS: i64 = 500;

/// A fact about the services.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Time has passed. This must be observed at least once a second.
    Tick,
    /// Rows have arrived, in any order. Missing values and values that are not numbers are
    /// omitted.
    Rows {
        /// Name or id of the dataset, as in the rules.
        dataset: String,
        /// Values of the rows with their columns and timestamps.
        points: Vec<Point>,
    },
    /// A bundle of a topic was completed.
    Epoch {
        /// The topic.
        topic: TopicId,
        /// Block at which the epoch opened.
        nonce: u64,
        /// Actors with a value in the bundle.
        actors: Vec<Actor>,
    },
    /// Epochs of a topic closed without a bundle, so all actors missed them.
    NoBundle {
        /// The topic.
        topic: TopicId,
        /// Block at which the latest of these epochs opened.
        nonce: u64,
        /// Number of these epochs.
        n_epochs: u64,
    },
    /// Actors of a topic with their ranks, as far as they have ranks.
    Ranks {
        /// The topic.
        topic: TopicId,
        /// Address, name and rank of each actor.
        ranks: Vec<(String, Option<String>, Option<u64>)>,
    },
    /// A service has responded, or has failed for the reason `failure`.
    Health {
        /// The service.
        service: Service,
        /// Reason of the failure. `None` if the service has responded.
        failure: Option<String>,
    },
    /// An execution finished.
    Execution {
        /// Id of the request.
        request_id: String,
        /// Number of different results.
        n_groups: usize,
        /// Percentage of the peers that are in the largest result group.
        agreement: f64,
    },
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Name of the column.
    pub column: String,
    /// Timestamp of the row in microseconds.
    pub micros: i64,
    /// The value.
    pub value: f64,
}

/// An actor with a value in a bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    /// Address of the actor.
    pub address: String,
    /// Name of the actor. `None` if unknown.
    pub name: Option<String>,
    /// Weight of the actor, from 0 to 1. `None` if the bundle has no weights.
    pub weight: Option<f64>,
}

/// State of a rule after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    /// The condition holds.
    Firing,
    /// The condition holds no longer.
    Resolved,
}

/// A change in the state of a rule, or a repeated notification while the rule fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Name of the rule.
    pub rule: String,
    /// State of the rule.
    pub state: AlertState,
    /// Reason, for people.
    pub text: String,
}

/// Rules with their states.
#[derive(Debug)]
pub struct Watcher {
    rules: Vec<WatchedRule>,
    /// Interval at which the alert of a firing rule is repeated. `None` to send it only once.
    repeat: Option<Duration>,
}

#[derive(Debug)]
struct WatchedRule {
    rule: Rule,
    memory: Memory,
    /// Time of the last alert. `None` while the rule does not fire.
    notified_at: Option<Instant>,
    /// Reason of the last judgment.
    text: String,
}

/// Values that a condition needs from earlier facts.
#[derive(Debug)]
enum Memory {
    None,
    /// Timestamp of the latest value in microseconds.
    Latest(i64),
    Span(Span),
    /// Time of the last row or response.
    Since(Instant),
    Misses {
        nonce: Option<u64>,
        n_missed: u64,
    },
}

/// True if a condition holds, and the reason. `None` if a fact does not concern the condition.
type Judgment = Option<(bool, String)>;

impl Watcher {
    /// Creates a watcher of rules, none of which fires. All durations begin at `now`.
    #[must_use]
    pub fn new(rules: Vec<Rule>, now: Instant) -> Self {
        let watched = |rule: Rule| WatchedRule {
            memory: Memory::new(&rule.condition, now),
            rule,
            notified_at: None,
            text: String::new(),
        };
        Self { rules: rules.into_iter().map(watched).collect(), repeat: None }
    }

    /// Repeats the alert of each firing rule at this interval.
    #[must_use]
    pub fn with_repeat(mut self, repeat: Option<Duration>) -> Self {
        self.repeat = repeat;
        self
    }

    /// Continues an earlier watch: the rules named in `firing` fire already, and their alerts were
    /// sent.
    #[must_use]
    pub fn with_firing(mut self, firing: &[String], now: Instant) -> Self {
        for rule in self.rules.iter_mut().filter(|it| firing.contains(&it.rule.name)) {
            rule.notified_at = Some(now);
        }
        self
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|watched| &watched.rule)
    }

    /// Updates the rules by a fact that was observed at `now`. Returns the resulting alerts.
    pub fn observe(&mut self, fact: &Fact, now: Instant) -> Vec<Alert> {
        let repeat = self.repeat;
        self.rules.iter_mut().filter_map(|rule| rule.observe(fact, now, repeat)).collect()
    }
}

impl WatchedRule {
    fn observe(&mut self, fact: &Fact, now: Instant, repeat: Option<Duration>) -> Option<Alert> {
        let judgment = self.memory.judge(&self.rule.condition, fact, now);
        let state = match (judgment, self.notified_at) {
            (Some((true, text)), None) => {
                self.text = text;
                AlertState::Firing
            }
            (Some((false, text)), Some(_)) => {
                self.text = text;
                AlertState::Resolved
            }
            (judgment, Some(notified_at)) => {
                if let Some((_, text)) = judgment {
                    self.text = text;
                }
                if repeat.is_none_or(|repeat| now.duration_since(notified_at) < repeat) {
                    return None;
                }
                AlertState::Firing
            }
            (_, None) => return None,
        };
        self.notified_at = (state == AlertState::Firing).then_some(now);
        Some(Alert { rule: self.rule.name.clone(), state, text: self.text.clone() })
    }
}

impl Memory {
    fn new(condition: &Condition, now: Instant) -> Self {
        match condition {
            Condition::Level { .. } => Self::Latest(i64::MIN),
            Condition::Change { within, .. } => Self::Span(Span::new(*within)),
            Condition::Silence { .. } | Condition::Down { .. } => Self::Since(now),
            Condition::Missed { .. } => Self::Misses { nonce: None, n_missed: 0 },
            _ => Self::None,
        }
    }

    /// Judges the condition by a fact. Returns `None` if the fact does not concern the condition.
    fn judge(&mut self, condition: &Condition, fact: &Fact, now: Instant) -> Judgment {
        match (condition, fact, self) {
            (
                Condition::Level { dataset: of, column, above, below },
                Fact::Rows { dataset, points },
                Self::Latest(latest),
            ) if of == dataset => {
                let point = points.iter().filter(|point| point.column == *column);
                let point = point.max_by_key(|point| point.micros)?;
                // An older row does not change the latest value. A correction of the latest row
                // does.
                if point.micros < *latest {
                    return None;
                }
                *latest = point.micros;
                Some(judge_level(&format!("{column} of {dataset}"), point.value, *above, *below))
            }
            (
                Condition::Change { dataset: of, column, direction, percent, .. },
                Fact::Rows { dataset, points },
                Self::Span(span),
            ) if of == dataset => {
                for point in points.iter().filter(|point| point.column == *column) {
                    span.add(point.micros, point.value);
                }
                span.judge(&format!("{column} of {dataset}"), *direction, *percent)
            }
            (Condition::Silence { dataset: of, silent_for }, fact, Self::Since(last)) => {
                if matches!(fact, Fact::Rows { dataset, .. } if of == dataset) {
                    *last = now;
                }
                let silence = now.duration_since(*last);
                if silence < *silent_for {
                    return Some((false, format!("rows of {of} arrive again")));
                }
                Some((true, format!("no row of {of} for {}", format_duration(silence))))
            }
            (
                Condition::Down { service: of, down_for },
                Fact::Health { service, failure },
                Self::Since(last),
            ) if of == service => {
                let Some(failure) = failure else {
                    *last = now;
                    return Some((false, format!("{} responds again", of.name())));
                };
                let outage = now.duration_since(*last);
                let text = format!(
                    "{} has not responded for {}: {failure}",
                    of.name(),
                    format_duration(outage)
                );
                (outage >= *down_for).then_some((true, text))
            }
            (
                Condition::Agreement { below },
                Fact::Execution { request_id, n_groups, agreement },
                _,
            ) => {
                let text = format!(
                    "largest of {n_groups} result groups has {agreement:.0} % of the peers in execution {request_id}"
                );
                Some((agreement < below, text))
            }
            (condition, fact, memory) => memory.judge_actor(condition, fact),
        }
    }

    fn judge_actor(&mut self, condition: &Condition, fact: &Fact) -> Judgment {
        match (condition, fact, self) {
            (
                Condition::Missed { topic: of, actor, misses },
                Fact::Epoch { topic, nonce, actors },
                Self::Misses { nonce: last, n_missed },
            ) if of == topic => {
                if last.replace(*nonce) == Some(*nonce) {
                    return None;
                }
                if find(actor, names_of(actors)).is_some() {
                    *n_missed = 0;
                    let text = format!("{actor} takes part in epoch {nonce} of topic {topic}");
                    return Some((false, text));
                }
                *n_missed += 1;
                Some(judge_missed(actor, *n_missed, *misses, *topic, *nonce))
            }
            (
                Condition::Missed { topic: of, actor, misses },
                Fact::NoBundle { topic, nonce, n_epochs },
                Self::Misses { n_missed, .. },
            ) if of == topic => {
                *n_missed += n_epochs;
                Some(judge_missed(actor, *n_missed, *misses, *topic, *nonce))
            }
            (
                Condition::Weight { topic: of, actor, below },
                Fact::Epoch { topic, nonce, actors },
                _,
            ) if of == topic => {
                let weight = actors[find(actor, names_of(actors))?].weight?;
                let text =
                    format!("weight of {actor} is {weight:.4} in epoch {nonce} of topic {topic}");
                Some((weight < *below, text))
            }
            (Condition::Rank { topic: of, actor, worse_than }, Fact::Ranks { topic, ranks }, _)
                if of == topic =>
            {
                let names = ranks.iter().map(|(address, name, _)| (address, name));
                let rank = ranks[find(actor, names)?].2?;
                Some((rank > *worse_than, format!("{actor} has rank {rank} in topic {topic}")))
            }
            _ => None,
        }
    }
}

/// Returns the address and the name of each actor.
fn names_of(actors: &[Actor]) -> impl Iterator<Item = (&String, &Option<String>)> + Clone {
    actors.iter().map(|actor| (&actor.address, &actor.name))
}

/// Returns the index of the actor with the address `wanted`, or else with this name. An address comes
/// first, since an actor can use the address of another as its name.
fn find<'a>(
    wanted: &String,
    mut actors: impl Iterator<Item = (&'a String, &'a Option<String>)> + Clone,
) -> Option<usize> {
    let with_address = actors.clone().position(|(address, _)| address == wanted);
    with_address.or_else(|| actors.position(|(_, name)| name.as_ref() == Some(wanted)))
}

fn judge_missed(
    actor: &str,
    n_missed: u64,
    misses: u64,
    topic: TopicId,
    nonce: u64,
) -> (bool, String) {
    let epochs = counted(n_missed, "epoch");
    let text = format!("{actor} missed {epochs} of topic {topic}, up to {nonce}");
    (n_missed >= misses, text)
}

fn judge_level(what: &str, value: f64, above: Option<f64>, below: Option<f64>) -> (bool, String) {
    if let Some(limit) = above.filter(|limit| value > *limit) {
        return (true, format!("{what} is {value}, above {limit}"));
    }
    match below.filter(|limit| value < *limit) {
        Some(limit) => (true, format!("{what} is {value}, below {limit}")),
        None => (false, format!("{what} is {value}")),
    }
}

/// Values within a span of time that ends at the latest value.
#[derive(Debug)]
struct Span {
    within_micros: i64,
    /// Index, lowest and highest value of each part that contains values, in ascending order of
    /// the index.
    parts: VecDeque<(i64, f64, f64)>,
    /// Timestamp in microseconds and value of the latest row.
    latest: Option<(i64, f64)>,
}

impl Span {
    fn new(within: Duration) -> Self {
        let within_micros = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        Self { within_micros, parts: VecDeque::new(), latest: None }
    }

    fn add(&mut self, micros: i64, value: f64) {
        if self.latest.is_none_or(|(latest, _)| micros >= latest) {
            self.latest = Some((micros, value));
        }
        let width = (self.within_micros / SPAN_PARTS).max(1);
        let part = micros.div_euclid(width);
        match self.parts.binary_search_by_key(&part, |(part, ..)| *part) {
            Ok(at) => {
                let (_, min, max) = &mut self.parts[at];
                *min = min.min(value);
                *max = max.max(value);
            }
            Err(at) => self.parts.insert(at, (part, value, value)),
        }
        let latest = self.latest.map_or(micros, |(latest, _)| latest);
        let first = latest.saturating_sub(self.within_micros).div_euclid(width);
        while self.parts.front().is_some_and(|(part, ..)| *part < first) {
            self.parts.pop_front();
        }
    }

    fn judge(&self, what: &str, direction: Direction, percent: f64) -> Judgment {
        let (_, latest) = self.latest?;
        let extreme = match direction {
            Direction::Rises => self.parts.iter().map(|(_, min, _)| *min).reduce(f64::min)?,
            Direction::Falls => self.parts.iter().map(|(.., max)| *max).reduce(f64::max)?,
        };
        let change = (latest - extreme) / extreme.abs() * 100.0;
        let holds = match direction {
            Direction::Rises => change >= percent,
            Direction::Falls => change <= -percent,
        };
        Some((holds, format!("{what} is {latest}, {change:+.2} % from {extreme}")))
    }
}

#[cfg(test)]
mod tests {
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
            Self { watcher: Watcher::new(rules.rules, start), start }
        }

        /// Observes a fact `seconds` after the start. Returns the state and the text of the
        /// resulting alert.
        fn at(&mut self, seconds: u64, fact: &Fact) -> Option<(AlertState, String)> {
            let now = self.start + Duration::from_secs(seconds);
            let mut alerts = self.watcher.observe(fact, now);
            assert!(alerts.len() <= 1);
            alerts.pop().map(|alert| (alert.state, alert.text))
        }
    }

    fn rows(points: &[(i64, f64)]) -> Fact {
        let point = |&(seconds, value): &(i64, f64)| Point {
            column: "close".to_owned(),
            micros: seconds * SECOND,
            value,
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
        assert_eq!(rule.at(0, &rows(&[(1, 99.0), (2, 100.0)])), None, "latest row counts");
        assert_eq!(
            rule.at(1, &rows(&[(3, 99.5)])),
            Some(firing("close of btc is 99.5, below 100"))
        );
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
    fn span_of_many_values_uses_bounded_memory() {
        let mut span = Span::new(Duration::from_mins(1));
        for micros in 0..2_000_000 {
            span.add(micros * 100, 1.0);
        }
        assert!(span.parts.len() <= 502, "{}", span.parts.len());
    }

    #[test]
    fn silence_is_measured_since_the_latest_row() {
        let mut rule = Watched::new("dataset = 'btc'\nsilent_for = '5s'");
        assert_eq!(rule.at(4, &Fact::Tick), None);
        assert_eq!(rule.at(4, &rows(&[(1, 1.0)])), None);
        assert_eq!(rule.at(8, &Fact::Tick), None);
        assert_eq!(rule.at(9, &Fact::Tick), Some(firing("no row of btc for 5s")));
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
        rule.watcher = rule.watcher.with_repeat(Some(Duration::from_mins(1)));
        assert!(rule.at(0, &rows(&[(1, 2.0)])).is_some());
        assert_eq!(rule.at(30, &rows(&[(2, 3.0)])), None);
        assert_eq!(rule.at(60, &Fact::Tick), Some(firing("close of btc is 3, above 1")));
        assert_eq!(rule.at(90, &Fact::Tick), None);
    }
}
