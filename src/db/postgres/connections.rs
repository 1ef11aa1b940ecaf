//! Connections to the database: a few, each used by one transaction at a time.
//!
//! A connection that broke while it was idle is replaced without the caller's notice, since nothing
//! was asked of it yet. One that breaks later fails its transaction, and is not used again.
//!
//! The pool asks the server about every connection that comes back to it. That is as much work as a
//! short read, so a few that ended their transaction well stay at hand instead: defended by the rows
//! "page of 250 in PostgreSQL" and "ingest in PostgreSQL" of the bench `figures` of `tsdb`.

mod at_hand;
mod check;
mod identity;
mod reach;

use std::{
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use sqlx::{
    PgConnection, PgPool, Postgres,
    pool::PoolConnection,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::{
    runtime::Handle,
    select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use self::{at_hand::AtHand, identity::Identity, reach::Reach};
pub use self::{identity::WrongDatabase, reach::Figures};
use super::{
    DatabaseUrl,
    fault::{WorkError, is_lost},
    standbys::{POSITION_SQL, Position, Server, Standby, Standbys},
    unanswered::wait_for_answer,
    work::{Ending, Job, OnceJob, Work, is_lost_in, is_unreachable},
};

/// How long a caller waits for a connection: longer than a busy service needs to get to it, shorter
/// than its client waits.
const ACQUIRE_WITHIN: Duration = Duration::from_secs(5);

/// How long a transaction may take from end to end: less than a client waits, so that it learns why.
/// The server ends a statement sooner; this is for a server that does not respond at all. Then a commit
/// may have been made, which its writer learns by sending it again.
pub const DONE_WITHIN: Duration = Duration::from_secs(25);

/// The same on a standby: the primary does what one does not do soon.
const STANDBY_WITHIN: Duration = Duration::from_secs(2);

/// Connections for looks at a server, which do not wait for those that read: each store whose database has
/// standbys opens as many to every one of its servers.
pub const LOOKS_MAX: u32 = 1;

/// The settings of a connection: what the server may take for a statement, and to wait for a lock, and
/// when it ends a transaction, and with it its locks, whose service was paused or is gone, in
/// milliseconds. Every statement finds its rows by an index, whatever its parameters are: to plan it
/// again, or to compile it, takes longer than to run it.
/// Single statements are transactions like those of [`BEGIN_WRITE`].
const SETTINGS: [(&str, &str); 6] = [
    ("default_transaction_isolation", "read committed"),
    ("statement_timeout", "20000"),
    ("lock_timeout", "10000"),
    ("idle_in_transaction_session_timeout", "15000"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Idle connections are closed after this, so that a quiet service leaves its places to others.
const IDLE_FOR: Duration = Duration::from_mins(10);

/// Starts a transaction that writes. The row lock on `head` puts those of a dataset in order, and
/// what is read after it is what the one before committed. A database that was made read only, as one
/// whose disk is full may be, stays so.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Starts a transaction that sees one snapshot.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The same for a long one, which may wait for its reader. It holds no lock that a writer needs.
const BEGIN_LONG_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL idle_in_transaction_session_timeout = 0";

/// Handle to the connections. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connections {
    pool: PgPool,
    at_hand: Arc<AtHand>,
    n_max: u32,
    /// A permit for each connection that may write.
    writers: Arc<Semaphore>,
    /// Whether a write found the server's disk full, and no check has found space since.
    is_full: Arc<AtomicBool>,
    /// How long a read may take.
    read_within: Duration,
    reach: Arc<Reach>,
    /// `None` where any database will do.
    identity: Option<Arc<Identity>>,
    standbys: Option<Arc<Standbys<Connections>>>,
}

/// What the connections of a store are for.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionsOptions {
    /// The schema in which statements find their tables.
    pub schema: &'static str,
    /// Connections at most. The server takes a hundred by default, of which several services have to
    /// live.
    pub n_max: u32,
    /// Connections that write at most. While no standby confirms commits, each keeps its connection: the
    /// others are left to reads.
    pub n_writers: usize,
    /// The number of the tables, as [`Schema::open`](super::schema::Schema::open) returns it, of the only
    /// database that is used; `None` where any will do.
    pub era: Option<i64>,
}

/// A transaction under way, or single statements. Its connection is closed unless [`Self::finish`]
/// is called: that of one that writes once the server has answered.
#[derive(Debug)]
pub struct Transaction {
    connection: Option<(PoolConnection<Postgres>, Instant)>,
    connections: Connections,
    /// Whether there is more than single statements.
    is_open: bool,
    is_clean: bool,
    /// The permit of one that writes.
    writer: Option<OwnedSemaphorePermit>,
}

/// What sees one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// Each statement: for work that is one alone, which saves two round trips.
    Statement,
    /// Each statement, which locks what it reads: a write, so that what is read is where commits are
    /// that were acknowledged.
    LockedStatement,
    /// All statements of the work.
    Transaction,
}

impl Connections {
    /// Connects to the database at `url` as connections are needed, on `runtime`.
    #[must_use]
    pub fn new(url: &DatabaseUrl, options: ConnectionsOptions, runtime: Handle) -> Self {
        let connect = |url: &DatabaseUrl, options| {
            Self::to_server(url, options, runtime.clone(), STANDBY_WITHIN)
        };
        let looks = ConnectionsOptions { n_max: LOOKS_MAX, ..options };
        let standby = |url: &DatabaseUrl| {
            Standby::new(url.to_string(), connect(url, options), connect(url, looks))
        };
        let all: Vec<_> = url.standbys().iter().map(standby).collect();
        let has_some = !all.is_empty();
        let standbys =
            has_some.then(|| Arc::new(Standbys::new(connect(url, looks), all, &runtime)));
        Self { standbys, ..Self::to_server(url, options, runtime, DONE_WITHIN) }
    }

    fn to_server(
        url: &DatabaseUrl,
        options: ConnectionsOptions,
        runtime: Handle,
        read_within: Duration,
    ) -> Self {
        let ConnectionsOptions { schema, n_max, n_writers, era } = options;
        let identity = era.map(Identity::new);
        let looker = identity.clone();
        let connect = PgConnectOptions::clone(&url.options)
            .application_name("triptych")
            .options([("search_path", schema)])
            .options(SETTINGS);
        let _context = runtime.enter();
        let pool = PgPoolOptions::new()
            .max_connections(n_max)
            .acquire_timeout(ACQUIRE_WITHIN.min(read_within))
            // Not logged by the pool: who waits, and who waits in vain, is counted.
            .acquire_slow_threshold(ACQUIRE_WITHIN)
            .idle_timeout(IDLE_FOR)
            // `begin` tells as well, without a round trip more.
            .test_before_acquire(false)
            .after_connect(move |c, _| {
                let identity = looker.clone();
                async move {
                    match identity {
                        Some(identity) => identity.look(c).await,
                        None => Ok(()),
                    }
                }
                .boxed()
            })
            .connect_lazy_with(connect);
        let (connections, tasks) = Default::default();
        let at_hand = Arc::new(AtHand { connections, runtime, tasks });
        let writers = Arc::new(Semaphore::new(n_writers));
        let (is_full, reach) = (Arc::default(), Reach::new(url.to_string()));
        let standbys = None;
        Self { pool, at_hand, n_max, writers, is_full, read_within, reach, identity, standbys }
    }

    /// The same, whose reads may take so long on the primary.
    #[must_use]
    pub fn reading_within(self, limit: Duration) -> Self {
        Self { read_within: limit, ..self }
    }

    /// Runs `work`, which sees one snapshot; again on another connection where one was lost, and on a
    /// standby that has all that the primary has where that is lost.
    ///
    /// # Errors
    /// That of `work`, or of the database.
    pub async fn read<T: Send, E: WorkError>(
        &self,
        snapshot: Snapshot,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Sync,
    ) -> Result<T, E> {
        let job = Job::new(work);
        let ended = self.read_job(snapshot, &job).await;
        job.into_result(ended)
    }

    fn read_job<'j>(
        &'j self,
        snapshot: Snapshot,
        job: &'j dyn Work,
    ) -> BoxFuture<'j, Result<Ending, sqlx::Error>> {
        async move {
            let Some(standbys) = &self.standbys else {
                return self.read_job_here(snapshot, job).await;
            };
            let mut ended = None;
            if standbys.stand_in().is_none() {
                ended = select! {
                    ended = self.read_job_here(snapshot, job) => Some(ended),
                    () = standbys.stand_in_found() => None,
                };
            }
            if let Some(ended) = ended.take_if(|ended| !is_unreachable(ended)) {
                return ended;
            }
            if let Some(stand_in) = standbys.stand_in() {
                let found = stand_in.read_job_here(snapshot, job).await;
                if !is_unreachable(&found) {
                    return found;
                }
                standbys.distrust(stand_in);
            }
            match ended {
                Some(ended) => ended,
                None => self.read_job_here(snapshot, job).await,
            }
        }
        .boxed()
    }

    /// A standby that keeps up with the primary, for reads that may be a little behind: another one each
    /// time. `None` if there is none.
    #[must_use]
    pub fn standby(&self) -> Option<&Self> {
        self.standbys.as_ref()?.pick()
    }

    /// Whether there are standbys.
    #[must_use]
    pub const fn has_standbys(&self) -> bool {
        self.standbys.is_some()
    }

    /// Whether the primary cannot be reached, and a standby stands in for it.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.standbys.as_ref().is_some_and(|standbys| standbys.stand_in().is_some())
    }

    /// Whether a standby may have stood in for the primary just now.
    #[must_use]
    pub fn is_primary_lost(&self) -> bool {
        self.standbys.as_ref().is_some_and(|standbys| standbys.is_primary_lost())
    }

    /// Uses a standby that failed no more until it is well.
    pub fn distrust(&self, standby: &Self) {
        if let Some(standbys) = &self.standbys {
            standbys.distrust(standby);
        }
    }

    /// Notes that a change was made which no reader may miss, such as that a key lost access: no standby
    /// stands in for the primary without it.
    pub fn note_change(&self) {
        if let Some(standbys) = &self.standbys {
            standbys.note_change();
        }
    }

    /// As [`Self::read`], on this server alone.
    ///
    /// # Errors
    /// That of `work`, or of the database.
    pub async fn read_here<T: Send, E: WorkError>(
        &self,
        snapshot: Snapshot,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Sync,
    ) -> Result<T, E> {
        let job = Job::new(work);
        let ended = self.read_job_here(snapshot, &job).await;
        job.into_result(ended)
    }

    fn read_job_here<'j>(
        &'j self,
        snapshot: Snapshot,
        job: &'j dyn Work,
    ) -> BoxFuture<'j, Result<Ending, sqlx::Error>> {
        async move {
            let begin = async || match snapshot {
                Snapshot::Statement => self.begin(None, None).await,
                Snapshot::LockedStatement => {
                    self.begin(None, Some(self.permit_write().await?)).await
                }
                Snapshot::Transaction => self.begin(Some(BEGIN_READ), None).await,
            };
            for _ in 0..self.n_max {
                let done = async { begin().await?.run(job).await };
                // What took all its time does not get it again.
                let started = Instant::now();
                let ended = self.within(self.read_within, done).await;
                if !is_lost_in(&ended) || started.elapsed() >= self.read_within {
                    return ended;
                }
            }
            self.within(self.read_within, async { begin().await?.run(job).await }).await
        }
        .boxed()
    }

    /// Runs `work`, whose writes are durable on return.
    ///
    /// # Errors
    /// That of `work`, or of the database.
    pub async fn write<T: Send, E: WorkError>(
        &self,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Send,
    ) -> Result<T, E> {
        let job = OnceJob::new(work);
        let ended = self.write_job(Some(BEGIN_WRITE), &job).await;
        job.into_result(ended)
    }

    fn write_job<'j>(
        &'j self,
        begin: Option<&'static str>,
        job: &'j dyn Work,
    ) -> BoxFuture<'j, Result<Ending, sqlx::Error>> {
        async move {
            let done =
                async { self.begin(begin, Some(self.permit_write().await?)).await?.run(job).await };
            self.within(DONE_WITHIN, done).await
        }
        .boxed()
    }

    /// Runs `work`, which is one statement that writes: a transaction of its own. Where the connection
    /// is lost, it may have been done.
    ///
    /// # Errors
    /// That of `work`, or of the database.
    pub async fn write_once<T: Send, E: WorkError>(
        &self,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Send,
    ) -> Result<T, E> {
        let job = OnceJob::new(work);
        let ended = self.write_job(None, &job).await;
        job.into_result(ended)
    }

    /// Starts a long transaction that sees one snapshot, on a standby that has all that the primary has
    /// where that is lost.
    ///
    /// # Errors
    /// That of the database.
    pub fn snapshot(&self) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        self.begin_read(Some(BEGIN_LONG_READ))
    }

    /// Begins by `sql`, if there is some, on this server or on the standby that stands in for it.
    fn begin_read(
        &self,
        sql: Option<&'static str>,
    ) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        async move {
            let Some(standbys) = &self.standbys else { return self.begin(sql, None).await };
            let begun = select! {
                biased;
                () = standbys.stand_in_found() => None,
                begun = self.begin(sql, None) => Some(begun),
            };
            match (begun, standbys.stand_in()) {
                (Some(Ok(begun)), _) => Ok(begun),
                (_, Some(stand_in)) => stand_in.begin(sql, None).await,
                (Some(failed), None) => failed,
                (None, None) => self.begin(sql, None).await,
            }
        }
        .boxed()
    }

    /// Starts a transaction that writes.
    ///
    /// # Errors
    /// That of the database.
    pub fn begin_write(&self) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        async { self.begin(Some(BEGIN_WRITE), Some(self.permit_write().await?)).await }.boxed()
    }

    /// Returns a connection for single statements that read, which may have been lost while it was idle: to
    /// a standby that has all that the primary has where that is lost.
    ///
    /// # Errors
    /// That of the database.
    pub fn single(&self) -> BoxFuture<'_, Result<Transaction, sqlx::Error>> {
        self.begin_read(None)
    }

    async fn begin(
        &self,
        sql: Option<&'static str>,
        mut writer: Option<OwnedSemaphorePermit>,
    ) -> Result<Transaction, sqlx::Error> {
        // Each of the idle connections may have been lost with the server.
        let mut n_left = self.n_max;
        self.check_reach().await?;
        loop {
            let connection = match self.at_hand.take() {
                Some(connection) => connection,
                None => (self.acquire().await?, Instant::now()),
            };
            let mut transaction = Transaction {
                connection: Some(connection),
                connections: self.clone(),
                is_open: sql.is_some(),
                is_clean: false,
                writer: None,
            };
            if let Some(identity) = &self.identity {
                // Its connection is closed: the next one may lead elsewhere.
                identity.check()?;
            }
            transaction.writer = writer.take();
            let Some(sql) = sql else { return Ok(transaction) };
            match sqlx::raw_sql(sql).execute(&mut *transaction).await {
                Ok(_) => return Ok(transaction),
                Err(error) if n_left > 0 && is_lost(&error) => {
                    n_left -= 1;
                    writer = transaction.writer.take();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Server for Connections {
    fn position(&self) -> BoxFuture<'_, Result<Position, sqlx::Error>> {
        async {
            let ask = self.read_here(Snapshot::Statement, |c| {
                sqlx::query_as(POSITION_SQL).fetch_one(c).boxed()
            });
            ask.await
        }
        .boxed()
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.at_hand, &other.at_hand)
    }
}

impl Transaction {
    async fn run(mut self, job: &dyn Work) -> Result<Ending, sqlx::Error> {
        let ending = job.run(&mut self).await;
        self.end(ending).await?;
        Ok(ending)
    }

    /// Commits if `result` is well, else undoes all; returns it, unless the commit fails.
    ///
    /// # Errors
    /// That of `result`, or of the commit.
    pub async fn finish<T, E: WorkError>(self, result: Result<T, E>) -> Result<T, E> {
        self.end(Ending::of_result(&result)).await?;
        result
    }

    fn end(self, ending: Ending) -> BoxFuture<'static, Result<(), sqlx::Error>> {
        async move {
            let is_full = Arc::clone(&self.connections.is_full);
            let ended = self.commit_or_undo(ending).await;
            let finds_full =
                ending == Ending::Full || matches!(&ended, Err(error) if error.is_full());
            if finds_full && !is_full.swap(true, Ordering::Relaxed) {
                warn!("the database's disk is full: reads go on, writes once there is space");
            }
            ended
        }
        .boxed()
    }

    async fn commit_or_undo(mut self, ending: Ending) -> Result<(), sqlx::Error> {
        match ending {
            // Also of a server that takes no writes any more: the next connection may find another.
            Ending::Unreachable { .. } => {}
            _ if !self.is_open => self.is_clean = true,
            Ending::Done => {
                sqlx::raw_sql("COMMIT").execute(&mut *self).await?;
                self.is_clean = true;
            }
            Ending::Full | Ending::Failed => {
                self.is_clean = sqlx::raw_sql("ROLLBACK").execute(&mut *self).await.is_ok();
            }
        }
        Ok(())
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "the connection is there until the drop")]
    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().map(|(c, _)| &**c).expect("a connection until the drop")
    }
}

impl DerefMut for Transaction {
    #[expect(clippy::expect_used, reason = "the connection is there until the drop")]
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().map(|(c, _)| &mut **c).expect("a connection until the drop")
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Connections { pool, at_hand, n_max, reach, .. } = &self.connections;
        // A task returns or closes the connection.
        let _context = at_hand.runtime.enter();
        let Some((mut connection, since)) = self.connection.take() else { return };
        if self.is_clean {
            reach.note_answer();
        }
        // Else a caller may wait for one that comes back to the pool.
        let is_spare = pool.num_idle() > 0 || pool.size() < *n_max;
        match self.writer.take() {
            _ if self.is_clean && is_spare => drop(at_hand.put(connection, since)),
            _ if self.is_clean => {}
            Some(permit) => {
                let wait = wait_for_answer(connection, permit, pool.clone());
                at_hand.tasks.spawn("unanswered write", wait);
            }
            None => connection.close_on_drop(),
        }
    }
}
