//! The one thread that writes, and how many writers share one commit.
//!
//! Jobs run one after another in the current transaction; when no more of them wait, or enough have
//! run, all of them are committed at once and answered. So a commit's wait for the disk is paid once
//! for all who wait for it. A job that fails is undone: the first one with the whole transaction, a
//! later one with its savepoint, which makes SQLite copy each page it changes.

use std::{
    io,
    marker::PhantomData,
    mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use crate::{
    connection::{OpenError, Schema, keep_log_on_close},
    fault::DatabaseFault,
    files::DatabaseFiles,
    space::{CHANGE_BYTES, DROP_TRIAL_SQL, SpaceWatch, write_trial_sql},
};

/// Jobs that wait for the writer. One more waits for a place: the writer is a step away from the
/// disk, and pushing back is all that helps.
const QUEUE_CAPACITY: usize = 256;

/// Jobs in one commit at most, so that the first of them is not answered too late.
const JOBS_PER_COMMIT: usize = 256;

/// Why a commit that several jobs share failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The disk is full.
    #[error("find space on the disk")]
    Full,
    /// The file was removed or replaced while it was open.
    #[error("write to a file that was replaced")]
    Replaced,
    /// A newer version of the program upgraded the file.
    #[error(
        "a newer version of the program upgraded the file to format {found}; restart the service with it"
    )]
    Upgraded {
        /// Format of the file.
        found: i64,
    },
    /// The writer has ended.
    #[error("write to a file that is closed")]
    Closed,
    /// SQLite failed otherwise.
    #[error("commit")]
    Database(#[source] DatabaseFault),
}

impl From<&rusqlite::Error> for CommitError {
    fn from(error: &rusqlite::Error) -> Self {
        let fault = DatabaseFault::from(error);
        if fault.is_full() { Self::Full } else { Self::Database(fault) }
    }
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(&error)
    }
}

/// The error of a store that writes by a [`Writer`].
pub trait WriteError: From<CommitError> + From<rusqlite::Error> + Send + 'static {
    /// Whether there was no space on the disk.
    fn is_full(&self) -> bool;
}

