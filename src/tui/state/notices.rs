//! Short messages: notices, which are displayed for some seconds and can be read later, and alerts
//! of the rules in the user's file.

use std::collections::VecDeque;
use std::time::Duration;

use alerts::state::{Alert, AlertState};
use model::timestamp::Timestamp;

use crate::local::Level;
use crate::state::resource::Failure;

/// Maximum number of notices that are displayed together. The oldest is hidden.
const NOTICES_MAX: usize = 3;

/// Maximum number of past notices. The oldest is evicted.
const PAST_MAX: usize = 200;

/// Duration for which information is displayed.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Duration for which warnings and errors are displayed. They are longer texts, with advice.
const BAD_SHOWN_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Reason and advice, displayed below the text. Can be empty.
    pub(crate) detail: String,
    pub(crate) at: Timestamp,
    /// Time at which the notice is hidden. `None` if it is hidden already.
    pub(crate) until: Option<Timestamp>,
}

/// Displayed and past notices, latest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices(VecDeque<Notice>);

impl Notices {
    /// Returns the time at which a notice added at `now` is hidden.
    pub(crate) fn until(level: Level, now: Timestamp) -> Timestamp {
        now + if level >= Level::Warn { BAD_SHOWN_FOR } else { SHOWN_FOR }
    }

    /// Adds a notice. Hides a displayed notice with the same text.
    pub(crate) fn add(&mut self, notice: Notice) {
        self.0.iter_mut().filter(|it| it.text == notice.text).for_each(|it| it.until = None);
        self.0.push_front(notice);
        self.0.truncate(PAST_MAX);
        let shown = self.0.iter_mut().filter(|it| it.until.is_some());
        shown.skip(NOTICES_MAX).for_each(|it| it.until = None);
    }

    /// Hides expired notices. Returns the time until the next notice expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.iter_mut().for_each(|it| it.until = it.until.filter(|until| *until > now));
        self.iter().filter_map(|it| it.until).min().map(|until| until.since(now))
    }

    /// Hides all notices. Returns false if none was displayed.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.iter().next().is_some();
        self.0.iter_mut().for_each(|it| it.until = None);
        was
    }

    /// Returns all notices, displayed or hidden, latest first.
    pub(crate) fn past(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.0.iter()
    }

    /// Returns the displayed notices, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.0.iter().rev().filter(|it| it.until.is_some())
    }
}

/// A rule, its state and the user's reaction to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct WatchedRule {
    pub(crate) name: String,
    /// Description of the last change of state. Empty before the first change.
    pub(crate) text: String,
    /// Time of the last change of state. `None` before the first change.
    pub(crate) changed_at: Option<Timestamp>,
    pub(crate) is_firing: bool,
    /// True if the user has acknowledged that the rule fires.
    pub(crate) is_acknowledged: bool,
    /// True if the user wants no notifications of the rule during this session.
    pub(crate) is_muted: bool,
    /// False if the rule needs a service that is not configured.
    pub(crate) is_watched: bool,
    /// Reason why data for the rule is missing. `None` if it arrives.
    pub(crate) problem: Option<String>,
}

/// The rules. Firing rules are first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alerts {
    rules: Vec<WatchedRule>,
    /// Reason why the file of rules cannot be read. No rule is watched then.
    pub(crate) failure: Option<Failure>,
}

impl Alerts {
    /// Replaces the rules by the rules in the file: `watched`, and `others` that need a service that is
    /// not configured. Rules with a known name remain muted. If `continues` is true, watched rules also
    /// keep their state.
    pub(crate) fn watch(&mut self, watched: Vec<String>, others: Vec<String>, continues: bool) {
        let known = std::mem::take(self).rules;
        let rule = |name: String, is_watched: bool| {
            let known = known.iter().find(|it| it.name == name);
            match known.filter(|_| continues && is_watched) {
                Some(known) => known.clone(),
                None => WatchedRule {
                    is_muted: known.is_some_and(|it| it.is_muted),
                    name,
                    text: String::new(),
                    changed_at: None,
                    is_firing: false,
                    is_acknowledged: false,
                    is_watched,
                    problem: None,
                },
            }
        };
        let watched = watched.into_iter().map(|name| rule(name, true));
        self.rules = watched.chain(others.into_iter().map(|name| rule(name, false))).collect();
        self.rules.sort_by_key(|rule| !rule.is_firing);
    }

    /// Applies an alert to its rule. Returns true if the user is to be notified.
    pub(crate) fn update(&mut self, alert: &Alert, now: Timestamp) -> bool {
        let Some(rule) = self.rules.iter_mut().find(|rule| rule.name == alert.rule) else {
            return false;
        };
        rule.text.clone_from(&alert.text);
        let is_firing = alert.state == AlertState::Firing;
        if rule.is_firing != is_firing {
            rule.changed_at = Some(now);
            rule.is_acknowledged = false;
        }
        rule.is_firing = is_firing;
        // A firing rule sends its alert repeatedly. The user is not notified again after
        // acknowledging it.
        let is_notified = !rule.is_muted && !rule.is_acknowledged;
        self.rules.sort_by_key(|rule| !rule.is_firing);
        is_notified
    }

    /// Sets the reason why data for the rules `names` is missing, or `None` if it arrives.
    pub(crate) fn set_problem(&mut self, names: &[String], problem: Option<&str>) {
        for rule in self.rules.iter_mut().filter(|rule| names.contains(&rule.name)) {
            rule.problem = problem.map(str::to_owned);
        }
    }

    /// Returns all rules.
    pub(crate) fn rules(&self) -> &[WatchedRule] {
        &self.rules
    }

    /// Returns the rules that fire.
    pub(crate) fn firing(&self) -> impl Iterator<Item = &WatchedRule> {
        self.rules.iter().take_while(|rule| rule.is_firing)
    }

    /// Returns the row of the rule `name`. If there is no such rule, returns the first row.
    pub(crate) fn row(&self, name: Option<&str>) -> usize {
        self.rules.iter().position(|rule| Some(&*rule.name) == name).unwrap_or(0)
    }

    /// Returns the rule `name`. If there is no such rule, returns the first rule.
    pub(crate) fn rule_mut(&mut self, name: Option<&str>) -> Option<&mut WatchedRule> {
        let row = self.row(name);
        self.rules.get_mut(row)
    }
}
