//! The peers a node knows: what the network and their offers tell of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use content::{AnswerLimits, AskError};
use model::{
    function::FunctionId,
    node::{GENERAL_TOPIC, PeerId, Role},
    timestamp::Timestamp,
};
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::{
    attributes::bounded,
    message::{LINE_PROTOCOL, Offer},
    network::{Event, ExchangeError, Network, SendError},
    result_groups::ResultGroup,
};

/// How long a peer that was lost is still listed. A worker that restarts without a key comes back
/// under another id, so its old one should not stay for long.
const LOST_KEPT: Duration = Duration::from_mins(10);

/// Time for which a peer is still listed that only connected: one that never said what it is, and never
/// worked. Anybody makes any number of them.
const PASSERBY_KEPT: Duration = Duration::from_mins(1);

/// The most topics, addresses, protocols and functions remembered of one peer, each.
pub(crate) const NAMES_MAX: usize = 1024;

/// Handle to the table of peers. Cheap to clone; all clones share one table.
#[derive(Debug, Clone)]
pub struct Peers {
    table: Arc<Mutex<BTreeMap<PeerId, Peer>>>,
    /// The most peers remembered. Past it, those that were lost longest ago are forgotten; while all are
    /// connected, a new one is not taken in.
    n_max: usize,
    n_joins: Arc<AtomicU64>,
    /// Time at which a peer joined or left a topic last, or was lost, or the node started.
    changed_at: Arc<Mutex<Instant>>,
    /// Rung when a peer has said what it speaks.
    identified: Arc<Notify>,
    clock: Clock,
}

/// How a peer takes work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkProtocol {
    /// As frames of a line: it is one of ours.
    Line,
    /// As work orders of b7s.
    B7sV2,
    /// As `MsgExecute` of b7s's first version.
    B7sV1,
}

/// What is known of a peer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Peer {
    /// What it says it does; none where it does not say.
    pub role: Option<Role>,
    /// The topics it listens to.
    pub topics: BTreeSet<String>,
    /// Where it listens: multiaddresses, each ending in its id.
    pub addresses: Vec<String>,
    /// What it speaks.
    pub protocols: Vec<String>,
    /// The functions it says it holds.
    pub functions: BTreeSet<FunctionId>,
    /// Of these, the functions it says are compiled.
    pub ready: BTreeSet<FunctionId>,
    /// What it declares of itself.
    pub attributes: BTreeMap<String, String>,
    /// Whether it has answered like a b7s node of version 1.
    pub is_older: bool,
    /// Whether a connection stands.
    pub is_connected: bool,
    /// The round trip of the last ping.
    pub latency: Option<Duration>,
    /// When it was last heard.
    pub last_seen: Timestamp,
    /// Work orders it answered.
    pub n_runs: u64,
    /// Of those, answers that stood in the largest result group.
    pub n_agreed: u64,
}

impl Peer {
    /// The groups it belongs to, beside the general one.
    pub fn subgroups(&self) -> Vec<String> {
        self.topics.iter().filter(|topic| *topic != GENERAL_TOPIC).cloned().collect()
    }

    fn speaks(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|spoken| spoken == protocol)
    }
}

impl Peers {
    /// An empty table of at most `n_max` peers that dates what it hears by `clock`.
    pub fn new(clock: Clock, n_max: usize) -> Self {
        let (table, n_joins, identified) = (Arc::default(), Arc::default(), Arc::default());
        let changed_at = Arc::new(Mutex::new(Instant::now()));
        Self { table, n_max, n_joins, changed_at, identified, clock }
    }

    /// The most peers remembered.
    pub const fn n_max(&self) -> usize {
        self.n_max
    }

    /// Takes note of what happened on the network.
    pub fn note(&self, event: &Event) {
        match event {
            Event::Connected(peer) => self.update(peer, |peer| {
                peer.is_connected = true;
                // It joins them again.
                peer.topics.clear();
            }),
            Event::Disconnected(peer) => {
                self.update(peer, |peer| {
                    peer.is_connected = false;
                    peer.latency = None;
                });
                *self.changed_at.lock() = Instant::now();
            }
            Event::Identified { peer, addresses, protocols } => {
                self.update(peer, |peer| {
                    peer.addresses = addresses.iter().take(NAMES_MAX).cloned().collect();
                    peer.protocols = protocols.iter().take(NAMES_MAX).cloned().collect();
                });
                self.identified.notify_waiters();
            }
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
            | Event::LineOpened { peer, .. } => self.note_seen(peer),
        }
    }

    /// Takes note of what a peer says it is and has.
    pub fn note_offer(&self, peer: &PeerId, offer: &Offer) {
        self.update(peer, |peer| {
            peer.role = offer.role.parse().ok();
            let functions = offer.functions.iter().take(NAMES_MAX);
            peer.functions = functions.filter_map(|id| id.parse().ok()).collect();
            let ready = offer.ready.iter().take(NAMES_MAX);
            peer.ready = ready.filter_map(|id| id.parse().ok()).collect();
            peer.attributes = bounded(&offer.attributes);
        });
    }

