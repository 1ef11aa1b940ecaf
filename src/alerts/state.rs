//! Decides which rules fire, given facts about the services. It does no I/O and reads no clock.

mod values;

use std::mem::replace;
use std::ops::RangeInclusive;
use std::time::Duration;

use model::count::counted;
use model::topic::TopicId;
use serde::Serialize;
use tokio::time::Instant;

use self::values::Values;
use crate::rules::{Condition, Rule, Service, format_duration};

/// A fact about the services.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// Time has passed. This must be observed at least once a second.
    Tick,
    /// Rows were stored before the watch began, in any order. They replace all earlier rows of the
    /// dataset, and are judged as a whole.
    History {
        /// Name or id of the dataset, as in the rules.
        dataset: String,
        /// Values of the rows with their columns and timestamps.
        points: Vec<Point>,
    },
    /// Rows have arrived, in any order.
    Rows {
        /// Name or id of the dataset, as in the rules.
        dataset: String,
        /// Values of the rows with their columns and timestamps.
        points: Vec<Point>,
    },
    /// Rows were deleted.
    Deletion {
        /// Name or id of the dataset, as in the rules.
        dataset: String,
        /// First and last deleted timestamp in microseconds.
        micros: RangeInclusive<i64>,
    },
    /// A bundle of a topic was completed.
    Epoch {
        /// Topic to which the epoch belongs.
        topic: TopicId,
        /// Block at which the epoch opened.
        nonce: u64,
        /// Actors with a value in the bundle.
        actors: Vec<Actor>,
    },
    /// Epochs of a topic closed without a bundle, so all actors missed them.
    NoBundle {
        /// Topic to which the epochs belong.
        topic: TopicId,
        /// Block at which the latest of these epochs opened.
        nonce: u64,
        /// Number of these epochs.
        n_epochs: u64,
    },
    /// Actors of a topic with their ranks, as far as they have ranks.
    Ranks {
        /// Topic on whose leaderboard the actors are.
        topic: TopicId,
        /// Address, name and rank of each actor.
        ranks: Vec<(String, Option<String>, Option<u64>)>,
    },
    /// A service has responded, or has failed for the reason `failure`.
    Health {
        /// Service that was asked for its health.
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
    /// The value. `None` if it is missing or not a number.
    pub value: Option<f64>,
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
    Values(Values),
    /// Time of the last row or response.
    Since(Instant),
    Misses {
        nonce: Option<u64>,
        n_missed: u64,
    },
}

/// True if a condition holds, and the reason. `None` if a fact does not decide the condition.
type Judgment = Option<(bool, String)>;

impl Watcher {
    /// Creates a watcher of rules, none of which fires. All durations begin at `now`. The alert of a
    /// firing rule is repeated at the interval `repeat`.
    #[must_use]
    pub fn new(rules: Vec<Rule>, repeat: Option<Duration>, now: Instant) -> Self {
        let watched = |rule: Rule| WatchedRule {
            memory: Memory::new(&rule.condition, now),
            rule,
            notified_at: None,
            text: String::new(),
        };
        Self { rules: rules.into_iter().map(watched).collect(), repeat }
    }

    /// Replaces the rules and the interval of repeated alerts. Rules with a known name still fire.
    /// With the same condition, they also remember earlier facts.
    pub fn replace_rules(&mut self, rules: Vec<Rule>, repeat: Option<Duration>, now: Instant) {
        let mut known = replace(self, Self::new(rules, repeat, now)).rules;
        for new in &mut self.rules {
            let Some(idx) = known.iter().position(|it| it.rule.name == new.rule.name) else {
                continue;
            };
            let known = known.swap_remove(idx);
            (new.notified_at, new.text) = (known.notified_at, known.text);
            if known.rule == new.rule {
                new.memory = known.memory;
            }
        }
    }

    /// Returns the rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|watched| &watched.rule)
    }

    /// Updates the rules by a fact that was observed at `now`. Returns the resulting alerts.
    pub fn observe(&mut self, fact: &Fact, now: Instant) -> Vec<Alert> {
        let repeat = self.repeat;
        self.rules.iter_mut().flat_map(|rule| rule.observe(fact, now, repeat)).collect()
    }
}

