//! Copying datasets from one store to another, whatever engines keep them.
//!
//! Numbers, names, owners, tags, columns, rows with their creation times, and buckets whose rows were
//! pruned are copied; the other buckets follow from the rows. Deleted columns, revisions and row numbers
//! are not. A dataset's rows are copied in the order of their timestamps, so that the newest row of an
//! unfinished copy says where to go on; its tags come last, so that nobody but its owner reads it before
//! it is whole. Each dataset is compared with its source at the end.

use std::ops::ControlFlow;

use futures::executor::block_on;
use model::{
    block::{Block, Rows},
    dataset::{Column, Dataset, DatasetId, Dtype},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use self::digest::Digest;
use crate::{
    catalog::{Change, DatasetChange, MetadataChange, TagChange},
    span::{Order, Span},
    store::{
        self, Count, PageRead, StoreError,
        copying::{CatalogEntry, CopyStore},
    },
};

mod digest;

/// Rows of one commit of a copy: eight chunks, or less where they are long.
const COMMIT_ROWS: usize = 8192;

/// Bytes of rows of one commit, about.
const COMMIT_BYTES: usize = 8 * 1024 * 1024;

/// Buckets of one commit: three weeks of five minutes.
const COMMIT_BUCKETS: usize = 6048;

/// The smallest step of a timestamp.
const STEP_MICROS: i64 = 1;

/// Reads the newest bucket of five minutes.
const NEWEST: PageRead = PageRead {
    resolution: Resolution::FiveMinutes,
    span: Span { first: Timestamp::MIN, last: Timestamp::MAX },
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
        "copy dataset {id} ({name}), whose number is that of another dataset there ({other}); copy into an empty store, or delete that one"
    )]
    NumberTaken {
        /// The number in both stores.
        id: DatasetId,
        /// The name at the source.
        name: String,
        /// The name at the destination.
        other: String,
    },
    /// The copy was changed, or the source was written meanwhile.
    #[error(
        "verify the copy of dataset {id} ({name}), whose {what} differ from those of its source; run the same command again if the source is in use, else delete the copy first"
    )]
    Differs {
        /// The number in both stores.
        id: DatasetId,
        /// The name at the source.
        name: String,
        /// What differs, such as `rows`.
        what: &'static str,
    },
    /// The caller wanted to stop.
    #[error("copy the rest: stopped; the same command goes on")]
    Stopped,
}

