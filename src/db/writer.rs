//! The thread that writes to a file and combines the commits of several writers.
//!
//! Jobs run one after another in the same transaction. When no more jobs are queued, or enough have run,
//! the transaction is committed and all callers get their results. Thus jobs that are queued together
//! share one sync of the disk. A later job that fails is rolled back to a savepoint before it. The first
//! job has no savepoint, since SQLite must copy each page that changes after a savepoint. If the first
//! job fails, the whole transaction is rolled back.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use task::lock::Lock;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use crate::connection::{FileError, Schema};
use crate::fault::WorkError;
use crate::files::DatabaseFiles;

/// Capacity of the queue of jobs. If the queue is full, writers wait, since the disk is the bottleneck.
const QUEUE_CAPACITY: usize = 256;

/// Maximum number of jobs per commit, so that the first job does not wait too long.
const JOBS_PER_COMMIT: usize = 256;

/// Statements that test for disk space: they write a megabyte and free it again, each in its own
/// transaction. A smaller write is no proof, since it often succeeds where another write has found no
/// space.
pub const TRY_SPACE: [&str; 2] = [
    "DROP TABLE IF EXISTS space_trial;
     CREATE TABLE space_trial AS SELECT randomblob(1048576) AS body",
    "DROP TABLE IF EXISTS space_trial",
];

/// A job, which runs in the open transaction. If no transaction could be opened, the job only passes the
/// error to its caller.
type Job = Box<dyn FnOnce(Result<&Connection, FileError>) -> Done + Send>;

/// Outcome of a job that has run.
struct Done {
    /// Sends the result of the job to its caller, once the outcome of the commit is known.
    answer: Box<dyn FnOnce(Result<(), FileError>)>,
    has_failed: bool,
    is_full: bool,
}

/// Handle to the writing thread, which exits when the handle is dropped. `E` is the error type of the
/// store.
#[derive(Debug)]
pub struct Writer<E> {
    jobs: mpsc::Sender<Job>,
    n_jobs: AtomicU64,
    name: &'static str,
    is_full: Arc<AtomicBool>,
    error: PhantomData<fn() -> E>,
}

/// State of the writing thread.
struct Worker {
    schema: &'static Schema,
    connection: Connection,
    files: Arc<DatabaseFiles>,
    /// True after a commit found no space, until a check finds space.
    is_full: Arc<AtomicBool>,
    /// Lock that keeps out other processes. The last field, so that it is released after `connection` is
    /// closed.
    _in_use: Lock,
}

impl<E: WorkError + From<FileError> + From<rusqlite::Error>> Writer<E> {
    /// Starts the thread, which owns `connection`, a connection to a file with the tables of `schema`. The
    /// thread releases `in_use` after it has closed the connection.
    ///
    /// # Errors
    /// [`FileError::Open`] if the thread cannot be started.
    pub fn start(
        schema: &'static Schema,
        connection: Connection,
        files: Arc<DatabaseFiles>,
        in_use: Lock,
    ) -> Result<Self, FileError> {
        let (jobs, queue) = mpsc::channel(QUEUE_CAPACITY);
        let is_full = Arc::<AtomicBool>::default();
        let full = Arc::clone(&is_full);
        let worker = Worker { schema, connection, files, is_full: full, _in_use: in_use };
        let name = schema.name;
        let thread = thread::Builder::new().name(format!("{name} writer"));
        thread
            .spawn(move || worker.run(queue))
            .map_err(|error| FileError::Open { name, source: error.into() })?;
        Ok(Self { jobs, n_jobs: AtomicU64::default(), name, is_full, error: PhantomData })
    }

