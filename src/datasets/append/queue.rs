//! Appends to one dataset, one after another: those that arrive while one is being committed share the
//! next transaction.
//!
//! A client that sends bodies side by side thus has them stored in the order of their timestamps,
//! whichever is parsed first: rows that come late cost several times as much. While one transaction is
//! written to the disk, the bodies that follow are parsed. `cargo bench -p datasets --bench http --
//! formats writers` shows the gain.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::Arc,
};

use model::{
    block::Block,
    dataset::{Column, DatasetId},
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tsdb::store::{
    AppendMode, Appended, StoreError,
    batch::{Batch, BatchId},
};

use super::{ROWS_MAX, sort_rows};
use crate::{
    Datasets,
    error::{OperationError, Result},
    run_blocking,
};

/// Appends that wait or are being committed, of all datasets: as many as the store's writer queues and
/// commits at once. One more waits for a place.
const APPENDS_MAX: usize = 512;

/// Rows of a transaction from which on they are put together on a blocking thread.
const LONG_ROWS: usize = 1_000;

/// Rows that wait to be appended.
#[derive(Debug)]
struct PendingAppend {
    mode: AppendMode,
    columns: Vec<Column>,
    block: Block,
    batch: Option<BatchId>,
    reply: oneshot::Sender<Result<Appended>>,
    /// Held until the reply, also when the caller is gone.
    _place: OwnedSemaphorePermit,
}

impl PendingAppend {
    fn n_rows(&self) -> u64 {
        u64::try_from(self.block.len()).unwrap_or(u64::MAX)
    }

    fn batch(&self) -> Option<Batch> {
        Some(Batch { id: self.batch.clone()?, n_rows: self.n_rows() })
    }
}

/// The appends that wait, by dataset. A dataset is here as long as an append to it is under way.
#[derive(Debug, Clone)]
pub(crate) struct AppendQueues {
    queues: Arc<Mutex<HashMap<DatasetId, Vec<PendingAppend>>>>,
    places: Arc<Semaphore>,
}

impl Default for AppendQueues {
    fn default() -> Self {
        Self { queues: Arc::default(), places: Arc::new(Semaphore::new(APPENDS_MAX)) }
    }
}

/// Removes a dataset's queue when its task ends, however it does. The callers of appends that are left
/// in it learn that the service is stopping.
struct QueueGuard {
    queues: AppendQueues,
    dataset: DatasetId,
    /// Whether the queue is gone, and its name may be another task's.
    is_done: bool,
}

impl QueueGuard {
    /// Ends the task of a queue that is gone.
    fn finish(mut self) {
        self.is_done = true;
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        if !self.is_done {
            self.queues.queues.lock().remove(&self.dataset);
        }
    }
}

impl AppendQueues {
    /// Adds an append to the queue of `dataset`; returns it if there is none under way, and this one
    /// has to be run.
    fn push(&self, dataset: DatasetId, append: PendingAppend) -> Option<PendingAppend> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&dataset) {
            queue.push(append);
            return None;
        }
        queues.insert(dataset, Vec::new());
        Some(append)
    }

    /// How many appends to `dataset` wait.
    #[cfg(test)]
    pub(crate) fn n_queued(&self, dataset: DatasetId) -> usize {
        self.queues.lock().get(&dataset).map_or(0, Vec::len)
    }

    /// Takes the next appends that go into one transaction; `None`, and the queue is gone, if nothing
    /// waits.
    fn pop(&self, dataset: DatasetId) -> Option<Vec<PendingAppend>> {
        let mut queues = self.queues.lock();
        let queue = queues.get_mut(&dataset).filter(|queue| !queue.is_empty());
        let Some(queue) = queue else {
            queues.remove(&dataset);
            return None;
        };
        let n_together = count_together(queue);
        let rest = queue.split_off(n_together);
        Some(mem::replace(queue, rest))
    }
}

/// How many of the first appends fit into one transaction, at least one. Merged rows are appended
/// alone, since each may have to be read first; so are rows of other columns, and a batch that is among
/// those before.
fn count_together(queue: &[PendingAppend]) -> usize {
    let Some(first) = queue.first() else { return 0 };
    let mut n_rows = 0;
    let mut batches = HashSet::new();
    let begins_another = queue.iter().position(|append| {
        n_rows += append.block.len();
        append.mode != AppendMode::Replace
            || append.columns != first.columns
            || n_rows > ROWS_MAX
            || append.batch.as_ref().is_some_and(|id| !batches.insert((id.writer, &id.key)))
    });
    begins_another.unwrap_or(queue.len()).max(1)
}

