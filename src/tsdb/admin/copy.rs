//! Copies datasets from one store to another. The engines may differ.
//!
//! Ids, names, owners, tags, columns, rows with their creation times, and buckets of pruned rows are
//! copied. Other buckets are computed from the copied rows. Deleted columns, revisions and row numbers
//! are not copied. The rows of a dataset are copied in the order of their timestamps, so that an
//! unfinished copy continues after its latest row. Tags are copied last, so that only the owner can read
//! an unfinished copy. Finally each dataset is compared with its source, up to the latest row of the
//! copy: the next run copies rows that the source receives meanwhile.
//!
//! If rows were only appended to the source, the next run adds them to the copy. After any other change
//! of the source, the next run deletes the copy of the dataset and creates a new copy. A dataset of the
//! destination that has the id of a source but is not its copy causes an error and remains unchanged, as
//! does a copy that was changed in the destination.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures::executor::block_on;
use model::block::{Block, Rows, Series};
use model::dataset::{Column, Dataset, DatasetId};
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use crate::catalog::TagChange;
use crate::rollup::stored_bits;
use crate::span::{Order, Span, just_after, just_before};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::series::bucket_end;
use crate::store::{Append, AppendMode, PageRead, Store, StoreError};

/// Maximum number of rows or buckets per commit of a copy, and per page of a comparison: eight chunks, or
/// fewer if the rows are long.
const COMMIT_ROWS: usize = 8192;

/// Resolutions that are compared. The remaining resolutions are computed from these.
const COMPARED: [Resolution; 4] =
    [Resolution::Raw, Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyProgress<'a> {
    /// The copy of a dataset begins.
    Began {
        /// The source of the copy.
        dataset: &'a Dataset,
        /// Number of rows that an earlier run copied.
        n_rows: u64,
    },
    /// Rows were copied.
    Rows {
        /// Number of copied rows, including rows of earlier runs.
        n_rows: u64,
        /// Number of rows in the source.
        n_all: u64,
    },
    /// Rows of the copy were compared with rows of the source.
    Compared {
        /// Number of compared rows.
        n_rows: u64,
        /// Number of rows in the source.
        n_all: u64,
    },
    /// A dataset is copied and equal to its source, up to the latest row of the copy.
    Copied(&'a CopiedDataset),
}

/// A dataset that was copied and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDataset {
    /// Id of the dataset, the same in both stores.
    pub id: DatasetId,
    /// Name of the dataset, the same in both stores.
    pub name: String,
    /// Number of rows of the copy.
    pub n_rows: u64,
    /// Number of stored buckets of the copy.
    pub n_buckets: u64,
}

/// Result of a copy of datasets.
#[derive(Debug, Default)]
pub struct CopyOutcome {
    /// Number of datasets that were copied and are equal to their sources.
    pub n_copied: u64,
    /// Datasets that were not copied completely.
    pub failed: Vec<FailedCopy>,
}

/// A dataset that was not copied completely.
#[derive(Debug)]
pub struct FailedCopy {
    /// Id of the dataset in the source.
    pub id: DatasetId,
    /// Name of the dataset in the source.
    pub name: String,
    /// Reason of the failure. An error that stops the whole run, such as [`CopyError::Stopped`], is
    /// returned instead.
    pub error: CopyError,
}

/// Failure of a copy. The next run continues with the rows that were already copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source could not be read.
    #[error("source of the copy failed")]
    Read(#[source] StoreError),
    /// The destination could not be read or written, or rejected a change.
    #[error("destination of the copy failed")]
    Write(#[source] StoreError),
    /// The id belongs to a different dataset in the destination.
    #[error(
        "id is used by another dataset of the destination ({other}); copy to an empty store, or delete that dataset"
    )]
    NumberTaken {
        /// Name of the other dataset.
        other: String,
    },
    /// The copy was changed or pruned independently of its source, or has other tags. The copy remains
    /// unchanged.
    #[error(
        "dataset of the destination was changed after it was copied; copy to an empty store, or delete this dataset if its changes are not needed"
    )]
    CopyChanged,
    /// Source and copy differ after the copy was completed: the source was written during the run, or
    /// another program wrote to the copy.
    #[error(
        "{what} of the copy differ from the source; if the source is in use, run the same command again; otherwise delete the copy and start again"
    )]
    Differs {
        /// Part of the dataset that differs, such as `rows`.
        what: &'static str,
    },
    /// The caller stopped the copy before it was complete.
    #[error("stopped before the copy was complete; run the same command to resume")]
    Stopped,
}

