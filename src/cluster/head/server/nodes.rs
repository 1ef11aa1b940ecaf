//! `/api/v1/nodes` lists the nodes that a head knows, beginning with the head. `GET /api/v1/nodes/{id}`
//! describes one node, and `PATCH` cordons, drains, approves or refuses it.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use model::node::{PeerId, Role, Subgroup};
use model::timestamp::Timestamp;
use serde::Deserialize;
use web::extract;
use wire::functions::{NodeBody, NodesResponse};
use wire::nodes::{NodeDetail, NodePatch};
use wire::paths;

use super::error::RestError;
use super::{Rest, respond};
use crate::head::Head;
use crate::head::executions::millis;
use crate::peers::Peer;

/// The known nodes: the head first, then its peers and the nodes with a decision, ordered by id.
///
/// Nodes that wait for approval are listed while they are connected.
#[utoipa::path(get, path = paths::NODES, tag = "cluster",
    responses((status = 200, description = "Nodes", body = NodesResponse)))]
pub(super) async fn nodes(State(head): State<Head>) -> Response {
    let mut known: BTreeMap<PeerId, Peer> = head.peers().into_iter().collect();
    known.retain(|peer, known| known.is_connected || !head.is_pending(peer));
    for peer in head.0.registry.decided() {
        known.entry(peer).or_default();
    }
    let peers = known.into_iter().map(|(id, peer)| body(&head, &id, peer));
    let nodes = [own_node(&head)].into_iter().chain(peers).collect();
    respond(&NodesResponse { nodes })
}

/// Returns one node, if the head knows it.
pub(super) fn describe_node(head: &Head, peer_id: &PeerId) -> Option<NodeBody> {
    if peer_id == head.0.context.network.peer_id() {
        return Some(own_node(head));
    }
    let known = head.peers().into_iter().find(|(id, _)| id == peer_id);
    let decided = || head.knows_node(peer_id).then(Peer::default);
    let peer = known.map(|(_, peer)| peer).or_else(decided)?;
    Some(body(head, peer_id, peer))
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
    let offer = &peer.offer;
    let count = |n: u64| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    NodeBody {
        peer_id: peer_id.to_string(),
        role: offer.role.map(|role| role.to_string()),
        subgroups: peer.subgroups(),
        addresses: peer.addresses,
        connected: peer.is_connected,
        latency_ms: peer.latency.map(millis),
        last_seen: (peer.last_seen != Timestamp::default()).then(|| peer.last_seen.to_string()),
        runs: peer.n_runs,
        agreed: peer.n_agreed,
        agreement_percent: (peer.n_runs > 0)
            .then(|| 100.0 * count(peer.n_agreed) / count(peer.n_runs)),
        slots: slots.map(|(all, _)| all),
        slots_free: slots.map(|(_, free)| free),
        cordoned: head.0.registry.decision(peer_id).is_cordoned,
        approval: head.0.approval_of(peer_id, offer.role),
        running: head.0.slots.n_running(peer_id),
        attributes: offer.attributes.clone(),
        functions: offer.functions.iter().map(ToString::to_string).collect(),
        ready: offer.ready.iter().map(ToString::to_string).collect(),
    }
}

/// Maximum time to wait for the orders of a node, in seconds. It is the same as for a roll call. A
/// client can repeat the request.
const WAIT_SECONDS_MAX: u64 = 60;

/// Query of a change.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// Maximum time in seconds that the response waits until the node runs no work order of this
    /// head; 0 by default. With `cordoned`, this drains the node.
    #[serde(default)]
    #[param(maximum = 60)]
    wait: u64,
}

/// One node, with the work orders of this head that it runs.
#[utoipa::path(get, path = paths::NODE, tag = "cluster",
    params(("id" = String, Path, description = "The id of the node.")),
    responses((status = 200, description = "The node", body = NodeDetail)))]
pub(super) async fn node(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    detail(&head, &id).map(|detail| respond(&detail))
}

/// Cordons, drains, approves or refuses a node, for this head only.
///
/// Omitted fields remain unchanged. A cordoned node gets no new work but completes its work orders. With
/// `wait`, the response is sent after they are complete or the time has passed. The response lists the
/// work orders that are still running. Other heads of the cluster are not affected. Decisions outlast a
/// restart. A node that is not known yet can be approved or refused by its full id.
#[utoipa::path(patch, path = paths::NODE, tag = "cluster",
    params(("id" = String, Path, description = "The id of the node."), Query),
    request_body = NodePatch,
    responses((status = 200, description = "The node", body = NodeDetail)))]
pub(super) async fn change(
    State(rest): State<Rest>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, RestError> {
    let Query { wait } = extract::query(request.uri())?;
    if wait > WAIT_SECONDS_MAX {
        let reason = format!("wait must be at most {WAIT_SECONDS_MAX} seconds; ask again");
        return Err(RestError::invalid(&[reason]));
    }
    let patch: NodePatch = rest.bodies.read(request).await?;
    let peer: PeerId = id.parse().map_err(|_| RestError::UNKNOWN_NODE)?;
    rest.head.change_node(peer.clone(), patch).await?;
    rest.head.wait_idle(&peer, Duration::from_secs(wait)).await;
    detail(&rest.head, &id).map(|detail| respond(&detail))
}

fn detail(head: &Head, id: &str) -> Result<NodeDetail, RestError> {
    let peer: PeerId = id.parse().map_err(|_| RestError::UNKNOWN_NODE)?;
    let node = describe_node(head, &peer).ok_or(RestError::UNKNOWN_NODE)?;
    Ok(NodeDetail { node, orders: head.executions().running_on(&peer) })
}
