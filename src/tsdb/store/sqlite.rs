//! The embedded store: one SQLite file, with one thread that writes and a few connections for reads.
//!
//! SQLite stores the catalog and provides the transactions. Rows are stored in chunks and a tail (see
//! `append.rs`).

mod append;
pub(crate) mod backup;
mod bucket_reader;
mod buckets;
mod catalog;
mod chunk_index;
mod chunks;
mod delete;
mod engine;
mod maintenance;
pub(super) mod postings;
mod progress;
mod readers;
mod rebuild_buckets;
mod rows_since;
mod scan;
mod search;
mod singles;
mod tables;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use db::connection::FileError;
use db::fault::{DatabaseFault, FaultKind, WorkError};
use db::files::DatabaseFiles;
use futures::future::{BoxFuture, FutureExt as _};
use model::block::Block;
use model::dataset::{Dataset, DatasetId};
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::Connection;
use task::file::remove_stale;
use task::private;

use self::chunk_index::ChunkIndexCache;
use self::progress::Progress;
use self::readers::Readers;
use self::scan::Scan;
use super::batch::{self, StoredBatch};
use super::datasets;
use super::row_batch::VisitBatch;
use super::row_changes::{self, RowChange};
use super::series::{self, SeriesId};
use super::session::ready;
use super::{
    Append, Appended, Catalog, OnCommit, OnRemoval, PageOfRows, PageRead, Removed, Result,
    RowDeletion, Sight, Since, Store, StoreError,
};
use crate::catalog::{
    DatasetChange, DatasetRef, Filter, Listed, NewDataset, Tag, TagChange, TagFilter,
};
use crate::span::Span;

/// Thread that writes.
type Writer = db::writer::Writer<StoreError>;

/// The embedded store.
#[derive(Debug)]
pub struct SqliteStore {
    /// Dropped before `writer`: the last connection that is closed removes the write-ahead log, which only
    /// a writing connection can.
    readers: Readers,
    writer: Arc<Writer>,
    /// Handle of the maintenance thread. Dropping it stops the thread.
    _maintenance: Sender<()>,
    chunk_indexes: ChunkIndexCache,
    /// Number that makes [`ChunkId`](super::row_batch::ChunkId)s of this store unique.
    era: i64,
}

impl SqliteStore {
    /// Opens the store at `path`. Creates it and its directory if they are missing. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the file cannot be created, another process serves the store, or it has
    /// another format.
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(folder) = path.parent() {
            private::create_folder(folder).map_err(StoreError::failed)?;
        }
        // Removes temporary files of a process that was killed during a backup.
        remove_stale(path);
        let in_use = backup::use_store(path)?;
        let connection = tables::SCHEMA.open(path)?;
        let era = tables::era(&connection)?;
        let files = Arc::new(DatabaseFiles::open(path)?);
        let readers = Readers::open(path.to_owned(), Arc::clone(&files))?;
        let writer = Writer::start(&tables::SCHEMA, connection, Arc::clone(&files), in_use)?;
        let writer = Arc::new(writer);
        let maintenance = maintenance::start(Arc::clone(&writer), files)?;
        let chunk_indexes = ChunkIndexCache::default();
        Ok(Self { readers, writer, _maintenance: maintenance, chunk_indexes, era })
    }

    /// Runs `work` in a transaction. Returns its result once the transaction is durable.
    fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        self.writer.run(work, |_| {}).boxed()
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        DatabaseFault::from(error).into()
    }
}

impl From<DatabaseFault> for StoreError {
    fn from(fault: DatabaseFault) -> Self {
        match fault.kind {
            FaultKind::Full => Self::Full,
            FaultKind::Busy => Self::Locked,
            FaultKind::ReadOnly => Self::ReadOnly,
            FaultKind::Damaged => Self::Corrupt(Box::new(fault)),
            FaultKind::Other => Self::failed(fault),
        }
    }
}

impl From<FileError> for StoreError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Version(error) => Self::Format(error),
            FileError::Full => Self::Full,
            FileError::Replaced => Self::Replaced,
            FileError::Closed => Self::Closed,
            FileError::Commit(fault) => fault.into(),
            FileError::Open { ref source, .. } => match Self::from(source.clone()) {
                Self::Failed(_) | Self::Locked => Self::failed(error),
                known => known,
            },
            error => Self::failed(error),
        }
    }
}

