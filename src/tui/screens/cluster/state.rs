//! The Cluster screen: which node, run and result group are looked at.

pub(crate) mod node_form;

use std::{cmp::Ordering, collections::BTreeSet, ops::Range};

use strum::{IntoStaticStr, VariantArray};

use crate::{
    screens::cluster::state::node_form::NodeForm,
    state::{
        field::Field,
        navigation::ColumnOrder,
        nodes::{Node, Nodes},
        pattern::Pattern,
        results::RunView,
        runs::{Run, Runs},
        stack::{Process, Stack},
    },
};

/// A pane of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    /// The table of nodes, and the selected one in detail.
    #[default]
    Nodes,
    /// The table of runs.
    Runs,
    /// The result groups of the selected run.
    Groups,
    /// What local processes wrote last.
    Processes,
}

impl Pane {
    /// Its column and row in the grid of the screen, from the upper left.
    pub(crate) const fn cell(self) -> (u8, u8) {
        match self {
            Self::Nodes => (0, 0),
            Self::Processes => (0, 1),
            Self::Runs => (1, 0),
            Self::Groups => (1, 1),
        }
    }
}

/// What the table of nodes is ordered by; the names are those in its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, IntoStaticStr, VariantArray)]
#[strum(const_into_str, serialize_all = "UPPERCASE")]
pub(crate) enum NodeOrder {
    /// As the head lists them.
    #[default]
    #[strum(serialize = "as listed")]
    Listed,
    /// Executions, most first.
    Runs,
    /// Share of answers in the largest group, least first: who disagrees stands on top.
    Agree,
    /// Round trip, longest first.
    #[strum(serialize = "PING")]
    Latency,
    /// Free slots, fewest first: who is busy stands on top.
    Slots,
    /// Heads, then workers.
    Role,
    /// Groups, by name.
    Group,
    /// Those that get no work first.
    Status,
    /// Names, then peer ids.
    Node,
}

/// The state of the Cluster screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The focused pane.
    pub(crate) focus: Pane,
    /// The selected node; the first one if that is gone.
    pub(crate) node: Option<String>,
    /// The run in view.
    pub(crate) results: RunView,
    /// The text filter over ids, roles, groups, attributes and statuses.
    pub(crate) filter: Field,
    /// The order of the nodes.
    pub(crate) order: NodeOrder,
    /// Whether the order is reversed.
    pub(crate) is_reversed: bool,
    /// The order of the runs; newest first as listed.
    pub(crate) run_order: ColumnOrder,
    /// The order of the local processes.
    pub(crate) process_order: ColumnOrder,
    /// The attribute that the nodes are grouped by, if by one.
    pub(crate) grouped_by: Option<String>,
    /// Which of the groups are folded.
    pub(crate) folds: Folds,
    /// The title of the selected group; none while a node is selected.
    pub(crate) group: Option<String>,
    /// The selected name of Start here, counted over its lists.
    pub(crate) start_row: usize,
    /// The name of the selected local process; the first one if that is gone.
    pub(crate) process: Option<String>,
    /// The form that starts a node.
    pub(crate) node_form: NodeForm,
}

/// The shared state that the screen reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterContext<'a> {
    pub(crate) nodes: &'a Nodes,
    /// The local stack.
    pub(crate) stack: &'a Stack,
    pub(crate) runs: &'a Runs,
    /// Rows in a page.
    pub(crate) page: usize,
}

impl NodeOrder {
    /// Returns the order by the column with this title; `None` if there is none.
    pub(crate) fn of_column(title: &str) -> Option<Self> {
        if title == "PEER" {
            return Some(Self::Node);
        }
        Self::VARIANTS.iter().copied().find(|order| order.into_str() == title)
    }

