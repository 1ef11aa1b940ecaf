//! The guard: who is heard, how much one peer may send, and what becomes of one that sends nonsense.
//!
//! Each peer has three allowances that refill with time: streams, gossip, and offenses (a stream or
//! gossip past its allowance, a malformed or endless message, a stall). Whoever has used up the last
//! is cut off for a while. What is dropped is logged, at most one line per peer in ten seconds.
//! Absent on purpose: work that is refused because all hands are full; that is no offense.

use std::{collections::HashMap, sync::Arc, time::Duration};

use libp2p::PeerId;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::Heeded;
use crate::identity::named;

/// What one peer may send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowances {
    pub(super) streams: Rate,
    pub(super) gossip: Rate,
    pub(super) offenses: Rate,
}

/// So many at once, and so many more each second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) burst: u32,
    pub(super) per_second: u32,
}

/// The allowances of a peer: several times what the busiest head sends to one worker, and a small
/// part of what would keep a node from its work. A peer that offends once in a second, as a broken
/// but honest one may, is borne.
pub(super) const ALLOWANCES: Allowances = Allowances {
    streams: Rate { burst: 20_000, per_second: 10_000 },
    gossip: Rate { burst: 4_000, per_second: 2_000 },
    offenses: Rate { burst: 64, per_second: 1 },
};

/// How long a peer stays cut off.
pub(super) const CUT_OFF_FOR: Duration = Duration::from_mins(1);

/// How often what one peer does is logged.
const LOGGED_EVERY: Duration = Duration::from_secs(10);

/// Peers that are kept account of. Past it, the one that sent something longest ago is forgotten.
const PEERS_MAX: usize = 4096;

/// Peers that are cut off at one time. Past it, the first is let in again: an identity costs nothing,
/// so the bound is for our memory, not against their number.
const CUT_OFF_MAX: usize = 1024;

/// What a peer sent that it should not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offense {
    /// More streams than allowed.
    Streams,
    /// More gossip than allowed.
    Gossip,
    /// A message that is none.
    Malformed,
    /// A message longer than any.
    TooLong,
    /// A stream that it opened and then left unfinished.
    Stalled,
}

impl Offense {
    const fn text(self) -> &'static str {
        match self {
            Self::Streams => "it opens too many streams",
            Self::Gossip => "it publishes too much",
            Self::Malformed => "its message is malformed",
            Self::TooLong => "its message is too long",
            Self::Stalled => "it stalled in the middle of a message",
        }
    }
}

/// Handle to the guard. Cheap to clone; all clones share one account.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    heeded: Arc<Heeded>,
    allowances: Allowances,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    accounts: HashMap<PeerId, Account>,
    cut_off: HashMap<PeerId, Instant>,
    /// Cut off since the last call of [`Guard::take_cut_off`].
    fresh: Vec<PeerId>,
}

#[derive(Debug)]
struct Account {
    streams: Bucket,
    gossip: Bucket,
    offenses: Bucket,
    used: Instant,
    logged: Option<Instant>,
    n_unlogged: u32,
}

/// An allowance and how much of it is left.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, left: f64::from(rate.burst), at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let refilled = now.saturating_duration_since(self.at).as_secs_f64();
        let refilled = refilled.mul_add(f64::from(self.rate.per_second), self.left);
        self.left = refilled.min(f64::from(self.rate.burst));
        self.at = now;
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}

impl Guard {
    pub(super) fn new(heeded: Heeded, allowances: Allowances) -> Self {
        Self { heeded: Arc::new(heeded), allowances, state: Arc::default() }
    }

    /// Whether a message of `peer` is heard at all.
    pub(super) fn hears(&self, peer: PeerId) -> bool {
        match &*self.heeded {
            Heeded::Everyone => true,
            heeded @ Heeded::Only(_) => heeded.includes(&named(peer)),
        }
    }

    /// Whether `peer` is heard because its name was given.
    pub(super) fn trusts(&self, peer: PeerId) -> bool {
        matches!(&*self.heeded, Heeded::Only(_)) && self.hears(peer)
    }

    /// Whether `peer` may open one more stream now. If not, that is its offense.
    pub(super) fn admits_stream(&self, peer: PeerId) -> bool {
        self.admits(peer, Offense::Streams, |account| &mut account.streams)
    }

    /// Whether `peer` may pass on one more gossip message now. If not, that is its offense.
    pub(super) fn admits_gossip(&self, peer: PeerId) -> bool {
        self.admits(peer, Offense::Gossip, |account| &mut account.gossip)
    }

    /// Takes note that `peer` sent something it should not have.
    pub(super) fn offended(&self, peer: PeerId, offense: Offense) {
        let now = Instant::now();
        self.state.lock().offended(peer, offense, self.allowances, now);
    }

    /// Whether `peer` is cut off now.
    pub(super) fn is_cut_off(&self, peer: PeerId) -> bool {
        let state = self.state.lock();
        state.cut_off.get(&peer).is_some_and(|until| *until > Instant::now())
    }

    /// Returns those who were cut off since the last call, and those whose time is over.
    pub(super) fn take_changes(&self) -> (Vec<PeerId>, Vec<PeerId>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut over = Vec::new();
        state.cut_off.retain(|peer, until| {
            let stays = *until > now;
            if !stays {
                over.push(*peer);
            }
            stays
        });
        while state.cut_off.len() > CUT_OFF_MAX {
            let first =
                state.cut_off.iter().min_by_key(|(_, until)| **until).map(|(peer, _)| *peer);
            let Some(first) = first else { break };
            state.cut_off.remove(&first);
            over.push(first);
        }
        (std::mem::take(&mut state.fresh), over)
    }

