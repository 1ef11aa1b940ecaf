//! Queries and changes of API keys.

use std::collections::HashSet;

use model::{key::KeyId, timestamp::Timestamp};
use rusqlite::{OptionalExtension as _, Row, params};
use wire::accounts::KeyLimits;

use super::{Store, StoreError};
use crate::{
    account::AccountId,
    key::{KeyHash, KeyRecord, Scope, Verified},
};

/// A key that is to be in the file.
#[derive(Debug)]
pub(crate) struct NewKey {
    pub(crate) hash: KeyHash,
    pub(crate) prefix: String,
    pub(crate) name: String,
    pub(crate) account: Option<AccountId>,
}

/// What came of a key that is to be in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// It is there.
    Key(KeyId),
    /// The account has as many as it may.
    Full,
}

impl Store {
    /// Puts a key into the file, if its account has fewer than `n_max` good ones. An operator's keys
    /// are not counted.
    pub(crate) fn insert(
        &mut self,
        key: &NewKey,
        n_max: u32,
        now: Timestamp,
    ) -> Result<Inserted, StoreError> {
        let account = key.account.map(AccountId::get);
        let write = self.write()?;
        let n_keys: u32 = write.query_row(
            "SELECT count(*) FROM keys WHERE account = ?1 AND revoked_at IS NULL",
            [account],
            |row| row.get(0),
        )?;
        if n_keys >= n_max {
            return Ok(Inserted::Full);
        }
        write.execute(
            "INSERT INTO keys (hash, prefix, name, account, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![key.hash.as_bytes(), key.prefix, key.name, account, now.micros()],
        )?;
        let id = KeyId::new(write.last_insert_rowid());
        write.commit()?;
        Ok(Inserted::Key(id))
    }

