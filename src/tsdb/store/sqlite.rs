//! The embedded store: one SQLite file, written by one thread, read by a few connections.
//!
//! SQLite keeps transactions and the catalogue; rows are in chunks and a tail (see `append.rs`).

mod append;
pub(crate) mod backup;
mod bucket_reader;
mod buckets;
mod catalog;
mod chunk_index;
mod chunks;
mod compaction;
mod delete;
mod maintenance;
mod postings;
mod readers;
mod rebuild_buckets;
mod rows_since;
mod scan;
mod search;
mod tables;
mod tags;
mod tail;
pub(crate) mod verify;

use std::{fs::File, path::Path, sync::Arc};

use db::{
    connection::OpenError,
    fault::DatabaseFault,
    files::DatabaseFiles,
    space::{self, SpaceWatch},
    writer::{CommitError, WriteError},
};
use futures::future::{BoxFuture, FutureExt as _};
use model::{
    block::{Block, Rows},
    dataset::{Column, Dataset, DatasetId, Dtype},
    key::KeyId,
    resolution::Resolution,
    timestamp::Timestamp,
};
use rusqlite::Connection;
use task::{file::remove_stale, private};

use self::{
    bucket_reader::Page, chunk_index::ChunkIndexCache, chunks::SeriesId, maintenance::Maintenance,
    readers::Readers,
};
use super::{
    Acquired, AppendMode, Appended, ColumnOutcome, Count, Created, DatasetFields, Newest, OnCommit,
    PageOfRows, PageRead, Sight, Since, Store, StoreError, Updated, row_batch::VisitBatch,
};
use crate::{
    catalog::{
        Change, ColumnChange, DatasetRef, Filter, Grant, Listed, NewDataset, Tag, TagChange,
        TagFilter,
    },
    span::{Order, Span},
};

/// The thread that writes.
type Writer = db::writer::Writer<StoreError>;

/// The embedded store.
#[derive(Debug)]
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    maintenance: Maintenance,
    chunk_indexes: ChunkIndexCache,
    /// The life of the store; see [`ChunkId`](super::row_batch::ChunkId).
    era: i64,
    files: Arc<DatabaseFiles>,
    /// Keeps other processes from serving or replacing the file.
    _in_use: File,
}

impl SqliteStore {
    /// Opens the store at `path`, and creates it and its folder if they are missing. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]: the folder or file cannot be made, another process serves the store, or
    /// another version of the program wrote it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(StoreError::Prepare)?;
        }
        // A backup beside the store may have been killed.
        remove_stale(path);
        let in_use = backup::use_store(path)?;
        let connection = tables::SCHEMA.open(path)?;
        let era = tables::era(&connection)?;
        let files = DatabaseFiles::open(path).map_err(StoreError::Prepare)?;
        let files = Arc::new(files);
        let readers = Readers::open(path.to_owned(), Arc::clone(&files))?;
        let space = SpaceWatch::new(path);
        let writer = Writer::start("dataset store", connection, Arc::clone(&files), space)
            .map_err(StoreError::Prepare)?;
        let maintenance = Maintenance::start(writer.clone(), Arc::clone(&files))?;
        let chunk_indexes = ChunkIndexCache::default();
        Ok(Self { writer, readers, maintenance, chunk_indexes, era, files, _in_use: in_use })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseFault::from(error).into()
    }
}

impl From<DatabaseFault> for StoreError {
    fn from(fault: DatabaseFault) -> Self {
        if fault.is_full() {
            Self::Full
        } else if fault.is_read_only() {
            Self::ReadOnly
        } else if fault.is_damaged() {
            Self::Corrupt(Box::new(fault))
        } else {
            Self::Statement(Box::new(fault))
        }
    }
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Version { found, known, .. } => Self::Format { found, known },
            OpenError::Database { name, source } => match Self::from(source.clone()) {
                Self::Statement(_) => Self::Open(OpenError::Database { name, source }),
                known => known,
            },
            error => Self::Open(error),
        }
    }
}

impl From<CommitError> for StoreError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Full => Self::Full,
            CommitError::Replaced => Self::Replaced,
            CommitError::Database(fault) if fault.is_read_only() => Self::ReadOnly,
            CommitError::Database(fault) => Self::Commit { reason: fault.to_string() },
            _ => Self::Closed,
        }
    }
}

