//! The state of the Cluster screen: panes, selection and order of its tables.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Range;

use strum::VariantArray;

use crate::state::field::Field;
use crate::state::navigation::ColumnOrder;
use crate::state::nodes::{Node, Nodes};
use crate::state::pattern::Pattern;
use crate::state::results::RunView;
use crate::state::runs::{Run, Runs};
use crate::state::stack::{Process, Stack};

/// A pane of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    /// The table of nodes and the details of the selected node.
    #[default]
    Nodes,
    /// The table of runs.
    Runs,
    /// The result groups of the selected run.
    Groups,
    /// The local processes and their last log lines.
    Processes,
}

/// Columns by which the nodes can be sorted. The sort key selects them in this order.
pub(crate) const NODE_ORDERS: [&str; 9] =
    ["RUNS", "AGREE", "PING", "SLOTS", "ROLE", "GROUP", "STATUS", "NODE", "PEER"];

/// The state of the Cluster screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Pane that has the focus.
    pub(crate) focus: Pane,
    /// Peer id of the selected node. If the node no longer exists, the first node is selected.
    pub(crate) node: Option<String>,
    /// Results of the visible run.
    pub(crate) results: RunView,
    /// Filter over peer ids, roles, groups, attributes and statuses.
    pub(crate) filter: Field,
    /// Sort order of the table in each pane. Runs start with the latest.
    pub(crate) orders: [ColumnOrder; Pane::VARIANTS.len()],
    /// Name of the attribute by which the nodes are grouped.
    pub(crate) grouped_by: Option<String>,
    /// Groups of which the nodes are hidden.
    pub(crate) folds: Folds,
    /// Title of the selected group, or `None` if a node is selected.
    pub(crate) group: Option<String>,
    /// Index of the selected name in the pane "Start here", counted across the lists in the pane.
    pub(crate) start_row: usize,
    /// Name of the selected local process. If it no longer exists, the first process is selected.
    pub(crate) process: Option<String>,
}

/// Parts of the whole state that the screen reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterContext<'a> {
    pub(crate) nodes: &'a Nodes,
    pub(crate) stack: &'a Stack,
    pub(crate) runs: &'a Runs,
    /// Number of rows by which a page key moves.
    pub(crate) page: usize,
}

/// Compares two nodes by a column. By a column of numbers, the busiest, the most dissenting or the
/// slowest node is first. By a column of texts, the order is alphabetical.
fn compare_nodes(column: &str, a: &Node, b: &Node) -> Ordering {
    let number = |value: Option<f64>, absent: f64| value.unwrap_or(absent);
    let free = |node: &Node| node.slots.map_or(usize::MAX, |(all, free)| free.unwrap_or(all));
    match column {
        "RUNS" => b.n_runs.cmp(&a.n_runs),
        "AGREE" => number(a.agree_percent(), f64::INFINITY)
            .total_cmp(&number(b.agree_percent(), f64::INFINITY)),
        "PING" => number(b.latency_ms, -1.0).total_cmp(&number(a.latency_ms, -1.0)),
        "SLOTS" => free(a).cmp(&free(b)),
        "ROLE" => a.role.is_none().cmp(&b.role.is_none()).then(a.role.cmp(&b.role)),
        "GROUP" => a.group_text().cmp(&b.group_text()),
        "STATUS" => {
            let status = |node: &Node| (node.status().is_none(), node.status());
            status(a).cmp(&status(b))
        }
        "NODE" => {
            let name = |node: &Node| node.process.as_ref().map(|(name, _)| name.clone());
            let key = |node: &Node| (name(node).is_none(), name(node), node.peer_id.clone());
            key(a).cmp(&key(b))
        }
        _ => a.peer_id.cmp(&b.peer_id),
    }
}