    fn compare(self, a: &Node, b: &Node) -> Ordering {
        let number = |value: Option<f64>, absent: f64| value.unwrap_or(absent);
        match self {
            Self::Listed => Ordering::Equal,
            Self::Runs => b.n_runs.cmp(&a.n_runs),
            Self::Agree => number(a.agree_percent(), f64::INFINITY)
                .total_cmp(&number(b.agree_percent(), f64::INFINITY)),
            Self::Latency => number(b.latency_ms, -1.0).total_cmp(&number(a.latency_ms, -1.0)),
            Self::Slots => {
                let free = |node: &Node| match node.slots {
                    Some((all, free)) => free.unwrap_or(all),
                    None => usize::MAX,
                };
                free(a).cmp(&free(b))
            }
            Self::Role => a.role.is_none().cmp(&b.role.is_none()).then(a.role.cmp(&b.role)),
            Self::Group => a.group_text().cmp(&b.group_text()),
            Self::Node => {
                let name = |node: &Node| node.process.as_ref().map(|(name, _)| name.clone());
                let key = |node: &Node| (name(node).is_none(), name(node), node.peer_id.clone());
                key(a).cmp(&key(b))
            }
            Self::Status => {
                let status = |node: &Node| (node.withheld_by.is_none(), node.withheld_by);
                status(a).cmp(&status(b))
            }
        }
    }
}

impl State {
    /// The nodes that pass the filter, in their order.
    pub(crate) fn nodes(&self, known: ClusterContext<'_>) -> Vec<Node> {
        let wanted = Pattern::parse(self.filter.value());
        let passes = |node: &Node| {
            let role = node.role.as_deref().unwrap_or_default();
            let name = node.process.as_ref().map_or("", |(name, _)| name.as_str());
            let status = node.withheld_by.unwrap_or_default();
            let (groups, attributes) = (node.group_text(), node.attribute_text());
            let texts = [node.peer_id.as_str(), role, &groups, name, &attributes, status];
            let known = [("role", role), ("group", &groups), ("status", status)];
            let declared = node.attributes.iter().map(|(name, value)| (&**name, &**value));
            wanted.matches(&texts, &known.into_iter().chain(declared))
        };
        let mut nodes = known.nodes.all(known.stack);
        nodes.retain(passes);
        // A stable sort, so that equal nodes keep the head's order.
        nodes.sort_by(|a, b| self.order.compare(a, b));
        if self.is_reversed {
            nodes.reverse();
        }
        if let Some(name) = &self.grouped_by {
            gather(&mut nodes, name);
        }
        nodes
    }