impl Datasets {
    /// Appends rows in a task of the dataset, behind the appends to it that are under way.
    ///
    /// Dropping the future does not undo the append.
    ///
    /// # Errors
    /// [`OperationError`]; then nothing of it is stored, or the store cannot be reached to say so.
    pub(super) async fn append_queued(
        &self,
        dataset: DatasetId,
        mode: AppendMode,
        columns: &[Column],
        block: Block,
        batch: Option<BatchId>,
    ) -> Result<Appended> {
        let place = Arc::clone(&self.appends.places).acquire_owned().await;
        let place = place.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let columns = columns.to_vec();
        let append = PendingAppend { mode, columns, block, batch, reply, _place: place };
        if let Some(first) = self.appends.push(dataset, append) {
            let guard = QueueGuard { queues: self.appends.clone(), dataset, is_done: false };
            let datasets = self.clone();
            self.group.spawn_to_end("append", async move {
                let mut together = vec![first];
                loop {
                    datasets.append_together(dataset, together).await;
                    let Some(next) = guard.queues.pop(dataset) else { break };
                    together = next;
                }
                guard.finish();
            });
        }
        answer.await.map_err(|_| OperationError::Store(StoreError::Closed))?
    }

    /// Appends the rows of all of `appends` in one transaction; in one each if that fails for the rows
    /// of some of them, so that each caller learns of its own rows alone.
    async fn append_together(&self, dataset: DatasetId, mut appends: Vec<PendingAppend>) {
        if appends.len() > 1 {
            let n_rows: usize = appends.iter().map(|append| append.block.len()).sum();
            let join = move || (join_blocks(&appends), appends);
            let joined = if n_rows < LONG_ROWS { Ok(join()) } else { run_blocking(join).await };
            // The service is stopping, and the callers learn so.
            let Ok((block, joined)) = joined else { return };
            appends = joined;
            let columns = appends.first().map_or(Vec::new(), |first| first.columns.clone());
            let mode = AppendMode::Replace;
            let batches = appends.iter().filter_map(PendingAppend::batch).collect();
            let joined = self.append_block(dataset, mode, &columns, block, batches).await;
            let answers = appends.iter().map(|append| share(&joined, append.n_rows()));
            if let Some(answers) = answers.collect::<Option<Vec<_>>>() {
                for (append, answer) in appends.into_iter().zip(answers) {
                    // The caller may be gone; its rows are stored all the same.
                    drop(append.reply.send(answer));
                }
                return;
            }
        }
        for append in appends {
            let batches = append.batch().into_iter().collect();
            let PendingAppend { mode, columns, block, reply, .. } = append;
            drop(reply.send(self.append_block(dataset, mode, &columns, block, batches).await));
        }
    }
}

/// The answer to one of the callers of a joint append, whose rows were `n_rows` of it; `None` if the rows
/// of another may be at fault. Then nothing is stored. Where the store cannot be used, it may have
/// stored them before that was seen: sent again, they would be stored twice.
fn share(joined: &Result<Appended>, n_rows: u64) -> Option<Result<Appended>> {
    let error = match joined {
        Ok(appended) => return Some(Ok(Appended { n_rows, ..*appended })),
        Err(OperationError::Store(StoreError::Closed)) => StoreError::Closed,
        Err(OperationError::Store(StoreError::Unreachable(cause))) => {
            StoreError::Unreachable(cause.to_string().into())
        }
        Err(_) => return None,
    };
    Some(Err(error.into()))
}

/// The rows of all blocks, sorted by unique timestamps; of those with the same one that of the append
/// which came last.
fn join_blocks(appends: &[PendingAppend]) -> Block {
    let mut blocks: Vec<&Block> = appends.iter().map(|append| &append.block).collect();
    let mut by_time = blocks.clone();
    by_time.sort_by_key(|block| block.times.first().copied());
    let follows = |pair: &[&Block]| match pair {
        [before, after] => before.times.last() < after.times.first(),
        _ => true,
    };
    let are_apart = by_time.windows(2).all(follows);
    if are_apart {
        blocks = by_time;
    }
    let mut joined = blocks.first().map_or_else(|| Block::new(&[]), |block| block.empty_like());
    for block in blocks {
        joined.extend_from(block, 0..block.len());
    }
    if are_apart { joined } else { sort_rows(&joined, AppendMode::Replace) }
}

#[cfg(test)]
mod tests;
