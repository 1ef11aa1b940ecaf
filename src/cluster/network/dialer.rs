//! The dialer: decides which peers to stay connected to, at which addresses, and when to retry. No I/O.
//!
//! Boot nodes are dialed forever. Peers that were reached once or are in the peer store are dialed less
//! and less often. A peer that connected to this node is dialed for some minutes at the addresses it
//! named, since most such peers reconnect themselves.

use std::collections::HashMap;
use std::time::Duration;

use libp2p::{Multiaddr, PeerId};
use task::backoff::Backoff;
use tokio::time::Instant;
use web::rate_limit::{Bucket, Rate};

use super::BootNode;

/// Delay before the second attempt. It is short, since a head can restart within a second.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Maximum delay between attempts for a boot node or a recently lost peer: workers should be back within
/// 5 s of their head.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Time for which the short delay of [`LONGEST_WAIT`] applies to a lost peer. A machine restarts in
/// less time.
const RECENT: Duration = Duration::from_mins(10);

/// Maximum delay between attempts for other peers.
const LONGEST_WAIT_LATER: Duration = Duration::from_mins(1);

/// Delay before the second report of an unreachable boot node. The first report is immediate, for an
/// operator who has just started the node with a misspelled address.
const FIRST_REPORT_WAIT: Duration = Duration::from_secs(10);

/// Maximum delay between reports, to keep the log short.
const LONGEST_REPORT_WAIT: Duration = Duration::from_mins(30);

/// Maximum number of peers in the table, apart from boot nodes. If more are added, the peer that was
/// lost longest ago is evicted. If all are connected, a new peer is not added. A head can have more
/// workers than this, since workers reconnect themselves.
const PEERS_MAX: usize = 256;

/// Two consecutive connections shorter than this were most likely closed by the peer because it has no
/// room. Such brief connections are not due to a restart, since a restarting peer cannot be reached for
/// a while.
const BRIEF: Duration = Duration::from_secs(10);

/// Maximum number of addresses per peer.
pub(super) const ADDRESSES_MAX: usize = 8;

/// Maximum number of peers dialed in one check of the table. There are at most ten checks a second.
const DUE_MAX: usize = 16;

/// Rate of dials to peers that connected to this node. These peers named the addresses, which might
/// belong to anyone. A few identities must not make this node dial someone else's port all the time.
const INBOUND_DIALS: Rate = Rate::per_second(4, 64);

/// Peers to dial, with their addresses and the times of the next attempts.
#[derive(Debug)]
pub(super) struct Dialer {
    peers: HashMap<PeerId, KnownPeer>,
    /// Limits the rate of dials to [`INBOUND_DIALS`].
    inbound_dials: Bucket,
}

#[derive(Debug)]
struct KnownPeer {
    addresses: Vec<Multiaddr>,
    reason: DialReason,
    state: DialState,
    backoff: Backoff,
    connected: Instant,
    lost: Instant,
    /// Number of brief connections in a row.
    n_brief: u32,
    /// Failures to reach the peer are not reported before this time, and only for a boot node.
    report_at: Instant,
    report_backoff: Backoff,
}

/// Reason to dial a peer, from the strongest to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum DialReason {
    /// The peer is a boot node.
    Boot,
    /// This node has reached the peer since it was started.
    Reached,
    /// The peer store contains the peer.
    Remembered,
    /// The connection was opened by the peer.
    Inbound,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum DialState {
    /// The peer is to be dialed at this time.
    Due(Instant),
    Dialing,
    Connected,
}

impl Dialer {
    /// Creates the table with all of `boot_nodes` and `remembered`, to be dialed immediately.
    pub(super) fn new(boot_nodes: Vec<BootNode>, remembered: Vec<BootNode>, now: Instant) -> Self {
        let mut dialer = Self { peers: HashMap::new(), inbound_dials: Bucket::full(INBOUND_DIALS) };
        let boot_nodes = boot_nodes.into_iter().map(|node| (DialReason::Boot, node));
        let remembered = remembered.into_iter().map(|node| (DialReason::Remembered, node));
        for (reason, BootNode { peer, address }) in boot_nodes.chain(remembered) {
            if let Some(entry) = dialer.entry(peer, reason, DialState::Due(now), now) {
                entry.learn(address);
            }
        }
        dialer
    }

