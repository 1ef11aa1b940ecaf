//! Relays: nodes behind them, and limits for strangers.

use super::*;

const LIMITS: RelayLimits = RelayLimits {
    reservations: 4,
    circuits: 4,
    circuit_bytes: 4 * 1024 * 1024,
    circuit_for: Duration::from_mins(1),
};

fn relaying(limits: RelayLimits) -> NetworkOptions {
    let relay = RelayOptions { limits: Some(limits), through: vec![] };
    let connectivity = Connectivity { relay, ..Connectivity::for_role(Role::Head) };
    NetworkOptions { connectivity, ..options(vec![]) }
}

/// Time to find a node that was missing at the first look.
const FOUND_WITHIN: Duration = Duration::from_mins(1);

/// Returns the options of a node that cannot be reached at its advertised address, as behind NAT.
fn behind_nat(relay: &Network, role: Role) -> NetworkOptions {
    let connectivity = Connectivity {
        advertised: vec![Advertised::tcp("203.0.113.7", 9527).unwrap()],
        relay: RelayOptions { limits: None, through: vec![boot_node(relay)] },
        ..Connectivity::for_role(role)
    };
    NetworkOptions { connectivity, ..options(vec![]) }
}

/// Starts a node behind NAT and waits for its reservation at `relay`.
async fn reached_through(group: &Group, relay: &Network) -> Started {
    let started = Network::start(group, behind_nat(relay, Role::Worker)).await.unwrap();
    started.0.subscribe("general").await.unwrap();
    let has_place = || async {
        let n_places = relay.relay_counts().n_reservations;
        if n_places == 1 { Ok(()) } else { Err(n_places) }
    };
    until(WITHIN, has_place).await.unwrap();
    started
}

#[tokio::test]
async fn node_behind_nat_is_found_and_reached_through_its_relay() {
    let group = Group::default();
    let (relay, _at_relay) = Network::start(&group, relaying(LIMITS)).await.unwrap();
    let (worker, mut at_worker) = reached_through(&group, &relay).await;
    let (head, mut at_head) = Network::start(&group, behind_nat(&relay, Role::Head)).await.unwrap();
    head.subscribe("general").await.unwrap();
    connected(&mut at_head, worker.peer_id()).await;
    assert_eq!(head.relay_of(worker.peer_id()), Some(relay.peer_id().clone()));
    assert_eq!(head.relay_of(relay.peer_id()), None, "it is connected directly");
    assert_eq!((relay.relay_counts().n_circuits, head.relay_counts().n_relayed_peers), (1, 1));
    head.tell(worker.peer_id(), MESSAGES, b"through").await.unwrap();
    assert_eq!(receive_message(&mut at_worker, head.peer_id()).await, "through");
    assert_eq!(worker.relay_of(head.peer_id()), Some(relay.peer_id().clone()));

    // A connection is closed at its limit. The next one replaces it.
    let long = vec![b'x'; 3 * 1024 * 1024];
    while head.tell(worker.peer_id(), MESSAGES, &long).await.is_ok() {}
    disconnected(&mut at_head, worker.peer_id()).await;
    connected(&mut at_head, worker.peer_id()).await;
    head.tell(worker.peer_id(), MESSAGES, b"again").await.unwrap();
    group.shutdown().await;
}

#[tokio::test]
async fn relay_with_allowed_peers_relays_for_no_others() {
    let group = Group::default();
    let (relay, _at_relay) = Network::start(&group, relaying(LIMITS)).await.unwrap();
    let (worker, _at_worker) = reached_through(&group, &relay).await;
    relay.set_allowed(Some([worker.peer_id().clone()].into())).await;
    let (stranger, mut at_stranger) =
        Network::start(&group, behind_nat(&relay, Role::Head)).await.unwrap();
    stranger.subscribe("general").await.unwrap();
    let is_refused = || async {
        let refused = relay.relay_counts();
        if refused.n_refused >= 2 { Ok(()) } else { Err(refused) }
    };
    until(FOUND_WITHIN, is_refused).await.unwrap();
    let RelayCounts { n_reservations, n_circuits, .. } = relay.relay_counts();
    assert_eq!((n_reservations, n_circuits), (1, 0), "neither a place nor a connection");
    while let Ok(event) = at_stranger.try_recv() {
        assert!(!matches!(event, Event::Connected(peer) if peer == *worker.peer_id()));
    }
    relay.set_allowed(Some([stranger.peer_id().clone()].into())).await;
    let is_ended = || async {
        let counts = relay.relay_counts();
        if counts.n_reservations == 0 { Ok(()) } else { Err(counts) }
    };
    until(FOUND_WITHIN, is_ended).await.unwrap();
    group.shutdown().await;
}

#[tokio::test]
async fn one_peer_gets_a_limited_part_of_a_relay() {
    let group = Group::default();
    let few = RelayLimits { reservations: 1, circuits: 2, ..LIMITS };
    let (relay, _at_relay) = Network::start(&group, relaying(few)).await.unwrap();
    let (worker, _at_worker) = reached_through(&group, &relay).await;
    let mut heads = Vec::new();
    for _ in 0..3 {
        let (head, events) = Network::start(&group, behind_nat(&relay, Role::Head)).await.unwrap();
        head.subscribe("general").await.unwrap();
        heads.push((head, events));
    }
    // Three reservations and a connection.
    let is_refused = || async {
        let counts = relay.relay_counts();
        let relayed = heads.iter().filter(|(head, _)| head.relay_of(worker.peer_id()).is_some());
        let seen = (counts.n_refused >= 4, counts.n_circuits, relayed.count());
        if seen == (true, 2, 2) { Ok(()) } else { Err((counts, seen)) }
    };
    until(FOUND_WITHIN, is_refused).await.unwrap();
    assert_eq!(relay.relay_counts().n_reservations, 1);
    group.shutdown().await;
}
