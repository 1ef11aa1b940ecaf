//! The task that owns the swarm: takes commands, dials boot nodes, and reports what happens.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm,
    gossipsub::{self, IdentTopic},
    identify, ping,
    swarm::{
        SwarmEvent,
        dial_opts::{DialOpts, PeerCondition},
    },
};
use parking_lot::RwLock;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::{debug, info};

use super::{
    Event, PublishError,
    boot::BootNodes,
    streams::{OpenError, Opened},
    swarm::{Behaviour, BehaviourEvent},
};
use crate::identity::named;

/// How often the boot nodes are looked at.
const BOOT_EVERY: Duration = Duration::from_millis(100);

/// What the handle asks of the task.
#[derive(Debug)]
pub(super) enum Command {
    /// Subscribe to a topic.
    Subscribe { topic: String, done: oneshot::Sender<Result<(), PublishError>> },
    /// Publish on a topic.
    Publish { topic: String, bytes: Vec<u8>, done: oneshot::Sender<Result<(), PublishError>> },
    /// Open a stream.
    Open { peer: PeerId, protocol: StreamProtocol, opened: Opened },
}

/// The task's state.
pub(super) struct Actor {
    pub(super) swarm: Swarm<Behaviour>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) boot: BootNodes,
    pub(super) listening: Arc<RwLock<Vec<Multiaddr>>>,
}

impl Actor {
    /// Runs until the last handle is dropped or nobody reads the events.
    pub(super) async fn run(mut self) {
        let mut ticks = interval(BOOT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let event = tokio::select! {
                event = self.swarm.select_next_some() => self.noted(event),
                command = self.commands.recv() => match command {
                    Some(command) => { self.perform(command); None }
                    None => return,
                },
                _ = ticks.tick() => { self.dial(); None }
            };
            if let Some(event) = event
                && self.events.send(event).await.is_err()
            {
                return;
            }
        }
    }

    fn perform(&mut self, command: Command) {
        let gossip = &mut self.swarm.behaviour_mut().gossip;
        // Whoever asked may have given up; then nobody wants the outcome.
        match command {
            Command::Subscribe { topic, done } => {
                let subscribed = gossip.subscribe(&IdentTopic::new(topic));
                let outcome = subscribed.map(drop).map_err(|error| refused(&error));
                drop(done.send(outcome));
            }
            Command::Publish { topic, bytes, done } => {
                let outcome = match gossip.publish(IdentTopic::new(topic), bytes) {
                    Ok(_) => Ok(()),
                    Err(gossipsub::PublishError::NoPeersSubscribedToTopic) => {
                        Err(PublishError::Unheard)
                    }
                    Err(error) => Err(refused(&error)),
                };
                drop(done.send(outcome));
            }
            Command::Open { peer, protocol, opened } => {
                if self.swarm.is_connected(&peer) {
                    self.swarm.behaviour_mut().streams.open(peer, protocol, opened);
                } else {
                    drop(opened.send(Err(OpenError::NotConnected)));
                }
            }
        }
    }

    fn dial(&mut self) {
        let now = Instant::now();
        for node in self.boot.take_due(now) {
            if self.swarm.is_connected(&node.peer) {
                self.boot.connected(node.peer);
                continue;
            }
            // A port of its own: the listening port may still hold the last connection there.
            let options = DialOpts::peer_id(node.peer)
                .condition(PeerCondition::DisconnectedAndNotDialing)
                .addresses(vec![node.address.clone()])
                .allocate_new_port()
                .build();
            if let Err(error) = self.swarm.dial(options) {
                debug!(peer = %node.peer, %error, "failed to dial a boot node");
                self.boot.lost(node.peer, now);
            }
        }
    }

    /// Takes note of what happened, and returns what others should know of it.
    fn noted(&mut self, event: SwarmEvent<BehaviourEvent>) -> Option<Event> {
        match event {
            SwarmEvent::Behaviour(event) => self.heard(event),
            SwarmEvent::ConnectionEstablished { peer_id, num_established, .. } => {
                self.boot.connected(peer_id);
                if num_established.get() > 1 {
                    return None;
                }
                info!(peer = %peer_id, "peer connected");
                Some(Event::Connected(named(peer_id)))
            }
            SwarmEvent::ConnectionClosed { peer_id, num_established: 0, cause, .. } => {
                self.boot.lost(peer_id, Instant::now());
                let cause = cause.map(|error| error.to_string());
                info!(peer = %peer_id, cause, "peer disconnected");
                Some(Event::Disconnected(named(peer_id)))
            }
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), error, .. } => {
                debug!(%peer, %error, "failed to connect");
                if !self.swarm.is_connected(&peer) {
                    self.boot.lost(peer, Instant::now());
                }
                None
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                let mut listening = self.listening.write();
                if !listening.contains(&address) {
                    listening.push(address);
                }
                None
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.listening.write().retain(|known| *known != address);
                None
            }
            _ => None,
        }
    }

    fn heard(&mut self, event: BehaviourEvent) -> Option<Event> {
        match event {
            BehaviourEvent::Gossip(event) => gossip_event(event),
            BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. }) => {
                let peer = named(peer_id);
                let address = |at: Multiaddr| match at.with_p2p(peer_id) {
                    Ok(at) | Err(at) => at.to_string(),
                };
                Some(Event::Identified {
                    addresses: info.listen_addrs.into_iter().map(address).collect(),
                    protocols: info.protocols.iter().map(ToString::to_string).collect(),
                    peer,
                })
            }
            BehaviourEvent::Ping(ping::Event { peer, result: Ok(round_trip), .. }) => {
                Some(Event::Pinged { peer: named(peer), round_trip })
            }
            BehaviourEvent::Ping(ping::Event {
                result: Err(ping::Failure::Unsupported), ..
            }) => None,
            BehaviourEvent::Ping(ping::Event { peer, connection, result: Err(error) }) => {
                debug!(%peer, %error, "closed a connection that does not answer pings");
                self.swarm.close_connection(connection);
                None
            }
            _ => None,
        }
    }
}

fn gossip_event(event: gossipsub::Event) -> Option<Event> {
    match event {
        gossipsub::Event::Message { message, .. } => Some(Event::Gossip {
            // Strict signing leaves no message without its author.
            author: named(message.source?),
            topic: message.topic.into_string(),
            bytes: message.data.into(),
        }),
        gossipsub::Event::Subscribed { peer_id, topic, .. } => {
            Some(Event::Joined { peer: named(peer_id), topic: topic.into_string() })
        }
        gossipsub::Event::Unsubscribed { peer_id, topic, .. } => {
            Some(Event::Left { peer: named(peer_id), topic: topic.into_string() })
        }
        _ => None,
    }
}

fn refused(error: &dyn std::fmt::Display) -> PublishError {
    PublishError::Refused { reason: error.to_string() }
}
