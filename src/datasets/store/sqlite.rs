//! The embedded store: one SQLite file, written by one thread, read by a few connections.
//!
//! SQLite keeps transactions and the catalogue; rows are in chunks and a tail (see [`append`]).

mod append;
mod buckets;
mod catalog;
mod chunks;
mod readers;
mod scan;
mod tables;
mod tail;
mod writer;

use std::{fs, path::Path, time::Duration};

use accounts::KeyId;
use futures::future::{BoxFuture, FutureExt as _};
use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};
use rusqlite::Connection;

use self::{buckets::Page, readers::Readers, writer::Writer};
use super::{
    Acquired, Appended, Count, Created, Newest, OnCommit, PageOfRows, PageRead, Store, StoreError,
    Visit,
};
use crate::{
    block::{Block, Rows},
    catalog::{Filter, Grant, Listed, NewDataset, Tag},
    query::{DatasetRef, Order, Span},
};

/// How long to wait for another process that has the file open, such as a backup.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Statements kept ready by each connection: all there are.
const STATEMENTS: usize = 64;

/// Pages after which the log is moved into the file. Enough that a bulk load does not do it all the
/// time, few enough that the log stays below 40 MB.
const CHECKPOINT_PAGES: u32 = 4000;

/// Buckets that a scan hands on in one piece.
const PIECE_BUCKETS: usize = 4096;

/// Numbers that have to fit into SQLite's are cut off here.
const NUMBER_MAX: usize = 1 << 40;

/// The embedded store.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    writer: Writer,
    readers: Readers,
}

impl SqliteStore {
    /// Opens the store at `path`, and creates it and its folder if they are missing. Blocks.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(StoreError::Folder)?;
        }
        let mut connection = Connection::open(path).map_err(opening)?;
        prepare(&connection).map_err(opening)?;
        prepare_to_write(&connection).map_err(opening)?;
        tables::set_up(&mut connection)?;
        let readers = Readers::new(path.to_owned());
        Ok(Self { writer: Writer::start(connection)?, readers })
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Statement(Box::new(error))
    }
}

/// What a failure means while the store is being opened.
fn opening(error: rusqlite::Error) -> StoreError {
    StoreError::Open(Box::new(error))
}

/// Sets what holds for every connection.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Sets what holds for the connection that writes: what it commits is on the disk.
fn prepare_to_write(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
}

impl Store for SqliteStore {
    fn create(
        &self,
        dataset: NewDataset,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Created, StoreError>> {
        self.writer
            .run(move |connection| catalog::create(connection, &dataset, now), |_| {})
            .boxed()
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

    fn add_tag(&self, dataset: DatasetId, tag: String) -> BoxFuture<'_, Result<bool, StoreError>> {
        let work = move |connection: &Connection| catalog::add_tag(connection, dataset, &tag);
        self.writer.run(work, |_| {}).boxed()
    }

    fn acquire(&self, key: KeyId, tag: String) -> BoxFuture<'_, Result<Acquired, StoreError>> {
        let work = move |connection: &Connection| catalog::acquire(connection, key, &tag);
        self.writer.run(work, |_| {}).boxed()
    }

    fn append(
        &self,
        dataset: DatasetId,
        mut rows: Block,
        now: Timestamp,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended, StoreError>> {
        let work = move |connection: &Connection| {
            let appended = append::append(connection, dataset, &mut rows, now)?;
            Ok((appended, rows))
        };
        let on_commit = move |(appended, rows): &(Appended, Block)| on_commit(appended, rows);
        async move { Ok(self.writer.run(work, on_commit).await?.0) }.boxed()
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

    fn dataset(&self, which: &DatasetRef) -> Result<Option<Dataset>, StoreError> {
        self.readers.read(|connection| catalog::dataset(connection, which))
    }

    fn grant(&self, key: KeyId, which: &DatasetRef) -> Result<Option<Grant>, StoreError> {
        self.readers.read(|connection| catalog::grant(connection, key, which))
    }

    fn acquirable(&self, key: KeyId, tag: &str) -> Result<Acquired, StoreError> {
        self.readers.read(|connection| catalog::acquirable(connection, key, tag))
    }

    fn list(
        &self,
        key: KeyId,
        filter: &Filter,
        skip: u64,
        limit: usize,
    ) -> Result<Listed, StoreError> {
        self.readers.read(|connection| catalog::list(connection, key, filter, (skip, limit)))
    }

    fn columns(&self, dataset: DatasetId) -> Result<Vec<Column>, StoreError> {
        self.readers.read(|connection| catalog::columns(connection, dataset))
    }

    fn tags(&self) -> Result<Vec<Tag>, StoreError> {
        self.readers.read(catalog::tags)
    }

    fn dataset_tags(&self, dataset: DatasetId) -> Result<Vec<Tag>, StoreError> {
        self.readers.read(|connection| catalog::dataset_tags(connection, dataset))
    }

    fn newest_moment(&self, dataset: DatasetId) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read(|connection| append::newest(connection, dataset))
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows, StoreError> {
        let PageRead { resolution, span, order, skip, limit, count } = *read;
        self.readers.read(|connection| {
            let is_raw = resolution == Resolution::Raw;
            let count = match (count, is_raw) {
                (Count::Nothing, _) => None,
                (Count::All, true) => Some(scan::count(connection, dataset, span)?),
                (Count::All, false) => Some(buckets::count(connection, dataset, resolution, span)?),
            };
            let rows = if is_raw {
                Rows::Raw(scan::page(connection, dataset, span, order, (skip, limit))?)
            } else {
                let limit = i64::try_from(limit.min(NUMBER_MAX)).unwrap_or(i64::MAX);
                let page = Page { span, order, skip, limit };
                Rows::Buckets(buckets::read(connection, dataset, resolution, &page)?)
            };
            Ok(PageOfRows { count, rows })
        })
    }

    fn newest(&self, dataset: DatasetId, limit: usize) -> Result<Newest, StoreError> {
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        self.readers.read(|connection| {
            let revision = append::revision(connection, dataset)?;
            let mut rows = scan::page(connection, dataset, all, Order::Descending, (0, limit))?;
            rows.reverse();
            Ok(Newest { rows, revision })
        })
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.readers.read(|connection| {
            if resolution == Resolution::Raw {
                return scan::raw(connection, dataset, span, Order::Ascending, visit);
            }
            let mut rest = span;
            loop {
                let limit = i64::try_from(PIECE_BUCKETS).unwrap_or(i64::MAX);
                let page = Page { span: rest, order: Order::Ascending, skip: 0, limit };
                let piece = buckets::read(connection, dataset, resolution, &page)?;
                let is_last = piece.len() < PIECE_BUCKETS;
                if let Some(last) = piece.last() {
                    rest.first = last.timestamp + Duration::from_micros(1);
                }
                if visit(Rows::Buckets(piece)).is_break() || is_last {
                    return Ok(());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
