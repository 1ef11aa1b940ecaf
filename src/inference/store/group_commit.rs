//! Group commit: changes that wait together are one transaction.
//!
//! A commit that is durable costs a turn of the disk, whatever is in it. So the thread that gets the
//! writer makes all changes that wait by then, each in its own savepoint, and commits once.
//! A change that fails undoes itself alone; a commit that fails fails for all.

use std::sync::Arc;

use db::{
    fault::DatabaseFault,
    files::DatabaseFiles,
    space::{CHANGE_BYTES, CommitSize, SpaceWatch},
};
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};
use tracing::{error, info};

use super::StoreError;

/// Tells a change's caller whether the commit that it is in was kept.
type Notify = Box<dyn FnOnce(Result<(), &Failure>) + Send>;

/// A change that waits for its turn; it is not made where there is no transaction for it.
type Change = Box<dyn FnOnce(Result<&Connection, &Failure>) -> AppliedChange + Send>;

/// A change that was tried.
struct AppliedChange {
    told: Notify,
    is_full: bool,
    /// About how many bytes it writes.
    n_bytes: u64,
}

/// Why changes that were to be one transaction were not kept.
#[derive(Debug, Clone)]
enum Failure {
    Full,
    Replaced,
    Aborted,
    Commit(DatabaseFault),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        match StoreError::from(error) {
            StoreError::Statement(error) => Self::Commit(error),
            _ => Self::Full,
        }
    }
}

impl From<&Failure> for StoreError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Full => Self::DiskFull,
            Failure::Replaced => Self::Replaced,
            Failure::Aborted => Self::Aborted,
            Failure::Commit(error) => Self::Commit(error.clone()),
        }
    }
}

/// Where a caller finds what came of its change.
type Slot<T> = Arc<Mutex<Option<Result<T, StoreError>>>>;

/// A connection that writes, and the changes that wait for it. Callers block, so there are as many
/// at once as there are blocking threads.
pub(super) struct GroupCommit {
    pub(super) writer: Mutex<Connection>,
    waiting: Mutex<Vec<Change>>,
    files: Arc<DatabaseFiles>,
    space: SpaceWatch,
}

impl std::fmt::Debug for GroupCommit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupCommit").finish_non_exhaustive()
    }
}

impl GroupCommit {
    /// Commits to `writer`, which writes to `files`.
    pub(super) fn new(writer: Connection, files: Arc<DatabaseFiles>, space: SpaceWatch) -> Self {
        Self { writer: Mutex::new(writer), waiting: Mutex::default(), files, space }
    }

    /// Whether there is space for what is written.
    pub(super) const fn space(&self) -> &SpaceWatch {
        &self.space
    }

    /// Makes `change`, and returns what it gave once it is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write_sized(CHANGE_BYTES, change)
    }

    /// As [`Self::write`], for a change that writes about `n_bytes`.
    pub(super) fn write_sized<T: Send + 'static>(
        &self,
        n_bytes: u64,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let slot: Slot<T> = Slot::default();
        self.waiting.lock().push(in_savepoint(n_bytes, change, &slot));
        let mut writer = self.writer.lock();
        // The thread that had the writer before may have made this change with its own.
        let made = slot.lock().take();
        if let Some(result) = made {
            return result;
        }
        let changes = std::mem::take(&mut *self.waiting.lock());
        self.commit(&mut writer, changes);
        drop(writer);
        let made = slot.lock().take();
        made.unwrap_or(Err(StoreError::Aborted))
    }

    /// Makes all of `changes` in one transaction, and tells each caller.
    fn commit(&self, writer: &mut Connection, changes: Vec<Change>) {
        let mut told = Vec::new();
        let mut written = CommitSize::default();
        let mut committed = if self.files.is_intact() {
            transact(writer, changes, &mut told, &mut written)
        } else {
            told.extend(changes.into_iter().map(|change| change(Err(&Failure::Replaced)).told));
            Err(Failure::Replaced)
        };
        if written.is_full || matches!(committed, Err(Failure::Full)) {
            if self.space.refuse(written.n_bytes_largest) {
                error!("the disk of the inference file is full; writes go on once there is space");
            }
        } else if committed.is_ok() && self.space.accept(written.n_bytes) {
            info!("the disk of the inference file has space again");
        }
        // Nobody will ever read what was written to a file that is not in its place.
        if committed.is_ok() && !self.files.check() {
            committed = Err(Failure::Replaced);
        }
        for told in told {
            told(committed.as_ref().copied());
        }
    }
}

/// Wraps `change` so that it undoes itself where it fails, and fills `slot` once it is durable.
fn in_savepoint<T: Send + 'static>(
    n_bytes: u64,
    change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    slot: &Slot<T>,
) -> Change {
    let slot = Arc::clone(slot);
    Box::new(move |connection| {
        let made = match connection {
            Ok(connection) => apart(connection, change),
            Err(failure) => Err(failure.into()),
        };
        let is_full = matches!(made, Err(StoreError::DiskFull));
        let told = move |committed: Result<(), &Failure>| {
            let result = made.and_then(|made| committed.map(|()| made).map_err(StoreError::from));
            *slot.lock() = Some(result);
        };
        AppliedChange { told: Box::new(told), is_full, n_bytes }
    })
}

fn apart<T>(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let step = |statement: &str| connection.prepare_cached(statement)?.execute([]).map(drop);
    step("SAVEPOINT change")?;
    let made = change(connection);
    // When there is no space left, say, SQLite undoes the whole transaction and this with it.
    if connection.is_autocommit() {
        return made;
    }
    if made.is_err() {
        step("ROLLBACK TO change")?;
    }
    step("RELEASE change")?;
    made
}

fn transact(
    writer: &mut Connection,
    changes: Vec<Change>,
    told: &mut Vec<Notify>,
    written: &mut CommitSize,
) -> Result<(), Failure> {
    // It takes its turn among the writers of other processes at once, not at its first write.
    let write = match writer.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(write) => write,
        Err(error) => {
            let failure = Failure::from(error);
            for change in changes {
                let made = change(Err(&failure));
                written.add(made.n_bytes, made.is_full);
                told.push(made.told);
            }
            return Err(failure);
        }
    };
    for change in changes {
        // Without a transaction a change would be kept by itself, and then be said to have failed.
        let failure = if written.is_full { Failure::Full } else { Failure::Aborted };
        let made = change(if write.is_autocommit() { Err(&failure) } else { Ok(&write) });
        written.add(made.n_bytes, made.is_full);
        told.push(made.told);
    }
    if write.is_autocommit() {
        return Err(if written.is_full { Failure::Full } else { Failure::Aborted });
    }
    Ok(write.commit()?)
}
