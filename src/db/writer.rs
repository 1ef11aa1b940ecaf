//! The thread that writes to a file and combines the commits of several writers.
//!
//! Jobs run one after another in the same transaction. When no more jobs are queued, or enough have run,
//! the transaction is committed and all callers get their results. Thus jobs that are queued together
//! share one sync of the disk. A later job that fails is rolled back to a savepoint before it. The first
//! job has no savepoint, since SQLite must copy each page that changes after a savepoint. If the first
//! job fails, the whole transaction is rolled back.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::{io, mem, thread};

use rusqlite::{Connection, Transaction, TransactionBehavior};
use task::lock::Lock;
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use crate::connection::{FileError, Schema, TRY_SPACE, keep_log_on_close};
use crate::files::DatabaseFiles;

/// Capacity of the queue of jobs. If the queue is full, writers wait, since the disk is the bottleneck.
const QUEUE_CAPACITY: usize = 256;

/// Maximum number of jobs per commit, so that the first job does not wait too long.
const JOBS_PER_COMMIT: usize = 256;

/// Error type of a store that uses a [`Writer`].
pub trait WriteError: From<FileError> + From<rusqlite::Error> + Send + 'static {
    /// Returns true if a write failed for lack of space.
    fn is_full(&self) -> bool;
}

/// A job, which runs in the open transaction. If no transaction could be opened, the job only passes the
/// error to its caller.
type Job = Box<dyn FnOnce(Result<&Connection, FileError>) -> Done + Send>;

/// Outcome of a job that has run.
struct Done {
    answer: Answer,
    has_failed: bool,
    is_full: bool,
}

/// Sends the result of a job to its caller, once the outcome of the commit is known.
type Answer = Box<dyn FnOnce(Result<(), FileError>)>;

/// Jobs that share a commit.
#[derive(Default)]
struct Commit {
    answers: Vec<Answer>,
    /// True if a write of a job failed for lack of space.
    is_full: bool,
}

impl Commit {
    /// Adds a job that has run. Returns true if it failed.
    fn add(&mut self, done: Done) -> bool {
        self.answers.push(done.answer);
        self.is_full |= done.is_full;
        done.has_failed
    }
}

/// Handle to the writing thread, which exits when the handle is dropped. `E` is the error type of the
/// store.
#[derive(Debug)]
pub struct Writer<E> {
    jobs: mpsc::Sender<Job>,
    n_jobs: AtomicU64,
    schema: &'static Schema,
    files: Arc<DatabaseFiles>,
    is_full: Arc<AtomicBool>,
    upgraded: Arc<OnceLock<FileError>>,
    error: PhantomData<fn() -> E>,
}

/// State of the writing thread.
struct Worker {
    schema: &'static Schema,
    connection: Connection,
    files: Arc<DatabaseFiles>,
    /// True after a commit found no space, until a check finds space.
    is_full: Arc<AtomicBool>,
    /// Error of later writes, set once the thread notices that a newer version of the program has
    /// upgraded the file.
    upgraded: Arc<OnceLock<FileError>>,
    /// Lock that keeps out other processes. The last field, so that it is released after `connection` is
    /// closed.
    _in_use: Lock,
}

impl<E: WriteError> Writer<E> {
    /// Starts the thread, which owns `connection`, a connection to a file with the tables of `schema`. The
    /// thread releases `in_use` after it has closed the connection.
    ///
    /// # Errors
    /// An I/O error if the thread cannot be started.
    pub fn start(
        schema: &'static Schema,
        connection: Connection,
        files: Arc<DatabaseFiles>,
        in_use: Lock,
    ) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE_CAPACITY);
        let (is_full, upgraded) = (Arc::default(), Arc::default());
        let worker = Worker {
            schema,
            connection,
            files: Arc::clone(&files),
            is_full: Arc::clone(&is_full),
            upgraded: Arc::clone(&upgraded),
            _in_use: in_use,
        };
        thread::Builder::new()
            .name(format!("{} writer", schema.name))
            .spawn(move || worker.run(queue))?;
        let n_jobs = AtomicU64::default();
        Ok(Self { jobs, n_jobs, schema, files, is_full, upgraded, error: PhantomData })
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
        let (job, receiver) = create_job(work, on_commit);
        self.n_jobs.fetch_add(1, Ordering::Relaxed);
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

    /// Checks that the file accepts writes: it was not removed or replaced, it has the format of this
    /// program, its disk has space, and the writing thread is running. If an earlier commit found no
    /// space, also writes a megabyte and frees it again.
    ///
    /// # Errors
    /// The reason why the file does not accept writes.
    pub async fn check(&self) -> Result<(), E> {
        if !self.files.check() {
            return Err(FileError::Replaced.into());
        }
        if self.jobs.is_closed() {
            return Err(FileError::Closed.into());
        }
        if let Some(error) = self.upgraded.get() {
            return Err(error.clone().into());
        }
        if self.is_full.load(Ordering::Relaxed) {
            for sql in TRY_SPACE {
                self.run(|connection| Ok(connection.execute_batch(sql)?), |()| {}).await?;
            }
            if self.is_full.swap(false, Ordering::Relaxed) {
                info!("the disk of the {} has space again", self.schema.name);
            }
        }
        Ok(())
    }
}