impl State {
    /// Returns the nodes that match the filter, in the order of their table.
    pub(crate) fn nodes(&self, known: ClusterContext<'_>) -> Vec<Node> {
        let wanted = Pattern::parse(self.filter.value());
        let passes = |node: &Node| {
            let role = node.role.as_deref().unwrap_or_default();
            let name = node.process.as_ref().map_or("", |(name, _)| name.as_str());
            let status = node.status().unwrap_or_default();
            let (groups, attributes) = (node.group_text(), node.attribute_text());
            let texts = [node.peer_id.as_str(), role, &groups, name, &attributes, status];
            let known = [("role", role), ("group", &groups), ("status", status)];
            let declared = node.attributes.iter().map(|(name, value)| (&**name, &**value));
            wanted.matches(&texts, &known.into_iter().chain(declared))
        };
        let mut nodes = known.nodes.all(known.stack);
        nodes.retain(passes);
        // The sort is stable, so nodes that compare equal are in the order of the head's list.
        self.orders[Pane::Nodes as usize].sort(&mut nodes, compare_nodes);
        if let Some(name) = &self.grouped_by {
            // The sort is stable, so the order within a group is preserved. Nodes without the
            // attribute are last.
            let value = |node: &Node| node.attributes.get(name).cloned();
            nodes.sort_by_cached_key(|node| (value(node).is_none(), value(node)));
        }
        nodes
    }

    /// Returns the runs in the order of their table.
    pub(crate) fn runs<'a>(&self, runs: &'a Runs) -> Vec<&'a Run> {
        let mut runs: Vec<&Run> = runs.iter().collect();
        let n_groups = |run: &Run| run.response().map(|response| response.results.len());
        let frequency = |run: &Run| {
            let largest = run.response().and_then(|response| response.results.first());
            largest.map_or(f64::NEG_INFINITY, |group| group.frequency)
        };
        self.orders[Pane::Runs as usize].sort(&mut runs, |column, a, b| match column {
            "TIME" => a.sent_at.cmp(&b.sent_at),
            "FUNCTION" => a.request.function_id.cmp(&b.request.function_id),
            "METHOD" => a.request.method.cmp(&b.request.method),
            "NODES" => a.request.config.number_of_nodes.cmp(&b.request.config.number_of_nodes),
            "GROUPS" => n_groups(a).cmp(&n_groups(b)),
            "FREQ" => frequency(a).total_cmp(&frequency(b)),
            _ => a.took.cmp(&b.took),
        });
        runs
    }

    /// Returns the local processes in the order of their table.
    pub(crate) fn processes(&self, stack: &Stack) -> Vec<Process> {
        let mut processes = stack.processes().to_vec();
        let cpu = |it: &Process| {
            it.status.usage.and_then(|usage| usage.cpu_percent).unwrap_or(f64::NEG_INFINITY)
        };
        let memory = |it: &Process| it.status.usage.map(|usage| usage.memory_bytes);
        let is_over = |it: &Process| it.status.exited.is_some();
        self.orders[Pane::Processes as usize].sort(&mut processes, |column, a, b| match column {
            "NAME" => a.name.cmp(&b.name),
            "PID" => a.pid.cmp(&b.pid),
            "CPU" => cpu(b).total_cmp(&cpu(a)),
            "MEMORY" => memory(b).cmp(&memory(a)),
            "UP" => a.status.since.cmp(&b.status.since),
            _ => is_over(b).cmp(&is_over(a)),
        });
        processes
    }

    /// Returns the table of the nodes that match the filter.
    pub(crate) fn table(&self, known: ClusterContext<'_>) -> NodeTable {
        let nodes = self.nodes(known);
        let rows = rows(&nodes, self.grouped_by.as_deref(), &self.folds);
        let is_selected = |node: &Node| Some(&node.peer_id) == self.node.as_ref();
        let node_idx = nodes.iter().position(is_selected).unwrap_or(0);
        let is_group = |row: &NodeRow| match row {
            NodeRow::Group(group) => Some(&group.title) == self.group.as_ref(),
            NodeRow::Node(_) => false,
        };
        let holds_node = |row: &NodeRow| match row {
            NodeRow::Group(group) => group.is_folded && group.nodes.contains(&node_idx),
            NodeRow::Node(idx) => *idx == node_idx,
        };
        let selected = rows.iter().position(is_group);
        let selected = selected.or_else(|| rows.iter().position(holds_node)).unwrap_or(0);
        NodeTable { nodes, rows, selected }
    }

    /// Selects the node `peer_id`. Clears the filter and the folds, which can hide it.
    pub(crate) fn show_node(&mut self, peer_id: String) {
        self.filter.clear();
        self.folds = Folds::default();
        self.group = None;
        self.node = Some(peer_id);
        self.focus = Pane::Nodes;
    }

    /// Returns true if the nodes have focus and a whole group is selected.
    pub(crate) fn is_group_selected(&self, known: ClusterContext<'_>) -> bool {
        self.focus == Pane::Nodes && self.table(known).group().is_some()
    }

    /// Returns the text that the copy action copies.
    pub(crate) fn selection(&self, known: ClusterContext<'_>) -> Option<String> {
        match self.focus {
            Pane::Nodes => {
                let table = self.table(known);
                let ids = table.selected_nodes().iter().map(|node| node.peer_id.as_str());
                ids.map(str::to_owned).reduce(|ids, id| ids + "\n" + &id)
            }
            Pane::Runs => Some(self.results.selected(known.runs)?.request.function_id.clone()),
            Pane::Groups => self.results.text(known.runs),
            Pane::Processes => self.selected_process(known).map(|process| process.pid.to_string()),
        }
    }

    /// Returns the selected local process. If the nodes have focus, this is the process of the
    /// selected node.
    pub(crate) fn selected_process(&self, known: ClusterContext<'_>) -> Option<Process> {
        let processes = self.processes(known.stack);
        if self.focus == Pane::Nodes {
            let table = self.table(known);
            let peer_id = &table.node()?.peer_id;
            let is_it = |it: &Process| it.node.as_ref().is_some_and(|it| it.peer_id == *peer_id);
            return processes.into_iter().find(is_it);
        }
        let idx = self.process_idx(&processes);
        processes.into_iter().nth(idx)
    }

    /// Returns the index of the selected run in `sorted`.
    pub(crate) fn run_idx(&self, sorted: &[&Run], runs: &Runs) -> usize {
        let selected = self.results.selected(runs).map(|run| run.id);
        sorted.iter().position(|run| Some(run.id) == selected).unwrap_or(0)
    }

    /// Returns the pane with the table that the sort keys affect.
    pub(crate) const fn sorted_pane(&self) -> Pane {
        match self.focus {
            Pane::Groups => Pane::Nodes,
            pane => pane,
        }
    }

    /// Returns the index of the selected process in `processes`.
    pub(crate) fn process_idx(&self, processes: &[Process]) -> usize {
        let is_selected = |process: &Process| Some(&process.name) == self.process.as_ref();
        processes.iter().position(is_selected).unwrap_or(0)
    }
}