    /// The runs in the order of their table.
    pub(crate) fn runs<'a>(&self, runs: &'a Runs) -> Vec<&'a Run> {
        let mut runs: Vec<&Run> = runs.iter().collect();
        let n_groups = |run: &Run| run.response().map(|response| response.results.len());
        let frequency = |run: &Run| {
            let largest = run.response().and_then(|response| response.results.first());
            largest.map_or(f64::NEG_INFINITY, |group| group.frequency)
        };
        self.run_order.sort(&mut runs, |column, a, b| match column {
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

    /// The local processes in the order of their table.
    pub(crate) fn processes(&self, stack: &Stack) -> Vec<Process> {
        let mut processes = stack.processes();
        let cpu = |it: &Process| {
            it.status.usage.and_then(|usage| usage.cpu_percent).unwrap_or(f64::NEG_INFINITY)
        };
        let memory = |it: &Process| it.status.usage.map(|usage| usage.memory_bytes);
        let is_over = |it: &Process| it.status.exited.is_some();
        self.process_order.sort(&mut processes, |column, a, b| match column {
            "NAME" => a.name.cmp(&b.name),
            "PID" => a.pid.cmp(&b.pid),
            "CPU" => cpu(b).total_cmp(&cpu(a)),
            "MEMORY" => memory(b).cmp(&memory(a)),
            "UP" => a.status.since.cmp(&b.status.since),
            _ => is_over(b).cmp(&is_over(a)),
        });
        processes
    }

    /// The rows of the table of `nodes`, which are in their order.
    pub(crate) fn node_rows(&self, nodes: &[Node]) -> Vec<NodeRow> {
        rows(nodes, self.grouped_by.as_deref(), &self.folds)
    }

    /// Selects node `peer_id`, whatever hid it.
    pub(crate) fn show_node(&mut self, peer_id: String) {
        self.filter.clear();
        self.folds = Folds::default();
        self.group = None;
        self.node = Some(peer_id);
        self.focus = Pane::Nodes;
    }

    /// The selected node; none where a group is selected.
    pub(crate) fn selected_node(&self, known: ClusterContext<'_>) -> Option<Node> {
        let nodes = self.nodes(known);
        let idx = self.node_idx(&nodes)?;
        nodes.into_iter().nth(idx)
    }

    /// The index of the selected node in `nodes`; none where a group is selected.
    pub(crate) fn node_idx(&self, nodes: &[Node]) -> Option<usize> {
        let rows = self.node_rows(nodes);
        match rows.get(self.row_idx(nodes, &rows)) {
            Some(NodeRow::Node(idx)) => Some(*idx),
            Some(NodeRow::Group(_)) | None => None,
        }
    }

    /// The selected group, and its nodes.
    pub(crate) fn selected_group(
        &self,
        known: ClusterContext<'_>,
    ) -> Option<(NodeGroup, Vec<Node>)> {
        let nodes = self.nodes(known);
        let mut rows = self.node_rows(&nodes);
        let idx = self.row_idx(&nodes, &rows);
        match (idx < rows.len()).then(|| rows.swap_remove(idx)) {
            Some(NodeRow::Group(group)) => {
                let nodes = nodes.get(group.nodes.clone()).unwrap_or_default().to_vec();
                Some((group, nodes))
            }
            _ => None,
        }
    }

    /// Whether the keys go to the nodes, and a group of them is selected.
    pub(crate) fn is_group_selected(&self, known: ClusterContext<'_>) -> bool {
        self.focus == Pane::Nodes && self.selected_group(known).is_some()
    }

    /// The index of the selected one of `rows`, which are those of `nodes`: that of the group of a
    /// node that is folded away.
    pub(crate) fn row_idx(&self, nodes: &[Node], rows: &[NodeRow]) -> usize {
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
        selected.or_else(|| rows.iter().position(holds_node)).unwrap_or(0)
    }

    /// The text that the copy action takes.
    pub(crate) fn selection(&self, known: ClusterContext<'_>) -> Option<String> {
        match self.focus {
            Pane::Nodes => match self.selected_group(known) {
                Some((_, nodes)) => {
                    let ids: Vec<String> = nodes.into_iter().map(|node| node.peer_id).collect();
                    Some(ids.join("\n"))
                }
                None => self.selected_node(known).map(|node| node.peer_id),
            },
            Pane::Runs => Some(self.results.selected(known.runs)?.request.function_id.clone()),
            Pane::Groups => self.results.text(known.runs),
            Pane::Processes => {
                self.selected_process(known.stack).map(|process| process.pid.to_string())
            }
        }
    }

    /// The selected local process: that of the selected node, where the nodes have the keys.
    pub(crate) fn selected_process(&self, stack: &Stack) -> Option<Process> {
        let processes = self.processes(stack);
        if self.focus == Pane::Nodes && self.group.is_some() {
            return None;
        }
        if self.focus == Pane::Nodes
            && let Some(peer_id) = &self.node
        {
            let is_it = |process: &Process| {
                process.node.as_ref().is_some_and(|node| node.peer_id == *peer_id)
            };
            return processes.into_iter().find(is_it);
        }
        let idx = self.process_idx(&processes);
        processes.into_iter().nth(idx)
    }

    /// The index of the selected one of `sorted`, which are `runs`.
    pub(crate) fn run_idx(&self, sorted: &[&Run], runs: &Runs) -> usize {
        let selected = self.results.selected(runs).map(|run| run.id);
        sorted.iter().position(|run| Some(run.id) == selected).unwrap_or(0)
    }

    /// The index of the selected process in `processes`.
    pub(crate) fn process_idx(&self, processes: &[Process]) -> usize {
        let is_selected = |process: &Process| Some(&process.name) == self.process.as_ref();
        processes.iter().position(is_selected).unwrap_or(0)
    }
}

/// The most nodes whose groups start unfolded: the sums of more would not be seen among them.
const UNFOLDED_NODES_MAX: usize = 50;

/// A row of the table of nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeRow {
    /// The head of a group, whose nodes follow unless it is folded.
    Group(NodeGroup),
    /// A node, by its index.
    Node(usize),
}

