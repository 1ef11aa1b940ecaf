//! Work on a connection without its types: what begins, retries and ends its transaction is compiled
//! once, not in each room for each piece of work.

use futures::{FutureExt as _, future, future::BoxFuture};
use parking_lot::Mutex;
use sqlx::PgConnection;

use super::fault::{WorkError, is_lost};

/// How work ended, as far as its transaction has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    /// The server cannot be reached, or takes no work now.
    Unreachable {
        /// Whether the connection is of no use any more.
        is_lost: bool,
    },
    /// The server's disk is full.
    Full,
    /// Any other error.
    Failed,
}

/// Work that may run several times and keeps its last result.
pub(super) trait Work: Sync {
    fn run<'c>(&'c self, connection: &'c mut PgConnection) -> BoxFuture<'c, Ending>;
}

/// Work that runs again where a connection is lost, and its last result.
pub(super) struct Job<W, R> {
    work: W,
    result: Mutex<Option<R>>,
}

/// Work that runs at most once, and its result.
pub(super) struct OnceJob<W, R> {
    work: Mutex<Option<W>>,
    result: Mutex<Option<R>>,
}

impl Ending {
    pub(super) fn of_result<T, E: WorkError>(result: &Result<T, E>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(error) => Self::of_error(error),
        }
    }

    fn of_error(error: &impl WorkError) -> Self {
        match error.unreachable_cause() {
            Some(cause) => Self::Unreachable { is_lost: is_lost(cause) },
            None if error.is_full() => Self::Full,
            None => Self::Failed,
        }
    }
}

impl<W, T, E> Job<W, Result<T, E>>
where
    W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>>,
    E: WorkError,
{
    pub(super) const fn new(work: W) -> Self {
        Self { work, result: Mutex::new(None) }
    }

    /// The result of the work; the database's error if the transaction failed.
    pub(super) fn into_result(self, ended: Result<Ending, sqlx::Error>) -> Result<T, E> {
        result_of(ended, self.result)
    }
}

impl<W, T, E> OnceJob<W, Result<T, E>>
where
    W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>>,
    E: WorkError,
{
    pub(super) const fn new(work: W) -> Self {
        Self { work: Mutex::new(Some(work)), result: Mutex::new(None) }
    }

    /// The result of the work; the database's error if the transaction failed.
    pub(super) fn into_result(self, ended: Result<Ending, sqlx::Error>) -> Result<T, E> {
        result_of(ended, self.result)
    }
}

impl<W, T, E> Work for Job<W, Result<T, E>>
where
    W: for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Sync,
    T: Send,
    E: WorkError,
{
    fn run<'c>(&'c self, connection: &'c mut PgConnection) -> BoxFuture<'c, Ending> {
        keep((self.work)(connection), &self.result)
    }
}

impl<W, T, E> Work for OnceJob<W, Result<T, E>>
where
    W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, E>> + Send,
    T: Send,
    E: WorkError,
{
    fn run<'c>(&'c self, connection: &'c mut PgConnection) -> BoxFuture<'c, Ending> {
        match self.work.lock().take() {
            Some(work) => keep(work(connection), &self.result),
            None => future::ready(Ending::Failed).boxed(),
        }
    }
}

fn keep<'c, T: Send, E: WorkError>(
    work: BoxFuture<'c, Result<T, E>>,
    kept: &'c Mutex<Option<Result<T, E>>>,
) -> BoxFuture<'c, Ending> {
    work.map(|result| {
        let ending = Ending::of_result(&result);
        *kept.lock() = Some(result);
        ending
    })
    .boxed()
}

fn result_of<T, E: WorkError>(
    ended: Result<Ending, sqlx::Error>,
    result: Mutex<Option<Result<T, E>>>,
) -> Result<T, E> {
    ended?;
    // The work kept a result before it ended.
    result.into_inner().unwrap_or_else(|| Err(sqlx::Error::WorkerCrashed.into()))
}

/// Whether another server may do what this one did not.
pub(super) fn is_unreachable(ended: &Result<Ending, sqlx::Error>) -> bool {
    matches!(ending(ended), Ending::Unreachable { .. })
}

/// Whether the connection was lost.
pub(super) fn is_lost_in(ended: &Result<Ending, sqlx::Error>) -> bool {
    ending(ended) == Ending::Unreachable { is_lost: true }
}

fn ending(ended: &Result<Ending, sqlx::Error>) -> Ending {
    ended.as_ref().map_or_else(Ending::of_error, |ending| *ending)
}
