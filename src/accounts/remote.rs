//! The keys that open a service: those that it has itself, or of another machine.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use lru::LruCache;
use model::key::{ApiKey, KeyId};
use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use web::{metrics::Metrics, rate_limit::CALLERS_MAX};

use crate::{
    Accounts, AccountsError,
    database_metrics::{self, ACCOUNTS},
    key::{KeyHash, Verified},
};

/// How long an answer of the other machine holds. A key that is revoked there opens this service
/// for as long.
const HOLDS_FOR: Duration = Duration::from_secs(5);

/// Questions under way at a time.
const QUESTIONS_MAX: usize = 32;

/// How long a question may wait for its turn and its answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Asks another machine what it knows of a key.
#[async_trait]
pub trait KeyLookup: fmt::Debug + Send + Sync {
    /// What is known of the key hashed to `hash`; none if it opens nothing.
    async fn ask(&self, hash: KeyHash) -> Result<Option<Verified>, Box<dyn Error + Send + Sync>>;

    /// Asks whether there is a key of this number that opens something.
    async fn knows(&self, id: KeyId) -> Result<bool, Box<dyn Error + Send + Sync>>;
}

/// The keys that open a service. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Keys {
    /// Those of the accounts that the service has: in a file of this machine, or in a database.
    Local(Accounts),
    /// Those of another machine.
    Remote(RemoteKeys),
}

/// Keys of another machine, cached for a few seconds. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteKeys {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ask: Box<dyn KeyLookup>,
    turns: Semaphore,
    answers: Mutex<LruCache<KeyHash, CachedKey>>,
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
    /// Returns the number of `key` if it exists and is not revoked. Cancel-safe.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn verify(&self, key: &ApiKey) -> Result<Option<KeyId>, AccountsError> {
        Ok(self.check(KeyHash::from_key(key)).await?.map(|key| key.id))
    }

    /// Returns what is known of the key hashed to `hash`, if it exists and is not revoked.
    /// Cancel-safe.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails, [`AccountsError::Unreachable`] if the other
    /// machine does not answer: then nobody knows, and the key is not to be taken for good.
    pub async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        match self {
            Self::Local(accounts) => accounts.check(hash).await,
            Self::Remote(remote) => remote.check(hash).await,
        }
    }

    /// Whether there is a key `id` that is not revoked.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub async fn knows(&self, id: KeyId) -> Result<bool, AccountsError> {
        match self {
            Self::Local(accounts) => Ok(accounts.find_key(id).await?.is_some()),
            Self::Remote(remote) => remote.knows(id).await,
        }
    }

    /// Whether the accounts take writes, if the service has them.
    ///
    /// # Errors
    /// As [`Accounts::check_file`].
    pub async fn check_file(&self) -> Result<(), AccountsError> {
        match self {
            Self::Local(accounts) => accounts.check_file().await,
            Self::Remote(_) => Ok(()),
        }
    }

    /// Sets the metrics of the accounts' database, if the service has one.
    pub fn set_metrics(&self, metrics: &Metrics) {
        if let Self::Local(accounts) = self
            && let Some(figures) = accounts.database()
        {
            database_metrics::set(metrics, ACCOUNTS, figures);
        }
    }

    /// Whether the key was good a short while ago, as far as memory tells.
    pub(crate) fn is_remembered(&self, hash: &KeyHash) -> bool {
        match self {
            Self::Local(accounts) => accounts.is_remembered(hash),
            Self::Remote(remote) => remote.is_remembered(hash),
        }
    }
}

impl RemoteKeys {
    /// The keys that `ask` knows of.
    pub fn new(ask: impl KeyLookup + 'static) -> Self {
        let shared = Shared {
            ask: Box::new(ask),
            turns: Semaphore::new(QUESTIONS_MAX),
            answers: Mutex::new(LruCache::new(CALLERS_MAX)),
        };
        Self { shared: Arc::new(shared) }
    }

    async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        if let Some(answer) = self.get_fresh(&hash) {
            return Ok(answer.key);
        }
        ask_with_timeout(self.ask(hash)).await
    }

    async fn knows(&self, id: KeyId) -> Result<bool, AccountsError> {
        ask_with_timeout(async {
            let _turn = self.shared.turns.acquire().await.map_err(|_| AccountsError::Stopped)?;
            self.shared.ask.knows(id).await.map_err(AccountsError::Unreachable)
        })
        .await
    }

    async fn ask(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        // The semaphore is never closed.
        let _turn = self.shared.turns.acquire().await.map_err(|_| AccountsError::Stopped)?;
        // Another request may have asked the same while this one waited.
        if let Some(answer) = self.get_fresh(&hash) {
            return Ok(answer.key);
        }
        let given = Instant::now();
        let key = self.shared.ask.ask(hash).await.map_err(AccountsError::Unreachable)?;
        self.shared.answers.lock().put(hash, CachedKey { key, given });
        Ok(key)
    }

    fn get_fresh(&self, hash: &KeyHash) -> Option<CachedKey> {
        let answer = *self.shared.answers.lock().get(hash)?;
        (answer.given.elapsed() < HOLDS_FOR).then_some(answer)
    }

    fn is_remembered(&self, hash: &KeyHash) -> bool {
        let answers = self.shared.answers.lock();
        answers.peek(hash).is_some_and(|answer| answer.key.is_some())
    }
}

/// What the other machine answers, if it does so soon.
async fn ask_with_timeout<T>(
    answer: impl Future<Output = Result<T, AccountsError>>,
) -> Result<T, AccountsError> {
    let late = |_| AccountsError::Unreachable("it did not answer in time".into());
    timeout(ANSWER_WITHIN, answer).await.map_err(late)?
}