/// Works inside the open transaction. Without one it does nothing but report the error.
type Job = Box<dyn FnOnce(Result<Turn<'_>, CommitError>) -> Done + Send>;

/// A job's place in the open transaction.
#[derive(Debug, Clone, Copy)]
enum Turn<'a> {
    /// Nothing was written yet.
    First(&'a Connection),
    /// Other jobs wrote before it, whose work must stay.
    Later(&'a Connection),
}

/// A job that was run.
struct Done {
    answer: Answer,
    has_failed: bool,
    is_full: bool,
    /// About how many bytes it writes.
    n_bytes: u64,
}

/// Sends the job's result to its caller, once it is known whether the commit succeeded.
type Answer = Box<dyn FnOnce(Result<(), CommitError>)>;

/// The jobs of one commit.
#[derive(Default)]
struct Commit {
    answers: Vec<Answer>,
    /// Whether a part of it found no space.
    is_full: bool,
    n_bytes: u64,
    /// The largest part.
    n_bytes_largest: u64,
}

impl Commit {
    fn add(&mut self, done: Done) {
        self.answers.push(done.answer);
        self.is_full |= done.is_full;
        self.n_bytes = self.n_bytes.saturating_add(done.n_bytes);
        self.n_bytes_largest = self.n_bytes_largest.max(done.n_bytes);
    }
}

/// Handle to the writing thread, which ends when this is gone. `E` is the error of the store.
#[derive(Debug)]
pub struct Writer<E> {
    jobs: mpsc::Sender<Job>,
    n_jobs: AtomicU64,
    files: Arc<DatabaseFiles>,
    space: Arc<SpaceWatch>,
    upgraded: Arc<OnceLock<i64>>,
    error: PhantomData<fn() -> E>,
}

/// What the thread works on.
struct Worker {
    schema: &'static Schema,
    connection: Connection,
    files: Arc<DatabaseFiles>,
    space: Arc<SpaceWatch>,
    /// Format of the file once a newer version of the program was found to have upgraded it.
    upgraded: Arc<OnceLock<i64>>,
}

impl<E: WriteError> Writer<E> {
    /// Starts the thread, which owns `connection` to `files` of `schema`.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start(
        schema: &'static Schema,
        connection: Connection,
        files: Arc<DatabaseFiles>,
        space: SpaceWatch,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_CAPACITY);
        let space = Arc::new(space);
        let upgraded = Arc::new(OnceLock::new());
        let worker = Worker {
            schema,
            connection,
            files: Arc::clone(&files),
            space: Arc::clone(&space),
            upgraded: Arc::clone(&upgraded),
        };
        thread::Builder::new()
            .name(format!("{} writer", schema.name))
            .spawn(move || worker.run(queue))?;
        Ok(Self { jobs, n_jobs: AtomicU64::default(), files, space, upgraded, error: PhantomData })
    }

    /// Runs `work` in a transaction, and returns its result once that is durable. If it returns an
    /// error, its changes are undone.
    ///
    /// `on_commit` is called before this returns, in the order of commits. Dropping the future does
    /// not stop work that has been queued.
    ///
    /// # Errors
    /// Those of `work`, and [`CommitError`] if the commit fails.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        self.run_sized(CHANGE_BYTES, work, on_commit).await
    }

    /// As [`Self::run`], for work that writes about `n_bytes`.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn run_sized<T: Send + 'static>(
        &self,
        n_bytes: u64,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let (job, receiver) = create_job(n_bytes, work, on_commit);
        self.n_jobs.fetch_add(1, Ordering::Relaxed);
        self.jobs.send(job).await.map_err(|_| CommitError::Closed)?;
        receiver.await.map_err(|_| CommitError::Closed)?
    }

    /// As [`Self::run_sized`], for a thread that may block.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_blocking<T: Send + 'static>(
        &self,
        n_bytes: u64,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        // Not the runtime's own way to block, which panics in a test's async function.
        futures::executor::block_on(self.run_sized(n_bytes, work, |_| {}))
    }

    /// How many jobs there have been.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.n_jobs.load(Ordering::Relaxed)
    }

    /// Whether the file takes writes: it is in its place and of this format, and there is space. Where a commit found
    /// none, this tries another one of its size from time to time.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check(&self) -> Result<(), E> {
        if !self.files.check() {
            return Err(CommitError::Replaced.into());
        }
        if let Some(found) = self.upgraded.get() {
            return Err(CommitError::Upgraded { found: *found }.into());
        }
        if self.space.is_full() {
            let n_bytes = self.space.next_trial().ok_or(CommitError::Full)?;
            let sql = write_trial_sql(n_bytes);
            let write = move |connection: &Connection| Ok(connection.execute_batch(&sql)?);
            self.run_sized(n_bytes, write, |()| {}).await?;
            self.run(|write| Ok(write.execute_batch(DROP_TRIAL_SQL)?), |()| {}).await?;
        }
        Ok(())
    }
}

/// Returns a job, and where its result arrives.
fn create_job<T: Send + 'static, E: WriteError>(
    n_bytes: u64,
    work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    on_commit: impl FnOnce(&T) + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, E>>) {
    let (sender, receiver) = oneshot::channel();
    let job: Job = Box::new(move |turn| {
        let result = match turn {
            Ok(Turn::First(connection)) => work(connection),
            Ok(Turn::Later(connection)) => run_in_savepoint(connection, work),
            Err(error) => Err(error.into()),
        };
        let (has_failed, is_full) = (result.is_err(), result.as_ref().is_err_and(E::is_full));
        let answer: Answer = Box::new(move |committed| {
            let result = match (committed, result) {
                (Ok(()), Ok(value)) => {
                    on_commit(&value);
                    Ok(value)
                }
                (_, Err(error)) => Err(error),
                (Err(error), Ok(_)) => Err(error.into()),
            };
            // The caller may be gone; the work is done all the same.
            drop(sender.send(result));
        });
        Done { answer, has_failed, is_full, n_bytes }
    });
    (job, receiver)
}

