//! The task that owns the swarm: takes commands and reports what happens. What it does by itself, now
//! and then, is in [`upkeep`], whom it parts with in [`pressure`].

mod connections;
mod upkeep;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use libp2p::{
    Multiaddr, PeerId, StreamProtocol, Swarm,
    core::{ConnectedPoint, transport::ListenerId},
    gossipsub::{self, IdentTopic, MessageAcceptance},
    identify, mdns, ping,
    swarm::SwarmEvent,
};
use parking_lot::RwLock;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tracing::{debug, info};

pub(super) use self::connections::Connections;
use self::connections::Standing;
use super::{
    ConnectionBounds, Event, Protocols, PublishError,
    address::is_circuit,
    dialer::{Dialer, without_peer},
    guard::{GossipVerdict, Guard},
    relay::{self, Relaying},
    rendezvous::Rendezvous,
    resolve::Names,
    streams::Opened,
    swarm::{Behaviour, BehaviourEvent},
};
use crate::{identity::model_peer_id, peer_db::PeerDb};

/// How often the tables are looked at where nothing changes: whom to find, who is no longer cut off.
/// Whom to dial is looked at when it is due. Each look wakes an idle node.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How soon they are looked at after something changed that they depend on, and how often at most.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// Streams that wait for a connection to a peer we never met. When there are more, they are refused.
const WAITING_MAX: usize = 256;

/// What the handle asks of the task.
#[derive(Debug)]
pub(super) enum Command {
    /// Subscribe to a topic.
    Subscribe { topic: String, done: oneshot::Sender<Result<(), PublishError>> },
    /// Publish on a topic.
    Publish { topic: String, bytes: Vec<u8>, done: oneshot::Sender<Result<(), PublishError>> },
    /// Open a stream.
    Open { peer: PeerId, protocol: StreamProtocol, opened: Opened },
    /// Tell which boot nodes are not connected.
    Unreached { told: oneshot::Sender<Vec<PeerId>> },
    /// Take note that a peer does the same as this node, which needs but some of its kind.
    Neighbor { peer: PeerId },
    /// Keep places for peers that are heeded by name from now on.
    KeepPlaces { peers: Vec<PeerId> },
}

/// The task's state.
pub(super) struct Actor {
    pub(super) swarm: Swarm<Behaviour>,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) events: mpsc::Sender<Event>,
    pub(super) dialer: Dialer,
    pub(super) rendezvous: Rendezvous,
    pub(super) guard: Guard,
    pub(super) db: Option<PeerDb>,
    pub(super) bounds: Option<ConnectionBounds>,
    pub(super) connections: Connections,
    pub(super) names: Names,
    /// Connected peers that do the same as this node.
    pub(super) neighbors: HashSet<PeerId>,
    /// Heads are known by what they do not speak of this.
    pub(super) protocols: Protocols,
    /// The connected heads. A node that takes no lines is a head itself, and knows none.
    pub(super) heads: HashSet<PeerId>,
    /// When the tables are looked at next.
    pub(super) next_look: Instant,
    /// Streams to peers that are being dialed for their sake.
    pub(super) waiting: HashMap<PeerId, Vec<(StreamProtocol, Opened)>>,
    pub(super) listening: Arc<RwLock<Vec<Multiaddr>>>,
    /// Whether peers learn the addresses that are listened on.
    pub(super) is_listening_told: bool,
    pub(super) relaying: Relaying,
}

