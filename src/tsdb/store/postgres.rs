//! The shared store: a PostgreSQL database, which several services can use at the same time.
//!
//! Rows, buckets and the catalog are in plain tables (see `tables.rs`), which any tool for PostgreSQL
//! can read. A write locks the dataset's record in the table `datasets` until it commits, so that the
//! revisions of all services are in the order of their commits. This program computes changed buckets
//! from the new rows and the few stored buckets or rows next to them, and commits them with the rows.
//!
//! The connections use a separate small runtime. Therefore a read can block any thread, and a write
//! continues if its caller is cancelled.

mod append;
pub(super) mod binary;
mod buckets;
mod catalog;
mod engine;
mod head;
pub mod look;
mod maintenance;
mod reads;
mod tables;
mod writes;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use db::postgres::DatabaseUrl;
use db::postgres::connections::{Connections, ConnectionsOptions, Figures, Snapshot};
use db::postgres::fault::{Fault, PostgresError, has_code};
use db::postgres::schema::SchemaError;
use futures::future::{BoxFuture, FutureExt as _, ready};
use model::block::Block;
use model::dataset::{Dataset, DatasetId};
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use sqlx::PgConnection;
use task::group::Group;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex as Queue, oneshot};
use tokio::task::unconstrained;

use self::head::Head;
use self::reads::STATEMENT_ROWS;
use self::tables::SCHEMA;
use self::writes::{Hints, Writes};
use super::batch::{self, StoredBatch};
use super::datasets;
use super::row_batch::{RowBatch, VisitBatch};
use super::row_changes::{self, RowChange};
use super::session::{Row, Session as _};
use super::{
    Append, Appended, Catalog, Commit, Count, Heads, OnCommit, OnRemoval, PageOfRows, PageRead,
    Removed, Result, RowDeletion, Sight, Since, Store, StoreError, records, tags, time,
};
use crate::catalog::{
    DatasetChange, DatasetRef, Filter, Listed, NewDataset, Tag, TagChange, TagFilter,
};
use crate::span::{Order, Span, just_after};

/// Maximum number of connections of a service, including the connection that receives hints.
pub const CONNECTIONS_MAX: u32 = 24;

/// Settings of the connections. Connections that are not reserved for writes serve pages and downloads.
const CONNECTIONS: ConnectionsOptions = ConnectionsOptions {
    schema: SCHEMA,
    is_read_only: false,
    n_max: CONNECTIONS_MAX,
    n_writers: 12,
};

/// Threads of the runtime. Of the work of a write, these threads only fold and encode rows. The database
/// does the rest.
const THREADS: usize = 2;

/// The shared store.
#[derive(Debug)]
pub struct PostgresStore {
    writes: Writes,
    era: i64,
    is_read_only: bool,
    /// True if the rows of this store are merged with archived rows. Otherwise, datasets with archived
    /// rows are not read, since another service may have archived them after this store was opened.
    has_archive: AtomicBool,
    group: Group,
    /// `None` only while the store is dropped.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Opens the store in the database at `url` and creates missing tables. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be reached, or its tables have another format.
    pub fn open(url: &DatabaseUrl) -> Result<Self> {
        let store = Self::connect(url, false)?;
        let Writes { connections, hints, .. } = store.writes.clone();
        let (listener, receiver) = (connections.clone(), Arc::clone(&hints));
        store.within(|| {
            store.group.spawn("dataset store", maintenance::run(connections.clone()));
            store.group.spawn("send hints", async move { hints.send(&connections).await });
            // A pooler would share a listening connection with other clients.
            if !listener.is_pooled() {
                let receive = async move { receiver.receive(&listener).await };
                store.group.spawn("receive hints", receive);
            }
        });
        Ok(store)
    }

    /// Opens the store in a read-only database, such as a standby. Writes fail with
    /// [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// The same as for [`Self::open`], or the database has no tables.
    pub fn open_read_only(url: &DatabaseUrl) -> Result<Self> {
        Self::connect(url, true)
    }

