//! Updates of the Cluster screen: keys, clicks, node lists, and events of the local stack.

use std::time::Duration;

use wire::functions::NodeBody;

use crate::event::{Effect, Target, Timer};
use crate::keymap::{Action, Layer};
use crate::local::{Level, LocalEvent};
use crate::screens::cluster::processes;
use crate::screens::cluster::state::{
    ClusterContext, Folds, NodeRow, NodeTable, Pane, State, next_attribute,
};
use crate::screens::update::{PROCESS_SCREENS, connect, note};
use crate::screens::{Screen, execute};
use crate::state::State as Whole;
use crate::state::form::node;
use crate::state::navigation::{Steps as _, moved};
use crate::state::overlay::Overlay;
use crate::state::resource::Outcome;
use crate::state::services::{HeadId, Service};
use crate::state::stack::Phase;

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
            Action::Sort => {
                let pane = self.sorted_pane();
                self.orders[pane as usize].cycle(&super::view::sorted_by(pane));
            }
            Action::Reverse => self.orders[self.sorted_pane() as usize].is_reversed ^= true,
            Action::GroupNodes => {
                self.focus = Pane::Nodes;
                let all = known.nodes.all(known.stack);
                self.grouped_by = next_attribute(&all, self.grouped_by.as_deref());
                self.group = None;
                self.folds = Folds::of_nodes(all.len());
                self.select(self.table(known).selected, known);
            }
            Action::FoldGroup if self.focus == Pane::Nodes => self.fold(known),
            Action::FoldGroups if self.grouped_by.is_some() => {
                self.focus = Pane::Nodes;
                self.folds.toggle_all();
                self.select(self.table(known).selected, known);
            }
            Action::Open if self.is_group_selected(known) => self.fold(known),
            Action::Open if self.focus == Pane::Runs => self.focus = Pane::Groups,
            Action::NextOutput | Action::Diff | Action::Mark => {
                self.results.take(action, known.runs, known.page);
            }
            _ if self.focus == Pane::Groups => self.results.take(action, known.runs, known.page),
            _ => {
                let (row, n_rows) = self.selected_row(known);
                if let Some(row) = moved(action, row, n_rows, known.page) {
                    self.select(row, known);
                }
            }
        }
    }

    /// Closes the comparison or clears the filter. Returns false if there was nothing to undo.
    pub(crate) fn back(&mut self) -> bool {
        std::mem::take(&mut self.results.look.is_diff) || self.filter.clear()
    }

    /// Handles a click.
    pub(crate) fn click(&mut self, target: Target, known: ClusterContext<'_>) {
        if let Target::Column { pane, column } = target {
            let pane =
                Pane::numbered(pane).filter(|it| super::view::sorted_by(*it).contains(&column));
            return pane.into_iter().for_each(|pane| self.orders[pane as usize].choose(column));
        }
        let (number, row) = match target {
            Target::Pane(number) => (number, None),
            Target::Row { pane, row } => (pane, Some(row)),
            _ => return,
        };
        let Some(pane) = Pane::numbered(number) else { return };
        self.focus = pane;
        if let Some(row) = row {
            self.select(row, known);
        }
    }

    /// Returns the index of the selected row and the number of rows of the table with focus.
    fn selected_row(&self, known: ClusterContext<'_>) -> (usize, usize) {
        match self.focus {
            Pane::Nodes => {
                let table = self.table(known);
                (table.selected, table.rows.len())
            }
            Pane::Runs => {
                let runs = self.runs(known.runs);
                (self.run_idx(&runs, known.runs), runs.len())
            }
            Pane::Groups => (0, 0),
            Pane::Processes => {
                let processes = self.processes(known.stack);
                (self.process_idx(&processes), processes.len())
            }
        }
    }

    /// Selects row `row` of the table with focus.
    fn select(&mut self, row: usize, known: ClusterContext<'_>) {
        match self.focus {
            Pane::Nodes => {
                let table = self.table(known);
                let Some(row) = table.rows.get(row) else { return };
                self.group = match row {
                    NodeRow::Group(group) => Some(group.title.clone()),
                    NodeRow::Node(_) => None,
                };
                // If the group disappears, its first node is selected.
                self.node = table.nodes.get(row.nodes().start).map(|node| node.peer_id.clone());
            }
            Pane::Runs => {
                if let Some(run) = self.runs(known.runs).get(row) {
                    self.results.show(run.id);
                }
            }
            Pane::Groups => self.results.look.select(row),
            Pane::Processes => {
                let processes = self.processes(known.stack);
                self.process = processes.get(row).map(|process| process.name.clone());
            }
        }
    }

    /// Folds or unfolds the selected group, or the group of the selected node. Selects the group.
    fn fold(&mut self, known: ClusterContext<'_>) {
        let NodeTable { rows, selected, .. } = self.table(known);
        let upto = rows.iter().enumerate().take(selected + 1).rev();
        let mut groups = upto.filter_map(|(row, it)| match it {
            NodeRow::Group(group) => Some((row, &group.title)),
            NodeRow::Node(_) => None,
        });
        if let Some((row, title)) = groups.next() {
            self.select(row, known);
            self.folds.toggle(title);
        }
    }
}

