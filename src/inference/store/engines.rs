//! Engines of the store: a SQLite file for one process, or a schema of a PostgreSQL database shared
//! by several services.
//!
//! All operations block. The connections of a database have their own small runtime. Rows that
//! several services might change are locked (see `versions`).

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use db::connection::keep_log_on_close;
use db::files::DatabaseFiles;
use db::postgres::DatabaseUrl;
use db::postgres::connections::{Connections, ConnectionsOptions, Figures, Snapshot};
use db::postgres::fault::{Fault, Refused, WorkError, is_lost};
use db::postgres::schema::SchemaError;
use db::writer::Writer;
use futures::FutureExt as _;
use parking_lot::Mutex;
use rusqlite::Connection;
use task::lock::{self, Lock};
use task::private;
use tokio::runtime::{Builder, EnterGuard, Runtime};

use super::session::{Session, values, wait};
use super::{Result, StoreError, tables};

/// Connection limits. Each connection is used by one caller for some milliseconds.
const CONNECTIONS: ConnectionsOptions =
    ConnectionsOptions { schema: tables::SHARED_NAME, n_max: 16, n_writers: 12 };

/// Write without an effect, which checks that writes are accepted.
const CHECK: &str = "UPDATE chain SET id = id WHERE false";

/// Schema of a database.
#[derive(Debug)]
pub(super) struct StoreDatabase {
    connections: Connections,
    is_read_only: bool,
    /// `None` only during drop.
    runtime: Option<Runtime>,
}

impl Drop for StoreDatabase {
    fn drop(&mut self) {
        // Stopping the runtime interrupts operations in progress. The database rolls them back.
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
        let connections = Connections::new(url, CONNECTIONS, runtime.handle().clone());
        let database = Self { connections, is_read_only, runtime: Some(runtime) };
        let (context, schema) = (database.enter(), tables::shared());
        if is_read_only {
            let read = database
                .connections
                .read(Snapshot::Transaction, move |c| async move { schema.check(c).await }.boxed());
            wait(read)?;
        } else {
            wait(database.connections.open_tables(schema))?;
        }
        drop(context);
        Ok(database)
    }

    /// Checks that every table exists and that the database accepts writes unless it is opened
    /// read-only.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_read_only {
            let _context = self.enter();
            wait(self.connections.check::<StoreError>(CHECK))?;
        }
        // Accesses every table.
        let sql =
            "SELECT FROM chain, topics, epochs, submissions, labels, counters, bundles, losses,
                   baselines, learned, snapshots, holdings, versions LIMIT 0";
        self.read(|session| session.find(sql, values![], |_| Ok(())).map(drop))
    }

    /// Returns true if writes are refused.
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

    /// Runs `read` on one snapshot and retries on another connection if one was lost.
    pub(super) fn read<T>(&self, read: impl Fn(&Session<'_>) -> Result<T>) -> Result<T> {
        let _context = self.enter();
        let mut n_left = CONNECTIONS.n_max;
        loop {
            let mut transaction = wait(self.connections.begin_read())?;
            let result = read(&Session::from(&mut *transaction));
            match wait(transaction.finish(result)) {
                Err(error) if n_left > 0 && error.unreachable_cause().is_some_and(is_lost) => {
                    n_left -= 1;
                }
                result => return result,
            }
        }
    }

    /// Enters the runtime, in which connections are used and returned.
    fn enter(&self) -> Option<EnterGuard<'_>> {
        self.runtime.as_ref().map(Runtime::enter)
    }
}

impl WorkError for StoreError {
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Unreachable(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::DiskFull)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(error)),
            Fault::Full => Self::DiskFull,
            Fault::Closed => Self::Closed,
            Fault::Corrupt | Fault::Statement => Self::Database(Box::new(Refused::from(error))),
        }
    }
}

impl From<SchemaError> for StoreError {
    fn from(error: SchemaError) -> Self {
        match error {
            SchemaError::Database(error) => error.into(),
            error => Self::Database(Box::new(error)),
        }
    }
}

/// File, for one process at a time.
#[derive(Debug)]
pub(super) struct StoreFile {
    writer: Writer<StoreError>,
    reader: Mutex<Connection>,
    files: Arc<DatabaseFiles>,
    /// Locks out other processes.
    _in_use: Lock,
}

impl Drop for StoreFile {
    fn drop(&mut self) {
        if !self.files.check() {
            keep_log_on_close(&self.reader.lock());
        }
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
        let files = Arc::new(DatabaseFiles::open(path).map_err(StoreError::Prepare)?);
        let writer = Writer::start(&tables::SCHEMA, connection, Arc::clone(&files))
            .map_err(StoreError::Prepare)?;
        Ok(Self { writer, reader, files, _in_use: in_use })
    }

    /// Runs `change`. Returns its result once it is durable.
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

    /// Checks that the file accepts writes.
    pub(super) fn check(&self) -> Result<()> {
        futures::executor::block_on(self.writer.check())
    }
}
