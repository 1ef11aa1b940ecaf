//! The task that owns the swarm: executes commands and reports events. Periodic work is in [`upkeep`],
//! the choice of connections to close in [`connections`].

mod connections;
mod upkeep;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use libp2p::core::ConnectedPoint;
use libp2p::gossipsub::{self, IdentTopic, MessageAcceptance};
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, StreamProtocol, Swarm, identify, ping};
use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};

pub(super) use self::connections::Connections;
use self::connections::Established;
use super::dialer::{Dialer, without_peer};
use super::guard::{GossipVerdict, Guard};
use super::rendezvous::Rendezvous;
use super::resolve::Names;
use super::streams::Opened;
use super::swarm::{Behaviour, BehaviourEvent};
use super::{ConnectionBounds, Event, Protocols, PublishError};
use crate::identity::model_peer_id;
use crate::peer_db::PeerDb;

/// Maximum interval between checks for topics to look up and bans to lift. Dials that are due are
/// checked earlier. Each check wakes an idle node.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Delay of a check after a change. Also the minimum interval between checks.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// Maximum number of streams, over all peers, that wait for a connection to be established.
const WAITING_MAX: usize = 256;

/// Command to the task.
#[derive(Debug)]
pub(super) enum NetworkCommand {
    Subscribe {
        topic: String,
        done: oneshot::Sender<Result<(), PublishError>>,
    },
    Publish {
        topic: String,
        bytes: Vec<u8>,
        done: oneshot::Sender<Result<(), PublishError>>,
    },
    /// Opens a stream.
    Open {
        peer: PeerId,
        protocol: StreamProtocol,
        opened: Opened,
    },
    /// Records that a peer has the same role as this node.
    Neighbor {
        peer: PeerId,
    },
}

/// State of the task.
pub(super) struct Actor {
    pub(super) swarm: Swarm<Behaviour>,
    pub(super) commands: mpsc::Receiver<NetworkCommand>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) dialer: Dialer,
    pub(super) rendezvous: Rendezvous,
    pub(super) guard: Guard,
    pub(super) db: Option<PeerDb>,
    pub(super) bounds: Option<ConnectionBounds>,
    pub(super) connections: Connections,
    pub(super) names: Names,
    /// Connected peers with the same role as this node.
    pub(super) neighbors: HashSet<PeerId>,
    /// Protocols of this node. A worker recognizes a head by the protocols of these that it speaks.
    pub(super) protocols: Protocols,
    /// Connected heads. Always empty on a head, which accepts no lines.
    pub(super) heads: HashSet<PeerId>,
    /// Time of the next check of the tables.
    pub(super) next_look: Instant,
    /// Streams that wait for a connection.
    pub(super) waiting: HashMap<PeerId, Vec<(StreamProtocol, Opened)>>,
    pub(super) listening: Arc<RwLock<Vec<Multiaddr>>>,
    /// True if the listen addresses are announced to peers.
    pub(super) announces_listening: bool,
}

/// Sends an event to the node. Returns false if the node no longer receives events.
async fn pass_on(events: &mpsc::Sender<Event>, event: Option<Event>) -> bool {
    match event {
        Some(event) => events.send(event).await.is_ok(),
        None => true,
    }
}

impl Actor {
    /// Handles the `early` events, which the swarm reported before this task started. Then runs until
    /// the last handle or the receiver of events is dropped.
    pub(super) async fn run(mut self, early: Vec<SwarmEvent<BehaviourEvent>>) {
        for event in early {
            let event = self.on_swarm_event(event);
            if !pass_on(&self.events, event).await {
                return;
            }
        }
        let guard = self.guard.clone();
        loop {
            let event = tokio::select! {
                event = self.swarm.select_next_some() => self.on_swarm_event(event),
                command = self.commands.recv() => match command {
                    Some(command) => { self.perform(command); None }
                    None => return,
                },
                () = guard.bell.notified() => { self.look(); None }
                () = sleep_until(self.next_look) => { self.look(); None }
            };
            if !pass_on(&self.events, event).await {
                return;
            }
        }
    }

    /// Schedules a check of the tables soon.
    fn look_soon(&mut self) {
        self.next_look = self.next_look.min(Instant::now() + LOOK_SOON);
    }

    fn perform(&mut self, command: NetworkCommand) {
        // Replies whose receiver is gone are dropped.
        match command {
            NetworkCommand::Subscribe { topic, done } => {
                self.rendezvous.join(&topic);
                self.look_soon();
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                let subscribed = gossip.subscribe(&IdentTopic::new(topic));
                let outcome = subscribed.map(drop).map_err(|error| refused(&error));
                drop(done.send(outcome));
            }
            NetworkCommand::Publish { topic, bytes, done } => {
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                let outcome = match gossip.publish(IdentTopic::new(topic), bytes) {
                    Ok(_) => Ok(()),
                    Err(gossipsub::PublishError::NoPeersSubscribedToTopic) => {
                        Err(PublishError::NoListeners)
                    }
                    Err(error) => Err(refused(&error)),
                };
                drop(done.send(outcome));
            }
            NetworkCommand::Open { peer, protocol, opened } => self.open(peer, protocol, opened),
            NetworkCommand::Neighbor { peer } => self.take_neighbor(peer),
        }
    }

    fn open(&mut self, peer: PeerId, protocol: StreamProtocol, opened: Opened) {
        if self.swarm.is_connected(&peer) {
            self.swarm.behaviour_mut().streams.open(peer, protocol, opened);
        } else if self.waiting.values().map(Vec::len).sum::<usize>() < WAITING_MAX
            && self.reach(peer)
        {
            self.waiting.entry(peer).or_default().push((protocol, opened));
        } else {
            drop(opened.send(Err(io::ErrorKind::NotConnected.into())));
        }
    }