impl Actor {
    /// Runs until the last handle is dropped or nobody reads the events.
    pub(super) async fn run(mut self) {
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
            if let Some(event) = event
                && self.events.send(event).await.is_err()
            {
                return;
            }
        }
    }

    /// Has the tables looked at soon.
    fn look_soon(&mut self) {
        self.next_look = self.next_look.min(Instant::now() + LOOK_SOON);
    }

    fn perform(&mut self, command: Command) {
        // The caller may have given up; then nobody wants the outcome.
        match command {
            Command::Subscribe { topic, done } => {
                self.rendezvous.join(&topic);
                self.look_soon();
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                let subscribed = gossip.subscribe(&IdentTopic::new(topic));
                let outcome = subscribed.map(drop).map_err(|error| refused(&error));
                drop(done.send(outcome));
            }
            Command::Publish { topic, bytes, done } => {
                let gossip = &mut self.swarm.behaviour_mut().gossip;
                let outcome = match gossip.publish(IdentTopic::new(topic), bytes) {
                    Ok(_) => Ok(()),
                    Err(gossipsub::PublishError::NoPeersSubscribedToTopic) => {
                        Err(PublishError::Unheard)
                    }
                    Err(error) => Err(refused(&error)),
                };
                drop(done.send(outcome));
            }
            Command::Open { peer, protocol, opened } => self.open(peer, protocol, opened),
            Command::Unreached { told } => drop(told.send(self.dialer.unreached())),
            Command::Neighbor { peer } => self.take_neighbor(peer),
            Command::KeepPlaces { peers } => {
                let limits = &mut self.swarm.behaviour_mut().limits;
                for peer in &peers {
                    limits.bypass_peer_id(peer);
                }
                self.end_relaying();
            }
        }
    }

    /// Ends what it relays for peers that are not heeded any more.
    fn end_relaying(&mut self) {
        for peer in self.relaying.status.served() {
            // Its place and its connections end with this one; it may connect again without them.
            if !relay::serves(&self.guard, peer) && self.swarm.disconnect_peer_id(peer).is_ok() {
                debug!(%peer, "relays no more for a peer that is not heeded");
            }
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

    /// Takes note of what happened, and returns what others should know of it.
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
                let standing = Standing::new(peer_id, &endpoint, &self.names);
                let host = standing.host;
                self.connections.insert(connection_id, standing);
                self.note_farthest_peer();
                self.on_connected(peer_id, &endpoint);
                self.relieve(host);
                if num_established.get() > 1 {
                    return None;
                }
                self.relaying.note_connected(peer_id, &endpoint);
                info!(peer = %peer_id, "peer connected");
                Some(Event::Connected(model_peer_id(peer_id)))
            }
            SwarmEvent::ConnectionClosed {
                peer_id, connection_id, num_established, cause, ..
            } => {
                self.connections.remove(connection_id);
                self.note_farthest_peer();
                if num_established > 0 {
                    return None;
                }
                self.guard.note_lost(peer_id);
                self.relaying.status.note_lost(peer_id);
                self.heads.remove(&peer_id);
                self.note_heads();
                let is_refused = self.dialer.note_lost(peer_id, Instant::now());
                if is_refused && !self.guard.knows_by_name(peer_id) {
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
                    // Dropping the senders signals that no connection stands.
                    self.waiting.remove(&peer);
                }
                None
            }
            SwarmEvent::NewListenAddr { address, .. } => {
                self.note_listening(address);
                None
            }
            SwarmEvent::ListenerClosed { listener_id, addresses, .. } => {
                self.note_listener_ended(listener_id, addresses);
                None
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                if self.is_listening_told {
                    self.swarm.remove_external_address(&address);
                }
                self.listening.write().retain(|known| *known != address);
                None
            }
            _ => None,
        }
    }

    /// Takes note of an address that this node listens on.
    fn note_listening(&mut self, address: Multiaddr) {
        let is_circuit = is_circuit(&address);
        if self.is_listening_told && !is_circuit {
            self.swarm.add_external_address(address.clone());
        }
        let address = without_peer(address);
        let mut listening = self.listening.write();
        if self.relaying.relays.is_told(&address) && !listening.contains(&address) {
            listening.push(address);
        }
    }

    /// Takes note that this node does not listen on `addresses` any more.
    fn note_listener_ended(&mut self, listener: ListenerId, addresses: Vec<Multiaddr>) {
        let ended: Vec<_> = addresses.into_iter().map(without_peer).collect();
        self.listening.write().retain(|known| !ended.contains(known));
        self.relaying.note_ended(listener);
    }

    /// Takes note of a new connection, and opens the streams that waited for it.
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
            BehaviourEvent::Local(mdns::Event::Discovered(found)) => {
                for (peer, address) in found {
                    self.dial_found_peer(peer, address);
                }
                None
            }
            BehaviourEvent::Identify(identify::Event::Received { peer_id, info, .. }) => {
                self.on_identify(peer_id, &info);
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
            BehaviourEvent::Relay(event) => {
                self.relaying.status.note(&event);
                None
            }
            BehaviourEvent::Circuits(libp2p::relay::client::Event::ReservationReqAccepted {
                relay_peer_id,
                renewal: false,
                ..
            }) => {
                info!(relay = %relay_peer_id, "this node is reached through a relay from now on");
                // The table has this node without that address.
                self.rendezvous.provide_again();
                self.look_soon();
                None
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
                // Strict signing leaves no message without its author.
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
                // Passed on all the same: others may heed its author.
                let is_read = verdict != GossipVerdict::Ignore && self.guard.hears(author);
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
