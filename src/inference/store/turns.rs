//! Turns at the file: changes that wait together are one transaction.
//!
//! A commit that is durable costs a turn of the disk, whatever is in it. So whoever gets the writer
//! makes everybody's changes that wait by then, each in a savepoint of its own, and commits once.
//! A change that fails undoes itself alone; a commit that fails fails for all.

use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// What tells a change's caller whether the commit that it is in was kept.
type Told = Box<dyn FnOnce(Result<(), &Arc<rusqlite::Error>>) + Send>;

/// A change that waits for its turn.
type Change = Box<dyn FnOnce(&Connection) -> Told + Send>;

/// Where a caller finds what came of its change.
type Slot<T> = Arc<Mutex<Option<Result<T, StoreError>>>>;

/// A connection that writes, and the changes that wait for it. Callers block, so there are as many
/// at once as there are blocking threads.
pub(super) struct Turns {
    pub(super) writer: Mutex<Connection>,
    waiting: Mutex<Vec<Change>>,
}

impl std::fmt::Debug for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

impl Turns {
    /// Turns at `writer`.
    pub(super) fn new(writer: Connection) -> Self {
        Self { writer: Mutex::new(writer), waiting: Mutex::default() }
    }

    /// Makes `change`, and returns what it gave once it is durable.
    pub(super) fn write<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let slot: Slot<T> = Slot::default();
        self.waiting.lock().push(in_savepoint(change, &slot));
        let mut writer = self.writer.lock();
        // Whoever had the writer before may have made this change with its own.
        let made = slot.lock().take();
        if let Some(result) = made {
            return result;
        }
        let changes = std::mem::take(&mut *self.waiting.lock());
        commit(&mut writer, changes);
        drop(writer);
        let made = slot.lock().take();
        made.unwrap_or(Err(StoreError::Aborted))
    }
}

/// Wraps `change` so that it undoes itself where it fails, and fills `slot` once it is durable.
fn in_savepoint<T: Send + 'static>(
    change: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    slot: &Slot<T>,
) -> Change {
    let slot = Arc::clone(slot);
    Box::new(move |connection| {
        let made = apart(connection, change);
        Box::new(move |committed| {
            let result = committed.map_err(|error| StoreError::Commit(Arc::clone(error)));
            *slot.lock() = Some(result.and(made));
        })
    })
}

fn apart<T>(
    connection: &Connection,
    change: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let step = |statement: &str| connection.prepare_cached(statement)?.execute([]).map(drop);
    step("SAVEPOINT change")?;
    let made = change(connection);
    if made.is_err() {
        step("ROLLBACK TO change")?;
    }
    step("RELEASE change")?;
    made
}

/// Makes all of `changes` in one transaction, and tells each caller.
fn commit(writer: &mut Connection, changes: Vec<Change>) {
    // It takes its turn among the writers of other processes at once, not at its first write.
    let write = match writer.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(write) => write,
        Err(error) => {
            let error = Arc::new(error);
            return tell(changes.into_iter().map(refused), Err(&error));
        }
    };
    let told: Vec<Told> = changes.into_iter().map(|change| change(&write)).collect();
    match write.commit() {
        Ok(()) => tell(told.into_iter(), Ok(())),
        Err(error) => tell(told.into_iter(), Err(&Arc::new(error))),
    }
}

/// A change that cannot even be tried. Its caller finds nothing in its slot, which is
/// [`StoreError::Aborted`].
fn refused(_change: Change) -> Told {
    Box::new(|_| ())
}

fn tell(told: impl Iterator<Item = Told>, result: Result<(), &Arc<rusqlite::Error>>) {
    for told in told {
        told(result);
    }
}