impl WriteError for StoreError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl Store for SqliteStore {
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.writer
            .run(move |connection| catalog::create(connection, &datasets, now), |_| {})
            .boxed()
    }

    fn update(
        &self,
        dataset: DatasetId,
        change: Change,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Updated, StoreError>> {
        let work =
            move |connection: &Connection| catalog::update(connection, dataset, &change, now);
        self.writer.run(work, |_| {}).boxed()
    }

    fn change_column(
        &self,
        dataset: DatasetId,
        change: ColumnChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<ColumnOutcome, StoreError>> {
        let work = move |connection: &Connection| {
            let outcome = match &change {
                ColumnChange::Add(name, dtype) => {
                    return catalog::add_column(connection, dataset, name, *dtype, now);
                }
                ColumnChange::Rename { name, new_name } => {
                    catalog::rename_column(connection, dataset, name, new_name)?
                }
                ColumnChange::Delete(name) => catalog::delete_column(connection, dataset, name)?,
            };
            if matches!(outcome, ColumnOutcome::Done(_)) {
                append::touch(connection, dataset, now)?;
            }
            Ok(outcome)
        };
        self.writer.run(work, |_| {}).boxed()
    }

    fn add_columns(
        &self,
        dataset: DatasetId,
        columns: Vec<(String, Dtype)>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let work =
            move |connection: &Connection| catalog::add_columns(connection, dataset, &columns, now);
        self.writer.run(work, |()| {}).boxed()
    }

    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool, StoreError>> {
        let work = move |connection: &Connection| match &change {
            TagChange::Attach(dataset, tag) => tags::add(connection, *dataset, tag),
            TagChange::Detach(dataset, tag) => tags::remove(connection, *dataset, tag),
            TagChange::Give { owner, tag, key } => tags::give(connection, *owner, tag, *key),
            TagChange::Take { owner, tag, key } => tags::take(connection, *owner, tag, *key),
        };
        self.writer.run(work, |_| {}).boxed()
    }

    fn acquire(&self, key: KeyId, tag: String) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        let work = move |connection: &Connection| tags::acquire(connection, key, &tag);
        self.writer.run(work, |_| {}).boxed()
    }

    fn append(
        &self,
        mode: AppendMode,
        dataset: DatasetId,
        mut rows: Block,
        now: Timestamp,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended, StoreError>> {
        let n_bytes = u64::try_from(rows.n_bytes()).unwrap_or(u64::MAX);
        let work = move |connection: &Connection| {
            let appended = match mode {
                AppendMode::Replace => append::append(connection, dataset, &mut rows, now)?,
                AppendMode::Merge => append::merge(connection, dataset, &mut rows, now)?,
            };
            Ok((appended, rows))
        };
        let on_commit = move |(appended, rows): &(Appended, Block)| on_commit(appended, rows);
        async move { Ok(self.writer.run_sized(n_bytes, work, on_commit).await?.0) }.boxed()
    }

    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        let work =
            move |connection: &Connection| append::prune(connection, dataset, before, limit_rows);
        self.writer.run(work, |_| {}).boxed()
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        span: Span,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        let work = move |connection: &Connection| delete::rows(connection, dataset, span, now);
        self.writer.run(work, |_| {}).boxed()
    }

    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool, StoreError>> {
        let work = move |connection: &Connection| delete::dataset(connection, dataset);
        async move {
            let deleted = self.writer.run(work, |_| {}).await;
            self.maintenance.wake();
            deleted
        }
        .boxed()
    }

    fn settle(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let step = |connection: &Connection| {
            Ok(delete::step(connection)?
                || compaction::step(connection, 0)?
                || compaction::shrink(connection)?)
        };
        async move {
            while self.writer.run(step, |_| {}).await? {}
            Ok(())
        }
        .boxed()
    }

    fn dataset(&self, which: &DatasetRef) -> Result<Option<Dataset>, StoreError> {
        self.readers.read(|connection| catalog::dataset(connection, which))
    }

    fn owned(&self, owner: Option<KeyId>, name: &str) -> Result<Option<DatasetId>, StoreError> {
        self.readers.read(|connection| catalog::owned(connection, owner, name))
    }

    fn grant(&self, key: KeyId, which: &DatasetRef) -> Result<Option<Grant>, StoreError> {
        self.readers.read(|connection| catalog::grant(connection, key, which))
    }

    fn sight(&self, key: KeyId, which: &DatasetRef) -> Result<Option<Sight>, StoreError> {
        self.readers.read(|connection| {
            let Some(grant) = catalog::grant(connection, key, which)? else { return Ok(None) };
            let columns = catalog::columns(connection, grant.dataset)?;
            let progress = append::progress(connection, grant.dataset)?;
            let (revision, newest) = (progress.revision, progress.newest);
            Ok(Some(Sight { grant, columns, revision, newest }))
        })
    }

    fn version(&self) -> Option<i64> {
        self.readers.version()
    }

    fn acquirable(&self, key: KeyId, tag: &str) -> Result<Acquired, StoreError> {
        self.readers.read(|connection| tags::acquirable(connection, key, tag))
    }

    fn list(
        &self,
        key: KeyId,
        filter: &Filter,
        skip: u64,
        limit: usize,
    ) -> Result<Listed, StoreError> {
        self.readers.read(|connection| search::list(connection, key, filter, skip, limit))
    }

    fn columns(&self, dataset: DatasetId) -> Result<Vec<Column>, StoreError> {
        self.readers.read(|connection| catalog::columns(connection, dataset))
    }

    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>, StoreError> {
        self.readers.read(|connection| tags::holders(connection, owner, tag))
    }

    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>, StoreError> {
        self.readers.read(|connection| match filter {
            TagFilter::All => tags::all(connection),
            TagFilter::KnownTo(key) => tags::list_known(connection, key),
            TagFilter::OfDataset(dataset) => tags::of_dataset(connection, dataset),
        })
    }

    fn retentions(&self) -> Result<Vec<DatasetFields>, StoreError> {
        self.readers.read(catalog::retentions)
    }

    fn newest_within(
        &self,
        dataset: DatasetId,
        n_bytes: u64,
    ) -> Result<Option<Timestamp>, StoreError> {
        let series = SeriesId::rows(dataset);
        self.readers.read(|connection| chunks::newest_within(connection, series, n_bytes))
    }

    fn newest_change(&self) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read(catalog::newest_change)
    }

    fn newest_timestamp(&self, dataset: DatasetId) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read(|connection| append::newest_known(connection, dataset))
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows, StoreError> {
        let PageRead { resolution, span, order, skip, limit, count } = *read;
        self.readers.read(|connection| {
            let revision = append::revision(connection, dataset)?;
            let is_counted = count == Count::All;
            if resolution != Resolution::Raw {
                let n = if is_counted {
                    Some(bucket_reader::count(
                        connection,
                        dataset,
                        resolution,
                        span,
                        &self.chunk_indexes,
                    )?)
                } else {
                    None
                };
                let skip = usize::try_from(skip).unwrap_or(usize::MAX);
                let page = Page { span, order, skip, limit };
                let rows = bucket_reader::read(connection, dataset, resolution, &page)?;
                return Ok(PageOfRows { count: n, rows: Rows::Buckets(rows), revision });
            }
            if !is_counted && skip == 0 {
                let rows = scan::page(connection, dataset, span, order, skip, limit)?;
                return Ok(PageOfRows { count: None, rows: Rows::Raw(rows), revision });
            }
            let chunk_index = self.chunk_indexes.read(connection, SeriesId::rows(dataset))?;
            let (n, rows) = scan::counted_page(connection, dataset, read, &chunk_index)?;
            let count = is_counted.then_some(n);
            Ok(PageOfRows { count, rows: Rows::Raw(rows), revision })
        })
    }

    fn newest(&self, dataset: DatasetId, limit: usize) -> Result<Newest, StoreError> {
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        self.readers.read(|connection| {
            let revision = append::revision(connection, dataset)?;
            let mut rows = scan::page(connection, dataset, all, Order::Descending, 0, limit)?;
            rows.reverse();
            Ok(Newest { rows, revision })
        })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            if !self.files.check() {
                return Err(StoreError::Replaced);
            }
            if self.writer.space().is_full() {
                let n_bytes = self.writer.space().next_trial().ok_or(StoreError::Full)?;
                let sql = space::write_trial_sql(n_bytes);
                let write = move |connection: &Connection| Ok(connection.execute_batch(&sql)?);
                self.writer.run_sized(n_bytes, write, |()| {}).await?;
                let drop_trial =
                    |connection: &Connection| Ok(connection.execute_batch(space::DROP_TRIAL_SQL)?);
                self.writer.run(drop_trial, |()| {}).await?;
            }
            Ok(())
        }
        .boxed()
    }

    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, n_pages: u32) -> BoxFuture<'_, Result<(), StoreError>> {
        let sql = format!("PRAGMA max_page_count = {n_pages}");
        let work = move |connection: &Connection| Ok(connection.execute_batch(&sql)?);
        self.writer.run(work, |()| {}).boxed()
    }

    fn era(&self) -> i64 {
        self.era
    }

    fn since(
        &self,
        dataset: DatasetId,
        after: i64,
        limit: usize,
    ) -> Result<Option<Since>, StoreError> {
        self.readers.read(|connection| rows_since::read_since(connection, dataset, after, limit))
    }

    fn revision(&self, dataset: DatasetId) -> Result<u64, StoreError> {
        self.readers.read(|connection| append::revision(connection, dataset))
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<(), StoreError> {
        self.readers.read(|connection| match resolution {
            Resolution::Raw => scan::batches(connection, dataset, span, self.era, visit),
            _ => bucket_reader::batches(connection, dataset, resolution, span, visit),
        })
    }
}

#[cfg(test)]
mod tests;
