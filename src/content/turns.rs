//! Limits the number of concurrent fetches and decides their order.
//!
//! If permits were granted first come, first served, a peer with a server that sends single bytes could
//! hold many permits for a long time. Therefore each unnamed peer has few turns at a time, and all
//! unnamed peers together leave some turns to named peers. Installs leave some turns to roll calls and
//! work orders, which are served first.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::kept::Requester;

/// Minimum average rate of a transfer: half a megabit per second. Without this minimum, a peer or server
/// that sends single bytes could hold its turn, or delay other peers, for the time of the longest
/// transfer.
const BYTES_PER_SECOND_MIN: u64 = 64 * 1024;

/// Returns the time that `n_bytes` take at the minimum rate.
pub fn duration_at_min_rate(n_bytes: usize) -> Duration {
    let n_bytes = u64::try_from(n_bytes).unwrap_or(u64::MAX);
    Duration::from_millis(n_bytes.saturating_mul(1000) / BYTES_PER_SECOND_MIN)
}

/// Maximum numbers of concurrent turns.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnLimits {
    /// Maximum for all requesters together.
    pub(super) total: usize,
    /// Maximum for all unnamed peers together.
    pub(super) unnamed: usize,
    /// Maximum for one unnamed peer.
    pub(super) per_peer: usize,
    /// Maximum for installs that unnamed peers request. Installs for named peers can also use the
    /// remaining turns.
    pub(super) installs: usize,
}

/// Purpose of a fetch, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Purpose {
    /// A roll call or a work order, for which someone is waiting.
    Run,
    /// An installation before the first call.
    Install,
}

/// Request for a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) requester: Requester,
    pub(super) purpose: Purpose,
}

/// Turns of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Inner>);

/// A turn. The turn becomes free when this value is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Turns,
    claim: Claim,
}

#[derive(Debug)]
struct Inner {
    limits: TurnLimits,
    state: Mutex<TurnTable>,
}

#[derive(Debug, Default)]
struct TurnTable {
    taken: Vec<Claim>,
    /// Waiting claims in order of arrival. Their number is bounded by the roll calls, work orders,
    /// installs and requests for functions that a node handles at the same time.
    waiting: Vec<(Claim, oneshot::Sender<Turn>)>,
}

impl Turns {
    pub(super) fn new(limits: TurnLimits) -> Self {
        Self(Arc::new(Inner { limits, state: Mutex::default() }))
    }

    /// Waits for a turn. Cancel-safe.
    pub(super) async fn take(&self, claim: Claim) -> Option<Turn> {
        let (granted, turn) = oneshot::channel();
        self.0.state.lock().waiting.push((claim, granted));
        self.grant();
        // Always `Some`, since the sender is stored with the claim and dropped only after the turn is
        // granted.
        turn.await.ok()
    }

    /// Grants turns to waiting claims.
    fn grant(&self) {
        loop {
            let next = self.0.state.lock().next(self.0.limits);
            let Some((claim, granted)) = next else { return };
            // If the receiver has stopped waiting, its turn is dropped and becomes free again.
            drop(granted.send(Turn { turns: self.clone(), claim }));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.turns.0.state.lock();
        if let Some(idx) = state.taken.iter().position(|taken| *taken == self.claim) {
            state.taken.swap_remove(idx);
        }
        drop(state);
        self.turns.grant();
    }
}

impl TurnTable {
    /// Removes and returns the next claim that can be granted a turn. Runs precede installs. Among
    /// claims of one purpose, named peers precede unnamed peers, and a peer with fewer current turns
    /// precedes a peer with more.
    fn next(&mut self, limits: TurnLimits) -> Option<(Claim, oneshot::Sender<Turn>)> {
        self.waiting.retain(|(_, granted)| !granted.is_closed());
        let allowed =
            self.waiting.iter().enumerate().filter(|(_, (claim, _))| self.allows(claim, limits));
        let (idx, _) = allowed.min_by_key(|(_, (claim, _))| {
            (claim.purpose, claim.requester.is_unnamed(), self.n_own(claim))
        })?;
        let (claim, granted) = self.waiting.remove(idx);
        self.taken.push(claim.clone());
        Some((claim, granted))
    }

    fn allows(&self, claim: &Claim, limits: TurnLimits) -> bool {
        let count = |is_counted: fn(&Claim) -> bool| {
            self.taken.iter().filter(|taken| is_counted(taken)).count()
        };
        let is_install = |taken: &Claim| taken.purpose == Purpose::Install;
        let is_unnamed = |taken: &Claim| taken.requester.is_unnamed();
        let left_to_named = if is_unnamed(claim) { 0 } else { limits.total - limits.unnamed };
        self.taken.len() < limits.total
            && (!is_install(claim) || count(is_install) < limits.installs + left_to_named)
            && (!is_unnamed(claim)
                || count(is_unnamed) < limits.unnamed && self.n_own(claim) < limits.per_peer)
    }

