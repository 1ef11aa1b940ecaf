//! Keys and clicks on the Cluster screen: move the selection, filter, sort.

pub(crate) mod local;
pub(crate) mod nodes;
pub(crate) mod operator;
pub(crate) mod processes;
pub(crate) mod start;

use super::state::{
    ClusterContext, NodeOrder, Pane, State,
    grouping::{self, Folds, NodeGroup, NodeRow},
};
use crate::{
    action::Action,
    event::Target,
    state::{
        navigation::{Steps as _, moved, sort_by},
        nodes::Node,
    },
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
            Action::Sort => match self.focus {
                Pane::Runs => self.run_order.cycle(&super::view::titles(Pane::Runs)),
                Pane::Processes => {
                    self.process_order.cycle(&super::view::titles(Pane::Processes));
                }
                Pane::Nodes | Pane::Groups => self.order = self.order.cycled(1),
            },
            Action::Reverse => {
                let is_reversed = match self.focus {
                    Pane::Runs => &mut self.run_order.is_reversed,
                    Pane::Processes => &mut self.process_order.is_reversed,
                    Pane::Nodes | Pane::Groups => &mut self.is_reversed,
                };
                *is_reversed = !*is_reversed;
            }
            Action::GroupNodes => {
                self.focus = Pane::Nodes;
                let all = known.nodes.all(known.stack);
                self.grouped_by = grouping::next_attribute(&all, self.grouped_by.as_deref());
                self.group = None;
                self.folds = Folds::of_nodes(all.len());
                self.select_shown(known);
            }
            Action::FoldGroup if self.focus == Pane::Nodes => self.fold(known),
            Action::FoldGroups if self.grouped_by.is_some() => {
                self.focus = Pane::Nodes;
                self.folds.toggle_all();
                self.select_shown(known);
            }
            Action::Open if self.is_group_selected(known) => self.fold(known),
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
        if let Target::Column { pane, column } = target {
            return self.sort_column(pane, column);
        }
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
                self.select_row(&nodes, self.node_rows(&nodes).get(row));
            }
            (Pane::Runs, Some(row)) => {
                self.show_run(row, known);
            }
            (Pane::Groups, Some(row)) => self.results.look.select(row),
            (Pane::Processes, Some(row)) => self.select_process(row, known),
            _ => {}
        }
    }

    /// Sorts the table of `pane` by its `column`.
    fn sort_column(&mut self, pane: usize, column: usize) {
        let Some(pane) = Pane::numbered(pane) else { return };
        let Some(title) = super::view::column_title(pane, column) else { return };
        match pane {
            Pane::Runs => self.run_order.choose(title),
            Pane::Processes => self.process_order.choose(title),
            Pane::Nodes => {
                if let Some(order) = NodeOrder::of_column(title) {
                    sort_by(order, &mut self.order, &mut self.is_reversed);
                }
            }
            Pane::Groups => {}
        }
    }

    fn move_process(&mut self, action: Action, known: ClusterContext<'_>) {
        let processes = self.processes(known.stack);
        let idx = self.process_idx(&processes);
        if let Some(idx) = moved(action, idx, processes.len(), known.page) {
            self.select_process(idx, known);
        }
    }

    fn select_process(&mut self, idx: usize, known: ClusterContext<'_>) {
        self.process = self.processes(known.stack).get(idx).map(|process| process.name.clone());
    }

    fn move_node(&mut self, action: Action, known: ClusterContext<'_>) {
        let nodes = self.nodes(known);
        let rows = self.node_rows(&nodes);
        let idx = moved(action, self.row_idx(&nodes, &rows), rows.len(), known.page);
        if let Some(idx) = idx {
            self.select_row(&nodes, rows.get(idx));
        }
    }

    /// Selects a row of the table of `nodes`.
    fn select_row(&mut self, nodes: &[Node], row: Option<&NodeRow>) {
        let (group, idx) = match row {
            Some(NodeRow::Group(group)) => (Some(group.title.clone()), group.nodes.start),
            Some(NodeRow::Node(idx)) => (None, *idx),
            None => return,
        };
        self.group = group;
        // The place to go back to where the group is gone.
        self.node = nodes.get(idx).map(|node| node.peer_id.clone());
    }

    /// Selects the group of the selected node, where that is folded away.
    fn select_shown(&mut self, known: ClusterContext<'_>) {
        let nodes = self.nodes(known);
        let rows = self.node_rows(&nodes);
        self.select_row(&nodes, rows.get(self.row_idx(&nodes, &rows)));
    }

    /// Folds the selected group, or that of the selected node, which is selected then; or unfolds it.
    fn fold(&mut self, known: ClusterContext<'_>) {
        let nodes = self.nodes(known);
        let rows = self.node_rows(&nodes);
        let upto = rows.iter().take(self.row_idx(&nodes, &rows) + 1);
        let group = upto.rev().find(|row| matches!(row, NodeRow::Group(_)));
        if let Some(NodeRow::Group(NodeGroup { title, .. })) = group {
            self.folds.toggle(title);
        }
        self.select_row(&nodes, group);
    }

    fn move_run(&mut self, action: Action, known: ClusterContext<'_>) {
        let runs = self.runs(known.runs);
        let idx = self.run_idx(&runs, known.runs);
        if let Some(idx) = moved(action, idx, runs.len(), known.page) {
            self.show_run(idx, known);
        }
    }

    /// Shows the run at `idx` of the table.
    fn show_run(&mut self, idx: usize, known: ClusterContext<'_>) {
        if let Some(id) = self.runs(known.runs).get(idx).map(|run| run.id) {
            self.results.show(id);
        }
    }
}