/// What a group of nodes has together.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NodeGroup {
    /// `zone=a`, or `zone` is missing.
    pub(crate) title: String,
    /// The indices of its nodes.
    pub(crate) nodes: Range<usize>,
    /// Whether its nodes are not shown.
    pub(crate) is_folded: bool,
    pub(crate) n_connected: usize,
    /// Nodes that get no work.
    pub(crate) n_withheld: usize,
    pub(crate) n_slots: usize,
    pub(crate) n_free: usize,
    pub(crate) n_runs: u64,
    pub(crate) n_agreed: u64,
}

/// Which groups are folded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Folds {
    /// Whether all are that are not among the exceptions.
    are_folded: bool,
    /// The titles of the exceptions.
    exceptions: BTreeSet<String>,
}

impl Folds {
    /// The folds that the groups of `n_nodes` start with.
    pub(crate) fn of_nodes(n_nodes: usize) -> Self {
        Self { are_folded: n_nodes > UNFOLDED_NODES_MAX, exceptions: BTreeSet::new() }
    }

    /// Folds the group of `title`, or unfolds it.
    pub(crate) fn toggle(&mut self, title: &str) {
        if !self.exceptions.remove(title) {
            self.exceptions.insert(title.to_owned());
        }
    }

    /// Unfolds all if all are folded, or folds them.
    pub(crate) fn toggle_all(&mut self) {
        let are_folded = !(self.are_folded && self.exceptions.is_empty());
        *self = Self { are_folded, exceptions: BTreeSet::new() };
    }

    fn is_folded(&self, title: &str) -> bool {
        self.are_folded != self.exceptions.contains(title)
    }
}

impl NodeGroup {
    /// How many nodes it has.
    pub(crate) fn n_nodes(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, node: &Node) {
        self.n_connected += usize::from(node.is_connected == Some(true));
        self.n_withheld += usize::from(node.withheld_by.is_some());
        if let Some((n_slots, n_free)) = node.slots {
            self.n_slots += n_slots;
            // What a node that gets no work has free is not to be had.
            self.n_free += if node.withheld_by.is_some() { 0 } else { n_free.unwrap_or(n_slots) };
        }
        self.n_runs = self.n_runs.saturating_add(node.n_runs);
        self.n_agreed = self.n_agreed.saturating_add(node.n_agreed);
    }
}

/// Puts nodes of one value of attribute `name` beside each other, by value, and keeps their order
/// otherwise. Those without it come last.
fn gather(nodes: &mut [Node], name: &str) {
    let value = |node: &Node| node.attributes.get(name).cloned();
    nodes.sort_by_cached_key(|node| (value(node).is_none(), value(node)));
}

/// The rows of `nodes`, with a head for each value of attribute `name`, if they are grouped by one.
fn rows(nodes: &[Node], name: Option<&str>, folds: &Folds) -> Vec<NodeRow> {
    let Some(name) = name else { return (0..nodes.len()).map(NodeRow::Node).collect() };
    let mut rows = Vec::new();
    let value = |node: &Node| node.attributes.get(name).cloned();
    for (start, group) in starts(nodes, value) {
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
        rows.extend(nodes.filter(|_| !is_folded).map(NodeRow::Node));
    }
    rows
}

/// The parts of `nodes` with one value, each with the index where it starts.
fn starts<V: PartialEq>(
    nodes: &[Node],
    value: impl Fn(&Node) -> V,
) -> impl Iterator<Item = (usize, &[Node])> {
    let groups = nodes.chunk_by(move |a, b| value(a) == value(b));
    groups.scan(0, |start, group| {
        let at = *start;
        *start += group.len();
        Some((at, group))
    })
}

/// The attribute after `now` that any of `nodes` declares; none after the last one.
pub(crate) fn next_attribute(nodes: &[Node], now: Option<&str>) -> Option<String> {
    let names = nodes.iter().flat_map(|node| node.attributes.keys());
    names.filter(|name| now.is_none_or(|now| name.as_str() > now)).min().cloned()
}
