//! A file of rules in the format TOML.
//!
//! A rule names a subject (`dataset`, `topic` or `service`) and a single condition on it. The
//! conditions and their keys are described at [`Condition`].

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use model::count::counted;
use model::text::line_of;
use model::topic::TopicId;
use serde::{Deserialize, Serialize};

/// Maximum number of rules in a file.
pub const RULES_MAX: usize = 1_000;

/// Rules and the notifications that are sent for them.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// Recipients of the notifications.
    pub notify: Notify,
}

/// A rule with its name and its condition. The rule fires while the condition holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Name of the rule, unique in its file.
    pub name: String,
    /// Condition under which the rule fires.
    pub condition: Condition,
}

/// The condition of a rule.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// The latest value of a column is outside of the limits: `dataset`, `column`, `above`, `below`.
    Level {
        /// Name or id of the dataset.
        dataset: String,
        /// Column of numbers.
        column: String,
        /// Holds for values above this.
        above: Option<f64>,
        /// Holds for values below this.
        below: Option<f64>,
    },
    /// A value has changed within a span of time: `dataset`, `column`, `rises` or `falls`,
    /// `within`.
    Change {
        /// Name or id of the dataset.
        dataset: String,
        /// Column of numbers.
        column: String,
        /// Direction of the change.
        direction: Direction,
        /// Minimum change, as a percentage of the lowest or highest value within the span.
        percent: f64,
        /// Length of the span, measured by the timestamps of rows.
        within: Duration,
    },
    /// No row has arrived for some time: `dataset`, `silent_for`.
    Silence {
        /// Name or id of the dataset.
        dataset: String,
        /// Minimum time without a row.
        silent_for: Duration,
    },
    /// An actor has missed consecutive epochs: `topic`, `actor`, `misses`.
    Missed {
        /// Topic in which the actor submits.
        topic: TopicId,
        /// Name or address of the actor.
        actor: String,
        /// Minimum number of missed epochs.
        misses: u64,
    },
    /// The weight of an actor in the combined value is low: `topic`, `actor`, `weight_below`.
    Weight {
        /// Topic in which the actor submits.
        topic: TopicId,
        /// Name or address of the actor.
        actor: String,
        /// Holds for weights below this, from 0 to 1.
        below: f64,
    },
    /// The rank of an actor on the leaderboard is bad: `topic`, `actor`, `rank_worse_than`.
    Rank {
        /// Topic in which the actor submits.
        topic: TopicId,
        /// Name or address of the actor.
        actor: String,
        /// Holds for ranks greater than this. The best rank is 1.
        worse_than: u64,
    },
    /// A service has not responded for some time: `service`, `down_for`.
    Down {
        /// Service that must respond.
        service: Service,
        /// Minimum time without a response.
        down_for: Duration,
    },
    /// The workers of an execution disagree: `service = "head"`, `agreement_below`.
    Agreement {
        /// Holds if the largest result group contains a smaller percentage of the peers than this.
        below: f64,
    },
}

impl Condition {
    /// Returns the service that provides the facts for this condition.
    #[must_use]
    pub fn service(&self) -> Service {
        match self {
            Self::Level { .. } | Self::Change { .. } | Self::Silence { .. } => Service::Datasets,
            Self::Missed { .. } | Self::Weight { .. } | Self::Rank { .. } => Service::Inference,
            Self::Down { service, .. } => *service,
            Self::Agreement { .. } => Service::Head,
        }
    }

    /// Returns the name or id of the dataset, if the condition concerns one.
    pub(crate) fn dataset(&self) -> Option<&str> {
        match self {
            Self::Level { dataset, .. }
            | Self::Change { dataset, .. }
            | Self::Silence { dataset, .. } => Some(dataset),
            _ => None,
        }
    }

    /// Returns the column, if the condition concerns one.
    pub(crate) fn column(&self) -> Option<&String> {
        match self {
            Self::Level { column, .. } | Self::Change { column, .. } => Some(column),
            _ => None,
        }
    }

    /// Returns the topic, if the condition concerns one.
    pub(crate) fn topic(&self) -> Option<TopicId> {
        match self {
            Self::Missed { topic, .. } | Self::Weight { topic, .. } | Self::Rank { topic, .. } => {
                Some(*topic)
            }
            _ => None,
        }
    }
}

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest value within the span to the latest value.
    Rises,
    /// From the highest value within the span to the latest value.
    Falls,
}

/// A service whose data a rule needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Head of a cluster.
    Head,
    /// Service for rows of datasets.
    Datasets,
    /// Service for topics and their epochs.
    Inference,
}

impl Service {
    /// Returns the name of the service.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Datasets => "dataset service",
            Self::Inference => "inference service",
        }
    }
}