/// Receives progress and returns whether to continue.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress<'_>) -> ControlFlow<()>;

/// Copies the datasets of `from` that `chosen` accepts to `to`. Continues copies of earlier runs. If a
/// dataset fails, the run continues with the next dataset. Blocks.
///
/// # Errors
/// A [`CopyError`] that would affect the copy of every dataset.
pub fn copy(
    from: &dyn Store,
    to: &dyn Engine,
    chosen: &dyn Fn(&Dataset) -> bool,
    on_progress: OnProgress<'_>,
) -> Result<CopyOutcome, CopyError> {
    // A deletion in the background would otherwise also delete the rows of a copy that has the id of the
    // deleted dataset.
    block_on(to.settle()).map_err(CopyError::Write)?;
    let (mut after, mut outcome) = (None, CopyOutcome::default());
    while let Some(id) = from.next_dataset(after).map_err(CopyError::Read)? {
        after = Some(id);
        let entry = CatalogEntry::read(from.catalog(), id).map_err(CopyError::Read)?;
        let Some(entry) = entry else { continue };
        let name = entry.dataset.name.clone();
        if !chosen(&entry.dataset) {
            continue;
        }
        match (Copy { from, to, entry }).run(on_progress) {
            Ok(()) => outcome.n_copied += 1,
            Err(error) if error.is_of_stores() => return Err(error),
            Err(error) => outcome.failed.push(FailedCopy { id, name, error }),
        }
    }
    for grant in from.grants().map_err(CopyError::Read)? {
        block_on(to.change_tag(grant)).map_err(CopyError::Write)?;
    }
    Ok(outcome)
}

impl CopyError {
    /// Returns true if every further copy would fail with this error.
    fn is_of_stores(&self) -> bool {
        use StoreError::{Closed, Full, ReadOnly, Replaced, Unreachable};
        matches!(
            self,
            Self::Stopped
                | Self::Read(Closed | Replaced | Unreachable(_))
                | Self::Write(Closed | Full | ReadOnly | Replaced | Unreachable(_))
        )
    }
}

/// The copy of one dataset, in progress.
struct Copy<'a> {
    from: &'a dyn Store,
    to: &'a dyn Engine,
    /// Catalog entry of the dataset in the source.
    entry: CatalogEntry,
}

