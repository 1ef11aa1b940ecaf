//! Operations on API keys: create, verify, list, rename, renew, revoke.

use std::time::Duration;

use model::{
    key::{ApiKey, KeyId},
    text::is_unprintable,
};
use task::group::Group;
use tokio::time::{Instant, sleep};
use tracing::warn;
use wire::accounts::KeyLimits;

use crate::{
    Accounts, AccountsError,
    account::AccountId,
    key::{KeyHash, KeyRecord, Scope, Verified, key_prefix},
    store::keys::{Inserted, NewKey},
};

/// The longest name of a key, in characters: a label in a list, not a text.
pub const NAME_CHARS_MAX: usize = 100;

/// The most keys that are listed.
pub const LISTED_MAX: u32 = 1000;

/// The most good keys of one account: one for each of its programs, with room.
pub const KEYS_MAX: u32 = 100;

/// How often the file learns which keys were used, and lets go of sessions that have expired.
const MAINTENANCE_EVERY: Duration = Duration::from_secs(30);

/// How often the file is looked for where it was opened.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Accounts {
    /// Creates a key called `name` that belongs to no account, and returns its number and the
    /// secret, which nobody can read again. Names need not be unique. On return the key is durable.
    ///
    /// # Errors
    /// [`AccountsError::Name`] if `name` is unfit, [`AccountsError::Store`] if the file fails.
    pub async fn create_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        self.create(None, name).await
    }

    /// The same for a key of an account.
    ///
    /// # Errors
    /// As [`Self::create_key`], and [`AccountsError::TooManyKeys`] if the account has [`KEYS_MAX`].
    pub async fn create_account_key(
        &self,
        account: AccountId,
        name: &str,
    ) -> Result<(KeyId, ApiKey), AccountsError> {
        self.create(Some(account), name).await
    }

    async fn create(
        &self,
        account: Option<AccountId>,
        name: &str,
    ) -> Result<(KeyId, ApiKey), AccountsError> {
        let (name, key) = (check_name(name)?, ApiKey::from_random(rand::random()));
        let new = NewKey { hash: KeyHash::from_key(&key), prefix: key_prefix(&key), name, account };
        let inserted =
            self.with_store(move |shared, store| store.insert(&new, KEYS_MAX, shared.clock.now()));
        match inserted.await? {
            Inserted::Key(id) => Ok((id, key)),
            Inserted::Full => Err(AccountsError::TooManyKeys),
        }
    }

    /// Returns the number of `key` if it exists and is not revoked.
    ///
    /// Answers from memory where it can. A key that another process revokes is refused at the
    /// latest 100 ms after that. Cancel-safe.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn verify(&self, key: &ApiKey) -> Result<Option<KeyId>, AccountsError> {
        Ok(self.check(KeyHash::from_key(key)).await?.map(|verified| verified.id))
    }

    /// Returns what is known of the key hashed to `hash`, if it exists and is not revoked; as
    /// [`Self::verify`].
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        let known = self.shared.cache.lock().get_fresh(&hash, Instant::now());
        if known.is_some() {
            return Ok(known);
        }
        self.with_reads(move |shared, store| {
            let version = store.data_version()?;
            let known = {
                let mut cache = shared.cache.lock();
                cache.note_version(version, Instant::now());
                cache.get(&hash)
            };
            if known.is_some() {
                return Ok(known);
            }
            let found = store.find(&hash)?;
            if let Some(key) = found {
                shared.cache.lock().insert(hash, key);
            }
            Ok(found)
        })
        .await
    }

    /// Whether the key was good a short while ago, as far as memory tells.
    pub(crate) fn is_remembered(&self, hash: &KeyHash) -> bool {
        self.shared.cache.lock().contains(hash)
    }

    /// Returns the keys in `scope`, newest first; at most [`LISTED_MAX`], rather good ones than revoked
    /// ones.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn list_keys(&self, scope: Scope) -> Result<Vec<KeyRecord>, AccountsError> {
        self.with_reads(move |_, store| store.list(scope, LISTED_MAX)).await
    }

    /// Returns one key of `scope`, good or revoked.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn key(&self, scope: Scope, id: KeyId) -> Result<Option<KeyRecord>, AccountsError> {
        self.with_reads(move |_, store| store.key(scope, id)).await
    }

    /// Returns what is known of key `id`, if it exists and is not revoked.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn find_key(&self, id: KeyId) -> Result<Option<Verified>, AccountsError> {
        let record = self.key(Scope::All, id).await?.filter(|key| key.revoked_at.is_none());
        Ok(record.map(|key| Verified { id: key.id, account: key.account, limits: key.limits }))
    }

    /// Revokes the key `id` of `scope` for good; whether it existed and was not revoked before.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn revoke_key(&self, scope: Scope, id: KeyId) -> Result<bool, AccountsError> {
        self.with_keys(move |shared, store| store.revoke(scope, id, shared.clock.now())).await
    }

    /// Calls the key `id` of `scope` `name`; whether it exists and is not revoked.
    ///
    /// # Errors
    /// [`AccountsError::Name`] if `name` is unfit, [`AccountsError::Store`] if the file fails.
    pub async fn rename_key(
        &self,
        scope: Scope,
        id: KeyId,
        name: &str,
    ) -> Result<bool, AccountsError> {
        let name = check_name(name)?;
        self.with_store(move |_, store| store.rename(scope, id, &name)).await
    }

    /// Gives the key `id` limits of its own; whether it exists and is not revoked.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn set_limits(&self, id: KeyId, limits: KeyLimits) -> Result<bool, AccountsError> {
        self.with_keys(move |_, store| store.set_limits(id, limits)).await
    }

    /// Gives the key `id` of `scope` a new secret, and returns that; none if there is no such key
    /// that is not revoked. The key keeps its number and with that all it owns. The secret it had
    /// opens nothing any more, at the latest 100 ms after.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn renew(&self, scope: Scope, id: KeyId) -> Result<Option<ApiKey>, AccountsError> {
        let key = ApiKey::from_random(rand::random());
        let (hash, prefix) = (KeyHash::from_key(&key), key_prefix(&key));
        let renewed = self.with_keys(move |_, store| store.renew(scope, id, &hash, &prefix));
        Ok(renewed.await?.then_some(key))
    }

    /// Returns a new secret for the newest key called `name` that belongs to no account, as
    /// [`Self::renew`] does; a new key if there is none. On return the change is durable.
    ///
    /// # Errors
    /// As [`Self::create_key`].
    pub async fn renew_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        let key = ApiKey::from_random(rand::random());
        let (wanted, hash, prefix) = (name.to_owned(), KeyHash::from_key(&key), key_prefix(&key));
        let renewed = self.with_keys(move |_, store| store.renew_by_name(&wanted, &hash, &prefix));
        match renewed.await? {
            Some(id) => Ok((id, key)),
            None => self.create_key(name).await,
        }
    }

    /// Writes down which keys were used since this was last done, and lets go of sessions that have
    /// expired.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails. What was not written down is lost.
    pub async fn run_maintenance(&self) -> Result<(), AccountsError> {
        self.with_store(|shared, store| {
            let used = shared.cache.lock().take_used();
            let now = shared.clock.now();
            if !used.is_empty() {
                store.note_used(&used, now)?;
            }
            store.sweep_sessions(shared.sweep_date.lock().read()).map(drop)
        })
        .await
    }

    /// Does [`Self::run_maintenance`] every half a minute, and once more when `group` stops; and looks each
    /// second whether the file is still in its place.
    pub fn start_maintenance(&self, group: &Group) {
        let (accounts, stopping) = (self.clone(), group.clone());
        group.spawn_to_end("accounts maintenance", async move {
            let mut last = Instant::now();
            while !stopping.is_stopped() {
                tokio::select! {
                    () = sleep(LOOK_EVERY) => {}
                    () = stopping.stopped() => {}
                }
                if let Err(AccountsError::Replaced) = accounts.check_file().await {
                    return;
                }
                if last.elapsed() < MAINTENANCE_EVERY && !stopping.is_stopped() {
                    continue;
                }
                last = Instant::now();
                if let Err(error) = accounts.run_maintenance().await {
                    let cause = task::causes::chain(&error);
                    warn!(cause, "the accounts file did not take when keys were last used");
                }
            }
        });
    }
}

/// A key's name, if it is one.
fn check_name(name: &str) -> Result<String, AccountsError> {
    let name = name.trim();
    let n_chars = name.chars().count();
    if n_chars == 0 || n_chars > NAME_CHARS_MAX || name.chars().any(is_unprintable) {
        return Err(AccountsError::Name);
    }
    Ok(name.to_owned())
}