/// Maximum number of nodes with which groups start unfolded. With more nodes, groups start folded,
/// so that their sums remain visible.
const UNFOLDED_NODES_MAX: usize = 50;

/// The table of nodes, with a row for each visible node or group.
#[derive(Debug)]
pub(crate) struct NodeTable {
    /// All nodes, including nodes of folded groups.
    pub(crate) nodes: Vec<Node>,
    pub(crate) rows: Vec<NodeRow>,
    /// Index of the selected row. If the selected node is in a folded group, the row of this
    /// group.
    pub(crate) selected: usize,
}

impl NodeTable {
    /// Returns the selected group, or `None` if the selected row is a node.
    pub(crate) fn group(&self) -> Option<&NodeGroup> {
        match self.rows.get(self.selected) {
            Some(NodeRow::Group(group)) => Some(group),
            Some(NodeRow::Node(_)) | None => None,
        }
    }

    /// Returns the selected node, or `None` if the selected row is a group.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.selected_nodes().first().filter(|_| self.group().is_none())
    }

    /// Returns the nodes of the selected row.
    pub(crate) fn selected_nodes(&self) -> &[Node] {
        let nodes = self.rows.get(self.selected).map_or(0..0, NodeRow::nodes);
        self.nodes.get(nodes).unwrap_or_default()
    }
}

/// A row of the table of nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeRow {
    /// A group. Its nodes follow unless it is folded.
    Group(NodeGroup),
    /// A node, as an index of the table's nodes.
    Node(usize),
}

