//! Slots, and how many of them one head may hold.
//!
//! A head that was named to the worker, as one to obey or as a boot node, may hold all of them. The
//! others may hold a part, each and together, so that endless runs of theirs leave slots free. Waiting
//! orders have the same parts. Where no head was named, every head may hold all slots but a quarter.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use model::node::PeerId;
use parking_lot::Mutex;
use task::tally::{Counted, Tally};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// How much a head may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// All: it was named to the worker.
    Named,
    /// A part: other heads were named.
    Stranger,
    /// A part: no head was named.
    Unknown,
}

/// Places of one kind, slots or waiting orders, and who holds them.
#[derive(Debug)]
pub(super) struct Shares {
    n_places: usize,
    all: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    /// The part of each head that was not named, as long as it holds any of it or waits.
    heads: Mutex<BTreeMap<PeerId, Weak<Semaphore>>>,
    pub(super) holders: Tally<PeerId>,
    /// Rings when a place is taken, for one caller.
    pub(super) taken: Notify,
}

/// A place that a head holds. Given back when dropped.
#[derive(Debug)]
pub(super) struct HeldPlace {
    _counted: Counted<PeerId>,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Shares {
    pub(super) fn new(n_places: usize) -> Self {
        Self {
            n_places,
            all: Arc::new(Semaphore::new(n_places)),
            strangers: Arc::new(Semaphore::new(part_of(Standing::Stranger, n_places))),
            heads: Mutex::default(),
            holders: Tally::default(),
            taken: Notify::new(),
        }
    }

    /// How many places there are, and how many nobody holds.
    pub(super) fn places(&self) -> (usize, usize) {
        (self.n_places, self.all.available_permits())
    }

    /// How many places a head may hold, and how many of these others do not hold.
    pub(super) fn places_for(&self, head: &PeerId, standing: Standing) -> (usize, usize) {
        let n_others = self.holders.total().saturating_sub(self.holders.count(head));
        let part = part_of(standing, self.n_places);
        (part, part.min(self.n_places.saturating_sub(n_others)))
    }

    /// Whether `head` would be given a place now.
    pub(super) fn has_room(&self, head: &PeerId, standing: Standing) -> bool {
        self.all.available_permits() > 0
            && self.holders.count(head) < part_of(standing, self.n_places)
            && (standing != Standing::Stranger || self.strangers.available_permits() > 0)
    }

    /// Takes a place for `head`, now or never.
    pub(super) fn try_take(&self, head: &PeerId, standing: Standing) -> Option<HeldPlace> {
        let mut permits = Vec::new();
        for semaphore in self.semaphores(head, standing) {
            permits.push(semaphore.try_acquire_owned().ok()?);
        }
        self.hold(head, permits)
    }

    /// Takes a place for `head`, and waits for it `within`. Cancel-safe: who gives up loses its turn.
    pub(super) async fn take(
        &self,
        head: &PeerId,
        standing: Standing,
        within: Duration,
    ) -> Option<HeldPlace> {
        let semaphores = self.semaphores(head, standing);
        let taking = async {
            let mut permits = Vec::new();
            // The smallest part first, so that nobody holds what others may have while it waits.
            for semaphore in semaphores {
                permits.push(semaphore.acquire_owned().await.ok()?);
            }
            Some(permits)
        };
        let permits = timeout(within, taking).await.ok()??;
        self.hold(head, permits)
    }

    /// Waits until nobody holds a place. Cancel-safe.
    pub(super) async fn all_free(&self) {
        let n_places = u32::try_from(self.n_places).unwrap_or(u32::MAX);
        // Closed, there is nothing to wait for.
        drop(self.all.acquire_many(n_places).await);
    }

    /// The semaphores that a place of `head` takes a permit of, each of which keeps its semaphore.
    fn semaphores(&self, head: &PeerId, standing: Standing) -> Vec<Arc<Semaphore>> {
        let all = Arc::clone(&self.all);
        if standing == Standing::Named {
            return vec![all];
        }
        let mut heads = self.heads.lock();
        heads.retain(|_, own| own.strong_count() > 0);
        let own = heads.get(head).and_then(Weak::upgrade).unwrap_or_else(|| {
            let own = Arc::new(Semaphore::new(part_of(standing, self.n_places)));
            heads.insert(head.clone(), Arc::downgrade(&own));
            own
        });
        let strangers = (standing == Standing::Stranger).then(|| Arc::clone(&self.strangers));
        [Some(own), strangers, Some(all)].into_iter().flatten().collect()
    }

    fn hold(&self, head: &PeerId, permits: Vec<OwnedSemaphorePermit>) -> Option<HeldPlace> {
        let counted = self.holders.add(head, |_, _| true)?;
        self.taken.notify_one();
        Some(HeldPlace { _counted: counted, _permits: permits })
    }
}

/// How many of `n_places` such a head may hold: at least one.
pub(super) fn part_of(standing: Standing, n_places: usize) -> usize {
    let part = match standing {
        Standing::Named => n_places,
        Standing::Stranger => n_places / 2,
        Standing::Unknown => n_places - n_places / 4,
    };
    part.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(n: usize) -> PeerId {
        format!("head{}", n + 1).parse().unwrap()
    }

    fn take_all(shares: &Shares, head: &PeerId, standing: Standing) -> Vec<HeldPlace> {
        std::iter::from_fn(|| shares.try_take(head, standing)).collect()
    }

    #[test]
    fn strangers_together_hold_half_and_a_named_head_the_rest() {
        let shares = Shares::new(10);
        let held = [1, 2, 3].map(|n| take_all(&shares, &head(n), Standing::Stranger));
        assert_eq!(held.each_ref().map(Vec::len), [5, 0, 0]);
        assert_eq!(shares.places_for(&head(1), Standing::Stranger), (5, 5));
        assert_eq!(shares.places_for(&head(0), Standing::Named), (10, 5));
        assert!(!shares.has_room(&head(2), Standing::Stranger));
        let named = take_all(&shares, &head(0), Standing::Named);
        assert_eq!((named.len(), shares.places(), shares.holders.total()), (5, (10, 0), 10));
        drop((held, named));
        assert_eq!((shares.places(), shares.holders.total()), ((10, 10), 0));
    }

    #[test]
    fn a_head_leaves_a_quarter_where_none_was_named_and_one_slot_is_for_everybody() {
        let shares = Shares::new(10);
        let held = take_all(&shares, &head(1), Standing::Unknown);
        assert_eq!(held.len(), 8);
        assert_eq!(take_all(&shares, &head(2), Standing::Unknown).len(), 2);
        for standing in [Standing::Stranger, Standing::Unknown, Standing::Named] {
            assert_eq!(part_of(standing, 1), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_past_its_part_waits_for_its_own_places_alone() {
        let shares = Shares::new(4);
        let mut held = take_all(&shares, &head(1), Standing::Stranger);
        let within = Duration::from_secs(5);
        assert!(shares.take(&head(1), Standing::Stranger, within).await.is_none());
        assert!(shares.take(&head(0), Standing::Named, within).await.is_some());
        held.pop();
        assert!(shares.take(&head(1), Standing::Stranger, within).await.is_some());
    }
}
