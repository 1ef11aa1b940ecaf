//! Appends of rows: stores them and notifies the followers of the dataset. `insert` parses the rows of a
//! request and checks them against the columns.

pub(crate) mod queue;

use std::sync::Arc;

use formats::write::Writer;
use model::block::Block;
use model::dataset::{Column, DatasetId};
use model::timestamp::Timestamp;
use task::traces;
use tokio::time::Instant;
use tracing::{Instrument as _, info_span};
use tsdb::span::Span;
use tsdb::store::batch::{Batch, BatchId};
use tsdb::store::{Append, AppendMode, Appended, OnCommit};

use crate::error::{OperationError, Result};
use crate::follow::render_frames;
use crate::hub::frame::CommitRows;
use crate::{Datasets, metrics};

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
        self.append_queued(dataset, mode, columns, block, batch).await
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

#[cfg(test)]
mod tests {
    use model::block::Series;
    use model::dataset::Dtype;

    use super::*;

    #[test]
    fn sorting_drops_all_but_the_last_row_of_each_timestamp() {
        let mut block = Block::new(&[Dtype::Integer]);
        block.times = [3, 1, 3, 2].map(Timestamp::from_seconds).to_vec();
        block.columns = vec![Series::Integer(vec![Some(1), Some(2), Some(3), None])];
        let sorted = sort_rows(&block, AppendMode::Replace);
        assert_eq!(sorted.times, [1, 2, 3].map(Timestamp::from_seconds));
        assert_eq!(sorted.columns, [Series::Integer(vec![Some(2), None, Some(3)])]);
    }
}