    fn admits(
        &self,
        peer: PeerId,
        offense: Offense,
        bucket: impl Fn(&mut Account) -> &mut Bucket,
    ) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let is_admitted = bucket(state.account(peer, self.allowances, now)).take(now);
        if !is_admitted {
            state.offended(peer, offense, self.allowances, now);
        }
        is_admitted
    }
}

impl State {
    fn account(&mut self, peer: PeerId, allowances: Allowances, now: Instant) -> &mut Account {
        if !self.accounts.contains_key(&peer) && self.accounts.len() >= PEERS_MAX {
            let oldest = self.accounts.iter().min_by_key(|(_, account)| account.used);
            if let Some(oldest) = oldest.map(|(peer, _)| *peer) {
                self.accounts.remove(&oldest);
            }
        }
        let account = self.accounts.entry(peer).or_insert_with(|| Account {
            streams: Bucket::full(allowances.streams, now),
            gossip: Bucket::full(allowances.gossip, now),
            offenses: Bucket::full(allowances.offenses, now),
            used: now,
            logged: None,
            n_unlogged: 0,
        });
        account.used = now;
        account
    }

    fn offended(&mut self, peer: PeerId, offense: Offense, allowances: Allowances, now: Instant) {
        let is_cut_off = self.cut_off.contains_key(&peer);
        let account = self.account(peer, allowances, now);
        if account.logged.is_none_or(|at| now - at >= LOGGED_EVERY) {
            let n_before = std::mem::take(&mut account.n_unlogged);
            account.logged = Some(now);
            warn!(%peer, n_before, "dropped what a peer sent: {}", offense.text());
        } else {
            account.n_unlogged = account.n_unlogged.saturating_add(1);
        }
        if !account.offenses.take(now) && !is_cut_off {
            account.offenses = Bucket::full(allowances.offenses, now);
            self.cut_off.insert(peer, now + CUT_OFF_FOR);
            self.fresh.push(peer);
            warn!(%peer, "cut a peer off for {} s: {}", CUT_OFF_FOR.as_secs(), offense.text());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Allowances = Allowances {
        streams: Rate { burst: 3, per_second: 1 },
        gossip: Rate { burst: 2, per_second: 10 },
        offenses: Rate { burst: 4, per_second: 1 },
    };

    #[tokio::test(start_paused = true)]
    async fn an_allowance_is_used_up_and_refills_for_each_peer_alone() {
        let (guard, peer) = (Guard::new(Heeded::Everyone, FEW), PeerId::random());
        let admitted = |n: usize| (0..n).filter(|_| guard.admits_stream(peer)).count();
        assert_eq!(admitted(5), 3);
        assert!(guard.admits_stream(PeerId::random()), "it has its own");
        assert!(guard.admits_gossip(peer), "that is another allowance");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(admitted(3), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn who_offends_again_and_again_is_cut_off_once_and_for_a_while() {
        let (guard, peer) = (Guard::new(Heeded::Everyone, FEW), PeerId::random());
        for _ in 0..4 {
            guard.offended(peer, Offense::Malformed);
        }
        assert_eq!((guard.is_cut_off(peer), guard.take_changes()), (false, (vec![], vec![])));
        for _ in 0..3 {
            guard.offended(peer, Offense::Stalled);
        }
        assert_eq!((guard.is_cut_off(peer), guard.take_changes()), (true, (vec![peer], vec![])));
        assert!(!guard.is_cut_off(PeerId::random()));
        tokio::time::advance(CUT_OFF_FOR).await;
        assert_eq!((guard.is_cut_off(peer), guard.take_changes()), (false, (vec![], vec![peer])));
    }

    #[tokio::test(start_paused = true)]
    async fn one_offense_in_a_second_is_borne() {
        let (guard, peer) = (Guard::new(Heeded::Everyone, FEW), PeerId::random());
        for _ in 0..1000 {
            guard.offended(peer, Offense::TooLong);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(!guard.is_cut_off(peer));
    }

    #[test]
    fn only_those_who_were_named_are_heard() {
        let (friend, other) = (PeerId::random(), PeerId::random());
        let guard = Guard::new([named(friend)].into_iter().collect(), FEW);
        assert_eq!((guard.hears(friend), guard.hears(other)), (true, false));
        assert!(guard.trusts(friend));
        let guard = Guard::new(std::iter::empty().collect(), FEW);
        assert_eq!((guard.hears(other), guard.trusts(other)), (true, false));
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_are_bounded() {
        let guard = Guard::new(Heeded::Everyone, FEW);
        for _ in 0..PEERS_MAX + 10 {
            guard.admits_stream(PeerId::random());
        }
        assert_eq!(guard.state.lock().accounts.len(), PEERS_MAX);
        for _ in 0..CUT_OFF_MAX + 10 {
            let peer = PeerId::random();
            (0..6).for_each(|_| guard.offended(peer, Offense::Malformed));
        }
        let (fresh, over) = guard.take_changes();
        assert_eq!((fresh.len(), over.len()), (CUT_OFF_MAX + 10, 10));
        assert_eq!(guard.state.lock().cut_off.len(), CUT_OFF_MAX);
    }
}
