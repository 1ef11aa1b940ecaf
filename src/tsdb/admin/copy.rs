//! Copies datasets from one store to another, of any engines.
//!
//! Ids, names, owners, tags, columns, rows with their creation times, and buckets of pruned rows are
//! copied. Other buckets follow from the rows. Deleted columns, revisions and row numbers are not
//! copied. The rows of a dataset are copied in the order of their timestamps, so that an unfinished copy
//! continues after its latest row. Tags are copied last, so that only the owner can read an unfinished
//! copy. At the end each dataset is compared with its source, day by day.
//!
//! A copy follows changes of its source: columns are renamed and deleted, pruned rows removed, and
//! days that differ are copied again. If that is not enough, as when columns changed places, the
//! copy is deleted and made again. A dataset that is not such a copy, or was itself changed or
//! pruned after its source, is not touched.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use futures::executor::block_on;
use model::block::{Block, Rows, Series};
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use self::digest::Digest;
use crate::catalog::{Change, DatasetChange, MetadataChange, Refusal, TagChange};
use crate::span::{Order, Span, just_after, just_before};
use crate::store::copying::{CatalogEntry, CopyStore};
use crate::store::series::bucket_end;
use crate::store::{self, Count, PageRead, StoreError};

mod columns;
mod digest;

/// Number of rows per commit of a copy: eight chunks, or less if the rows are long.
const COMMIT_ROWS: usize = 8192;

/// Approximate number of bytes of rows per commit.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;

/// Number of buckets per commit: three weeks of five minutes.
const COMMIT_BUCKETS: usize = 6048;

/// Read of the latest bucket of five minutes.
const NEWEST: PageRead = PageRead {
    resolution: Resolution::FiveMinutes,
    span: Span::ALL,
    order: Order::Descending,
    skip: 0,
    limit: 1,
    count: Count::Nothing,
};

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyProgress<'a> {
    /// The copy of a dataset begins.
    Began {
        /// Dataset of the source.
        dataset: &'a Dataset,
        /// Number of rows of an earlier copy.
        n_rows: u64,
    },
    /// Rows were copied.
    Rows {
        /// Number of copied rows, including rows of an earlier copy.
        n_rows: u64,
        /// Number of rows of the source.
        n_all: u64,
    },
    /// Rows of the source and then of the copy were compared.
    Compared {
        /// Number of compared rows of both.
        n_rows: u64,
        /// Number of rows of both.
        n_all: u64,
    },
    /// A dataset is copied and equal to its source.
    Copied(&'a CopiedDataset),
}

/// A dataset that was copied and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDataset {
    /// Id in both stores.
    pub id: DatasetId,
    /// Name in both stores.
    pub name: String,
    /// Number of rows in each store.
    pub n_rows: u64,
    /// Number of stored buckets in each store.
    pub n_buckets: u64,
    /// Checksum of rows, buckets, name, description, metadata, columns and tags.
    pub checksum: u64,
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
    /// Id in the source.
    pub id: DatasetId,
    /// Name in the source.
    pub name: String,
    /// Cause. Never an error that stops the whole copy, such as [`CopyError::Stopped`].
    pub error: CopyError,
}

/// Failure of a copy. The next copy continues with what was copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source failed.
    #[error("source of the copy failed")]
    Read(#[source] StoreError),
    /// The destination failed or rejected a change.
    #[error("destination of the copy failed")]
    Write(#[source] StoreError),
    /// Another dataset of the destination has the id.
    #[error(
        "its id belongs to another dataset of the destination ({other}); copy to an empty store, or delete that one"
    )]
    NumberTaken {
        /// Name in the destination.
        other: String,
    },
    /// The copy was changed after its source. It was not touched.
    #[error(
        "its copy was changed at {copy}, after its source at {source_time}; copy to an empty store if those changes may be lost"
    )]
    CopyIsNewer {
        /// Time of the last change of the copy.
        copy: Timestamp,
        /// Time of the last change of the source.
        source_time: Timestamp,
    },
    /// Rows of the copy were pruned that its source has. It was not touched.
    #[error(
        "rows of its copy before {kept_from} were pruned, which its source may have; copy to an empty store"
    )]
    CopyIsPruned {
        /// Timestamp before which rows of the copy were pruned.
        kept_from: Timestamp,
    },
    /// The source was written during the copy, or the copy by someone else.
    #[error(
        "{what} of the copy differ from the source; run the same command again if the source is in use, else delete the copy first"
    )]
    Differs {
        /// Differing part, such as `rows`.
        what: &'static str,
    },
    /// The caller stopped the copy.
    #[error("stopped before the copy was complete; run the same command to resume")]
    Stopped,
}

/// Receives progress and returns whether to continue.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress<'_>) -> ControlFlow<()>;

