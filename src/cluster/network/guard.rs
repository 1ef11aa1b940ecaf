//! The guard: which peers are heard, how much one peer may send, and when a peer is cut off.
//!
//! Each peer has allowances that refill with time. A stream, a message that the peer wrote itself, or
//! anything malformed past its allowance is an offense, and a peer that uses up its allowance of
//! offenses is cut off for a while. A message that a peer relays is charged to its author: a relay
//! cannot know what its receivers allow, so its excess is ignored and never an offense. What enters
//! the mesh here, and what passes on through here, is bounded well below what receivers allow. Boot
//! nodes and peers that are heeded by name are never cut off. Absent on purpose: work refused for lack
//! of slots, which is no offense.
//!
//! The guard also limits the memory of unfinished messages ([`Budget`]): what is allocated, including what
//! the multiplexer buffers of streams that are not read. A peer may hold a quarter of what is left for
//! others, so that one that sends its own message at once finds room while several peers drip theirs. A
//! quarter of all is for named peers only.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
    time::Duration,
};

use libp2p::PeerId;
use lru::LruCache;
use parking_lot::{Mutex, RwLock};
use task::tally::{Counted, Tally};
use tokio::{sync::Notify, time::Instant};
use tracing::warn;
use web::rate_limit::{Bucket, LogLimit, Rate};

use super::AllowedPeers;

/// How long a peer stays cut off.
pub(super) const CUT_OFF_FOR: Duration = Duration::from_mins(1);

/// Peers with an account where nothing else is said.
const ACCOUNTS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Peers that are cut off at one time. Past it, the first is let in again: an identity costs nothing,
/// so the bound is for our memory, not against their number.
const CUT_OFF_MAX: usize = 1024;

/// How much peers may send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowances {
    /// Streams of one peer.
    pub(super) streams: Rate,
    /// Gossip messages that one peer wrote and handed over itself.
    pub(super) gossip: Rate,
    /// Gossip messages of one author that are passed on, or that others hand over.
    pub(super) authored: Rate,
    /// Gossip messages of others that one peer hands over.
    pub(super) relayed: Rate,
    /// Gossip messages of all unnamed authors that enter the mesh here.
    pub(super) entering: Rate,
    /// Gossip messages of all unnamed authors that pass through here.
    pub(super) passing: Rate,
    /// Offenses of one peer.
    pub(super) offenses: Rate,
    /// Bytes that unfinished messages of all peers may take.
    pub(super) unfinished_bytes: usize,
    /// Peers with an account. Past it, the account that was used longest ago is dropped: such a peer
    /// starts again with full allowances, which by then would have refilled.
    pub(super) accounts: NonZeroUsize,
}

impl Allowances {
    /// These, with accounts for at least `n` peers.
    pub(super) fn for_peers(self, n: usize) -> Self {
        let accounts = NonZeroUsize::new(n).map_or(self.accounts, |n| n.max(self.accounts));
        Self { accounts, ..self }
    }
}

/// The allowances of a peer: several times what the busiest head sends to one worker, and a small
/// part of what would keep a node from its work. What one node passes on, 700 a second with what
/// enters, stays below the 1 000 that its receivers take from one relay. A peer that offends once in a
/// second, as a broken but honest one may, is borne.
pub(super) const ALLOWANCES: Allowances = Allowances {
    streams: Rate::per_second(10_000, 20_000),
    gossip: Rate::per_second(2_000, 4_000),
    authored: Rate::per_second(100, 200),
    relayed: Rate::per_second(1_000, 2_000),
    entering: Rate::per_second(200, 400),
    passing: Rate::per_second(500, 1_000),
    offenses: Rate::per_second(1, 64),
    unfinished_bytes: 256 * 1024 * 1024,
    accounts: ACCOUNTS,
};

/// What a peer sent that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub(super) enum Offense {
    /// More streams than allowed.
    #[strum(serialize = "it opens too many streams")]
    Streams,
    /// More gossip of its own than allowed.
    #[strum(serialize = "it publishes too much")]
    Gossip,
    /// A message that cannot be read.
    #[strum(serialize = "its message is malformed")]
    Malformed,
    /// A message longer than any.
    #[strum(serialize = "its message is too long")]
    TooLong,
    /// A stream that it opened and then left unfinished.
    #[strum(serialize = "it stalled in the middle of a message")]
    Stalled,
    /// More unfinished messages than its share of the memory for them.
    #[strum(serialize = "its unfinished messages take too much memory")]
    Crowding,
}

