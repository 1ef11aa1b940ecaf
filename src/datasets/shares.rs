//! Places that many keys want, of which no key has more than its share.

use std::{collections::HashMap, sync::Arc};

use model::key::KeyId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    all: Arc<Semaphore>,
    n_all: usize,
    n_own: usize,
    keys: Arc<Mutex<HashMap<KeyId, Arc<Semaphore>>>>,
}

/// Some places of one key. Dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Shares,
    key: KeyId,
    own: Arc<Semaphore>,
    /// Places among the key's own, and among all.
    held: Option<[OwnedSemaphorePermit; 2]>,
}

impl Shares {
    /// So many places, of which a key may have `n_own`.
    pub(crate) fn new(n_all: usize, n_own: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(n_all)), n_all, n_own, keys: Arc::default() }
    }

    /// A share of `key` without a place in it yet.
    pub(crate) fn of(&self, key: KeyId) -> Share {
        let new = || Arc::new(Semaphore::new(self.n_own));
        let own = Arc::clone(self.keys.lock().entry(key).or_insert_with(new));
        Share { shares: self.clone(), key, own, held: None }
    }

    /// A place for `key`, if there is one now.
    pub(crate) fn try_take(&self, key: KeyId) -> Option<Share> {
        let mut share = self.of(key);
        let own = Arc::clone(&share.own).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        share.held = Some([own, all]);
        Some(share)
    }

    /// How many places are taken.
    pub(crate) fn n_taken(&self) -> usize {
        self.n_all.saturating_sub(self.all.available_permits())
    }
}

impl Share {
    /// Waits for so many places more, behind those who wait already. Cancel-safe.
    ///
    /// Those who hold places and wait for more may wait for each other: set a time limit.
    pub(crate) async fn more(&mut self, n_places: u32) {
        let own = Arc::clone(&self.own).acquire_many_owned(n_places).await;
        let all = Arc::clone(&self.shares.all).acquire_many_owned(n_places).await;
        // The semaphores are never closed.
        let (Ok(own), Ok(all)) = (own, all) else { return };
        match &mut self.held {
            Some([held_own, held_all]) => {
                held_own.merge(own);
                held_all.merge(all);
            }
            held @ None => *held = Some([own, all]),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held = None;
        let mut keys = self.shares.keys.lock();
        // Nobody else of the key has one: the other count is that of the map.
        if Arc::strong_count(&self.own) <= 2 {
            keys.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn key(number: i64) -> KeyId {
        KeyId::new(number)
    }

    #[test]
    fn a_key_has_no_more_than_its_share_and_all_no_more_than_there_are() {
        let shares = Shares::new(5, 2);
        let held: Vec<_> =
            [1, 1, 2, 2, 3].map(|number| shares.try_take(key(number)).unwrap()).into();
        assert!(shares.try_take(key(1)).is_none(), "its share is taken");
        assert!(shares.try_take(key(3)).is_none(), "all are taken");
        assert_eq!(shares.n_taken(), 5);
        drop(held);
        assert_eq!((shares.n_taken(), shares.keys.lock().len()), (0, 0), "nothing is left behind");
    }

    #[test]
    fn who_wants_more_waits_until_there_is_more() {
        let shares = Shares::new(10, 6);
        let (mut one, mut two) = (shares.of(key(1)), shares.of(key(1)));
        assert!(one.more(4).now_or_never().is_some());
        assert!(two.more(3).now_or_never().is_none(), "the key has six");
        assert!(shares.of(key(2)).more(6).now_or_never().is_some(), "another key does not wait");
        drop(one);
        assert!(two.more(3).now_or_never().is_some());
        assert!(two.more(3).now_or_never().is_some());
        assert_eq!(shares.n_taken(), 6);
    }
}