/// Creates a job that runs `work`, and returns the receiver of its result.
fn create_job<T: Send + 'static, E: WriteError>(
    work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    on_commit: impl FnOnce(&T) + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, E>>) {
    let (sender, receiver) = oneshot::channel();
    let job: Job = Box::new(move |connection| {
        let result = connection.map_err(E::from).and_then(work);
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
            // Sending fails only if the caller has stopped waiting. The work is done nevertheless.
            drop(sender.send(result));
        });
        Done { answer, has_failed, is_full }
    });
    (job, receiver)
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

    /// Runs `first` and the jobs that are queued after it in one transaction. On success, the changes of
    /// these jobs are durable, and the file was still in place at its path after the commit.
    fn commit(
        &mut self,
        first: Job,
        queue: &mut mpsc::Receiver<Job>,
        commit: &mut Commit,
    ) -> Result<(), FileError> {
        if !self.files.is_intact() {
            commit.add(first(Err(FileError::Replaced)));
            return Err(FileError::Replaced);
        }
        let name = self.schema.name;
        let committed = transact(self.schema, &mut self.connection, first, queue, commit);
        let failure = committed.err();
        if let Some(error @ FileError::Version { .. }) = &failure {
            self.upgraded.get_or_init(|| error.clone());
        }
        commit.is_full |= matches!(failure, Some(FileError::Full));
        if commit.is_full {
            if !self.is_full.swap(true, Ordering::Relaxed) {
                error!("the disk of the {name} is full; writes continue once there is space");
            }
        } else if let Some(error) = &failure {
            error!(%error, n_jobs = commit.answers.len(), "a commit to the {name} failed");
        }
        match failure {
            // If a job found no space, SQLite might have rolled back the changes of all jobs.
            Some(_) if commit.is_full => Err(FileError::Full),
            Some(failure) => Err(failure),
            None if self.files.check() => Ok(()),
            None => Err(FileError::Replaced),
        }
    }
}

fn transact(
    schema: &Schema,
    connection: &mut Connection,
    first: Job,
    queue: &mut mpsc::Receiver<Job>,
    commit: &mut Commit,
) -> Result<(), FileError> {
    let transaction = match begin(schema, connection) {
        Ok(transaction) => transaction,
        Err(error) => {
            // The job does not run, since each of its statements would be committed separately.
            commit.add(first(Err(error.clone())));
            return Err(error);
        }
    };
    let has_failed = commit.add(first(Ok(&transaction)));
    // An error such as a full disk has already made SQLite roll back the whole transaction.
    if has_failed && !transaction.is_autocommit() {
        return Ok(transaction.rollback()?);
    }
    let run = |sql| Ok::<_, FileError>(transaction.prepare_cached(sql)?.execute([])?);
    // Stops if SQLite has rolled back the transaction. Another job would be committed on its own,
    // although its caller would get an error.
    while !transaction.is_autocommit()
        && commit.answers.len() < JOBS_PER_COMMIT
        && let Ok(job) = queue.try_recv()
    {
        if let Err(error) = run("SAVEPOINT job") {
            commit.add(job(Err(error.clone())));
            return Err(error);
        }
        let has_failed = commit.add(job(Ok(&transaction)));
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
fn begin<'c>(
    schema: &Schema,
    connection: &'c mut Connection,
) -> Result<Transaction<'c>, FileError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    schema.check_version(&transaction)?;
    Ok(transaction)
}

#[cfg(test)]
mod tests;
