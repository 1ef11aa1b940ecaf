//! Copying datasets from one store to another, whatever engines keep them.
//!
//! Numbers, names, owners, tags, columns, rows with their creation times, and buckets whose rows were
//! pruned are copied; the other buckets follow from the rows. Deleted columns, revisions and row numbers
//! are not. A dataset's rows are copied in the order of their timestamps, so that the newest row of an
//! unfinished copy says where to go on; its tags come last, so that nobody but its owner reads it before
//! it is whole. Each dataset is compared with its source at the end, day by day.
//!
//! A copy follows the changes of its source: its columns are renamed and deleted, its pruned rows
//! removed, and the days that differ copied again. Where that is not enough, as where columns changed
//! places, the dataset is deleted and copied again as a whole. A dataset that is not such a copy, or was
//! itself changed or pruned after its source, is left alone.

use std::{collections::BTreeSet, ops::ControlFlow};

use futures::executor::block_on;
use model::{
    block::{Block, Rows, Series},
    dataset::{Column, Dataset, DatasetId, Dtype},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use self::digest::Digest;
use crate::{
    catalog::{Change, DatasetChange, MetadataChange, Refusal, TagChange},
    span::{Order, Span},
    store::{
        self, Count, PageRead, StoreError,
        copying::{CatalogEntry, CopyStore},
    },
};

mod columns;
mod digest;

/// Rows of one commit of a copy: eight chunks, or less where they are long.
const COMMIT_ROWS: usize = 8192;

/// Bytes of rows of one commit, about.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;

/// Buckets of one commit: three weeks of five minutes.
const COMMIT_BUCKETS: usize = 6048;

/// The smallest step of a timestamp.
const STEP_MICROS: i64 = 1;

/// All there is.
const ALL: Span = Span { first: Timestamp::MIN, last: Timestamp::MAX };

/// Reads the newest bucket of five minutes.
const NEWEST: PageRead = PageRead {
    resolution: Resolution::FiveMinutes,
    span: ALL,
    order: Order::Descending,
    skip: 0,
    limit: 1,
    count: Count::Nothing,
};

/// What is reported while datasets are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyProgress<'a> {
    /// A dataset is begun, of which so many rows are copied already.
    Began {
        /// The dataset at the source.
        dataset: &'a Dataset,
        /// Rows of an earlier copy.
        n_rows: u64,
    },
    /// Rows were copied.
    Rows {
        /// Rows copied, those of an earlier copy included.
        n_rows: u64,
        /// Rows of the source.
        n_all: u64,
    },
    /// Rows were compared, of the source and then of the copy.
    Compared {
        /// Rows compared in both of them together.
        n_rows: u64,
        /// Rows in both of them.
        n_all: u64,
    },
    /// A dataset is copied, and equal to its source.
    Copied(&'a CopiedDataset),
}

/// A dataset that was copied and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDataset {
    /// Its number in both stores.
    pub id: DatasetId,
    /// Its name in both stores.
    pub name: String,
    /// Rows in each of them.
    pub n_rows: u64,
    /// Stored buckets in each of them.
    pub n_buckets: u64,
    /// A checksum of both, and of the name, the description, the metadata, the columns and the tags.
    pub checksum: u64,
}

/// The outcome of a copy of datasets.
#[derive(Debug, Default)]
pub struct CopyOutcome {
    /// Datasets that were copied and are equal to their sources.
    pub n_copied: u64,
    /// Datasets that were not, or not as a whole.
    pub failed: Vec<FailedCopy>,
}

/// A dataset that was not copied, or not all of it.
#[derive(Debug)]
pub struct FailedCopy {
    /// The number at the source.
    pub id: DatasetId,
    /// The name at the source.
    pub name: String,
    /// Never one that ends the whole copy, such as [`CopyError::Stopped`].
    pub error: CopyError,
}

