//! Nodes grouped by an attribute that they declare: rows of the table, with a sum over each group,
//! which may be folded.

use std::{collections::BTreeSet, ops::Range};

use crate::state::nodes::Node;

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
pub(super) fn gather(nodes: &mut [Node], name: &str) {
    let value = |node: &Node| node.attributes.get(name).cloned();
    nodes.sort_by_cached_key(|node| (value(node).is_none(), value(node)));
}

/// The rows of `nodes`, with a head for each value of attribute `name`, if they are grouped by one.
pub(super) fn rows(nodes: &[Node], name: Option<&str>, folds: &Folds) -> Vec<NodeRow> {
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
