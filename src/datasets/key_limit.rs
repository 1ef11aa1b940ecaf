//! Permits with a limit for each API key and a limit for all keys together.

use std::collections::HashMap;
use std::sync::Arc;

use model::key::KeyId;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits of the permits that one key and all keys together can hold. All clones share the same permits.
#[derive(Debug, Clone)]
pub(crate) struct KeyLimit {
    all: Arc<Semaphore>,
    n_all: usize,
    n_own: usize,
    keys: Arc<Mutex<HashMap<KeyId, Arc<Semaphore>>>>,
}

/// Permits that a key holds until they are dropped.
#[derive(Debug)]
pub(crate) struct KeyPermit {
    limit: KeyLimit,
    key: KeyId,
    own: Arc<Semaphore>,
    /// Permits from the limit of the key and from the limit for all keys; `None` if no permits are held.
    held: Option<[OwnedSemaphorePermit; 2]>,
}

impl KeyLimit {
    /// Creates a limit of `n_all` permits, of which each key can hold `n_own`.
    pub(crate) fn new(n_all: usize, n_own: usize) -> Self {
        Self { all: Arc::new(Semaphore::new(n_all)), n_all, n_own, keys: Arc::default() }
    }

    /// Returns a holder for permits of `key`, which holds none yet.
    pub(crate) fn empty_permit(&self, key: KeyId) -> KeyPermit {
        let new = || Arc::new(Semaphore::new(self.n_own));
        let own = Arc::clone(self.keys.lock().entry(key).or_insert_with(new));
        KeyPermit { limit: self.clone(), key, own, held: None }
    }

    /// Acquires one permit for `key`. Returns `None` if a limit is reached.
    pub(crate) fn try_acquire(&self, key: KeyId) -> Option<KeyPermit> {
        let mut permit = self.empty_permit(key);
        let own = Arc::clone(&permit.own).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        permit.held = Some([own, all]);
        Some(permit)
    }

    /// Returns the number of permits that all keys hold together.
    pub(crate) fn n_acquired(&self) -> usize {
        self.n_all.saturating_sub(self.all.available_permits())
    }
}

impl KeyPermit {
    /// Waits until `n_permits` more permits are acquired. Waiting holders are served in order.
    /// Cancel-safe.
    ///
    /// Two holders can deadlock if both wait for more permits, so callers should set a time limit.
    pub(crate) async fn acquire(&mut self, n_permits: u32) {
        let own = Arc::clone(&self.own).acquire_many_owned(n_permits).await;
        let all = Arc::clone(&self.limit.all).acquire_many_owned(n_permits).await;
        // Always matches, since the semaphores are never closed.
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

impl Drop for KeyPermit {
    fn drop(&mut self) {
        self.held = None;
        let mut keys = self.limit.keys.lock();
        // Removes the key with its last holder: only this holder and the map have references then.
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
    fn limits_per_key_and_in_total_are_enforced() {
        let limit = KeyLimit::new(5, 2);
        let held: Vec<_> =
            [1, 1, 2, 2, 3].map(|number| limit.try_acquire(key(number)).unwrap()).into();
        assert!(limit.try_acquire(key(1)).is_none(), "its own limit is reached");
        assert!(limit.try_acquire(key(3)).is_none(), "the common limit is reached");
        assert_eq!(limit.n_acquired(), 5);
        drop(held);
        assert_eq!((limit.n_acquired(), limit.keys.lock().len()), (0, 0), "nothing leaks");
    }

    #[test]
    fn request_waits_until_its_key_has_enough_permits() {
        let limit = KeyLimit::new(10, 6);
        let (mut one, mut two) = (limit.empty_permit(key(1)), limit.empty_permit(key(1)));
        assert!(one.acquire(4).now_or_never().is_some());
        assert!(two.acquire(3).now_or_never().is_none(), "the key has six");
        assert!(
            limit.empty_permit(key(2)).acquire(6).now_or_never().is_some(),
            "another key does not wait"
        );
        drop(one);
        assert!(two.acquire(3).now_or_never().is_some());
        assert!(two.acquire(3).now_or_never().is_some());
        assert_eq!(limit.n_acquired(), 6);
    }
}
