//! The Overview screen: the latest bundle of each topic, and the selected row.

use std::collections::BTreeMap;
use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::TopicId;

use crate::event::{Effect, LatestBundle, Timer};
use crate::keymap::Action;
use crate::overlay;
use crate::screens::Screen;
use crate::state::State as Whole;
use crate::state::overlay::moved;
use crate::state::palette::Goal;
use crate::state::resource::{Outcome, Resource};

/// Poll interval of the topics while the Overview screen is in view.
pub(crate) const TOPICS_EVERY: Duration = Duration::from_secs(15);

/// Maximum number of topics. No screen has space for more.
pub(crate) const TOPICS_MAX: usize = 12;

/// Number of panes with rows that can be selected: runs, datasets, topics.
pub(crate) const N_PANES: usize = 3;

/// Maximum number of listed runs.
pub(crate) const RUNS_MAX: usize = 8;

/// The state of the Overview screen.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Index of the selected row, counted over the rows of all panes.
    pub(crate) row: usize,
    /// Latest bundle of each topic.
    pub(crate) topics: BTreeMap<TopicId, Resource<LatestBundle>>,
}

impl State {
    /// Returns the number of the pane that contains the selected row.
    pub(crate) fn pane(&self, n_rows: [usize; N_PANES]) -> usize {
        let mut end = 0;
        let ends = n_rows.map(|n| {
            end += n;
            end
        });
        let last = n_rows.iter().rposition(|n| *n > 0).unwrap_or(0);
        ends.iter().position(|end| self.row < *end).unwrap_or(last)
    }

    /// Records the latest bundle of a topic.
    pub(crate) fn on_latest(
        &mut self,
        topic: TopicId,
        result: Outcome<LatestBundle>,
        now: Timestamp,
    ) {
        if let Some(known) = self.topics.get_mut(&topic) {
            known.settle(result, now);
        }
    }

    /// Performs an action. `n_rows` are the numbers of rows of the panes.
    pub(crate) fn act(&mut self, action: Action, n_rows: [usize; N_PANES]) {
        let n_all: usize = n_rows.iter().sum();
        let pane = self.pane(n_rows);
        match action {
            Action::NextPane | Action::PreviousPane => {
                // Panes without rows are skipped.
                let step = if action == Action::NextPane { 1 } else { N_PANES - 1 };
                let others = (1..=N_PANES).map(|n| (pane + n * step) % N_PANES);
                let has_rows = |pane: &usize| n_rows.get(*pane).is_some_and(|n| *n > 0);
                if let Some(other) = others.into_iter().find(has_rows) {
                    self.enter(other, n_rows);
                }
            }
            _ => self.row = moved(action, self.row.min(n_all.saturating_sub(1)), n_all),
        }
    }

    /// Selects the first row of `pane`, unless the pane is empty.
    pub(crate) fn enter(&mut self, pane: usize, n_rows: [usize; N_PANES]) {
        if n_rows.get(pane).is_some_and(|n| *n > 0) {
            self.row = n_rows.iter().take(pane).sum();
        }
    }
}

/// Requests the latest bundle of each topic and sets the timer for the next request.
pub(crate) fn load_bundles(state: &mut Whole) {
    if state.screen != Screen::Overview {
        return;
    }
    // While any topic has no value yet, the user waits, so bundles are requested more often.
    let is_missing = |topic: &TopicId| {
        state.overview.topics.get(topic).is_none_or(|newest| newest.value().is_none())
    };
    let is_any_missing = state.topic_ids().iter().take(TOPICS_MAX).any(is_missing);
    let wait = if is_any_missing { Duration::from_secs(3) } else { TOPICS_EVERY };
    state.effects.push(Effect::SetTimer(Timer::Overview, wait));
    for topic in state.topic_ids().into_iter().take(TOPICS_MAX) {
        if !state.overview.topics.contains_key(&topic) {
            // A topic's sparkline has fewer columns.
            state.effects.push(Effect::LoadHistory { topic, limit: 120 });
        }
        state.overview.topics.entry(topic).or_default().begin();
        state.effects.push(Effect::LoadLatest { topic, is_resistant: false });
    }
}

/// Requests the latest bundle of each topic. Also requests the list of topics if it is empty, is
/// old, or contains a topic without a closed epoch.
pub(crate) fn load_topics(state: &mut Whole) {
    load_bundles(state);
    let topics = &state.inference.topics;
    let list = topics.value().map_or(&[][..], |list| &list.topics);
    // Until the first epoch of a topic closes, only the list of topics shows its progress. The
    // list is then requested each time.
    let is_first_open = list.is_empty() || list.iter().any(|it| it.last_nonce.is_none());
    // New topics are rare, so the list is otherwise requested once per minute.
    let is_old = topics.age(state.now).is_none_or(|age| age >= Duration::from_mins(1));
    if state.screen == Screen::Overview && (is_first_open || is_old) {
        state.inference.reload_list(state.now);
    }
}

/// Performs an action on the Overview screen. Opening a row has the same effect as opening its entry in
/// the palette.
pub(crate) fn act(state: &mut Whole, action: Action) {
    if action == Action::Open {
        if let Some(goal) = state.overview_rows().into_iter().nth(state.overview.row) {
            overlay::update::reach(state, goal);
        }
        return;
    }
    let counts = state.overview_counts();
    state.overview.act(action, counts);
}

impl Whole {
    /// Returns the target of each row. The left column precedes the right.
    pub(crate) fn overview_rows(&self) -> Vec<Goal> {
        let runs = self.runs.iter().take(RUNS_MAX).map(|run| Goal::Run(run.id));
        let watched = self.data.watched().into_iter();
        let watched = watched.map(|watched| Goal::Dataset(watched.dataset));
        let topics = self.topic_ids().into_iter().take(TOPICS_MAX).map(Goal::Topic);
        runs.chain(watched).chain(topics).collect()
    }

    /// Returns the number of rows in the panes of runs, datasets and topics.
    pub(crate) fn overview_counts(&self) -> [usize; N_PANES] {
        let n_runs = self.runs.iter().len().min(RUNS_MAX);
        [n_runs, self.data.watched().len(), self.topic_ids().len().min(TOPICS_MAX)]
    }

    /// Returns the ids of all listed topics.
    pub(crate) fn topic_ids(&self) -> Vec<TopicId> {
        let topics = self.inference.topics.value().map_or(&[][..], |list| &list.topics);
        topics.iter().filter_map(|topic| TopicId::new(topic.topic_id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keymap::Action;

    #[track_caller]
    fn check(actions: &[Action], n_rows: [usize; N_PANES], want: (usize, usize)) {
        let mut state = State::default();
        for action in actions {
            state.act(*action, n_rows);
        }
        assert_eq!((state.row, state.pane(n_rows)), want);
    }

    #[test]
    fn tab_key_skips_overview_panes_without_rows() {
        let next = Action::NextPane;
        check(&[], [2, 3, 1], (0, 0));
        check(&[next], [2, 3, 1], (2, 1));
        check(&[next, next], [2, 3, 1], (5, 2));
        check(&[next, next, next], [2, 3, 1], (0, 0));
        check(&[Action::PreviousPane], [2, 3, 1], (5, 2));
        check(&[Action::Down, Action::Down], [2, 3, 1], (2, 1));
        check(&[next], [2, 0, 1], (2, 2));
        check(&[next], [0, 0, 0], (0, 0));
    }
}
