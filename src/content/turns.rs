//! Limits the number of concurrent fetches and decides their order.
//!
//! If permits were granted first come, first served, a peer with a server that sends single bytes could
//! hold many permits for a long time. Therefore each unnamed peer has few turns at a time, and all
//! unnamed peers together leave some turns to named peers. Installs leave some turns to roll calls and
//! work orders.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use task::fair_queue::{FairQueue, Verdict};

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

/// Purpose of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
///
/// A quarter is reserved for named peers. One unnamed peer can have an eighth, and installs half of the
/// turns that are not reserved. Installs for named peers can also use the reserved turns.
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
    n_max: usize,
    state: Mutex<TurnTable>,
}

#[derive(Debug, Default)]
struct TurnTable {
    taken: Vec<Claim>,
    /// Waiting claims. Their number is bounded by the roll calls, work orders, installs and requests for
    /// functions that a node handles at the same time.
    waiting: FairQueue<Requester, Claim, Turn>,
}

impl Turns {
    pub(super) fn new(n_max: usize) -> Self {
        Self(Arc::new(Inner { n_max, state: Mutex::default() }))
    }

    /// Waits for a turn. Cancel-safe.
    pub(super) async fn take(&self, claim: Claim) -> Option<Turn> {
        let turn = self.0.state.lock().waiting.push(claim.requester.clone(), claim);
        self.grant();
        // Always `Some`, since a waiting claim is only removed when it is granted a turn.
        turn.await.ok()
    }

    /// Grants turns to waiting claims. Requesters take turns.
    fn grant(&self) {
        let mut state = self.0.state.lock();
        let TurnTable { taken, waiting } = &mut *state;
        let grants = waiting.serve(|_, claim| {
            if !is_allowed(claim, taken, self.0.n_max) {
                return Verdict::Waits;
            }
            taken.push(claim.clone());
            Verdict::Served(Turn { turns: self.clone(), claim: claim.clone() })
        });
        // A turn whose receiver was dropped locks the state again.
        drop(state);
        grants.send();
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

/// Returns true if `claim` can be granted a turn of `n_max` in addition to the `taken` turns.
fn is_allowed(claim: &Claim, taken: &[Claim], n_max: usize) -> bool {
    let count =
        |is_counted: &dyn Fn(&Claim) -> bool| taken.iter().filter(|it| is_counted(it)).count();
    let is_install = |claim: &Claim| claim.purpose == Purpose::Install;
    let is_unnamed = |claim: &Claim| claim.requester.is_unnamed();
    let n_own = count(&|it| it.requester == claim.requester);
    let n_unnamed = n_max - n_max / 4;
    let left_to_named = if is_unnamed(claim) { 0 } else { n_max / 4 };
    taken.len() < n_max
        && (!is_install(claim) || count(&is_install) < n_unnamed.div_ceil(2) + left_to_named)
        && (!is_unnamed(claim) || count(&is_unnamed) < n_unnamed && n_own < n_max.div_ceil(8))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

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
        let turns = Turns::new(4);
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
        let turns = Turns::new(4);
        let install = |n: usize| claim(&format!("12D3KooWstranger{}", n + 1), Purpose::Install);
        let held: Vec<Turn> = (0..2).map(|n| taken_now(&turns, install(n)).unwrap()).collect();
        assert!(taken_now(&turns, install(2)).is_none());
        assert!(taken_now(&turns, stranger(2)).is_some());
        drop(held);
        assert!(taken_now(&turns, install(2)).is_some());
    }

    #[test]
    fn installs_of_strangers_leave_a_turn_for_named_peers() {
        let turns = Turns::new(4);
        let install = |n: usize| claim(&format!("12D3KooWstranger{}", n + 1), Purpose::Install);
        let _held: Vec<Turn> = (0..2).map(|n| taken_now(&turns, install(n)).unwrap()).collect();
        let own = || Claim { purpose: Purpose::Install, ..named() };
        let turn = taken_now(&turns, own());
        assert!(turn.is_some() && taken_now(&turns, own()).is_none());
        assert!(taken_now(&turns, stranger(2)).is_some(), "and one to a run");
    }

    #[tokio::test]
    async fn waiting_peers_take_turns() {
        let turns = Turns::new(16);
        let mut held: Vec<_> = (0..13).map(|_| taken_now(&turns, named()).unwrap()).collect();
        held.extend((0..3).map(|n| taken_now(&turns, stranger(n)).unwrap()));
        let mut first = Box::pin(turns.take(stranger(3)));
        let mut again = Box::pin(turns.take(stranger(3)));
        let mut other = Box::pin(turns.take(stranger(4)));
        assert!((&mut first).now_or_never().is_none() && (&mut again).now_or_never().is_none());
        assert!((&mut other).now_or_never().is_none());
        held.pop();
        let _first = first.now_or_never().flatten().expect("it waited longest");
        held.pop();
        let _other = other.now_or_never().flatten().expect("the first peer had its turn");
        held.pop();
        assert!(again.now_or_never().flatten().is_some());
    }

    #[test]
    fn abandoned_requests_for_a_turn_do_not_take_the_turn() {
        let turns = Turns::new(4);
        let held = taken_now(&turns, stranger(0));
        for _ in 0..10 {
            assert!(taken_now(&turns, stranger(0)).is_none());
        }
        drop(held);
        assert_eq!(turns.0.state.lock().taken.len(), 0);
        assert!(taken_now(&turns, stranger(0)).is_some());
    }
}
