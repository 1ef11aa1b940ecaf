//! Appends of rows: stores them and notifies the followers of the dataset. `insert` parses the rows of a
//! request and checks them against the columns.
//!
//! Appends to a dataset that arrive during a commit share the next transaction. Thus batches that a client
//! sends concurrently are stored in the order of their timestamps, regardless of which one is parsed first.
//! Otherwise some rows would be late, which costs several times as much. Parsing continues while a
//! transaction is written to disk. `cargo bench -p datasets --bench http -- formats writers` shows the gain.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;

use formats::write::Writer;
use futures::FutureExt as _;
use model::block::Block;
use model::dataset::{Column, DatasetId};
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use task::traces;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};
use tsdb::span::Span;
use tsdb::store::batch::{Batch, BatchId};
use tsdb::store::{Append, AppendMode, Appended, OnCommit, StoreError};

use crate::error::{OperationError, Result};
use crate::follow::render_frames;
use crate::hub::frame::CommitRows;
use crate::{Datasets, metrics, run_blocking};

/// Maximum number of rows of an append, which are held in memory and stored in one transaction.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Error for an append with more than [`ROWS_MAX`] rows.
pub(crate) const TOO_MANY: OperationError =
    OperationError::TooMany { n_max: ROWS_MAX, done: "inserted" };

/// Maximum number of rows of an append that merges. Each row can require a read of a different chunk,
/// which takes some 50 µs while other writers wait.
pub(crate) const MERGED_MAX: usize = 10_000;

/// Maximum number of rejected rows that a response lists.
pub(crate) const REFUSALS_MAX: usize = 20;

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
    /// Appends `block`, which must be sorted by unique timestamps. Does not check access. `mode` selects
    /// the effect of a row on the stored row with the same timestamp. Concurrent appends to one dataset
    /// share a transaction. An append with a `batch` fails if a batch of this identity is already stored.
    ///
    /// On return, the rows and their buckets are durable, and followers of the dataset have received the
    /// rows. If other services write to the dataset at the same time, followers receive the rows shortly
    /// afterwards. Dropping the future does not undo an append in progress.
    ///
    /// # Errors
    /// [`OperationError`]. No rows are stored in this case, except possibly if the store became
    /// unreachable.
    pub(crate) async fn append(
        &self,
        dataset: DatasetId,
        mode: AppendMode,
        columns: &[Column],
        block: Block,
        batch: Option<BatchId>,
    ) -> Result<Appended> {
        if mode == AppendMode::Merge && block.len() > MERGED_MAX {
            return Err(OperationError::TooMany { n_max: MERGED_MAX, done: "merged" });
        }
        let place = Arc::clone(&self.appends.places).acquire_owned().await;
        let place = place.map_err(|_| StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let columns = columns.to_vec();
        let append = PendingAppend { mode, columns, block, batch, reply, _place: place };
        if let Some(first) = self.appends.push(dataset, append) {
            let datasets = self.clone();
            self.group.spawn_to_end("append", async move {
                let appends = AssertUnwindSafe(datasets.append_all(dataset, first)).catch_unwind();
                if let Err(panic) = appends.await {
                    // Drops the waiting appends, so that their callers get an error.
                    datasets.appends.queues.lock().remove(&dataset);
                    resume_unwind(panic);
                }
            });
        }
        answer.await.map_err(|_| OperationError::lost_task(&self.group))?
    }

    /// Appends a block in a separate transaction. `batches` are the named batches that make up the
    /// block.
    async fn append_block(
        &self,
        dataset: DatasetId,
        mode: AppendMode,
        columns: &[Column],
        block: Block,
        batches: Vec<Batch>,
    ) -> Result<Appended> {
        let (hub, era, page_cache) = (self.hub.clone(), self.era, Arc::clone(&self.page_cache));
        let columns = columns.to_vec();
        let on_commit: OnCommit = Arc::new(move |appended, rows| {
            if let (Some(first), Some(last)) = (rows.times.first(), rows.times.last()) {
                let span = Span { first: *first, last: *last };
                page_cache.record_commit(dataset, appended.revision, span);
            }
            let revision = appended.revision;
            let commits = [CommitRows { revision, rows: 0..rows.len() }];
            hub.publish(dataset, revision, || {
                render_frames(&mut Writer::new(dataset, &columns), rows, &commits, era)
            });
        });
        let began = Instant::now();
        let span = info_span!(target: traces::TARGET, "AppendRows", %dataset, n_rows = block.len());
        let append = Append { mode, rows: block, now: self.clock.now(), batches, beneath: None };
        let append = self.store.append(dataset, append, on_commit);
        let appended = append.instrument(span).await?;
        self.metrics.observe(metrics::COMMIT, &[], began.elapsed());
        self.metrics.add_n(metrics::ROWS_IN, &[], appended.n_rows);
        Ok(appended)
    }

    /// Appends `first`, and then the appends that arrive meanwhile.
    async fn append_all(&self, dataset: DatasetId, first: PendingAppend) {
        let mut together = vec![first];
        loop {
            self.append_together(dataset, together).await;
            let Some(next) = self.appends.pop(dataset) else { return };
            together = next;
        }
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

/// Returns the rows of `block` sorted by unique timestamps. Of several rows with the same timestamp, the
/// last row is used. With [`AppendMode::Merge`], the earlier rows provide its missing values.
pub(crate) fn sort_rows(block: &Block, mode: AppendMode) -> Block {
    let mut order: Vec<(Timestamp, usize)> = block.times.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut sorted = block.empty_like();
    for rows in order.chunk_by(|(before, _), (next, _)| before == next) {
        let Some(((_, last), earlier)) = rows.split_last() else { continue };
        sorted.extend_from(block, *last..last + 1);
        if mode == AppendMode::Merge {
            let at = sorted.len() - 1;
            earlier.iter().rev().for_each(|(_, row_idx)| sorted.fill_row(at, block, *row_idx));
        }
    }
    sorted
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