/// Why datasets were not copied. What is copied stays, and the next copy goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The source failed.
    #[error("read the store to copy from")]
    Read(#[source] StoreError),
    /// The destination failed, or refused something.
    #[error("write the store to copy to")]
    Write(#[source] StoreError),
    /// Another dataset has the number at the destination.
    #[error(
        "use its number, which is that of another dataset there ({other}); copy into an empty store, or delete that one"
    )]
    NumberTaken {
        /// The name at the destination.
        other: String,
    },
    /// The copy was changed after its source was. Nothing was written to it.
    #[error(
        "update its copy, which was changed at {copy}, after its source at {source_time}; copy into an empty store if those changes may be lost"
    )]
    CopyIsNewer {
        /// When the copy was last changed.
        copy: Timestamp,
        /// When the source was last changed.
        source_time: Timestamp,
    },
    /// Rows of the copy were pruned that its source has. Nothing was written to it.
    #[error(
        "update its copy, of which rows before {kept_from} were pruned that its source may have; copy into an empty store"
    )]
    CopyIsPruned {
        /// The timestamp before which rows of the copy were pruned.
        kept_from: Timestamp,
    },
    /// The source was written meanwhile, or the copy was given something else.
    #[error(
        "verify the copy, whose {what} differ from those of its source; run the same command again if the source is in use, else delete the copy first"
    )]
    Differs {
        /// What differs, such as `rows`.
        what: &'static str,
    },
    /// The caller wanted to stop.
    #[error("copy the rest: stopped; the same command goes on")]
    Stopped,
}

/// Receives progress, and returns whether to go on.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress<'_>) -> ControlFlow<()>;

/// Copies all datasets of `from`, or those of `chosen`, to `to`, which may have some of them already. One
/// that fails keeps no others back. Blocks.
///
/// # Errors
/// [`CopyError`] if the copy of any dataset would fail.
pub fn copy(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    chosen: &dyn Fn(&Dataset) -> bool,
    on_progress: OnProgress<'_>,
) -> Result<CopyOutcome, CopyError> {
    // What is left of deleted datasets would be removed from copies of their numbers.
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
    /// Whether any dataset would fail so.
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
    /// At the source.
    entry: CatalogEntry,
}

