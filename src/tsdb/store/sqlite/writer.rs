//! The one thread that writes, and how many writers share one commit.
//!
//! Jobs run one after another in the current transaction; when no more of them wait, or enough have
//! run, all of them are committed at once and answered. So a commit's wait for the disk is paid once
//! for all who wait for it. What a job that fails has done is undone: of the first one with the whole
//! transaction, of a later one with its savepoint, which makes the engine copy each page it changes.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use db::{
    files::DatabaseFiles,
    space::{CHANGE_BYTES, CommitSize, SpaceWatch},
};
use rusqlite::{Connection, TransactionBehavior, config::DbConfig};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info};

use super::{StoreError, fault};

/// Jobs that wait for the writer. One more waits for a place: the writer is a step away from the
/// disk, and pushing back is all that helps.
const QUEUE_CAPACITY: usize = 256;

/// Jobs in one commit at most, so that the first of them is not answered too late.
const JOBS_PER_COMMIT: usize = 256;

/// Does its work inside the open transaction, and returns what is to be done once it is durable.
/// Without a transaction it does nothing, and says why.
type Job = Box<dyn FnOnce(Result<Turn<'_>, Failure>) -> Ran + Send>;

/// A job's place in the open transaction.
#[derive(Debug, Clone, Copy)]
enum Turn<'a> {
    /// Nothing was written yet.
    First(&'a Connection),
    /// Others were there before it, whose work must stay.
    Later(&'a Connection),
}

/// A job that was run.
struct Ran {
    answer: Answer,
    has_failed: bool,
    is_full: bool,
    /// About how many bytes it writes.
    n_bytes: u64,
}

/// Tells whoever waits: with nothing if the commit holds, else with the reason.
type Answer = Box<dyn FnOnce(Result<(), Failure>)>;

/// Why a commit that several share did not hold.
#[derive(Debug, Clone)]
enum Failure {
    Full,
    ReadOnly,
    Replaced,
    Other(String),
}

impl From<&rusqlite::Error> for Failure {
    fn from(error: &rusqlite::Error) -> Self {
        let fault = fault(error);
        if fault.is_full() {
            Self::Full
        } else if fault.is_read_only() {
            Self::ReadOnly
        } else {
            Self::Other(fault.to_string())
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Full => Self::Full,
            Failure::ReadOnly => Self::ReadOnly,
            Failure::Replaced => Self::Replaced,
            Failure::Other(reason) => Self::Commit { reason },
        }
    }
}

/// Handle to the writing thread, which ends when the last handle is gone.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    n_jobs: Arc<AtomicU64>,
    space: Arc<SpaceWatch>,
}

/// What the thread works on.
struct Work {
    connection: Connection,
    files: Arc<DatabaseFiles>,
    space: Arc<SpaceWatch>,
}

impl Writer {
    /// Starts the thread, which owns `connection` to `files`.
    pub(super) fn start(
        connection: Connection,
        files: Arc<DatabaseFiles>,
        space: SpaceWatch,
    ) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE_CAPACITY);
        let space = Arc::new(space);
        let work = Work { connection, files, space: Arc::clone(&space) };
        thread::Builder::new()
            .name("datasets-writer".to_owned())
            .spawn(move || work.run(queue))
            .map_err(StoreError::Thread)?;
        Ok(Self { jobs, n_jobs: Arc::default(), space })
    }

    /// Runs `work` in a transaction, and returns its result once that is durable. What it returns
    /// as an error is undone.
    ///
    /// `on_commit` is called before this returns, in the order of commits. Dropping the future does
    /// not stop work that has been queued.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_sized(CHANGE_BYTES, work, on_commit).await
    }

    /// As [`Self::run`], for work that writes about `n_bytes`.
    pub(super) async fn run_sized<T: Send + 'static>(
        &self,
        n_bytes: u64,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, receiver) = Self::job(n_bytes, work, on_commit);
        self.n_jobs.fetch_add(1, Ordering::Relaxed);
        self.jobs.send(job).await.map_err(|_| StoreError::Closed)?;
        receiver.await.map_err(|_| StoreError::Closed)?
    }

    /// As [`Self::run`], for a thread that may block, and work that may turn out to write nothing.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (job, receiver) = Self::job(0, work, |_| {});
        self.n_jobs.fetch_add(1, Ordering::Relaxed);
        self.jobs.blocking_send(job).map_err(|_| StoreError::Closed)?;
        receiver.blocking_recv().map_err(|_| StoreError::Closed)?
    }

    /// How many jobs there have been.
    pub(super) fn n_jobs(&self) -> u64 {
        self.n_jobs.load(Ordering::Relaxed)
    }

    /// Whether there is space for what is written.
    pub(super) fn space(&self) -> &SpaceWatch {
        &self.space
    }

    /// A job, and where its result comes.
    fn job<T: Send + 'static>(
        n_bytes: u64,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> (Job, oneshot::Receiver<Result<T, StoreError>>) {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |turn| {
            let result = match turn {
                Ok(Turn::First(connection)) => work(connection),
                Ok(Turn::Later(connection)) => in_savepoint(connection, work),
                Err(failure) => Err(failure.into()),
            };
            let (has_failed, is_full) = (result.is_err(), matches!(result, Err(StoreError::Full)));
            let answer: Answer = Box::new(move |committed| {
                let result = match (committed, result) {
                    (Ok(()), Ok(done)) => {
                        on_commit(&done);
                        Ok(done)
                    }
                    (_, Err(error)) => Err(error),
                    (Err(failure), Ok(_)) => Err(failure.into()),
                };
                // Whoever asked may be gone; the work is done all the same.
                drop(sender.send(result));
            });
            Ran { answer, has_failed, is_full, n_bytes }
        });
        (job, receiver)
    }
}

