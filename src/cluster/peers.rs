//! State of the peers of a node, from the network and their offers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use content::{AnswerLimits, AskError};
use model::function::FunctionId;
use model::node::{GENERAL_TOPIC, PeerId, Role, SUBGROUP_BYTES_MAX};
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::time::Instant;
use wire::functions::has_largest;

use crate::attributes::{Attributes, bounded};
use crate::message::{LINE_PROTOCOL, Offer};
use crate::network::{Event, ExchangeError, Network};
use crate::result_groups::ResultGroup;

/// Time for which a disconnected peer is still listed. A worker that restarts without a key returns with
/// another id, so its old id must not stay for long.
const LOST_KEPT: Duration = Duration::from_mins(10);

/// Time for which a disconnected peer is still listed if it sent no offer and did no work. Anyone can
/// create any number of such peers.
const PASSERBY_KEPT: Duration = Duration::from_mins(1);

/// Maximum number of topics of a peer, and also of its addresses, protocols and functions.
const NAMES_MAX: usize = 1024;

/// Table of peers. Clones share it.
#[derive(Debug, Clone)]
pub struct Peers {
    table: Arc<Mutex<BTreeMap<PeerId, Peer>>>,
    /// Maximum number of peers. If there are more, the peers that were lost longest ago are forgotten.
    /// If all are connected, a new peer is not added.
    n_max: usize,
    n_joins: Arc<AtomicU64>,
    /// Time of the latest change to the listeners of topics: a peer joined or left a topic or was
    /// disconnected, or the node started.
    changed_at: Arc<Mutex<Instant>>,
    clock: Clock,
}

/// Protocol by which a peer receives work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkProtocol {
    /// Frames of a line, for a worker of this program.
    Line,
    /// Work orders of b7s version 2.
    B7sV2,
    /// `MsgExecute` of b7s version 1.
    B7sV1,
}

/// State of a node according to its offer. Long lists and large numbers are cut.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeOffer {
    /// Role; `None` if it is invalid.
    pub role: Option<Role>,
    /// Names of the subgroups to which the node belongs.
    pub subgroups: BTreeSet<String>,
    /// Ids of the functions that the node has installed.
    pub functions: BTreeSet<FunctionId>,
    /// Ids of the functions that the node has compiled.
    pub ready: BTreeSet<FunctionId>,
    /// Attributes that the node declares.
    pub attributes: Attributes,
    /// Number of slots.
    pub n_slots: usize,
    /// Number of slots that this node can use, including slots that run its orders.
    pub n_usable: usize,
}

impl NodeOffer {
    /// Reads an offer.
    pub fn read(offer: &Offer) -> Self {
        // The number of slots is limited, since a worker could claim any number.
        let n_slots = offer.slots.min(256);
        let subgroups = offer.subgroups.iter().take(NAMES_MAX);
        let ids =
            |ids: &[String]| ids.iter().take(NAMES_MAX).filter_map(|id| id.parse().ok()).collect();
        Self {
            role: offer.role.parse().ok(),
            subgroups: subgroups.filter(|name| name.len() <= SUBGROUP_BYTES_MAX).cloned().collect(),
            functions: ids(&offer.functions),
            ready: ids(&offer.ready),
            attributes: bounded(&offer.attributes),
            n_slots,
            n_usable: offer.slots_free.min(n_slots),
        }
    }
}

/// State of a peer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Peer {
    /// Latest offer; empty if there was none.
    pub offer: Arc<NodeOffer>,
    /// Topics that the peer listens to.
    pub topics: BTreeSet<String>,
    /// Multiaddresses that the peer listens on, each ending in its id.
    pub addresses: Vec<String>,
    /// Protocols that the peer speaks.
    pub protocols: Vec<String>,
    /// True if the peer has replied like a b7s node of version 1.
    pub is_older: bool,
    /// True if the peer is connected.
    pub is_connected: bool,
    /// Latest round trip time.
    pub latency: Option<Duration>,
    /// Time of the latest message or connection.
    pub last_seen: Timestamp,
    /// Number of results that the peer returned.
    pub n_runs: u64,
    /// Number of the peer's results that were in the only largest result group.
    pub n_agreed: u64,
}

impl Peer {
    /// Returns the peer's topics except the general topic.
    pub fn subgroups(&self) -> Vec<String> {
        self.topics.iter().filter(|topic| *topic != GENERAL_TOPIC).cloned().collect()
    }

    fn speaks(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|spoken| spoken == protocol)
    }
}

impl Peers {
    /// Creates an empty table of up to `n_max` peers.
    pub fn new(clock: Clock, n_max: usize) -> Self {
        let changed_at = Arc::new(Mutex::new(Instant::now()));
        Self { table: Arc::default(), n_max, n_joins: Arc::default(), changed_at, clock }
    }