impl Copy<'_> {
    fn run(&self, on_progress: OnProgress<'_>) -> Result<(), CopyError> {
        // Nothing is written for one whose old rows cannot be read.
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
        // Where rows were pruned meanwhile, days cannot be compared.
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

    /// The timestamp of the oldest row at the source.
    fn read_oldest(&self) -> Result<Option<Timestamp>, CopyError> {
        let read = PageRead { resolution: Resolution::Raw, order: Order::Ascending, ..NEWEST };
        let page = self.from.page(self.entry.dataset.id, &read).map_err(CopyError::Read)?;
        Ok(page.rows.timestamp(0))
    }

    /// The copy that is there.
    fn find(&self) -> Result<Option<CatalogEntry>, CopyError> {
        let Dataset { id, created_at, updated_at, .. } = self.entry.dataset;
        let Some(found) = entry(self.to, id).map_err(CopyError::Write)? else { return Ok(None) };
        if found.dataset.created_at != created_at || found.owner != self.entry.owner {
            return Err(CopyError::NumberTaken { other: found.dataset.name });
        }
        // It has the times of its source, unless it is written itself.
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

    /// Creates the copy, in the place of the one that is there, which must be one that [`Self::find`]
    /// returns, with no tags but those of its source: the time of its last change does not tell of tags.
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

    /// Gives an earlier copy the name, the description, the metadata, the columns and the pruned rows that
    /// the source has got since; `None` if that is not possible.
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

    /// Copies what comes after the rows of the copy, and the tags.
    fn copy_rest(
        &self,
        found: &CatalogEntry,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let id = self.entry.dataset.id;
        if found.newest.is_none() && self.entry.kept_from > found.kept_from {
            self.copy_buckets()?;
        }
        let first = found.newest.map_or(Timestamp::MIN, |newest| {
            Timestamp::from_micros(newest.micros().saturating_add(STEP_MICROS))
        });
        let mut counts = self.begin(on_progress)?;
        self.copy_rows(found, Span { first, ..ALL }, &mut counts, on_progress)?;
        for tag in &self.entry.tags {
            let change = TagChange::Attach(id, tag.name.clone());
            block_on(self.to.change_tag(change)).map_err(CopyError::Write)?;
        }
        Ok(())
    }

    /// Copies the rows of days again, none of which begins before rows that were pruned.
    fn copy_days(
        &self,
        found: &CatalogEntry,
        days: &BTreeSet<Timestamp>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at, .. } = self.entry.dataset;
        let length = Resolution::Day.bucket().unwrap_or_default();
        let mut counts = self.begin(on_progress)?;
        for first in days {
            let end = Resolution::Day.bucket_start(*first) + length;
            let last = Timestamp::from_micros(end.micros() - STEP_MICROS);
            let span = Span { first: *first, last };
            let removed = self.to.delete_rows(id, span, updated_at, Box::new(|_| {}));
            let n_removed = block_on(removed).map_err(CopyError::Write)?;
            counts.n_rows = counts.n_rows.saturating_sub(n_removed);
            self.copy_rows(found, span, &mut counts, on_progress)?;
        }
        Ok(())
    }

    /// Reports how many rows are there.
    fn begin(&self, on_progress: OnProgress<'_>) -> Result<Counts, CopyError> {
        let dataset = &self.entry.dataset;
        let n_all = count(self.from, dataset.id).map_err(CopyError::Read)?;
        let n_rows = count(self.to, dataset.id).map_err(CopyError::Write)?;
        report(on_progress, CopyProgress::Began { dataset, n_rows })?;
        Ok(Counts { n_rows, n_all })
    }

    /// Copies the buckets of pruned rows, from the last one on that is there.
    fn copy_buckets(&self) -> Result<(), CopyError> {
        let (id, Some(kept_from)) = (self.entry.dataset.id, self.entry.kept_from) else {
            return Ok(());
        };
        let length = Resolution::FiveMinutes.bucket().unwrap_or_default();
        let last = Timestamp::from_micros(kept_from.micros() - STEP_MICROS);
        let mut span = Span { last, ..ALL };
        if let Some(last) = self.last_bucket()? {
            span.first = Timestamp::from_micros(last.timestamp.micros() + STEP_MICROS);
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
                    let until = last.timestamp + length;
                    written = put(std::mem::take(&mut pending), until);
                }
                Ok(go_on(&written))
            })
            .map_err(CopyError::Read)?;
        written?;
        put(pending, kept_from)
    }

    /// The newest bucket of five minutes at the destination.
    fn last_bucket(&self) -> Result<Option<Bucket>, CopyError> {
        let page = self.to.page(self.entry.dataset.id, &NEWEST).map_err(CopyError::Write)?;
        Ok(match page.rows {
            Rows::Buckets(buckets) => buckets.first().copied(),
            Rows::Raw(_) => None,
        })
    }

    /// Copies the rows of a span, in which the copy has none.
    fn copy_rows(
        &self,
        found: &CatalogEntry,
        span: Span,
        counts: &mut Counts,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at, .. } = self.entry.dataset;
        let source = |wanted: &Column| {
            let mut all = columns::list_visible(&self.entry.columns);
            all.find(|(_, column)| column.name == wanted.name).map(|(idx, _)| idx)
        };
        // The copy keeps places of columns that were deleted.
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

    /// Reads all of the source and then of the copy.
    fn compare(&self, on_progress: OnProgress<'_>) -> Result<(Digest, Digest), CopyError> {
        let source = self.digest(self.from, 0, on_progress)?.map_err(CopyError::Read)?;
        let copied = self.digest(self.to, source.n_rows, on_progress)?.map_err(CopyError::Write)?;
        Ok((source, copied))
    }

    /// What the dataset is in one of the stores, after `n_before` rows of the other one were read.
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

/// The dataset of this number.
fn entry(store: &dyn CopyStore, id: DatasetId) -> store::Result<Option<CatalogEntry>> {
    let found = store.next_entry(DatasetId::new(id.get() - 1))?;
    Ok(found.filter(|found| found.dataset.id == id))
}

/// How many rows a dataset has.
fn count(store: &dyn CopyStore, dataset: DatasetId) -> store::Result<u64> {
    let read = PageRead { resolution: Resolution::Raw, count: Count::All, ..NEWEST };
    Ok(store.page(dataset, &read)?.count.unwrap_or(0))
}

/// Rows of a dataset, as they are reported.
struct Counts {
    n_rows: u64,
    n_all: u64,
}

/// The columns at these places; `None` for one without values.
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

/// Whether a scan goes on.
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
