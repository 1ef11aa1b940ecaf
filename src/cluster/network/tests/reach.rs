//! Ways in which nodes find each other: a boot node, the peer store, a name, a websocket.

use std::future::poll_fn;

use futures::StreamExt as _;
use libp2p::core::muxing::StreamMuxerExt as _;
use libp2p::swarm::SwarmEvent;
use tempfile::tempdir;

use super::*;

/// Returns the options of a node that looks for other nodes on its topics.
fn discovering(boot_nodes: Vec<BootNode>) -> NetworkOptions {
    let connectivity = Connectivity::for_role(Role::Worker);
    NetworkOptions { connectivity, ..options(boot_nodes) }
}

async fn started(group: &Group, options: NetworkOptions) -> Started {
    Network::start(group, options).await.unwrap()
}

#[tokio::test]
async fn nodes_of_a_topic_find_one_another_again_without_the_boot_node() {
    let (group, booting, first) = (Group::default(), Group::default(), Group::default());
    let (boot, _at_boot) = started(&booting, discovering(vec![])).await;
    let identity = Identity::random();
    let head = |port| NetworkOptions {
        identity: identity.clone(),
        port,
        ..discovering(vec![boot_node(&boot)])
    };
    let (network, at_head) = started(&first, head(0)).await;
    network.subscribe("general").await.unwrap();
    let (worker, mut at_worker) = started(&group, discovering(vec![boot_node(&boot)])).await;
    worker.subscribe("general").await.unwrap();
    connected(&mut at_worker, identity.peer_id()).await;
    worker.tell(identity.peer_id(), MESSAGES, b"{}").await.unwrap();

    let port = port(&network);
    booting.shutdown().await;
    first.shutdown().await;
    drop((network, at_head));
    disconnected(&mut at_worker, identity.peer_id()).await;
    let restart = || Network::start(&group, head(port));
    let (network, _at_head) = until(WITHIN, restart).await.unwrap();
    connected(&mut at_worker, network.peer_id()).await;
}

#[tokio::test]
async fn worker_finds_a_head_of_its_peer_store_even_after_its_restart() {
    let (group, first, dir) = (Group::default(), Group::default(), tempdir().unwrap());
    let identity = Identity::random();
    let head = |port| NetworkOptions { identity: identity.clone(), port, ..options(vec![]) };
    let worker = |boot_nodes, is_dialing_back| {
        let peer_db = Some(dir.path().join("peers"));
        let connectivity = Connectivity {
            peer_db,
            wanted_peers: 0,
            is_dialing_back,
            ..Connectivity::for_role(Role::Worker)
        };
        NetworkOptions { connectivity, ..options(boot_nodes) }
    };
    let (network, at_head) = started(&first, head(0)).await;
    let early = group.child();
    let (before, mut at_before) = started(&early, worker(vec![boot_node(&network)], true)).await;
    assert_eq!(before.n_remembered, 0);
    connected(&mut at_before, identity.peer_id()).await;
    early.shutdown().await;

    let (deaf, _at_deaf) = started(&group, worker(vec![], false)).await;
    assert_eq!(deaf.n_remembered, 0, "told not to dial back");
    let (worker, mut at_worker) = started(&group, worker(vec![], true)).await;
    assert_eq!(worker.n_remembered, 1);
    connected(&mut at_worker, identity.peer_id()).await;

    let port = port(&network);
    first.shutdown().await;
    drop((network, at_head));
    disconnected(&mut at_worker, identity.peer_id()).await;
    let (_head, _at_head) = until(WITHIN, || Network::start(&group, head(port))).await.unwrap();
    connected(&mut at_worker, identity.peer_id()).await;
}

#[tokio::test]
async fn peer_that_connects_while_the_node_starts_is_reported() {
    let group = Group::default();
    let free = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let keys = Identity::random();
    let mut peer = bare_swarm(&keys);
    group.spawn("peer", async move {
        let address: Multiaddr = format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap();
        loop {
            peer.dial(address.clone()).unwrap();
            while !matches!(
                peer.select_next_some().await,
                SwarmEvent::OutgoingConnectionError { .. }
            ) {}
        }
    });
    // The node waits for the addresses of all interfaces. The peer connects in this time.
    let address = Ipv4Addr::UNSPECIFIED.into();
    let everywhere = NetworkOptions { address, port, ..options(vec![]) };
    let (_node, mut events) = started(&group, everywhere).await;
    connected(&mut events, keys.peer_id()).await;
}

#[tokio::test]
async fn peer_that_connects_again_is_dialed_at_the_addresses_that_it_announced() {
    let group = Group::default();
    let (head, mut at_head) = node(&group, vec![]).await;
    let keys = Identity::random();
    let address: Multiaddr = head.addresses()[0].parse().unwrap();
    let mut first = bare_swarm(&keys);
    first.listen_on("/ip4/127.0.0.1/tcp/0".parse().unwrap()).unwrap();
    let listening = loop {
        if let SwarmEvent::NewListenAddr { address, .. } = first.select_next_some().await {
            break address;
        }
    };
    first.add_external_address(listening);
    first.dial(address.clone()).unwrap();
    let (dialed, mut dials) = mpsc::channel(1);
    group.spawn("first", async move {
        loop {
            if let SwarmEvent::ConnectionEstablished { endpoint, .. } =
                first.select_next_some().await
                && endpoint.is_listener()
            {
                dialed.send(()).await.unwrap();
            }
        }
    });
    next(&mut at_head, |event| matches!(event, Event::Identified { .. }).then_some(())).await;

    // While a connection is young, a second one might belong to the same attempt.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    let mut second = bare_swarm(&keys);
    second.dial(address).unwrap();
    group.spawn("second", async move {
        loop {
            second.select_next_some().await;
        }
    });
    timeout(WITHIN, dials.recv()).await.unwrap().unwrap();
}

