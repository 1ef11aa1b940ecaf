//! Queries and changes of accounts, sessions and settings.

use model::timestamp::Timestamp;
use rusqlite::{OptionalExtension as _, Row, params};

use super::{Store, StoreError};
use crate::account::{
    AccountId, AccountName, AccountRecord, SessionHash, SessionId, SessionRecord, SignUp,
};

/// Sessions of one account. One more ends the oldest.
const SESSIONS_MAX: u32 = 50;

/// The setting that says whether anyone may sign up.
const SIGN_UP: &str = "sign_up";

/// A session that is to be in the file.
#[derive(Debug)]
pub(crate) struct NewSession {
    pub(crate) account: AccountId,
    pub(crate) client: String,
    pub(crate) created_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

impl Store {
    /// Makes an account; none if the name is taken.
    pub(crate) fn insert_account(
        &mut self,
        name: &AccountName,
        password_hash: &str,
        now: Timestamp,
    ) -> Result<Option<AccountRecord>, StoreError> {
        let write = self.write()?;
        let n_inserted = write.execute(
            "INSERT INTO accounts (name, folded, password, created_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (folded) DO NOTHING",
            params![name.as_str(), name.to_lowercase(), password_hash, now.micros()],
        )?;
        let id = AccountId::new(write.last_insert_rowid());
        write.commit()?;
        let name = name.as_str().to_owned();
        Ok((n_inserted > 0).then_some(AccountRecord { id, name, created_at: now }))
    }

