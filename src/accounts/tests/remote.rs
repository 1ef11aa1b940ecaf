//! Tests of keys that another service verifies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;

use super::*;
use crate::gate::{Admitted, StreamKey};

/// Lookup of keys in a file. Lookups are counted and can be set to fail.
#[derive(Debug, Clone)]
struct Line {
    accounts: Accounts,
    n_lookups: Arc<AtomicU32>,
    is_cut: Arc<AtomicBool>,
}

#[async_trait]
impl KeyLookup for Line {
    async fn look_up(
        &self,
        hash: KeyHash,
    ) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>> {
        self.n_lookups.fetch_add(1, Ordering::SeqCst);
        if self.is_cut.load(Ordering::SeqCst) {
            return Err("the line is cut".into());
        }
        Ok(self.accounts.check(hash).await?)
    }

    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>> {
        Ok(self.accounts.find_key(id).await?.is_some())
    }
}

#[tokio::test(start_paused = true)]
async fn remote_key_check_is_cached_briefly_and_fails_while_unreachable() {
    let folder = tempdir().unwrap();
    let accounts = open(&folder).await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    let line =
        Line { accounts: accounts.clone(), n_lookups: Arc::default(), is_cut: Arc::default() };
    let keys = Keys::Remote(RemoteKeys::new(line.clone()));
    let hash = KeyHash::from_key(&key);
    let mut found = None;
    for _ in 0..3 {
        found = keys.check(hash).await.unwrap();
        assert_eq!(found.map(|key| key.id), Some(id));
    }
    let mut of_stream = StreamKey::new(&keys, &Admitted { key: found.unwrap(), hash });
    assert_eq!(line.n_lookups.load(Ordering::SeqCst), 1);
    line.is_cut.store(true, Ordering::SeqCst);
    assert_eq!(keys.check(hash).await.unwrap(), found, "while the response is cached");
    let unknown = keys.check(KeyHash::from_key(&ApiKey::from_random([7; 12]))).await;
    assert!(matches!(unknown, Err(AccountsError::Unreachable(_))), "{unknown:?}");
    tokio::time::advance(Duration::from_secs(5)).await;
    let late = keys.check(hash).await;
    assert!(matches!(late, Err(AccountsError::Unreachable(_))), "{late:?}");
    assert!(of_stream.is_valid().await, "a stream continues while its key cannot be verified");
    line.is_cut.store(false, Ordering::SeqCst);
    assert!(accounts.revoke_key(Scope::All, id).await.unwrap());
    assert_eq!(keys.check(hash).await.unwrap(), None);
    assert!(of_stream.is_valid().await, "until the next attempt");
    tokio::time::advance(Duration::from_secs(15)).await;
    assert!(!of_stream.is_valid().await);
}

#[derive(Debug)]
struct Silent;

#[async_trait]
impl KeyLookup for Silent {
    async fn look_up(&self, _: KeyHash) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>> {
        std::future::pending().await
    }

    async fn knows(&self, _: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn silent_key_service_times_out() {
    let keys = Keys::Remote(RemoteKeys::new(Silent));
    let answer = keys.check(KeyHash::from_key(&ApiKey::from_random([7; 12]))).await;
    assert!(matches!(answer, Err(AccountsError::Unreachable(_))), "{answer:?}");
    let answer = keys.knows(KeyId::new(1)).await;
    assert!(matches!(answer, Err(AccountsError::Unreachable(_))), "{answer:?}");
}