    /// Returns the maximum number of peers.
    pub const fn n_max(&self) -> usize {
        self.n_max
    }

    /// Records a network event.
    pub fn note(&self, event: &Event) {
        match event {
            Event::Connected(peer) => self.update(peer, |peer| {
                peer.is_connected = true;
                // The peer will join its topics again.
                peer.topics.clear();
            }),
            Event::Disconnected(peer) => {
                self.update(peer, |peer| {
                    peer.is_connected = false;
                    peer.latency = None;
                });
                *self.changed_at.lock() = Instant::now();
            }
            Event::Identified { peer, addresses, protocols } => self.update(peer, |peer| {
                peer.addresses = addresses.iter().take(NAMES_MAX).cloned().collect();
                peer.protocols = protocols.iter().take(NAMES_MAX).cloned().collect();
            }),
            Event::Pinged { peer, round_trip } => {
                self.update(peer, |peer| peer.latency = Some(*round_trip));
            }
            Event::Joined { peer, topic } => {
                self.update(peer, |peer| {
                    if peer.topics.len() < NAMES_MAX {
                        peer.topics.insert(topic.clone());
                    }
                });
                self.n_joins.fetch_add(1, Ordering::Relaxed);
                *self.changed_at.lock() = Instant::now();
            }
            Event::Left { peer, topic } => {
                self.update(peer, |peer| {
                    peer.topics.remove(topic);
                });
                *self.changed_at.lock() = Instant::now();
            }
            Event::Gossip { author: peer, .. }
            | Event::Message { peer, .. }
            | Event::Question { peer, .. }
            | Event::TooLong { peer, .. }
            | Event::Crowded { peer, .. }
            | Event::LineOpened { peer, .. } => self.note_seen(peer),
        }
    }

    /// Records a peer's offer.
    pub fn note_offer(&self, peer: &PeerId, offer: Arc<NodeOffer>) {
        self.update(peer, |peer| peer.offer = offer);
    }

    /// Counts the runs of the peers in `groups`, which are ordered by size, the largest first. The runs
    /// of the first group count as agreeing, unless the second group has the same size.
    pub fn count_runs(&self, groups: &[ResultGroup]) {
        let is_first_largest = has_largest(groups.iter().map(|group| group.peers.len()));
        for (idx, group) in groups.iter().enumerate() {
            let has_agreed = idx == 0 && is_first_largest;
            for peer in &group.peers {
                self.update(peer, |peer| {
                    peer.n_runs += 1;
                    peer.n_agreed += u64::from(has_agreed);
                });
            }
        }
    }

