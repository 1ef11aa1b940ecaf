//! Keys and clicks on the Cluster screen: move the selection, filter, sort.

pub(crate) mod local;
pub(crate) mod nodes;
pub(crate) mod operator;
pub(crate) mod processes;

use super::state::{
    ClusterContext, Pane, State,
    grouping::{self, NodeRow},
};
use crate::{
    action::Action,
    event::Target,
    state::navigation::{Steps as _, moved},
};

impl State {
    /// Handles an action.
    pub(crate) fn act(&mut self, action: Action, known: ClusterContext<'_>) {
        match action {
            Action::NextPane => self.focus = self.focus.cycled(1),
            Action::PreviousPane => self.focus = self.focus.cycled(-1),
            Action::Filter => {
                self.focus = Pane::Nodes;
                self.filter.edit();
            }
            Action::Sort => self.order = self.order.cycled(1),
            Action::Reverse => self.is_reversed = !self.is_reversed,
            Action::GroupNodes => {
                self.focus = Pane::Nodes;
                let all = known.nodes.all(known.stack);
                self.grouped_by = grouping::next_attribute(&all, self.grouped_by.as_deref());
            }
            Action::Open if self.focus == Pane::Runs => self.focus = Pane::Groups,
            Action::NextOutput | Action::Diff | Action::Mark => {
                self.results.take(action, known.runs, known.page);
            }
            _ => match self.focus {
                Pane::Nodes => self.move_node(action, known),
                Pane::Runs => self.move_run(action, known),
                Pane::Groups => self.results.take(action, known.runs, known.page),
                Pane::Processes => self.move_process(action, known),
            },
        }
    }

    /// Goes back one step; returns whether there was one.
    pub(crate) fn back(&mut self) -> bool {
        std::mem::take(&mut self.results.look.is_diff) || self.filter.clear()
    }

    /// Handles a click.
    pub(crate) fn click(&mut self, target: Target, known: ClusterContext<'_>) {
        let (number, row) = match target {
            Target::Pane(number) => (number, None),
            Target::Row { pane, row } => (pane, Some(row)),
            _ => return,
        };
        let Some(pane) = Pane::numbered(number) else { return };
        self.focus = pane;
        match (pane, row) {
            (Pane::Nodes, Some(row)) => {
                let nodes = self.nodes(known);
                let idx = match self.node_rows(&nodes).get(row) {
                    Some(NodeRow::Node(idx)) => Some(*idx),
                    Some(NodeRow::Group(group)) => Some(group.first),
                    None => None,
                };
                let node = idx.and_then(|idx| nodes.get(idx));
                self.node = node.map(|node| node.peer_id.clone());
            }
            (Pane::Runs, Some(row)) => {
                self.results.show_at(row, known.runs);
            }
            (Pane::Groups, Some(row)) => self.results.look.select(row),
            (Pane::Processes, Some(row)) => self.select_process(row, known),
            _ => {}
        }
    }

    fn move_process(&mut self, action: Action, known: ClusterContext<'_>) {
        let processes = known.stack.processes();
        let idx = self.process_idx(&processes);
        if let Some(idx) = moved(action, idx, processes.len(), known.page) {
            self.select_process(idx, known);
        }
    }

    fn select_process(&mut self, idx: usize, known: ClusterContext<'_>) {
        self.process = known.stack.processes().get(idx).map(|process| process.name.clone());
    }

    fn move_node(&mut self, action: Action, known: ClusterContext<'_>) {
        let nodes = self.nodes(known);
        let idx = moved(action, self.node_idx(&nodes), nodes.len(), known.page);
        if let Some(node) = idx.and_then(|idx| nodes.get(idx)) {
            self.node = Some(node.peer_id.clone());
        }
    }

    fn move_run(&mut self, action: Action, known: ClusterContext<'_>) {
        let idx = self.results.idx(known.runs);
        if let Some(idx) = moved(action, idx, known.runs.iter().len(), known.page) {
            self.results.show_at(idx, known.runs);
        }
    }
}