/// Recipients of alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify {
    /// Program and its arguments, executed for each alert. Empty for no command.
    pub command: Vec<String>,
    /// Address to which each alert is posted. `None` for no webhook.
    pub webhook: Option<String>,
    /// Interval at which the alert of a rule is sent again while the rule fires. `None` to send it
    /// only once.
    pub repeat: Option<Duration>,
}

/// An error in a file of rules.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The file is not valid TOML, or a key is unknown. The error does not repeat lines of the
    /// file, since they can contain the address of a webhook.
    #[error("line {line}: {problem}")]
    Toml {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// A rule is invalid.
    #[error("rule {place}: {problem}")]
    Rule {
        /// Number of the rule within the file, from 1, and its name.
        place: String,
        /// Description of the problem.
        problem: String,
    },
    /// The notifications are invalid.
    #[error("notify: {problem}")]
    Notify {
        /// Description of the problem.
        problem: String,
    },
    /// The file has no rules or too many.
    #[error("file has {n_rules} rules, expected 1 to {RULES_MAX}")]
    Count {
        /// Number of rules.
        n_rules: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rules: Vec<RuleEntry>,
    #[serde(default)]
    notify: NotifyEntry,
}

/// A rule as it is written in the file, with the keys of all conditions.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    name: Option<String>,
    dataset: Option<String>,
    column: Option<String>,
    above: Option<f64>,
    below: Option<f64>,
    rises: Option<f64>,
    falls: Option<f64>,
    within: Option<String>,
    silent_for: Option<String>,
    topic: Option<u64>,
    actor: Option<String>,
    misses: Option<u64>,
    weight_below: Option<f64>,
    rank_worse_than: Option<u64>,
    service: Option<Service>,
    down_for: Option<String>,
    agreement_below: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NotifyEntry {
    command: Vec<String>,
    webhook: Option<String>,
    repeat: Option<String>,
}

impl FromStr for Rules {
    type Err = RulesError;

    fn from_str(text: &str) -> Result<Self, RulesError> {
        let file: RulesFile = toml::from_str(text).map_err(|error| toml_error(text, &error))?;
        if file.rules.is_empty() || file.rules.len() > RULES_MAX {
            return Err(RulesError::Count { n_rules: file.rules.len() });
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(file.rules.len());
        let mut places = BTreeMap::new();
        for (mut entry, number) in file.rules.into_iter().zip(1..) {
            let name = entry.name.take();
            let place = match &name {
                Some(name) => format!("{number} ({name})"),
                None => number.to_string(),
            };
            let error = |problem| RulesError::Rule { place: place.clone(), problem };
            let condition = condition_of(entry).map_err(error)?;
            let name = name.unwrap_or_else(|| condition.to_string());
            if let Some(other) = places.insert(name.clone(), number) {
                return Err(error(format!("has the same name as rule {other}")));
            }
            rules.push(Rule { name, condition });
        }
        let notify = notify_of(file.notify).map_err(|problem| RulesError::Notify { problem })?;
        Ok(Self { rules, notify })
    }
}

/// Returns a rule as a section that can be appended to a file. `keys` are its keys in the form of
/// an inline table, such as `dataset = "btcusd", silent_for = "2m"`.
///
/// # Errors
/// If the rule is invalid.
pub fn section_of(keys: &str) -> Result<String, RulesError> {
    let file = format!("rules = [{{ {keys} }}]");
    file.parse::<Rules>()?;
    let table: toml::Table = toml::from_str(&file).map_err(|error| toml_error(&file, &error))?;
    Ok(table.to_string())
}

fn toml_error(text: &str, error: &toml::de::Error) -> RulesError {
    let line = line_of(text, error.span().unwrap_or_default().start);
    RulesError::Toml { line, problem: error.message().to_owned() }
}

fn notify_of(entry: NotifyEntry) -> Result<Notify, String> {
    if let Some(address) = &entry.webhook
        && !(address.starts_with("http://") || address.starts_with("https://"))
    {
        return Err("webhook is not an address that begins with http:// or https://".to_owned());
    }
    let repeat = entry.repeat.map(|text| duration(&text, "repeat")).transpose()?;
    Ok(Notify { command: entry.command, webhook: entry.webhook, repeat })
}

/// Returns the condition of a rule. Fails if the rule has a key that does not belong to this
/// condition.
fn condition_of(mut entry: RuleEntry) -> Result<Condition, String> {
    let condition = match (entry.dataset.take(), entry.topic.take(), entry.service.take()) {
        (Some(dataset), None, None) => of_dataset(dataset, &mut entry)?,
        (None, Some(topic), None) => of_topic(topic, &mut entry)?,
        (None, None, Some(service)) => of_service(service, &mut entry)?,
        _ => return Err("expected one of dataset, topic and service".to_owned()),
    };
    // Keys without a value are not serialized.
    let remaining = toml::Table::try_from(&entry).map_err(|error| error.to_string())?;
    match remaining.keys().next() {
        Some(key) => Err(format!("{key} does not belong to this condition")),
        None => Ok(condition),
    }
}

fn of_dataset(dataset: String, entry: &mut RuleEntry) -> Result<Condition, String> {
    if let Some(silent_for) = entry.silent_for.take() {
        return Ok(Condition::Silence {
            dataset,
            silent_for: duration(&silent_for, "silent_for")?,
        });
    }
    let column = entry.column.take().ok_or("column is missing")?;
    let changes = [(entry.rises.take(), Direction::Rises), (entry.falls.take(), Direction::Falls)];
    if let Some((percent, direction)) =
        changes.into_iter().find_map(|(percent, direction)| Some((percent?, direction)))
    {
        if !(percent > 0.0 && percent.is_finite()) {
            return Err("rises or falls is not a positive percentage".to_owned());
        }
        let within = entry.within.take().ok_or("within is missing, such as within = \"10m\"")?;
        let within = duration(&within, "within")?;
        return Ok(Condition::Change { dataset, column, direction, percent, within });
    }
    let (above, below) = (entry.above.take(), entry.below.take());
    if above.is_none() && below.is_none() {
        return Err("expected one of above, below, rises, falls and silent_for".to_owned());
    }
    if above.into_iter().chain(below).any(|limit| !limit.is_finite()) {
        return Err("above or below is not a finite number".to_owned());
    }
    Ok(Condition::Level { dataset, column, above, below })
}

fn of_topic(topic: u64, entry: &mut RuleEntry) -> Result<Condition, String> {
    let topic = TopicId::new(topic).ok_or("topic is not an id from 1")?;
    let actor = entry.actor.take().ok_or("actor is missing: its name or address")?;
    if let Some(misses) = entry.misses.take() {
        return match misses {
            0 => Err("misses is 0, expected at least 1".to_owned()),
            _ => Ok(Condition::Missed { topic, actor, misses }),
        };
    }
    if let Some(below) = entry.weight_below.take() {
        return match below {
            0.0..=1.0 => Ok(Condition::Weight { topic, actor, below }),
            _ => Err("weight_below is not between 0 and 1".to_owned()),
        };
    }
    let worse_than = entry.rank_worse_than.take();
    let worse_than = worse_than.ok_or("expected one of misses, weight_below, rank_worse_than")?;
    Ok(Condition::Rank { topic, actor, worse_than })
}

fn of_service(service: Service, entry: &mut RuleEntry) -> Result<Condition, String> {
    if let Some(below) = entry.agreement_below.take() {
        return match (service, below) {
            (Service::Head, 0.0..=100.0) => Ok(Condition::Agreement { below }),
            (Service::Head, _) => Err("agreement_below is not between 0 and 100".to_owned()),
            _ => Err("agreement_below belongs to service = \"head\"".to_owned()),
        };
    }
    let down_for = entry.down_for.take().ok_or("expected down_for or agreement_below")?;
    Ok(Condition::Down { service, down_for: duration(&down_for, "down_for")? })
}

/// Parses a positive duration, such as `10s`, `5m` or `1h 30m`.
fn duration(text: &str, key: &str) -> Result<Duration, String> {
    let Ok(span) = text.parse::<SignedDuration>() else {
        let expected = "a duration such as \"30s\" or \"1h 30m\", with the units h, m and s";
        return Err(format!("{key} is not {expected}"));
    };
    let span = Duration::try_from(span).ok().filter(|span| *span > Duration::ZERO);
    span.ok_or_else(|| format!("{key} is not positive"))
}

/// Formats a duration in whole seconds, such as `2m 5s`.
pub(crate) fn format_duration(duration: Duration) -> String {
    let whole = Duration::from_secs(duration.as_secs());
    let span = SignedDuration::try_from(whole).unwrap_or(SignedDuration::MAX);
    format!("{span:#}")
}

impl std::fmt::Display for Condition {
    /// Writes a short description of the condition, which is the default name of a rule.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Level { dataset, column, above, below } => {
                write!(f, "{dataset} {column}")?;
                above.map_or(Ok(()), |limit| write!(f, " above {limit}"))?;
                let or = if above.is_some() { " or" } else { "" };
                below.map_or(Ok(()), |limit| write!(f, "{or} below {limit}"))
            }
            Self::Change { dataset, column, direction, percent, within } => {
                let direction = match direction {
                    Direction::Rises => "rises",
                    Direction::Falls => "falls",
                };
                let within = format_duration(*within);
                write!(f, "{dataset} {column} {direction} {percent} % within {within}")
            }
            Self::Silence { dataset, silent_for } => {
                write!(f, "{dataset} silent for {}", format_duration(*silent_for))
            }
            Self::Missed { topic, actor, misses } => {
                write!(f, "{actor} misses {} of topic {topic}", counted(*misses, "epoch"))
            }
            Self::Weight { topic, actor, below } => {
                write!(f, "weight of {actor} in topic {topic} below {below}")
            }
            Self::Rank { topic, actor, worse_than } => {
                write!(f, "rank of {actor} in topic {topic} worse than {worse_than}")
            }
            Self::Down { service, down_for } => {
                write!(f, "{} down for {}", service.name(), format_duration(*down_for))
            }
            Self::Agreement { below } => write!(f, "agreement of workers below {below} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<Rules, String> {
        text.parse().map_err(|error: RulesError| error.to_string())
    }

    #[test]
    fn rule_without_a_name_gets_a_default_name() {
        let file = "
            [notify]
            command = ['notify-send', 'Triptych']
            repeat = '1h'
            [[rules]]
            dataset = 'btcusd'
            column = 'close'
            above = 70000
            below = 60000.5
            [[rules]]
            dataset = 'btcusd'
            column = 'close'
            falls = 2
            within = '10m'
            [[rules]]
            dataset = 'btcusd'
            silent_for = '1m 30s'
            [[rules]]
            topic = 1
            actor = 'mine'
            misses = 3
            [[rules]]
            name = 'cluster'
            service = 'head'
            down_for = '10s'";
        let read = rules(file).unwrap();
        let names: Vec<_> = read.rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "btcusd close above 70000 or below 60000.5",
                "btcusd close falls 2 % within 10m",
                "btcusd silent for 1m 30s",
                "mine misses 3 epochs of topic 1",
                "cluster",
            ]
        );
        assert_eq!(read.notify.repeat, Some(Duration::from_hours(1)));
    }

    #[test]
    fn rule_is_formatted_as_a_toml_section() {
        let section = section_of("dataset = 'btcusd', silent_for = '2m'").unwrap();
        assert_eq!(section, "[[rules]]\ndataset = \"btcusd\"\nsilent_for = \"2m\"\n");
        section_of("dataset = 'btcusd'").unwrap_err();
    }

    #[test]
    fn invalid_rule_is_rejected_with_its_number_and_name() {
        let cases = [
            ("", "file has 0 rules, expected 1 to 1000"),
            ("[[rules]]\nname = 'a'", "rule 1 (a): expected one of dataset, topic and service"),
            ("[[rules]]\ndataset = 'a'", "rule 1: column is missing"),
            (
                "[[rules]]\ndataset = 'a'\ncolumn = 'b'",
                "rule 1: expected one of above, below, rises, falls and silent_for",
            ),
            (
                "[[rules]]\ndataset = 'a'\ncolumn = 'b'\nrises = 1",
                "rule 1: within is missing, such as within = \"10m\"",
            ),
            (
                "[[rules]]\ndataset = 'a'\nsilent_for = 'ten'",
                "rule 1: silent_for is not a duration such as \"30s\" or \"1h 30m\", with the units h, m \
                 and s",
            ),
            ("[[rules]]\nservice = 'head'\ndown_for = '0s'", "rule 1: down_for is not positive"),
            (
                "[[rules]]\ndataset = 'a'\nsilent_for = '1m'\nabove = 1",
                "rule 1: above does not belong to this condition",
            ),
            (
                "[[rules]]\nservice = 'inference'\nagreement_below = 50",
                "rule 1: agreement_below belongs to service = \"head\"",
            ),
            ("[[rules]]\ntopic = 0\nactor = 'a'\nmisses = 1", "rule 1: topic is not an id from 1"),
            (
                "[notify]\nwebhook = 'ftp://a'\n[[rules]]\nservice = 'head'\ndown_for = '1s'",
                "notify: webhook is not an address that begins with http:// or https://",
            ),
            (
                "[[rules]]\nservice = 'head'\ndown_for = '1s'\n[[rules]]\nservice = 'head'\ndown_for = '1s'",
                "rule 2: has the same name as rule 1",
            ),
        ];
        for (file, want) in cases {
            assert_eq!(rules(file).unwrap_err(), want, "{file}");
        }
        let error = rules("[[rules]]\nabov = 1").unwrap_err();
        assert!(error.contains("unknown field `abov`"), "{error}");
    }
}
