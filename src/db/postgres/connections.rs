//! Connections to the database: a pool with time limits for transactions.
//!
//! A connection that was idle for a second is tested before its use, and silently replaced if it was
//! lost. If a connection is lost while a transaction starts or during [`Connections::read`], another
//! connection is used. A connection that is lost during other work fails that work and is closed.
//!
//! A pooler such as `PgBouncer` can send each transaction over another connection to the server. A
//! pooler is recognized because it rejects or drops a startup option. Behind a pooler, all statements
//! run in transactions that apply the settings themselves and do not use prepared statements.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use derive_more::{Deref, DerefMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, PgPool, Postgres, Row as _,
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::DatabaseUrl;
use super::fault::{Fault, describe, has_code, is_connection_lost, is_unreachable, timed_out};
use super::schema::Schema;
use crate::fault::WorkError;

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

/// Idle time after which a connection is tested before its use, which takes a round trip.
const TESTED_AFTER: Duration = Duration::from_secs(1);

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

/// Code of the error by which a pooler rejects a startup option.
const STARTUP_REJECTED: &str = "08P01";

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
    SELECT repeat('x', 1000) FROM generate_series(1, 1000);";

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
    /// True if the first connection found a pooler between this service and the server.
    is_pooled: OnceCell<bool>,
    /// True once the tables were opened. From then on, every writing transaction starts by reading their
    /// format, which locks it, so that it cannot change before the end of the transaction.
    is_open: AtomicBool,
    /// True after a write found the server's disk full, until a check finds space.
    is_full: AtomicBool,
    /// True if the last attempt to reach the server failed.
    is_lost: AtomicBool,
    /// Time at which a connection was lost last. Connections that were idle then are tested before their
    /// use, since they probably were lost, too.
    lost_at: Mutex<Option<Instant>>,
    /// Cloned by each caller as long as it waits for a connection or for a permit to write.
    waiting: Arc<()>,
    n_timed_out: AtomicUsize,
}

/// Options of the connections of a store.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionsOptions {
    /// Tables of the store. Statements look up unqualified names in this schema.
    pub schema: Schema,
    /// True for a database that does not accept writes, such as a standby.
    pub is_read_only: bool,
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
    pub n_open: usize,
    /// Number of open connections that are idle.
    pub n_idle: usize,
    /// Number of callers that are waiting for a connection or for a permit to write.
    pub n_waiting: usize,
    /// Number of callers, since the start, whose wait timed out.
    pub n_timed_out: usize,
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
#[derive(Debug, Deref, DerefMut)]
pub struct Transaction {
    #[deref(forward)]
    #[deref_mut(forward)]
    connection: PoolConnection<Postgres>,
    shared: Arc<Shared>,
    /// Statement that ends the transaction if its work succeeds, or `None` if a single statement runs
    /// without an explicit transaction. `COMMIT` is only sent after a write, since the outcome is unknown
    /// if the response to `COMMIT` is lost.
    end: Option<&'static str>,
    is_clean: bool,
    /// Permit to write, if this transaction writes.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connections {
    /// Creates a handle to the database at `url`. Connections are opened when they are needed. Must be
    /// called in the context of a runtime.
    #[must_use]
    pub fn new(url: &DatabaseUrl, options: ConnectionsOptions) -> Self {
        let shared = Arc::new(Shared {
            url: url.clone(),
            options,
            writers: Arc::new(Semaphore::new(options.n_writers)),
            is_pooled: OnceCell::new(),
            is_open: AtomicBool::default(),
            is_full: AtomicBool::default(),
            is_lost: AtomicBool::default(),
            lost_at: Mutex::default(),
            waiting: Arc::default(),
            n_timed_out: AtomicUsize::default(),
        });
        let tested = Arc::clone(&shared);
        let pool = PgPoolOptions::new()
            .max_connections(options.n_max)
            .acquire_timeout(ACQUIRE_WITHIN)
            // Keeps the pool from logging long waits. Waits and timeouts are counted here.
            .acquire_slow_threshold(ACQUIRE_WITHIN)
            .idle_timeout(IDLE_FOR)
            .test_before_acquire(false)
            .before_acquire(move |connection, idle| {
                let since_loss = tested.lost_at.lock().map_or(Duration::MAX, |at| at.elapsed());
                let is_recent = idle.idle_for < TESTED_AFTER.min(since_loss);
                async move { Ok(is_recent || connection.ping().await.is_ok()) }.boxed()
            })
            .connect_lazy_with(shared.connect_options());
        Self { pool, shared }
    }

