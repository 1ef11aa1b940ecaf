//! Attacks of strangers over real sockets, next to a well-behaved peer.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;

use futures::future::join_all;
use futures::{AsyncWrite as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::Transport as _;
use libp2p::core::Endpoint;
use libp2p::core::muxing::{StreamMuxerBox, StreamMuxerExt as _};
use libp2p::core::transport::{DialOpts, PortUse};
use libp2p::core::upgrade::Version;
use libp2p::kad::ProviderRecord;
use libp2p::kad::store::RecordStore as _;
use libp2p::multiaddr::Protocol;
use tokio::net::{TcpListener, TcpStream};

use super::super::guard::ALLOWANCES;
use super::super::guard::tests::burst_of;
use super::super::{rendezvous, swarm};
use super::*;

fn socket(network: &Network) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port(network)).into()
}

async fn guarded(group: &Group, allowances: Allowances, boot_nodes: Vec<BootNode>) -> Started {
    Network::start_with(group, options(boot_nodes), allowances).await.unwrap()
}

#[tokio::test]
async fn head_that_relays_gossip_of_strangers_is_not_banned() {
    // Each stranger stays within its own allowance, but their sum exceeds the allowance of a single
    // peer.
    let allowances = Allowances { gossip: burst_of(40), offenses: burst_of(4), ..ALLOWANCES };
    let group = Group::default();
    // The head is not a boot node of the worker, since boot nodes are never banned.
    let (worker, mut at_worker) = guarded(&group, allowances, vec![]).await;
    worker.subscribe("general").await.unwrap();
    let (head, mut at_head) = guarded(&group, allowances, vec![boot_node(&worker)]).await;
    head.subscribe("general").await.unwrap();
    joined(&mut at_worker, head.peer_id()).await;
    joined(&mut at_head, worker.peer_id()).await;
    let mut strangers = Vec::new();
    for _ in 0..4 {
        let (stranger, events) = node(&group, vec![boot_node(&head)]).await;
        stranger.subscribe("general").await.unwrap();
        joined(&mut at_head, stranger.peer_id()).await;
        strangers.push((stranger, events));
    }
    for n in 0..30 {
        for (stranger, _) in &strangers {
            stranger.publish("general", format!("{n}").into_bytes()).await.unwrap();
        }
    }
    for n in 0..8 {
        head.publish("general", format!("roll call {n}").into_bytes()).await.unwrap();
    }
    let mut n_heard = 0;
    while n_heard < 8 {
        match timeout(WITHIN, at_worker.recv()).await.unwrap().unwrap() {
            Event::Gossip { author, .. } if author == *head.peer_id() => n_heard += 1,
            Event::Disconnected(peer) => {
                assert_ne!(peer, *head.peer_id(), "the head was disconnected");
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn idle_sockets_do_not_prevent_peers_from_connecting() {
    let group = Group::default();
    // The limit of connections is lower than the number of idle sockets.
    let mut options = options(vec![]);
    options.connectivity.connections = Some(ConnectionBounds::around(10));
    let (head, mut at_head) = Network::start(&group, options).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..600 {
        idle.push(TcpStream::connect(socket(&head)).await.unwrap());
    }
    let (worker, _at_worker) = node(&group, vec![boot_node(&head)]).await;
    connected(&mut at_head, worker.peer_id()).await;
    worker.tell(head.peer_id(), MESSAGES, b"here").await.unwrap();
    assert_eq!(receive_message(&mut at_head, worker.peer_id()).await, "here");
    drop(idle);
}

#[tokio::test]
async fn oldest_silent_peers_of_one_host_are_disconnected() {
    let group = Group::default();
    let (head, mut at_head) = node(&group, vec![]).await;
    let (worker, _at_worker) = node(&group, vec![boot_node(&head)]).await;
    connected(&mut at_head, worker.peer_id()).await;
    head.vouch(worker.peer_id());
    // Without waiting for each connection, so that no closed one is opened again meanwhile.
    let mut silent = Vec::new();
    for _ in 0..270 {
        silent.push(node(&group, vec![boot_node(&head)]).await);
    }
    let mut n_connected = 0_usize;
    let mut n_disconnected = 0_usize;
    while n_disconnected < 14 {
        match timeout(WITHIN, at_head.recv()).await.unwrap().unwrap() {
            Event::Connected(_) => n_connected += 1,
            Event::Disconnected(peer) => {
                assert_ne!(peer, *worker.peer_id(), "it sent a valid message");
                n_disconnected += 1;
            }
            _ => {}
        }
    }
    assert!(n_connected <= 270, "{n_connected}");
    worker.tell(head.peer_id(), MESSAGES, b"here").await.unwrap();
    assert_eq!(receive_message(&mut at_head, worker.peer_id()).await, "here");
    drop(silent);
}

#[tokio::test]
async fn unfinished_messages_are_limited_and_complete_messages_arrive() {
    let allowances =
        Allowances { unfinished_bytes: 32 * 1024 * 1024, offenses: burst_of(20), ..ALLOWANCES };
    let group = Group::default();
    let (head, mut at_head) = guarded(&group, allowances, vec![]).await;
    let (good, _at_good) = node(&group, vec![boot_node(&head)]).await;
    connected(&mut at_head, good.peer_id()).await;
    let (bad, mut at_bad) = node(&group, vec![boot_node(&head)]).await;
    connected(&mut at_head, bad.peer_id()).await;
    let drips = (0..120).map(|_| async {
        let mut stream = bad.open(head.peer_id(), MESSAGES).await.ok()?;
        for _ in 0..8 {
            stream.write_all(&vec![b'x'; 32 * 1024]).await.ok()?;
        }
        stream.flush().await.ok()?;
        Some(stream)
    });
    let (held, ()) = tokio::join!(join_all(drips), async {
        for _ in 0..20 {
            let long = vec![b'x'; 512 * 1024];
            good.tell(head.peer_id(), MESSAGES, &long).await.unwrap();
        }
    });
    disconnected(&mut at_bad, head.peer_id()).await;
    good.tell(head.peer_id(), MESSAGES, b"good").await.unwrap();
    let mut n_whole = 0;
    loop {
        let bytes = receive_message(&mut at_head, good.peer_id()).await;
        if bytes == "good" {
            break;
        }
        n_whole += usize::from(bytes.len() == 512 * 1024);
    }
    assert_eq!(n_whole, 20, "all arrive");
    drop(held);
}

/// Connects to `network` with these keys, without a swarm, and returns the muxer.
pub(super) async fn muxer(network: &Network, keys: &Identity) -> StreamMuxerBox {
    let mut transport = libp2p::tcp::tokio::Transport::default()
        .upgrade(Version::V1)
        .authenticate(libp2p::noise::Config::new(keys.keypair()).unwrap())
        .multiplex(libp2p::yamux::Config::default())
        .map(|(peer, muxer), _| (peer, StreamMuxerBox::new(muxer)))
        .boxed();
    let address = Multiaddr::from(Ipv4Addr::LOCALHOST).with(Protocol::Tcp(port(network)));
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    transport.dial(address, options).unwrap().await.unwrap().1
}

#[tokio::test]
async fn peer_that_fills_memory_with_unaccepted_streams_is_banned() {
    let allowances =
        Allowances { unfinished_bytes: 8 * 1024 * 1024, offenses: burst_of(4), ..ALLOWANCES };
    let group = Group::default();
    let (head, mut at_head) = guarded(&group, allowances, vec![]).await;
    let (good, _at_good) = node(&group, vec![boot_node(&head)]).await;
    connected(&mut at_head, good.peer_id()).await;
    let mut attacker = muxer(&head, &Identity::random()).await;
    let newcomer = |event| if let Event::Connected(peer) = event { Some(peer) } else { None };
    let bad = next(&mut at_head, newcomer).await;
    // As many streams as can be negotiated at a time stop in the middle of the negotiation. Therefore,
    // the further streams are never read.
    let (mut streams, mut are_sent) = (Vec::new(), true);
    let flood = poll_fn(|context| {
        // The slow streams are first.
        while (streams.len() < muxer::NEGOTIATING_MAX || are_sent)
            && let Poll::Ready(Ok(stream)) = attacker.poll_outbound_unpin(context)
        {
            let is_slow = streams.len() < muxer::NEGOTIATING_MAX;
            let data = if is_slow { b"\x13/multi".to_vec() } else { vec![0x7f; 200 * 1024] };
            are_sent &= !is_slow;
            streams.push((stream, data));
        }
        are_sent = true;
        for (stream, data) in &mut streams {
            while !data.is_empty()
                && let Poll::Ready(Ok(n)) = Pin::new(&mut *stream).poll_write(context, data)
            {
                data.drain(..n);
            }
            are_sent &= Pin::new(stream).poll_flush(context).is_ready() && data.is_empty();
        }
        if are_sent && streams.len() == muxer::NEGOTIATING_MAX {
            context.waker().wake_by_ref();
        }
        attacker.poll_unpin(context).map(drop)
    });
    tokio::select! {
        () = flood => {}
        () = disconnected(&mut at_head, &bad) => {}
    }
    assert!(head.guard.is_banned(bad.as_str().parse().unwrap()));
    good.tell(head.peer_id(), MESSAGES, b"good").await.unwrap();
    assert_eq!(receive_message(&mut at_head, good.peer_id()).await, "good");
}

#[tokio::test]
async fn forged_addresses_from_the_peer_table_are_dialed_a_limited_number_of_times() {
    let group = Group::default();
    let victim = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let victim_port = victim.local_addr().unwrap().port();
    let keys = Identity::random();
    let mut liar = bare_swarm(&keys);
    for n in 0..20_u8 {
        let addresses = (1..=60).map(|m| {
            let host = Ipv4Addr::new(127, 9, n, m);
            Multiaddr::from(host).with(Protocol::Tcp(victim_port))
        });
        let record = ProviderRecord {
            key: rendezvous::key("general"),
            provider: libp2p::PeerId::random(),
            expires: None,
            addresses: addresses.collect(),
        };
        let table = liar.behaviour_mut().table.as_mut().unwrap();
        table.kad().store_mut().add_provider(record).unwrap();
    }
    let any = [Multiaddr::from(Ipv4Addr::LOCALHOST).with(Protocol::Tcp(0))];
    let (listening, _) = swarm::listen(&mut liar, &any).await.unwrap();
    let boot: BootNode = format!("{}/p2p/{}", listening[0], keys.peer_id()).parse().unwrap();
    group.spawn("liar", async move {
        loop {
            liar.select_next_some().await;
        }
    });
    let connectivity = Connectivity::for_role(Role::Worker);
    let worker = NetworkOptions { connectivity, ..options(vec![boot]) };
    let (worker, mut at_worker) = Network::start(&group, worker).await.unwrap();
    worker.subscribe("general").await.unwrap();
    connected(&mut at_worker, keys.peer_id()).await;
    let mut n_dials = 0;
    // Counts dials until a second passes without any.
    let mut patience = WITHIN;
    while timeout(patience, victim.accept()).await.is_ok() {
        n_dials += 1;
        patience = Duration::from_secs(1);
        assert!(n_dials <= 100, "dials do not stop");
    }
    assert!(n_dials > 0, "the lying peer was queried");
    // A well-behaved peer is served.
    let (good, _at_good) = node(&group, vec![boot_node(&worker)]).await;
    connected(&mut at_worker, good.peer_id()).await;
    good.tell(worker.peer_id(), MESSAGES, b"good").await.unwrap();
    assert_eq!(receive_message(&mut at_worker, good.peer_id()).await, "good");
}

#[tokio::test]
async fn number_of_neighbors_of_a_worker_is_limited() {
    let group = Group::default();
    let (worker, mut at_worker) = node(&group, vec![]).await;
    let neighbors = nodes_of(&group, &worker, 30).await;
    for (peer, _) in &neighbors {
        connected(&mut at_worker, peer.peer_id()).await;
    }
    for (peer, _) in &neighbors {
        worker.neighbor(peer.peer_id());
    }
    let mut staying: BTreeSet<&PeerId> = neighbors.iter().map(|(peer, _)| peer.peer_id()).collect();
    while staying.len() > 24 {
        let lost = |event| if let Event::Disconnected(peer) = event { Some(peer) } else { None };
        let lost = next(&mut at_worker, lost).await;
        staying.remove(&lost);
    }
    assert!(neighbors[..24].iter().all(|(peer, _)| staying.contains(peer.peer_id())));
    neighbors[0].0.tell(worker.peer_id(), MESSAGES, b"here").await.unwrap();
    assert_eq!(receive_message(&mut at_worker, neighbors[0].0.peer_id()).await, "here");
}