impl Copy<'_> {
    fn run(&self, on_progress: OnProgress<'_>) -> Result<(), CopyError> {
        let id = self.entry.dataset.id;
        // Reads the oldest row first, so that an unreadable archive of the source fails the copy before
        // anything is written.
        let oldest = PageRead::raw(Span::ALL, Order::Ascending, 1);
        self.from.page(id, &oldest).map_err(CopyError::Read)?;
        let found = self.find()?.filter(|found| self.continues(found));
        let is_continued = found.is_some();
        let found = found.map_or_else(|| self.create(), Ok)?;
        self.copy_rest(&found, on_progress)?;
        let mut compared = self.compare(on_progress)?;
        if is_continued && compared.is_err() {
            self.copy_rest(&self.create()?, on_progress)?;
            compared = self.compare(on_progress)?;
        }
        let copied = compared.map_err(|what| CopyError::Differs { what })?;
        report(on_progress, CopyProgress::Copied(&copied))
    }

    /// Returns the dataset of the destination that is a copy of this source, if it exists.
    fn find(&self) -> Result<Option<CatalogEntry>, CopyError> {
        let source = &self.entry;
        let found = CatalogEntry::read(self.to, source.dataset.id).map_err(CopyError::Write)?;
        let Some(found) = found else { return Ok(None) };
        if found.dataset.created_at != source.dataset.created_at || found.owner != source.owner {
            return Err(CopyError::NumberTaken { other: found.dataset.name });
        }
        // The copy has the update time of the source at the time of the last run. A later update or
        // pruning, or an additional tag, is a change of the copy itself.
        let is_changed = found.dataset.updated_at > source.dataset.updated_at
            || found.kept_from > source.kept_from
            || found.tags.iter().any(|tag| !source.tags.contains(tag));
        if is_changed { Err(CopyError::CopyChanged) } else { Ok(Some(found)) }
    }

    /// Returns true if `found` lacks at most rows and tags, so the copy can be continued.
    fn continues(&self, found: &CatalogEntry) -> bool {
        describe(found) == describe(&self.entry) && found.columns.len() == found.visible().count()
    }

    /// Creates the copy. Replaces the existing copy if [`Self::find`] returns one.
    fn create(&self) -> Result<CatalogEntry, CopyError> {
        let dataset = self.entry.dataset.id;
        let is_replaced = self.find()?.is_some();
        let create = async {
            if is_replaced && self.to.delete(dataset).await? {
                self.to.settle().await?;
            }
            self.to.create_copy(self.entry.clone()).await
        };
        block_on(create).map_err(CopyError::Write)?;
        self.find()?.ok_or(CopyError::Write(StoreError::NoDataset { dataset }))
    }

    /// Copies the rows that follow the latest row of the copy, and the tags.
    fn copy_rest(
        &self,
        found: &CatalogEntry,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let dataset = &self.entry.dataset;
        if let Some(kept_from) = self.entry.kept_from.filter(|_| found.kept_from.is_none()) {
            self.copy_buckets(kept_from)?;
        }
        let n_all = self.from.count(dataset.id, Span::ALL).map_err(CopyError::Read)?;
        let n_rows = self.to.count(dataset.id, Span::ALL).map_err(CopyError::Write)?;
        report(on_progress, CopyProgress::Began { dataset, n_rows })?;
        let first = found.newest.map_or(Timestamp::MIN, just_after);
        self.copy_rows(first, (n_rows, n_all), on_progress)?;
        for tag in &self.entry.tags {
            let change = TagChange::Attach(dataset.id, tag.name.clone());
            block_on(self.to.change_tag(change)).map_err(CopyError::Write)?;
        }
        Ok(())
    }

    /// Copies the buckets of pruned rows. The last commit sets the time before which rows were pruned. A
    /// copy without that time is recognized as incomplete and made again.
    fn copy_buckets(&self, kept_from: Timestamp) -> Result<(), CopyError> {
        let put = |buckets, until| {
            let put = self.to.copy_buckets(self.entry.dataset.id, buckets, until);
            block_on(put).map_err(CopyError::Write)
        };
        let (resolution, span) =
            (Resolution::FiveMinutes, Span { last: just_before(kept_from), ..Span::ALL });
        let mut read =
            PageRead { resolution, ..PageRead::raw(span, Order::Ascending, COMMIT_ROWS) };
        while let Some(Rows::Buckets(buckets)) = self.next_page(&mut read)? {
            let last = buckets.last().map(|bucket| bucket_end(resolution, bucket.timestamp));
            put(buckets, last.unwrap_or(kept_from))?;
        }
        put(Vec::new(), kept_from)
    }

    /// Copies the rows from `first` on, all of which are later than the rows of the copy. Progress counts
    /// them from `n_rows`, the number of rows that were already copied, to `n_all`.
    fn copy_rows(
        &self,
        first: Timestamp,
        (mut n_rows, n_all): (u64, u64),
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at: now, .. } = self.entry.dataset;
        let columns: Vec<(usize, &Column)> = self.entry.visible().collect();
        let mut read = PageRead::raw(Span { first, ..Span::ALL }, Order::Ascending, COMMIT_ROWS);
        while let Some(Rows::Raw(rows)) = self.next_page(&mut read)? {
            n_rows += rows.len() as u64;
            let (mode, rows) = (AppendMode::Copy, select(rows, &columns));
            let append = Append { mode, rows, now, batches: Vec::new(), beneath: None };
            let appended = self.to.append(id, append, Arc::new(|_, _| {}));
            block_on(appended).map_err(CopyError::Write)?;
            report(on_progress, CopyProgress::Rows { n_rows, n_all })?;
        }
        Ok(())
    }

    /// Reads a page of the source, and moves the start of `read` behind it. Returns `None` at the end.
    fn next_page(&self, read: &mut PageRead) -> Result<Option<Rows>, CopyError> {
        let page = self.from.page(self.entry.dataset.id, read).map_err(CopyError::Read)?;
        let last = page.rows.timestamp(page.rows.len().saturating_sub(1));
        Ok(last.map(|last| {
            read.span.first = just_after(last);
            page.rows
        }))
    }

    /// Compares the copy with its source, up to the latest row of the copy. Returns the equal copy, or
    /// the name of the first part that differs.
    fn compare(
        &self,
        on_progress: OnProgress<'_>,
    ) -> Result<Result<CopiedDataset, &'static str>, CopyError> {
        let id = self.entry.dataset.id;
        let source = self.read_entry(self.from).map_err(CopyError::Read)?;
        let copied = self.read_entry(self.to).map_err(CopyError::Write)?;
        let n_all = self.from.count(id, Span::ALL).map_err(CopyError::Read)?;
        let until = copied.newest.max(self.entry.kept_from.map(just_before));
        let until = until.unwrap_or(Timestamp::MIN);
        let (mut n_rows, mut n_buckets) = (0, 0);
        for resolution in COMPARED {
            let mut span = Span { last: until, ..Span::ALL };
            loop {
                let (source_page, page) = self.pages(resolution, span)?;
                let (n, end) = (page.len() as u64, page.timestamp(page.len().saturating_sub(1)));
                match (source_page, page) {
                    (Rows::Raw(source_rows), Rows::Raw(rows)) => {
                        if visible(source_rows, &source) != visible(rows, &copied) {
                            return Ok(Err("rows"));
                        }
                        n_rows += n;
                    }
                    (Rows::Buckets(source_buckets), Rows::Buckets(buckets)) => {
                        let last = resolution.bucket_start(until);
                        let bits = |buckets: Vec<Bucket>| buckets.iter().map(stored_bits).collect();
                        let [mut source_bits, mut bits]: [Vec<_>; 2] =
                            [bits(source_buckets), bits(buckets)];
                        if source_bits != bits && self.is_ahead(until)? {
                            // Later rows of the source change the bucket that contains `until`.
                            source_bits.retain(|(start, ..)| *start != last);
                            bits.retain(|(start, ..)| *start != last);
                        }
                        if source_bits != bits {
                            return Ok(Err("buckets"));
                        }
                        n_buckets += n;
                    }
                    _ => return Ok(Err("resolutions")),
                }
                report(on_progress, CopyProgress::Compared { n_rows, n_all })?;
                let Some(end) = end else { break };
                span.first = just_after(end);
            }
        }
        if describe(&source) != describe(&copied) || source.tags != copied.tags {
            return Ok(Err("name, metadata, columns or tags"));
        }
        Ok(Ok(CopiedDataset { id, name: copied.dataset.name, n_rows, n_buckets }))
    }

    fn read_entry(&self, store: &dyn Store) -> Result<CatalogEntry, StoreError> {
        let dataset = self.entry.dataset.id;
        CatalogEntry::read(store.catalog(), dataset)?.ok_or(StoreError::NoDataset { dataset })
    }

    /// Reads a page of the source and the page of the copy, with equally many rows unless one of them is
    /// empty: a page with long texts is shorter, at a length that depends on the engine.
    fn pages(&self, resolution: Resolution, span: Span) -> Result<(Rows, Rows), CopyError> {
        let id = self.entry.dataset.id;
        let read = PageRead { resolution, ..PageRead::raw(span, Order::Ascending, COMMIT_ROWS) };
        let mut source_page = self.from.page(id, &read).map_err(CopyError::Read)?.rows;
        let mut page = self.to.page(id, &read).map_err(CopyError::Write)?.rows;
        match source_page.len().min(page.len()) {
            0 => Ok((source_page, page)),
            n => Ok((source_page.take(n), page.take(n))),
        }
    }

    /// Returns true if the source has rows after `until`.
    fn is_ahead(&self, until: Timestamp) -> Result<bool, CopyError> {
        let source = self.read_entry(self.from).map_err(CopyError::Read)?;
        Ok(source.newest > Some(until))
    }
}