    /// Returns true if a pooler was found, which can send each transaction over another connection to the
    /// server. `LISTEN` must then not be used, since the notifications would reach other clients of the
    /// pooler.
    #[must_use]
    pub fn is_pooled(&self) -> bool {
        self.shared.is_pooled.get() == Some(&true)
    }

    /// Runs `work`, which must only read, and runs it again if its connection is lost.
    ///
    /// # Errors
    /// The error of `work` or of the database.
    pub async fn read<T: Send, E: WorkError + From<sqlx::Error>>(
        &self,
        snapshot: Snapshot,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Sync,
    ) -> Result<T, E> {
        let begin = (snapshot == Snapshot::Transaction).then_some(BEGIN_READ);
        let attempt = async || {
            let mut transaction = self.start(begin).await?;
            let result = work(&mut transaction).await;
            transaction.finish(result).await
        };
        let done = async {
            match attempt().await {
                Err(error) if self.shared.note_loss(&error) => attempt().await,
                result => result,
            }
        };
        self.within(DONE_WITHIN, done).await
    }

    /// Runs `work` in a transaction. Its writes are durable on return. If the connection is lost during
    /// the commit, returns an error even though the writes might be durable.
    ///
    /// # Errors
    /// The error of `work` or of the database.
    pub async fn write<T: Send, E: WorkError + From<sqlx::Error>>(
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

    /// Creates or upgrades the tables, or only checks their format in a read-only database. Returns the
    /// random number that identifies the tables. Afterwards, writes fail as soon as a newer version of the
    /// program has upgraded the tables.
    ///
    /// # Errors
    /// The error of the database, or [`SchemaError`](super::schema::SchemaError) if the database has
    /// another encoding or the format of the tables cannot be upgraded.
    pub async fn open_tables(&self) -> Result<i64, sqlx::Error> {
        // Creating or upgrading tables takes a lock. It is only taken if this is needed, since otherwise
        // every start would wait for a service that was paused while it held the lock.
        let ConnectionsOptions { schema, is_read_only, .. } = self.shared.options;
        let era = match self.check_format().await {
            Err(error) if !is_read_only && !is_unreachable(&error) => {
                self.write(|c| async move { schema.open(c).await }.boxed()).await?
            }
            checked => checked?,
        };
        self.shared.is_open.store(true, Ordering::Relaxed);
        Ok(era)
    }

    async fn check_format(&self) -> Result<i64, sqlx::Error> {
        let schema = self.shared.options.schema;
        self.read(Snapshot::Statement, |c| async move { schema.check(c).await }.boxed()).await
    }

    /// Opens a connection that receives the notifications of `channel`. A lost connection is reopened.
    ///
    /// # Errors
    /// The error of the database, for example of a standby, which does not support notifications.
    pub async fn listen(&self, channel: &str) -> Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen(channel).await?;
        Ok(listener)
    }

