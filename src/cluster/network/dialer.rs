//! The dialer: whom to be connected to, under which addresses, and when to try again. A table of
//! values, no I/O.
//!
//! Boot nodes are dialed forever. So are peers that were reached once, or that the peer store holds,
//! but less and less often. A peer that came to us by itself is dialed for some minutes under the
//! addresses it named: most such peers come back by themselves.

use std::{collections::HashMap, time::Duration};

use libp2p::{Multiaddr, PeerId};
use task::backoff::Backoff;
use tokio::time::Instant;
use web::rate_limit::{Bucket, Rate};

use super::BootNode;

/// The wait before the second try. Short, since a head that restarts is back in a second.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait between tries of a boot node, and of a peer that was lost lately: a head's
/// workers are to be back within 5 s of its return.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long a lost peer is dialed that often. A machine restarts in less.
const LATELY: Duration = Duration::from_mins(10);

/// The longest wait between tries of all others.
const LONGEST_WAIT_LATER: Duration = Duration::from_mins(1);

/// The wait before a second failure to reach a boot node is reported. The first is at once: what is
/// misspelt is corrected by the person who just started the node.
const FIRST_REPORT_WAIT: Duration = Duration::from_secs(10);

/// The longest wait between reports. A log of months is not to consist of them.
const LONGEST_REPORT_WAIT: Duration = Duration::from_mins(30);

/// Peers, beside the boot nodes, that are kept in the table. Past it, the one that was lost longest
/// ago is forgotten; while all are connected, a new one is not taken in. A head whose every worker
/// restarts finds them all by their own dialing.
const PEERS_MAX: usize = 256;

/// A connection that ends sooner was most likely refused: the peer has no room for this node, and says
/// so by closing it. A peer that restarts cannot be reached between two connections that short.
const BRIEF: Duration = Duration::from_secs(10);

/// Brief connections in a row after which a peer is not dialed any more. A cluster of two hundred that
/// started together dialed those without room four hundred times a second.
const N_BRIEF_MAX: u32 = 2;

/// Addresses kept of one peer.
pub(super) const ADDRESSES_MAX: usize = 8;

/// Peers dialed in one look at the table, ten times a second.
const DUE_MAX: usize = 16;

/// Peers dialed that came by themselves. They named the addresses, which may be of anybody: a few
/// identities that come and go must not make this node dial somebody else's port all the time.
const CAME_DIALS: Rate = Rate::per_second(4, 64);

/// Whom to dial, where and when.
#[derive(Debug)]
pub(super) struct Dialer {
    peers: HashMap<PeerId, Entry>,
    /// Dials of peers that came by themselves, under addresses that they named.
    came: Bucket,
}

#[derive(Debug)]
struct Entry {
    addresses: Vec<Multiaddr>,
    tie: Tie,
    state: State,
    backoff: Backoff,
    connected: Instant,
    lost: Instant,
    /// Brief connections in a row.
    n_brief: u32,
    /// When the next failure to reach it is reported, if it is a boot node.
    report_at: Instant,
    report_backoff: Backoff,
}

/// Why a peer is dialed, from the strongest reason to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    /// It is a boot node.
    Boot,
    /// We reached it in this run.
    Reached,
    /// The peer store remembers it.
    Remembered,
    /// It reached us.
    Came,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// To be dialed at this time.
    Due(Instant),
    Dialing,
    /// A connection stands.
    Connected,
}

impl Dialer {
    /// All of `boot_nodes` and of the `remembered` ones, due at once.
    pub(super) fn new(boot_nodes: Vec<BootNode>, remembered: Vec<BootNode>, now: Instant) -> Self {
        let mut dialer = Self { peers: HashMap::new(), came: Bucket::full(CAME_DIALS) };
        let boot_nodes = boot_nodes.into_iter().map(|node| (Tie::Boot, node));
        let remembered = remembered.into_iter().map(|node| (Tie::Remembered, node));
        for (tie, BootNode { peer, address }) in boot_nodes.chain(remembered) {
            if let Some(entry) = dialer.entry(peer, tie, State::Due(now), now) {
                entry.learn(address);
            }
        }
        dialer
    }