    fn n_own(&self, claim: &Claim) -> usize {
        self.taken.iter().filter(|taken| taken.requester == claim.requester).count()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const LIMITS: TurnLimits = TurnLimits { total: 4, unnamed: 3, per_peer: 1, installs: 2 };

    fn claim(peer: &str, purpose: Purpose) -> Claim {
        Claim { requester: Requester::Peer(peer.parse().unwrap()), purpose }
    }

    fn stranger(n: usize) -> Claim {
        claim(&format!("12D3KooWstranger{}", n + 1), Purpose::Run)
    }

    fn named() -> Claim {
        Claim {
            requester: Requester::Named("12D3KooWnamed".parse().unwrap()),
            purpose: Purpose::Run,
        }
    }

    fn taken_now(turns: &Turns, claim: Claim) -> Option<Turn> {
        turns.take(claim).now_or_never().flatten()
    }

    #[test]
    fn each_peer_has_at_most_one_turn_and_strangers_leave_a_turn_for_named_peers() {
        let turns = Turns::new(LIMITS);
        let mut held: Vec<Turn> = (0..3).map(|n| taken_now(&turns, stranger(n)).unwrap()).collect();
        assert!(taken_now(&turns, stranger(0)).is_none());
        assert!(taken_now(&turns, stranger(3)).is_none());
        held.push(taken_now(&turns, named()).unwrap());
        assert!(taken_now(&turns, named()).is_none(), "all are taken");
        drop(held.remove(0));
        assert!(taken_now(&turns, stranger(1)).is_none(), "it has one");
        assert!(taken_now(&turns, stranger(3)).is_some());
    }

    #[test]
    fn installs_leave_turns_for_runs() {
        let turns = Turns::new(LIMITS);
        let install = |n: usize| claim(&format!("12D3KooWstranger{}", n + 1), Purpose::Install);
        let held: Vec<Turn> = (0..2).map(|n| taken_now(&turns, install(n)).unwrap()).collect();
        assert!(taken_now(&turns, install(2)).is_none());
        assert!(taken_now(&turns, stranger(2)).is_some());
        drop(held);
        assert!(taken_now(&turns, install(2)).is_some());
    }

    #[test]
    fn installs_of_strangers_leave_a_turn_for_named_peers() {
        let turns = Turns::new(LIMITS);
        let install = |n: usize| claim(&format!("12D3KooWstranger{}", n + 1), Purpose::Install);
        let _held: Vec<Turn> = (0..2).map(|n| taken_now(&turns, install(n)).unwrap()).collect();
        let own = || Claim { purpose: Purpose::Install, ..named() };
        let turn = taken_now(&turns, own());
        assert!(turn.is_some() && taken_now(&turns, own()).is_none());
        assert!(taken_now(&turns, stranger(2)).is_some(), "and one to a run");
    }

    #[tokio::test]
    async fn next_turn_goes_to_the_most_urgent_and_then_least_served_peer() {
        let turns = Turns::new(TurnLimits { total: 2, unnamed: 2, per_peer: 2, installs: 2 });
        let (first, second) =
            (turns.take(stranger(0)).await.unwrap(), turns.take(stranger(0)).await.unwrap());
        let mut install = Box::pin(turns.take(claim("12D3KooWa", Purpose::Install)));
        let mut again = Box::pin(turns.take(stranger(0)));
        let mut other = Box::pin(turns.take(stranger(1)));
        assert!((&mut install).now_or_never().is_none());
        assert!((&mut again).now_or_never().is_none() && (&mut other).now_or_never().is_none());
        drop(first);
        let other = other.now_or_never().flatten().expect("it has none yet");
        drop(second);
        let again = again.now_or_never().flatten().expect("runs go before installs");
        assert!((&mut install).now_or_never().is_none());
        drop((other, again));
        assert!(install.now_or_never().flatten().is_some());
    }

    #[test]
    fn abandoned_requests_for_a_turn_do_not_take_the_turn() {
        let turns = Turns::new(LIMITS);
        let held = taken_now(&turns, stranger(0));
        for _ in 0..10 {
            assert!(taken_now(&turns, stranger(0)).is_none());
        }
        drop(held);
        assert_eq!(turns.0.state.lock().waiting.len(), 0);
        assert!(taken_now(&turns, stranger(0)).is_some());
    }
}