/// Poll interval of the nodes while they are in view.
pub(crate) const NODES_EVERY: Duration = Duration::from_secs(2);

/// Poll interval of the nodes while they are out of view. The header needs them.
pub(crate) const NODES_HIDDEN_EVERY: Duration = Duration::from_secs(15);

/// Records the node list of `head` and sets the timer for the next request.
pub(crate) fn on_nodes(
    state: &mut Whole,
    head: HeadId,
    result: Outcome<Vec<NodeBody>>,
    latency: Duration,
) {
    let service = Service::Head(head);
    let was_down = state.services.health(service).is_away();
    note(state, service, &result, Some(latency));
    let is_listed = result.is_ok();
    state.nodes.settle(head, result, state.now);
    if let Some(Overlay::Form(form)) = state.overlays.last_mut() {
        node::learn(form, &state.nodes.all(&state.stack));
    }
    let is_seen = matches!(state.screen, Screen::Cluster | Screen::Execute | Screen::Overview);
    let wait = if is_seen { NODES_EVERY } else { NODES_HIDDEN_EVERY };
    // The interval grows exponentially while the head is down, at most to `NODES_HIDDEN_EVERY`.
    let n_failures = state.nodes.head(head).map_or(0, |nodes| nodes.listed.n_failures());
    let wait = wait.saturating_mul(1 << n_failures.min(4)).min(NODES_HIDDEN_EVERY.max(wait));
    state.effects.push(Effect::SetTimer(Timer::Nodes(head), wait));
    // The head was restarted, perhaps with other functions.
    if was_down && is_listed && state.nodes.run_head == Some(head) {
        state.effects.push(Effect::LoadFunctions(head));
    }
}

/// Handles an event of the local stack.
pub(crate) fn on_local(state: &mut Whole, event: LocalEvent) {
    state.stack.on(&event, state.now);
    match event {
        LocalEvent::Node(node) => processes::started(state, node),
        LocalEvent::Found(node) => {
            let text = format!("{} still runs, pid {}", node.name, node.pid);
            let key = state.keys.key_text(Layer::Cluster, Action::StopProcess);
            state.notify(text, format!("it was left running; {key} stops it"));
        }
        LocalEvent::Service { name, pid } => {
            let text = format!("{name} runs, pid {pid}");
            state.report(PROCESS_SCREENS, Level::Info, text, "");
        }
        LocalEvent::Starting { what } => {
            state.logs.log(Level::Info, state.now, format!("starting {what}"));
        }
        // The search has found the stack in use, or other services are in use now.
        LocalEvent::Attached(addresses)
            if state.stack.phase == Phase::Ready
                || state.services.addresses == addresses
                || state.profiles.current.is_some() => {}
        LocalEvent::Attached(addresses) => {
            let detail = "another process runs it, and quitting here does not stop it".to_owned();
            state.notify("attached to the running local stack", detail);
            connect(state, &addresses);
        }
        LocalEvent::Ready(ready) => {
            if let Some(summary) = state.stack.summary() {
                state.report(PROCESS_SCREENS, Level::Info, "local stack", summary);
            }
            // The user can have chosen a profile while the stack started.
            if state.profiles.current.is_none() {
                connect(state, &ready.addresses);
            }
        }
        LocalEvent::Log(log) => {
            execute::update::on_log(state, &log);
            state.logs.push(log);
        }
        LocalEvent::Restarting { process, code, restart_in } => {
            processes::ended(state, &process, code, Some(restart_in));
        }
        LocalEvent::Exited { process, code } => processes::ended(state, &process, code, None),
    }
}
