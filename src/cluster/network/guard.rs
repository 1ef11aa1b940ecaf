//! The guard: allowed peers, limits for each peer, and bans of peers that offend.
//!
//! Each peer has allowances that refill with time. Exceeding the allowance for streams or for own gossip
//! is an offense, as is anything malformed. A peer that uses up its allowance of offenses is banned for
//! a while. A relayed message is charged to its author. A relay cannot know the limits of its receivers,
//! so relayed messages beyond these limits are ignored and are no offense of the relay. Therefore, this
//! node also limits the messages of unnamed authors that it forwards, both those that the authors sent
//! and those that were relayed. Boot nodes and peers allowed by name are never banned. A request that is
//! refused for lack of slots is no offense.
//!
//! The guard also limits the memory of unfinished messages ([`Budget`]), including data that the
//! multiplexer buffers for unread streams. An unnamed peer can hold up to a quarter of the amount that is
//! then still free, so that there is room for a complete message while several peers send theirs slowly.
//! A quarter of the total is reserved for named peers.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use content::Requester;
use libp2p::PeerId;
use lru::LruCache;
use parking_lot::Mutex;
use task::tally::{Counted, Tally};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::warn;
use web::rate_limit::{Bucket, LogLimit, Rate};

use super::AllowedPeers;

/// Duration of a ban.
pub(super) const BANNED_FOR: Duration = Duration::from_mins(1);

/// Default number of peers whose allowances are tracked.
const ACCOUNTS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Maximum number of simultaneous bans. If there are more, the oldest ban is lifted. Identities cost
/// nothing, so this limits the memory, not the attackers.
const BANNED_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// Limits for data from peers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowances {
    /// Streams opened by one peer.
    pub(super) streams: Rate,
    /// Gossip messages that one peer wrote and sent directly.
    pub(super) gossip: Rate,
    /// Gossip messages of one author, sent by the author or by relays.
    pub(super) authored: Rate,
    /// Gossip messages that all unnamed authors together send directly to this node.
    pub(super) entering: Rate,
    /// Gossip messages of all unnamed authors together that other peers relay to this node.
    pub(super) passing: Rate,
    /// Offenses of one peer.
    pub(super) offenses: Rate,
    /// Memory for unfinished messages of all peers, in bytes.
    pub(super) unfinished_bytes: usize,
    /// Number of peers whose allowances are tracked. If there are more, the least recently used entry is
    /// dropped. Its allowances would have refilled by then.
    pub(super) accounts: NonZeroUsize,
}

impl Allowances {
    /// Returns these limits with allowances tracked for at least `n` peers.
    pub(super) fn for_peers(self, n: usize) -> Self {
        let accounts = NonZeroUsize::new(n).map_or(self.accounts, |n| n.max(self.accounts));
        Self { accounts, ..self }
    }
}

/// Limits for peers: several times the amount that the busiest head sends to one worker, and a fraction
/// of the amount that would overload a node. One offense per second is tolerated, because an honest but
/// broken peer might cause it.
pub(super) const ALLOWANCES: Allowances = Allowances {
    streams: Rate::per_second(10_000, 20_000),
    gossip: Rate::per_second(2_000, 4_000),
    authored: Rate::per_second(100, 200),
    entering: Rate::per_second(200, 400),
    passing: Rate::per_second(500, 1_000),
    offenses: Rate::per_second(1, 64),
    unfinished_bytes: 256 * 1024 * 1024,
    accounts: ACCOUNTS,
};

/// Misbehavior of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub(super) enum Offense {
    /// More streams than allowed.
    #[strum(serialize = "it opens too many streams")]
    Streams,
    /// More gossip than allowed.
    #[strum(serialize = "it publishes too much")]
    Gossip,
    /// A malformed message, or one that exceeds the limit.
    #[strum(serialize = "its message is malformed or too long")]
    Malformed,
    /// The peer stalled in the middle of a message.
    #[strum(serialize = "it stalled in the middle of a message")]
    Stalled,
    /// Unfinished messages that exceed the peer's part of the memory.
    #[strum(serialize = "its unfinished messages need too much memory")]
    Crowding,
}

/// Standing of a peer. It determines the share of this node's slots, turns and memory that the peer can
/// use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The operator named the peer, as a boot node or as an allowed peer.
    Named,
    /// The operator named other peers, but not this peer.
    Stranger,
    /// No peer was named.
    Unknown,
}

impl Standing {
    /// Returns the party for which `peer` with this standing requests a function.
    pub fn requester(self, peer: &model::node::PeerId) -> Requester {
        match self {
            Self::Named => Requester::Named(peer.clone()),
            Self::Stranger | Self::Unknown => Requester::Peer(peer.clone()),
        }
    }
}

