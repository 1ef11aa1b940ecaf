mod attacks;
mod reach;
mod safety;

use std::net::Ipv4Addr;

use model::node::Role;
use task::wait::until;

use super::*;

/// Time limit of each step. It is generous, since the machine might be busy.
const WITHIN: Duration = Duration::from_secs(15);
const MESSAGES: &str = "/test/message/1.0.0";
const QUESTIONS: &str = "/test/question/1.0.0";

type Started = (Network, mpsc::Receiver<Event>);

/// Starts a node that knows only its boot nodes.
async fn node(group: &Group, boot_nodes: Vec<BootNode>) -> Started {
    Network::start(group, options(boot_nodes)).await.unwrap()
}

/// Starts `n` nodes that know only `boot`, and waits until each is connected to it.
async fn nodes_of(group: &Group, boot: &Network, n: usize) -> Vec<Started> {
    let mut nodes = Vec::new();
    for _ in 0..n {
        let (network, mut events) = node(group, vec![boot_node(boot)]).await;
        connected(&mut events, boot.peer_id()).await;
        nodes.push((network, events));
    }
    nodes
}

fn options(boot_nodes: Vec<BootNode>) -> NetworkOptions {
    NetworkOptions {
        identity: Identity::random(),
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        boot_nodes,
        protocols: Protocols {
            messages: &[MESSAGES],
            questions: &[QUESTIONS],
            ..Protocols::default()
        },
        connectivity: Connectivity { wanted_peers: 0, ..Connectivity::for_role(Role::Worker) },
        clock: Clock::system(),
    }
}

/// Returns the swarm of a misbehaving worker that accepts none of this program's protocols.
fn bare_swarm(keys: &Identity) -> libp2p::Swarm<swarm::Behaviour> {
    let (inbound, _accepted) = mpsc::channel(1);
    let guard = Guard::new(None, [], guard::ALLOWANCES);
    let budget = Budget::new(&guard);
    let gate = Gate { protocols: Protocols::default(), guard, inbound };
    let connectivity = Connectivity::for_role(Role::Worker);
    swarm::build(keys, gate, &connectivity, &Names::default(), &budget).unwrap()
}

/// Waits until `peer` is connected.
async fn connected(events: &mut mpsc::Receiver<Event>, peer: &PeerId) {
    next(events, |event| matches!(event, Event::Connected(id) if id == *peer).then_some(())).await;
}

/// Waits until `peer` is disconnected.
async fn disconnected(events: &mut mpsc::Receiver<Event>, peer: &PeerId) {
    next(events, |event| matches!(event, Event::Disconnected(id) if id == *peer).then_some(()))
        .await;
}

/// Waits for a message of `peer`.
async fn receive_message(events: &mut mpsc::Receiver<Event>, peer: &PeerId) -> Bytes {
    next(events, |event| match event {
        Event::Message { peer: id, bytes, .. } if id == *peer => Some(bytes),
        _ => None,
    })
    .await
}

/// Waits until `peer` has joined a topic.
async fn joined(events: &mut mpsc::Receiver<Event>, peer: &PeerId) {
    next(events, |event| {
        matches!(event, Event::Joined { peer: id, .. } if id == *peer).then_some(())
    })
    .await;
}

/// Returns the port of the first address that a node listens on.
fn port(network: &Network) -> u16 {
    network.addresses()[0].split('/').nth(4).unwrap().parse().unwrap()
}

fn boot_node(network: &Network) -> BootNode {
    network.addresses()[0].parse().unwrap()
}

async fn next<T>(
    events: &mut mpsc::Receiver<Event>,
    pick: impl Fn(Event) -> Option<T> + Send + Sync,
) -> T {
    timeout(WITHIN, async {
        loop {
            if let Some(found) = pick(events.recv().await.expect("the network runs")) {
                return found;
            }
        }
    })
    .await
    .expect("the event comes in time")
}

#[tokio::test]
async fn nodes_exchange_gossip_messages_and_requests() {
    let group = Group::default();
    let (head, mut at_head) = node(&group, vec![]).await;
    head.subscribe("general").await.unwrap();
    let (worker, mut at_worker) = node(&group, vec![boot_node(&head)]).await;
    worker.subscribe("general").await.unwrap();

    let joined = next(&mut at_head, |event| match event {
        Event::Joined { peer, topic } => Some((peer, topic)),
        _ => None,
    });
    assert_eq!(joined.await, (worker.peer_id().clone(), "general".to_owned()));
    head.publish("general", b"roll call".to_vec()).await.unwrap();
    let gossip = next(&mut at_worker, |event| match event {
        Event::Gossip { author, bytes, .. } => Some((author, bytes)),
        _ => None,
    });
    assert_eq!(gossip.await, (head.peer_id().clone(), Bytes::from_static(b"roll call")));

    // Longer than a yamux window, so that the message is complete only if it is read.
    let long = vec![b'x'; 1024 * 1024];
    worker.tell(head.peer_id(), MESSAGES, &long).await.unwrap();
    let received = next(&mut at_head, |event| match event {
        Event::Message { peer, protocol, bytes } => Some((peer, protocol, bytes)),
        _ => None,
    });
    assert_eq!(received.await, (worker.peer_id().clone(), MESSAGES.to_owned(), Bytes::from(long)));

    let asking = worker.ask(head.peer_id(), QUESTIONS, b"which?", 100, WITHIN);
    let answering = async {
        let (question, answer) = next(&mut at_head, |event| match event {
            Event::Question { bytes, answer, .. } => Some((bytes, answer)),
            _ => None,
        })
        .await;
        assert_eq!(question, "which?");
        let (head, content) = (Bytes::from_static(b"this\n"), Bytes::from_static(b"one"));
        answer.send(Answer::new(head, content)).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.unwrap(), b"this\none");
}

#[tokio::test]
async fn message_to_an_unknown_peer_or_protocol_fails() {
    let group = Group::default();
    let (head, _events) = node(&group, vec![]).await;
    let (worker, mut at_worker) = node(&group, vec![boot_node(&head)]).await;
    let stranger = Identity::random();
    let refused = worker.tell(stranger.peer_id(), MESSAGES, b"{}").await;
    let is_open_error = |refused: &Result<(), ExchangeError>, kind: io::ErrorKind| matches!(refused, Err(ExchangeError::Unopened(source)) if source.kind() == kind);
    assert!(is_open_error(&refused, io::ErrorKind::NotConnected), "{refused:?}");
    assert!(matches!(worker.publish("nobody", vec![]).await, Err(PublishError::NoListeners)));
    next(&mut at_worker, |event| matches!(event, Event::Connected(_)).then_some(())).await;
    let refused = worker.tell(head.peer_id(), "/test/other/1.0.0", b"{}").await;
    assert!(is_open_error(&refused, io::ErrorKind::Unsupported), "{refused:?}");
}

#[tokio::test]
async fn burst_of_messages_arrives_complete() {
    let group = Group::default();
    let (head, mut at_head) = node(&group, vec![]).await;
    let workers = nodes_of(&group, &head, 4).await;
    let sends = workers.iter().flat_map(|(worker, _)| {
        (0..50).map(|_| worker.tell(head.peer_id(), MESSAGES, b"{}")).collect::<Vec<_>>()
    });
    for sent in futures::future::join_all(sends).await {
        sent.unwrap();
    }
    for _ in 0..200 {
        next(&mut at_head, |event| matches!(event, Event::Message { .. }).then_some(())).await;
    }
}
