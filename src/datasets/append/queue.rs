//! Queue of the appends to a dataset. Appends that arrive during a commit share the next transaction.
//!
//! Thus batches that a client sends concurrently are stored in the order of their timestamps, regardless
//! of which one is parsed first. Otherwise some rows would be late, which costs several times as much.
//! Parsing continues while a transaction is written to disk. `cargo bench -p datasets --bench http --
//! formats writers` shows the gain.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use model::block::Block;
use model::dataset::{Column, DatasetId};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tsdb::store::batch::{Batch, BatchId};
use tsdb::store::{AppendMode, Appended, StoreError};

use super::{ROWS_MAX, sort_rows};
use crate::error::{OperationError, Result};
use crate::{Datasets, run_blocking};

/// Maximum number of appends, over all datasets, that are waiting or being committed. This is as many as
/// the store's writer holds in its queue and in a commit together. Further appends wait for a permit.
const APPENDS_MAX: usize = 512;

/// Minimum number of rows, in total, for which appends are joined on a blocking thread.
const LONG_ROWS: usize = 1_000;

/// Rows waiting to be appended.
#[derive(Debug)]
struct PendingAppend {
    mode: AppendMode,
    columns: Vec<Column>,
    block: Block,
    batch: Option<BatchId>,
    reply: oneshot::Sender<Result<Appended>>,
    /// Permit that is held until the result is sent, even if the caller was cancelled.
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

/// Waiting appends of each dataset. A dataset has an entry as long as an append to it is in progress.
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

/// Guard that removes a dataset's queue when its task ends for any reason. The callers of the remaining
/// appends then get the error of a service that is stopping.
struct QueueGuard {
    queues: AppendQueues,
    dataset: DatasetId,
    /// True if the queue was already removed. Another task might have created a new queue for the dataset,
    /// which must remain.
    is_done: bool,
}

impl QueueGuard {
    /// Disarms the guard after the queue was removed.
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
    /// Queues an append to `dataset`. If none is in progress, returns the append instead, and the caller
    /// must run it.
    fn push(&self, dataset: DatasetId, append: PendingAppend) -> Option<PendingAppend> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get_mut(&dataset) {
            queue.push(append);
            return None;
        }
        queues.insert(dataset, Vec::new());
        Some(append)
    }

    /// Returns the number of waiting appends to `dataset`.
    #[cfg(test)]
    pub(crate) fn n_queued(&self, dataset: DatasetId) -> usize {
        self.queues.lock().get(&dataset).map_or(0, Vec::len)
    }

    /// Removes and returns the next appends that can share a transaction. If the queue is empty, removes
    /// the queue and returns `None`.
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

/// Returns the number of appends at the front of the queue that can share a transaction, at least one.
/// Appends that merge, have other columns or repeat a batch are stored separately. Merges are separate
/// because each row can require a read of a stored row.
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
    /// Waits for the appends to the same dataset that are in progress, then appends rows.
    ///
    /// Dropping the future does not undo the append.
    ///
    /// # Errors
    /// [`OperationError`]. No rows are stored in this case, except possibly if the store became
    /// unreachable.
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

    /// Appends the rows of all `appends` in one transaction. If this fails because of some of the rows,
    /// repeats each append separately, so that each caller gets the outcome for its own rows.
    async fn append_together(&self, dataset: DatasetId, mut appends: Vec<PendingAppend>) {
        if appends.len() > 1 {
            let n_rows: usize = appends.iter().map(|append| append.block.len()).sum();
            let join = move || (join_blocks(&appends), appends);
            let joined = if n_rows < LONG_ROWS { Ok(join()) } else { run_blocking(join).await };
            // The service is stopping. Dropping the appends returns this error to their callers.
            let Ok((block, joined)) = joined else { return };
            appends = joined;
            let columns = appends.first().map_or(Vec::new(), |first| first.columns.clone());
            let mode = AppendMode::Replace;
            let batches = appends.iter().filter_map(PendingAppend::batch).collect();
            let joined = self.append_block(dataset, mode, &columns, block, batches).await;
            let answers = appends.iter().map(|append| outcome_for(&joined, append.n_rows()));
            if let Some(answers) = answers.collect::<Option<Vec<_>>>() {
                for (append, answer) in appends.into_iter().zip(answers) {
                    // Sending fails only if the caller was cancelled. The caller's rows are stored
                    // nevertheless.
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

/// Returns the outcome of joint appends for a caller with `n_rows` rows. Returns `None` if the rows of
/// another caller might have caused the failure. No rows are stored then, so each append can be repeated
/// separately. If the store became unavailable, all callers get this error, since the rows can already
/// be stored.
fn outcome_for(joined: &Result<Appended>, n_rows: u64) -> Option<Result<Appended>> {
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

/// Joins all blocks and sorts their rows by unique timestamps. Of several rows with the same timestamp,
/// the row of the last append is used.
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