    fn connect(url: &DatabaseUrl, is_read_only: bool) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("datasets-postgres")
            .enable_all()
            .build()
            .map_err(StoreError::failed)?;
        let connections = {
            let _context = runtime.enter();
            Connections::new(url, ConnectionsOptions { is_read_only, ..CONNECTIONS })
        };
        let hints = Arc::new(Hints::new());
        let queues = Arc::new([(); 1024].map(|()| Queue::default()));
        let mut store = Self {
            writes: Writes { connections, queues, hints },
            era: 0,
            is_read_only,
            has_archive: AtomicBool::new(false),
            group: Group::default(),
            runtime: Some(runtime),
        };
        store.era = store.wait(store.writes.connections.open_tables())?;
        Ok(store)
    }

    /// Returns true if datasets with archived rows must not be read.
    fn lacks_archive(&self) -> bool {
        !self.has_archive.load(Ordering::Relaxed)
    }

    /// Replaces the error of a write to archived rows if repeating the write cannot succeed.
    fn explain(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::ArchiveChanged { .. } if self.lacks_archive() => StoreError::NoArchive,
            error => error,
        }
    }

    /// Calls `work` in the context of the runtime, so that it can spawn tasks and use connections.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        work()
    }

    /// Blocks until `work` is done. Can be called on any thread. `unconstrained` prevents the
    /// cooperative budget of a tokio task from interrupting the wait.
    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.within(|| futures::executor::block_on(unconstrained(work)))
    }

    /// Runs `work`, which executes a single statement. Blocks.
    fn read<T: Send>(
        &self,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Sync,
    ) -> Result<T> {
        self.wait(self.writes.connections.read(Snapshot::Statement, work))
    }

    /// Runs `work`, the statements of which see one snapshot. Blocks.
    fn read_snapshot<T: Send>(
        &self,
        work: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Sync,
    ) -> Result<T> {
        self.wait(self.writes.connections.read(Snapshot::Transaction, work))
    }

    /// Runs `work` in a transaction, after the earlier writes of its dataset.
    fn write<T: Send + 'static>(
        &self,
        dataset: Option<DatasetId>,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        self.write_and_report(dataset, work, |_| {})
    }

    /// Runs `work` like [`Self::write`] and calls `on_commit` with its result.
    fn write_and_report<T: Send + 'static>(
        &self,
        dataset: Option<DatasetId>,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        if self.is_read_only {
            return ready(Err(StoreError::ReadOnly)).boxed();
        }
        let writes = self.writes.clone();
        self.run(async move { writes.write(dataset, work, on_commit).await })
    }

    /// Runs `work` in a task on the runtime of the store, even if the caller is cancelled.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let (reply, result) = oneshot::channel();
        // `send` fails only if the caller was cancelled.
        let write = async move { drop(reply.send(work.await)) };
        self.within(|| self.group.spawn_to_end("write", write));
        async move { result.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.group.stop();
        // The database rolls back the transactions that this aborts.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Catalog for PostgresStore {
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<Dataset>>> {
        self.write(None, move |c| {
            async move { datasets::create(c, &datasets, None, now).await }.boxed()
        })
    }

    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>> {
        self.write(Some(dataset), move |c| {
            async move {
                // The lock prevents other writers from adding rows to an empty dataset meanwhile.
                let is_empty = Head::lock(c, dataset).await?.state.is_empty();
                datasets::change(c, dataset, change, is_empty, now).await
            }
            .boxed()
        })
    }

    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>> {
        self.write(None, move |c| tags::change(c, change).boxed())
    }

    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>> {
        if self.is_read_only {
            return Err(StoreError::ReadOnly);
        }
        let key = key.clone();
        self.wait(
            self.writes
                .connections
                .write(move |c| async move { batch::find(c, writer, &key).await }.boxed()),
        )
    }

    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        self.write_and_report(
            Some(dataset),
            move |c| append::prune(c, dataset, before, limit_rows).boxed(),
            move |removed| on_commit(removed),
        )
    }

    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>> {
        self.write(Some(dataset), move |c| maintenance::doom(c, dataset).boxed())
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        let connections = self.writes.connections.clone();
        self.run(async move { maintenance::settle(&connections).await })
    }

    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>> {
        let which = which.clone();
        self.read(move |c| datasets::sight(c, key, which.clone()).boxed())
    }

    fn version(&self) -> Option<i64> {
        // Detecting commits of other services would need a round trip to the database, which would
        // block.
        None
    }

    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed> {
        let filter = filter.clone();
        self.read_snapshot(move |c| catalog::list(c, key, filter.clone(), skip, limit).boxed())
    }

    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
        let tag = tag.to_owned();
        self.read(move |c| tags::holders(c, owner, tag.clone()).boxed())
    }

    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>> {
        self.read(move |c| tags::list(c, filter).boxed())
    }

    fn next_dataset(&self, after: Option<DatasetId>) -> Result<Option<DatasetId>> {
        self.read(move |c| datasets::next_dataset(c, after).boxed())
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.read(|c| tags::grants(c).boxed())
    }

    fn last_row(&self, dataset: DatasetId) -> Result<i64> {
        let sql = "SELECT last_row FROM datasets.datasets WHERE id = ?1";
        let read = |row: &Row<'_>| row.get(0);
        let found =
            self.read(move |c| async move { c.all(sql, &[&dataset.get()], read).await }.boxed());
        found?.pop().ok_or(StoreError::NoDataset { dataset })
    }

    fn row_changes(
        &self,
        dataset: DatasetId,
        after: (u64, i64),
        limit: usize,
    ) -> Result<Option<Vec<RowChange>>> {
        self.read_snapshot(move |c| row_changes::read(c, dataset, after, limit).boxed())
    }

    fn retained(&self) -> Result<Vec<Dataset>> {
        self.read_snapshot(|c| catalog::retained(c).boxed())
    }

    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>> {
        self.read_snapshot(move |c| reads::newest_within(c, dataset, n_bytes).boxed())
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        let connections = self.writes.connections.clone();
        let lacks_archive = self.lacks_archive();
        self.run(async move {
            connections.check::<StoreError>().await?;
            if lacks_archive {
                let key: Result<Option<String>> = connections
                    .read(Snapshot::Statement, |c| records::key_in_effect(c).boxed())
                    .await;
                if key?.is_some() {
                    return Err(StoreError::NoArchive);
                }
            }
            Ok(())
        })
    }

    fn database(&self) -> Option<Figures> {
        Some(self.writes.connections.figures())
    }

    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, _: u32) -> BoxFuture<'_, Result<()>> {
        // The disk belongs to the database server and cannot be checked from here.
        ready(Ok(())).boxed()
    }

    fn shared(&self) -> Option<&Self> {
        Some(self)
    }

    fn era(&self) -> i64 {
        self.era
    }
}