    /// Returns all peers that are or were recently connected, ordered by id.
    pub fn list(&self) -> Vec<(PeerId, Peer)> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        table.retain(|_, peer| {
            let is_passerby = peer.offer.role.is_none() && peer.n_runs == 0;
            let kept = if is_passerby { PASSERBY_KEPT } else { LOST_KEPT };
            peer.is_connected || now.since(peer.last_seen) < kept
        });
        table.iter().map(|(id, peer)| (id.clone(), peer.clone())).collect()
    }

    /// Records whether `peer` has replied like a b7s node of version 1.
    pub fn note_version(&self, peer: &PeerId, is_older: bool) {
        if let Some(peer) = self.table.lock().get_mut(peer) {
            peer.is_older = is_older;
        }
    }

    /// Returns the protocol by which `peer` receives work, as far as is known.
    pub fn work_protocol(&self, peer: &PeerId) -> WorkProtocol {
        let table = self.table.lock();
        let Some(peer) = table.get(peer) else { return WorkProtocol::B7sV2 };
        if peer.speaks(LINE_PROTOCOL) {
            WorkProtocol::Line
        } else if peer.is_older {
            WorkProtocol::B7sV1
        } else {
            WorkProtocol::B7sV2
        }
    }

    /// Returns true if `peer` is connected.
    pub fn is_connected(&self, peer: &PeerId) -> bool {
        self.is(peer, |peer| peer.is_connected)
    }

    /// Returns the number of connected peers.
    pub fn n_connected(&self) -> usize {
        self.table.lock().values().filter(|peer| peer.is_connected).count()
    }

    /// Returns true if `peer` is connected and speaks `protocol`.
    pub fn speaks(&self, peer: &PeerId, protocol: &str) -> bool {
        self.is(peer, |peer| peer.is_connected && peer.speaks(protocol))
    }

    /// Returns the connected peers that speak `protocol`, ordered by id.
    pub fn speaking(&self, protocol: &str) -> Vec<PeerId> {
        self.connected(|peer| peer.speaks(protocol))
    }

    /// Returns true if `peer` is connected and has not identified itself yet.
    pub fn is_silent(&self, peer: &PeerId) -> bool {
        self.is(peer, |peer| peer.is_connected && peer.protocols.is_empty())
    }

    /// Returns true if `peer` is a worker according to its latest offer.
    pub fn is_worker(&self, peer: &PeerId) -> bool {
        self.is(peer, |peer| peer.offer.role == Some(Role::Worker))
    }

    /// Returns the latest offer of `peer`. Empty for an unknown peer.
    pub fn offer(&self, peer: &PeerId) -> Arc<NodeOffer> {
        self.table.lock().get(peer).map(|peer| Arc::clone(&peer.offer)).unwrap_or_default()
    }

    /// Returns the connected peers that offer `function`, ordered by id.
    pub fn holding(&self, function: FunctionId) -> Vec<PeerId> {
        self.connected(|peer| peer.offer.functions.contains(&function))
    }

    /// Returns the connected peers that listen to `topic` and are not known as heads, ordered by
    /// id.
    pub fn listening(&self, topic: &str) -> Vec<PeerId> {
        self.connected(|peer| peer.topics.contains(topic) && peer.offer.role != Some(Role::Head))
    }

    /// Returns true if no peer has joined or left a topic recently, so all listeners are known.
    pub fn is_settled(&self) -> bool {
        // Longer than a worker needs to reconnect, but shorter than a roll call.
        self.changed_at.lock().elapsed() >= Duration::from_secs(3)
    }

    /// Returns the number of times that peers have joined topics. While it is unchanged, there is no new
    /// listener.
    pub fn n_joins(&self) -> u64 {
        self.n_joins.load(Ordering::Relaxed)
    }

    fn is(&self, peer: &PeerId, condition: impl FnOnce(&Peer) -> bool) -> bool {
        self.table.lock().get(peer).is_some_and(condition)
    }

    fn connected(&self, is_wanted: impl Fn(&Peer) -> bool) -> Vec<PeerId> {
        let table = self.table.lock();
        let wanted = table.iter().filter(|(_, peer)| peer.is_connected && is_wanted(peer));
        wanted.map(|(id, _)| id.clone()).collect()
    }

    /// Updates the time at which a known peer was last seen. Authors of gossip that are not connected
    /// are not added.
    fn note_seen(&self, peer: &PeerId) {
        let now = self.clock.now();
        if let Some(peer) = self.table.lock().get_mut(peer) {
            peer.last_seen = now;
        }
    }

    fn update(&self, peer: &PeerId, change: impl FnOnce(&mut Peer)) {
        let now = self.clock.now();
        let mut table = self.table.lock();
        // Several peers are forgotten at one time, so that the search for the oldest is not repeated for
        // each new peer.
        if !table.contains_key(peer)
            && table.len() >= self.n_max
            && !forget_lost(&mut table, self.n_max.div_ceil(32))
        {
            return;
        }
        let known = table.entry(peer.clone()).or_default();
        known.last_seen = now;
        change(known);
    }
}

/// Forgets the `n` peers that were lost longest ago. Returns false if all peers are connected.
fn forget_lost(table: &mut BTreeMap<PeerId, Peer>, n: usize) -> bool {
    let lost = table.iter().filter(|(_, peer)| !peer.is_connected);
    let mut lost: Vec<_> = lost.map(|(id, peer)| (peer.last_seen, id.clone())).collect();
    lost.sort_unstable();
    for (_, id) in lost.iter().take(n) {
        table.remove(id);
    }
    !lost.is_empty()
}

/// Peers that might have a function, and the network over which it is requested from them.
pub(crate) struct FunctionPeers<'a> {
    pub(crate) network: &'a Network,
    pub(crate) peers: &'a [PeerId],
}