/// What to do with a gossip message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GossipVerdict {
    /// Read it, and pass it on.
    Forward,
    /// Read it, and do not pass it on.
    Keep,
    /// Neither read it nor pass it on.
    Ignore,
}

/// Handle to the guard. Cheap to clone; all clones share one account.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// None for every peer.
    heeded: Arc<RwLock<Option<HashSet<PeerId>>>>,
    boot_nodes: Arc<HashSet<PeerId>>,
    pub(super) allowances: Allowances,
    state: Arc<Mutex<State>>,
    /// Rung when a peer is cut off.
    pub(super) bell: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    accounts: LruCache<PeerId, Account>,
    cut_off: HashMap<PeerId, Instant>,
    /// The peers that are cut off, the first at the front: all stay so for the same time.
    cut_off_order: VecDeque<PeerId>,
    /// Cut off since the last call of [`Guard::take_changes`].
    fresh: Vec<PeerId>,
    /// Connected peers that sent a message that could be read.
    useful: HashSet<PeerId>,
    /// Messages of peers without a name here that enter the mesh here.
    entering: Bucket,
    /// Messages of peers without a name here that pass through here.
    passing: Bucket,
}

#[derive(Debug)]
struct Account {
    streams: Bucket,
    gossip: Bucket,
    authored: Bucket,
    relayed: Bucket,
    offenses: Bucket,
    log: LogLimit,
}

impl Guard {
    pub(super) fn new(
        heeded: AllowedPeers,
        boot_nodes: impl IntoIterator<Item = PeerId>,
        allowances: Allowances,
    ) -> Self {
        let state = State {
            accounts: LruCache::new(allowances.accounts),
            cut_off: HashMap::new(),
            cut_off_order: VecDeque::new(),
            fresh: Vec::new(),
            useful: HashSet::new(),
            entering: Bucket::full(allowances.entering),
            passing: Bucket::full(allowances.passing),
        };
        Self {
            heeded: Arc::new(RwLock::new(ids(heeded))),
            boot_nodes: Arc::new(boot_nodes.into_iter().collect()),
            allowances,
            state: Arc::new(Mutex::new(state)),
            bell: Arc::default(),
        }
    }

    /// Replaces the set of peers that are heard.
    pub(super) fn heed(&self, heeded: AllowedPeers) {
        *self.heeded.write() = ids(heeded);
    }

    /// Whether a message of `peer` is heard at all.
    pub(super) fn hears(&self, peer: PeerId) -> bool {
        self.heeded.read().as_ref().is_none_or(|peers| peers.contains(&peer))
    }

    /// Whether `peer` is heard because its name was given.
    pub(super) fn trusts(&self, peer: PeerId) -> bool {
        self.heeded.read().as_ref().is_some_and(|peers| peers.contains(&peer))
    }

    /// Whether `peer` was named to this node: as a boot node, or as a peer to heed.
    pub(super) fn knows_by_name(&self, peer: PeerId) -> bool {
        self.boot_nodes.contains(&peer) || self.trusts(peer)
    }

    /// Whether any peer was named to this node.
    pub(super) fn has_names(&self) -> bool {
        !self.boot_nodes.is_empty() || !self.heeds_everyone()
    }

    /// The peers that were named to this node.
    pub(super) fn names(&self) -> Vec<PeerId> {
        self.boot_nodes.iter().chain(self.heeded.read().iter().flatten()).copied().collect()
    }

    /// Whether every peer is heard.
    pub(super) fn heeds_everyone(&self) -> bool {
        self.heeded.read().is_none()
    }

    /// Notes that connected `peer` sent a message that could be read.
    pub(super) fn vouch(&self, peer: PeerId) {
        self.state.lock().useful.insert(peer);
    }

    /// Whether `peer` has sent a message that could be read, or was named to this node.
    pub(super) fn is_useful(&self, peer: PeerId) -> bool {
        self.state.lock().useful.contains(&peer) || self.knows_by_name(peer)
    }

