//! Operations on accounts and their sessions.

use futures::FutureExt as _;
use model::timestamp::Timestamp;

use super::sql::{Row, Session, Value, values};
use crate::account::{
    AccountId, AccountName, AccountRecord, Password, SESSION_LIFETIME, SessionId, SessionRecord,
    SessionToken, SignUp, clean_user_agent,
};
use crate::{Accounts, AccountsError};

/// Maximum number of listed accounts.
const LISTED_MAX: i64 = 10_000;

/// Maximum number of sessions per account. A log-in that exceeds this maximum deletes the oldest
/// session.
const SESSIONS_MAX: i64 = 50;

/// Name under which the sign-up setting is stored.
const SIGN_UP: &str = "sign_up";

/// An account of which the password was verified. The hash is hidden in `Debug`.
#[derive(derive_more::Debug, Clone)]
pub struct AuthenticatedAccount {
    /// Account whose password was verified.
    pub account: AccountRecord,
    /// Stored hash with which the password was verified. If the stored hash has changed since, no
    /// session is started.
    #[debug(skip)]
    hash: String,
}

/// An account with a new session.
#[derive(Debug, Clone)]
pub struct StartedSession {
    /// Account to which the session belongs.
    pub account: AccountRecord,
    /// Token for the browser's cookie.
    pub token: SessionToken,
}

impl Accounts {
    /// Creates an account. The account is durable once this function returns. The caller must check
    /// that sign-up is open.
    ///
    /// # Errors
    /// [`AccountsError::NameTaken`] if the name exists, [`AccountsError::Busy`] if too many passwords
    /// are being hashed, [`AccountsError::Statement`] if the store fails.
    pub async fn register(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let hash = self.shared.passwords.hash(password).await?;
        let created_at = self.shared.clock.now();
        let text = name.as_str().to_owned();
        let values = values![text.clone(), name.to_lowercase(), hash.clone(), created_at.micros()];
        let sql = "INSERT INTO accounts (name, folded, password, created_at)
            VALUES (?1, ?2, ?3, ?4) ON CONFLICT (folded) DO NOTHING RETURNING id";
        let inserted = self.shared.store.write(move |mut session| {
            async move { session.find(sql, &values, |row| row.get(0)).await }.boxed()
        });
        let id = inserted.await?.map(AccountId::new).ok_or(AccountsError::NameTaken)?;
        let account = AccountRecord { id, name: text, created_at };
        Ok(AuthenticatedAccount { account, hash })
    }

    /// Returns the account with this name and password. Takes the same time whether or not such an
    /// account exists.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if no account matches, [`AccountsError::Busy`] if too many
    /// passwords are being hashed, [`AccountsError::Statement`] if the store fails.
    pub async fn authenticate(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let (account, hash) = self.find_account(name).await?.unzip();
        let matches = self.shared.passwords.matches(password, hash.clone()).await?;
        let authenticated = account.zip(hash).filter(|_| matches);
        let (account, hash) = authenticated.ok_or(AccountsError::WrongPassword)?;
        Ok(AuthenticatedAccount { account, hash })
    }

    /// Starts a session of the account for a browser with this `user_agent`.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if the account was deleted or its password changed,
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn begin_session(
        &self,
        AuthenticatedAccount { account, hash: password_hash }: AuthenticatedAccount,
        user_agent: &str,
    ) -> Result<StartedSession, AccountsError> {
        let token = SessionToken::random();
        let created_at = self.shared.clock.now();
        let (id, hash, client) = (account.id.get(), token.hash(), clean_user_agent(user_agent));
        let (begins, ends) = (created_at.micros(), (created_at + SESSION_LIFETIME).micros());
        let values = values![hash, id, client, begins, ends, password_hash];
        let n_begun = self.shared.store.write(move |mut session| {
            async move {
                let sql = "INSERT INTO sessions (hash, account, client, created_at, expires_at)
                    SELECT ?1, id, ?3, ?4, ?5 FROM accounts WHERE id = ?2 AND password = ?6";
                let n_begun = session.run(sql, &values).await?;
                let sql = "DELETE FROM sessions WHERE account = ?1 AND id <= (SELECT id
                    FROM sessions WHERE account = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
                session.run(sql, &values![id, SESSIONS_MAX]).await?;
                Ok(n_begun)
            }
            .boxed()
        });
        if n_begun.await? == 0 {
            return Err(AccountsError::WrongPassword);
        }
        Ok(StartedSession { account, token })
    }