impl Store for PostgresStore {
    fn catalog(&self) -> &(dyn Catalog + 'static) {
        self
    }

    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        let write = self.write_and_report(
            Some(dataset),
            move |c| append::append(c, dataset, append).boxed(),
            move |(appended, rows): &(Appended, Block)| on_commit(appended, rows),
        );
        async move { Ok(write.await.map_err(|error| self.explain(error))?.0) }.boxed()
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        mut deletion: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<Removed>> {
        if self.is_read_only {
            return ready(Err(StoreError::ReadOnly)).boxed();
        }
        let writes = self.writes.clone();
        let delete = self.run(async move {
            let mut n_rows = 0_u64;
            loop {
                let part = deletion.clone();
                let delete = writes.write(
                    Some(dataset),
                    move |c| append::delete_rows(c, dataset, part).boxed(),
                    |(removed, _): &(Removed, _)| on_commit(removed),
                );
                let (removed, rest) = delete.await?;
                n_rows = n_rows.saturating_add(removed.n_rows);
                let Some(first) = rest else { return Ok(Removed { n_rows, ..removed }) };
                deletion.span.first = first;
            }
        });
        async move { delete.await.map_err(|error| self.explain(error)) }.boxed()
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let read = *read;
        let is_long = read.resolution == Resolution::Raw && read.limit > STATEMENT_ROWS;
        let snapshot = if is_long { Snapshot::Transaction } else { Snapshot::Statement };
        let is_all = self.lacks_archive();
        self.wait(
            self.writes
                .connections
                .read(snapshot, move |c| reads::page(c, dataset, read, is_all).boxed()),
        )
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        let is_all = self.lacks_archive();
        self.read_snapshot(move |c| reads::since(c, dataset, after, limit, is_all).boxed())
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        mut span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        // Ends the scan at the current latest row, since rows added meanwhile could make it endless.
        if resolution == Resolution::Raw {
            let newest = self.find(dataset)?.newest;
            span.last = span.last.min(newest.unwrap_or(Timestamp::MIN));
        }
        let order = Order::Ascending;
        let (skip, limit, count) = (0, STATEMENT_ROWS, Count::Nothing);
        while span.first <= span.last {
            let read = PageRead { resolution, span, order, skip, limit, count };
            let PageOfRows { rows, .. } = self.page(dataset, &read)?;
            let n_rows = rows.len();
            let Some(last) = n_rows.checked_sub(1).and_then(|idx| rows.timestamp(idx)) else {
                break;
            };
            if visit(RowBatch::of_rows(rows))?.is_break() || n_rows < limit || last >= span.last {
                break;
            }
            span.first = just_after(last);
        }
        Ok(())
    }
}

/// Commits of other services that write to the same store.
///
/// # Errors
/// Every operation fails with [`StoreError`] if the database does.
#[expect(clippy::missing_errors_doc, reason = "the docs above say it once")]
impl PostgresStore {
    /// Returns the latest revisions of `datasets`, skipping missing datasets.
    pub fn heads(&self, datasets: &[DatasetId]) -> Result<Heads> {
        let ids: Arc<[i64]> = datasets.iter().map(|dataset| dataset.get()).collect();
        self.read(move |c| head::list_heads(c, Arc::clone(&ids)).boxed())
    }

    /// Returns the commits of a dataset with revisions above `after`, in order and at most `limit`. The
    /// records of commits are removed after a day. If the commit that follows `after` is no longer
    /// recorded, the first returned commit has a higher revision than `after` + 1.
    pub fn commits(&self, dataset: DatasetId, after: u64, limit: usize) -> Result<Vec<Commit>> {
        self.read(move |c| head::list_commits(c, dataset, after, limit).boxed())
    }

    /// Waits for a hint that another service has committed something, possibly before the call. Hints
    /// can get lost. Supports one caller at a time. Cancel-safe.
    pub async fn hinted(&self) {
        self.writes.hints.received().await;
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(SchemaError::Version(error)) = SchemaError::of(&error) {
            return Self::Format(error.clone());
        }
        // The database in the address does not exist.
        if has_code(&error, "3D000") {
            return Self::Unreachable(Box::new(PostgresError::from(error)));
        }
        match Fault::from(&error) {
            Fault::Unreachable => Self::Unreachable(Box::new(PostgresError::from(error))),
            Fault::Full => Self::Full,
            Fault::Statement => Self::failed(PostgresError::from(error)),
        }
    }
}

#[cfg(test)]
mod tests;
