//! Accounts: people, their sessions, and the API keys that open the dataset and the inference service.
//!
//! One SQLite file holds every account and key, secrets as hashes alone; each service of a machine
//! opens the same file through an [`Accounts`] of its own, and sees what the others create and
//! revoke. Services of several machines share a PostgreSQL database in its place, or ask one another
//! over HTTP: [`Keys`] is either. The [`gate`] lets in
//! requests with a good key, as often as they may; [`server`] is the API and the page where people
//! sign up and make keys. Absent on purpose: what a key may do, which each service decides.

mod account;
mod cache;
pub mod database_metrics;
pub mod gate;
mod key;
mod passwords;
mod remote;
pub mod server;
mod store;

use std::{error::Error, io, path::Path, sync::Arc, time::Duration};

use db::{
    connection::{OpenError, retry_while_busy},
    fault::DatabaseFault,
    format::advice,
    postgres::{DatabaseUrl, connections::Figures},
};
use parking_lot::Mutex;
use task::{clock::Clock, steady_date::SteadyDate};
use tokio::task::spawn_blocking;

pub use crate::{
    account::{
        AccountId, AccountName, AccountNameError, AccountRecord, Password, PasswordError,
        SESSION_LIFETIME, SessionId, SessionRecord, SessionToken, SignUp, SignUpError,
    },
    key::{KeyHash, KeyHashError, KeyRecord, Scope, Verified},
    remote::{KeyLookup, Keys, RemoteKeys},
    store::{
        keys::{KEYS_MAX, LISTED_MAX, NAME_CHARS_MAX},
        postgres::CONNECTIONS_MAX,
        sessions::{AuthenticatedAccount, StartedSession},
    },
};
use crate::{
    cache::Cache,
    passwords::Passwords,
    store::{Store, postgres::Access, sessions},
};

/// How long a leap of the clock holds before sessions are deleted by its date.
const SWEEP_HOLD: Duration = Duration::from_hours(1);

/// Why an operation on accounts failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccountsError {
    /// A key's name is empty, too long, or holds control characters.
    #[error(
        "take a key's name: 1 to {NAME_CHARS_MAX} characters, none of them control or invisible ones"
    )]
    Name,
    /// The account has as many keys as it may.
    #[error("make another key: an account has at most {KEYS_MAX}; revoke one first")]
    TooManyKeys,
    /// There is an account of that name.
    #[error("use that name: it is taken")]
    NameTaken,
    /// Operators alone make accounts.
    #[error("sign up: this service takes no sign-ups")]
    SignUpClosed,
    /// Name and password do not go together.
    #[error("log in: name or password is wrong")]
    WrongPassword,
    /// So many passwords are being checked that this one would wait too long.
    #[error("check a password: too many are being checked")]
    Busy,
    /// A hash could not be made or read.
    #[error("hash a password")]
    Hash(#[source] argon2::password_hash::Error),
    /// The machine or the database that has the accounts and keys does not answer.
    #[error("reach the accounts and keys, which another machine or a database has")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The accounts were opened read-only.
    #[error("this service is read-only: accounts and keys are changed at another one")]
    ReadOnly,
    /// The disk is full. Reads go on.
    #[error("write accounts and keys, whose disk is full; retry once there is space")]
    Full,
    /// The file was removed or replaced while it was open. Nothing more is written or read.
    #[error(
        "use the accounts file, which was removed or replaced while it was in use; restart the service"
    )]
    Replaced,
    /// The file could not be opened or set up.
    #[error(transparent)]
    Open(OpenError),
    /// Another version of the program made the tables of the database.
    #[error("accounts in the database have format {found}, expected {known}; {}", advice(*found, *known))]
    Format {
        /// The format of the tables.
        found: i64,
        /// This program's format.
        known: i64,
    },
    /// It is not at its path right after it was opened.
    #[error("find the accounts file")]
    Find(#[source] io::Error),
    /// The store failed.
    #[error("read or write accounts and keys")]
    Statement(#[source] Box<dyn Error + Send + Sync>),
    /// The program is stopping.
    #[error("finish before the program stopped")]
    Stopped,
}

impl AccountsError {
    /// True if another process held the file, so that a retry may help.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Open(error) => error.is_busy(),
            Self::Statement(cause) => cause.downcast_ref().is_some_and(DatabaseFault::is_busy),
            _ => false,
        }
    }
}

/// Handle to the accounts. Cheap to clone; all clones share their connections and one cache.
#[derive(derive_more::Debug, Clone)]
#[debug("Accounts")]
pub struct Accounts {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    cache: Mutex<Cache>,
    /// The turn of the request that asks the store whether what is remembered holds.
    checks: tokio::sync::Mutex<()>,
    passwords: Passwords,
    clock: Clock,
    /// The date by which expired sessions are deleted.
    sweep_date: Mutex<SteadyDate>,
}

impl Accounts {
    /// Opens the accounts file at `path`, and creates it and its folder if they are missing.
    ///
    /// Other processes may have the file open, and may be opening it now.
    ///
    /// # Errors
    /// [`AccountsError::Open`] if the file cannot be opened, another process keeps it to itself, or
    /// another version of the program wrote it.
    pub async fn open(path: impl AsRef<Path>, clock: Clock) -> Result<Self, AccountsError> {
        let path = path.as_ref().to_owned();
        let open = async || Self::new(Store::open_file(&path).await?, clock.clone()).await;
        retry_while_busy(open, AccountsError::is_busy).await
    }

    /// Connects to the accounts in the database at `url`, and creates their tables if they are missing.
    /// Services of several machines may do so at once.
    ///
    /// # Errors
    /// [`AccountsError::Unreachable`] if the database does not answer, [`AccountsError::Format`] if
    /// another version of the program made the tables.
    pub async fn connect(url: &DatabaseUrl, clock: Clock) -> Result<Self, AccountsError> {
        Self::new(Store::open_database(url, Access::ReadWrite).await?, clock).await
    }

    /// Connects to the accounts in a database that takes no writes, such as a standby. Writes fail with
    /// [`AccountsError::ReadOnly`].
    ///
    /// # Errors
    /// As for [`Self::connect`], or the database has no tables.
    pub async fn connect_read_only(url: &DatabaseUrl, clock: Clock) -> Result<Self, AccountsError> {
        Self::new(Store::open_database(url, Access::ReadOnly).await?, clock).await
    }

    async fn new(store: Store, clock: Clock) -> Result<Self, AccountsError> {
        let start = sessions::find_newest(&store).await?.unwrap_or_else(|| clock.now());
        let shared = Shared {
            store,
            cache: Mutex::default(),
            checks: tokio::sync::Mutex::default(),
            passwords: Passwords::new(),
            sweep_date: Mutex::new(SteadyDate::new(clock.clone(), start, SWEEP_HOLD)),
            clock,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether the store takes writes: a file is in its place, and there is space, or the database
    /// answers. Where a write to a file found no space, this tries another one of its size from time to
    /// time.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check_file(&self) -> Result<(), AccountsError> {
        self.shared.store.check().await
    }

    /// Numbers of the database that has them; `None` where a file has.
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
