//! Appends rows: stores them, and notifies the dataset's followers. Bodies of rows are parsed, and
//! checked against the columns, in `insert`.

pub(crate) mod queue;

use formats::write::Writer;
use model::{
    block::Block,
    dataset::{Column, DatasetId},
    row::{Row, check_row},
    timestamp::Timestamp,
};
use tokio::time::Instant;
use tsdb::{
    span::Span,
    store::{AppendMode, Appended, OnCommit, StoreError},
};

use crate::{Datasets, follow::render_frames, metrics, run_blocking};

/// Rows of one append at most: they are one transaction, and all in memory.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Rows that are merged at once at most. Each may have to be read from a chunk of its own first, some
/// 50 µs, while others wait to write.
const MERGED_MAX: usize = 10_000;

/// Refused rows that a response lists at most.
pub(crate) const REFUSALS_MAX: usize = 20;

/// Why one row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its index in the append, from 0.
    pub(crate) row_idx: usize,
    /// The column whose value is wrong; `None` if it is the row as a whole.
    pub(crate) column: Option<String>,
    /// What is wrong with it, for the caller.
    pub(crate) reason: String,
}

/// Rows that were refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Refusals {
    /// The number of refused rows.
    pub(crate) n_rows: usize,
    /// The reasons for the first of them: at most [`REFUSALS_MAX`].
    pub(crate) first: Vec<Refusal>,
}

/// Why an append was refused or failed. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AppendError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The key may read the dataset only.
    #[error("only the owner of the dataset may do that")]
    NotOwner,
    /// There are more rows than one append takes.
    #[error("at most {ROWS_MAX} rows can be inserted at once")]
    TooMany,
    /// There are more rows than are merged at once.
    #[error("at most {MERGED_MAX} rows can be merged at once")]
    TooManyMerged,
    /// Some rows do not fit.
    #[error("rows do not fit the dataset")]
    Rows(Refusals),
    /// The body is not in its format.
    #[error("read the body: {what}")]
    Unreadable {
        /// What is wrong.
        what: String,
    },
    /// The decompressed body is longer than the service accepts.
    #[error("read the body: it is too large")]
    TooLarge,
    /// The first rows of a dataset, or the header of a CSV, name invalid columns.
    #[error("{what}")]
    Columns {
        /// What is wrong.
        what: String,
    },
    /// A row is older than the dataset's retention.
    #[error("rows before {kept_from} are no longer kept")]
    LetGo {
        /// The earliest timestamp that the dataset keeps.
        kept_from: Timestamp,
    },
    /// The store failed.
    #[error("append rows")]
    Store(#[source] StoreError),
}

impl From<StoreError> for AppendError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Pruned { kept_from } => Self::LetGo { kept_from },
            // It was deleted meanwhile.
            StoreError::NoDataset { .. } => Self::NotFound,
            error => Self::Store(error),
        }
    }
}

impl Datasets {
    /// Appends rows whose values are in the order of `columns`, without asking who does it.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn append_rows(
        &self,
        dataset: DatasetId,
        columns: &[Column],
        rows: Vec<Row>,
    ) -> Result<Appended, AppendError> {
        let placed = columns.to_vec();
        // Up to [`ROWS_MAX`] rows are put in order: too long for a thread that serves others.
        let block =
            run_blocking(move || block_of(&placed, rows)).await?.map_err(AppendError::Rows)?;
        self.append(dataset, AppendMode::Replace, columns, block).await
    }

    /// Appends rows sorted by unique timestamps without asking who does it; `mode` says what a row does
    /// to the stored one with its timestamp. Appends to one dataset that arrive together share a
    /// transaction.
    ///
    /// On return the rows and their buckets are durable, and the dataset's followers have them.
    /// Dropping the future does not undo an append under way.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn append(
        &self,
        dataset: DatasetId,
        mode: AppendMode,
        columns: &[Column],
        block: Block,
    ) -> Result<Appended, AppendError> {
        if mode == AppendMode::Merge && block.len() > MERGED_MAX {
            return Err(AppendError::TooManyMerged);
        }
        self.append_queued(dataset, mode, columns, block).await
    }

    /// Appends a block in a transaction of its own.
    async fn append_block(
        &self,
        dataset: DatasetId,
        mode: AppendMode,
        columns: &[Column],
        block: Block,
    ) -> Result<Appended, AppendError> {
        let (hub, era, page_cache) = (self.hub.clone(), self.era, self.page_cache.clone());
        let mut writer = Writer::new(dataset, columns);
        let on_commit: OnCommit = Box::new(move |appended, rows| {
            if let (Some(first), Some(last)) = (rows.times.first(), rows.times.last()) {
                let span = Span { first: *first, last: *last };
                page_cache.record_commit(dataset, appended.revision, span);
            }
            hub.publish(dataset, || render_frames(&mut writer, rows, appended.revision, era));
        });
        let began = Instant::now();
        let appended = self.store.append(mode, dataset, block, self.clock.now(), on_commit).await?;
        self.metrics.observe(metrics::COMMIT, began.elapsed());
        self.metrics.add_n(metrics::ROWS_IN, &[], appended.n_rows);
        Ok(appended)
    }
}

/// Turns rows into a block sorted by unique timestamps; of rows with the same one the last is kept.
fn block_of(columns: &[Column], rows: Vec<Row>) -> Result<Block, Refusals> {
    let mut refusals = Refusals::default();
    for (row_idx, row) in rows.iter().enumerate() {
        let columns = columns.iter().map(|column| (column.name.as_str(), column.dtype));
        if let Err(reason) = check_row(columns, row) {
            refusals.n_rows += 1;
            if refusals.first.len() < REFUSALS_MAX {
                refusals.first.push(Refusal { row_idx, column: None, reason });
            }
        }
    }
    if refusals.n_rows > 0 {
        return Err(refusals);
    }
    let mut block = Block::new(&columns.iter().map(|column| column.dtype).collect::<Vec<_>>());
    for row in rows {
        block.times.push(row.timestamp);
        for (series, value) in block.columns.iter_mut().zip(row.values) {
            // The types were checked above.
            if value.and_then(|value| series.push(value)).is_none() {
                series.push_missing(1);
            }
        }
    }
    Ok(if block.times.is_sorted_by(|a, b| a < b) {
        block
    } else {
        sort_rows(&block, AppendMode::Replace)
    })
}

/// The rows of `block` sorted by unique timestamps. Of those with the same one the last is kept, with
/// values of earlier ones where it has none if `mode` is to merge.
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
mod tests;