#[tokio::test]
async fn connection_on_which_a_peer_does_not_identify_itself_does_not_end_its_earlier_one() {
    let group = Group::default();
    let (head, mut at_head) = node(&group, vec![]).await;
    let keys = Identity::random();
    let options = NetworkOptions { identity: keys.clone(), ..options(vec![boot_node(&head)]) };
    let (worker, _at_worker) = started(&group, options).await;
    next(&mut at_head, |event| matches!(event, Event::Identified { .. }).then_some(())).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10)).await;
    tokio::time::resume();

    // As after a dial of an outdated id of the head, the peer does not use the connection.
    let mut unused = attacks::muxer(&head, &keys).await;
    let stream = poll_fn(|context| unused.poll_inbound_unpin(context));
    timeout(WITHIN, stream).await.unwrap().expect("the head has accepted the connection");
    drop(unused);
    let (stranger, _events) = node(&group, vec![boot_node(&head)]).await;
    let is_disconnected = next(&mut at_head, |event| match event {
        Event::Disconnected(_) => Some(true),
        Event::Connected(id) if id == *stranger.peer_id() => Some(false),
        _ => None,
    });
    assert!(!is_disconnected.await);
    worker.tell(head.peer_id(), MESSAGES, b"{}").await.unwrap();
    receive_message(&mut at_head, worker.peer_id()).await;
}

#[tokio::test]
async fn boot_nodes_with_host_names_and_websockets_are_dialed() {
    let group = Group::default();
    let connectivity =
        Connectivity { websocket: Some(0), wanted_peers: 0, ..Connectivity::for_role(Role::Head) };
    let (head, _at_head) =
        started(&group, NetworkOptions { connectivity, ..options(vec![]) }).await;
    let addresses = head.addresses();
    let [tcp, websocket] = addresses.as_slice() else { panic!("two listeners: {addresses:?}") };
    assert!(websocket.contains("/ws/p2p/"), "{websocket}");
    for address in [tcp, websocket] {
        for address in [address.clone(), address.replace("/ip4/127.0.0.1/", "/dns4/localhost/")] {
            let (worker, mut at_worker) = node(&group, vec![address.parse().unwrap()]).await;
            connected(&mut at_worker, head.peer_id()).await;
            worker.tell(head.peer_id(), MESSAGES, &vec![b'x'; 1024 * 1024]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn using_one_port_for_tcp_and_websockets_is_rejected() {
    let connectivity = Connectivity { websocket: Some(9527), ..Connectivity::for_role(Role::Head) };
    let options = NetworkOptions { connectivity, port: 9527, ..options(vec![]) };
    let refused = Network::start(&Group::default(), options).await;
    assert!(matches!(refused, Err(NetworkError::SamePort { port: 9527 })));
}

#[tokio::test]
async fn peers_learn_only_the_advertised_addresses() {
    let group = Group::default();
    let connectivity = Connectivity {
        advertised: vec![
            Advertised::tcp("head.example", 9527).unwrap(),
            Advertised::websocket("203.0.113.7", 80).unwrap(),
        ],
        ..Connectivity::for_role(Role::Head)
    };
    let address = Ipv4Addr::LOCALHOST;
    let (head, _at_head) =
        started(&group, NetworkOptions { connectivity, ..options(vec![]) }).await;
    let want = ["/dns/head.example/tcp/9527", "/ip4/203.0.113.7/tcp/80/ws"]
        .map(|address| format!("{address}/p2p/{}", head.peer_id()));
    assert_eq!(head.addresses(), want);
    let port = head.listening.read()[0].to_string().rsplit('/').next().unwrap().to_owned();
    let listening = format!("/ip4/{address}/tcp/{port}/p2p/{}", head.peer_id());
    let (_worker, mut at_worker) = node(&group, vec![listening.parse().unwrap()]).await;
    let mut told = next(&mut at_worker, |event| match event {
        Event::Identified { addresses, .. } => Some(addresses),
        _ => None,
    })
    .await;
    told.sort();
    assert_eq!(told, want);
}

#[tokio::test]
async fn surplus_connections_are_closed_from_silent_peers_first_but_never_from_boot_nodes() {
    let group = Group::default();
    let (boot, _at_boot) = node(&group, vec![]).await;
    let connectivity = Connectivity {
        connections: Some(ConnectionBounds { low: 2, high: 3 }),
        wanted_peers: 0,
        ..Connectivity::for_role(Role::Head)
    };
    let options = NetworkOptions { connectivity, ..options(vec![boot_node(&boot)]) };
    let (head, mut at_head) = started(&group, options).await;
    connected(&mut at_head, boot.peer_id()).await;
    let mut peers = Vec::new();
    for _ in 0..3 {
        let (peer, events) = node(&group, vec![boot_node(&head)]).await;
        connected(&mut at_head, peer.peer_id()).await;
        if peers.is_empty() {
            head.vouch(peer.peer_id());
        }
        peers.push((peer, events));
    }
    for (peer, _) in &peers[1..] {
        disconnected(&mut at_head, peer.peer_id()).await;
    }
    head.tell(boot.peer_id(), MESSAGES, b"{}").await.unwrap();
    head.tell(peers[0].0.peer_id(), MESSAGES, b"{}").await.unwrap();
    assert_eq!(ConnectionBounds::around(100), ConnectionBounds { low: 100, high: 120 });
}
