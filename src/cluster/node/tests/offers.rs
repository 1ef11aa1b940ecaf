//! Offers: what a node tells whom of itself.

use std::net::Ipv4Addr;

use super::*;
use crate::message::Offer;

#[tokio::test]
async fn a_worker_tells_heads_of_its_slots_and_workers_of_what_it_holds_alone() {
    let cluster = Cluster::of(&[&[]]).await;
    let worker = &cluster.workers[0];
    let options = NetworkOptions {
        identity: Identity::random(),
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        boot_nodes: vec![worker.addresses()[0].parse().unwrap()],
        told: &[OFFER_PROTOCOL],
        asked: &[],
        lines: &[],
        open: &[],
        connectivity: Connectivity::of(Role::Worker),
        clock: Clock::system(),
    };
    let (network, mut events) = Network::start(&cluster.group, options).await.unwrap();
    let mut offer = async || loop {
        if let Event::Told { peer, bytes, .. } = events.recv().await.unwrap()
            && peer == *worker.peer_id()
        {
            return serde_json::from_slice::<Offer>(&bytes).unwrap();
        }
    };
    assert_eq!(offer().await.slots, 5, "it may be a head, and was not named: half are for it");
    let hello = cluster.workers[0].functions();
    let hello = hello.add("hello.wasm".parse().unwrap(), wat::parse_str(HELLO).unwrap()).await;
    let own = Offer { role: "worker".into(), ..Offer::default() };
    network.tell(worker.peer_id(), OFFER_PROTOCOL, &message(&own)).await.unwrap();
    let told = loop {
        let told = offer().await;
        if told.slots == 0 {
            break told;
        }
    };
    assert_eq!((told.slots_free, told.functions), (0, vec![hello.unwrap().id.to_string()]));
    cluster.group.shutdown().await;
}