    /// Returns the peers that are due at `now` with their addresses, the strongest reasons first. The
    /// returned peers count as being dialed from now on.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(PeerId, Vec<Multiaddr>)> {
        let is_due = |entry: &KnownPeer| matches!(entry.state, DialState::Due(at) if at <= now);
        let mut due: Vec<(DialReason, PeerId)> = self
            .peers
            .iter()
            .filter(|(_, entry)| is_due(entry))
            .map(|(peer, entry)| (entry.reason, *peer))
            .collect();
        due.sort_unstable();
        due.truncate(DUE_MAX);
        due.retain(|(reason, _)| *reason != DialReason::Inbound || self.inbound_dials.take(now));
        let mut taken = Vec::new();
        for (_, peer) in due {
            if let Some(entry) = self.peers.get_mut(&peer) {
                entry.state = DialState::Dialing;
                taken.push((peer, entry.addresses.clone()));
            }
        }
        taken
    }

    /// Records a connection to `peer`. `address` is set if this node opened it.
    pub(super) fn note_connected(
        &mut self,
        peer: PeerId,
        address: Option<Multiaddr>,
        now: Instant,
    ) {
        let reason = if address.is_some() { DialReason::Reached } else { DialReason::Inbound };
        let Some(entry) = self.entry(peer, reason, DialState::Connected, now) else { return };
        if entry.state != DialState::Connected {
            entry.connected = now;
        }
        entry.state = DialState::Connected;
        entry.reason = entry.reason.min(reason);
        (entry.report_at, entry.report_backoff) = (now, report_backoff());
        if let Some(address) = address {
            entry.prefer(address);
        }
    }

    /// Records the addresses that a connected peer listens on.
    pub(super) fn add_addresses(&mut self, peer: PeerId, addresses: &[Multiaddr]) {
        if let Some(entry) = self.peers.get_mut(&peer) {
            for address in addresses {
                entry.learn(address.clone());
            }
        }
    }

    /// Records that the last connection to `peer` was closed. Returns true if the peer repeatedly
    /// refuses this node and should not be dialed.
    pub(super) fn note_lost(&mut self, peer: PeerId, now: Instant) -> bool {
        let Some(entry) = self.peers.get_mut(&peer) else { return false };
        if entry.state == DialState::Connected {
            let is_brief = now - entry.connected < BRIEF;
            entry.n_brief = if is_brief { entry.n_brief + 1 } else { 0 };
            if !is_brief {
                // The backoff is not reset after a brief connection, so that a peer that repeatedly
                // closes connections is dialed less often.
                entry.backoff = quick();
            }
        }
        entry.lost = now;
        entry.state = DialState::Due(now + entry.backoff.next_wait());
        // A peer is no longer dialed after two brief connections in a row. Otherwise, two hundred nodes
        // that start together would dial full peers hundreds of times per second.
        entry.reason != DialReason::Boot && entry.n_brief >= 2
    }

    /// Forgets an address at which another peer than `peer` responds. The address of a boot node is
    /// retained, since its operator might correct it there.
    pub(super) fn forget_address(&mut self, peer: PeerId, address: &Multiaddr) {
        let entry = self.peers.get_mut(&peer).filter(|entry| entry.reason != DialReason::Boot);
        if let Some(entry) = entry {
            let address = without_peer(address.clone());
            entry.addresses.retain(|known| *known != address);
        }
    }

    /// Records that `peer` was not reached. Forgets the peer if there is no reason to try again.
    pub(super) fn note_failed(&mut self, peer: PeerId, now: Instant) {
        let Some(entry) = self.peers.get_mut(&peer) else { return };
        let is_long_ago = now - entry.lost >= RECENT;
        if is_long_ago && entry.reason == DialReason::Inbound || entry.addresses.is_empty() {
            self.peers.remove(&peer);
            return;
        }
        let mut wait = entry.backoff.next_wait();
        if is_long_ago && entry.reason != DialReason::Boot {
            wait = Backoff::new(LONGEST_WAIT_LATER, LONGEST_WAIT_LATER).next_wait();
        }
        entry.state = DialState::Due(now + wait);
    }

    /// Returns the address of boot node `peer` if a failure to reach it should be reported at time
    /// `now`. The first of successive failures is reported, later failures less and less often.
    pub(super) fn take_report(&mut self, peer: PeerId, now: Instant) -> Option<Multiaddr> {
        let entry = self.peers.get_mut(&peer)?;
        if entry.reason != DialReason::Boot || now < entry.report_at {
            return None;
        }
        entry.report_at = now + entry.report_backoff.next_wait();
        let address = entry.addresses.first()?.clone();
        Some(address.with(libp2p::multiaddr::Protocol::P2p(peer)))
    }

    /// Forgets `peer`. A boot node is instead treated like a lost peer.
    pub(super) fn forget(&mut self, peer: PeerId, now: Instant) {
        if self.is_boot_node(peer) {
            self.note_lost(peer, now);
        } else {
            self.peers.remove(&peer);
        }
    }

    /// Returns the time at which the next peer is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.peers
            .values()
            .filter_map(|entry| if let DialState::Due(at) = entry.state { Some(at) } else { None })
            .min()
    }

    /// Returns true if `peer` is in the table: it is connected or will be dialed.
    pub(super) fn knows(&self, peer: PeerId) -> bool {
        self.peers.contains_key(&peer)
    }

    /// Returns true if `peer` is a boot node.
    pub(super) fn is_boot_node(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|entry| entry.reason == DialReason::Boot)
    }

    /// Returns the boot nodes.
    pub(super) fn boot_nodes(&self) -> impl Iterator<Item = PeerId> {
        self.peers
            .iter()
            .filter(|(_, entry)| entry.reason == DialReason::Boot)
            .map(|(peer, _)| *peer)
    }

    fn entry(
        &mut self,
        peer: PeerId,
        reason: DialReason,
        state: DialState,
        now: Instant,
    ) -> Option<&mut KnownPeer> {
        let is_full = self.peers.len() >= PEERS_MAX + self.boot_nodes().count();
        if is_full && reason != DialReason::Boot && !self.peers.contains_key(&peer) {
            let lost = self.peers.iter().filter(|(_, entry)| {
                entry.reason != DialReason::Boot && entry.state != DialState::Connected
            });
            let weakest = lost.max_by_key(|(_, entry)| (entry.reason, now - entry.lost))?;
            let weakest = *weakest.0;
            self.peers.remove(&weakest);
        }
        Some(self.peers.entry(peer).or_insert_with(|| KnownPeer {
            addresses: Vec::new(),
            reason,
            state,
            backoff: quick(),
            connected: now,
            lost: now,
            n_brief: 0,
            report_at: now,
            report_backoff: report_backoff(),
        }))
    }
}