/// Receives progress, and returns whether to go on.
pub type OnProgress<'a> = &'a mut dyn FnMut(CopyProgress<'_>) -> ControlFlow<()>;

/// Copies all datasets of `from`, or those of `chosen`, to `to`, which may have some of them already;
/// returns their number. Blocks.
///
/// # Errors
/// [`CopyError`]; the datasets before the one that failed are copied whole.
pub fn copy(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    chosen: &dyn Fn(&Dataset) -> bool,
    on_progress: OnProgress<'_>,
) -> Result<u64, CopyError> {
    // What is left of deleted datasets would be removed from copies of their numbers.
    block_on(to.settle()).map_err(CopyError::Write)?;
    let (mut after, mut n_copied) = (None, 0);
    while let Some(entry) = from.next_entry(after).map_err(CopyError::Read)? {
        after = Some(entry.dataset.id);
        if chosen(&entry.dataset) {
            Copy { from, to, entry }.run(on_progress)?;
            n_copied += 1;
        }
    }
    for grant in from.grants().map_err(CopyError::Read)? {
        block_on(to.change_tag(grant)).map_err(CopyError::Write)?;
    }
    Ok(n_copied)
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
        let Dataset { id, name, .. } = &self.entry.dataset;
        let found = if let Some(found) = self.find()? {
            found
        } else {
            block_on(self.to.create_copy(self.entry.clone())).map_err(CopyError::Write)?;
            self.find()?.ok_or(CopyError::Write(StoreError::NoDataset { dataset: *id }))?
        };
        self.update(&found)?;
        if found.newest.is_none() && self.entry.kept_from > found.kept_from {
            self.copy_buckets()?;
        }
        self.copy_rows(found.newest, on_progress)?;
        for tag in &self.entry.tags {
            let change = TagChange::Attach(*id, tag.name.clone());
            block_on(self.to.change_tag(change)).map_err(CopyError::Write)?;
        }
        let source = self.digest(self.from, 0, on_progress)?;
        let copied = self.digest(self.to, source.n_rows, on_progress)?;
        let differs = |what| CopyError::Differs { id: *id, name: name.clone(), what };
        if let Some(what) = source.difference(&copied) {
            return Err(differs(what));
        }
        let copied = CopiedDataset {
            id: *id,
            name: name.clone(),
            n_rows: source.n_rows,
            n_buckets: source.n_buckets,
            checksum: source.checksum(),
        };
        report(on_progress, CopyProgress::Copied(&copied))
    }

    /// The copy that is there.
    fn find(&self) -> Result<Option<CatalogEntry>, CopyError> {
        let Dataset { id, name, created_at, .. } = &self.entry.dataset;
        let found = entry(self.to, *id).map_err(CopyError::Write)?;
        let is_other = |found: &CatalogEntry| {
            found.dataset.created_at != *created_at || found.owner != self.entry.owner
        };
        match found {
            Some(found) if is_other(&found) => Err(CopyError::NumberTaken {
                id: *id,
                name: name.clone(),
                other: found.dataset.name,
            }),
            found => Ok(found),
        }
    }

    /// Gives an earlier copy the name, the description, the metadata and the columns that the source has
    /// got since.
    fn update(&self, found: &CatalogEntry) -> Result<(), CopyError> {
        let Dataset { id, name, description, metadata, updated_at, .. } = &self.entry.dataset;
        let make = |change| {
            let changed = block_on(self.to.change(*id, change, *updated_at));
            changed.map(drop).map_err(CopyError::Write)
        };
        let old = &found.dataset;
        if (&old.name, &old.description, &old.metadata) != (name, description, metadata) {
            make(DatasetChange::Description(Change {
                name: Some(name.clone()),
                description: Some(description.clone()),
                metadata: MetadataChange::Replace(metadata.clone()),
            }))?;
        }
        let has = |name: &str| found.columns.iter().any(|column| column.name == name);
        let missing: Vec<(String, Dtype)> = (self.list_columns().map(|(_, column)| column))
            .filter(|column| !has(&column.name))
            .map(|column| (column.name.clone(), column.dtype))
            .collect();
        if missing.is_empty() { Ok(()) } else { make(DatasetChange::NewColumns(missing)) }
    }

    /// The columns that are not deleted, with their places.
    fn list_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.entry.columns.iter().enumerate().filter(|(_, column)| !column.is_deleted())
    }

    /// Copies the buckets of pruned rows, from the last one on that is there.
    fn copy_buckets(&self) -> Result<(), CopyError> {
        let (id, Some(kept_from)) = (self.entry.dataset.id, self.entry.kept_from) else {
            return Ok(());
        };
        let length = Resolution::FiveMinutes.bucket().unwrap_or_default();
        let last = Timestamp::from_micros(kept_from.micros() - STEP_MICROS);
        let mut span = Span { first: Timestamp::MIN, last };
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

    /// Copies the rows after `newest`.
    fn copy_rows(
        &self,
        newest: Option<Timestamp>,
        on_progress: OnProgress<'_>,
    ) -> Result<(), CopyError> {
        let Dataset { id, updated_at, .. } = self.entry.dataset;
        let n_all = count(self.from, id).map_err(CopyError::Read)?;
        let mut n_rows = count(self.to, id).map_err(CopyError::Write)?;
        report(on_progress, CopyProgress::Began { dataset: &self.entry.dataset, n_rows })?;
        let shown: Vec<usize> = self.list_columns().map(|(idx, _)| idx).collect();
        let dtypes: Vec<Dtype> = self.list_columns().map(|(_, column)| column.dtype).collect();
        let mut pending = Block::new(&dtypes);
        let mut done = Ok(());
        let mut put = |rows: Block| {
            n_rows += u64::try_from(rows.len()).unwrap_or(u64::MAX);
            block_on(self.to.copy_rows(id, rows, updated_at)).map_err(CopyError::Write)?;
            report(on_progress, CopyProgress::Rows { n_rows, n_all })
        };
        let first = newest.map_or(Timestamp::MIN, |newest| {
            Timestamp::from_micros(newest.micros().saturating_add(STEP_MICROS))
        });
        let span = Span { first, last: Timestamp::MAX };
        self.from
            .scan(id, Resolution::Raw, span, &mut |batch| {
                if let Rows::Raw(rows) = batch.rows()? {
                    let rows = select(rows, &shown);
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

    /// What the dataset is in one of the stores, after `n_before` rows of the other one were read.
    fn digest(
        &self,
        store: &dyn CopyStore,
        n_before: u64,
        on_progress: OnProgress<'_>,
    ) -> Result<Digest, CopyError> {
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
        let digest = read().map_err(CopyError::Read)?;
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

/// The columns at these places.
fn select(rows: Block, places: &[usize]) -> Block {
    if rows.columns.len() == places.len() {
        return rows;
    }
    let columns = places.iter().filter_map(|idx| rows.columns.get(*idx).cloned()).collect();
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