impl WatchedRule {
    /// Returns the alerts that result from a fact: at most one that fires and one that is resolved.
    fn observe(&mut self, fact: &Fact, now: Instant, repeat: Option<Duration>) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let (spike, judgment) = self.memory.judge(&self.rule.condition, fact, now);
        if self.notified_at.is_none() && matches!(judgment, Some((false, _))) {
            alerts.extend(self.change(spike, now, repeat));
        }
        alerts.extend(self.change(judgment, now, repeat));
        alerts
    }

    fn change(
        &mut self,
        judgment: Judgment,
        now: Instant,
        repeat: Option<Duration>,
    ) -> Option<Alert> {
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
            Condition::Level { .. } => Self::Values(Values::new(Duration::MAX)),
            Condition::Change { within, .. } => Self::Values(Values::new(*within)),
            Condition::Silence { .. } | Condition::Down { .. } => Self::Since(now),
            Condition::Missed { .. } => Self::Misses { nonce: None, n_missed: 0 },
            _ => Self::None,
        }
    }

    /// Judges the condition by a fact. First returns the judgment of the first of several rows for
    /// which the condition holds, then the judgment of the whole fact.
    fn judge(&mut self, condition: &Condition, fact: &Fact, now: Instant) -> (Judgment, Judgment) {
        match (condition, fact, self) {
            (
                Condition::Level { dataset: of, column, .. }
                | Condition::Change { dataset: of, column, .. },
                Fact::Rows { dataset, points },
                Self::Values(values),
            ) if of == dataset => {
                let mut points: Vec<&Point> =
                    points.iter().filter(|point| point.column == *column).collect();
                points.sort_by_key(|point| point.micros);
                let mut spike = None;
                for point in &points {
                    values.set(point.micros, point.value);
                    if spike.is_none() && values.satisfy(condition) {
                        spike = Some(values.judge(condition));
                    }
                }
                (spike, (!points.is_empty()).then(|| values.judge(condition)))
            }
            (condition, fact, memory) => (None, memory.judge_once(condition, fact, now)),
        }
    }

    fn judge_once(&mut self, condition: &Condition, fact: &Fact, now: Instant) -> Judgment {
        match (condition, fact, self) {
            (
                Condition::Level { dataset: of, column, .. }
                | Condition::Change { dataset: of, column, .. },
                Fact::History { dataset, points },
                Self::Values(values),
            ) if of == dataset => {
                values.delete(&(i64::MIN..=i64::MAX));
                for point in points.iter().filter(|point| point.column == *column) {
                    values.set(point.micros, point.value);
                }
                Some(values.judge(condition))
            }
            (
                Condition::Level { dataset: of, .. } | Condition::Change { dataset: of, .. },
                Fact::Deletion { dataset, micros },
                Self::Values(values),
            ) if of == dataset => {
                values.delete(micros);
                Some(values.judge(condition))
            }
            (Condition::Silence { dataset: of, silent_for }, fact, Self::Since(last)) => {
                if matches!(fact, Fact::Rows { dataset, .. } if of == dataset) {
                    *last = now;
                    return Some((false, format!("rows of {of} arrive again")));
                }
                let silence = now.duration_since(*last);
                let text = format!("no row of {of} received for {}", format_duration(silence));
                (silence >= *silent_for).then_some((true, text))
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
                judge_missed(actor, *n_missed, *misses, *topic, *nonce)
            }
            (
                Condition::Missed { topic: of, actor, misses },
                Fact::NoBundle { topic, nonce, n_epochs },
                Self::Misses { n_missed, .. },
            ) if of == topic => {
                *n_missed += n_epochs;
                judge_missed(actor, *n_missed, *misses, *topic, *nonce)
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

fn judge_missed(actor: &str, n_missed: u64, misses: u64, topic: TopicId, nonce: u64) -> Judgment {
    let epochs = counted(n_missed, "epoch");
    let text = format!("{actor} missed {epochs} of topic {topic}, up to {nonce}");
    (n_missed >= misses).then_some((true, text))
}

#[cfg(test)]
mod tests;