    /// Takes the peers that are due at `now` and their addresses, the strongest ties first; they count as
    /// being dialed from here.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(PeerId, Vec<Multiaddr>)> {
        let is_due = |entry: &Entry| matches!(entry.state, State::Due(at) if at <= now);
        let mut due: Vec<(Tie, PeerId)> = self
            .peers
            .iter()
            .filter(|(_, entry)| is_due(entry))
            .map(|(peer, entry)| (entry.tie, *peer))
            .collect();
        due.sort_unstable();
        due.truncate(DUE_MAX);
        due.retain(|(tie, _)| *tie != Tie::Came || self.came.take(now));
        let mut taken = Vec::new();
        for (_, peer) in due {
            if let Some(entry) = self.peers.get_mut(&peer) {
                entry.state = State::Dialing;
                taken.push((peer, entry.addresses.clone()));
            }
        }
        taken
    }

    /// Notes that a connection to `peer` stands, which we reached under `address` if it is given.
    pub(super) fn note_connected(
        &mut self,
        peer: PeerId,
        address: Option<Multiaddr>,
        now: Instant,
    ) {
        let tie = if address.is_some() { Tie::Reached } else { Tie::Came };
        let Some(entry) = self.entry(peer, tie, State::Connected, now) else { return };
        if entry.state != State::Connected {
            entry.connected = now;
        }
        entry.state = State::Connected;
        entry.tie = entry.tie.min(tie);
        (entry.report_at, entry.report_backoff) = (now, report_backoff());
        if let Some(address) = address {
            entry.prefer(address);
        }
    }

    /// Notes where a connected peer says it listens.
    pub(super) fn add_addresses(&mut self, peer: PeerId, addresses: &[Multiaddr]) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            for address in addresses {
                entry.learn(address.clone());
            }
        }
    }

    /// Notes that no connection to `peer` stands any more. Returns whether the peer keeps refusing this
    /// node, and is better left alone.
    pub(super) fn note_lost(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(entry) = self.peers.get_mut(&peer) else { return false };
        if entry.state == State::Connected {
            let is_brief = now - entry.connected < BRIEF;
            entry.n_brief = if is_brief { entry.n_brief + 1 } else { 0 };
            if !is_brief {
                // A peer that keeps closing is dialed less often: all its others come back just now.
                entry.backoff = quick();
            }
        }
        entry.lost = now;
        entry.state = State::Due(now + entry.backoff.next_wait());
        entry.tie != Tie::Boot && entry.n_brief >= N_BRIEF_MAX
    }

    /// Notes that `peer`, to which no connection stands, was not reached. Forgets it if no reason is
    /// left to try again.
    pub(super) fn note_failed(&mut self, peer: PeerId, now: Instant) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        let is_late = now - entry.lost >= LATELY;
        if is_late && entry.tie == Tie::Came || entry.addresses.is_empty() {
            self.peers.remove(&peer);
            return;
        }
        let mut wait = entry.backoff.next_wait();
        if is_late && entry.tie != Tie::Boot {
            wait = Backoff::new(LONGEST_WAIT_LATER, LONGEST_WAIT_LATER).next_wait();
        }
        entry.state = State::Due(now + wait);
    }

    /// Returns the address of boot node `peer` if a failure to reach it at `now` is to be reported: the
    /// first one since it was connected, then less and less often.
    pub(super) fn take_report(&mut self, peer: PeerId, now: Instant) -> Option<Multiaddr> {
        let entry = self.peers.get_mut(&peer)?;
        if entry.tie != Tie::Boot || now < entry.report_at {
            return None;
        }
        entry.report_at = now + entry.report_backoff.next_wait();
        let address = entry.addresses.first()?.clone();
        Some(address.with(libp2p::multiaddr::Protocol::P2p(peer)))
    }

    /// Forgets `peer`, unless it is a boot node: that one waits as after a failure.
    pub(super) fn forget(&mut self, peer: PeerId, now: Instant) {
        if self.is_boot_node(peer) {
            self.note_lost(peer, now);
        } else {
            self.peers.remove(&peer);
        }
    }

    /// When the next peer is due, if any is.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.peers.values().filter_map(|entry| match entry.state {
            State::Due(at) => Some(at),
            State::Dialing | State::Connected => None,
        });
        due.min()
    }

    /// Whether `peer` is in the table, and so is connected or will be dialed.
    pub(super) fn knows(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Whether `peer` is a boot node.
    pub(super) fn is_boot_node(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|entry| entry.tie == Tie::Boot)
    }

    /// The boot nodes.
    pub(super) fn boot_nodes(&self) -> impl Iterator<Item = PeerId> {
        self.peers.iter().filter(|(_, entry)| entry.tie == Tie::Boot).map(|(peer, _)| *peer)
    }

    /// The boot nodes to which no connection stands.
    pub(super) fn unreached(&self) -> Vec<PeerId> {
        let is_meant = |entry: &Entry| entry.tie == Tie::Boot && entry.state != State::Connected;
        self.peers.iter().filter(|(_, entry)| is_meant(entry)).map(|(peer, _)| *peer).collect()
    }

    fn entry(&mut self, peer: PeerId, tie: Tie, state: State, now: Instant) -> Option<&mut Entry> {
        let is_full = self.peers.len() >= PEERS_MAX + self.boot_nodes().count();
        if is_full && tie != Tie::Boot && !self.peers.contains_key(&peer) {
            let lost = self
                .peers
                .iter()
                .filter(|(_, entry)| entry.tie != Tie::Boot && entry.state != State::Connected);
            let weakest = lost.max_by_key(|(_, entry)| (entry.tie, now - entry.lost))?;
            let weakest = *weakest.0;
            self.peers.remove(&weakest);
        }
        let made = || Entry {
            addresses: Vec::new(),
            tie,
            state,
            backoff: quick(),
            connected: now,
            lost: now,
            n_brief: 0,
            report_at: now,
            report_backoff: report_backoff(),
        };
        Some(self.peers.entry(peer).or_insert_with(made))
    }
}

