//! Engines of the store: a SQLite file for one process, or a schema of a PostgreSQL database shared
//! by several services.
//!
//! All operations block. The connections of a database run on their own runtime with one thread. Rows
//! that several services might change are locked (see `versions`).
//!
//! Statements use only the SQL that both engines understand. Values and rows have the types of
//! [`db::sql`], in which a Boolean is an integer. Texts are compared by bytes. Upserts name their
//! conflict columns.

use std::cell::RefCell;
use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use db::fault::WorkError;
use db::files::DatabaseFiles;
use db::postgres::DatabaseUrl;
use db::postgres::connections::{Connections, ConnectionsOptions, Figures};
use db::postgres::fault::{Fault, PostgresError, timed_out};
use db::sql::{self, Column, Value};
use db::statement::Statements as _;
use db::writer::Writer;
use futures::executor::block_on;
use parking_lot::Mutex;
use rusqlite::{Connection, Params};
use sqlx::PgConnection;
use task::lock;
use task::private;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::{Result, StoreError, tables};

/// Maximum number of connections. Few are enough, since a caller uses a connection only for some
/// milliseconds.
const CONNECTIONS_MAX: u32 = 16;

/// Schema of a PostgreSQL database.
#[derive(Debug)]
pub(super) struct StoreDatabase {
    connections: Connections,
    is_read_only: bool,
    /// `None` only during drop.
    runtime: Option<Runtime>,
}

impl Drop for StoreDatabase {
    fn drop(&mut self) {
        // Does not wait for operations in progress. Such operations are interrupted, and the database
        // rolls them back.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl StoreDatabase {
    /// Connects to the database at `url`. Creates missing tables, or only checks them if `is_read_only`.
    pub(super) fn open(url: &DatabaseUrl, is_read_only: bool) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("inference-postgres")
            .enable_all()
            .build()
            .map_err(StoreError::Prepare)?;
        let connections = {
            let _context = runtime.enter();
            let (schema, n_max) = (tables::shared(), CONNECTIONS_MAX);
            Connections::new(url, ConnectionsOptions { schema, is_read_only, n_max, n_writers: 12 })
        };
        let database = Self { connections, is_read_only, runtime: Some(runtime) };
        let context = database.enter();
        wait(database.connections.open_tables())?;
        drop(context);
        Ok(database)
    }

    /// Checks that every table exists and that the database accepts writes unless it is opened
    /// read-only.
    pub(super) fn check(&self) -> Result<()> {
        let _context = self.enter();
        wait(self.connections.check::<StoreError>())
    }

    /// Returns true if the database was opened read-only, so writes are refused.
    pub(super) const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns figures of the connections.
    pub(super) fn figures(&self) -> Figures {
        self.connections.figures()
    }

    /// Runs `change` and returns its result once it is durable.
    pub(super) fn write<T>(&self, change: impl FnOnce(&Session<'_>) -> Result<T>) -> Result<T> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        let _context = self.enter();
        let mut transaction = wait(self.connections.begin_write())?;
        let result = change(&Session::from(&mut *transaction));
        wait(transaction.finish(result))
    }

    /// Runs `read` on one snapshot.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Session<'_>) -> Result<T>) -> Result<T> {
        let _context = self.enter();
        let mut transaction = wait(self.connections.begin_read())?;
        let result = read(&Session::from(&mut *transaction));
        wait(transaction.finish(result))
    }

    /// Enters the runtime, without which connections can be neither used nor returned.
    fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }
}

impl WorkError for StoreError {
    fn is_full(&self) -> bool {
        matches!(self, Self::DiskFull)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(PostgresError::from(error))),
            Fault::Full => Self::DiskFull,
            Fault::Statement => Self::Database(Box::new(PostgresError::from(error))),
        }
    }
}

/// SQLite file that one process can use at a time.
#[derive(Debug)]
pub(super) struct StoreFile {
    /// Dropped before `writer`: the last connection that is closed removes the write-ahead log, which only
    /// a writing connection can.
    reader: Mutex<Connection>,
    writer: Writer<StoreError>,
    files: Arc<DatabaseFiles>,
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        self.files.before_close(&self.reader.lock());
    }
}

impl StoreFile {
    /// Opens the file at `path`, creating it and its directory if they are missing.
    pub(super) fn open(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(StoreError::Prepare)?;
        }
        let mut lock = OsString::from(path);
        lock.push(".lock");
        let locked = lock::wait_for(Path::new(&lock)).map_err(StoreError::Prepare)?;
        let in_use = locked.ok_or(StoreError::InUse)?;
        let connection = tables::SCHEMA.open(path)?;
        let reader = Mutex::new(tables::SCHEMA.open_read_only(path)?);
        let files = Arc::new(DatabaseFiles::open(path)?);
        let writer = Writer::start(&tables::SCHEMA, connection, Arc::clone(&files), in_use)?;
        Ok(Self { reader, writer, files })
    }

    /// Runs `change` in a transaction and returns its result once the transaction is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Session<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.run_blocking(move |write| change(&Session::from(write)))
    }

    /// Runs `read` concurrently with the writer.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Session<'_>) -> Result<T>) -> Result<T> {
        if !self.files.is_intact() {
            return Err(StoreError::Replaced);
        }
        read(&Session::from(&*self.reader.lock()))
    }

    /// Checks that the file can be written.
    pub(super) fn check(&self) -> Result<()> {
        block_on(self.writer.check())
    }
}

