//! Connections to the database: a pool with time limits for transactions.
//!
//! A connection that was lost while idle is replaced silently. A connection that is lost during a
//! transaction fails the transaction and is closed.
//!
//! A pooler such as `PgBouncer` can send each transaction over another connection to the server. A
//! pooler is recognized because it rejects or drops a startup option. Behind a pooler, all statements
//! run in transactions that apply the settings themselves and do not use prepared statements.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, PgConnection, PgPool, Postgres, Row as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{info, warn};

use super::DatabaseUrl;
use super::fault::{
    Fault, WorkError, describe, is_lost, is_refused_login, is_refused_option, no_connection,
    timed_out,
};
use super::schema::{Schema, SchemaError};

/// Maximum time to wait for a connection: longer than the wait in a busy service, and shorter than
/// clients wait for a response.
const ACQUIRE_WITHIN: Duration = Duration::from_secs(5);

/// Time limit of a whole transaction. Clients wait longer for a response, so they learn the reason of a
/// failure. The server cancels statements earlier, so this limit only matters if the server does not
/// respond at all. In this case the transaction might have been committed. A writer learns the outcome
/// when it sends its batch again.
const DONE_WITHIN: Duration = Duration::from_secs(25);

/// Time limit of a check that writes are accepted. The caller of the check can try other servers.
const CHECKED_WITHIN: Duration = Duration::from_secs(5);

/// Time limit of a separate attempt to connect, made to find out why the pool cannot connect.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// Time after which idle connections are closed, so that idle services leave connections to other
/// services.
const IDLE_FOR: Duration = Duration::from_mins(10);

/// Settings of a connection, with times in milliseconds. They limit a statement, the wait for a lock,
/// and an idle transaction, which would hold locks while its service is paused or lost. Plans are
/// generic and not compiled, since every statement finds its rows by an index, whatever its parameters
/// are. Planning or compiling a statement would take longer than running it.
const SETTINGS: [(&str, &str); 5] = [
    ("statement_timeout", "20000"),
    ("lock_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "15000"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Startup option without a meaning for the server. Poolers do not pass it on, so it shows whether a
/// connection is direct.
const DIRECT: (&str, &str) = ("triptych.direct", "on");

/// Statement that selects true if the startup option [`DIRECT`] reached the server.
const IS_DIRECT: &str = "SELECT current_setting('triptych.direct', true) IS NOT DISTINCT FROM 'on'";

/// Statement that starts a transaction for writing. Row locks order the writers: a read after locking
/// sees the commit of the previous writer. The statement does not set the access mode, so that writes
/// fail in a database that was made read-only, for example because its disk is full.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Statement that starts a transaction for reading, in which all statements see the same snapshot.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Statements that test for disk space: they write a megabyte that is freed at the end of the
/// transaction, without waiting for standbys.
const TRY_SPACE: &str = "SET LOCAL synchronous_commit = local;
    CREATE TEMP TABLE space_trial ON COMMIT DROP AS
    SELECT repeat('x', 1000) FROM generate_series(1, 1000)";

/// Handle to the connections of a store, which is cheap to clone.
#[derive(Debug, Clone)]
pub struct Connections {
    pool: PgPool,
    shared: Arc<Shared>,
}

/// State of the connections that all handles share.
#[derive(Debug)]
struct Shared {
    url: DatabaseUrl,
    options: ConnectionsOptions,
    /// Permits for writing.
    writers: Arc<Semaphore>,
    /// True once a pooler was found between this service and the server.
    is_pooled: AtomicBool,
    /// Statements that are appended to the start of each transaction behind a pooler. They apply the
    /// settings and drop prepared statements.
    local_settings: String,
    /// Schema of the opened tables, and a statement that reads the current format. Every writing
    /// transaction starts with this statement, which locks the table, so that the format cannot change
    /// before the end of the transaction.
    known: OnceLock<(Schema, String)>,
    /// True after a write found the server's disk full, until a check finds space.
    is_full: AtomicBool,
    /// True if the last attempt to reach the server failed.
    is_lost: AtomicBool,
    n_waiting: AtomicUsize,
    n_timed_out: AtomicU64,
}

/// Options of the connections of a store.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionsOptions {
    /// Schema in which statements look up tables with unqualified names.
    pub schema: &'static str,
    /// Maximum number of connections. By default, a server accepts a hundred, which several services
    /// share.
    pub n_max: u32,
    /// Maximum number of connections that write. Writers block if no standby confirms commits. Reads can
    /// then still use the remaining connections.
    pub n_writers: usize,
}

/// Statistics of the connections to a server, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Number of open connections.
    pub n_open: u64,
    /// Number of open connections that are idle.
    pub n_idle: u64,
    /// Number of callers that are waiting for a connection or for a permit to write.
    pub n_waiting: u64,
    /// Number of callers, since the start, whose wait timed out.
    pub n_timed_out: u64,
    /// True if the last attempt to reach the server failed.
    pub is_lost: bool,
}

