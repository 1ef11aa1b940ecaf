//! Misbehaving peers are banned and their messages dropped. Other peers are served.

use futures::future::join_all;
use futures::{AsyncWriteExt as _, StreamExt as _};
use libp2p::gossipsub::{self, IdentTopic, MessageAuthenticity, ValidationMode};
use libp2p::swarm::SwarmEvent;

use super::super::guard::ALLOWANCES;
use super::super::guard::tests::burst_of;
use super::super::swarm;
use super::*;

/// Low limits, so that tests reach them quickly.
const FEW: Allowances =
    Allowances { streams: burst_of(20), gossip: burst_of(20), offenses: burst_of(5), ..ALLOWANCES };

/// A node with low limits, a misbehaving and a good peer.
struct Guarded {
    group: Group,
    node: Network,
    events: mpsc::Receiver<Event>,
    bad: Network,
    good: Network,
    _events: [mpsc::Receiver<Event>; 2],
}

impl Guarded {
    async fn start(allowances: Allowances) -> Self {
        let group = Group::default();
        let (node, mut events) =
            Network::start_with(&group, options(vec![]), allowances).await.unwrap();
        node.subscribe("general").await.unwrap();
        let (bad, at_bad) = super::node(&group, vec![boot_node(&node)]).await;
        let (good, at_good) = super::node(&group, vec![boot_node(&node)]).await;
        for peer in [&bad, &good] {
            peer.subscribe("general").await.unwrap();
            joined(&mut events, peer.peer_id()).await;
        }
        Self { group, node, events, bad, good, _events: [at_bad, at_good] }
    }

    /// Waits until the bad peer is banned and checks that the good peer is served.
    async fn ends_with_bad_cut_off(mut self) {
        disconnected(&mut self.events, self.bad.peer_id()).await;
        self.ends_with_good_heard().await;
    }

    async fn ends_with_good_heard(mut self) {
        self.good.tell(self.node.peer_id(), MESSAGES, b"good").await.unwrap();
        assert_eq!(receive_message(&mut self.events, self.good.peer_id()).await, "good");
        self.group.shutdown().await;
    }
}

#[tokio::test]
async fn peer_that_opens_too_many_streams_is_banned() {
    let guarded = Guarded::start(FEW).await;
    let sends = (0..100).map(|_| guarded.bad.tell(guarded.node.peer_id(), MESSAGES, b"{}"));
    let n_sent = join_all(sends).await.into_iter().flatten().count();
    assert!(n_sent < 100, "some streams were refused");
    guarded.ends_with_bad_cut_off().await;
}

#[tokio::test]
async fn peer_that_publishes_too_much_is_banned_and_its_excess_messages_are_dropped() {
    let mut guarded = Guarded::start(FEW).await;
    for n in 0..200 {
        // Publishing fails once the peer is banned, since no connected peer listens.
        drop(guarded.bad.publish("general", format!("{n}").into_bytes()).await);
    }
    let mut n_heard = 0;
    loop {
        let event = timeout(WITHIN, guarded.events.recv()).await.unwrap().unwrap();
        match event {
            Event::Gossip { .. } => n_heard += 1,
            Event::Disconnected(peer) if peer == *guarded.bad.peer_id() => break,
            _ => {}
        }
    }
    assert!(n_heard <= FEW.gossip.burst, "{n_heard} of 200");
    guarded.ends_with_good_heard().await;
}

#[tokio::test]
async fn peer_that_repeats_malformed_messages_is_banned() {
    let mut guarded = Guarded::start(FEW).await;
    guarded.bad.tell(guarded.node.peer_id(), MESSAGES, b"nonsense").await.unwrap();
    receive_message(&mut guarded.events, guarded.bad.peer_id()).await;
    for _ in 0..10 {
        // The code that reads messages makes this call for each malformed message.
        guarded.node.blame(guarded.bad.peer_id());
    }
    guarded.ends_with_bad_cut_off().await;
}

#[tokio::test]
async fn too_long_message_is_dropped() {
    let mut guarded = Guarded::start(ALLOWANCES).await;
    let long = vec![b'x'; MESSAGE_BYTES_MAX + 1];
    // Sending fails if the reader gives up before the whole message is sent.
    drop(guarded.bad.tell(guarded.node.peer_id(), MESSAGES, &long).await);
    guarded.bad.tell(guarded.node.peer_id(), MESSAGES, b"short").await.unwrap();
    assert_eq!(receive_message(&mut guarded.events, guarded.bad.peer_id()).await, "short");
    guarded.ends_with_good_heard().await;
}

#[tokio::test]
async fn peer_with_stalled_streams_does_not_delay_other_peers() {
    let guarded = Guarded::start(ALLOWANCES).await;
    let mut stalled = Vec::new();
    for _ in 0..300 {
        if let Ok(mut stream) = guarded.bad.open(guarded.node.peer_id(), MESSAGES).await {
            drop(stream.write_all(b"{").await);
            drop(stream.flush().await);
            stalled.push(stream);
        }
    }
    guarded.ends_with_good_heard().await;
    drop(stalled);
}

