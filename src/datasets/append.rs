//! Appending rows: storing them and telling those who follow. Rows that callers send are read, and
//! checked against the columns, in `insert`.

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

use crate::{Datasets, aside, follow::frames, metrics};

/// Rows of one append at most: they are one transaction, and are held in memory.
pub(crate) const ROWS_MAX: usize = 100_000;

/// Rows that are merged at once at most. Each may have to be read from a chunk of its own first, some
/// 50 µs, while others wait to write.
const MERGED_MAX: usize = 10_000;

/// Refused rows that an answer lists at most.
pub(crate) const REFUSALS_MAX: usize = 20;

/// Why one row was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Its place in the append, from 0.
    pub(crate) row_idx: usize,
    /// The column whose value is wrong, if it is one value.
    pub(crate) column: Option<String>,
    /// What is wrong with it.
    pub(crate) reason: String,
}

/// Rows that were refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Refusals {
    /// How many rows are wrong.
    pub(crate) n_rows: usize,
    /// What is wrong with the first of them: at most [`REFUSALS_MAX`] reasons.
    pub(crate) first: Vec<Refusal>,
}

/// Why an append was refused or failed. Nothing of it is stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum AppendError {
    /// The key sees no such dataset.
    #[error("dataset not found")]
    NotFound,
    /// The key may read the dataset and no more.
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
    /// The body is not what it is said to be.
    #[error("read the body: {what}")]
    Unreadable {
        /// What is wrong.
        what: String,
    },
    /// The body is longer, once it is decompressed, than a service takes.
    #[error("read the body: it is too large")]
    TooLarge,
    /// The columns that the first rows of a dataset or the header of a CSV name are unfit.
    #[error("{what}")]
    Columns {
        /// What is wrong.
        what: String,
    },
    /// A row is older than what the dataset still keeps.
    #[error("rows before {kept_from} are no longer kept")]
    LetGo {
        /// The earliest moment it keeps.
        kept_from: Timestamp,
    },
    /// The store failed.
    #[error("append rows")]
    Store(#[source] StoreError),
}

impl From<StoreError> for AppendError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::LetGo { kept_from } => Self::LetGo { kept_from },
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
    pub(crate) async fn append_placed(
        &self,
        dataset: DatasetId,
        columns: &[Column],
        rows: Vec<Row>,
    ) -> Result<Appended, AppendError> {
        let placed = columns.to_vec();
        // Up to [`ROWS_MAX`] rows are put in order: too long for a thread that serves others.
        let block = aside(move || block_of(&placed, rows)).await?.map_err(AppendError::Rows)?;
        self.append_block(dataset, columns, block).await
    }

    /// Appends a block of rows, in order and one at a moment, without asking who does it. A row at
    /// an existing moment replaces it.
    ///
    /// On return the rows and their buckets are durable, and those who follow the dataset have them.
    /// Dropping the future does not undo an append under way.
    ///
    /// # Errors
    /// [`AppendError`]; then nothing is stored.
    pub(crate) async fn append_block(
        &self,
        dataset: DatasetId,
        columns: &[Column],
        block: Block,
    ) -> Result<Appended, AppendError> {
        self.append_by(AppendMode::Replace, dataset, columns, block).await
    }

    /// As [`Self::append_block`], where `mode` says what a row does to an existing one.
    ///
    /// # Errors
    /// As [`Self::append_block`], and [`AppendError::TooManyMerged`].
    pub(crate) async fn append_by(
        &self,
        mode: AppendMode,
        dataset: DatasetId,
        columns: &[Column],
        block: Block,
    ) -> Result<Appended, AppendError> {
        if mode == AppendMode::Merge && block.len() > MERGED_MAX {
            return Err(AppendError::TooManyMerged);
        }
        let (hub, era, answers) = (self.hub.clone(), self.era, self.answers.clone());
        let mut writer = Writer::new(dataset, columns);
        let on_commit: OnCommit = Box::new(move |appended, rows| {
            if let (Some(first), Some(last)) = (rows.times.first(), rows.times.last()) {
                answers.touched(dataset, appended.revision, Span { first: *first, last: *last });
            }
            hub.publish(dataset, || frames(&mut writer, rows, appended.revision, era));
        });
        let began = Instant::now();
        let appended =
            self.store.append_by(mode, dataset, block, self.clock.now(), on_commit).await?;
        self.metrics.observe(metrics::COMMIT, began.elapsed());
        self.metrics.add_n(metrics::ROWS_IN, &[], appended.n_rows);
        Ok(appended)
    }
}

/// Puts rows side by side, in order; of rows at one moment the last one given is kept.
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
    let mut rows = rows;
    // The sort is stable: among rows at one moment the order stays that of their coming.
    rows.sort_by_key(|row| row.timestamp);
    let mut block = Block::new(&columns.iter().map(|column| column.dtype).collect::<Vec<_>>());
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        if rows.peek().is_some_and(|next| next.timestamp == row.timestamp) {
            continue;
        }
        block.times.push(row.timestamp);
        for (series, value) in block.columns.iter_mut().zip(row.values) {
            // The types were checked above.
            if value.and_then(|value| series.push(value)).is_none() {
                series.push_missing(1);
            }
        }
    }
    Ok(block)
}

#[cfg(test)]
mod tests;
