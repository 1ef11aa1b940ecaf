//! Start here, in place of runs and results until there is a run: its names can be selected and opened.

use model::topic::TopicId;

use crate::{
    action::Action,
    event::Target,
    overlay::{palette::state::Goal, update::reach},
    screens::{Screen, cluster::state::Pane},
    state::{
        State,
        navigation::{Steps as _, moved},
    },
};

/// Names in each list of Start here. The screens have all of them.
pub(crate) const NAMES_MAX: usize = 8;

/// The lowest terminal on which the lists have room below the steps.
const HEIGHT_MIN: u16 = 30;

impl State {
    /// True if Start here is in view and its names can be selected.
    fn is_start_open(&self) -> bool {
        let has_room = self.size.1 >= HEIGHT_MIN || self.is_zoomed;
        self.screen == Screen::Cluster && self.runs.newest().is_none() && has_room
    }

    /// What the names of Start here open: functions, datasets, topics.
    pub(crate) fn start_goals(&self) -> [Vec<Goal>; 3] {
        let functions = self.execute.form.functions.iter().take(NAMES_MAX);
        let datasets = self.data.list().iter().take(NAMES_MAX);
        let topics = self.inference.topics.value().map_or(&[][..], |list| &list.topics);
        let topics = topics.iter().filter_map(|topic| TopicId::new(topic.topic_id));
        [
            functions.map(|it| Goal::Function(it.function_id.clone(), it.method.clone())).collect(),
            datasets.map(|dataset| Goal::Dataset(dataset.id)).collect(),
            topics.take(NAMES_MAX).map(Goal::Topic).collect(),
        ]
    }
}

/// Handles an action while Start here has the keys; returns false if it is another pane's.
pub(crate) fn act(state: &mut State, action: Action) -> bool {
    let is_here = matches!(state.cluster.focus, Pane::Runs | Pane::Groups);
    if !is_here || !state.is_start_open() || !state.overlays.is_empty() {
        return false;
    }
    let goals = state.start_goals().concat();
    let row = state.cluster.start_row.min(goals.len().saturating_sub(1));
    if action == Action::Open {
        return open(state, row);
    }
    match moved(action, row, goals.len(), state.page()) {
        Some(row) => state.cluster.start_row = row,
        None => return false,
    }
    true
}

/// Opens the name that was clicked; returns false if the click was on something else.
pub(crate) fn click(state: &mut State, target: Target) -> bool {
    let Target::Row { pane, row } = target else { return false };
    let is_name = pane == Pane::Groups.number() && state.is_start_open();
    is_name && open(state, row)
}

fn open(state: &mut State, row: usize) -> bool {
    let Some(goal) = state.start_goals().concat().into_iter().nth(row) else { return false };
    state.cluster.focus = Pane::Groups;
    state.cluster.start_row = row;
    reach(state, goal);
    true
}
