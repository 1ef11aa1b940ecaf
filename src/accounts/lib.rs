//! Accounts: people, their sessions, and the API keys that open the dataset and the inference service.
//!
//! One SQLite file holds every account and key, secrets as hashes alone; each service of a machine
//! opens the same file through an [`Accounts`] of its own, and sees what the others create and
//! revoke. A service of another machine asks over HTTP: [`Keys`] is either. The [`gate`] lets in
//! requests with a good key, as often as they may; [`server`] is the API and the page where people
//! sign up and make keys. Absent on purpose: what a key may do, which each service decides.

mod account;
mod cache;
pub mod gate;
mod key;
mod keys;
mod passwords;
mod remote;
pub mod server;
mod sessions;
mod store;

use std::{error::Error, fmt, path::Path, sync::Arc, time::Duration};

use db::{
    connection::retry_while_busy,
    files::DatabaseFiles,
    space::{CHANGE_BYTES, SpaceWatch},
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
    keys::{KEYS_MAX, LISTED_MAX, NAME_CHARS_MAX},
    remote::{KeyLookup, Keys, RemoteKeys},
    sessions::{AuthenticatedAccount, StartedSession},
    store::StoreError,
};
use crate::{cache::Cache, passwords::Passwords, store::Store};

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
    /// The machine that knows the keys does not answer.
    #[error("ask another machine about a key")]
    Unreachable(#[source] Box<dyn Error + Send + Sync>),
    /// The disk is full. Reads go on.
    #[error("write to the accounts file, whose disk is full; retry once there is space")]
    Full,
    /// The file was removed or replaced while it was open. Nothing more is written or read.
    #[error(
        "use the accounts file, which was removed or replaced while it was in use; restart the service"
    )]
    Replaced,
    /// The file failed.
    #[error(transparent)]
    Store(StoreError),
    /// The program is stopping.
    #[error("finish before the program stopped")]
    Stopped,
}

impl From<StoreError> for AccountsError {
    fn from(error: StoreError) -> Self {
        if error.is_full() { Self::Full } else { Self::Store(error) }
    }
}

/// Handle to the accounts file. Cheap to clone; all clones share their connections and one cache.
#[derive(Clone)]
pub struct Accounts {
    shared: Arc<Shared>,
}

struct Shared {
    /// Writes. It may wait for another process's write.
    store: Mutex<Store>,
    /// Reads, which wait for nobody: keys are checked while a write waits.
    reads: Mutex<Store>,
    cache: Mutex<Cache>,
    passwords: Passwords,
    clock: Clock,
    /// The date by which expired sessions are deleted.
    sweep_date: Mutex<SteadyDate>,
    files: DatabaseFiles,
    space: SpaceWatch,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if !self.files.check() {
            self.store.lock().keep_log();
            self.reads.lock().keep_log();
        }
    }
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
    /// [`AccountsError::Store`] if the file cannot be opened, another process keeps it to itself, or
    /// another version of the program wrote it.
    pub async fn open(path: impl AsRef<Path>, clock: Clock) -> Result<Self, AccountsError> {
        let path = path.as_ref().to_owned();
        let space = SpaceWatch::new(&path);
        let open = || {
            let path = path.clone();
            blocking(move || {
                let (store, reads) = (Store::open(&path)?, Store::open_read_only(&path)?);
                let files = DatabaseFiles::open(&path).map_err(StoreError::Find)?;
                let newest = reads.newest_session()?;
                Ok((store, reads, files, newest))
            })
        };
        let is_busy =
            |error: &AccountsError| matches!(error, AccountsError::Store(e) if e.is_busy());
        let (store, reads, files, newest) = retry_while_busy(open, is_busy).await?;
        let start = newest.unwrap_or_else(|| clock.now());
        let shared = Shared {
            store: Mutex::new(store),
            reads: Mutex::new(reads),
            cache: Mutex::default(),
            passwords: Passwords::new(),
            sweep_date: Mutex::new(SteadyDate::new(clock.clone(), start, SWEEP_HOLD)),
            clock,
            files,
            space,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Runs `work`, which only reads, on a blocking thread.
    async fn with_reads<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            if !shared.files.is_intact() {
                return Err(AccountsError::Replaced);
            }
            Ok(work(&shared, &shared.reads.lock())?)
        })
        .await
    }

    /// Runs `work` on a blocking thread while it alone writes.
    async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, AccountsError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            if !shared.files.is_intact() {
                return Err(AccountsError::Replaced);
            }
            let done = work(&shared, &mut shared.store.lock()).map_err(AccountsError::from);
            match &done {
                Err(AccountsError::Full) => shared.space.refuse(CHANGE_BYTES),
                Ok(_) => shared.space.accept(CHANGE_BYTES),
                Err(_) => false,
            };
            // What was written to a file that is not in its place is lost.
            if !shared.files.check() {
                return Err(AccountsError::Replaced);
            }
            done
        })
        .await
    }

    /// Lets the file grow to so many pages, as a full disk would.
    #[cfg(test)]
    pub(crate) async fn limit_pages(&self, n_pages: u32) {
        let limited = self.with_store(move |_, store| store.limit_pages(n_pages));
        limited.await.unwrap();
    }

    /// Whether the file takes writes: it is in its place, and there is space. Where a write found
    /// none, this tries another one of its size from time to time.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check_file(&self) -> Result<(), AccountsError> {
        if self.shared.space.is_full() {
            let n_bytes = self.shared.space.next_trial().ok_or(AccountsError::Full)?;
            return self.with_store(move |_, store| store.try_write(n_bytes)).await;
        }
        let shared = Arc::clone(&self.shared);
        blocking(move || if shared.files.check() { Ok(()) } else { Err(AccountsError::Replaced) })
            .await
    }

    /// The same for work that may change keys: what is remembered of them is forgotten.
    async fn with_keys<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &mut Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, AccountsError> {
        self.with_store(|shared, store| {
            let done = work(shared, store);
            shared.cache.lock().clear();
            done
        })
        .await
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