    /// Counts the runs of the peers in `groups`, the first of which is the largest. Peers agree that
    /// stand in it, or in one as large: where nobody has a majority, nobody is in the wrong.
    pub fn count_runs(&self, groups: &[ResultGroup]) {
        let n_largest = groups.first().map_or(0, |group| group.peers.len());
        for group in groups {
            let has_agreed = group.peers.len() == n_largest;
            for peer in &group.peers {
                self.update(peer, |peer| {
                    peer.n_runs += 1;
                    peer.n_agreed += u64::from(has_agreed);
                });
            }
        }
    }

    /// Returns all peers that are connected or were lately, by id.
    pub fn list(&self) -> Vec<(PeerId, Peer)> {
        let now = self.clock.now();
        let mut table = self.table.lock();
        table.retain(|_, peer| {
            let is_passerby = peer.role.is_none() && peer.n_runs == 0;
            let kept = if is_passerby { PASSERBY_KEPT } else { LOST_KEPT };
            peer.is_connected || now.since(peer.last_seen) < kept
        });
        table.iter().map(|(id, peer)| (id.clone(), peer.clone())).collect()
    }

    /// Notes whether `peer` has answered like a b7s node of version 1.
    pub fn note_version(&self, peer: &PeerId, is_older: bool) {
        if let Some(peer) = self.table.lock().get_mut(peer) {
            peer.is_older = is_older;
        }
    }

    /// Returns on which way `peer` takes work, by what it said so far.
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

    /// Whether `peer` is known and connected.
    pub fn is_connected(&self, peer: &PeerId) -> bool {
        self.table.lock().get(peer).is_some_and(|peer| peer.is_connected)
    }

    /// How many peers are connected.
    pub fn n_connected(&self) -> usize {
        self.table.lock().values().filter(|peer| peer.is_connected).count()
    }

    /// Whether `peer` is connected and speaks `protocol`.
    pub fn speaks(&self, peer: &PeerId, protocol: &str) -> bool {
        let table = self.table.lock();
        table.get(peer).is_some_and(|peer| peer.is_connected && peer.speaks(protocol))
    }

    /// Returns the connected peers that speak `protocol`, by id.
    pub fn speaking(&self, protocol: &str) -> Vec<PeerId> {
        self.connected(|peer| peer.speaks(protocol))
    }

    /// Whether `peer` is connected and has not said yet what it speaks.
    pub fn is_silent(&self, peer: &PeerId) -> bool {
        let table = self.table.lock();
        table.get(peer).is_some_and(|peer| peer.is_connected && peer.protocols.is_empty())
    }

    /// Waits until `peer` has said what it speaks or is gone, at most for `within`. Cancel-safe.
    pub async fn wait_until_identified(&self, peer: &PeerId, within: Duration) {
        let heard = async {
            loop {
                let mut rung = pin!(self.identified.notified());
                // Whatever it says from here on rings.
                rung.as_mut().enable();
                if !self.is_silent(peer) {
                    return;
                }
                rung.await;
            }
        };
        // One that says nothing is taken for what it seems.
        drop(timeout(within, heard).await);
    }

    /// Whether `peer` says that it is a worker.
    pub fn is_worker(&self, peer: &PeerId) -> bool {
        self.table.lock().get(peer).is_some_and(|peer| peer.role == Some(Role::Worker))
    }

    /// Returns what `peer` declares of itself; nothing where it is not known.
    pub fn attributes(&self, peer: &PeerId) -> BTreeMap<String, String> {
        self.table.lock().get(peer).map(|peer| peer.attributes.clone()).unwrap_or_default()
    }

    /// Returns the connected peers that say they hold `function`, by id.
    pub fn holding(&self, function: FunctionId) -> Vec<PeerId> {
        self.connected(|peer| peer.functions.contains(&function))
    }

    /// Returns the connected peers that listen to `topic` and do not say they are heads, by id.
    pub fn listening(&self, topic: &str) -> Vec<PeerId> {
        self.connected(|peer| peer.topics.contains(topic) && peer.role != Some(Role::Head))
    }

    /// True if no peer came or went lately, so that those that listen are all that there are.
    pub fn is_settled(&self) -> bool {
        // Longer than a worker takes to dial again after it lost its connection, and shorter than a roll
        // call.
        self.changed_at.lock().elapsed() >= Duration::from_secs(3)
    }

    /// How often a peer has joined a topic so far: while it stays the same, nobody new listens.
    pub fn n_joins(&self) -> u64 {
        self.n_joins.load(Ordering::Relaxed)
    }

    fn connected(&self, is_meant: impl Fn(&Peer) -> bool) -> Vec<PeerId> {
        let table = self.table.lock();
        let meant = table.iter().filter(|(_, peer)| peer.is_connected && is_meant(peer));
        meant.map(|(id, _)| id.clone()).collect()
    }

    /// Dates a known peer. Gossip may be written by peers we have no connection to; those are not
    /// taken in.
    fn note_seen(&self, peer: &PeerId) {
        let now = self.clock.now();
        if let Some(peer) = self.table.lock().get_mut(peer) {
            peer.last_seen = now;
        }
    }