    /// Starts a transaction for reading, in which all statements see the same snapshot.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn begin_read(&self) -> Result<Transaction, sqlx::Error> {
        self.begin(BEGIN_READ).await
    }

    /// Starts a transaction for writing.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn begin_write(&self) -> Result<Transaction, sqlx::Error> {
        let waiting = Arc::clone(&self.shared.waiting);
        let permit = Arc::clone(&self.shared.writers).acquire_owned();
        let Ok(permit) = timeout(ACQUIRE_WITHIN, permit).await else {
            self.shared.n_timed_out.fetch_add(1, Ordering::Relaxed);
            return Err(sqlx::Error::PoolTimedOut);
        };
        drop(waiting);
        let mut transaction = self.begin(BEGIN_WRITE).await?;
        transaction.permit = permit.ok();
        Ok(transaction)
    }

    /// Checks that the database accepts writes, and that the user has the privileges to write to the
    /// tables. If an earlier write found the disk full, also writes a megabyte and rolls the write back.
    /// Only checks the format of a read-only database.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn check<E: WorkError + From<sqlx::Error>>(&self) -> Result<(), E> {
        let ConnectionsOptions { schema, is_read_only, .. } = self.shared.options;
        if is_read_only {
            return Ok(self.check_format().await.map(drop)?);
        }
        let was_full = self.shared.is_full.load(Ordering::Relaxed);
        let check = async {
            let mut transaction = self.begin(BEGIN_WRITE).await?;
            let trial = if was_full { TRY_SPACE } else { "" };
            let sql =
                format!("{trial}UPDATE {0}.format SET version = version WHERE false", schema.name);
            let mut result =
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await.map(drop);
            if result.is_ok() {
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
        Figures {
            n_open: usize::try_from(self.pool.size()).unwrap_or(usize::MAX),
            n_idle: self.pool.num_idle(),
            n_waiting: Arc::strong_count(&self.shared.waiting) - 1,
            n_timed_out: self.shared.n_timed_out.load(Ordering::Relaxed),
            is_lost: self.shared.is_lost.load(Ordering::Relaxed),
        }
    }

    /// Starts a transaction like [`Self::start`], on another connection if the first one is lost.
    async fn begin(&self, sql: &'static str) -> Result<Transaction, sqlx::Error> {
        match self.start(Some(sql)).await {
            Err(error) if self.shared.note_loss(&error) => self.start(Some(sql)).await,
            begun => begun,
        }
    }

    /// Starts a transaction with the statement `sql`. If `sql` is `None`, returns a connection for a
    /// single statement, which needs no explicit transaction.
    fn start(&self, sql: Option<&'static str>) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        async move {
            let schema = self.shared.options.schema;
            let is_pooled = self.find_pooler().await?;
            let begin = sql.or(is_pooled.then_some(BEGIN_WRITE));
            let end = begin.map(|begin| if begin == BEGIN_READ { "ROLLBACK" } else { "COMMIT" });
            let (connection, shared) = (self.acquire().await?, Arc::clone(&self.shared));
            let mut transaction =
                Transaction { connection, shared, end, is_clean: false, permit: None };
            let Some(begin) = begin else { return Ok(transaction) };
            let mut statements = vec![begin.to_owned()];
            if is_pooled {
                statements.push(self.shared.local_settings());
            }
            if sql == Some(BEGIN_WRITE) && self.shared.is_open.load(Ordering::Relaxed) {
                statements.push(format!("SELECT version FROM {}.format", schema.name));
            }
            let begin = sqlx::raw_sql(AssertSqlSafe(statements.join("; ")));
            if let Some(row) = begin.fetch_optional(&mut *transaction).await? {
                schema.steps_from(&[], row.try_get(0)?)?;
            }
            Ok(transaction)
        }
        .boxed()
    }

    /// Returns true if connections lead through a pooler, which the first connection finds out.
    async fn find_pooler(&self) -> Result<bool, sqlx::Error> {
        let find = async || {
            let is_pooled = match self.acquire().await {
                // The pooler rejected a startup option.
                Err(error) if has_code(&error, STARTUP_REJECTED) => true,
                connection => {
                    let mut connection = connection?;
                    let row = sqlx::raw_sql(IS_DIRECT).fetch_one(&mut *connection).await?;
                    let is_pooled = !row.try_get::<bool, _>(0)?;
                    if is_pooled {
                        connection.close_on_drop();
                    }
                    is_pooled
                }
            };
            if is_pooled {
                info!("connections to the database lead through a pooler");
                let options = self.shared.url.connect_options().statement_cache_capacity(0);
                self.pool.set_connect_options(options);
            }
            Ok(is_pooled)
        };
        self.shared.is_pooled.get_or_try_init(find).await.copied()
    }

    /// Returns a connection from the pool. Connects again if the server rejected the login because the
    /// password has changed.
    async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let _waiting = Arc::clone(&self.shared.waiting);
        let mut acquired = self.pool.acquire().await;
        if acquired.as_ref().is_err_and(|error| has_code(error, "28")) {
            self.pool.set_connect_options(self.shared.connect_options());
            acquired = self.pool.acquire().await;
        }
        if let Err(sqlx::Error::PoolTimedOut) = acquired {
            self.shared.n_timed_out.fetch_add(1, Ordering::Relaxed);
            if self.pool.size() >= self.shared.options.n_max {
                return acquired;
            }
            // The pool repeats failed attempts to connect until its timeout and does not report them.
            let options = self.shared.connect_options();
            if let Ok(Err(cause)) = timeout(LOOK_WITHIN, options.connect()).await {
                acquired = Err(cause);
            }
        }
        acquired.inspect_err(|error| self.shared.note_lost(error))
    }
}

impl Shared {
    /// Returns the options of a new connection. Behind a pooler, they include neither startup options
    /// nor prepared statements.
    fn connect_options(&self) -> PgConnectOptions {
        let options = self.url.connect_options();
        if self.is_pooled.get() == Some(&true) {
            return options.statement_cache_capacity(0);
        }
        options.options(SETTINGS).options([("search_path", self.options.schema.name), DIRECT])
    }

