//! Merges the node lists of several heads into one list with a single node for each peer.
//!
//! A worker reports the same slots, functions and attributes to each head, so these are taken from
//! a single list. Each head counts only its own runs, agreement and running work orders, so these
//! are added up.

use std::collections::HashMap;

use model::timestamp::Timestamp;
use wire::functions::NodeBody;

use super::{HeadNodes, Node, Origin, Report, Stack, last_seen};
use crate::state::services::HeadId;

/// Entry of a peer in the list of a head.
#[derive(Debug, Clone, Copy)]
struct Listing<'a> {
    head: HeadId,
    /// True if the list is outdated, because the last request to the head failed.
    is_stale: bool,
    /// Time at which the list was loaded.
    at: Timestamp,
    /// Same as [`Node::silent_since`].
    silent_since: Option<Timestamp>,
    body: &'a NodeBody,
}

/// Returns the nodes in the lists of `heads`: first the local nodes, in the order of their start,
/// then other nodes in the order of the lists. With several heads, all nodes that are heads precede
/// all other nodes, and both parts have this order.
pub(super) fn nodes(heads: &[HeadNodes], stack: &Stack) -> Vec<Node> {
    let lists = heads.iter().zip((0..).map(HeadId)).map(|(head, id)| {
        let is_stale = head.is_stale();
        let (bodies, at) = match head.listed.settled() {
            Some((bodies, at)) => (bodies.as_slice(), at),
            None => (&[][..], Timestamp::MIN),
        };
        bodies.iter().map(move |body| {
            let silent_since = head.tracks.get(&body.peer_id).and_then(|track| track.silent_since);
            Listing { head: id, is_stale, at, silent_since, body }
        })
    });
    // Local nodes are listed in the order of their start, since they connect to the head in an
    // arbitrary order.
    let place = |node: &Node| {
        let mut locals = stack.nodes();
        locals.position(|(local, _)| local.peer_id == node.peer_id).unwrap_or(usize::MAX)
    };
    if heads.len() < 2 {
        let mut nodes: Vec<Node> = lists.flatten().map(|it| node(&[it], stack)).collect();
        nodes.sort_by_cached_key(place);
        return nodes;
    }
    let mut peers: Vec<Vec<Listing<'_>>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for listing in lists.flatten() {
        let place = *places.entry(&listing.body.peer_id).or_insert(peers.len());
        match peers.get_mut(place) {
            Some(peer) => peer.push(listing),
            None => peers.push(vec![listing]),
        }
    }
    let mut nodes: Vec<Node> = peers.iter().map(|peer| node(peer, stack)).collect();
    nodes.sort_by_cached_key(|node| (!node.is_head(), place(node)));
    nodes
}

/// Merges all entries of a peer. There is at least one.
fn node(listings: &[Listing<'_>], stack: &Stack) -> Node {
    // An outdated entry is used only if all entries are outdated.
    let is_any_fresh = listings.iter().any(|listing| !listing.is_stale);
    let current = || {
        let listings = listings.iter().filter(move |listing| !(is_any_fresh && listing.is_stale));
        listings.map(|listing| listing.body)
    };
    // A head receives no messages from itself, so an entry for a head without a last message comes from
    // this head itself.
    let is_own =
        |body: &&NodeBody| body.role.as_deref() == Some("head") && body.last_seen.is_none();
    let Some(main) = current().find(is_own).or_else(|| current().next()) else {
        return Node::default();
    };
    let process = stack.node(&main.peer_id);
    let free = current().filter_map(|body| body.slots_free).min();
    Node {
        peer_id: main.peer_id.clone(),
        // A head's role is only in its own list. If the head does not respond, the role is read from the
        // outdated list.
        role: current()
            .chain(listings.iter().map(|listing| listing.body))
            .find_map(|body| body.role.clone()),
        origin: match process {
            Some(_) => Origin::Local,
            None if is_own(&main) => Origin::Typed,
            None => Origin::Listed,
        },
        subgroups: Some(main.subgroups.clone()),
        addresses: main.addresses.clone(),
        // If all entries are outdated, it is unknown whether a head is connected to the peer.
        is_connected: is_any_fresh.then(|| current().any(|body| body.connected)),
        latency_ms: current().find_map(|body| body.latency_ms),
        // A head has no last message in its own list. If all entries are outdated, the time of the
        // most recent list is used instead.
        last_seen: current()
            .filter_map(last_seen)
            .max()
            .or_else(|| listings.iter().filter(|_| !is_any_fresh).map(|it| it.at).max()),
        // A node that responds to any of its heads is not silent.
        silent_since: listings
            .iter()
            .filter(|listing| !listing.is_stale && listing.body.connected)
            .map(|listing| listing.silent_since)
            .min()
            .flatten(),
        n_runs: listings.iter().map(|listing| listing.body.runs).sum(),
        n_agreed: listings.iter().map(|listing| listing.body.agreed).sum(),
        slots: current().find_map(|body| body.slots).map(|n_slots| (n_slots, free)),
        attributes: main.attributes.clone(),
        is_cordoned: current().all(|body| body.cordoned),
        withheld_by: current()
            .filter_map(NodeBody::withheld_by)
            .max_by_key(|word| strictness(word)),
        reports: listings
            .iter()
            .map(|listing| Report {
                head: listing.head,
                is_stale: listing.is_stale,
                withheld_by: listing.body.withheld_by(),
            })
            .collect(),
        n_running: current().map(|body| body.running).sum(),
        n_functions: current().map(|body| body.functions.len()).max().unwrap_or_default(),
        n_ready: current().map(|body| body.ready.len()).max().unwrap_or_default(),
        process: process.map(|(node, _)| (node.name.clone(), node.pid)),
        exited: process.and_then(|(_, status)| status.exited),
    }
}

/// Returns a rank of the decision `word` by which decisions are compared, strictest last. Draining
/// and cordoning are the same decision: they differ only in the second number.
pub(super) fn strictness(word: &str) -> (u8, bool) {
    match word {
        "refused" => (3, false),
        "pending" => (2, false),
        "draining" => (1, true),
        _ => (1, false),
    }
}

#[cfg(test)]
mod tests;