    /// The key of that hash, if it is good.
    pub(crate) fn find(&self, hash: &KeyHash) -> Result<Option<Verified>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, account, rate, burst, requests_per_day, bytes_per_day FROM keys
             WHERE hash = ?1 AND revoked_at IS NULL",
        )?;
        let verified = |row: &Row<'_>| {
            Ok(Verified {
                id: KeyId::new(row.get(0)?),
                account: row.get::<_, Option<i64>>(1)?.map(AccountId::new),
                limits: limits(row, 2)?,
            })
        };
        Ok(statement.query_row([hash.as_bytes()], verified).optional()?)
    }

    /// Keys, newest first. Good ones come before revoked ones, so that the limit leaves those out.
    pub(crate) fn list(&self, scope: Scope, limit: u32) -> Result<Vec<KeyRecord>, StoreError> {
        let sql = |filter: &str| {
            format!(
                "SELECT id, account, name, prefix, created_at, used_at, revoked_at,
                 rate, burst, requests_per_day, bytes_per_day FROM keys {filter}
                 ORDER BY revoked_at IS NOT NULL, id DESC LIMIT ?1"
            )
        };
        let mut records: Vec<KeyRecord> = match scope {
            Scope::All => {
                let mut statement = self.connection.prepare_cached(&sql(""))?;
                let rows = statement.query_map([limit], record)?;
                rows.collect::<Result<_, _>>()?
            }
            Scope::Of(account) => {
                let mut statement = self.connection.prepare_cached(&sql("WHERE account = ?2"))?;
                let rows = statement.query_map(params![limit, account.get()], record)?;
                rows.collect::<Result<_, _>>()?
            }
        };
        records.sort_by_key(|record| std::cmp::Reverse(record.id));
        Ok(records)
    }

    /// One key, good or revoked.
    pub(crate) fn key(&self, scope: Scope, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, account, name, prefix, created_at, used_at, revoked_at,
             rate, burst, requests_per_day, bytes_per_day FROM keys
             WHERE id = ?1 AND (?2 IS NULL OR account = ?2)",
        )?;
        Ok(statement.query_row(params![id.get(), scope.account()], record).optional()?)
    }

    /// Revokes a good key; whether there was one.
    pub(crate) fn revoke(
        &mut self,
        scope: Scope,
        id: KeyId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.change(
            "UPDATE keys SET revoked_at = ?3
             WHERE id = ?1 AND (?2 IS NULL OR account = ?2) AND revoked_at IS NULL",
            params![id.get(), scope.account(), now.micros()],
        )
    }

    /// Gives a good key another name; whether there was one.
    pub(crate) fn rename(
        &mut self,
        scope: Scope,
        id: KeyId,
        name: &str,
    ) -> Result<bool, StoreError> {
        self.change(
            "UPDATE keys SET name = ?3
             WHERE id = ?1 AND (?2 IS NULL OR account = ?2) AND revoked_at IS NULL",
            params![id.get(), scope.account(), name],
        )
    }

    /// Gives a good key limits of its own; whether there was one.
    pub(crate) fn set_limits(&mut self, id: KeyId, limits: KeyLimits) -> Result<bool, StoreError> {
        let KeyLimits { rate, burst, requests_per_day, bytes_per_day } = limits;
        self.change(
            "UPDATE keys SET rate = ?2, burst = ?3, requests_per_day = ?4, bytes_per_day = ?5
             WHERE id = ?1 AND revoked_at IS NULL",
            params![id.get(), rate, burst, requests_per_day, bytes_per_day],
        )
    }

    /// Puts another hash in the place of a good key's; whether there was one.
    pub(crate) fn renew(
        &mut self,
        scope: Scope,
        id: KeyId,
        hash: &KeyHash,
        prefix: &str,
    ) -> Result<bool, StoreError> {
        self.change(
            "UPDATE keys SET hash = ?3, prefix = ?4
             WHERE id = ?1 AND (?2 IS NULL OR account = ?2) AND revoked_at IS NULL",
            params![id.get(), scope.account(), hash.as_bytes(), prefix],
        )
    }

    /// Puts another hash in the place of that of the newest good key called `name` that an operator
    /// made; none if there is none.
    pub(crate) fn renew_by_name(
        &mut self,
        name: &str,
        hash: &KeyHash,
        prefix: &str,
    ) -> Result<Option<KeyId>, StoreError> {
        let write = self.write()?;
        let id = write
            .query_row(
                "UPDATE keys SET hash = ?1, prefix = ?3 WHERE id = (SELECT max(id) FROM keys
                 WHERE name = ?2 AND account IS NULL AND revoked_at IS NULL) RETURNING id",
                params![hash.as_bytes(), name, prefix],
                |row| row.get(0),
            )
            .optional()?;
        write.commit()?;
        Ok(id.map(KeyId::new))
    }

    /// Takes note that keys were used.
    pub(crate) fn note_used(
        &mut self,
        ids: &HashSet<KeyId>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let write = self.write()?;
        {
            let mut statement = write.prepare_cached(
                "UPDATE keys SET used_at = ?2
                 WHERE id = ?1 AND (used_at IS NULL OR used_at < ?2)",
            )?;
            for id in ids {
                statement.execute(params![id.get(), now.micros()])?;
            }
        }
        Ok(write.commit()?)
    }

    /// Makes one change in a transaction; whether it changed anything.
    pub(super) fn change(
        &mut self,
        sql: &str,
        params: impl rusqlite::Params,
    ) -> Result<bool, StoreError> {
        let write = self.write()?;
        let n_changed = write.execute(sql, params)?;
        write.commit()?;
        Ok(n_changed > 0)
    }
}

fn record(row: &Row<'_>) -> rusqlite::Result<KeyRecord> {
    let moment = |micros: Option<i64>| micros.map(Timestamp::from_micros);
    Ok(KeyRecord {
        id: KeyId::new(row.get(0)?),
        account: row.get::<_, Option<i64>>(1)?.map(AccountId::new),
        name: row.get(2)?,
        prefix: row.get(3)?,
        created_at: Timestamp::from_micros(row.get(4)?),
        used_at: moment(row.get(5)?),
        revoked_at: moment(row.get(6)?),
        limits: limits(row, 7)?,
    })
}

fn limits(row: &Row<'_>, first: usize) -> rusqlite::Result<KeyLimits> {
    Ok(KeyLimits {
        rate: row.get(first)?,
        burst: row.get(first + 1)?,
        requests_per_day: row.get(first + 2)?,
        bytes_per_day: row.get(first + 3)?,
    })
}