    /// Returns the session of `token` and its account, or `None` if the session has ended or expired.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn session(
        &self,
        token: &SessionToken,
    ) -> Result<Option<(SessionId, AccountRecord)>, AccountsError> {
        let hash = token.hash();
        let sql = "SELECT accounts.id, name, accounts.created_at, sessions.id
            FROM sessions JOIN accounts ON accounts.id = account
            WHERE hash = ?1 AND expires_at > ?2";
        let values = values![hash, self.shared.clock.now().micros()];
        let read = |row: &Row<'_>| Ok((SessionId::new(row.get(3)?), account(row)?));
        self.shared.store.find(sql, values, read).await
    }

    /// Returns the account's sessions, newest first.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn sessions(&self, account: AccountId) -> Result<Vec<SessionRecord>, AccountsError> {
        let sql = "SELECT id, client, created_at, expires_at FROM sessions
            WHERE account = ?1 AND expires_at > ?2 ORDER BY id DESC";
        let values = values![account.get(), self.shared.clock.now().micros()];
        let read = |row: &Row<'_>| {
            Ok(SessionRecord {
                id: SessionId::new(row.get(0)?),
                client: row.get(1)?,
                created_at: Timestamp::from_micros(row.get(2)?),
                expires_at: Timestamp::from_micros(row.get(3)?),
            })
        };
        self.shared.store.query(sql, values, read).await
    }

    /// Ends a session of the account. Returns true if the session existed.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn end_session(
        &self,
        account: AccountId,
        id: SessionId,
    ) -> Result<bool, AccountsError> {
        let sql = "DELETE FROM sessions WHERE account = ?1 AND id = ?2";
        Ok(self.run(sql, values![account.get(), id.get()]).await? > 0)
    }

    /// Ends all sessions of the account except `kept`. Returns the number of ended sessions.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn end_sessions_but(
        &self,
        account: AccountId,
        kept: SessionId,
    ) -> Result<u64, AccountsError> {
        self.run(END_SESSIONS, values![account.get(), Some(kept.get())]).await
    }

    /// Changes the account's password from `current` to `new` and ends all its sessions except `kept`.
    /// Returns the number of ended sessions.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if `current` is wrong or the password was changed concurrently.
    /// Otherwise as [`Self::authenticate`].
    pub async fn change_password(
        &self,
        account: AccountId,
        current: Password,
        new: Password,
        kept: SessionId,
    ) -> Result<u64, AccountsError> {
        let known = self.confirm_password(account, current).await?;
        let hash = self.shared.passwords.hash(new).await?;
        let changed = self.replace_password(account, Some(known), hash, Some(kept)).await?;
        changed.ok_or(AccountsError::WrongPassword)
    }

    /// Sets the password of the account with this name without its current password, for an operator,
    /// and ends its sessions. Returns the number of ended sessions, or `None` if there is no such
    /// account.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn set_password(
        &self,
        name: AccountName,
        new: Password,
    ) -> Result<Option<u64>, AccountsError> {
        let Some((account, _)) = self.find_account(name).await? else { return Ok(None) };
        let hash = self.shared.passwords.hash(new).await?;
        self.replace_password(account.id, None, hash, None).await
    }

    /// Deletes the account if `password` is correct. Returns the number of revoked keys.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if the password is wrong. Otherwise as [`Self::authenticate`].
    pub async fn delete_account(
        &self,
        account: AccountId,
        password: Password,
    ) -> Result<u64, AccountsError> {
        self.confirm_password(account, password).await?;
        let now = self.shared.clock.now();
        let deleted = self.write_keys(move |session| delete(session, account, now).boxed());
        deleted.await?.ok_or(AccountsError::WrongPassword)
    }

    /// Deletes the account with this name without its password, for an operator. Returns the number of
    /// revoked keys, or `None` if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn remove_account(&self, name: AccountName) -> Result<Option<u64>, AccountsError> {
        let now = self.shared.clock.now();
        match self.find_account(name).await? {
            Some((account, _)) => {
                self.write_keys(move |session| delete(session, account.id, now).boxed()).await
            }
            None => Ok(None),
        }
    }

    /// Returns the account with this name, or `None` if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn account(&self, name: AccountName) -> Result<Option<AccountRecord>, AccountsError> {
        Ok(self.find_account(name).await?.map(|(account, _)| account))
    }

    /// Returns at most 10 000 accounts, oldest first.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn accounts(&self) -> Result<Vec<AccountRecord>, AccountsError> {
        let sql = "SELECT id, name, created_at FROM accounts ORDER BY id LIMIT ?1";
        self.shared.store.query(sql, values![LISTED_MAX], account).await
    }

    /// Returns the setting for sign-up.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn sign_up(&self) -> Result<SignUp, AccountsError> {
        let sql = "SELECT value FROM settings WHERE name = ?1";
        let name = values![SIGN_UP.to_owned()];
        let value = self.shared.store.find(sql, name, |row| row.get::<String>(0)).await?;
        // Sign-up is closed if another version of the program stored a setting that this version does
        // not know.
        Ok(value.map_or(SignUp::Open, |value| value.parse().unwrap_or(SignUp::Closed)))
    }

    /// Stores the setting for sign-up, which applies to every process that uses these accounts.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn set_sign_up(&self, sign_up: SignUp) -> Result<(), AccountsError> {
        let sql = "INSERT INTO settings (name, value) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.run(sql, values![SIGN_UP.to_owned(), sign_up.to_string()]).await.map(drop)
    }

    /// Closes sign-up if no setting is stored yet. Returns true if this call closed sign-up.
    ///
    /// # Errors
    /// [`AccountsError::Statement`] if the store fails.
    pub async fn close_sign_up_by_default(&self) -> Result<bool, AccountsError> {
        let sql =
            "INSERT INTO settings (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
        Ok(self.run(sql, values![SIGN_UP.to_owned(), SignUp::Closed.to_string()]).await? > 0)
    }

    /// Changes an account's password and ends all its sessions except `kept`. Returns the number of
    /// ended sessions. Returns `None` without a change if there is no such account, or its password
    /// hash is no longer `expected`.
    async fn replace_password(
        &self,
        account: AccountId,
        expected: Option<String>,
        hash: String,
        kept: Option<SessionId>,
    ) -> Result<Option<u64>, AccountsError> {
        let sql =
            "UPDATE accounts SET password = ?3 WHERE id = ?1 AND (?2 IS NULL OR password = ?2)";
        let write = self.shared.store.write(move |mut session| {
            async move {
                match session.run(sql, &values![account.get(), expected, hash]).await? {
                    0 => Ok(None),
                    _ => end_sessions(&mut session, account, kept).await.map(Some),
                }
            }
            .boxed()
        });
        write.await
    }

    /// Returns the account with this name and the hash of its password.
    async fn find_account(
        &self,
        name: AccountName,
    ) -> Result<Option<(AccountRecord, String)>, AccountsError> {
        self.shared.store.find(FIND_ACCOUNT, values![name.to_lowercase()], account_with_hash).await
    }

    /// Runs a single statement that writes. Returns the number of changed rows.
    async fn run<const N: usize>(
        &self,
        sql: &'static str,
        values: [Value; N],
    ) -> Result<u64, AccountsError> {
        let write = self
            .shared
            .store
            .write(move |mut session| async move { session.run(sql, &values).await }.boxed());
        write.await
    }

    /// Returns the account's password hash if `password` is correct.
    async fn confirm_password(
        &self,
        account: AccountId,
        password: Password,
    ) -> Result<String, AccountsError> {
        let sql = "SELECT password FROM accounts WHERE id = ?1";
        let values = values![account.get()];
        let hash = self.shared.store.find(sql, values, |row| row.get::<String>(0)).await?;
        let matches = self.shared.passwords.matches(password, hash.clone()).await?;
        hash.filter(|_| matches).ok_or(AccountsError::WrongPassword)
    }
}

