//! Short messages: notices, which are shown for a while and stored to be read later, and alerts of the
//! rules in the user's file.

use std::collections::VecDeque;
use std::time::Duration;

use alerts::state::{Alert, AlertState};
use model::timestamp::Timestamp;

use crate::local::Level;

/// Maximum number of notices shown together. The oldest is evicted.
const NOTICES_MAX: usize = 3;

/// Maximum number of past notices. The oldest is evicted.
const PAST_MAX: usize = 200;

/// Time for which information is shown.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Time for which warnings and errors are shown. They are longer, since they include advice.
const BAD_SHOWN_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Reason and advice below the text. Can be empty.
    pub(crate) detail: String,
    pub(crate) at: Timestamp,
    /// Time until which the notice is shown, or `None` if it is hidden.
    pub(crate) until: Option<Timestamp>,
}

/// The notices, latest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices(VecDeque<Notice>);

impl Notices {
    /// Returns the time until which a notice is shown from `now` on.
    pub(crate) fn until(level: Level, now: Timestamp) -> Timestamp {
        now + if level >= Level::Warn { BAD_SHOWN_FOR } else { SHOWN_FOR }
    }

    /// Adds a notice, which replaces a shown one with the same text.
    pub(crate) fn add(&mut self, notice: Notice) {
        self.0.iter_mut().filter(|it| it.text == notice.text).for_each(|it| it.until = None);
        self.0.push_front(notice);
        self.0.truncate(PAST_MAX);
        let shown = self.0.iter_mut().filter(|it| it.until.is_some());
        shown.skip(NOTICES_MAX).for_each(|it| it.until = None);
    }

    /// Hides expired notices. Returns the time until the next one expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.iter_mut().for_each(|it| it.until = it.until.filter(|until| *until > now));
        self.iter().filter_map(|it| it.until).min().map(|until| until.since(now))
    }

    /// Hides all notices. Returns true if there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.iter().next().is_some();
        self.0.iter_mut().for_each(|it| it.until = None);
        was
    }

    /// Returns all notices, latest first.
    pub(crate) fn past(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.0.iter()
    }

    /// Returns the visible notices, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.0.iter().rev().filter(|it| it.until.is_some())
    }
}

/// A rule and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct WatchedRule {
    pub(crate) name: String,
    /// Reason of the latest change. Empty before the first one.
    pub(crate) text: String,
    /// Time of the latest change, if there was one.
    pub(crate) changed_at: Option<Timestamp>,
    pub(crate) is_firing: bool,
    /// True if the user has seen that the rule fires.
    pub(crate) is_acknowledged: bool,
    /// True if the user wants no notifications of the rule in this session.
    pub(crate) is_muted: bool,
    /// False if its service is not configured.
    pub(crate) is_watched: bool,
}

/// The rules. Those that fire come first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alerts(Vec<WatchedRule>);

impl Alerts {
    /// Replaces the rules after the file was read: those that are watched and the others. Known rules
    /// stay muted. They also keep their state if the watch `continues`.
    pub(crate) fn watch(&mut self, watched: Vec<String>, others: Vec<String>, continues: bool) {
        let known = std::mem::take(&mut self.0);
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
                },
            }
        };
        let watched = watched.into_iter().map(|name| rule(name, true));
        self.0 = watched.chain(others.into_iter().map(|name| rule(name, false))).collect();
        self.0.sort_by_key(|rule| !rule.is_firing);
    }

    /// Applies an alert. Returns true if the user is to be notified.
    pub(crate) fn update(&mut self, alert: &Alert, now: Timestamp) -> bool {
        let Some(rule) = self.0.iter_mut().find(|rule| rule.name == alert.rule) else {
            return false;
        };
        rule.text.clone_from(&alert.text);
        let is_firing = alert.state == AlertState::Firing;
        if rule.is_firing != is_firing {
            rule.changed_at = Some(now);
            rule.is_acknowledged = false;
        }
        rule.is_firing = is_firing;
        // A repeated alert that the user has seen is not of interest.
        let is_notified = !rule.is_muted && !rule.is_acknowledged;
        self.0.sort_by_key(|rule| !rule.is_firing);
        is_notified
    }

    /// Returns all rules.
    pub(crate) fn rules(&self) -> &[WatchedRule] {
        &self.0
    }

    /// Returns the rules that fire.
    pub(crate) fn firing(&self) -> impl Iterator<Item = &WatchedRule> {
        self.0.iter().take_while(|rule| rule.is_firing)
    }

    /// Returns the row of the rule `name`, or of the first rule.
    pub(crate) fn row(&self, name: Option<&str>) -> usize {
        self.0.iter().position(|rule| Some(&*rule.name) == name).unwrap_or(0)
    }

    /// Returns the rule `name`, or the first rule.
    pub(crate) fn rule_mut(&mut self, name: Option<&str>) -> Option<&mut WatchedRule> {
        let row = self.row(name);
        self.0.get_mut(row)
    }
}