/// Decision about a gossip message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GossipVerdict {
    /// The message is read and forwarded.
    Forward,
    /// The message is read, but not forwarded.
    Keep,
    /// The message is dropped.
    Ignore,
}

/// Handle to the guard. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// `None` allows every peer.
    allowed: watch::Sender<Option<HashSet<PeerId>>>,
    boot_nodes: Arc<HashSet<PeerId>>,
    pub(super) allowances: Allowances,
    state: Arc<Mutex<Ledger>>,
    /// Notified when a peer is banned.
    pub(super) bell: Arc<Notify>,
}

#[derive(Debug)]
struct Ledger {
    accounts: LruCache<PeerId, Account>,
    /// Bans with their end, the oldest first.
    banned: LruCache<PeerId, Instant>,
    /// Peers banned since the last call of [`Guard::take_changes`].
    fresh: Vec<PeerId>,
    /// Peers whose ban was lifted early since the last call of [`Guard::take_changes`].
    lifted: Vec<PeerId>,
    /// Connected peers that sent a valid message.
    useful: HashSet<PeerId>,
    /// Limits messages that unnamed authors send directly.
    entering: Bucket,
    /// Limits messages of unnamed authors that are relayed.
    passing: Bucket,
}

#[derive(Debug)]
struct Account {
    streams: Bucket,
    gossip: Bucket,
    authored: Bucket,
    offenses: Bucket,
    log: LogLimit,
}

impl Guard {
    pub(super) fn new(
        allowed: AllowedPeers,
        boot_nodes: impl IntoIterator<Item = PeerId>,
        allowances: Allowances,
    ) -> Self {
        let state = Ledger {
            accounts: LruCache::new(allowances.accounts),
            banned: LruCache::new(BANNED_MAX),
            fresh: Vec::new(),
            lifted: Vec::new(),
            useful: HashSet::new(),
            entering: Bucket::full(allowances.entering),
            passing: Bucket::full(allowances.passing),
        };
        Self {
            allowed: watch::Sender::new(ids(allowed)),
            boot_nodes: Arc::new(boot_nodes.into_iter().collect()),
            allowances,
            state: Arc::new(Mutex::new(state)),
            bell: Arc::default(),
        }
    }

    /// Replaces the set of allowed peers.
    pub(super) fn set_allowed(&self, allowed: AllowedPeers) {
        self.allowed.send_replace(ids(allowed));
    }

    /// Waits until `peer` is not allowed. Cancel-safe.
    pub(super) async fn excluded(&self, peer: PeerId) {
        let is_excluded = |allowed: &Option<HashSet<PeerId>>| {
            allowed.as_ref().is_some_and(|peers| !peers.contains(&peer))
        };
        // Cannot fail, since the sender exists as long as this guard.
        drop(self.allowed.subscribe().wait_for(is_excluded).await);
    }

    /// Returns true if messages of `peer` are accepted.
    pub(super) fn allows(&self, peer: PeerId) -> bool {
        self.allowed.borrow().as_ref().is_none_or(|peers| peers.contains(&peer))
    }

    /// Returns true if `peer` is allowed by name.
    pub(super) fn allows_by_name(&self, peer: PeerId) -> bool {
        self.allowed.borrow().as_ref().is_some_and(|peers| peers.contains(&peer))
    }

    /// Returns true if the operator named `peer`, as a boot node or as an allowed peer.
    pub(super) fn is_named(&self, peer: PeerId) -> bool {
        self.boot_nodes.contains(&peer) || self.allows_by_name(peer)
    }

    /// Returns the standing of `peer`.
    pub(super) fn standing(&self, peer: PeerId) -> Standing {
        if self.is_named(peer) {
            Standing::Named
        } else if self.boot_nodes.is_empty() && self.allows_everyone() {
            Standing::Unknown
        } else {
            Standing::Stranger
        }
    }

    /// Returns true if every peer is allowed.
    pub(super) fn allows_everyone(&self) -> bool {
        self.allowed.borrow().is_none()
    }

    /// Records that connected `peer` sent a valid message.
    pub(super) fn vouch(&self, peer: PeerId) {
        self.state.lock().useful.insert(peer);
    }

    /// Returns true if `peer` has sent a valid message, or was named by the operator.
    pub(super) fn is_useful(&self, peer: PeerId) -> bool {
        self.state.lock().useful.contains(&peer) || self.is_named(peer)
    }

    /// Records that the last connection to `peer` was closed.
    pub(super) fn note_lost(&self, peer: PeerId) {
        self.state.lock().useful.remove(&peer);
    }

