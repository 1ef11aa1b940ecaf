//! The keys that a service accepts: the keys of its own accounts, or keys that another service verifies.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lru::LruCache;
use model::key::KeyId;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use web::metrics::Metrics;
use web::rate_limit::CALLERS_MAX;

use crate::database_metrics::{self, ACCOUNTS};
use crate::key::{KeyHash, Verified};
use crate::{Accounts, AccountsError};

/// Time for which responses of the other service are cached. A revoked key is accepted until its cached
/// response expires.
const CACHED_FOR: Duration = Duration::from_secs(5);

/// Maximum number of concurrent requests to the other service.
const REQUESTS_MAX: usize = 32;

/// Timeout of a request, including the wait for a permit.
const RESPONSE_WITHIN: Duration = Duration::from_secs(5);

/// Key that is looked up to find out whether the other service responds.
const ANY_KEY: KeyId = KeyId::new(1);

/// Lookup of keys in another service.
#[async_trait]
pub trait KeyLookup: fmt::Debug + Send + Sync {
    /// Returns the key with this hash, or `None` if the key is unknown or revoked.
    async fn look_up(
        &self,
        hash: KeyHash,
    ) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>>;

    /// Returns true if the key with this id exists and is not revoked.
    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>>;
}

/// The keys that a service accepts. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Keys {
    /// Keys of the service's own accounts, which are in a file or a database.
    Local(Accounts),
    /// Keys that another service verifies.
    Remote(RemoteKeys),
}

/// Keys that another service verifies. Its responses are cached for a few seconds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteKeys {
    shared: Arc<RemoteCache>,
}

#[derive(Debug)]
struct RemoteCache {
    lookup: Box<dyn KeyLookup>,
    permits: Semaphore,
    responses: Mutex<LruCache<KeyHash, CachedKey>>,
}

#[derive(Debug, Clone, Copy)]
struct CachedKey {
    key: Option<Verified>,
    given: Instant,
}

impl From<Accounts> for Keys {
    fn from(accounts: Accounts) -> Self {
        Self::Local(accounts)
    }
}

impl Keys {
    /// Returns the key with this hash if it exists and is not revoked. Cancel-safe.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails, [`AccountsError::Unreachable`] if the other
    /// service does not respond. In both cases, the key might be valid.
    pub async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        match self {
            Self::Local(accounts) => accounts.check(hash).await,
            Self::Remote(remote) => remote.check(hash).await,
        }
    }

    /// Returns true if the key `id` exists and is not revoked.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn knows(&self, id: KeyId) -> Result<bool, AccountsError> {
        match self {
            Self::Local(accounts) => Ok(accounts.find_key(id).await?.is_some()),
            Self::Remote(remote) => remote.knows(id).await,
        }
    }

    /// Checks that the service's own accounts can be written, or that the other service responds.
    ///
    /// # Errors
    /// As [`Accounts::check_file`], or [`AccountsError::Unreachable`].
    pub async fn check_file(&self) -> Result<(), AccountsError> {
        match self {
            Self::Local(accounts) => accounts.check_file().await,
            Self::Remote(remote) => remote.knows(ANY_KEY).await.map(drop),
        }
    }

    /// Sets the metrics of the accounts database if the accounts are in a database.
    pub fn set_metrics(&self, metrics: &Metrics) {
        if let Self::Local(accounts) = self
            && let Some(figures) = accounts.database()
        {
            database_metrics::set(metrics, ACCOUNTS, figures);
        }
    }

    /// Returns true if the key is cached, which means that it was recently valid.
    pub(crate) fn is_remembered(&self, hash: &KeyHash) -> bool {
        match self {
            Self::Local(accounts) => accounts.is_remembered(hash),
            Self::Remote(remote) => remote.is_remembered(hash),
        }
    }
}

impl RemoteKeys {
    /// Creates the keys that `lookup` finds in another service.
    pub fn new(lookup: impl KeyLookup + 'static) -> Self {
        let shared = RemoteCache {
            lookup: Box::new(lookup),
            permits: Semaphore::new(REQUESTS_MAX),
            responses: Mutex::new(LruCache::new(CALLERS_MAX)),
        };
        Self { shared: Arc::new(shared) }
    }

    async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        if let Some(cached) = self.get_fresh(&hash) {
            return Ok(cached.key);
        }
        with_timeout(self.look_up(hash)).await
    }

    async fn knows(&self, id: KeyId) -> Result<bool, AccountsError> {
        with_timeout(async {
            let _permit =
                self.shared.permits.acquire().await.map_err(|_| AccountsError::Stopped)?;
            self.shared.lookup.knows(id).await.map_err(AccountsError::Unreachable)
        })
        .await
    }

    async fn look_up(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        // Cannot fail, since the semaphore is never closed.
        let _permit = self.shared.permits.acquire().await.map_err(|_| AccountsError::Stopped)?;
        // Another request might have received the response for this key in the meantime.
        if let Some(cached) = self.get_fresh(&hash) {
            return Ok(cached.key);
        }
        let given = Instant::now();
        let key = self.shared.lookup.look_up(hash).await.map_err(AccountsError::Unreachable)?;
        self.shared.responses.lock().put(hash, CachedKey { key, given });
        Ok(key)
    }

    fn get_fresh(&self, hash: &KeyHash) -> Option<CachedKey> {
        let cached = *self.shared.responses.lock().get(hash)?;
        (cached.given.elapsed() < CACHED_FOR).then_some(cached)
    }

    fn is_remembered(&self, hash: &KeyHash) -> bool {
        let responses = self.shared.responses.lock();
        responses.peek(hash).is_some_and(|cached| cached.key.is_some())
    }
}

/// Waits for `response` with a timeout of [`RESPONSE_WITHIN`].
async fn with_timeout<T>(
    response: impl Future<Output = Result<T, AccountsError>>,
) -> Result<T, AccountsError> {
    let late = |_| AccountsError::Unreachable("response timed out".into());
    timeout(RESPONSE_WITHIN, response).await.map_err(late)?
}