    /// Handles an event of the swarm and returns the event for the node, if any.
    fn on_swarm_event(&mut self, event: SwarmEvent<BehaviourEvent>) -> Option<Event> {
        match event {
            SwarmEvent::Behaviour(event) => self.on_behaviour_event(event),
            SwarmEvent::ConnectionEstablished {
                peer_id,
                connection_id,
                endpoint,
                num_established,
                ..
            } => {
                let established = Established::new(peer_id, &endpoint, &self.names);
                let host = established.host;
                self.connections.insert(connection_id, established);
                self.note_scopes();
                self.on_connected(peer_id, &endpoint);
                self.relieve(host);
                if num_established.get() > 1 {
                    return None;
                }
                info!(peer = %peer_id, "peer connected");
                Some(Event::Connected(model_peer_id(peer_id)))
            }
            SwarmEvent::ConnectionClosed {
                peer_id, connection_id, num_established, cause, ..
            } => {
                self.connections.remove(&connection_id);
                self.note_scopes();
                if num_established > 0 {
                    return None;
                }
                self.heads.remove(&peer_id);
                self.note_heads();
                let is_refused = self.dialer.note_lost(peer_id, Instant::now());
                if is_refused && !self.guard.is_named(peer_id) {
                    self.leave_alone(peer_id);
                }
                self.part_with(peer_id);
                self.look_soon();
                let cause = cause.map(|error| error.to_string());
                info!(peer = %peer_id, cause, "peer disconnected");
                Some(Event::Disconnected(model_peer_id(peer_id)))
            }
            SwarmEvent::OutgoingConnectionError { peer_id: Some(peer), error, .. } => {
                debug!(%peer, %error, "failed to connect");
                if !self.swarm.is_connected(&peer) {
                    self.on_dial_failure(peer, &error);
                    self.look_soon();
                    // Dropping the senders reports the failure to the callers that wait for a stream.
                    self.waiting.remove(&peer);
                }
                None
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                self.note_listening(address);
                None
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                if self.announces_listening {
                    self.swarm.remove_external_address(&address);
                }
                self.listening.write().retain(|known| *known != address);
                None
            }
            _ => None,
        }
    }

    /// Records an address that this node listens on.
    fn note_listening(&mut self, address: Multiaddr) {
        if self.announces_listening {
            self.swarm.add_external_address(address.clone());
        }
        let mut listening = self.listening.write();
        if !listening.contains(&address) {
            listening.push(address);
        }
    }

    /// Records a new connection and opens the streams that waited for it.
    fn on_connected(&mut self, peer: PeerId, endpoint: &ConnectedPoint) {
        let address = match endpoint {
            ConnectedPoint::Dialer { address, .. } => Some(address.clone()),
            ConnectedPoint::Listener { .. } => None,
        };
        if let (Some(db), Some(address)) = (&self.db, &address) {
            let address = without_peer(address.clone());
            db.note(&model_peer_id(peer), vec![address.to_string()], true);
        }
        self.dialer.note_connected(peer, address, Instant::now());
        for (protocol, opened) in self.waiting.remove(&peer).unwrap_or_default() {
            self.swarm.behaviour_mut().streams.open(peer, protocol, opened);
        }
    }

    fn on_behaviour_event(&mut self, event: BehaviourEvent) -> Option<Event> {
        match event {
            BehaviourEvent::Gossip(event) => self.on_gossip(event),
            BehaviourEvent::Table(event) => {
                self.on_table_event(event);
                None
            }
            BehaviourEvent::Identify(identify::Event::Received {
                connection_id,
                peer_id,
                info,
            }) => {
                self.on_identify(peer_id, &info);
                self.note_identified(connection_id);
                self.look_soon();
                let peer = model_peer_id(peer_id);
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
                Some(Event::Pinged { peer: model_peer_id(peer), round_trip })
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

    fn on_gossip(&mut self, event: gossipsub::Event) -> Option<Event> {
        match event {
            gossipsub::Event::Message { propagation_source, message_id, message } => {
                // Strict signing ensures that there is an author.
                let author = message.source?;
                let verdict = self.guard.judge_gossip(author, propagation_source);
                let acceptance = if verdict == GossipVerdict::Forward {
                    MessageAcceptance::Accept
                } else {
                    MessageAcceptance::Ignore
                };
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                gossip.report_message_validation_result(
                    &message_id,
                    &propagation_source,
                    acceptance,
                );
                // A message that this node does not accept is still forwarded, since other nodes might
                // allow its author.
                let is_read = verdict != GossipVerdict::Ignore && self.guard.allows(author);
                is_read.then(|| Event::Gossip {
                    author: model_peer_id(author),
                    topic: message.topic.into_string(),
                    bytes: message.data.into(),
                })
            }
            gossipsub::Event::Subscribed { peer_id, topic, .. } => {
                Some(Event::Joined { peer: model_peer_id(peer_id), topic: topic.into_string() })
            }
            gossipsub::Event::Unsubscribed { peer_id, topic, .. } => {
                Some(Event::Left { peer: model_peer_id(peer_id), topic: topic.into_string() })
            }
            gossipsub::Event::SlowPeer { peer_id, .. } => {
                debug!(peer = %peer_id, "dropped gossip to a peer that does not keep up");
                None
            }
            gossipsub::Event::GossipsubNotSupported { .. } => None,
        }
    }
}

fn refused(error: &dyn std::fmt::Display) -> PublishError {
    PublishError::Refused { reason: error.to_string() }
}
