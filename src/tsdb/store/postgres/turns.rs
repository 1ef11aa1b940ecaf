//! Turns of writers. Those of one dataset wait for each other here, and not in the database, each with a
//! connection; those of others do not, as while a dataset is on no server in the last step of a move.

use std::{collections::HashMap, sync::Arc};

use model::dataset::DatasetId;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// The queues of the datasets that have writers now.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<DatasetId, Arc<Queue<()>>>>);

/// The turn of a writer, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    dataset: DatasetId,
    _guard: OwnedMutexGuard<()>,
}

impl Turns {
    /// Waits for the turn of a writer of `dataset`, first come first served. Cancel-safe.
    pub(super) async fn take(&self, dataset: DatasetId) -> Turn<'_> {
        let queue = Arc::clone(self.0.lock().entry(dataset).or_default());
        Turn { turns: self, dataset, _guard: queue.lock_owned().await }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock();
        // The map has one, and this turn; who waits has another one, and comes by this lock.
        if queues.get(&self.dataset).is_some_and(|queue| Arc::strong_count(queue) <= 2) {
            queues.remove(&self.dataset);
        }
    }
}