impl KnownPeer {
    /// Appends an address if there is room.
    fn learn(&mut self, address: Multiaddr) {
        let address = without_peer(address);
        if self.addresses.len() < ADDRESSES_MAX && !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }

    /// Moves an address to the front.
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

/// Returns `address` without a peer id at its end.
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
    async fn boot_node_is_retried_within_two_seconds_after_any_number_of_failures() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![node(peer)], vec![], Instant::now());
        for _ in 0..1000 {
            assert_eq!(due(&mut dialer), 1);
            assert_eq!(due(&mut dialer), 0, "being dialed");
            dialer.note_failed(peer, Instant::now());
            assert_eq!(due(&mut dialer), 0, "not due yet");
            pass(LONGEST_WAIT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreachable_boot_node_is_reported_immediately_and_then_less_often() {
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
        assert!(
            dialer.take_report(peer, Instant::now()).is_some(),
            "the peer was connected before"
        );
        assert_eq!(dialer.take_report(PeerId::random(), Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn connected_node_is_not_dialed() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![node(peer)], vec![], Instant::now());
        dialer.note_connected(peer, Some(address(1)), Instant::now());
        pass(Duration::from_hours(1)).await;
        assert_eq!(due(&mut dialer), 0);
        dialer.note_lost(PeerId::random(), Instant::now());
        assert_eq!(due(&mut dialer), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn lost_peer_is_dialed_within_two_seconds_and_later_every_minute() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![], vec![], Instant::now());
        dialer.note_connected(peer, Some(address(7).with_p2p(peer).unwrap()), Instant::now());
        dialer.note_lost(peer, Instant::now());
        for _ in 0..100 {
            pass(LONGEST_WAIT).await;
            assert_eq!(dialer.take_due(Instant::now()), [(peer, vec![address(7)])]);
            dialer.note_failed(peer, Instant::now());
        }
        pass(RECENT).await;
        for _ in 0..100 {
            assert_eq!(due(&mut dialer), 1);
            dialer.note_failed(peer, Instant::now());
            pass(LONGEST_WAIT).await;
            assert_eq!(due(&mut dialer), 0, "dialed less often");
            pass(LONGEST_WAIT_LATER).await;
        }
        dialer.note_connected(peer, None, Instant::now());
        dialer.note_lost(peer, Instant::now());
        pass(LONGEST_WAIT).await;
        assert_eq!(due(&mut dialer), 1, "lost recently");
    }

    #[tokio::test(start_paused = true)]
    async fn peer_that_closes_every_connection_is_not_dialed_again_unless_it_is_a_boot_node() {
        let (boot, full) = (PeerId::random(), PeerId::random());
        let mut dialer = Dialer::new(vec![node(boot)], vec![], Instant::now());
        let mut end_after = |peer, lasted| {
            dialer.note_connected(peer, Some(address(1)), Instant::now());
            let lost = Instant::now() + lasted;
            dialer.note_lost(peer, lost)
        };
        assert!(!end_after(full, Duration::ZERO), "the peer might have restarted");
        assert!(!end_after(full, BRIEF), "the connection lasted long enough");
        assert!(!end_after(full, Duration::ZERO));
        assert!(end_after(full, Duration::ZERO));
        for _ in 0..10 {
            assert!(!end_after(boot, Duration::ZERO));
        }
        dialer.forget(full, Instant::now());
        pass(LONGEST_WAIT / 4).await;
        assert_eq!(due(&mut dialer), 0, "the peer closes each connection");
        pass(LONGEST_WAIT).await;
        assert_eq!(due(&mut dialer), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn disconnected_inbound_peer_is_dialed_at_its_announced_addresses_for_a_limited_time() {
        let peer = PeerId::random();
        let mut dialer = Dialer::new(vec![], vec![], Instant::now());
        dialer.note_connected(peer, None, Instant::now());
        dialer.add_addresses(peer, &(1..20).map(address).collect::<Vec<_>>());
        dialer.note_lost(peer, Instant::now());
        pass(LONGEST_WAIT).await;
        let addresses = dialer.take_due(Instant::now()).pop().unwrap().1;
        assert_eq!(addresses.len(), ADDRESSES_MAX);
        dialer.note_failed(peer, Instant::now());
        pass(RECENT).await;
        assert_eq!(due(&mut dialer), 1);
        dialer.note_failed(peer, Instant::now());
        pass(Duration::from_hours(1)).await;
        assert_eq!(due(&mut dialer), 0, "forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn address_of_another_peer_is_not_dialed_again_unless_it_is_of_a_boot_node() {
        let (boot, reached) = (PeerId::random(), PeerId::random());
        let mut dialer = Dialer::new(vec![node(boot)], vec![], Instant::now());
        dialer.note_connected(reached, Some(address(2)), Instant::now());
        dialer.add_addresses(reached, &[address(1), address(3)]);
        dialer.note_lost(reached, Instant::now());
        let mut dialed_after_wrong_id = |peer, at: Multiaddr| {
            dialer.forget_address(peer, &at.with_p2p(peer).unwrap());
            dialer.note_failed(peer, Instant::now());
            let due = dialer.take_due(Instant::now() + LONGEST_WAIT);
            due.into_iter().find(|(due, _)| *due == peer).map(|(_, addresses)| addresses)
        };
        assert_eq!(dialed_after_wrong_id(reached, address(1)), Some(vec![address(2), address(3)]));
        assert_eq!(dialed_after_wrong_id(reached, address(2)), Some(vec![address(3)]));
        assert_eq!(dialed_after_wrong_id(reached, address(3)), None);
        assert_eq!(dialed_after_wrong_id(boot, address(1)), Some(vec![address(1)]));
    }

    #[tokio::test(start_paused = true)]
    async fn table_of_peers_to_dial_is_limited_and_never_drops_boot_nodes() {
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
