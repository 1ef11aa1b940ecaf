//! Operations on API keys: creating, verifying, listing, renaming, renewing and revoking them.

use std::cmp::Reverse;
use std::time::Duration;

use futures::FutureExt as _;
use model::key::{ApiKey, KeyId};
use model::text::is_unprintable;
use model::timestamp::Timestamp;
use task::group::Group;
use tokio::time::{Instant, sleep};
use tracing::warn;
use wire::accounts::KeyLimits;

use super::sql::{Row, Session, Value, values};
use super::{Store, sessions};
use crate::account::AccountId;
use crate::cache::Snapshot;
use crate::key::{KeyHash, KeyRecord, Scope, Verified, key_prefix};
use crate::{Accounts, AccountsError};

/// Maximum length of a key's name, in characters.
pub const NAME_CHARS_MAX: usize = 100;

/// Maximum number of listed keys.
pub const LISTED_MAX: u32 = 1000;

/// Maximum number of valid keys per account.
pub const KEYS_MAX: u32 = 100;

/// Maximum number of keys in one statement that stores their last use.
const USED_STEP: usize = 500;

/// Interval at which the use of keys is stored and expired sessions are deleted.
const MAINTENANCE_EVERY: Duration = Duration::from_secs(30);

/// Interval at which the file is checked for removal or replacement.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Accounts {
    /// Creates a key called `name` that belongs to no account. Names need not be unique. Returns the id
    /// and the secret of the key. Only a hash of the secret is stored. The key is durable once this
    /// function returns.
    ///
    /// # Errors
    /// [`AccountsError::Name`] if `name` is invalid, [`AccountsError::Statement`] if the store fails.
    pub async fn create_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        self.create_account_key(None, name).await
    }

    /// Creates a key like [`Self::create_key`], but for an account if `account` is given.
    ///
    /// # Errors
    /// [`AccountsError::TooManyKeys`] if the account has [`KEYS_MAX`] keys. Otherwise as
    /// [`Self::create_key`].
    pub async fn create_account_key(
        &self,
        account: impl Into<Option<AccountId>>,
        name: &str,
    ) -> Result<(KeyId, ApiKey), AccountsError> {
        let (name, key) = (check_name(name)?, ApiKey::from_random(rand::random()));
        let (hash, prefix) = (KeyHash::from_key(&key), key_prefix(&key));
        let account = account.into().map(AccountId::get);
        let created_at = self.shared.clock.now().micros();
        let created = self.shared.store.write(move |mut session| {
            async move {
                // If `account` is null, no row matches and the count is 0, so keys without an account
                // are not limited.
                let sql = "SELECT count(*) FROM keys WHERE account = ?1 AND revoked_at IS NULL";
                let n_keys = session.find(sql, &values![account], |row| row.get::<i64>(0)).await?;
                if n_keys >= Some(KEYS_MAX.into()) {
                    return Err(AccountsError::TooManyKeys);
                }
                let sql = "INSERT INTO keys (hash, prefix, name, account, created_at)
                    VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
                let values = values![hash.to_bytes(), prefix, name, account, created_at];
                session.find(sql, &values, |row| Ok(KeyId::new(row.get(0)?))).await
            }
            .boxed()
        });
        Ok((created.await?.ok_or(AccountsError::TooManyKeys)?, key))
    }

    /// Returns the key with this hash if it exists and is not revoked. Cancel-safe.
    ///
    /// Uses the cache if possible. If another process revokes a key, this process rejects the key after
    /// at most 100 ms.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn check(&self, hash: KeyHash) -> Result<Option<Verified>, AccountsError> {
        let (arrived, now) = (Instant::now(), self.shared.clock.now());
        let known = self.shared.cache.lock().get_fresh(&hash, arrived, now);
        if known.is_some() {
            return Ok(known);
        }
        // If the key is cached, waits for a concurrent request that queries the store, since its query
        // confirms all cached keys at once.
        let _turn =
            if self.is_remembered(&hash) { Some(self.shared.checks.lock().await) } else { None };
        {
            let mut cache = self.shared.cache.lock();
            let known = cache.get_fresh(&hash, arrived, now);
            if known.is_some() {
                return Ok(known);
            }
            if cache.has_failed_since(arrived) {
                return Err(AccountsError::Unreachable(
                    "no response to a concurrent request".into(),
                ));
            }
        }
        let started = Instant::now();
        let store = &self.shared.store;
        let sql = format!(
            "SELECT {RECORD}, ({}) FROM keys WHERE hash = ?1 AND revoked_at IS NULL",
            store.keys_version()
        );
        let found = store.find(sql, values![hash.to_bytes()], |row| {
            Ok((Verified::from(record(row)?), row.get::<i64>(RECORD_COLUMNS)?))
        });
        let found = found.await;
        let mut cache = self.shared.cache.lock();
        match found {
            Ok(Some((key, version))) => {
                cache.insert(hash, key, Snapshot { version, started }, now);
                Ok(Some(key))
            }
            Ok(None) => {
                cache.remove(&hash);
                Ok(None)
            }
            Err(error) => {
                cache.note_failure(Instant::now());
                Err(error)
            }
        }
    }

    /// Returns true if the key is cached, which means that it was valid recently.
    pub(crate) fn is_remembered(&self, hash: &KeyHash) -> bool {
        self.shared.cache.lock().contains(hash)
    }

    /// Returns at most [`LISTED_MAX`] keys in `scope`, newest first. If there are more keys, revoked
    /// keys are omitted first.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn list_keys(&self, scope: Scope) -> Result<Vec<KeyRecord>, AccountsError> {
        // Selects valid keys first, so that the limit omits revoked keys.
        let filter = if scope == Scope::All { "?2 IS NULL" } else { "account = ?2" };
        let sql = format!(
            "SELECT {RECORD} FROM keys WHERE {filter}
             ORDER BY revoked_at IS NOT NULL, id DESC LIMIT ?1"
        );
        let values = values![i64::from(LISTED_MAX), scope.account()];
        let mut records = self.shared.store.query(sql, values, record).await?;
        records.sort_by_key(|record| Reverse(record.id));
        self.add_uses(&mut records);
        Ok(records)
    }

    /// Adds the uses that are not stored yet to `records`.
    fn add_uses<'r>(&self, records: impl IntoIterator<Item = &'r mut KeyRecord>) {
        let cache = self.shared.cache.lock();
        for record in records {
            record.used_at = record.used_at.max(cache.last_use(record.id));
        }
    }

    /// Returns the key `id` if it is in `scope`, even if it is revoked.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn key(&self, scope: Scope, id: KeyId) -> Result<Option<KeyRecord>, AccountsError> {
        let sql =
            format!("SELECT {RECORD} FROM keys WHERE id = ?1 AND (?2 IS NULL OR account = ?2)");
        let values = values![id.get(), scope.account()];
        let mut found = self.shared.store.find(sql, values, record).await?;
        self.add_uses(&mut found);
        Ok(found)
    }

    /// Returns the key `id` if it exists and is not revoked.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn find_key(&self, id: KeyId) -> Result<Option<Verified>, AccountsError> {
        let record = self.key(Scope::All, id).await?.filter(|key| key.revoked_at.is_none());
        Ok(record.map(Verified::from))
    }

    /// Permanently revokes the key `id` if it is in `scope`. Returns true if there was such a valid
    /// key.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn revoke_key(&self, scope: Scope, id: KeyId) -> Result<bool, AccountsError> {
        let values = values![id.get(), scope.account(), self.shared.clock.now().micros()];
        self.write_keys(|session| set(session, "revoked_at = ?3", values).boxed()).await
    }

    /// Renames the key `id` if it is in `scope`. Returns true if there is such a valid key.
    ///
    /// # Errors
    /// [`AccountsError::Name`] if `name` is invalid, [`AccountsError::Statement`] if the store fails.
    pub async fn rename_key(
        &self,
        scope: Scope,
        id: KeyId,
        name: &str,
    ) -> Result<bool, AccountsError> {
        let values = values![id.get(), scope.account(), check_name(name)?];
        self.shared.store.write(|session| set(session, "name = ?3", values).boxed()).await
    }

    /// Sets the limits of the key `id`. Returns true if there is such a valid key.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn set_limits(&self, id: KeyId, limits: KeyLimits) -> Result<bool, AccountsError> {
        let KeyLimits { rate, burst, requests_per_day, bytes_per_day } = limits;
        let sql = "rate = ?3, burst = ?4, requests_per_day = ?5, bytes_per_day = ?6";
        let values = values![
            id.get(),
            Scope::All.account(),
            rate.map(i64::from),
            burst.map(i64::from),
            stored(requests_per_day)?,
            stored(bytes_per_day)?,
        ];
        self.write_keys(|session| set(session, sql, values).boxed()).await
    }

    /// Replaces the secret of the key `id` in `scope` and returns the new secret, or `None` if there is
    /// no such valid key. The key keeps its id and everything that it owns. The old secret is rejected
    /// after at most 100 ms.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn renew(&self, scope: Scope, id: KeyId) -> Result<Option<ApiKey>, AccountsError> {
        let key = ApiKey::from_random(rand::random());
        let (hash, prefix) = (KeyHash::from_key(&key), key_prefix(&key));
        let values = values![id.get(), scope.account(), hash.to_bytes(), prefix];
        let sql = "hash = ?3, prefix = ?4";
        let renewed = self.write_keys(move |session| set(session, sql, values).boxed());
        Ok(renewed.await?.then_some(key))
    }

    /// Replaces the secret of the latest key called `name` that belongs to no account, like
    /// [`Self::renew`]. If there is no such key, creates a key. The change is durable once this function
    /// returns.
    ///
    /// # Errors
    /// As [`Self::create_key`].
    pub async fn renew_key(&self, name: &str) -> Result<(KeyId, ApiKey), AccountsError> {
        let key = ApiKey::from_random(rand::random());
        let (hash, prefix) = (KeyHash::from_key(&key), key_prefix(&key));
        let values = values![hash.to_bytes(), name.to_owned(), prefix];
        let sql = "UPDATE keys SET hash = ?1, prefix = ?3 WHERE id = (SELECT max(id) FROM keys
            WHERE name = ?2 AND account IS NULL AND revoked_at IS NULL) RETURNING id";
        let renewed = self.write_keys(move |mut session| {
            async move { session.find(sql, &values, |row| row.get(0)).await }.boxed()
        });
        match renewed.await? {
            Some(id) => Ok((KeyId::new(id), key)),
            None => self.create_key(name).await,
        }
    }

    /// Stores when keys were used since the previous call, and deletes expired sessions.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails. The recent uses of keys are lost in this case.
    pub async fn run_maintenance(&self) -> Result<(), AccountsError> {
        let now = self.shared.clock.now().micros();
        let used: Vec<_> = self.shared.cache.lock().take_used().into_iter().collect();
        let write = self.shared.store.write(move |mut session| {
            async move {
                for uses in used.chunks(USED_STEP) {
                    let uses = uses.iter().map(|(id, at)| format!("({id}, {})", at.micros()));
                    let uses = uses.collect::<Vec<_>>().join(", ");
                    let sql = format!(
                        "UPDATE keys SET used_at = column2 FROM (VALUES {uses}) AS uses
                         WHERE id = column1 AND (used_at IS NULL OR used_at < column2)"
                    );
                    session.run(&sql, &values![]).await?;
                }
                sessions::remove_expired(&mut session, now).await
            }
            .boxed()
        });
        write.await
    }

    /// Runs [`Self::run_maintenance`] every half minute and when `group` stops. Checks every second
    /// that the accounts file was not removed or replaced.
    pub fn start_maintenance(&self, group: &Group) {
        let (accounts, stopping) = (self.clone(), group.clone());
        group.spawn_to_end("accounts maintenance", async move {
            let mut last = Instant::now();
            while !stopping.is_stopped() {
                tokio::select! {
                    () = sleep(LOOK_EVERY) => {}
                    () = stopping.stopped() => {}
                }
                if let Store::File(_) = accounts.shared.store
                    && let Err(AccountsError::Replaced) = accounts.check_file().await
                {
                    return;
                }
                if last.elapsed() < MAINTENANCE_EVERY && !stopping.is_stopped() {
                    continue;
                }
                last = Instant::now();
                if let Err(error) = accounts.run_maintenance().await {
                    let cause = task::causes::chain(&error);
                    warn!(cause, "failed to store when keys were last used");
                }
            }
        });
    }
}

