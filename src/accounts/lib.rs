//! Accounts: the API keys that open the dataset and the inference service.
//!
//! One SQLite file holds every key as its SHA-256 hash; each service of a machine opens the same
//! file through an [`Accounts`] of its own, and sees what the others create and revoke. Absent on
//! purpose: what a key may do, which each service decides.

mod cache;
mod key;
mod store;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use model::key::ApiKey;
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep},
};

use crate::{cache::Cache, key::KeyHash, store::Store};
pub use crate::{
    key::{KeyId, KeyRecord},
    store::StoreError,
};

/// The longest name of a key, in characters: a label in a list, not a text.
pub const NAME_CHARS_MAX: usize = 100;

/// The most keys that [`Accounts::list`] returns.
pub const LISTED_MAX: u32 = 1000;

/// How often opening tries again while another process sets up the same file.
const OPEN_TRIES: u32 = 100;

/// The pause between two tries to open. With [`OPEN_TRIES`] this waits two seconds in all, far more
/// than setting up takes.
const OPEN_PAUSE: Duration = Duration::from_millis(20);

/// Why an operation on accounts failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// A key's name is empty, too long, or holds control characters.
    #[error("take a key's name: 1 to {NAME_CHARS_MAX} characters, none of them a control one")]
    Name,
    /// The file failed.
    #[error("use the accounts file")]
    Store(#[source] StoreError),
    /// The program is stopping.
    #[error("finish before the program stopped")]
    Stopped,
}

/// Handle to the accounts file. Cheap to clone; all clones share one connection and one cache.
#[derive(Clone)]
pub struct Accounts {
    shared: Arc<Shared>,
}

struct Shared {
    store: Mutex<Store>,
    cache: Mutex<Cache>,
    clock: Clock,
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}

impl Accounts {
    /// Opens the accounts file at `path`, and creates it and its folder if they are missing.
    ///
    /// Other processes may have the file open, and may be opening it now.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file cannot be opened, or was written by a newer version.
    pub async fn open(path: impl AsRef<Path>, clock: Clock) -> Result<Self, AccountsError> {
        let path = path.as_ref().to_owned();
        let mut tries_left = OPEN_TRIES;
        let store = loop {
            let path = path.clone();
            match blocking(move || Store::open(&path)).await {
                Err(AccountsError::Store(error)) if error.is_busy() && tries_left > 0 => {
                    tries_left -= 1;
                    sleep(OPEN_PAUSE).await;
                }
                opened => break opened?,
            }
        };
        let cache = Mutex::new(Cache::default());
        Ok(Self { shared: Arc::new(Shared { store: Mutex::new(store), cache, clock }) })
    }

    /// Creates a key called `name`, and returns its number and the secret, which nobody can read
    /// again. Names need not be unique. On return the key is durable.
    ///
    /// # Errors
    /// [`AccountsError::Name`] if `name` is unfit, [`AccountsError::Store`] if the file fails.
    pub async fn create_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        let n_chars = name.chars().count();
        if n_chars == 0 || n_chars > NAME_CHARS_MAX || name.chars().any(char::is_control) {
            return Err(AccountsError::Name);
        }
        let (name, key) = (name.to_owned(), ApiKey::from_random(rand::random()));
        let hash = KeyHash::of(&key);
        let id =
            self.with_store(move |shared, store| store.insert(&hash, &name, shared.clock.now()));
        Ok((id.await?, key))
    }

    /// Returns the number of `key` if it exists and is not revoked.
    ///
    /// Answers from memory where it can. A key that another process revokes is refused at the
    /// latest 100 ms after that. Cancel-safe.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn verify(&self, key: &ApiKey) -> Result<Option<KeyId>, AccountsError> {
        let hash = KeyHash::of(key);
        let known = self.shared.cache.lock().get_fresh(&hash, Instant::now());
        if known.is_some() {
            return Ok(known);
        }
        self.with_store(move |shared, store| {
            let version = store.data_version()?;
            let known = {
                let mut cache = shared.cache.lock();
                cache.checked(version, Instant::now());
                cache.get(&hash)
            };
            if known.is_some() {
                return Ok(known);
            }
            let found = store.find(&hash)?;
            if let Some(id) = found {
                shared.cache.lock().insert(hash, id);
            }
            Ok(found)
        })
        .await
    }

    /// Returns the keys, newest first, at most [`LISTED_MAX`].
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn list(&self) -> Result<Vec<KeyRecord>, AccountsError> {
        self.with_store(|_, store| store.list(LISTED_MAX)).await
    }

    /// Revokes the key `id` for good; whether it existed and was not revoked before.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn revoke(&self, id: KeyId) -> Result<bool, AccountsError> {
        self.with_store(move |shared, store| {
            let n_revoked = store.revoke(id, shared.clock.now())?;
            shared.cache.lock().clear();
            Ok(n_revoked > 0)
        })
        .await
    }

    /// Returns a new secret for the newest key called `name`, which keeps its number and with that
    /// all it owns; a new key if there is none. The secret it had opens nothing any more, at the
    /// latest 100 ms after. On return the change is durable.
    ///
    /// # Errors
    /// As [`Self::create_key`].
    pub async fn renew_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        let key = ApiKey::from_random(rand::random());
        let (wanted, hash) = (name.to_owned(), KeyHash::of(&key));
        let renewed = self.with_store(move |shared, store| {
            let renewed = store.renew(&hash, &wanted)?;
            shared.cache.lock().clear();
            Ok(renewed)
        });
        match renewed.await? {
            Some(id) => Ok((id, key)),
            None => self.create_key(name).await,
        }
    }

    /// Runs `work` on a blocking thread while it alone holds the store.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || work(&shared, &mut shared.store.lock())).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, AccountsError> {
    match spawn_blocking(work).await {
        Ok(result) => result.map_err(AccountsError::Store),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(AccountsError::Stopped),
    }
}

#[cfg(test)]
mod tests;