/// Statement that ends all sessions of account `?1`, except session `?2` if `?2` is not null.
const END_SESSIONS: &str = "DELETE FROM sessions WHERE account = ?1 AND id IS DISTINCT FROM ?2";

/// Statement that finds an account by its name in lower case, with the columns that
/// [`account_with_hash`] reads.
const FIND_ACCOUNT: &str = "SELECT id, name, created_at, password FROM accounts WHERE folded = ?1";

/// Reads an account and its password hash from a row.
fn account_with_hash(row: &Row<'_>) -> Result<(AccountRecord, String), AccountsError> {
    Ok((account(row)?, row.get(3)?))
}

/// Ends all sessions of an account except `kept`. Returns the number of ended sessions.
async fn end_sessions(
    session: &mut Session<'_>,
    account: AccountId,
    kept: Option<SessionId>,
) -> Result<u64, AccountsError> {
    session.run(END_SESSIONS, &values![account.get(), kept.map(SessionId::get)]).await
}

/// Deletes an account with its sessions and revokes its keys. Returns the number of revoked keys, or
/// `None` if the account does not exist. The names of the keys are deleted, since they might be
/// personal. The ids of the keys remain, so that they are not reused.
async fn delete(
    mut session: Session<'_>,
    account: AccountId,
    now: Timestamp,
) -> Result<Option<u64>, AccountsError> {
    let id = account.get();
    let sql = "SELECT count(*) FROM keys WHERE account = ?1 AND revoked_at IS NULL";
    let n_revoked = session.find(sql, &values![id], |row| row.get_unsigned(0)).await?.flatten();
    let sql = "UPDATE keys SET account = NULL, name = 'key ' || id,
        revoked_at = coalesce(revoked_at, ?2) WHERE account = ?1";
    session.run(sql, &values![id, now.micros()]).await?;
    end_sessions(&mut session, account, None).await?;
    let n_deleted = session.run("DELETE FROM accounts WHERE id = ?1", &values![id]).await?;
    Ok(n_revoked.filter(|_| n_deleted > 0))
}

pub(super) async fn remove_expired(
    session: &mut Session<'_>,
    now: i64,
) -> Result<(), AccountsError> {
    let sql = "DELETE FROM sessions WHERE expires_at <= ?1";
    session.run(sql, &values![now]).await.map(drop)
}

fn account(row: &Row<'_>) -> Result<AccountRecord, AccountsError> {
    Ok(AccountRecord {
        id: AccountId::new(row.get(0)?),
        name: row.get(1)?,
        created_at: Timestamp::from_micros(row.get(2)?),
    })
}