    /// Notes that no connection to `peer` stands.
    pub(super) fn note_lost(&self, peer: PeerId) {
        self.state.lock().useful.remove(&peer);
    }

    /// Whether `peer` may open one more stream now. If not, that is its offense.
    pub(super) fn admits_stream(&self, peer: PeerId) -> bool {
        let now = Instant::now();
        let is_admitted = {
            let mut state = self.state.lock();
            state.account(peer, self.allowances).streams.take(now)
        };
        if !is_admitted {
            self.offended(peer, Offense::Streams);
        }
        is_admitted
    }

    /// Judges a gossip message of `author` that `relay` handed over, which may be `author` itself.
    pub(super) fn judge_gossip(&self, author: PeerId, relay: PeerId) -> GossipVerdict {
        let now = Instant::now();
        let (is_named, is_direct) = (self.knows_by_name(author), author == relay);
        let mut state = self.state.lock();
        if state.is_cut_off(author, now) {
            return GossipVerdict::Ignore;
        }
        let account = state.account(author, self.allowances);
        if is_direct && !account.gossip.take(now) {
            drop(state);
            self.offended(author, Offense::Gossip);
            return GossipVerdict::Ignore;
        }
        // Apart from what it hands over itself, or a replay of it by others would use that up.
        let is_within = account.authored.take(now);
        if is_direct {
            let is_passed_on = is_named || is_within && state.entering.take(now);
            return if is_passed_on { GossipVerdict::Forward } else { GossipVerdict::Keep };
        }
        let is_passed_on = is_within
            && state.account(relay, self.allowances).relayed.take(now)
            && (is_named || state.passing.take(now));
        if is_passed_on { GossipVerdict::Forward } else { GossipVerdict::Ignore }
    }

    /// Takes note that `peer` sent something it should not have.
    pub(super) fn offended(&self, peer: PeerId, offense: Offense) {
        let now = Instant::now();
        let is_spared = self.knows_by_name(peer);
        let mut state = self.state.lock();
        let is_cut_off = state.cut_off.contains_key(&peer);
        let account = state.account(peer, self.allowances);
        let (is_logged, n_before) = account.log.admit(now, 1);
        if is_logged {
            warn!(%peer, n_before, "dropped what a peer sent: {}", offense.into_str());
        }
        if account.offenses.take(now) || is_cut_off || is_spared {
            return;
        }
        account.offenses = Bucket::full(self.allowances.offenses);
        state.cut_off.insert(peer, now + CUT_OFF_FOR);
        state.cut_off_order.push_back(peer);
        state.fresh.push(peer);
        self.bell.notify_one();
        warn!(%peer, "cut a peer off for {} s: {}", CUT_OFF_FOR.as_secs(), offense.into_str());
    }

    /// Whether `peer` is cut off now.
    pub(super) fn is_cut_off(&self, peer: PeerId) -> bool {
        self.state.lock().is_cut_off(peer, Instant::now())
    }

    /// Returns the peers cut off since the last call, and those whose time is over.
    pub(super) fn take_changes(&self) -> (Vec<PeerId>, Vec<PeerId>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut over = Vec::new();
        while let Some(first) = state.cut_off_order.front().copied() {
            if state.cut_off.len() <= CUT_OFF_MAX && state.is_cut_off(first, now) {
                break;
            }
            state.cut_off_order.pop_front();
            state.cut_off.remove(&first);
            over.push(first);
        }
        (std::mem::take(&mut state.fresh), over)
    }
}

/// The ids that libp2p knows.
fn ids(heeded: AllowedPeers) -> Option<HashSet<PeerId>> {
    heeded.map(|peers| peers.iter().filter_map(|peer| peer.as_str().parse().ok()).collect())
}

impl State {
    fn is_cut_off(&self, peer: PeerId, now: Instant) -> bool {
        self.cut_off.get(&peer).is_some_and(|until| *until > now)
    }

    fn account(&mut self, peer: PeerId, allowances: Allowances) -> &mut Account {
        self.accounts.get_or_insert_mut(peer, || Account {
            streams: Bucket::full(allowances.streams),
            gossip: Bucket::full(allowances.gossip),
            authored: Bucket::full(allowances.authored),
            relayed: Bucket::full(allowances.relayed),
            offenses: Bucket::full(allowances.offenses),
            log: LogLimit::default(),
        })
    }
}

