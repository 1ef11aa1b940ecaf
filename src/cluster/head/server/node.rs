//! `/api/v1/nodes/{id}`: looks at one node; `PATCH` cordons, drains, approves or refuses it.

use std::time::Duration;

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use model::node::PeerId;
use serde::Deserialize;
use web::extract;
use wire::{
    nodes::{NodeDetail, NodePatch},
    paths,
};

use super::{super::Head, Rest, answer, error::Refused, nodes::describe_node};

/// The longest wait for what a node runs, in seconds: as long as for a roll call. A client asks again.
const WAIT_SECONDS_MAX: u64 = 60;

/// The query of a change.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// So many seconds at most the answer waits until the node runs no work order of this head; 0 where
    /// it is left out. With `cordoned`, it drains the node.
    #[serde(default)]
    #[param(maximum = 60)]
    wait: u64,
}

/// One node, and the work orders of this head that it runs.
#[utoipa::path(get, path = paths::NODE, tag = "cluster",
    params(("id" = String, Path, description = "The id of the node.")),
    responses((status = 200, description = "The node", body = NodeDetail)))]
pub(super) async fn node(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    detail(&head, &id).map(|detail| answer(&detail))
}

/// Cordons, drains, approves or refuses a node, for this head alone.
///
/// What is left out stays unchanged. A cordoned node gets no new work, and ends what it runs; `wait`
/// waits for that, and the answer lists what still runs. Each other head of the cluster decides for
/// itself. All of it outlasts a restart. A node that is not known yet can be approved or refused by its
/// whole id.
#[utoipa::path(patch, path = paths::NODE, tag = "cluster",
    params(("id" = String, Path, description = "The id of the node."), Query),
    request_body = NodePatch,
    responses((status = 200, description = "The node", body = NodeDetail)))]
pub(super) async fn change(
    State(rest): State<Rest>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Refused> {
    let Query { wait } = extract::query(request.uri())?;
    if wait > WAIT_SECONDS_MAX {
        let reason = format!("wait must be at most {WAIT_SECONDS_MAX} seconds; ask again");
        return Err(Refused::invalid(&[reason]));
    }
    let patch: NodePatch = rest.bodies.read(request).await?;
    let peer: PeerId = id.parse().map_err(|_| Refused::UNKNOWN_NODE)?;
    rest.head.change_node(peer.clone(), patch).await?;
    rest.head.wait_idle(&peer, Duration::from_secs(wait)).await;
    detail(&rest.head, &id).map(|detail| answer(&detail))
}

fn detail(head: &Head, id: &str) -> Result<NodeDetail, Refused> {
    let peer: PeerId = id.parse().map_err(|_| Refused::UNKNOWN_NODE)?;
    let node = describe_node(head, &peer).ok_or(Refused::UNKNOWN_NODE)?;
    Ok(NodeDetail { node, orders: head.executions().running_on(&peer) })
}