/// Connection on which the statements of a transaction or of a read run.
pub(super) struct Session<'c>(Engine<'c>);

enum Engine<'c> {
    Sqlite(&'c Connection),
    Postgres(RefCell<&'c mut PgConnection>),
}

/// Row of a result.
pub(super) type Row<'r> = sql::Row<'r, StoreError>;

/// Lock on an epoch until the end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockMode {
    /// Other transactions cannot change the epoch's state.
    Shared,
    /// Other transactions cannot change the epoch or add submissions.
    Exclusive,
}

/// Values of a statement's parameters, in order.
pub(super) trait Values: Sized {
    /// Calls `work` with the values and returns its result.
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T;
}

impl<V: Value, const N: usize> Values for [V; N] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(&self.each_ref().map(|value| value as &dyn Value))
    }
}

impl Values for &[&dyn Value] {
    fn lend<T>(self, work: impl FnOnce(&[&dyn Value]) -> T) -> T {
        work(self)
    }
}

/// Creates the values of a statement from expressions of different types.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        &[$(&$value as &dyn db::sql::Value),*] as &[&dyn db::sql::Value]
    };
}
pub(super) use values;

impl<'c> From<&'c Connection> for Session<'c> {
    fn from(connection: &'c Connection) -> Self {
        Self(Engine::Sqlite(connection))
    }
}

impl<'c> From<&'c mut PgConnection> for Session<'c> {
    fn from(connection: &'c mut PgConnection) -> Self {
        Self(Engine::Postgres(RefCell::new(connection)))
    }
}

impl Session<'_> {
    /// Returns true if other services can change the same rows.
    pub(super) const fn is_shared(&self) -> bool {
        matches!(self.0, Engine::Postgres(_))
    }

    /// Returns the suffix of a `SELECT` that locks the selected rows. The suffix is empty for a file,
    /// which has a single writer and needs no locks.
    pub(super) const fn locking(&self, lock: LockMode) -> &'static str {
        match (&self.0, lock) {
            (Engine::Sqlite(_), _) => "",
            (Engine::Postgres(_), LockMode::Shared) => " FOR SHARE",
            (Engine::Postgres(_), LockMode::Exclusive) => " FOR UPDATE",
        }
    }

    /// Runs a statement without results and returns the number of changed rows.
    pub(super) fn run(&self, sql: &str, values: impl Values) -> Result<usize> {
        values.lend(|values| match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.run(sql, bound(values))?),
            Engine::Postgres(connection) => {
                let query = sql::query(sql, values.iter().copied())?;
                let done = wait(query.execute(&mut **connection.borrow_mut()))?;
                Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
            }
        })
    }

    /// Runs statements without values or results.
    #[cfg(test)]
    pub(super) fn run_batch(&self, sql: &str) -> Result<()> {
        match &self.0 {
            Engine::Sqlite(connection) => Ok(connection.execute_batch(sql)?),
            Engine::Postgres(connection) => {
                let batch = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
                wait(batch.execute(&mut **connection.borrow_mut()))?;
                Ok(())
            }
        }
    }

    /// Returns the first row, converted by `read`, or `None` if there are no rows.
    pub(super) fn find<T>(
        &self,
        sql: &str,
        values: impl Values,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Returns all rows, converted by `read`.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Values,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        values.lend(|values| match &self.0 {
            Engine::Sqlite(connection) => {
                let read = |row: &rusqlite::Row<'_>| Ok(read(&Row::from(row)));
                connection.all(sql, bound(values), read)?.into_iter().collect()
            }
            Engine::Postgres(connection) => {
                let query = sql::query(sql, values.iter().copied())?;
                let rows = wait(query.fetch_all(&mut **connection.borrow_mut()))?;
                rows.iter().map(|row| read(&Row::from(row))).collect()
            }
        })
    }

    /// Returns the first column of the first row. The statement must always return a row, such as a
    /// count.
    pub(super) fn value<T: Column>(&self, sql: &str, values: impl Values) -> Result<T> {
        let found = self.find(sql, values, |row| row.get(0))?;
        found.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }
}

/// Blocks until a PostgreSQL operation is done or times out. The operation is excluded from tokio's
/// cooperative budget, so that this works on the thread of any task.
pub(super) fn wait<T, E: From<sqlx::Error>>(
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    // The timeout is shorter than the timeout of a request, so that the response contains the reason.
    let step = timeout(Duration::from_secs(8), step);
    block_on(unconstrained(step)).unwrap_or_else(|_| Err(timed_out().into()))
}

fn bound<'v>(values: &'v [&'v dyn Value]) -> impl Params + 'v {
    sql::params(values.iter().copied())
}