/// Copies all datasets of `from` that are `chosen` to `to`, which may have some of them already.
/// Continues with the other datasets if one fails. Blocks.
///
/// # Errors
/// [`CopyError`] if the copy of any dataset would fail.
pub fn copy(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    chosen: &dyn Fn(&Dataset) -> bool,
    on_progress: OnProgress<'_>,
) -> Result<CopyOutcome, CopyError> {
    // Otherwise remains of deleted datasets would be removed from copies of their ids.
    block_on(to.settle()).map_err(CopyError::Write)?;
    let (mut after, mut outcome) = (None, CopyOutcome::default());
    while let Some(entry) = from.next_entry(after).map_err(CopyError::Read)? {
        let Dataset { id, name, .. } = entry.dataset.clone();
        after = Some(id);
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
    /// Returns true if the copy of any dataset would fail with this error.
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

/// A dataset being copied.
struct Copy<'a> {
    from: &'a dyn CopyStore,
    to: &'a dyn CopyStore,
    /// Entry of the source.
    entry: CatalogEntry,
}

impl Copy<'_> {
    fn run(&self, on_progress: OnProgress<'_>) -> Result<(), CopyError> {
        // Fails before anything is written if old rows of the source cannot be read.
        self.read_oldest()?;
        let followed = match self.find()? {
            Some(found) => self.follow(&found)?,
            None => None,
        };
        let mut found = match followed {
            Some(found) => found,
            None => self.create()?,
        };
        self.copy_rest(&found, on_progress)?;
        let (mut source, mut copied) = self.compare(on_progress)?;
        let days = source.days_that_differ(&copied);
        // If rows were pruned in the meantime, days cannot be compared.
        if let Some(first) = days.first().filter(|_| source.kept_from == copied.kept_from) {
            if copied.kept_from.is_some_and(|kept_from| *first < kept_from) {
                found = self.create()?;
                self.copy_rest(&found, on_progress)?;
            } else {
                self.copy_days(&found, &days, on_progress)?;
            }
            (source, copied) = self.compare(on_progress)?;
        }
        if let Some(what) = source.difference(&copied) {
            return Err(CopyError::Differs { what });
        }
        let copied = CopiedDataset {
            id: self.entry.dataset.id,
            name: self.entry.dataset.name.clone(),
            n_rows: source.n_rows,
            n_buckets: source.n_buckets,
            checksum: source.checksum(),
        };
        report(on_progress, CopyProgress::Copied(&copied))
    }

    /// Returns the timestamp of the oldest row of the source.
    fn read_oldest(&self) -> Result<Option<Timestamp>, CopyError> {
        let read = PageRead { resolution: Resolution::Raw, order: Order::Ascending, ..NEWEST };
        let page = self.from.page(self.entry.dataset.id, &read).map_err(CopyError::Read)?;
        Ok(page.rows.timestamp(0))
    }

    /// Returns the existing copy.
    fn find(&self) -> Result<Option<CatalogEntry>, CopyError> {
        let Dataset { id, created_at, updated_at, .. } = self.entry.dataset;
        let Some(found) = entry(self.to, id).map_err(CopyError::Write)? else { return Ok(None) };
        if found.dataset.created_at != created_at || found.owner != self.entry.owner {
            return Err(CopyError::NumberTaken { other: found.dataset.name });
        }
        // It has the times of its source, unless it was written itself.
        let copy = found.dataset.updated_at;
        if copy > updated_at {
            return Err(CopyError::CopyIsNewer { copy, source_time: updated_at });
        }
        match found.kept_from {
            Some(kept_from) if found.kept_from > self.entry.kept_from => {
                Err(CopyError::CopyIsPruned { kept_from })
            }
            _ => Ok(Some(found)),
        }
    }

    /// Creates the copy. Replaces an existing one if [`Self::find`] returns it and it has no other
    /// tags than its source, since changes of tags do not change its time of the last change.
    fn create(&self) -> Result<CatalogEntry, CopyError> {
        let dataset = self.entry.dataset.id;
        let found = self.find()?;
        let has_other_tags =
            |found: &CatalogEntry| found.tags.iter().any(|tag| !self.entry.tags.contains(tag));
        if found.as_ref().is_some_and(has_other_tags) {
            return Err(CopyError::Differs { what: "tags" });
        }
        let create = async {
            if found.is_some() && self.to.delete(dataset).await? {
                self.to.settle().await?;
            }
            self.to.create_copy(self.entry.clone()).await
        };
        block_on(create).map_err(CopyError::Write)?;
        self.find()?.ok_or(CopyError::Write(StoreError::NoDataset { dataset }))
    }

    /// Gives an earlier copy the name, the description, the metadata, the columns and the pruned rows of
    /// the source. Returns `None` if that is not possible.
    fn follow(&self, found: &CatalogEntry) -> Result<Option<CatalogEntry>, CopyError> {
        let Dataset { id, name, description, metadata, updated_at, .. } = &self.entry.dataset;
        let mut changes = columns::changes(&self.entry.columns, &found.columns);
        let old = &found.dataset;
        if (&old.name, &old.description, &old.metadata) != (name, description, metadata) {
            let change = DatasetChange::Description(Change {
                name: Some(name.clone()),
                description: Some(description.clone()),
                metadata: MetadataChange::Replace(metadata.clone()),
            });
            changes.push((change, None));
        }
        for (change, time) in changes {
            match block_on(self.to.change(*id, change, time.unwrap_or(*updated_at))) {
                Ok(_) => {}
                Err(StoreError::Refused(
                    Refusal::Refolds | Refusal::ColumnTaken | Refusal::ColumnsFull,
                )) => {
                    return Ok(None);
                }
                Err(error) => return Err(CopyError::Write(error)),
            }
        }
        if let Some(kept_from) = self.entry.kept_from
            && found.newest.is_some()
            && found.kept_from < Some(kept_from)
        {
            let before = self.read_oldest()?.map_or(kept_from, |oldest| oldest.min(kept_from));
            block_on(self.to.prune_copy(*id, before, kept_from)).map_err(CopyError::Write)?;
        }
        let found = self.find()?;
        Ok(found.filter(|found| columns::are_equal(&self.entry.columns, &found.columns)))
    }

    /// Copies the tags and the rows that come after the latest row of the copy.
    fn copy_rest(
        &self,
        found: &CatalogEntry,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let id = self.entry.dataset.id;
        if found.newest.is_none() && self.entry.kept_from > found.kept_from {
            self.copy_buckets()?;
        }
        let first = found.newest.map_or(Timestamp::MIN, just_after);
        let mut counts = self.begin(on_progress)?;
        self.copy_rows(found, Span { first, ..Span::ALL }, &mut counts, on_progress)?;
        for tag in &self.entry.tags {
            let change = TagChange::Attach(id, tag.name.clone());
            block_on(self.to.change_tag(change)).map_err(CopyError::Write)?;
        }
        Ok(())
    }

    /// Copies the rows of days again. Every day begins after the pruned rows.
    fn copy_days(
        &self,
        found: &CatalogEntry,
        days: &BTreeSet<Timestamp>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at, .. } = self.entry.dataset;
        let mut counts = self.begin(on_progress)?;
        for first in days {
            let last = just_before(bucket_end(Resolution::Day, *first));
            let span = Span { first: *first, last };
            let removed = self.to.delete_rows(id, span, updated_at, Box::new(|_| {}));
            let n_removed = block_on(removed).map_err(CopyError::Write)?;
            counts.n_rows = counts.n_rows.saturating_sub(n_removed);
            self.copy_rows(found, span, &mut counts, on_progress)?;
        }
        Ok(())
    }

    /// Reports the number of rows.
    fn begin(&self, on_progress: OnProgress<'_>) -> Result<Counts, CopyError> {
        let dataset = &self.entry.dataset;
        let n_all = count(self.from, dataset.id).map_err(CopyError::Read)?;
        let n_rows = count(self.to, dataset.id).map_err(CopyError::Write)?;
        report(on_progress, CopyProgress::Began { dataset, n_rows })?;
        Ok(Counts { n_rows, n_all })
    }

    /// Copies the buckets of pruned rows, from the last copied one on.
    fn copy_buckets(&self) -> Result<(), CopyError> {
        let (id, Some(kept_from)) = (self.entry.dataset.id, self.entry.kept_from) else {
            return Ok(());
        };
        let mut span = Span { last: just_before(kept_from), ..Span::ALL };
        if let Some(last) = self.last_bucket()? {
            span.first = just_after(last.timestamp);
        }
        let put = |buckets: Vec<Bucket>, until: Timestamp| {
            block_on(self.to.copy_buckets(id, buckets, until)).map_err(CopyError::Write)
        };
        let mut pending = Vec::new();
        let mut written = Ok(());
        self.from
            .scan(id, Resolution::FiveMinutes, span, &mut |batch| {
                if let Rows::Buckets(buckets) = batch.rows()? {
                    pending.extend(buckets);
                }
                if let (COMMIT_BUCKETS.., Some(last)) = (pending.len(), pending.last()) {
                    let until = bucket_end(Resolution::FiveMinutes, last.timestamp);
                    written = put(std::mem::take(&mut pending), until);
                }
                Ok(go_on(&written))
            })
            .map_err(CopyError::Read)?;
        written?;
        put(pending, kept_from)
    }

    /// Returns the latest bucket of five minutes of the destination.
    fn last_bucket(&self) -> Result<Option<Bucket>, CopyError> {
        let page = self.to.page(self.entry.dataset.id, &NEWEST).map_err(CopyError::Write)?;
        Ok(match page.rows {
            Rows::Buckets(buckets) => buckets.first().copied(),
            Rows::Raw(_) => None,
        })
    }

    /// Copies the rows of a span that is empty in the copy.
    fn copy_rows(
        &self,
        found: &CatalogEntry,
        span: Span,
        counts: &mut Counts,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at, .. } = self.entry.dataset;
        // The copy keeps the places of columns that were deleted.
        let source = |wanted: &Column| {
            let mut all = columns::list_visible(&self.entry.columns);
            all.find(|(_, column)| column.name == wanted.name).map(|(idx, _)| idx)
        };
        let places: Vec<Option<usize>> = found.columns.iter().map(source).collect();
        let dtypes: Vec<Dtype> = found.columns.iter().map(|column| column.dtype).collect();
        let mut pending = Block::new(&dtypes);
        let mut done = Ok(());
        let mut put = |rows: Block| {
            counts.n_rows += u64::try_from(rows.len()).unwrap_or(u64::MAX);
            block_on(self.to.copy_rows(id, rows, updated_at)).map_err(CopyError::Write)?;
            let Counts { n_rows, n_all } = *counts;
            report(on_progress, CopyProgress::Rows { n_rows, n_all })
        };
        self.from
            .scan(id, Resolution::Raw, span, &mut |batch| {
                if let Rows::Raw(rows) = batch.rows()? {
                    let rows = select(rows, &places, &dtypes);
                    pending.extend_from(&rows, 0..rows.len());
                }
                if pending.len() >= COMMIT_ROWS || pending.n_bytes() >= COMMIT_BYTES {
                    done = put(std::mem::replace(&mut pending, Block::new(&dtypes)));
                }
                Ok(go_on(&done))
            })
            .map_err(CopyError::Read)?;
        done?;
        if pending.is_empty() { Ok(()) } else { put(pending) }
    }

    /// Reads all of the source and then all of the copy.
    fn compare(&self, on_progress: OnProgress<'_>) -> Result<(Digest, Digest), CopyError> {
        let source = self.digest(self.from, 0, on_progress)?.map_err(CopyError::Read)?;
        let copied = self.digest(self.to, source.n_rows, on_progress)?.map_err(CopyError::Write)?;
        Ok((source, copied))
    }

    /// Returns the digest of the dataset in a store, after `n_before` rows of the other store were
    /// read.
    fn digest(
        &self,
        store: &dyn CopyStore,
        n_before: u64,
        on_progress: OnProgress<'_>,
    ) -> Result<store::Result<Digest>, CopyError> {
        let id = self.entry.dataset.id;
        let mut is_stopped = false;
        let mut read = || {
            let n_all = 2 * count(store, id)?;
            let found = entry(store, id)?.ok_or(StoreError::NoDataset { dataset: id })?;
            Digest::read(store, &found, &mut |n_rows| {
                let next = on_progress(CopyProgress::Compared { n_rows: n_before + n_rows, n_all });
                is_stopped = next.is_break();
                next
            })
        };
        let digest = read();
        if is_stopped { Err(CopyError::Stopped) } else { Ok(digest) }
    }
}

