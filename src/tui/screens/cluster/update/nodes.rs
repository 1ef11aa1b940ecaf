//! The heads' lists of nodes, each asked for again and again.

use std::time::Duration;

use wire::functions::NodeBody;

use crate::{
    event::{Effect, Timer},
    overlay::Overlay,
    screens::{Screen, update::note},
    state::{
        State,
        loadable::Failure,
        services::{HeadId, Service},
    },
};

/// How often the nodes are looked at while they are in view.
pub(crate) const NODES_EVERY: Duration = Duration::from_secs(2);

/// How often they are looked at otherwise, for the header's sake.
pub(crate) const NODES_HIDDEN_EVERY: Duration = Duration::from_secs(15);

/// Takes the list of nodes of `head`, and sets the time of the next.
pub(crate) fn on(
    state: &mut State,
    head: HeadId,
    result: Result<Vec<NodeBody>, Failure>,
    latency: Duration,
) {
    let service = Service::Head(head);
    let was_down = state.services.health(service).is_away();
    note(state, service, &result, Some(latency));
    let is_listed = result.is_ok();
    state.nodes.settle(head, result, state.now);
    if matches!(state.overlays.last(), Some(Overlay::AddNode)) {
        let nodes = state.nodes.all(&state.stack);
        state.cluster.node_form.learn(&nodes);
    }
    let is_seen = matches!(state.screen, Screen::Cluster | Screen::Execute | Screen::Overview);
    let wait = if is_seen { NODES_EVERY } else { NODES_HIDDEN_EVERY };
    // Back off exponentially from a head that is down, capped at `NODES_HIDDEN_EVERY`.
    let n_failures = state.nodes.head(head).map_or(0, |nodes| nodes.n_failures);
    let wait = wait.saturating_mul(1 << n_failures.min(4)).min(NODES_HIDDEN_EVERY.max(wait));
    state.effects.push(Effect::SetTimer(Timer::Nodes(head), wait));
    // Another head may have come up at the address, with other functions.
    if was_down && is_listed && state.nodes.run_head == Some(head) {
        state.effects.push(Effect::LoadFunctions(head));
    }
}
