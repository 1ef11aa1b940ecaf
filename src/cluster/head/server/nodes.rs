//! `GET /api/v1/nodes`: lists the nodes a head knows, itself first.

use axum::{extract::State, response::Response};
use model::node::{PeerId, Role, Subgroup};
use wire::{
    functions::{NodeBody, NodesResponse},
    paths,
};

use super::{
    super::{Head, executions::millis},
    answer,
};
use crate::peers::Peer;

/// The nodes the head knows: itself first, then its peers by id.
#[utoipa::path(get, path = paths::NODES, tag = "cluster",
    responses((status = 200, description = "Nodes", body = NodesResponse)))]
pub(super) async fn nodes(State(head): State<Head>) -> Response {
    let peers = head.peers().into_iter().map(|(id, peer)| body(&head, &id, peer));
    let nodes = [own_node(&head)].into_iter().chain(peers).collect();
    answer(&NodesResponse { nodes })
}

fn own_node(head: &Head) -> NodeBody {
    let network = &head.0.context.network;
    NodeBody {
        peer_id: network.peer_id().to_string(),
        role: Some(Role::Head.to_string()),
        subgroups: head.0.subgroups.iter().map(Subgroup::to_string).collect(),
        addresses: network.addresses(),
        connected: true,
        functions: head
            .0
            .context
            .functions
            .list()
            .iter()
            .map(|function| function.id.to_string())
            .collect(),
        ..NodeBody::default()
    }
}

fn body(head: &Head, peer_id: &PeerId, peer: Peer) -> NodeBody {
    let slots = head.slots_of(peer_id).filter(|_| peer.is_connected);
    let count = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    NodeBody {
        peer_id: peer_id.to_string(),
        role: peer.role.map(|role| role.to_string()),
        subgroups: peer.subgroups(),
        addresses: peer.addresses,
        connected: peer.is_connected,
        latency_ms: peer.latency.map(millis),
        last_seen: Some(peer.last_seen.to_string()),
        runs: peer.n_runs,
        agreed: peer.n_agreed,
        agreement_percent: (peer.n_runs > 0)
            .then(|| 100.0 * count(peer.n_agreed) / count(peer.n_runs)),
        slots: slots.map(|(all, _)| all),
        slots_free: slots.map(|(_, free)| free),
        attributes: peer.attributes,
        functions: peer.functions.iter().map(ToString::to_string).collect(),
    }
}
