//! Offers: contents and receivers.

use std::collections::BTreeSet;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::*;
use crate::message::Offer;
use crate::network::Event;

/// Starts a peer that is connected to all workers and does not send an offer.
async fn observer(cluster: &Cluster) -> (Network, mpsc::Receiver<Event>) {
    let addresses: Vec<_> = cluster.workers.iter().map(|it| it.addresses().remove(0)).collect();
    let protocols = Protocols { messages: &[OFFER_PROTOCOL], ..Protocols::default() };
    peer(&cluster.group, Identity::random(), &addresses, protocols).await
}

/// Waits for the next offer of `worker`.
async fn next_offer(events: &mut mpsc::Receiver<Event>, worker: &Node) -> Offer {
    loop {
        if let Event::Message { peer, bytes, .. } = events.recv().await.unwrap()
            && peer == *worker.peer_id()
        {
            return serde_json::from_slice(&bytes).unwrap();
        }
    }
}

/// Makes the observer known to `worker` as a worker. Returns the first offer without slots.
async fn become_a_worker(
    network: &Network,
    events: &mut mpsc::Receiver<Event>,
    worker: &Node,
) -> Offer {
    let own = Offer { role: "worker".into(), ..Offer::default() };
    network.tell(worker.peer_id(), OFFER_PROTOCOL, &message(&own)).await.unwrap();
    loop {
        let offer = next_offer(events, worker).await;
        if offer.slots == 0 {
            return offer;
        }
    }
}

#[tokio::test]
async fn idle_nodes_exchange_few_messages() {
    let cluster = Cluster::of(&[&[], &[], &[]]).await;
    let (_network, mut events) = observer(&cluster).await;
    let mut seen = BTreeSet::new();
    while seen.len() < cluster.workers.len() {
        if let Event::Message { peer, .. } = events.recv().await.unwrap()
            && cluster.workers.iter().any(|worker| *worker.peer_id() == peer)
        {
            seen.insert(peer);
        }
    }
    tokio::time::pause();
    let end = Instant::now() + Duration::from_mins(1);
    let mut n_offers = 0;
    while let Ok(event) = timeout_at(end, events.recv()).await {
        n_offers += usize::from(matches!(event, Some(Event::Message { .. })));
    }
    tokio::time::resume();
    // Each of the three workers repeats its offer twice a minute, since the observer might be a head.
    assert!(n_offers <= 8, "{n_offers} offers in a minute");
    // The interval of pings is checked instead of their number, since tests cannot control the clock of
    // pings.
    assert!(Connectivity::for_role(Role::Worker).ping_every >= Duration::from_secs(30));
}

#[tokio::test]
async fn peer_that_identifies_itself_repeatedly_gets_one_offer_per_connection() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (network, mut events) = observer(&cluster).await;
    // Distinguishes the offers of this test from the offers of the worker.
    let subgroups = vec!["test".parse().unwrap()];
    let mut offered = async || loop {
        if let Event::Message { bytes, .. } = events.recv().await.unwrap()
            && serde_json::from_slice::<Offer>(&bytes).unwrap().subgroups == ["test"]
        {
            return;
        }
    };
    let context = NodeContext {
        network: worker.network.clone(),
        functions: worker.functions.clone(),
        peers: Peers::new(Clock::system(), 1),
        identity: Identity::random(),
        metrics: metrics::new(),
        clock: Clock::system(),
        group: cluster.group.clone(),
    };
    let (peer, peers) = (network.peer_id(), context.peers.clone());
    peers.note(&Event::Connected(peer.clone()));
    let protocols = vec![OFFER_PROTOCOL.to_owned()];
    peers.note(&Event::Identified { peer: peer.clone(), addresses: vec![], protocols });
    let offers = Offers::new(context, worker.role.clone(), subgroups);
    offers.greet(peer);
    offered().await;
    offers.greet(peer);
    assert!(timeout(Duration::from_secs(1), offered()).await.is_err(), "the same connection");
    offers.forget(peer);
    offers.greet(peer);
    offered().await;
}

#[tokio::test]
async fn worker_announces_slots_to_heads_and_functions_to_workers() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (network, mut events) = observer(&cluster).await;
    let offer = next_offer(&mut events, worker).await;
    assert_eq!(offer.slots, 5, "half of the slots, for an unnamed peer that might be a head");
    let hello = cluster.workers[0].functions();
    let hello = hello.add("hello.wasm".parse().unwrap(), wat::parse_str(HELLO).unwrap()).await;
    let latest = become_a_worker(&network, &mut events, worker).await;
    assert_eq!((latest.slots_free, latest.functions), (0, vec![hello.unwrap().id.to_string()]));
}

#[tokio::test]
async fn changes_within_a_short_time_are_sent_to_a_worker_in_one_offer() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let (network, mut events) = observer(&cluster).await;
    next_offer(&mut events, worker).await;
    become_a_worker(&network, &mut events, worker).await;
    tokio::time::pause();
    let mut n_offers = 0;
    for n in 0..5 {
        let module = wat::parse_str(format!("(module (memory {n}))")).unwrap();
        let name = format!("module-{n}.wasm").parse().unwrap();
        worker.functions().add(name, module).await.unwrap();
        let end = Instant::now() + Duration::from_millis(1_500);
        while let Ok(event) = timeout_at(end, events.recv()).await {
            let Some(Event::Message { peer, .. }) = event else { continue };
            n_offers += usize::from(peer == *worker.peer_id());
        }
    }
    tokio::time::resume();
    assert!(n_offers <= 1, "{n_offers} offers of five changes in 8 s");
}