    /// The account of that name, and the hash of its password.
    pub(crate) fn account(
        &self,
        name: &AccountName,
    ) -> Result<Option<(AccountRecord, String)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, name, created_at, password FROM accounts WHERE folded = ?1",
        )?;
        let found = |row: &Row<'_>| Ok((account(row)?, row.get(3)?));
        Ok(statement.query_row([name.to_lowercase()], found).optional()?)
    }

    /// The hash of an account's password.
    pub(crate) fn password_hash(&self, id: AccountId) -> Result<Option<String>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT password FROM accounts WHERE id = ?1")?;
        Ok(statement.query_row([id.get()], |row| row.get(0)).optional()?)
    }

    /// The accounts, oldest first.
    pub(crate) fn accounts(&self, limit: u32) -> Result<Vec<AccountRecord>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT id, name, created_at FROM accounts ORDER BY id LIMIT ?1")?;
        let records = statement.query_map([limit], account)?;
        Ok(records.collect::<Result<_, _>>()?)
    }

    /// Changes an account's password and ends its sessions but `kept`; how many ended. None if there
    /// is no such account, or its password is no longer the one hashed to `expected`.
    pub(crate) fn set_password(
        &mut self,
        id: AccountId,
        expected: Option<&str>,
        hash: &str,
        kept: Option<SessionId>,
    ) -> Result<Option<u64>, StoreError> {
        let write = self.write()?;
        let n_changed = write.execute(
            "UPDATE accounts SET password = ?3 WHERE id = ?1 AND (?2 IS NULL OR password = ?2)",
            params![id.get(), expected, hash],
        )?;
        if n_changed == 0 {
            return Ok(None);
        }
        let n_ended = write.execute(
            "DELETE FROM sessions WHERE account = ?1 AND id IS NOT ?2",
            params![id.get(), kept.map(SessionId::get)],
        )?;
        write.commit()?;
        Ok(Some(u64::try_from(n_ended).unwrap_or(u64::MAX)))
    }

    /// Deletes an account with its sessions, and revokes its keys; how many. None if there was none.
    /// The keys' numbers stay taken, and their names, which may be personal, go.
    pub(crate) fn delete_account(
        &mut self,
        id: AccountId,
        now: Timestamp,
    ) -> Result<Option<u64>, StoreError> {
        let write = self.write()?;
        let n_revoked: u64 = write.query_row(
            "SELECT count(*) FROM keys WHERE account = ?1 AND revoked_at IS NULL",
            [id.get()],
            |row| row.get(0),
        )?;
        write.execute(
            "UPDATE keys SET account = NULL, name = 'key ' || id,
             revoked_at = coalesce(revoked_at, ?2) WHERE account = ?1",
            params![id.get(), now.micros()],
        )?;
        write.execute("DELETE FROM sessions WHERE account = ?1", [id.get()])?;
        let n_deleted = write.execute("DELETE FROM accounts WHERE id = ?1", [id.get()])?;
        write.commit()?;
        Ok((n_deleted > 0).then_some(n_revoked))
    }

    /// Begins a session; none if its account is gone, or its password is no longer the one hashed
    /// to `expected`.
    pub(crate) fn insert_session(
        &mut self,
        hash: SessionHash,
        session: &NewSession,
        expected: &str,
    ) -> Result<Option<SessionId>, StoreError> {
        let account = session.account.get();
        let (created_at, expires_at) = (session.created_at.micros(), session.expires_at.micros());
        let write = self.write()?;
        let n_inserted = write.execute(
            "INSERT INTO sessions (hash, account, client, created_at, expires_at)
             SELECT ?1, id, ?3, ?4, ?5 FROM accounts WHERE id = ?2 AND password = ?6",
            params![hash.as_bytes(), account, session.client, created_at, expires_at, expected],
        )?;
        let id = SessionId::new(write.last_insert_rowid());
        write.execute(
            "DELETE FROM sessions WHERE account = ?1 AND id <=
             (SELECT id FROM sessions WHERE account = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            params![account, SESSIONS_MAX],
        )?;
        write.commit()?;
        Ok((n_inserted > 0).then_some(id))
    }

    /// The session of that token, if it has not expired, and its account.
    pub(crate) fn session(
        &self,
        hash: SessionHash,
        now: Timestamp,
    ) -> Result<Option<(SessionId, AccountRecord)>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT accounts.id, name, accounts.created_at, sessions.id
             FROM sessions JOIN accounts ON accounts.id = account
             WHERE hash = ?1 AND expires_at > ?2",
        )?;
        let found = |row: &Row<'_>| Ok((SessionId::new(row.get(3)?), account(row)?));
        Ok(statement.query_row(params![hash.as_bytes(), now.micros()], found).optional()?)
    }

    /// The sessions of an account that have not expired, newest first.
    pub(crate) fn sessions(
        &self,
        id: AccountId,
        now: Timestamp,
    ) -> Result<Vec<SessionRecord>, StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, client, created_at, expires_at FROM sessions
             WHERE account = ?1 AND expires_at > ?2 ORDER BY id DESC",
        )?;
        let record = |row: &Row<'_>| {
            Ok(SessionRecord {
                id: SessionId::new(row.get(0)?),
                client: row.get(1)?,
                created_at: Timestamp::from_micros(row.get(2)?),
                expires_at: Timestamp::from_micros(row.get(3)?),
            })
        };
        let records = statement.query_map(params![id.get(), now.micros()], record)?;
        Ok(records.collect::<Result<_, _>>()?)
    }

    /// Ends a session of an account; whether there was one.
    pub(crate) fn end_session(
        &mut self,
        account: AccountId,
        id: SessionId,
    ) -> Result<bool, StoreError> {
        self.change(
            "DELETE FROM sessions WHERE account = ?1 AND id = ?2",
            params![account.get(), id.get()],
        )
    }

    /// Ends the sessions of an account but `kept`; how many.
    pub(crate) fn end_sessions_but(
        &mut self,
        account: AccountId,
        kept: SessionId,
    ) -> Result<u64, StoreError> {
        let write = self.write()?;
        let n_ended = write.execute(
            "DELETE FROM sessions WHERE account = ?1 AND id <> ?2",
            params![account.get(), kept.get()],
        )?;
        write.commit()?;
        Ok(u64::try_from(n_ended).unwrap_or(u64::MAX))
    }

    /// When the newest session began; `None` if there is no session.
    pub(crate) fn newest_session(&self) -> Result<Option<Timestamp>, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT max(created_at) FROM sessions")?;
        let newest: Option<i64> = statement.query_row([], |row| row.get(0))?;
        Ok(newest.map(Timestamp::from_micros))
    }

    /// Lets go of sessions that have expired; whether there were any.
    pub(crate) fn sweep_sessions(&mut self, now: Timestamp) -> Result<bool, StoreError> {
        let is_any = self
            .connection
            .prepare_cached("SELECT 1 FROM sessions WHERE expires_at <= ?1 LIMIT 1")?
            .exists([now.micros()])?;
        // Most often there are none, and then the file is left alone.
        Ok(is_any && self.change("DELETE FROM sessions WHERE expires_at <= ?1", [now.micros()])?)
    }

    /// Whether anyone may sign up.
    pub(crate) fn sign_up(&self) -> Result<SignUp, StoreError> {
        let mut statement =
            self.connection.prepare_cached("SELECT value FROM settings WHERE name = ?1")?;
        let value: Option<String> = statement.query_row([SIGN_UP], |row| row.get(0)).optional()?;
        // A word this program does not know is no leave to let anyone in.
        Ok(value.map_or(SignUp::Open, |value| value.parse().unwrap_or(SignUp::Closed)))
    }

    /// Says whether anyone may sign up.
    pub(crate) fn set_sign_up(&mut self, sign_up: SignUp) -> Result<(), StoreError> {
        self.change(
            "INSERT INTO settings (name, value) VALUES (?1, ?2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            params![SIGN_UP, sign_up.as_str()],
        )
        .map(drop)
    }

    /// Closes sign-up where nothing is said about it; whether it was so.
    pub(crate) fn close_sign_up_by_default(&mut self) -> Result<bool, StoreError> {
        self.change(
            "INSERT OR IGNORE INTO settings (name, value) VALUES (?1, ?2)",
            params![SIGN_UP, SignUp::Closed.as_str()],
        )
    }
}

fn account(row: &Row<'_>) -> rusqlite::Result<AccountRecord> {
    Ok(AccountRecord {
        id: AccountId::new(row.get(0)?),
        name: row.get(1)?,
        created_at: Timestamp::from_micros(row.get(2)?),
    })
}
