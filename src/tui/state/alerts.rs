//! Alerts: the rules of the user's file, and which of them fire.

use alerts::state::{Alert, AlertState};
use model::timestamp::Timestamp;

/// A rule and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// The rules. Those that fire come first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alerts(Vec<WatchedRule>);

impl Alerts {
    /// Replaces the rules after the file was read. Known rules stay muted.
    pub(crate) fn watch(&mut self, names: Vec<String>) {
        let muted: Vec<String> =
            self.0.drain(..).filter(|it| it.is_muted).map(|it| it.name).collect();
        let rule = |name: String| WatchedRule {
            is_muted: muted.contains(&name),
            name,
            text: String::new(),
            changed_at: None,
            is_firing: false,
            is_acknowledged: false,
        };
        self.0 = names.into_iter().map(rule).collect();
    }

    /// Applies an alert. Returns true if the user is to be notified.
    pub(crate) fn update(&mut self, alert: &Alert, now: Timestamp) -> bool {
        let Some(rule) = self.0.iter_mut().find(|rule| rule.name == alert.rule) else {
            return false;
        };
        rule.text.clone_from(&alert.text);
        rule.changed_at = Some(now);
        rule.is_firing = alert.state == AlertState::Firing;
        rule.is_acknowledged = false;
        let is_notified = !rule.is_muted;
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

    /// Acknowledges the rule at `row`.
    pub(crate) fn acknowledge(&mut self, row: usize) {
        if let Some(rule) = self.0.get_mut(row) {
            rule.is_acknowledged = true;
        }
    }

    /// Mutes the rule at `row`, or unmutes it.
    pub(crate) fn mute(&mut self, row: usize) {
        if let Some(rule) = self.0.get_mut(row) {
            rule.is_muted ^= true;
        }
    }
}