impl NodeRow {
    /// Returns the indices of the row's nodes: the node itself, or all nodes of the group.
    pub(crate) fn nodes(&self) -> Range<usize> {
        match self {
            Self::Group(group) => group.nodes.clone(),
            Self::Node(idx) => *idx..*idx + 1,
        }
    }
}

/// A group of nodes with sums over them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NodeGroup {
    /// Title of the group, such as `zone=a` or `no zone`.
    pub(crate) title: String,
    /// Indices of the group's nodes.
    pub(crate) nodes: Range<usize>,
    /// True if the nodes of the group are hidden.
    pub(crate) is_folded: bool,
    pub(crate) n_connected: usize,
    /// Number of nodes that get no work.
    pub(crate) n_withheld: usize,
    pub(crate) n_slots: usize,
    pub(crate) n_free: usize,
    pub(crate) n_runs: u64,
    pub(crate) n_agreed: u64,
}

/// The folded groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Folds {
    /// True if all groups except `exceptions` are folded. False if only `exceptions` are folded.
    are_folded: bool,
    /// Titles of the groups for which the opposite of `are_folded` holds.
    exceptions: BTreeSet<String>,
}

impl Folds {
    /// Returns the initial folds of a table with `n_nodes` nodes.
    pub(crate) fn of_nodes(n_nodes: usize) -> Self {
        Self { are_folded: n_nodes > UNFOLDED_NODES_MAX, exceptions: BTreeSet::new() }
    }

    /// Folds the group with this title, or unfolds it.
    pub(crate) fn toggle(&mut self, title: &str) {
        if !self.exceptions.remove(title) {
            self.exceptions.insert(title.to_owned());
        }
    }

    /// Folds all groups, or unfolds them if all are folded.
    pub(crate) fn toggle_all(&mut self) {
        let are_folded = !(self.are_folded && self.exceptions.is_empty());
        *self = Self { are_folded, exceptions: BTreeSet::new() };
    }

    fn is_folded(&self, title: &str) -> bool {
        self.are_folded != self.exceptions.contains(title)
    }
}

impl NodeGroup {
    /// Returns the number of nodes in the group.
    pub(crate) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, node: &Node) {
        self.n_connected += usize::from(node.is_connected == Some(true));
        self.n_withheld += usize::from(node.withheld_by.is_some());
        if let Some((n_slots, n_free)) = node.slots {
            self.n_slots += n_slots;
            // The free slots of a node that gets no work cannot be used, so they do not count.
            self.n_free += if node.withheld_by.is_some() { 0 } else { n_free.unwrap_or(n_slots) };
        }
        self.n_runs = self.n_runs.saturating_add(node.n_runs);
        self.n_agreed = self.n_agreed.saturating_add(node.n_agreed);
    }
}

/// Returns the rows of a table. If `name` is given, the nodes are sorted by this attribute, and
/// each of its values has a group.
fn rows(nodes: &[Node], name: Option<&str>, folds: &Folds) -> Vec<NodeRow> {
    let Some(name) = name else { return (0..nodes.len()).map(NodeRow::Node).collect() };
    let (mut rows, mut start) = (Vec::new(), 0);
    let value = |node: &Node| node.attributes.get(name).cloned();
    for group in nodes.chunk_by(|a, b| value(a) == value(b)) {
        let title = match group.first().and_then(value) {
            Some(value) => format!("{name}={value}"),
            None => format!("no {name}"),
        };
        let (is_folded, nodes) = (folds.is_folded(&title), start..start + group.len());
        let mut sum = NodeGroup { title, nodes: nodes.clone(), is_folded, ..NodeGroup::default() };
        for node in group {
            sum.add(node);
        }
        rows.push(NodeRow::Group(sum));
        start = nodes.end;
        rows.extend(nodes.filter(|_| !is_folded).map(NodeRow::Node));
    }
    rows
}

/// Returns the name that follows `now` in the alphabet among the names of all attributes of `nodes`, or
/// `None` if `now` is the last name.
pub(crate) fn next_attribute(nodes: &[Node], now: Option<&str>) -> Option<String> {
    let names = nodes.iter().flat_map(|node| node.attributes.keys());
    names.filter(|name| now.is_none_or(|now| name.as_str() > now)).min().cloned()
}