/// Scope in which reads see one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Each statement has its own snapshot. On a direct connection, this saves two round trips for a
    /// single statement. The statement must qualify the names of its tables.
    Statement,
    /// All statements of a transaction share one snapshot.
    Transaction,
}

/// An open transaction. If it is dropped before [`Self::finish`], its connection is closed. It must be
/// dropped in the context of a runtime.
#[derive(Debug)]
pub struct Transaction {
    connection: PoolConnection<Postgres>,
    shared: Arc<Shared>,
    /// False if a single statement runs without an explicit transaction.
    is_open: bool,
    /// True if the transaction only reads.
    is_read: bool,
    is_clean: bool,
    /// Permit to write, if this transaction writes.
    writer: Option<OwnedSemaphorePermit>,
}

/// Counts a caller as waiting until the guard is dropped.
struct Waiting<'s>(&'s AtomicUsize);

impl<'s> Waiting<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.n_waiting.fetch_add(1, Ordering::Relaxed);
        Self(&shared.n_waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// Creates a handle to the database at `url`. Connections are opened when they are needed. Must be
    /// called in the context of a runtime.
    #[must_use]
    pub fn new(url: &DatabaseUrl, options: ConnectionsOptions) -> Self {
        let settings = SETTINGS.into_iter().chain([("search_path", options.schema)]);
        let settings = settings.map(|(name, value)| format!("; SET LOCAL {name} = '{value}'"));
        let local_settings = "; DEALLOCATE ALL".to_owned() + &settings.collect::<String>();
        let shared = Shared {
            url: url.clone(),
            options,
            writers: Arc::new(Semaphore::new(options.n_writers)),
            is_pooled: AtomicBool::default(),
            local_settings,
            known: OnceLock::new(),
            is_full: AtomicBool::default(),
            is_lost: AtomicBool::default(),
            n_waiting: AtomicUsize::default(),
            n_timed_out: AtomicU64::default(),
        };
        let shared = Arc::new(shared);
        let found = Arc::clone(&shared);
        let pool = PgPoolOptions::new()
            .max_connections(options.n_max)
            .acquire_timeout(ACQUIRE_WITHIN)
            // Keeps the pool from logging long waits. Waits and timeouts are counted here.
            .acquire_slow_threshold(ACQUIRE_WITHIN)
            .idle_timeout(IDLE_FOR)
            // Saves a round trip, since the first statement on a lost connection fails anyway and is
            // repeated.
            .test_before_acquire(false)
            .after_connect(move |connection, _| {
                let shared = Arc::clone(&found);
                async move {
                    if !shared.is_pooled() {
                        let row = sqlx::raw_sql(IS_DIRECT).fetch_one(connection).await?;
                        shared.is_pooled.fetch_or(!row.try_get::<bool, _>(0)?, Ordering::Relaxed);
                    }
                    Ok(())
                }
                .boxed()
            })
            .connect_lazy_with(shared.connect_options());
        Self { pool, shared }
    }

    /// Returns true once a pooler was found, which can send each transaction over another connection to
    /// the server. `LISTEN` must then not be used, since the notifications would reach other clients of
    /// the pooler.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.shared.is_pooled()
    }

    /// Runs `work`, which must only read. If its connection was lost, runs `work` again on another
    /// connection.
    ///
    /// # Errors
    /// The error of `work` or of the database.
    pub async fn read<T: Send, E: WorkError>(
        &self,
        snapshot: Snapshot,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Sync,
    ) -> Result<T, E> {
        let begin = (snapshot == Snapshot::Transaction).then_some(BEGIN_READ);
        // If the server was restarted, all idle connections of the pool are lost, and each attempt finds
        // one of them.
        let mut n_left = self.shared.options.n_max;
        loop {
            let done = async {
                let mut transaction = self.begin(begin, None).await?;
                let result = work(&mut transaction).await;
                transaction.finish(result).await
            };
            match self.within(DONE_WITHIN, done).await {
                Err(error) if n_left > 0 && error.unreachable_cause().is_some_and(is_lost) => {
                    n_left -= 1;
                }
                done => return done,
            }
        }
    }

    /// Runs `work` in a transaction. Its writes are durable on return. If the connection is lost during
    /// the commit, returns an error even though the writes might be durable.
    ///
    /// # Errors
    /// The error of `work` or of the database.
    pub async fn write<T: Send, E: WorkError>(
        &self,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Send,
    ) -> Result<T, E> {
        let done = async {
            let mut transaction = self.begin_write().await?;
            let result = work(&mut transaction).await;
            transaction.finish(result).await
        };
        self.within(DONE_WITHIN, done).await
    }

    /// Creates or upgrades the tables of `schema`. Returns the random number that identifies the tables.
    /// Afterwards, writes fail as soon as a newer version of the program has upgraded the tables.
    ///
    /// # Errors
    /// The error of the database, or [`SchemaError`] if the database has another encoding or the format
    /// of the tables cannot be upgraded.
    pub async fn open_tables(&self, schema: Schema) -> Result<i64, sqlx::Error> {
        // Creating or upgrading tables takes a lock. It is only taken if this is needed, since otherwise
        // every start would wait for a service that was paused while it held the lock.
        let checked =
            self.read(Snapshot::Statement, |c| async move { schema.check(c).await }.boxed());
        let era = match checked.await {
            Err(error) if error.unreachable_cause().is_none() => {
                self.write(|c| async move { schema.open(c).await }.boxed()).await?
            }
            checked => checked?,
        };
        let look = format!("; SELECT version FROM {}.format", schema.name);
        self.shared.known.get_or_init(|| (schema, look));
        Ok(era)
    }

    /// Starts a transaction for reading, in which all statements see the same snapshot.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn begin_read(&self) -> Result<Transaction, sqlx::Error> {
        self.begin(Some(BEGIN_READ), None).await
    }

    /// Starts a transaction for writing.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn begin_write(&self) -> Result<Transaction, sqlx::Error> {
        let writer = self.permit_write().await?;
        self.begin(Some(BEGIN_WRITE), Some(writer)).await
    }

    /// Checks that the database accepts writes by running `sql`, which must have no effect, and that the
    /// user has the privileges to write to the tables that [`Self::open_tables`] opened. If an
    /// earlier write found the disk full, also writes a megabyte and rolls the write back.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn check<E: WorkError>(&self, sql: &'static str) -> Result<(), E> {
        let was_full = self.shared.is_full.load(Ordering::Relaxed);
        let check = async {
            let mut transaction = self.begin(Some(BEGIN_WRITE), None).await?;
            let sql = if was_full { format!("{TRY_SPACE}; {sql}") } else { sql.to_owned() };
            let mut result =
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.map(drop);
            if let (Ok(()), Some((schema, _))) = (&result, self.shared.known.get()) {
                result = schema.check_privileges(&mut transaction).await;
            }
            transaction.finish(result.map_err(E::from)).await
        };
        self.within(CHECKED_WITHIN, check).await?;
        if was_full && self.shared.is_full.swap(false, Ordering::Relaxed) {
            info!("the database's disk has space again");
        }
        Ok(())
    }

    /// Returns the output of `done`, limited to the time `limit`.
    ///
    /// # Errors
    /// The error of `done`, or [`Fault::Unreachable`] if the limit is exceeded.
    pub async fn within<T, E: From<sqlx::Error>>(
        &self,
        limit: Duration,
        done: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        timeout(limit, done).await.unwrap_or_else(|_| {
            self.shared.note_lost(&timed_out());
            Err(timed_out().into())
        })
    }

    /// Returns the current statistics of the connections.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Figures {
            n_open: self.pool.size().into(),
            n_idle: count(self.pool.num_idle()),
            n_waiting: count(self.shared.n_waiting.load(Ordering::Relaxed)),
            n_timed_out: self.shared.n_timed_out.load(Ordering::Relaxed),
            is_lost: self.shared.is_lost.load(Ordering::Relaxed),
        }
    }

    /// Starts a transaction with the statement `sql`. If `sql` is `None`, returns a connection for a
    /// single statement, which needs no explicit transaction. Replaces connections that were lost while
    /// idle.
    fn begin(
        &self,
        sql: Option<&'static str>,
        mut writer: Option<OwnedSemaphorePermit>,
    ) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        async move {
            let mut n_left = self.shared.options.n_max;
            loop {
                let connection = self.acquire().await?;
                let is_pooled = self.shared.is_pooled();
                let mut transaction = Transaction {
                    connection,
                    shared: Arc::clone(&self.shared),
                    is_open: sql.is_some() || is_pooled,
                    is_read: sql == Some(BEGIN_READ),
                    is_clean: false,
                    writer: writer.take(),
                };
                let known = self.shared.known.get().filter(|_| sql == Some(BEGIN_WRITE));
                let mut sql = match sql {
                    None if !is_pooled => return Ok(transaction),
                    Some(sql) if !is_pooled => sql.to_owned(),
                    sql => sql.unwrap_or(BEGIN_WRITE).to_owned() + &self.shared.local_settings,
                };
                if let Some((_, look)) = known {
                    sql.push_str(look);
                }
                let statements = sqlx::raw_sql(AssertSqlSafe(sql));
                match statements.fetch_optional(&mut *transaction).await {
                    Ok(row) => {
                        let found: Option<i32> = row.map(|row| row.try_get(0)).transpose()?;
                        if let (Some(found), Some((schema, _))) = (found, known)
                            && found != schema.version
                        {
                            let (found, known) = (found.into(), schema.version.into());
                            return Err(SchemaError::Version { found, known }.into());
                        }
                        return Ok(transaction);
                    }
                    Err(error) if n_left > 0 && is_lost(&error) => {
                        n_left -= 1;
                        writer = transaction.writer.take();
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        .boxed()
    }

    /// Returns a connection from the pool. Changes the options and connects again if a pooler is found,
    /// or if the server rejected the login because the password has changed.
    async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let _waiting = Waiting::new(&self.shared);
        let was_pooled = self.shared.is_pooled();
        let acquired = match self.pool.acquire().await {
            Ok(mut connection) if self.shared.is_pooled() && !was_pooled => {
                info!("connections to the database lead through a pooler");
                connection.close_on_drop();
                self.reconnect().await
            }
            Err(error) if !was_pooled && is_refused_option(&error) => {
                info!("connections to the database lead through a pooler");
                self.shared.is_pooled.store(true, Ordering::Relaxed);
                self.reconnect().await
            }
            Err(error) if is_refused_login(&error) => self.reconnect().await,
            acquired => acquired,
        };
        match acquired {
            Err(sqlx::Error::PoolTimedOut) => {
                self.shared.n_timed_out.fetch_add(1, Ordering::Relaxed);
                Err(self.explain_timeout().await)
            }
            Err(error) => {
                self.shared.note_lost(&error);
                Err(error)
            }
            acquired => acquired,
        }
    }

    async fn reconnect(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        self.pool.set_connect_options(self.shared.connect_options());
        self.pool.acquire().await
    }

    /// Returns the reason why the pool timed out. The pool itself repeats failed attempts to connect
    /// until its timeout and does not report them.
    async fn explain_timeout(&self) -> sqlx::Error {
        if self.pool.size() >= self.shared.options.n_max {
            return sqlx::Error::PoolTimedOut;
        }
        let error = match timeout(LOOK_WITHIN, self.shared.connect_options().connect()).await {
            Ok(Ok(_)) => return sqlx::Error::PoolTimedOut,
            Ok(Err(cause)) => no_connection(cause),
            Err(_) => no_connection(timed_out()),
        };
        self.shared.note_lost(&error);
        error
    }

    async fn permit_write(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        let _waiting = Waiting::new(&self.shared);
        let writers = Arc::clone(&self.shared.writers);
        let Ok(permit) = timeout(ACQUIRE_WITHIN, writers.acquire_owned()).await else {
            self.shared.n_timed_out.fetch_add(1, Ordering::Relaxed);
            return Err(sqlx::Error::PoolTimedOut);
        };
        permit.map_err(|_| sqlx::Error::PoolClosed)
    }
}

impl Shared {
    fn is_pooled(&self) -> bool {
        self.is_pooled.load(Ordering::Relaxed)
    }

    /// Returns the options of a new connection. Behind a pooler, they include neither startup options
    /// nor prepared statements.
    fn connect_options(&self) -> PgConnectOptions {
        let options = self.url.connect_options();
        if self.is_pooled() {
            return options.statement_cache_capacity(0);
        }
        options.options(SETTINGS).options([("search_path", self.options.schema), DIRECT])
    }

    fn note_lost(&self, error: &sqlx::Error) {
        let is_unreachable = Fault::from(error) == Fault::Unreachable;
        if is_unreachable && !self.is_lost.swap(true, Ordering::Relaxed) {
            warn!(cause = describe(error), "the database {} cannot be reached", self.url);
        }
    }

    fn note_response(&self) {
        if self.is_lost.swap(false, Ordering::Relaxed) {
            info!("the database {} can be reached again", self.url);
        }
    }

    fn note_full(&self) {
        if !self.is_full.swap(true, Ordering::Relaxed) {
            warn!("the database's disk is full: reads continue, and writes once there is space");
        }
    }
}

impl Transaction {
    /// Commits the transaction if `result` is `Ok`, and rolls it back otherwise. Returns `result`,
    /// unless the commit fails.
    ///
    /// # Errors
    /// The error of `result` or of the commit.
    pub async fn finish<T, E: WorkError>(mut self, result: Result<T, E>) -> Result<T, E> {
        let end = match &result {
            // `COMMIT` is only sent after a write, since the outcome is unknown if the response to
            // `COMMIT` is lost.
            Ok(_) if self.is_read => "ROLLBACK",
            Ok(_) => "COMMIT",
            // Closes the connection, even if the server merely stopped accepting writes: the next
            // connection can reach another server.
            Err(error) if error.unreachable_cause().is_some() => return result,
            Err(_) => "ROLLBACK",
        };
        let mut ended = Ok(());
        if self.is_open {
            ended = sqlx::raw_sql(end).execute(&mut *self).await.map(drop).map_err(E::from);
        }
        if ended.is_ok() {
            self.is_clean = true;
            self.shared.note_response();
        }
        let result = result.and_then(|done| ended.map(|()| done));
        if result.as_ref().is_err_and(E::is_full) {
            self.shared.note_full();
        }
        result
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.is_clean {
            self.connection.close_on_drop();
        }
    }
}