impl WorkError for StoreError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl Catalog for SqliteStore {
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<Dataset>>> {
        self.write(move |c| ready(datasets::create(&mut &*c, &datasets, None, now)))
    }

    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>> {
        self.write(move |connection| {
            let is_empty = Progress::read(connection, dataset)?.state.is_empty();
            ready(datasets::change(&mut &*connection, dataset, change, is_empty, now))
        })
    }

    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| ready(super::tags::change(&mut &*connection, change)))
    }

    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>> {
        self.readers.read(|connection| ready(batch::find(&mut &*connection, writer, key)))
    }

    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        let work =
            move |connection: &Connection| append::prune(connection, dataset, before, limit_rows);
        self.writer.run(work, move |removed| on_commit(removed)).boxed()
    }

    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| delete::dataset(connection, dataset))
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        maintenance::settle(&self.writer).boxed()
    }

    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>> {
        self.readers.read(|c| ready(datasets::sight(&mut &*c, key, which.clone())))
    }

    fn version(&self) -> Option<i64> {
        self.readers.version()
    }

    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed> {
        self.readers.read(|connection| search::list(connection, key, filter, skip, limit))
    }

    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
        self.readers.read(|c| ready(super::tags::holders(&mut &*c, owner, tag.to_owned())))
    }

    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>> {
        self.readers.read(|connection| ready(super::tags::list(&mut &*connection, filter)))
    }

    fn next_dataset(&self, after: Option<DatasetId>) -> Result<Option<DatasetId>> {
        self.readers.read(|connection| ready(datasets::next_dataset(&mut &*connection, after)))
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.readers.read(|connection| ready(super::tags::grants(&mut &*connection)))
    }

    fn last_row(&self, _: DatasetId) -> Result<i64> {
        self.readers.read(progress::last_row)
    }

    fn row_changes(
        &self,
        dataset: DatasetId,
        after: (u64, i64),
        limit: usize,
    ) -> Result<Option<Vec<RowChange>>> {
        let read = |c: &Connection| ready(row_changes::read(&mut &*c, dataset, after, limit));
        self.readers.read(read)
    }

    fn retained(&self) -> Result<Vec<Dataset>> {
        self.readers.read(catalog::retained)
    }

    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>> {
        let series = SeriesId::rows(dataset);
        self.readers.read(|connection| chunks::newest_within(connection, series, n_bytes))
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        self.writer.check().boxed()
    }

    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, n_pages: u32) -> BoxFuture<'_, Result<()>> {
        let sql = format!("PRAGMA max_page_count = {n_pages}");
        self.write(move |connection| Ok(connection.execute_batch(&sql)?))
    }

    fn era(&self) -> i64 {
        self.era
    }
}

impl Store for SqliteStore {
    fn catalog(&self) -> &(dyn Catalog + 'static) {
        self
    }

    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        let Append { mode, mut rows, now, batches, beneath } = append;
        let work = move |connection: &Connection| {
            let beneath = beneath.as_ref();
            let appended = append::append(connection, dataset, &mut rows, mode, now, beneath)?;
            let revision = appended.revision;
            ready(batch::put(&mut &*connection, dataset, &batches, revision))?;
            Ok((appended, rows))
        };
        let on_commit = move |(appended, rows): &(Appended, Block)| on_commit(appended, rows);
        async move { Ok(self.writer.run(work, on_commit).await?.0) }.boxed()
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        deletion: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        let work = move |connection: &Connection| delete::rows(connection, dataset, &deletion);
        self.writer.run(work, move |removed| on_commit(removed)).boxed()
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let series = SeriesId { dataset, resolution: read.resolution };
        self.readers.read(|connection| {
            let revision = progress::revision(connection, dataset)?;
            let (count, rows) = bucket_reader::page(connection, series, read, &self.chunk_indexes)?;
            Ok(PageOfRows { count, rows, revision })
        })
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        self.readers.read(|connection| rows_since::read_since(connection, dataset, after, limit))
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        let series = SeriesId { dataset, resolution };
        self.readers.read(|connection| {
            if resolution != Resolution::Raw {
                let indexes = &self.chunk_indexes;
                return bucket_reader::batches(connection, series, span, indexes, visit);
            }
            let all = Scan::all(series, span, scan::empty(connection, series)?);
            Scan { era: Some(self.era), ..all }.batches(connection, visit)
        })
    }
}

#[cfg(test)]
mod tests;