fn in_savepoint<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
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

impl Work {
    fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut answers: Vec<Answer> = Vec::new();
        while let Some(first) = queue.blocking_recv() {
            let committed = self.commit(first, &mut queue, &mut answers);
            for answer in mem::take(&mut answers) {
                answer(committed.clone());
            }
        }
        if !self.files.check() {
            // Else the last to close removes what has the name of its log now.
            let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            if let Err(error) = self.connection.set_db_config(keep, true) {
                error!(%error, "failed to close the dataset store without a checkpoint");
            }
        }
    }

    /// Runs `first` and what waits behind it in one transaction. What is durable then is so in the
    /// file that readers of the path will find.
    fn commit(
        &mut self,
        first: Job,
        queue: &mut mpsc::Receiver<Job>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), Failure> {
        if !self.files.is_intact() {
            answers.push(first(Err(Failure::Replaced)).answer);
            return Err(Failure::Replaced);
        }
        let mut written = CommitSize::default();
        let committed = transact(&mut self.connection, first, queue, answers, &mut written);
        let failure = committed.as_ref().err().map(Failure::from);
        written.is_full |= matches!(failure, Some(Failure::Full));
        match &committed {
            _ if written.is_full => {
                if self.space.refuse(written.n_bytes_largest) {
                    error!(
                        "the disk of the dataset store is full; writes go on once there is space"
                    );
                }
            }
            Err(error) => {
                error!(%error, n_jobs = answers.len(), "a commit to the dataset store failed");
            }
            Ok(()) => {
                if self.space.accept(written.n_bytes) {
                    info!("the disk of the dataset store has space again");
                }
            }
        }
        match failure {
            // One job without space may undo the work of all.
            Some(_) if written.is_full => Err(Failure::Full),
            Some(failure) => Err(failure),
            None if self.files.check() => Ok(()),
            None => Err(Failure::Replaced),
        }
    }
}

fn transact(
    connection: &mut Connection,
    first: Job,
    queue: &mut mpsc::Receiver<Job>,
    answers: &mut Vec<Answer>,
    written: &mut CommitSize,
) -> rusqlite::Result<()> {
    let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => {
            // Outside a transaction each statement would commit by itself: the job must not run.
            let ran = first(Err(Failure::from(&error)));
            written.add(ran.n_bytes, ran.is_full);
            answers.push(ran.answer);
            return Err(error);
        }
    };
    let ran = first(Ok(Turn::First(&transaction)));
    written.add(ran.n_bytes, ran.is_full);
    answers.push(ran.answer);
    // When there is no space left, say, SQLite has undone the whole transaction by itself.
    if ran.has_failed && !transaction.is_autocommit() {
        return transaction.rollback();
    }
    // Without a transaction a further job would commit by itself, and then be told that it failed.
    while !transaction.is_autocommit()
        && answers.len() < JOBS_PER_COMMIT
        && let Ok(job) = queue.try_recv()
    {
        let ran = job(Ok(Turn::Later(&transaction)));
        written.add(ran.n_bytes, ran.is_full);
        answers.push(ran.answer);
    }
    transaction.commit()
}

#[cfg(test)]
mod tests;
