//! Store of the accounts: a SQLite file, or a PostgreSQL database that services on several machines
//! share.
//!
//! Each statement is written once, in SQL that both engines understand.

mod file;
pub(crate) mod keys;
pub(crate) mod postgres;
pub(crate) mod sessions;
pub(crate) mod sql;
mod tables;

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use db::connection::FileError;
use db::copy::CopiedTables;
use db::postgres::DatabaseUrl;
use db::postgres::connections::Figures;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::Instant;

use self::file::FileStore;
use self::postgres::DatabaseStore;
use self::sql::{RENEW_KEYS_VERSION, ReadRow, Session, Value};
use crate::{Accounts, AccountsError, blocking};

impl From<rusqlite::Error> for AccountsError {
    fn from(error: rusqlite::Error) -> Self {
        FileError::from(error).into()
    }
}

impl From<FileError> for AccountsError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Full => Self::Full,
            FileError::Replaced => Self::Replaced,
            FileError::Closed => Self::Stopped,
            FileError::Version(error) => Self::Format(error),
            FileError::Commit(fault) => Self::Statement(Box::new(fault)),
            error => Self::Open(error),
        }
    }
}

/// An SQL statement with its parameters.
struct Statement {
    sql: Cow<'static, str>,
    values: Vec<Value>,
}

/// The store in either engine. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Store {
    File(Arc<FileStore>),
    Database(Arc<DatabaseStore>),
}

impl Store {
    pub(crate) async fn open_file(path: &Path) -> Result<Self, AccountsError> {
        let path = path.to_owned();
        blocking(move || FileStore::open(&path).map(Arc::new).map(Self::File)).await
    }

    pub(crate) async fn open_database(
        url: &DatabaseUrl,
        is_read_only: bool,
    ) -> Result<Self, AccountsError> {
        Ok(Self::Database(Arc::new(DatabaseStore::open(url, is_read_only).await?)))
    }

    pub(crate) fn database(&self) -> Option<Figures> {
        match self {
            Self::File(_) => None,
            Self::Database(database) => Some(database.figures()),
        }
    }

    /// Returns the rows of a read-only statement.
    pub(crate) async fn query<T: Send + 'static>(
        &self,
        sql: impl Into<Cow<'static, str>>,
        values: impl Into<Vec<Value>>,
        read: ReadRow<T>,
    ) -> Result<Vec<T>, AccountsError> {
        let statement = Statement { sql: sql.into(), values: values.into() };
        match self.clone() {
            Self::File(file) => {
                let query = move || {
                    file.read(|mut session| {
                        async move { session.all(&statement.sql, &statement.values, read).await }
                            .boxed()
                    })
                };
                blocking(query).await
            }
            Self::Database(database) => database.query(statement, read).await,
        }
    }

    /// Returns the first row of a read-only statement, or `None` if the result has no rows.
    pub(crate) async fn find<T: Send + 'static>(
        &self,
        sql: impl Into<Cow<'static, str>>,
        values: impl Into<Vec<Value>>,
        read: ReadRow<T>,
    ) -> Result<Option<T>, AccountsError> {
        Ok(self.query(sql, values, read).await?.into_iter().next())
    }

    /// Runs `work` in a transaction during which no other writer is active.
    async fn write<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>
        + Send
        + 'static,
    ) -> Result<T, AccountsError> {
        match self.clone() {
            Self::File(file) => blocking(move || file.write(work)).await,
            Self::Database(database) => database.write(work).await,
        }
    }

    pub(crate) async fn check(&self) -> Result<(), AccountsError> {
        match self.clone() {
            Self::File(file) => blocking(move || file.check()).await,
            Self::Database(database) => database.check().await,
        }
    }

    /// Limits the file to `n_pages` pages, to simulate a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, n_pages: u32) {
        if let Self::File(file) = self {
            file.limit_pages(n_pages);
        }
    }

    /// Returns a query for a number that changes whenever another process changes a key. In a file, the
    /// number changes with every commit of another process.
    const fn keys_version(&self) -> &'static str {
        match self {
            Self::File(_) => "SELECT data_version FROM pragma_data_version",
            Self::Database(_) => "SELECT version FROM keys_version",
        }
    }
}

impl Accounts {
    /// Returns the tables that are copied between a file and a database.
    #[must_use]
    pub const fn copied_tables() -> CopiedTables {
        CopiedTables {
            file: tables::FILE,
            database: tables::DATABASE,
            finish: RENEW_KEYS_VERSION,
            is_locked: false,
        }
    }

    /// Runs `work`, which changes keys, like [`Store::write`]. Then clears the cache of keys in this
    /// process, and makes other processes clear their caches.
    async fn write_keys<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(Session<'c>) -> BoxFuture<'c, Result<T, AccountsError>>
        + Send
        + 'static,
    ) -> Result<T, AccountsError> {
        let write = self.shared.store.write(|mut session| {
            async move {
                session.renew_keys_version().await?;
                work(session).await
            }
            .boxed()
        });
        let done = write.await;
        self.shared.cache.lock().clear(Instant::now());
        done
    }
}