/// Sets columns of the key `?1` if it is valid and belongs to the account `?2`. If `?2` is null, the
/// account is not checked. Returns true if there was such a key.
async fn set<const N: usize>(
    mut session: Session<'_>,
    columns: &str,
    values: [Value; N],
) -> Result<bool, AccountsError> {
    let sql = format!(
        "UPDATE keys SET {columns}
         WHERE id = ?1 AND (?2 IS NULL OR account = ?2) AND revoked_at IS NULL"
    );
    Ok(session.run(&sql, &values).await? > 0)
}

/// Converts a limit to the type of the column.
fn stored(limit: Option<u64>) -> Result<Option<i64>, AccountsError> {
    let too_large = |error| AccountsError::Statement(Box::new(error));
    limit.map(i64::try_from).transpose().map_err(too_large)
}

/// Trims a name and validates it.
fn check_name(name: &str) -> Result<String, AccountsError> {
    let name = name.trim();
    let n_chars = name.chars().count();
    if n_chars == 0 || n_chars > NAME_CHARS_MAX || name.chars().any(is_unprintable) {
        return Err(AccountsError::Name);
    }
    Ok(name.to_owned())
}

/// Columns that [`record`] reads.
const RECORD: &str = "id, account, name, prefix, created_at, used_at, revoked_at, rate, burst, \
    requests_per_day, bytes_per_day";

/// Number of columns in [`RECORD`].
const RECORD_COLUMNS: usize = 11;

fn record(row: &Row<'_>) -> Result<KeyRecord, AccountsError> {
    let timestamp = |micros: Option<i64>| micros.map(Timestamp::from_micros);
    Ok(KeyRecord {
        id: KeyId::new(row.get(0)?),
        account: row.get::<Option<i64>>(1)?.map(AccountId::new),
        name: row.get(2)?,
        prefix: row.get(3)?,
        created_at: Timestamp::from_micros(row.get(4)?),
        used_at: timestamp(row.get(5)?),
        revoked_at: timestamp(row.get(6)?),
        limits: KeyLimits {
            rate: row.get_unsigned(7)?,
            burst: row.get_unsigned(8)?,
            requests_per_day: row.get_unsigned(9)?,
            bytes_per_day: row.get_unsigned(10)?,
        },
    })
}