/// Returns the dataset of this id.
fn entry(store: &dyn CopyStore, id: DatasetId) -> store::Result<Option<CatalogEntry>> {
    let found = store.next_entry(DatasetId::new(id.get() - 1))?;
    Ok(found.filter(|found| found.dataset.id == id))
}

/// Returns the number of rows of a dataset.
fn count(store: &dyn CopyStore, dataset: DatasetId) -> store::Result<u64> {
    let read = PageRead { resolution: Resolution::Raw, count: Count::All, ..NEWEST };
    Ok(store.page(dataset, &read)?.count.unwrap_or(0))
}

/// Numbers of rows for reports.
struct Counts {
    n_rows: u64,
    n_all: u64,
}

/// Returns rows with the columns at these places. `None` is a column without values.
fn select(rows: Block, places: &[Option<usize>], dtypes: &[Dtype]) -> Block {
    let n_rows = rows.len();
    let series = |(place, dtype): (&Option<usize>, &Dtype)| {
        let found = place.and_then(|idx| rows.columns.get(idx).cloned());
        found.unwrap_or_else(|| {
            let mut series = Series::new(*dtype);
            series.push_missing(n_rows);
            series
        })
    };
    let columns = places.iter().zip(dtypes).map(series).collect();
    Block { columns, ..rows }
}

/// Returns whether a scan continues.
const fn go_on(done: &Result<(), CopyError>) -> ControlFlow<()> {
    if done.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn report(on_progress: OnProgress<'_>, progress: CopyProgress<'_>) -> Result<(), CopyError> {
    match on_progress(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CopyError::Stopped),
    }
}

#[cfg(test)]
pub(crate) mod tests;
