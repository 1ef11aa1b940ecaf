//! Operations on accounts and their sessions.

use db::statement::Statements as _;
use model::timestamp::Timestamp;
use rusqlite::{Connection, Result as SqlResult, Row, params};

use crate::{
    Accounts, AccountsError,
    account::{
        AccountId, AccountName, AccountRecord, Password, SESSION_LIFETIME, SessionId,
        SessionRecord, SessionToken, SignUp, clean_user_agent,
    },
};

/// The most accounts that are listed.
const LISTED_MAX: u32 = 10_000;

/// Sessions of one account. One more ends the oldest.
const SESSIONS_MAX: u32 = 50;

/// The setting that says whether anyone may sign up.
const SIGN_UP: &str = "sign_up";

/// An account whose password was shown, and which one that was: what begins with it is refused once
/// there is another. Its `Debug` does not show it.
#[derive(derive_more::Debug, Clone)]
pub struct AuthenticatedAccount {
    /// Whose it is.
    pub account: AccountRecord,
    /// The hash of the password, as the file has it.
    #[debug(skip)]
    hash: String,
}

/// An account with a session that has just begun.
#[derive(Debug, Clone)]
pub struct StartedSession {
    /// Whose it is.
    pub account: AccountRecord,
    /// What the browser is to show from now on.
    pub token: SessionToken,
}

impl Accounts {
    /// Makes an account. On return it is durable. Whether anyone may is for the caller to ask.
    ///
    /// # Errors
    /// [`AccountsError::NameTaken`] if there is one of that name, [`AccountsError::Busy`] if too
    /// many passwords are being hashed, [`AccountsError::Statement`] if the file fails.
    pub async fn register(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let hash = self.shared.passwords.hash(password).await?;
        let inserted = self.write(move |shared, write| {
            let created_at = shared.clock.now();
            let n_inserted = write.run(
                "INSERT INTO accounts (name, folded, password, created_at)
                 VALUES (?1, ?2, ?3, ?4) ON CONFLICT (folded) DO NOTHING",
                params![name.as_str(), name.to_lowercase(), hash, created_at.micros()],
            )?;
            let id = AccountId::new(write.last_insert_rowid());
            let account = AccountRecord { id, name: name.as_str().to_owned(), created_at };
            Ok((n_inserted > 0).then_some(AuthenticatedAccount { account, hash }))
        });
        inserted.await?.ok_or(AccountsError::NameTaken)
    }

    /// Returns the account of that name and password.
    ///
    /// It takes as long whether or not there is an account of that name.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if there is none, [`AccountsError::Busy`] if too many
    /// passwords are being hashed, [`AccountsError::Statement`] if the file fails.
    pub async fn authenticate(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let found = self.read(move |_, reads| find_account(reads, &name)).await?;
        let (account, hash) = found.unzip();
        let matches = self.shared.passwords.matches(password, hash.clone()).await?;
        let authenticated = account.zip(hash).filter(|_| matches);
        let (account, hash) = authenticated.ok_or(AccountsError::WrongPassword)?;
        Ok(AuthenticatedAccount { account, hash })
    }

    /// Begins a session of the account for a browser that calls itself `user_agent`.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if the account is gone or has another password by now,
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn begin_session(
        &self,
        AuthenticatedAccount { account, hash: password_hash }: AuthenticatedAccount,
        user_agent: &str,
    ) -> Result<StartedSession, AccountsError> {
        let token = SessionToken::random();
        let created_at = self.shared.clock.now();
        let (id, hash, client) = (account.id.get(), token.hash(), clean_user_agent(user_agent));
        let (begins, ends) = (created_at.micros(), (created_at + SESSION_LIFETIME).micros());
        let n_begun = self.write(move |_, write| {
            let n_begun = write.run(
                "INSERT INTO sessions (hash, account, client, created_at, expires_at)
                 SELECT ?1, id, ?3, ?4, ?5 FROM accounts WHERE id = ?2 AND password = ?6",
                params![hash, id, client, begins, ends, password_hash],
            )?;
            write.run(
                "DELETE FROM sessions WHERE account = ?1 AND id <=
                 (SELECT id FROM sessions WHERE account = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                params![id, SESSIONS_MAX],
            )?;
            Ok(n_begun)
        });
        if n_begun.await? == 0 {
            return Err(AccountsError::WrongPassword);
        }
        Ok(StartedSession { account, token })
    }

    /// Returns the session that `token` stands for, and its account; none if it ended or expired.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn session(
        &self,
        token: &SessionToken,
    ) -> Result<Option<(SessionId, AccountRecord)>, AccountsError> {
        let hash = token.hash();
        let sql = "SELECT accounts.id, name, accounts.created_at, sessions.id
            FROM sessions JOIN accounts ON accounts.id = account
            WHERE hash = ?1 AND expires_at > ?2";
        self.read(move |shared, reads| {
            reads.find(sql, params![hash, shared.clock.now().micros()], |row| {
                Ok((SessionId::new(row.get(3)?), account(row)?))
            })
        })
        .await
    }

