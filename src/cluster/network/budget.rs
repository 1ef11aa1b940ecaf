//! The memory that unfinished messages of peers may take.
//!
//! Counted is what is allocated, not what was sent: the capacity of each buffer, and what the
//! multiplexer holds of streams that are not read. A peer may hold a quarter of what is left for
//! others: room for the answer of a b7s worker at the default limit of output, and while several
//! peers drip messages, one that sends its own whole finds room. A quarter is for peers named to
//! this node alone.

use std::sync::Arc;

use libp2p::PeerId;
use task::tally::{Counted, Tally};

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
        Share { guard: Arc::clone(&self.guard), bytes: self.bytes.none(peer) }
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
            if is_named { n_left > 0 } else { n_own.saturating_add(more) <= n_left / PART }
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
