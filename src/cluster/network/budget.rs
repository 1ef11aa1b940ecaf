//! The memory that unfinished messages of peers may take.
//!
//! Counted is what is allocated, not what was sent: the capacity of each buffer, and what the
//! multiplexer holds of streams that are not read. A peer may hold a quarter of what is left for others: room for the answer of a
//! b7s worker at the default limit of output, and while several peers drip messages, one that sends its
//! own whole finds room. A quarter is for peers named to this node alone.

use std::{collections::HashMap, sync::Arc};

use libp2p::PeerId;
use parking_lot::Mutex;

use super::guard::{Guard, Offense};

/// The part of what is left that one unnamed peer may hold, as its divisor.
const PART: usize = 4;

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
pub(super) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    guard: Guard,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    n_bytes: usize,
    by_peer: HashMap<PeerId, usize>,
}

/// What one message holds of the budget. Gives it back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Budget,
    peer: PeerId,
    n_bytes: usize,
}

impl Budget {
    pub(super) fn new(guard: &Guard) -> Self {
        Self(Arc::new(Inner { guard: guard.clone(), ledger: Mutex::default() }))
    }

    /// A share of `peer`, empty so far.
    pub(super) fn share(&self, peer: PeerId) -> Share {
        Share { budget: self.clone(), peer, n_bytes: 0 }
    }

    /// The guard that counts offenses.
    pub(super) fn guard(&self) -> &Guard {
        &self.0.guard
    }

    #[cfg(test)]
    pub(super) fn n_bytes(&self) -> usize {
        self.0.ledger.lock().n_bytes
    }
}

impl Share {
    /// Makes the share as large as `n_bytes`, if it is smaller.
    ///
    /// # Errors
    /// [`Crowded`] if there is no room; an offense of the peer if it holds much itself.
    pub(super) fn grow_to(&mut self, n_bytes: usize) -> Result<(), Crowded> {
        let Some(more @ 1..) = n_bytes.checked_sub(self.n_bytes) else { return Ok(()) };
        let guard = &self.budget.0.guard;
        let is_named = guard.knows_by_name(self.peer);
        let bytes_max = guard.allowances.unfinished_bytes;
        let n_held = {
            let mut ledger = self.budget.0.ledger.lock();
            let n_held = ledger.by_peer.get(&self.peer).copied().unwrap_or_default();
            let n_open = if is_named { bytes_max } else { unnamed(bytes_max) };
            let n_left = n_open.saturating_sub(ledger.n_bytes).saturating_sub(more);
            let n_wanted = n_held.saturating_add(more);
            let has_room = if is_named { n_left > 0 } else { n_wanted <= n_left / PART };
            if has_room {
                ledger.n_bytes += more;
                ledger.by_peer.insert(self.peer, n_wanted);
                self.n_bytes = n_bytes;
                return Ok(());
            }
            n_held
        };
        if n_held > modest(bytes_max) {
            guard.offended(self.peer, Offense::Crowding);
        }
        Err(Crowded)
    }

    /// Gives back what is past `n_bytes`.
    pub(super) fn shrink_to(&mut self, n_bytes: usize) {
        let Some(less @ 1..) = self.n_bytes.checked_sub(n_bytes) else { return };
        let mut ledger = self.budget.0.ledger.lock();
        ledger.n_bytes = ledger.n_bytes.saturating_sub(less);
        if let Some(held) = ledger.by_peer.get_mut(&self.peer) {
            *held = held.saturating_sub(less);
            if *held == 0 {
                ledger.by_peer.remove(&self.peer);
            }
        }
        self.n_bytes = n_bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
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
        assert!(budget.n_bytes() <= unnamed(BYTES_MAX), "{}", budget.n_bytes());
        let mut honest = budget.share(PeerId::random());
        assert_eq!(honest.grow_to(4 * STEP), Ok(()));
        let mut named = budget.share(friend);
        assert_eq!(named.grow_to(60 * STEP), Ok(()), "a part is kept for it");
        drop((held, honest, named));
        assert_eq!(budget.n_bytes(), 0);
        assert!(budget.0.ledger.lock().by_peer.is_empty());
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