    /// Returns the account's sessions, newest first.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn sessions(&self, account: AccountId) -> Result<Vec<SessionRecord>, AccountsError> {
        let sql = "SELECT id, client, created_at, expires_at FROM sessions
            WHERE account = ?1 AND expires_at > ?2 ORDER BY id DESC";
        self.read(move |shared, reads| {
            reads.all(sql, [account.get(), shared.clock.now().micros()], |row| {
                Ok(SessionRecord {
                    id: SessionId::new(row.get(0)?),
                    client: row.get(1)?,
                    created_at: Timestamp::from_micros(row.get(2)?),
                    expires_at: Timestamp::from_micros(row.get(3)?),
                })
            })
        })
        .await
    }

    /// Ends one session of the account; whether there was one.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn end_session(
        &self,
        account: AccountId,
        id: SessionId,
    ) -> Result<bool, AccountsError> {
        let sql = "DELETE FROM sessions WHERE account = ?1 AND id = ?2";
        self.write(move |_, write| Ok(write.run(sql, [account.get(), id.get()])? > 0)).await
    }

    /// Ends the account's sessions but `kept`; how many.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn end_sessions_but(
        &self,
        account: AccountId,
        kept: SessionId,
    ) -> Result<u64, AccountsError> {
        self.write(move |_, write| end_sessions(write, account, Some(kept))).await
    }

    /// Changes the account's password from `current` to `new`, and ends its sessions but `kept`;
    /// returns how many.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if `current` is not its password, or no longer when the
    /// change is made; else as [`Self::authenticate`].
    pub async fn change_password(
        &self,
        account: AccountId,
        current: Password,
        new: Password,
        kept: SessionId,
    ) -> Result<u64, AccountsError> {
        let known = self.confirm_password(account, current).await?;
        let hash = self.shared.passwords.hash(new).await?;
        let changed = self.write(move |_, write| {
            replace_password(write, account, Some(&known), &hash, Some(kept))
        });
        changed.await?.ok_or(AccountsError::WrongPassword)
    }

    /// Gives the account of that name another password, as operators may, and ends its sessions;
    /// returns how many, none if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn set_password(
        &self,
        name: AccountName,
        new: Password,
    ) -> Result<Option<u64>, AccountsError> {
        let hash = self.shared.passwords.hash(new).await?;
        self.write(move |_, write| {
            let Some((account, _)) = find_account(write, &name)? else { return Ok(None) };
            replace_password(write, account.id, None, &hash, None)
        })
        .await
    }

    /// Deletes the account, if `password` is its own, and returns how many keys that revoked.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if it is not, else as [`Self::authenticate`].
    pub async fn delete_account(
        &self,
        account: AccountId,
        password: Password,
    ) -> Result<u64, AccountsError> {
        self.confirm_password(account, password).await?;
        let deleted = self
            .write_keys(move |shared, write| delete(write, account, shared.clock.now()))
            .await?;
        deleted.ok_or(AccountsError::WrongPassword)
    }

    /// Deletes the account of that name, as operators may, and returns how many keys that revoked;
    /// none if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn remove_account(&self, name: AccountName) -> Result<Option<u64>, AccountsError> {
        self.write_keys(move |shared, write| {
            let Some((account, _)) = find_account(write, &name)? else { return Ok(None) };
            delete(write, account.id, shared.clock.now())
        })
        .await
    }

    /// Returns the account of that name.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn account(&self, name: AccountName) -> Result<Option<AccountRecord>, AccountsError> {
        let found = self.read(move |_, reads| find_account(reads, &name)).await?;
        Ok(found.map(|(account, _)| account))
    }

    /// Returns the accounts, oldest first; at most 10 000.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn accounts(&self) -> Result<Vec<AccountRecord>, AccountsError> {
        let sql = "SELECT id, name, created_at FROM accounts ORDER BY id LIMIT ?1";
        self.read(move |_, reads| reads.all(sql, [LISTED_MAX], account)).await
    }

    /// Returns whether anyone may sign up.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn sign_up(&self) -> Result<SignUp, AccountsError> {
        let sql = "SELECT value FROM settings WHERE name = ?1";
        let value = self.read(move |_, reads| reads.find(sql, [SIGN_UP], |row| row.get(0)));
        let value: Option<String> = value.await?;
        // A word this program does not know is no leave to let anyone in.
        Ok(value.map_or(SignUp::Open, |value| value.parse().unwrap_or(SignUp::Closed)))
    }

    /// Says whether anyone may sign up, to every process that has the file open.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn set_sign_up(&self, sign_up: SignUp) -> Result<(), AccountsError> {
        let sql = "INSERT INTO settings (name, value) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.write(move |_, write| write.run(sql, [SIGN_UP, &sign_up.to_string()]).map(drop)).await
    }

    /// Closes sign-up, unless an operator ever said whether anyone may; returns whether it did.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the file fails.
    pub async fn close_sign_up_by_default(&self) -> Result<bool, AccountsError> {
        let sql = "INSERT OR IGNORE INTO settings (name, value) VALUES (?1, ?2)";
        self.write(move |_, write| Ok(write.run(sql, [SIGN_UP, &SignUp::Closed.to_string()])? > 0))
            .await
    }

    /// The hash of the account's password, if that is `password`.
    async fn confirm_password(
        &self,
        account: AccountId,
        password: Password,
    ) -> Result<String, AccountsError> {
        let sql = "SELECT password FROM accounts WHERE id = ?1";
        let hash = self.read(move |_, reads| reads.find(sql, [account.get()], |row| row.get(0)));
        let hash: Option<String> = hash.await?;
        let matches = self.shared.passwords.matches(password, hash.clone()).await?;
        hash.filter(|_| matches).ok_or(AccountsError::WrongPassword)
    }
}