#[tokio::test]
async fn peers_missing_from_the_list_of_allowed_peers_can_only_use_open_protocols() {
    let group = Group::default();
    let (head, stranger) = (Identity::random(), Identity::random());
    let connectivity = Connectivity {
        allowed: Some([head.peer_id().clone()].into()),
        wanted_peers: 0,
        ..Connectivity::for_role(Role::Worker)
    };
    let usual = options(vec![]);
    let protocols = Protocols { open: &[QUESTIONS], ..usual.protocols };
    let worker = NetworkOptions { protocols, connectivity, ..usual };
    let (worker, mut at_worker) = Network::start(&group, worker).await.unwrap();
    worker.subscribe("general").await.unwrap();
    let mut peers = Vec::new();
    for identity in [&stranger, &head] {
        let options =
            NetworkOptions { identity: identity.clone(), ..options(vec![boot_node(&worker)]) };
        let (peer, events) = Network::start(&group, options).await.unwrap();
        peer.subscribe("general").await.unwrap();
        joined(&mut at_worker, peer.peer_id()).await;
        peers.push((peer, events));
    }
    for (peer, _) in &peers {
        peer.publish("general", b"roll call".to_vec()).await.unwrap();
        // Sending fails if the stranger notices that its stream was closed.
        drop(peer.tell(worker.peer_id(), MESSAGES, b"order").await);
    }
    let (mut has_gossip, mut has_told) = (false, false);
    while !(has_gossip && has_told) {
        match timeout(WITHIN, at_worker.recv()).await.unwrap().unwrap() {
            Event::Gossip { author, .. } => {
                assert_eq!(author, *head.peer_id());
                has_gossip = true;
            }
            Event::Message { peer, .. } => {
                assert_eq!(peer, *head.peer_id());
                has_told = true;
            }
            _ => {}
        }
    }
    let stranger = &peers[0].0;
    let asking = stranger.ask(worker.peer_id(), QUESTIONS, b"which?", 100, WITHIN);
    let answering = async {
        let answer = next(&mut at_worker, |event| match event {
            Event::Question { answer, .. } => Some(answer),
            other => {
                assert!(
                    !matches!(other, Event::Gossip { .. } | Event::Message { .. }),
                    "{other:?}"
                );
                None
            }
        });
        let head = Bytes::from_static(b"this");
        answer.await.send(Answer::new(head, Bytes::new())).unwrap();
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.unwrap(), b"this");
}

#[tokio::test]
async fn too_long_or_unsigned_gossip_is_dropped_and_other_peers_are_served() {
    for (validation, authenticity, n_bytes) in
        [(ValidationMode::Strict, true, GOSSIP_BYTES_MAX + 1), (ValidationMode::None, false, 10)]
    {
        let mut guarded = Guarded::start(ALLOWANCES).await;
        let keys = Identity::random();
        let mut swarm = bare_swarm(&keys);
        let config = gossipsub::ConfigBuilder::default()
            .validation_mode(validation)
            .max_transmit_size(4 * GOSSIP_BYTES_MAX)
            .build()
            .unwrap();
        let authenticity = if authenticity {
            MessageAuthenticity::Signed(keys.keypair().clone())
        } else {
            MessageAuthenticity::Anonymous
        };
        let topic = IdentTopic::new("general");
        let gossip = &mut swarm.behaviour_mut().gossip;
        *gossip = swarm::Gossip::new_with_subscription_filter(
            authenticity,
            config,
            gossipsub::MaxCountSubscriptionFilter {
                filter: swarm::ShortTopics,
                max_subscribed_topics: 9,
                max_subscriptions_per_request: 9,
            },
        )
        .unwrap();
        gossip.subscribe(&topic).unwrap();
        let address: Multiaddr = guarded.node.addresses()[0].parse().unwrap();
        swarm.dial(address).unwrap();
        let mut n_published = 0;
        let attack = async {
            loop {
                let event = swarm.select_next_some().await;
                if n_published == 0 && !matches!(event, SwarmEvent::ConnectionEstablished { .. }) {
                    let published =
                        swarm.behaviour_mut().gossip.publish(topic.clone(), vec![b'x'; n_bytes]);
                    n_published += usize::from(published.is_ok());
                }
            }
        };
        let good = async {
            joined(&mut guarded.events, keys.peer_id()).await;
            until(WITHIN, || guarded.good.publish("general", b"good".to_vec())).await.unwrap();
            next(&mut guarded.events, |event| match event {
                Event::Gossip { author, bytes, .. } => {
                    assert_eq!((&author, &*bytes), (guarded.good.peer_id(), b"good".as_slice()));
                    Some(())
                }
                _ => None,
            })
            .await;
        };
        // The attack continues for a while, without effect.
        tokio::select! { () = attack => {}, () = good => {} }
        guarded.ends_with_good_heard().await;
        assert_eq!(n_published, 1, "the message was sent");
    }
}