impl content::Peers for FunctionPeers<'_> {
    fn peers(&self) -> &[PeerId] {
        self.peers
    }

    async fn ask(
        &self,
        peer: &PeerId,
        question: &[u8],
        limits: AnswerLimits,
    ) -> Result<Vec<u8>, AskError> {
        let AnswerLimits { bytes_max, within } = limits;
        let answer =
            self.network.ask(peer, content::FUNCTION_PROTOCOL, question, bytes_max, within).await;
        answer.map_err(|error| match error {
            ExchangeError::TooLong { bytes_max, .. } => AskError::TooLong { bytes_max },
            error => AskError::Failed(error.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::Outcome;

    use super::*;
    use crate::result_groups::group;

    fn id(n: u8) -> PeerId {
        format!("12D3KooWpeer{n}").parse().unwrap()
    }

    /// Returns the `n`th of many ids.
    fn nth(n: usize) -> PeerId {
        format!("12D3KooW{}", n + 1).replace('0', "A").parse().unwrap()
    }

    fn offer(role: Option<Role>) -> Arc<NodeOffer> {
        NodeOffer { role, ..NodeOffer::default() }.into()
    }

    #[test]
    fn lost_peer_is_listed_for_ten_minutes_but_not_as_listening() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let peers = Peers::new(clock.clone(), 8);
        peers.note(&Event::Connected(id(1)));
        peers.note(&Event::Joined { peer: id(1), topic: "gpu".into() });
        peers.note(&Event::Joined { peer: id(1), topic: GENERAL_TOPIC.into() });
        assert_eq!(peers.listening("gpu"), [id(1)]);
        assert_eq!(peers.list()[0].1.subgroups(), ["gpu"]);
        peers.note(&Event::Disconnected(id(1)));
        assert_eq!((peers.list().len(), peers.listening("gpu").len()), (1, 0));
        assert_eq!(peers.list()[0].1.subgroups(), ["gpu"]);
        peers.note_offer(&id(1), offer(Some(Role::Worker)));
        clock.advance(PASSERBY_KEPT);
        assert_eq!(peers.list().len(), 1);
        clock.advance(LOST_KEPT);
        assert_eq!(peers.list().len(), 0);
    }

    #[test]
    fn disconnected_peer_that_never_reported_is_listed_for_a_minute() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let peers = Peers::new(clock.clone(), 8);
        peers.note(&Event::Connected(id(1)));
        clock.advance(LOST_KEPT);
        assert_eq!(peers.list().len(), 1, "while it is connected");
        peers.note(&Event::Disconnected(id(1)));
        clock.advance(PASSERBY_KEPT);
        assert_eq!(peers.list().len(), 0);
    }

    #[test]
    fn results_of_a_tie_do_not_count_as_agreement() {
        let peers = Peers::new(Clock::system(), 8);
        for n in 1..=3 {
            peers.note(&Event::Connected(id(n)));
        }
        let run = |texts: [&str; 3]| {
            let outcome =
                |stdout: &str| Outcome { stdout: stdout.to_owned(), ..Outcome::default() };
            let outcomes = (1..=3).zip(texts).map(|(n, stdout)| (id(n), outcome(stdout)));
            peers.count_runs(&group(outcomes));
            peers.list().iter().map(|(_, peer)| peer.n_agreed).collect::<Vec<_>>()
        };
        assert_eq!(run(["a", "b", "c"]), [0, 0, 0]);
        assert_eq!(run(["a", "b", "a"]), [1, 0, 1]);
        assert_eq!(run(["a", "a", "a"]), [2, 1, 2]);
    }

    #[test]
    fn heads_are_not_listed_as_listening_workers() {
        let peers = Peers::new(Clock::system(), 8);
        for n in [1, 2] {
            peers.note(&Event::Connected(id(n)));
            peers.note(&Event::Joined { peer: id(n), topic: GENERAL_TOPIC.into() });
        }
        peers.note_offer(&id(1), offer(Some(Role::Head)));
        assert_eq!(peers.listening(GENERAL_TOPIC), [id(2)]);
    }

    #[test]
    fn flood_of_short_connections_does_not_displace_connected_peers() {
        let peers = Peers::new(Clock::system(), 20);
        peers.note(&Event::Connected(id(1)));
        for n in 0..2 * peers.n_max() {
            peers.note(&Event::Connected(nth(n)));
            peers.note_offer(&nth(n), offer(None));
            peers.note(&Event::Disconnected(nth(n)));
        }
        assert!(peers.list().len() <= peers.n_max());
        assert!(peers.is_connected(&id(1)));
    }

    #[test]
    fn number_of_peers_is_limited_and_gossip_of_strangers_adds_no_peer() {
        let peers = Peers::new(Clock::system(), 20);
        for n in 0..peers.n_max() {
            peers.note(&Event::Connected(nth(n)));
        }
        peers.note(&Event::Connected(id(1)));
        assert_eq!(peers.list().len(), peers.n_max(), "all are connected, so none is evicted");
        let lost: PeerId = "12D3KooW1".parse().unwrap();
        peers.note(&Event::Disconnected(lost.clone()));
        let (author, bytes) = (id(2), bytes::Bytes::new());
        peers.note(&Event::Gossip { author, topic: GENERAL_TOPIC.into(), bytes });
        assert!(peers.list().iter().any(|(id, _)| *id == lost), "gossip does not add a peer");
        peers.note(&Event::Connected(id(1)));
        assert_eq!(peers.list().len(), peers.n_max());
        assert!(!peers.list().iter().any(|(id, _)| *id == lost), "the lost peer was evicted");
    }
}
