//! `GET /api/v1/nodes`: lists the nodes a head knows, itself first.

use axum::{extract::State, response::Response};
use model::node::{PeerId, Role, Subgroup};
use wire::functions::{NodeBody, NodesResponse};

use super::{super::Head, answer};
use crate::peers::Peer;

/// Answers the head itself, then its peers by id.
pub(super) async fn nodes(State(head): State<Head>) -> Response {
    let nodes = [own(&head)].into_iter().chain(head.peers().into_iter().map(body)).collect();
    answer(&NodesResponse { nodes })
}

fn own(head: &Head) -> NodeBody {
    let (peer_id, addresses, subgroups) = head.own();
    NodeBody {
        peer_id: peer_id.to_string(),
        role: Some(Role::Head.to_string()),
        subgroups: subgroups.iter().map(Subgroup::to_string).collect(),
        addresses,
        connected: true,
        latency_ms: None,
        last_seen: None,
        runs: 0,
        agreed: 0,
    }
}

fn body((peer_id, peer): (PeerId, Peer)) -> NodeBody {
    NodeBody {
        peer_id: peer_id.to_string(),
        role: peer.role.map(|role| role.to_string()),
        subgroups: peer.subgroups(),
        addresses: peer.addresses,
        connected: peer.is_connected,
        latency_ms: peer.latency.map(|latency| latency.as_secs_f64() * 1000.0),
        last_seen: Some(peer.last_seen.to_string()),
        runs: peer.n_runs,
        agreed: peer.n_agreed,
    }
}