    /// Returns the statements that are appended to the start of each transaction behind a pooler. They
    /// apply the settings and drop prepared statements.
    fn local_settings(&self) -> String {
        let settings = SETTINGS.into_iter().chain([("search_path", self.options.schema.name)]);
        let settings = settings.map(|(name, value)| format!("; SET LOCAL {name} = '{value}'"));
        "DEALLOCATE ALL".to_owned() + &settings.collect::<String>()
    }

    /// Returns true if an open connection was lost, so that another attempt can succeed.
    fn note_loss(&self, error: &(dyn StdError + 'static)) -> bool {
        let is_lost = is_connection_lost(error);
        if is_lost {
            *self.lost_at.lock() = Some(Instant::now());
        }
        is_lost
    }

    fn note_lost(&self, error: &sqlx::Error) {
        let is_unreachable = Fault::from(error) == Fault::Unreachable;
        if is_unreachable
            && !(self.is_pooled.get().is_none() && has_code(error, STARTUP_REJECTED))
            && !self.is_lost.swap(true, Ordering::Relaxed)
        {
            warn!(cause = describe(error), "the database {} cannot be reached", self.url);
        }
    }
}

impl Transaction {
    /// Commits the transaction if `result` is `Ok`, and rolls it back otherwise. Returns `result`,
    /// unless the commit fails.
    ///
    /// # Errors
    /// The error of `result` or of the commit.
    pub async fn finish<T, E: WorkError + From<sqlx::Error>>(
        mut self,
        result: Result<T, E>,
    ) -> Result<T, E> {
        let end = match &result {
            Ok(_) => self.end,
            // Closes the connection, even if the server merely stopped accepting writes: the next
            // connection can reach another server.
            Err(error) if is_unreachable(error) => return result,
            Err(_) => self.end.and(Some("ROLLBACK")),
        };
        let mut ended = Ok(());
        if let Some(end) = end {
            ended = sqlx::raw_sql(end).execute(&mut *self).await.map(drop).map_err(E::from);
        }
        if ended.is_ok() {
            self.is_clean = true;
            if self.shared.is_lost.swap(false, Ordering::Relaxed) {
                info!("the database {} can be reached again", self.shared.url);
            }
        }
        let result = result.and_then(|done| ended.map(|()| done));
        let is_full = result.as_ref().is_err_and(E::is_full);
        if is_full && !self.shared.is_full.swap(true, Ordering::Relaxed) {
            warn!("the database's disk is full: reads continue, and writes once there is space");
        }
        result
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.is_clean {
            self.connection.close_on_drop();
        }
    }
}

#[cfg(test)]
mod tests {
    use test_postgres::{new_database, run};

    use super::*;

    const SCHEMA: Schema = Schema {
        name: "things",
        version: 1,
        steps: &[],
        tables: "CREATE TABLE things.things (id bigint PRIMARY KEY)",
    };

    const END_OTHERS: &str = "SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity
         WHERE application_name = 'triptych' AND datname = current_database()";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn reads_and_writes_continue_after_all_connections_were_lost() {
        let Some(url) = new_database() else { return };
        let options =
            ConnectionsOptions { schema: SCHEMA, is_read_only: false, n_max: 5, n_writers: 5 };
        let connections = Connections::new(&url.parse().unwrap(), options);
        connections.open_tables().await.unwrap();
        let insert = |id: i64| {
            let sql = sqlx::query("INSERT INTO things.things (id) VALUES ($1)").bind(id);
            connections.write(|c| async move { sql.execute(c).await.map(drop) }.boxed())
        };
        futures::future::try_join_all((0..5).map(insert)).await.unwrap();
        run(&url, END_OTHERS);
        insert(5).await.unwrap();
        let attempts = AtomicUsize::default();
        for snapshot in [Snapshot::Statement, Snapshot::Transaction] {
            attempts.store(0, Ordering::Relaxed);
            let count = connections.read(snapshot, |c| {
                let is_lost = attempts.fetch_add(1, Ordering::Relaxed) == 0;
                let end =
                    if is_lost { "SELECT pg_terminate_backend(pg_backend_pid())" } else { "" };
                async move {
                    sqlx::raw_sql(end).execute(&mut *c).await?;
                    sqlx::query_scalar("SELECT count(*) FROM things.things").fetch_one(c).await
                }
                .boxed()
            });
            let count: Result<i64, sqlx::Error> = count.await;
            assert_eq!((count.unwrap(), attempts.load(Ordering::Relaxed)), (6, 2));
        }
    }
}