    /// Runs `work` in a transaction and returns its result once its changes are durable. If `work`
    /// fails, its changes are rolled back.
    ///
    /// `on_commit` is called after the commit and before the result is returned, in the order of
    /// commits. Dropping the future does not cancel queued work.
    ///
    /// # Errors
    /// The error of `work`, or a [`FileError`].
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        self.n_jobs.fetch_add(1, Ordering::Relaxed);
        self.send(work, on_commit).await
    }

    async fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, E> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.map_err(E::from).and_then(work);
            let (has_failed, is_full) = (result.is_err(), result.as_ref().is_err_and(E::is_full));
            let answer = Box::new(move |committed: Result<(), FileError>| {
                let result = result.and_then(|value| {
                    committed?;
                    on_commit(&value);
                    Ok(value)
                });
                // Sending fails only if the caller has stopped waiting. The work is done nevertheless.
                drop(sender.send(result));
            });
            Done { answer, has_failed, is_full }
        });
        self.jobs.send(job).await.map_err(|_| FileError::Closed)?;
        receiver.await.map_err(|_| FileError::Closed)?
    }

    /// Runs `work` like [`Self::run`], and blocks the thread until it is done.
    ///
    /// # Errors
    /// The same as for [`Self::run`].
    pub fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        // `Handle::block_on` would panic in a test with an async function.
        futures::executor::block_on(self.run(work, |_| {}))
    }

    /// Returns the number of jobs that callers have requested so far.
    #[must_use]
    pub fn n_jobs(&self) -> u64 {
        self.n_jobs.load(Ordering::Relaxed)
    }

    /// Checks that the file accepts writes with a transaction that changes nothing. If an earlier commit
    /// found no space, also writes a megabyte and frees it again.
    ///
    /// # Errors
    /// The reason why the file does not accept writes.
    pub async fn check(&self) -> Result<(), E> {
        let is_full = self.is_full.load(Ordering::Relaxed);
        for sql in if is_full { &TRY_SPACE[..] } else { &[""] } {
            self.send(|connection| Ok(connection.execute_batch(sql)?), |()| {}).await?;
        }
        if is_full && self.is_full.swap(false, Ordering::Relaxed) {
            info!("the disk of the {} has space again", self.name);
        }
        Ok(())
    }
}

impl Worker {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        while let Some(first) = queue.blocking_recv() {
            let mut done = Vec::new();
            let committed = self.commit(first, &mut queue, &mut done);
            for job in done {
                (job.answer)(committed.clone());
            }
        }
        self.files.before_close(&self.connection);
    }

    /// Runs `first` and the jobs that are queued after it in one transaction. On success, the changes of
    /// these jobs are durable, and the file was still in place at its path after the commit.
    fn commit(
        &mut self,
        first: Job,
        queue: &mut mpsc::Receiver<Job>,
        done: &mut Vec<Done>,
    ) -> Result<(), FileError> {
        let name = self.schema.name;
        let committed = self.transact(first, queue, done);
        let is_full =
            matches!(committed, Err(FileError::Full)) || done.iter().any(|job| job.is_full);
        if is_full && !self.is_full.swap(true, Ordering::Relaxed) {
            error!("the disk of the {name} is full; writes continue once there is space");
        }
        match committed {
            Ok(()) if !self.files.check() => Err(FileError::Replaced),
            // If a job found no space, SQLite might have rolled back the changes of all jobs.
            Err(_) if is_full => Err(FileError::Full),
            Err(error) => {
                error!(%error, n_jobs = done.len(), "a commit to the {name} failed");
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn transact(
        &mut self,
        first: Job,
        queue: &mut mpsc::Receiver<Job>,
        done: &mut Vec<Done>,
    ) -> Result<(), FileError> {
        let transaction = match self.begin() {
            Ok(transaction) => transaction,
            Err(error) => {
                // The job does not run, since each of its statements would be committed separately.
                done.push(first(Err(error.clone())));
                return Err(error);
            }
        };
        let job = first(Ok(&transaction));
        let has_failed = job.has_failed;
        done.push(job);
        // An error such as a full disk has already made SQLite roll back the whole transaction.
        if has_failed && !transaction.is_autocommit() {
            return Ok(transaction.rollback()?);
        }
        let run = |sql| Ok::<_, FileError>(transaction.prepare_cached(sql)?.execute([])?);
        // Stops if SQLite has rolled back the transaction. Another job would be committed on its own,
        // although its caller would get an error.
        while !transaction.is_autocommit()
            && done.len() < JOBS_PER_COMMIT
            && let Ok(job) = queue.try_recv()
        {
            let job = job(run("SAVEPOINT job").map(|_| &*transaction));
            let has_failed = job.has_failed;
            done.push(job);
            // If SQLite has rolled back the transaction, the savepoint does not exist any more.
            if !transaction.is_autocommit() {
                if has_failed {
                    run("ROLLBACK TO job")?;
                }
                run("RELEASE job")?;
            }
        }
        Ok(transaction.commit()?)
    }

    /// Starts a transaction. Fails if another version of the program has upgraded the file.
    fn begin(&mut self) -> Result<Transaction<'_>, FileError> {
        if !self.files.is_intact() {
            return Err(FileError::Replaced);
        }
        let immediate = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(immediate)?;
        self.schema.check_version(&transaction)?;
        Ok(transaction)
    }
}

#[cfg(test)]
mod tests;