fn run_in_savepoint<T, E: WriteError>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    connection.prepare_cached("SAVEPOINT job")?.execute([])?;
    let result = work(connection);
    // When there is no space left, say, SQLite undoes the whole transaction and this with it.
    if connection.is_autocommit() {
        return result;
    }
    if result.is_err() {
        connection.prepare_cached("ROLLBACK TO job")?.execute([])?;
    }
    connection.prepare_cached("RELEASE job")?.execute([])?;
    result
}

impl Worker {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut commit = Commit::default();
            let committed = self.commit(first, &mut queue, &mut commit);
            for answer in mem::take(&mut commit.answers) {
                answer(committed.clone());
            }
        }
        if !self.files.check() {
            keep_log_on_close(&self.connection);
        }
    }

    /// Runs `first` and the jobs that wait behind it in one transaction. On success it is durable in
    /// the file that readers of the path will find.
    fn commit(
        &mut self,
        first: Job,
        queue: &mut mpsc::Receiver<Job>,
        commit: &mut Commit,
    ) -> Result<(), CommitError> {
        if !self.files.is_intact() {
            commit.add(first(Err(CommitError::Replaced)));
            return Err(CommitError::Replaced);
        }
        let name = self.schema.name;
        let committed = transact(self.schema, &mut self.connection, first, queue, commit);
        let failure = committed.err();
        if let Some(CommitError::Upgraded { found }) = failure {
            self.upgraded.get_or_init(|| found);
        }
        commit.is_full |= matches!(failure, Some(CommitError::Full));
        if commit.is_full {
            if self.space.refuse(commit.n_bytes_largest) {
                error!("the disk of the {name} is full; writes go on once there is space");
            }
        } else if let Some(error) = &failure {
            error!(%error, n_jobs = commit.answers.len(), "a commit to the {name} failed");
        } else if self.space.accept(commit.n_bytes) {
            info!("the disk of the {name} has space again");
        }
        match failure {
            // One job without space may undo the work of all.
            Some(_) if commit.is_full => Err(CommitError::Full),
            Some(failure) => Err(failure),
            None if self.files.check() => Ok(()),
            None => Err(CommitError::Replaced),
        }
    }
}

fn transact(
    schema: &Schema,
    connection: &mut Connection,
    first: Job,
    queue: &mut mpsc::Receiver<Job>,
    commit: &mut Commit,
) -> Result<(), CommitError> {
    let transaction = match begin(schema, connection) {
        Ok(transaction) => transaction,
        Err(error) => {
            // Outside a transaction each statement would commit by itself: the job must not run.
            commit.add(first(Err(error.clone())));
            return Err(error);
        }
    };
    let done = first(Ok(Turn::First(&transaction)));
    let has_failed = done.has_failed;
    commit.add(done);
    // When there is no space left, say, SQLite has undone the whole transaction by itself.
    if has_failed && !transaction.is_autocommit() {
        return Ok(transaction.rollback()?);
    }
    // Without a transaction a further job would commit by itself, and then be reported as failed.
    while !transaction.is_autocommit()
        && commit.answers.len() < JOBS_PER_COMMIT
        && let Ok(job) = queue.try_recv()
    {
        commit.add(job(Ok(Turn::Later(&transaction))));
    }
    Ok(transaction.commit()?)
}

/// Starts a transaction, unless the file is of another format by now.
fn begin<'c>(
    schema: &Schema,
    connection: &'c mut Connection,
) -> Result<Transaction<'c>, CommitError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match schema.check_version(&transaction) {
        Ok(()) => Ok(transaction),
        Err(OpenError::Version { found, .. }) => Err(CommitError::Upgraded { found }),
        Err(OpenError::Database { source, .. }) => Err(CommitError::Database(source)),
        Err(_) => Err(CommitError::Closed),
    }
}

#[cfg(test)]
mod tests;
