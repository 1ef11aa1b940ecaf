//! Operations on accounts and their sessions.

use std::fmt;

use crate::{
    Accounts, AccountsError,
    account::{
        AccountId, AccountName, AccountRecord, Password, SESSION_LIFETIME, SessionId,
        SessionRecord, SessionToken, SignUp, clean_user_agent,
    },
    store::sessions::NewSession,
};

/// The most accounts that are listed.
const LISTED_MAX: u32 = 10_000;

/// An account whose password was shown, and which one that was: what begins with it is refused once
/// there is another. Its `Debug` does not show it.
#[derive(Clone)]
pub struct AuthenticatedAccount {
    /// Whose it is.
    pub account: AccountRecord,
    /// The hash of the password, as the file has it.
    hash: String,
}

impl fmt::Debug for AuthenticatedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthenticatedAccount")
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
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
    /// many passwords are being hashed, [`AccountsError::Store`] if the file fails.
    pub async fn add_account(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AccountRecord, AccountsError> {
        Ok(self.register(name, password).await?.account)
    }

    /// The same for a person who is to be logged in with it.
    ///
    /// # Errors
    /// As [`Self::add_account`].
    pub async fn register(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let hash = self.shared.passwords.hash(password).await?;
        let inserted = self.with_store(move |shared, store| {
            let account = store.insert_account(&name, &hash, shared.clock.now())?;
            Ok(account.map(|account| AuthenticatedAccount { account, hash }))
        });
        inserted.await?.ok_or(AccountsError::NameTaken)
    }

    /// Returns the account of that name and password.
    ///
    /// It takes as long whether or not there is an account of that name.
    ///
    /// # Errors
    /// [`AccountsError::WrongPassword`] if there is none, [`AccountsError::Busy`] if too many
    /// passwords are being hashed, [`AccountsError::Store`] if the file fails.
    pub async fn authenticate(
        &self,
        name: AccountName,
        password: Password,
    ) -> Result<AuthenticatedAccount, AccountsError> {
        let found = self.with_reads(move |_, store| store.account(&name)).await?;
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
    /// [`AccountsError::Store`] if the file fails.
    pub async fn begin_session(
        &self,
        AuthenticatedAccount { account, hash: password_hash }: AuthenticatedAccount,
        user_agent: &str,
    ) -> Result<StartedSession, AccountsError> {
        let token = SessionToken::random();
        let created_at = self.shared.clock.now();
        let session = NewSession {
            account: account.id,
            client: clean_user_agent(user_agent),
            created_at,
            expires_at: created_at + SESSION_LIFETIME,
        };
        let hash = token.hash();
        let begun = self
            .with_store(move |_, store| store.insert_session(hash, &session, &password_hash))
            .await?;
        begun.map(|_| StartedSession { account, token }).ok_or(AccountsError::WrongPassword)
    }

    /// Returns the session that `token` stands for, and its account; none if it ended or expired.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn session(
        &self,
        token: &SessionToken,
    ) -> Result<Option<(SessionId, AccountRecord)>, AccountsError> {
        let hash = token.hash();
        self.with_reads(move |shared, store| store.session(hash, shared.clock.now())).await
    }

    /// Returns the account's sessions, newest first.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn sessions(&self, account: AccountId) -> Result<Vec<SessionRecord>, AccountsError> {
        self.with_reads(move |shared, store| store.sessions(account, shared.clock.now())).await
    }

    /// Ends one session of the account; whether there was one.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn end_session(
        &self,
        account: AccountId,
        id: SessionId,
    ) -> Result<bool, AccountsError> {
        self.with_store(move |_, store| store.end_session(account, id)).await
    }

    /// Ends the account's sessions but `kept`; how many.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn end_sessions_but(
        &self,
        account: AccountId,
        kept: SessionId,
    ) -> Result<u64, AccountsError> {
        self.with_store(move |_, store| store.end_sessions_but(account, kept)).await
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
        let changed = self.with_store(move |_, store| {
            store.set_password(account, Some(&known), &hash, Some(kept))
        });
        changed.await?.ok_or(AccountsError::WrongPassword)
    }

    /// Gives the account of that name another password, as operators may, and ends its sessions;
    /// returns how many, none if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn set_password(
        &self,
        name: AccountName,
        new: Password,
    ) -> Result<Option<u64>, AccountsError> {
        let hash = self.shared.passwords.hash(new).await?;
        self.with_store(move |_, store| {
            let Some((account, _)) = store.account(&name)? else { return Ok(None) };
            store.set_password(account.id, None, &hash, None)
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
            .with_keys(move |shared, store| store.delete_account(account, shared.clock.now()))
            .await?;
        deleted.ok_or(AccountsError::WrongPassword)
    }

    /// Deletes the account of that name, as operators may, and returns how many keys that revoked;
    /// none if there is no such account.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn remove_account(&self, name: AccountName) -> Result<Option<u64>, AccountsError> {
        self.with_keys(move |shared, store| {
            let Some((account, _)) = store.account(&name)? else { return Ok(None) };
            store.delete_account(account.id, shared.clock.now())
        })
        .await
    }

    /// Returns the account of that name.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn account(&self, name: AccountName) -> Result<Option<AccountRecord>, AccountsError> {
        let found = self.with_reads(move |_, store| store.account(&name)).await?;
        Ok(found.map(|(account, _)| account))
    }

    /// Returns the accounts, oldest first; at most 10 000.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn accounts(&self) -> Result<Vec<AccountRecord>, AccountsError> {
        self.with_reads(|_, store| store.accounts(LISTED_MAX)).await
    }

    /// Returns whether anyone may sign up.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn sign_up(&self) -> Result<SignUp, AccountsError> {
        self.with_reads(|_, store| store.sign_up()).await
    }

    /// Says whether anyone may sign up, to every process that has the file open.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn set_sign_up(&self, sign_up: SignUp) -> Result<(), AccountsError> {
        self.with_store(move |_, store| store.set_sign_up(sign_up)).await
    }

    /// Closes sign-up, unless an operator ever said whether anyone may; returns whether it did.
    ///
    /// # Errors
    /// [`AccountsError::Store`] if the file fails.
    pub async fn close_sign_up_by_default(&self) -> Result<bool, AccountsError> {
        self.with_store(|_, store| store.close_sign_up_by_default()).await
    }

    /// The hash of the account's password, if that is `password`.
    async fn confirm_password(
        &self,
        account: AccountId,
        password: Password,
    ) -> Result<String, AccountsError> {
        let hash = self.with_reads(move |_, store| store.password_hash(account)).await?;
        let matches = self.shared.passwords.matches(password, hash.clone()).await?;
        hash.filter(|_| matches).ok_or(AccountsError::WrongPassword)
    }
}
