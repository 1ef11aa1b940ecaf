//! Whether the server answers, and who waits for a connection to it.
//!
//! A server that hangs, or refuses connections, is waited for once. While it is known not to answer, work
//! fails soon, and a task asks it again until it does.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use sqlx::{
    Connection as _, PgConnection, Postgres, pool::PoolConnection, postgres::PgConnectOptions,
};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep, timeout},
};
use tracing::{info, warn};

use super::{ACQUIRE_WITHIN, Connections};
use crate::postgres::{
    fault::{no_connection, timed_out},
    no_connection::explain,
    standbys::StandbyFigures,
};

/// How long the server has to answer to a new connection.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The pause before it is asked again.
const ASK_AFTER: Duration = Duration::from_millis(200);

/// How long work waits for a server that is known not to answer: long enough to learn that it answers
/// again.
const LOST_WITHIN: Duration = Duration::from_millis(500);

/// The code with which a server begins that says that it stops or starts.
const STOPPED: &str = "57P";

/// What is known of a server, and the numbers of callers that wait for it.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// The server as people know it.
    place: String,
    /// When work on it was last done.
    answered: Mutex<Option<Instant>>,
    /// Whether a task asks it.
    is_asked: AtomicBool,
    is_lost: watch::Sender<bool>,
    n_waiting: AtomicUsize,
    n_timed_out: AtomicU64,
}

/// Numbers of a server and its standbys now, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Connections that are open, or being opened.
    pub n_open: u64,
    /// Those of them that nobody uses.
    pub n_idle: u64,
    /// Callers that wait for a connection, or for the right to write.
    pub n_waiting: u64,
    /// Callers that waited in vain since the start.
    pub n_timed_out: u64,
    /// Whether the server is known not to answer.
    pub is_lost: bool,
    /// Its standbys; `None` if there are none.
    pub standbys: Option<StandbyFigures>,
}

/// Counts a caller among those that wait, until it is dropped.
struct Waiting<'r>(&'r AtomicUsize);

impl<'r> Waiting<'r> {
    fn new(n_waiting: &'r AtomicUsize) -> Self {
        n_waiting.fetch_add(1, Ordering::Relaxed);
        Self(n_waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Reach {
    pub(super) fn new(place: String) -> Arc<Self> {
        Arc::new(Self { place, ..Self::default() })
    }

    /// Notes that the server did what it was asked.
    pub(super) fn note_answer(&self) {
        *self.answered.lock() = Some(Instant::now());
        if self.is_lost() && self.is_lost.send_replace(false) {
            info!("the database {} answers again", self.place);
        }
    }

    fn has_answered_since(&self, since: Instant) -> bool {
        self.answered.lock().is_some_and(|answered| answered >= since)
    }

    /// Whether the server is known not to answer.
    pub(super) fn is_lost(&self) -> bool {
        *self.is_lost.borrow()
    }

    /// Waits until the server is known not to answer. Cancel-safe.
    async fn lost(&self) {
        // It ends with this.
        drop(self.is_lost.subscribe().wait_for(|is_lost| *is_lost).await);
    }

    /// Asks the server until it answers, and has all work on it fail meanwhile.
    async fn ask(&self, address: &PgConnectOptions) {
        loop {
            let asked = Instant::now();
            let cause = match timeout(ANSWER_WITHIN, connect(address)).await {
                Ok(Ok(())) => break,
                Ok(Err(error)) => error,
                Err(_) => timed_out(),
            };
            if self.has_answered_since(asked) {
                break;
            }
            if !self.is_lost.send_replace(true) {
                let cause = task::causes::chain(&cause);
                warn!(
                    cause,
                    "the database {} does not answer; work on it fails until it does", self.place
                );
            }
            sleep(ASK_AFTER).await;
        }
        self.is_asked.store(false, Ordering::Relaxed);
        self.note_answer();
    }
}

/// Connects; a server that refuses this client answers, too.
async fn connect(address: &PgConnectOptions) -> Result<(), sqlx::Error> {
    match PgConnection::connect_with(address).await {
        Ok(connection) => connection.close().await,
        Err(sqlx::Error::Database(fault))
            if !fault.code().is_some_and(|code| code.starts_with(STOPPED)) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

impl Connections {
    /// Fails if the server is known not to answer, unless it soon does.
    pub(super) async fn check_reach(&self) -> Result<(), sqlx::Error> {
        if !self.reach.is_lost() {
            return Ok(());
        }
        let mut is_lost = self.reach.is_lost.subscribe();
        match timeout(LOST_WITHIN, is_lost.wait_for(|is_lost| !is_lost)).await {
            Ok(_) => Ok(()),
            Err(_) => Err(no_connection(timed_out())),
        }
    }

    /// Its numbers now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let n_at_hand = self.at_hand.connections.lock().len();
        let standbys = self.standbys.as_ref().map(|standbys| standbys.figures());
        Figures {
            n_open: self.pool.size().into(),
            n_idle: wide(self.pool.num_idle() + n_at_hand),
            n_waiting: wide(self.reach.n_waiting.load(Ordering::Relaxed)),
            n_timed_out: self.reach.n_timed_out.load(Ordering::Relaxed),
            is_lost: self.reach.is_lost() || self.is_primary_lost(),
            standbys,
        }
    }

    /// Has the server asked whether it is there, unless it did something since then.
    fn suspect(&self, since: Instant) {
        let reach = Arc::clone(&self.reach);
        if reach.has_answered_since(since) || reach.is_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let address = self.pool.connect_options();
        let _context = self.at_hand.runtime.enter();
        self.at_hand.tasks.spawn("silent database", async move { reach.ask(&address).await });
    }

    /// The outcome of `done`, if it is there before `limit`, and before the server is known not to answer.
    ///
    /// # Errors
    /// That of `done`; [`Fault::Unreachable`](crate::postgres::fault::Fault::Unreachable) if it is not
    /// there by then.
    pub async fn within<T, E: From<sqlx::Error>>(
        &self,
        limit: Duration,
        done: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let since = Instant::now();
        let mut done = pin!(timeout(limit, done));
        let ended = if let Ok(ended) = timeout(ACQUIRE_WITHIN, &mut done).await {
            ended
        } else {
            self.suspect(since);
            select! {
                biased;
                ended = done => ended,
                () = self.reach.lost() => return Err(timed_out().into()),
            }
        };
        ended.unwrap_or_else(|_| {
            self.suspect(since);
            Err(timed_out().into())
        })
    }

    /// Waits for the right to write.
    pub(super) async fn permit_write(&self) -> Result<OwnedSemaphorePermit, sqlx::Error> {
        let _waiting = Waiting::new(&self.reach.n_waiting);
        let Ok(permit) = timeout(ACQUIRE_WITHIN, Arc::clone(&self.writers).acquire_owned()).await
        else {
            self.reach.n_timed_out.fetch_add(1, Ordering::Relaxed);
            return Err(sqlx::Error::PoolTimedOut);
        };
        permit.map_err(|_| sqlx::Error::PoolClosed)
    }

    /// Waits for a connection of the pool.
    pub(super) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let since = Instant::now();
        let _waiting = Waiting::new(&self.reach.n_waiting);
        let acquired = self.pool.acquire().await;
        if matches!(acquired, Err(sqlx::Error::PoolTimedOut)) {
            self.reach.n_timed_out.fetch_add(1, Ordering::Relaxed);
            self.suspect(since);
            return Err(explain(&self.pool).await);
        }
        acquired
    }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
