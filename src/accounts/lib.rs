//! Accounts, their sessions, and the API keys for the dataset and inference services.
//!
//! One SQLite file contains all accounts and keys. The file contains only hashes of secrets. Each
//! service on a machine opens this file with its own [`Accounts`] and notices changes by other services.
//! Services on several machines share a PostgreSQL database instead, or verify keys over HTTP at the
//! service that has the accounts (see [`Keys`]).
//!
//! The [`gate`] admits requests with a valid key as long as the key's limits are not exceeded.
//! [`server`] contains the API and the portal with which people sign up and manage their keys. Each
//! service decides itself which permissions a key has.
//!
//! ```no_run
//! # async fn example() -> Result<(), accounts::AccountsError> {
//! use accounts::Accounts;
//! use task::clock::Clock;
//!
//! let accounts = Accounts::open("accounts.db", Clock::system()).await?;
//! let (_, key) = accounts.renew_key("me").await?;
//! println!("{}", key.reveal());
//! # Ok(())
//! # }
//! ```

mod account;
mod cache;
pub mod database_metrics;
pub mod gate;
mod key;
mod passwords;
mod remote;
pub mod server;
mod store;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use db::connection::FileError;
use db::fault::{DatabaseFault, FaultKind};
use db::format::FormatError;
use db::postgres::DatabaseUrl;
use db::postgres::connections::Figures;
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::task::spawn_blocking;

pub use crate::account::{
    AccountId, AccountName, AccountRecord, InputError, Password, SESSION_LIFETIME, SessionId,
    SessionRecord, SessionToken, SignUp,
};
use crate::cache::Cache;
pub use crate::key::{KeyHash, KeyRecord, Scope, Verified};
use crate::passwords::Passwords;
pub use crate::remote::{KeyLookup, Keys, RemoteKeys};
use crate::store::Store;
pub use crate::store::keys::{KEYS_MAX, LISTED_MAX, NAME_CHARS_MAX};
pub use crate::store::postgres::CONNECTIONS_MAX;
pub use crate::store::sessions::{AuthenticatedAccount, StartedSession};

/// Error of an operation on accounts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// The name of a key is empty, too long, or contains control or invisible characters.
    #[error(
        "key name must have 1 to {NAME_CHARS_MAX} characters, none of them control or invisible"
    )]
    Name,
    /// The account has the maximum number of keys.
    #[error("account has the maximum of {KEYS_MAX} keys; revoke one first")]
    TooManyKeys,
    /// An account with this name exists.
    #[error("account name is taken")]
    NameTaken,
    /// Sign-up is closed, so only operators can create accounts.
    #[error("sign-up is closed")]
    SignUpClosed,
    /// No account has this name and password.
    #[error("wrong name or password")]
    WrongPassword,
    /// Too many password checks are waiting.
    #[error("too many passwords are being checked; retry in a few seconds")]
    Busy,
    /// A password hash could not be computed, or a stored hash could not be parsed.
    #[error("password hashing failed")]
    Hash(#[source] argon2::password_hash::Error),
    /// The service or database that stores the accounts does not respond.
    #[error("accounts cannot be reached")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The accounts were opened read-only.
    #[error("this service is read-only; change accounts and keys at another service")]
    ReadOnly,
    /// The disk is full. Reads still work.
    #[error("disk is full, so accounts cannot be changed; retry once there is space")]
    Full,
    /// The file was removed or replaced while it was open. Reads and writes are refused.
    #[error("accounts file was removed or replaced while in use; restart the service")]
    Replaced,
    /// The file could not be opened, or its tables could not be created or upgraded.
    #[error(transparent)]
    Open(FileError),
    /// The tables were created by another version of the program.
    #[error(transparent)]
    Format(FormatError),
    /// The store failed.
    #[error("accounts store failed")]
    Statement(#[source] Box<dyn Error + Send + Sync>),
    /// The program is stopping.
    #[error("the program is stopping")]
    Stopped,
}

impl AccountsError {
    /// Returns true if another process has locked the file, so a retry can succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Open(error) => error.is_busy(),
            Self::Statement(cause) => {
                matches!(cause.downcast_ref(), Some(DatabaseFault { kind: FaultKind::Busy, .. }))
            }
            _ => false,
        }
    }
}

/// Handle to the accounts. Cheap to clone: all clones share their connections and cache.
#[derive(derive_more::Debug, Clone)]
#[debug("Accounts")]
pub struct Accounts {
    shared: Arc<AccountsState>,
}

struct AccountsState {
    store: Store,
    cache: Mutex<Cache>,
    /// Held by the request that checks the cached keys against the store.
    checks: tokio::sync::Mutex<()>,
    passwords: Passwords,
    clock: Clock,
}

impl Accounts {
    /// Opens the accounts file at `path`. Creates the file and its directory if they are missing. Other
    /// processes can have the file open at the same time.
    ///
    /// # Errors
    /// [`AccountsError::Open`] if the file cannot be opened, is locked by another process, or was
    /// written by another version of the program.
    pub async fn open(path: impl AsRef<Path>, clock: Clock) -> Result<Self, AccountsError> {
        Ok(Self::new(Store::open_file(path.as_ref()).await?, clock))
    }

    /// Connects to the accounts in the database at `url`. Creates missing tables. Several services can
    /// use the database at the same time.
    ///
    /// # Errors
    /// [`AccountsError::Unreachable`] if the database does not respond, [`AccountsError::Format`] if its
    /// tables have another format.
    pub async fn connect(url: &DatabaseUrl, clock: Clock) -> Result<Self, AccountsError> {
        Ok(Self::new(Store::open_database(url, false).await?, clock))
    }

    /// Connects to the accounts in a database, such as a standby, without ever writing to the database.
    /// Writes fail with [`AccountsError::ReadOnly`].
    ///
    /// # Errors
    /// As [`Self::connect`], and if the tables are missing.
    pub async fn connect_read_only(url: &DatabaseUrl, clock: Clock) -> Result<Self, AccountsError> {
        Ok(Self::new(Store::open_database(url, true).await?, clock))
    }

    fn new(store: Store, clock: Clock) -> Self {
        let shared = AccountsState {
            store,
            cache: Mutex::default(),
            checks: tokio::sync::Mutex::default(),
            passwords: Passwords::new(),
            clock,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Checks that the store can be written: the database responds, or the file was neither removed nor
    /// replaced. If the last write found the disk full, tries a small write.
    ///
    /// # Errors
    /// [`AccountsError`] with the reason why the store cannot be written.
    pub async fn check_file(&self) -> Result<(), AccountsError> {
        self.shared.store.check().await
    }

    /// Returns statistics of the database connections, or `None` if the accounts are in a file.
    #[must_use]
    pub fn database(&self) -> Option<Figures> {
        self.shared.store.database()
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AccountsError> + Send + 'static,
) -> Result<T, AccountsError> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(AccountsError::Stopped),
    }
}

#[cfg(test)]
mod tests;