/// The account of that name, in any case, and the hash of its password.
fn find_account(
    connection: &Connection,
    name: &AccountName,
) -> SqlResult<Option<(AccountRecord, String)>> {
    let sql = "SELECT id, name, created_at, password FROM accounts WHERE folded = ?1";
    connection.find(sql, [name.to_lowercase()], |row| Ok((account(row)?, row.get(3)?)))
}

/// Changes an account's password and ends its sessions but `kept`; how many ended. None if there
/// is no such account, or its password is no longer the one hashed to `expected`.
fn replace_password(
    write: &Connection,
    account: AccountId,
    expected: Option<&str>,
    hash: &str,
    kept: Option<SessionId>,
) -> SqlResult<Option<u64>> {
    let n_changed = write.run(
        "UPDATE accounts SET password = ?3 WHERE id = ?1 AND (?2 IS NULL OR password = ?2)",
        params![account.get(), expected, hash],
    )?;
    if n_changed == 0 { Ok(None) } else { end_sessions(write, account, kept).map(Some) }
}

/// Ends the sessions of an account but `kept`; how many.
fn end_sessions(write: &Connection, account: AccountId, kept: Option<SessionId>) -> SqlResult<u64> {
    let sql = "DELETE FROM sessions WHERE account = ?1 AND id IS NOT ?2";
    let n_ended = write.run(sql, params![account.get(), kept.map(SessionId::get)])?;
    Ok(u64::try_from(n_ended).unwrap_or(u64::MAX))
}

/// Deletes an account with its sessions, and revokes its keys; how many. None if there was none.
/// The keys' numbers stay taken, and their names, which may be personal, go.
fn delete(write: &Connection, account: AccountId, now: Timestamp) -> SqlResult<Option<u64>> {
    let id = account.get();
    let sql = "SELECT count(*) FROM keys WHERE account = ?1 AND revoked_at IS NULL";
    let n_revoked = write.value(sql, [id])?;
    write.run(
        "UPDATE keys SET account = NULL, name = 'key ' || id,
         revoked_at = coalesce(revoked_at, ?2) WHERE account = ?1",
        [id, now.micros()],
    )?;
    end_sessions(write, account, None)?;
    let n_deleted = write.run("DELETE FROM accounts WHERE id = ?1", [id])?;
    Ok((n_deleted > 0).then_some(n_revoked))
}

/// When the newest session began; `None` if there is no session.
pub(crate) fn find_newest(reads: &Connection) -> SqlResult<Option<Timestamp>> {
    let newest: Option<i64> = reads.value("SELECT max(created_at) FROM sessions", [])?;
    Ok(newest.map(Timestamp::from_micros))
}

pub(super) fn remove_expired(write: &Connection, now: Timestamp) -> SqlResult<()> {
    write.run("DELETE FROM sessions WHERE expires_at <= ?1", [now.micros()]).map(drop)
}

fn account(row: &Row<'_>) -> SqlResult<AccountRecord> {
    Ok(AccountRecord {
        id: AccountId::new(row.get(0)?),
        name: row.get(1)?,
        created_at: Timestamp::from_micros(row.get(2)?),
    })
}