    fn update(&self, peer: &PeerId, change: impl FnOnce(&mut Peer)) {
        let now = self.clock.now();
        let mut table = self.table.lock();
        // Forgetting several at one time makes the search for those lost longest ago cheap per new peer.
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

/// Forgets the `n` peers that were lost longest ago. Returns whether there were any.
fn forget_lost(table: &mut BTreeMap<PeerId, Peer>, n: usize) -> bool {
    let lost = table.iter().filter(|(_, peer)| !peer.is_connected);
    let mut lost: Vec<_> = lost.map(|(id, peer)| (peer.last_seen, id.clone())).collect();
    lost.sort_unstable();
    for (_, id) in lost.iter().take(n) {
        table.remove(id);
    }
    !lost.is_empty()
}

/// Peers that may have a function, and the network to ask them over.
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
            SendError::Exchange { source: ExchangeError::TooLong { bytes_max, .. }, .. } => {
                AskError::TooLong { bytes_max }
            }
            error => AskError::Failed(error.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> PeerId {
        format!("12D3KooWpeer{n}").parse().unwrap()
    }

    /// One of very many.
    fn nth(n: usize) -> PeerId {
        format!("12D3KooW{}", n + 1).replace('0', "A").parse().unwrap()
    }

    #[test]
    fn a_lost_peer_is_listed_for_ten_minutes_but_listens_no_more() {
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
        peers.note_offer(&id(1), &Offer { role: "worker".into(), ..Offer::default() });
        clock.advance(PASSERBY_KEPT);
        assert_eq!(peers.list().len(), 1);
        clock.advance(LOST_KEPT);
        assert_eq!(peers.list().len(), 0);
    }

    #[test]
    fn peer_that_only_connected_is_listed_for_a_minute() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let peers = Peers::new(clock.clone(), 8);
        peers.note(&Event::Connected(id(1)));
        clock.advance(LOST_KEPT);
        assert_eq!(peers.list().len(), 1, "while it is connected");
        peers.note(&Event::Disconnected(id(1)));
        clock.advance(PASSERBY_KEPT);
        assert_eq!(peers.list().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_the_protocols_of_a_peer_is_bounded() {
        let peers = Peers::new(Clock::system(), 8);
        let (began, within) = (Instant::now(), Duration::from_secs(1));
        peers.wait_until_identified(&id(1), within).await;
        assert_eq!(began.elapsed(), Duration::ZERO, "it is not here");
        peers.note(&Event::Connected(id(1)));
        peers.wait_until_identified(&id(1), within).await;
        assert_eq!(began.elapsed(), within);
        let says = async {
            tokio::time::advance(Duration::from_millis(10)).await;
            let (addresses, protocols) = (Vec::new(), vec![LINE_PROTOCOL.to_owned()]);
            peers.note(&Event::Identified { peer: id(1), addresses, protocols });
        };
        let peer = id(1);
        tokio::join!(peers.wait_until_identified(&peer, within), says);
        assert_eq!(began.elapsed(), within + Duration::from_millis(10));
        assert_eq!(peers.work_protocol(&id(1)), WorkProtocol::Line);
    }

    #[test]
    fn heads_are_not_listed_as_subscribed_workers() {
        let peers = Peers::new(Clock::system(), 8);
        for n in [1, 2] {
            peers.note(&Event::Connected(id(n)));
            peers.note(&Event::Joined { peer: id(n), topic: GENERAL_TOPIC.into() });
        }
        peers.note_offer(&id(1), &Offer { role: "head".into(), ..Offer::default() });
        assert_eq!(peers.listening(GENERAL_TOPIC), [id(2)]);
    }

    #[test]
    fn a_flood_of_identities_that_are_gone_at_once_displaces_no_connected_peer() {
        let peers = Peers::new(Clock::system(), 20);
        peers.note(&Event::Connected(id(1)));
        for n in 0..2 * peers.n_max() {
            peers.note(&Event::Connected(nth(n)));
            peers.note_offer(&nth(n), &Offer::default());
            peers.note(&Event::Disconnected(nth(n)));
        }
        assert!(peers.list().len() <= peers.n_max());
        assert!(peers.is_connected(&id(1)));
    }

    #[test]
    fn the_table_is_bounded_and_gossip_of_strangers_adds_no_peer() {
        let peers = Peers::new(Clock::system(), 20);
        for n in 0..peers.n_max() {
            peers.note(&Event::Connected(nth(n)));
        }
        peers.note(&Event::Connected(id(1)));
        assert_eq!(peers.list().len(), peers.n_max(), "all are connected, so none makes room");
        let lost: PeerId = "12D3KooW1".parse().unwrap();
        peers.note(&Event::Disconnected(lost.clone()));
        let (author, bytes) = (id(2), bytes::Bytes::new());
        peers.note(&Event::Gossip { author, topic: GENERAL_TOPIC.into(), bytes });
        assert!(peers.list().iter().any(|(id, _)| *id == lost), "gossip takes nobody in");
        peers.note(&Event::Connected(id(1)));
        assert_eq!(peers.list().len(), peers.n_max());
        assert!(!peers.list().iter().any(|(id, _)| *id == lost), "it made room");
    }
}
