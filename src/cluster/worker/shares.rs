//! Distribution of a worker's places among heads. A place is a slot or an admitted order.
//!
//! A head that the worker's operator named, as a head to obey or as a boot node, can hold all places.
//! All other heads together can hold half of the places, so that their endless runs leave places free. If
//! no head was named, each head can hold all but a quarter.
//!
//! [`Shares::share_of`] divides the slots that are offered: if heads need more slots than exist, they get
//! equal shares. A head that held a place recently counts as needing one slot, so that its next order
//! starts immediately. An order for which no place is free waits. Free places go to the waiting heads in
//! turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::node::PeerId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::fair_queue::{FairQueue, Verdict};
use crate::network::Standing;

/// Time for which one place stays reserved for a head after it has released its last place.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Places of one kind (slots or orders) and their holders. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Shares(Arc<SharedPlaces>);

#[derive(Debug)]
struct SharedPlaces {
    n_places: usize,
    table: Mutex<Holders>,
    /// Notifies one caller that a place was occupied.
    taken: Notify,
    /// Notifies that a place was released.
    released: Notify,
}

#[derive(Debug, Default)]
struct Holders {
    heads: BTreeMap<PeerId, Holder>,
    /// Waiting heads with their standing.
    waiting: FairQueue<PeerId, Standing, HeldPlace>,
}

#[derive(Debug)]
struct Holder {
    standing: Standing,
    n_held: usize,
    /// Time of the latest use; `None` once the head is disconnected.
    used_at: Option<Instant>,
}

/// A place that a head holds until dropped.
#[derive(Debug)]
pub(super) struct HeldPlace {
    head: PeerId,
    shares: Shares,
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut table = self.shares.0.table.lock();
        if let Some(holder) = table.heads.get_mut(&self.head) {
            holder.n_held -= 1;
            holder.used_at = holder.used_at.map(|_| Instant::now());
        }
        self.shares.grant(table);
        self.shares.0.released.notify_waiters();
    }
}

impl Shares {
    pub(super) fn new(n_places: usize) -> Self {
        let (table, taken, released) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(SharedPlaces { n_places, table, taken, released }))
    }

    /// Returns the total number of places and the number of free places.
    pub(super) fn places(&self) -> (usize, usize) {
        let n_places = self.0.n_places;
        (n_places, n_places.saturating_sub(self.n_held()))
    }

    /// Returns the number of held places.
    pub(super) fn n_held(&self) -> usize {
        self.0.table.lock().n_held()
    }

    /// Returns true if a head holds places, or held some recently.
    pub(super) fn are_in_use(&self) -> bool {
        let mut table = self.0.table.lock();
        table.forget_idle();
        !table.heads.is_empty()
    }

    /// Waits until a place is occupied. Only one caller can wait at a time. Cancel-safe.
    pub(super) async fn next_taken(&self) {
        self.0.taken.notified().await;
    }

    /// Returns true if a place is free for `head`.
    pub(super) fn has_room(&self, head: &PeerId, standing: Standing) -> bool {
        self.0.table.lock().has_room(head, standing, self.0.n_places)
    }

    /// Returns how many of `n` slots `head` can use: those that other heads do not claim. Each other
    /// head claims the slots that it needs, up to an equal share. Strangers together have a fixed part
    /// of the slots, and the portion that they do not need is left to the other heads. Returns at least
    /// one unless `n` is 0: if there are more heads than slots, their orders take turns in the queue.
    pub(super) fn share_of(&self, head: &PeerId, standing: Standing, n: usize) -> usize {
        let mut table = self.0.table.lock();
        table.forget_idle();
        let others = table.heads.iter().filter(|(other, _)| *other != head);
        let is_stranger = |standing| standing == Standing::Stranger;
        let (rivals, others): (Vec<&Holder>, Vec<&Holder>) = others
            .map(|(_, holder)| holder)
            .partition(|other| is_stranger(other.standing) == is_stranger(standing));
        let part_of_strangers = part_of(Standing::Stranger, n);
        let n_open = if is_stranger(standing) {
            part_of_strangers
        } else {
            let n_of_strangers: usize = others.iter().map(|other| other.n_needed()).sum();
            n.saturating_sub(n_of_strangers.min(part_of_strangers))
        };
        let equal = (n_open / (rivals.len() + 1)).max(1);
        let n_claimed: usize = rivals.iter().map(|rival| rival.n_needed().min(equal)).sum();
        n_open.saturating_sub(n_claimed).clamp(1, part_of(standing, n)).min(n)
    }

    /// Acquires a place for `head` if one is free.
    pub(super) fn try_take(&self, head: &PeerId, standing: Standing) -> Option<HeldPlace> {
        let mut table = self.0.table.lock();
        table
            .has_room(head, standing, self.0.n_places)
            .then(|| self.hold(&mut table, head, standing))
    }

    /// Acquires a place for `head`. Waits up to `within` for its turn. Cancel-safe: a caller that gives
    /// up loses its turn.
    pub(super) async fn take(
        &self,
        head: &PeerId,
        standing: Standing,
        within: Duration,
    ) -> Option<HeldPlace> {
        let place = {
            let mut table = self.0.table.lock();
            let place = table.waiting.push(head.clone(), standing);
            self.grant(table);
            place
        };
        timeout(within, place).await.ok()?.ok()
    }

    /// Forgets the claims of a disconnected head.
    pub(super) fn forget(&self, head: &PeerId) {
        if let Some(holder) = self.0.table.lock().heads.get_mut(head) {
            holder.used_at = None;
        }
    }

    /// Waits until no place is held. Cancel-safe.
    pub(super) async fn all_free(&self) {
        loop {
            let released = self.0.released.notified();
            if self.n_held() == 0 {
                return;
            }
            released.await;
        }
    }

    /// Grants free places to waiting heads. Releases the lock before it sends the places, since the
    /// place of a head that gave up is dropped, which locks the table again.
    fn grant(&self, mut table: MutexGuard<'_, Holders>) {
        let mut waiting = std::mem::take(&mut table.waiting);
        let grants = waiting.serve(|head, standing| {
            if !table.has_room(head, *standing, self.0.n_places) {
                return Verdict::Waits;
            }
            Verdict::Served(self.hold(&mut table, head, *standing))
        });
        table.waiting = waiting;
        drop(table);
        grants.send();
    }

    fn hold(&self, table: &mut Holders, head: &PeerId, standing: Standing) -> HeldPlace {
        table.forget_idle();
        let new = Holder { standing, n_held: 0, used_at: None };
        let holder = table.heads.entry(head.clone()).or_insert(new);
        (holder.standing, holder.used_at) = (standing, Some(Instant::now()));
        holder.n_held += 1;
        self.0.taken.notify_one();
        HeldPlace { head: head.clone(), shares: self.clone() }
    }
}