/// Returns the rows with the columns that are not deleted, without row numbers.
fn visible(rows: Block, entry: &CatalogEntry) -> Block {
    let columns: Vec<_> = entry.visible().collect();
    Block { ids: Vec::new(), ..select(rows, &columns) }
}

/// Returns the parts of an entry that a copy has from its first commit.
fn describe(entry: &CatalogEntry) -> impl PartialEq {
    let Dataset { name, description, metadata, .. } = &entry.dataset;
    let columns: Vec<_> = entry.visible().map(|(_, column)| (&column.name, column.dtype)).collect();
    (name, description, metadata, entry.kept_from, columns)
}

/// Returns the rows with only some of their columns, given by index. A column that is missing in the
/// rows has no values in the result.
fn select(rows: Block, columns: &[(usize, &Column)]) -> Block {
    let n_rows = rows.len();
    let series = |(place, column): &(usize, &Column)| {
        rows.columns.get(*place).cloned().unwrap_or_else(|| {
            let mut series = Series::new(column.dtype);
            series.push_missing(n_rows);
            series
        })
    };
    let columns = columns.iter().map(series).collect();
    Block { columns, ..rows }
}

fn report(on_progress: OnProgress<'_>, progress: CopyProgress<'_>) -> Result<(), CopyError> {
    match on_progress(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CopyError::Stopped),
    }
}

#[cfg(test)]
pub(crate) mod tests;