    /// Returns true if `peer` may open one more stream. Otherwise records an offense.
    pub(super) fn admits_stream(&self, peer: PeerId) -> bool {
        let is_admitted =
            self.state.lock().account(peer, self.allowances).streams.take(Instant::now());
        if !is_admitted {
            self.offended(peer, Offense::Streams);
        }
        is_admitted
    }

    /// Judges a gossip message of `author` that was received from `relay`. Both are the same peer if
    /// the author sent the message directly.
    pub(super) fn judge_gossip(&self, author: PeerId, relay: PeerId) -> GossipVerdict {
        let now = Instant::now();
        let (is_named, is_direct) = (self.is_named(author), author == relay);
        let mut state = self.state.lock();
        if state.is_banned(author, now) {
            return GossipVerdict::Ignore;
        }
        let account = state.account(author, self.allowances);
        if is_direct && !account.gossip.take(now) {
            drop(state);
            self.offended(author, Offense::Gossip);
            return GossipVerdict::Ignore;
        }
        // Charged to a separate allowance, since replays by other peers would otherwise use up the
        // author's allowance for own gossip.
        let is_within = account.authored.take(now);
        if is_direct {
            let is_passed_on = is_named || is_within && state.entering.take(now);
            return if is_passed_on { GossipVerdict::Forward } else { GossipVerdict::Keep };
        }
        let is_passed_on = is_within && (is_named || state.passing.take(now));
        if is_passed_on { GossipVerdict::Forward } else { GossipVerdict::Ignore }
    }

    /// Logs, at a limited rate, that data of `peer` was dropped for `reason`.
    pub(super) fn log_dropped(&self, peer: PeerId, reason: &'static str) {
        let mut state = self.state.lock();
        let account = state.account(peer, self.allowances);
        let (is_logged, n_before) = account.log.admit(Instant::now(), 1);
        if is_logged {
            warn!(%peer, n_before, "dropped data of a peer: {reason}");
        }
    }

    /// Records an offense of `peer` and bans it if there are too many.
    pub(super) fn offended(&self, peer: PeerId, offense: Offense) {
        let now = Instant::now();
        let is_spared = self.is_named(peer);
        self.log_dropped(peer, offense.into_str());
        let mut state = self.state.lock();
        let is_banned = state.banned.contains(&peer);
        let account = state.account(peer, self.allowances);
        if account.offenses.take(now) || is_banned || is_spared {
            return;
        }
        account.offenses = Bucket::full(self.allowances.offenses);
        if let Some((lifted, _)) = state.banned.push(peer, now + BANNED_FOR) {
            state.lifted.push(lifted);
        }
        // An earlier ban of this peer might have been lifted since the last call of
        // [`Guard::take_changes`]. That earlier change must not be reported, since it would also lift
        // the new ban.
        state.lifted.retain(|lifted| *lifted != peer);
        state.fresh.push(peer);
        self.bell.notify_one();
        warn!(%peer, "banned a peer for {} s: {}", BANNED_FOR.as_secs(), offense.into_str());
    }

    /// Returns true if `peer` is banned.
    pub(super) fn is_banned(&self, peer: PeerId) -> bool {
        self.state.lock().is_banned(peer, Instant::now())
    }

    /// Returns the peers banned and the peers unbanned since the last call.
    pub(super) fn take_changes(&self) -> (Vec<PeerId>, Vec<PeerId>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut lifted = std::mem::take(&mut state.lifted);
        while let Some((peer, _)) = state.banned.peek_lru().filter(|(_, until)| **until <= now) {
            lifted.push(*peer);
            state.banned.pop_lru();
        }
        (std::mem::take(&mut state.fresh), lifted)
    }
}

/// Converts peer ids to libp2p's type.
fn ids(allowed: AllowedPeers) -> Option<HashSet<PeerId>> {
    allowed.map(|peers| peers.iter().filter_map(|peer| peer.as_str().parse().ok()).collect())
}

impl Ledger {
    fn is_banned(&self, peer: PeerId, now: Instant) -> bool {
        self.banned.peek(&peer).is_some_and(|until| *until > now)
    }

    fn account(&mut self, peer: PeerId, allowances: Allowances) -> &mut Account {
        self.accounts.get_or_insert_mut(peer, || Account {
            streams: Bucket::full(allowances.streams),
            gossip: Bucket::full(allowances.gossip),
            authored: Bucket::full(allowances.authored),
            offenses: Bucket::full(allowances.offenses),
            log: LogLimit::default(),
        })
    }
}

/// Returns the part of the budget that is available to unnamed peers: three quarters.
const fn unnamed(bytes_max: usize) -> usize {
    bytes_max / 4 * 3
}