impl Holders {
    fn n_held(&self) -> usize {
        self.heads.values().map(|holder| holder.n_held).sum()
    }

    fn has_room(&self, head: &PeerId, standing: Standing, n_places: usize) -> bool {
        let n_own = self.heads.get(head).map_or(0, |holder| holder.n_held);
        let strangers = self.heads.values().filter(|holder| holder.standing == Standing::Stranger);
        let n_of_strangers: usize = strangers.map(|holder| holder.n_held).sum();
        let part = part_of(standing, n_places);
        self.n_held() < n_places
            && n_own < part
            && (standing != Standing::Stranger || n_of_strangers < part)
    }

    fn forget_idle(&mut self) {
        self.heads.retain(|_, holder| holder.n_needed() > 0);
    }
}

impl Holder {
    /// Returns how many places the head needs: the number that it holds, but at least one if it held any
    /// recently.
    fn n_needed(&self) -> usize {
        let is_recent = self.used_at.is_some_and(|at| at.elapsed() < KEPT_FOR);
        self.n_held.max(usize::from(is_recent))
    }
}

/// Returns how many of `n_places` a head of this standing can hold: at least one.
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
    use tokio::time::advance;

    use super::*;

    fn head(n: usize) -> PeerId {
        format!("head{}", n + 1).parse().unwrap()
    }

    fn take_all(shares: &Shares, head: &PeerId, standing: Standing) -> Vec<HeldPlace> {
        std::iter::from_fn(|| shares.try_take(head, standing)).collect()
    }

    fn take_n(shares: &Shares, head: &PeerId, n: usize) -> Vec<HeldPlace> {
        (0..n).map(|_| shares.try_take(head, Standing::Named).unwrap()).collect()
    }

    #[tokio::test]
    async fn strangers_together_hold_at_most_half_of_the_slots() {
        let shares = Shares::new(10);
        let held = [1, 2, 3].map(|n| take_all(&shares, &head(n), Standing::Stranger));
        assert_eq!(held.each_ref().map(Vec::len), [5, 0, 0]);
        assert!(!shares.has_room(&head(2), Standing::Stranger));
        let named = take_all(&shares, &head(0), Standing::Named);
        assert_eq!((named.len(), shares.places(), shares.n_held()), (5, (10, 0), 10));
        drop((held, named));
        assert_eq!((shares.places(), shares.n_held()), ((10, 10), 0));
    }

    #[tokio::test]
    async fn slots_reserved_for_recent_strangers_are_at_most_half_and_are_freed_on_disconnect() {
        let shares = Shares::new(10);
        // Peer ids contain no digit 0, so these numbers are skipped.
        let strangers = (1..100).filter(|n| !(n + 1).to_string().contains('0')).map(head);
        let strangers: Vec<PeerId> = strangers.collect();
        // Each stranger used a slot recently.
        for stranger in &strangers {
            assert!(shares.try_take(stranger, Standing::Stranger).is_some());
        }
        assert_eq!(shares.share_of(&head(0), Standing::Named, 10), 5);
        for stranger in &strangers {
            shares.forget(stranger);
        }
        drop(shares.try_take(&head(0), Standing::Named));
        assert_eq!(shares.0.table.lock().heads.len(), 1, "disconnected heads are forgotten");
    }

    #[tokio::test]
    async fn unknown_head_leaves_a_quarter_of_the_slots_free_unless_there_is_only_one_slot() {
        let shares = Shares::new(10);
        let held = take_all(&shares, &head(1), Standing::Unknown);
        assert_eq!(held.len(), 8);
        assert_eq!(take_all(&shares, &head(2), Standing::Unknown).len(), 2);
        for standing in [Standing::Stranger, Standing::Unknown, Standing::Named] {
            assert_eq!(part_of(standing, 1), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn head_that_holds_its_maximum_number_of_slots_waits_until_it_releases_a_slot() {
        let shares = Shares::new(4);
        let mut held = take_all(&shares, &head(1), Standing::Stranger);
        let within = Duration::from_secs(5);
        assert!(shares.take(&head(1), Standing::Stranger, within).await.is_none());
        assert!(shares.take(&head(0), Standing::Named, within).await.is_some());
        held.pop();
        assert!(shares.take(&head(1), Standing::Stranger, within).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn free_slots_are_granted_to_waiting_heads_in_turn() {
        let shares = Shares::new(1);
        let mut place = shares.try_take(&head(0), Standing::Named);
        let (served, mut order) = tokio::sync::mpsc::channel(8);
        let wait = |n: usize| {
            let (shares, served) = (shares.clone(), served.clone());
            async move {
                let taken = shares.take(&head(n), Standing::Named, Duration::MAX).await;
                served.send(n).await.unwrap();
                drop(taken);
            }
        };
        let waiting = [wait(1), wait(1), wait(1), wait(2)];
        let release = async { drop(place.take()) };
        futures::future::join(futures::future::join_all(waiting), release).await;
        let order: Vec<usize> = std::iter::from_fn(|| order.try_recv().ok()).collect();
        assert_eq!(order, [1, 2, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn head_can_use_slots_that_other_heads_did_not_use_recently() {
        let shares = Shares::new(10);
        let share = |n: usize| shares.share_of(&head(n), Standing::Named, 10);
        assert_eq!([share(1), share(2)], [10, 10]);
        let modest = take_n(&shares, &head(1), 2);
        assert_eq!([share(1), share(2)], [10, 8]);
        let greedy = take_n(&shares, &head(2), 8);
        assert_eq!([share(1), share(2)], [5, 8]);
        drop(modest);
        assert_eq!(share(2), 9, "one place is reserved for a head that used some recently");
        advance(KEPT_FOR).await;
        assert_eq!([share(1), share(2)], [5, 10]);
        drop(greedy);
        shares.forget(&head(2));
        assert_eq!(share(1), 10, "a disconnected head claims no place");
        assert!(!shares.are_in_use());
    }

    #[tokio::test(start_paused = true)]
    async fn head_can_use_a_slot_even_if_there_are_more_heads_than_slots() {
        let shares = Shares::new(100);
        let _held = [0, 1, 2].map(|n| take_n(&shares, &head(n), 4));
        let shares_of =
            |n: usize| [0, 1, 2].map(|idx| shares.share_of(&head(idx), Standing::Named, n));
        assert_eq!(shares_of(2), [1, 1, 1]);
        assert_eq!(shares_of(6), [2, 2, 2]);
        assert_eq!(shares_of(0), [0, 0, 0]);
    }
}