impl Entry {
    /// Adds an address, as long as there is room.
    fn learn(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        if self.addresses.len() < ADDRESSES_MAX && !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }

    /// Puts an address first.
    fn prefer(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        self.addresses.retain(|known| *known != address);
        self.addresses.insert(0, address);
        self.addresses.truncate(ADDRESSES_MAX);
    }
}

const fn quick() -> Backoff {
    Backoff::new(FIRST_WAIT, LONGEST_WAIT)
}

const fn report_backoff() -> Backoff {
    Backoff::new(FIRST_REPORT_WAIT, LONGEST_REPORT_WAIT)
}

/// Returns `address` without the peer it may end in.
pub(super) fn without_peer(mut address: Multiaddr) -> Multiaddr {
    if let Some(last) = address.pop()
        && !matches!(last, libp2p::multiaddr::Protocol::P2p(_))
    {
        address.push(last);
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(peer: PeerId) -> BootNode {
        format!("/ip4/127.0.0.1/tcp/1/p2p/{peer}").parse().unwrap()
    }

    fn address(port: u16) -> Multiaddr {
        format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()
    }

    fn due(dialer: &mut Dialer) -> usize {
        dialer.take_due(Instant::now()).len()
    }

    async fn pass(time: Duration) {
        tokio::time::advance(time).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_boot_node_is_due_again_within_two_seconds_however_often_it_failed() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![node(peer)], vec![], Instant::now());
        for _ in 0..1000 {
            assert_eq!(due(&mut dialer), 1);
            assert_eq!(due(&mut dialer), 0, "it is being dialed");
            dialer.note_failed(peer, Instant::now());
            assert_eq!(due(&mut dialer), 0, "it waits");
            pass(LONGEST_WAIT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_boot_node_that_is_not_reached_is_reported_at_once_and_then_ever_less_often() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![node(peer)], vec![], Instant::now());
        let mut n_reports = 0;
        let address = dialer.take_report(peer, Instant::now()).unwrap();
        assert_eq!(address.to_string(), format!("/ip4/127.0.0.1/tcp/1/p2p/{peer}"));
        for _ in 0..3600 {
            pass(Duration::from_secs(1)).await;
            n_reports += usize::from(dialer.take_report(peer, Instant::now()).is_some());
        }
        assert!((5..20).contains(&n_reports), "{n_reports} in an hour");
        dialer.note_connected(peer, None, Instant::now());
        dialer.note_lost(peer, Instant::now());
        assert!(dialer.take_report(peer, Instant::now()).is_some(), "it had been connected");
        assert_eq!(dialer.take_report(PeerId::random(), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connected_node_is_left_alone() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![node(peer)], vec![], Instant::now());
        assert_eq!(dialer.unreached(), [peer]);
        dialer.note_connected(peer, Some(address(1)), Instant::now());
        assert_eq!(dialer.unreached(), []);
        pass(Duration::from_hours(1)).await;
        assert_eq!(due(&mut dialer), 0);
        dialer.note_lost(PeerId::random(), Instant::now());
        assert_eq!(due(&mut dialer), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_once_reached_is_dialed_within_two_seconds_then_each_minute_for_ever() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![], vec![], Instant::now());
        dialer.note_connected(peer, Some(address(7).with_p2p(peer).unwrap()), Instant::now());
        dialer.note_lost(peer, Instant::now());
        for _ in 0..100 {
            pass(LONGEST_WAIT).await;
            assert_eq!(dialer.take_due(Instant::now()), [(peer, vec![address(7)])]);
            dialer.note_failed(peer, Instant::now());
        }
        pass(LATELY).await;
        for _ in 0..100 {
            assert_eq!(due(&mut dialer), 1);
            dialer.note_failed(peer, Instant::now());
            pass(LONGEST_WAIT).await;
            assert_eq!(due(&mut dialer), 0, "less often now");
            pass(LONGEST_WAIT_LATER).await;
        }
        dialer.note_connected(peer, None, Instant::now());
        dialer.note_lost(peer, Instant::now());
        pass(LONGEST_WAIT).await;
        assert_eq!(due(&mut dialer), 1, "lost lately");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_closes_each_connection_at_once_is_left_alone_but_not_a_boot_node() {
        let (boot, full) = (PeerId::random(), PeerId::random());
        let mut dialer = Dialer::new(vec![node(boot)], vec![], Instant::now());
        let mut end_after = |peer, lasted| {
            dialer.note_connected(peer, Some(address(1)), Instant::now());
            let lost = Instant::now() + lasted;
            dialer.note_lost(peer, lost)
        };
        assert!(!end_after(full, Duration::ZERO), "it may have restarted");
        assert!(!end_after(full, BRIEF), "it had room");
        assert!(!end_after(full, Duration::ZERO));
        assert!(end_after(full, Duration::ZERO));
        for _ in 0..10 {
            assert!(!end_after(boot, Duration::ZERO));
        }
        dialer.forget(full, Instant::now());
        pass(LONGEST_WAIT / 4).await;
        assert_eq!(due(&mut dialer), 0, "it has no room just now");
        pass(LONGEST_WAIT).await;
        assert_eq!(due(&mut dialer), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_inbound_peer_is_dialed_for_some_minutes_at_its_own_addresses() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![], vec![], Instant::now());
        dialer.note_connected(peer, None, Instant::now());
        dialer.add_addresses(peer, &(1..20).map(address).collect::<Vec<_>>());
        dialer.note_lost(peer, Instant::now());
        pass(LONGEST_WAIT).await;
        let addresses = dialer.take_due(Instant::now()).pop().unwrap().1;
        assert_eq!(addresses.len(), ADDRESSES_MAX);
        dialer.note_failed(peer, Instant::now());
        pass(LATELY).await;
        assert_eq!(due(&mut dialer), 1);
        dialer.note_failed(peer, Instant::now());
        pass(Duration::from_hours(1)).await;
        assert_eq!(due(&mut dialer), 0, "forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_is_bounded_and_forgets_the_weakest_ties_first() {
        let (boot, reached) = (PeerId::random(), PeerId::random());
        let remembered = (0..PEERS_MAX + 10).map(|_| node(PeerId::random())).collect();
        let mut dialer = Dialer::new(vec![node(boot)], remembered, Instant::now());
        assert_eq!(dialer.peers.len(), PEERS_MAX + 1);
        dialer.note_connected(reached, Some(address(1)), Instant::now());
        dialer.note_lost(reached, Instant::now());
        assert_eq!(dialer.peers.len(), PEERS_MAX + 1);
        for _ in 0..2 * PEERS_MAX {
            dialer.note_connected(PeerId::random(), None, Instant::now());
        }
        assert!(dialer.is_boot_node(boot));
        assert_eq!(dialer.peers.len(), PEERS_MAX + 1);
        assert!(dialer.take_due(Instant::now()).len() <= DUE_MAX);
    }
}