/// Returns a thirty-second of the total, enough for a few messages. If a peer that holds at most this is
/// refused more memory, other peers hold too much, so this is not its offense.
const fn modest(bytes_max: usize) -> usize {
    bytes_max / 32
}

/// No memory is left for unfinished messages, in total or for this peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

/// Memory budget for unfinished messages. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub(super) guard: Arc<Guard>,
    pub(super) bytes: Tally<PeerId>,
}

/// Memory of a message. Released when dropped.
#[derive(Debug)]
pub(super) struct Share {
    guard: Arc<Guard>,
    bytes: Counted<PeerId>,
}

impl Budget {
    pub(super) fn new(guard: &Guard) -> Self {
        Self { guard: Arc::new(guard.clone()), bytes: Tally::default() }
    }

    /// Returns an empty share of `peer`.
    pub(super) fn share(&self, peer: PeerId) -> Share {
        Share { guard: Arc::clone(&self.guard), bytes: self.bytes.zero(peer) }
    }
}

impl Share {
    /// Grows the share to `n_bytes` if it is smaller.
    ///
    /// # Errors
    /// Returns [`Crowded`] if there is no room. This is an offense if the peer itself holds a large part
    /// of the memory.
    pub(super) fn grow_to(&mut self, n_bytes: usize) -> Result<(), Crowded> {
        let Some(more @ 1..) = n_bytes.checked_sub(self.bytes.n()) else { return Ok(()) };
        let peer = *self.bytes.holder();
        let is_named = self.guard.is_named(peer);
        let bytes_max = self.guard.allowances.unfinished_bytes;
        let n_open = if is_named { bytes_max } else { unnamed(bytes_max) };
        let mut n_held = 0;
        let has_room = |n_own: usize, n_others: usize| {
            n_held = n_own;
            let n_left = n_open.saturating_sub(n_own + n_others).saturating_sub(more);
            // An unnamed peer can hold up to a quarter of the amount that is then still free.
            if is_named { n_left > 0 } else { n_own.saturating_add(more) <= n_left / 4 }
        };
        if self.bytes.grow_to(n_bytes, has_room) {
            return Ok(());
        }
        if n_held > modest(bytes_max) {
            self.guard.offended(peer, Offense::Crowding);
        }
        Err(Crowded)
    }

    /// Shrinks the share to `n_bytes`.
    pub(super) fn shrink_to(&mut self, n_bytes: usize) {
        self.bytes.shrink_to(n_bytes);
    }
}

#[cfg(test)]
pub(super) mod tests;

#[cfg(test)]
mod budget_tests {
    use super::super::guard::ALLOWANCES;
    use super::*;

    const STEP: usize = 1024 * 1024;
    const BYTES_MAX: usize = ALLOWANCES.unfinished_bytes;

    /// Returns as many shares of up to 4 MiB as `peer` gets.
    fn greedy(budget: &Budget, peer: PeerId) -> Vec<Share> {
        let mut shares = Vec::new();
        loop {
            let mut share = budget.share(peer);
            let n_grown = (1..=4).take_while(|n| share.grow_to(n * STEP).is_ok()).count();
            shares.push(share);
            if n_grown < 4 {
                return shares;
            }
        }
    }

    #[tokio::test]
    async fn memory_limits_of_greedy_peers_leave_memory_for_other_peers() {
        let friend = PeerId::random();
        let guard = Guard::new(None, [friend], ALLOWANCES);
        let budget = Budget::new(&guard);
        let held: Vec<Vec<Share>> = (0..8).map(|_| greedy(&budget, PeerId::random())).collect();
        assert!(budget.bytes.total() <= unnamed(BYTES_MAX), "{}", budget.bytes.total());
        let mut honest = budget.share(PeerId::random());
        assert_eq!(honest.grow_to(4 * STEP), Ok(()));
        let mut named = budget.share(friend);
        assert_eq!(
            named.grow_to(60 * STEP),
            Ok(()),
            "a part of the memory is reserved for named peers"
        );
        drop((held, honest, named));
        assert_eq!(budget.bytes.total(), 0);
    }

    #[tokio::test]
    async fn peer_that_holds_much_memory_is_banned_when_memory_is_short() {
        let guard = Guard::new(None, [], ALLOWANCES);
        let budget = Budget::new(&guard);
        let (peer, modest) = (PeerId::random(), PeerId::random());
        let _held = greedy(&budget, peer);
        for _ in 0..100 {
            assert_eq!(budget.share(peer).grow_to(4 * STEP), Err(Crowded));
            assert_eq!(budget.share(modest).grow_to(BYTES_MAX), Err(Crowded));
        }
        assert!(guard.is_banned(peer) && !guard.is_banned(modest));
    }
}