/// The part of the budget that is open to peers that were not named to this node: three quarters.
const fn unnamed(bytes_max: usize) -> usize {
    bytes_max / 4 * 3
}

/// What a peer may always hold without an offense when it finds no room: a thirty-second, a few of its
/// messages. It is then others that take too much.
const fn modest(bytes_max: usize) -> usize {
    bytes_max / 32
}

/// Too much is being read from others, or from this peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

/// Handle to the budget. Cheap to clone; all clones share one.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub(super) guard: Arc<Guard>,
    pub(super) bytes: Tally<PeerId>,
}

/// What one message holds of the budget. Gives it back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    guard: Arc<Guard>,
    bytes: Counted<PeerId>,
}

impl Budget {
    pub(super) fn new(guard: &Guard) -> Self {
        Self { guard: Arc::new(guard.clone()), bytes: Tally::default() }
    }

    /// A share of `peer`, empty so far.
    pub(super) fn share(&self, peer: PeerId) -> Share {
        Share { guard: Arc::clone(&self.guard), bytes: self.bytes.zero(peer) }
    }
}

impl Share {
    /// Makes the share as large as `n_bytes`, if it is smaller.
    ///
    /// # Errors
    /// [`Crowded`] if there is no room; an offense of the peer if it holds much itself.
    pub(super) fn grow_to(&mut self, n_bytes: usize) -> Result<(), Crowded> {
        let Some(more @ 1..) = n_bytes.checked_sub(self.bytes.n()) else { return Ok(()) };
        let peer = *self.bytes.holder();
        let is_named = self.guard.knows_by_name(peer);
        let bytes_max = self.guard.allowances.unfinished_bytes;
        let n_open = if is_named { bytes_max } else { unnamed(bytes_max) };
        let mut n_held = 0;
        let has_room = |n_own: usize, n_others: usize| {
            n_held = n_own;
            let n_left = n_open.saturating_sub(n_own + n_others).saturating_sub(more);
            // An unnamed peer may hold a quarter of what is left.
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

    /// Gives back what is past `n_bytes`.
    pub(super) fn shrink_to(&mut self, n_bytes: usize) {
        self.bytes.shrink_to(n_bytes);
    }
}

#[cfg(test)]
pub(super) mod tests;

#[cfg(test)]
mod budget_tests {
    use super::{super::guard::ALLOWANCES, *};

    const STEP: usize = 1024 * 1024;
    const BYTES_MAX: usize = ALLOWANCES.unfinished_bytes;

    /// Holds as much as `peer` gets, in messages of 4 MiB at most.
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
    async fn peers_that_take_all_they_get_leave_room_for_one_that_does_not() {
        let friend = PeerId::random();
        let guard = Guard::new(None, [friend], ALLOWANCES);
        let budget = Budget::new(&guard);
        let held: Vec<Vec<Share>> = (0..8).map(|_| greedy(&budget, PeerId::random())).collect();
        assert!(budget.bytes.total() <= unnamed(BYTES_MAX), "{}", budget.bytes.total());
        let mut honest = budget.share(PeerId::random());
        assert_eq!(honest.grow_to(4 * STEP), Ok(()));
        let mut named = budget.share(friend);
        assert_eq!(named.grow_to(60 * STEP), Ok(()), "a part is kept for it");
        drop((held, honest, named));
        assert_eq!(budget.bytes.total(), 0);
    }

    #[tokio::test]
    async fn to_crowd_is_an_offense_of_the_peer_that_holds_much() {
        let guard = Guard::new(None, [], ALLOWANCES);
        let budget = Budget::new(&guard);
        let (peer, modest) = (PeerId::random(), PeerId::random());
        let _held = greedy(&budget, peer);
        for _ in 0..100 {
            assert_eq!(budget.share(peer).grow_to(4 * STEP), Err(Crowded));
            assert_eq!(budget.share(modest).grow_to(BYTES_MAX), Err(Crowded));
        }
        assert!(guard.is_cut_off(peer) && !guard.is_cut_off(modest));
    }
}
