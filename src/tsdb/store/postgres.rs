//! The shared store: a PostgreSQL database, which several services may serve at once.
//!
//! Rows are in chunks, a tail and buckets as in the embedded store, by the same codec. A write locks
//! the dataset's row of `head` until it commits, so that revisions are in the order of commits
//! whichever service made them, and a row's number counts within its dataset. Statements are for many
//! rows each: a round trip costs as much as a hundred rows.
//!
//! Where the database has standbys, pages are read there once those have what callers of this
//! service have seen. The rest is read on the primary, or on a standby that has all of it while it
//! is lost.
//!
//! The connections live on a small runtime of their own. So reads can block any thread, as the contract
//! has it, and a write goes on when its caller is gone.

mod append;
mod batches;
mod buckets;
mod catalog;
mod chunks;
mod commit;
mod commits;
mod copying;
mod delete;
mod fault;
mod first_page;
mod head;
mod maintenance;
mod pages;
mod scan;
mod search;
mod since;
mod singles;
mod standby_reads;
mod tables;
mod tags;
mod tail;
mod texts;

use std::{future::Future, sync::Arc, time::Duration};

use db::postgres::{
    DatabaseUrl,
    connections::{Connections, ConnectionsOptions, Snapshot},
    fault::timed_out,
};
use futures::future::{BoxFuture, FutureExt as _, ready};
use model::{
    block::{Block, Rows},
    dataset::{Dataset, DatasetId},
    idempotency::IdempotencyKey,
    key::KeyId,
    resolution::Resolution,
    timestamp::Timestamp,
};
use sqlx::PgConnection;
use task::group::Group;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{Mutex, oneshot},
    task::unconstrained,
    time::timeout,
};

use self::{
    append::Known,
    maintenance::Unsettled,
    pages::{StoredSeries, Wanted},
    standby_reads::{SeenCommits, behind},
};
use super::{
    Append, Appended, Commit, Count, Heads, OnCommit, OnRemoval, PageOfRows, PageRead, Result,
    SharedStore, Sight, Since, Store, StoreError, batch::StoredBatch, row_batch::VisitBatch,
    series::SeriesId,
};
use crate::{
    catalog::{DatasetChange, DatasetRef, Filter, Listed, NewDataset, Tag, TagChange, TagFilter},
    span::Span,
};

/// The connections: long readers are bounded on their own, below this number.
const CONNECTIONS: ConnectionsOptions =
    ConnectionsOptions { schema: tables::SCHEMA.name, n_max: 16 };

/// Threads of the runtime: packing chunks is most of what a writer does, and the database the rest.
const THREADS: usize = 2;

/// How long a step of a long read may take, such as reading a chunk. The server ends a statement sooner;
/// this is for one that does not respond at all.
const STEP_WITHIN: Duration = Duration::from_secs(40);

/// A write that changes nothing.
const CHECK: &str = "UPDATE format SET version = version WHERE false";

/// Queues of writers. Those of one dataset are in one, so that they wait for each other here and not in
/// the database, each with a connection.
const QUEUES: usize = 64;

/// The shared store.
#[derive(Debug)]
pub struct PostgresStore {
    connections: Connections,
    queues: Arc<[Mutex<()>]>,
    known: Arc<Known>,
    seen: Arc<SeenCommits>,
    /// The life of the store; see [`ChunkId`](super::row_batch::ChunkId).
    era: i64,
    group: Group,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Opens the store in the database at `url`, and creates its tables if they are missing. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]: the database cannot be reached, or another version of the program made its
    /// tables.
    pub fn open(url: &DatabaseUrl) -> Result<Self> {
        let store = Self::connect(url)?;
        let maintenance = maintenance::run(store.connections.clone());
        store.within(|| store.group.spawn("dataset store", maintenance));
        Ok(store)
    }

    /// Opens the store without its maintenance.
    fn connect(url: &DatabaseUrl) -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("datasets-postgres")
            .enable_all()
            .build()
            .map_err(StoreError::Prepare)?;
        let connections = Connections::new(url, CONNECTIONS, runtime.handle().clone());
        let queues = (0..QUEUES).map(|_| Mutex::default()).collect();
        let group = Group::default();
        let (known, seen) = Default::default();
        let runtime = Some(runtime);
        let mut store = Self { connections, queues, known, seen, era: 0, group, runtime };
        store.era = store.wait(store.connections.write(|c| tables::SCHEMA.open(c).boxed()))?;
        Ok(store)
    }

    /// Runs `work` in the context of the runtime.
    fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        work()
    }

    /// Blocks until `work` is done, on any thread: also on one of a runtime, whose budget for a task is
    /// not to end the wait.
    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.within(|| futures::executor::block_on(unconstrained(work)))
    }

    /// Blocks until one step of a long read is done, or its time is up.
    fn step<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.wait(async {
            timeout(STEP_WITHIN, work).await.unwrap_or_else(|_| Err(timed_out().into()))
        })
    }

    /// Runs `read`, whose statements see one snapshot. Blocks.
    fn read<T>(
        &self,
        read: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Sync,
    ) -> Result<T> {
        self.wait(self.connections.read(Snapshot::Transaction, read))
    }

    /// Runs `read`, which is one statement, on the threads of the runtime: there a connection that has
    /// something to read wakes no other thread, which it does many times for a long answer. Blocks.
    fn fetch<T: Send + 'static>(
        &self,
        read: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let connections = self.connections.clone();
        self.run(async move { connections.read(Snapshot::Statement, read).await })
    }

    /// Runs `work` on the threads of the runtime. Blocks.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let work = async move {
            // The caller may be gone.
            drop(reply.send(work.await));
        };
        self.within(|| self.group.spawn("read", work));
        self.wait(async move { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// Runs `work` in a transaction, behind others of its dataset, and returns its result once that is
    /// durable and `on_commit` was called.
    fn write<T: Send + 'static>(
        &self,
        dataset: Option<DatasetId>,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let connections = self.connections.clone();
        self.in_turn(dataset, async move { connections.write(work).await }, on_commit)
    }

    /// Runs `work`, which writes, behind others of its dataset, and calls `on_commit` with its result.
    fn in_turn<T: Send + 'static>(
        &self,
        dataset: Option<DatasetId>,
        work: impl Future<Output = Result<T>> + Send + 'static,
        on_commit: impl FnOnce(&T) + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        let (reply, answer) = oneshot::channel();
        let queues = Arc::clone(&self.queues);
        let write = async move {
            let place = dataset.map_or(0, |id| id.get().unsigned_abs());
            let queue = usize::try_from(place).unwrap_or(0) % QUEUES;
            let _turn = match (dataset, queues.get(queue)) {
                (Some(_), Some(queue)) => Some(queue.lock().await),
                _ => None,
            };
            let result = work.await;
            if let Ok(done) = &result {
                on_commit(done);
            }
            // The caller may be gone.
            drop(reply.send(result));
        };
        self.within(|| self.group.spawn_to_end("write", write));
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.group.stop();
        // What is under way is undone by the database.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Store for PostgresStore {
    fn create(
        &self,
        datasets: Vec<NewDataset>,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Vec<Dataset>>> {
        self.write(
            None,
            move |c| async move { catalog::create(c, &datasets, now).await }.boxed(),
            self.noting_change(),
        )
    }

    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>> {
        self.write(
            Some(dataset),
            move |c| async move { catalog::change(c, dataset, &change, now).await }.boxed(),
            self.noting_change(),
        )
    }

    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>> {
        self.write(
            None,
            move |c| async move { tags::change(c, &change).await }.boxed(),
            self.noting_change(),
        )
    }

    fn append(
        &self,
        dataset: DatasetId,
        append: Append,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        let (connections, known) = (self.connections.clone(), Arc::clone(&self.known));
        let work = async move { append::append(&connections, &known, dataset, append).await };
        let note = self.noting_commit(dataset);
        let write =
            self.in_turn(Some(dataset), work, move |(appended, rows): &(Appended, Block)| {
                note(appended.revision);
                on_commit(appended, rows);
            });
        async move { Ok(write.await?.0) }.boxed()
    }

    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>> {
        let (connections, key) = (self.connections.clone(), key.clone());
        self.run(async move {
            let find = connections.read_here(Snapshot::LockedStatement, |c| {
                let key = key.clone();
                async move { batches::find(c, writer, &key).await }.boxed()
            });
            find.await
        })
    }

    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>> {
        let write = self.write(
            Some(dataset),
            move |c| append::prune(c, dataset, before, limit_rows).boxed(),
            self.noting_removal(dataset, on_commit),
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn delete_rows(
        &self,
        dataset: DatasetId,
        span: Span,
        now: Timestamp,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>> {
        let write = self.write(
            Some(dataset),
            move |c| delete::rows(c, dataset, span, now).boxed(),
            self.noting_removal(dataset, on_commit),
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>> {
        self.write(
            Some(dataset),
            move |c| delete::dataset(c, dataset).boxed(),
            self.noting_change(),
        )
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        let (reply, answer) = oneshot::channel();
        let connections = self.connections.clone();
        let settle = async move {
            let mut done = maintenance::settle_all(&connections, Unsettled::Any).await;
            if done.is_ok() {
                done = maintenance::trim_all(&connections).await;
            }
            drop(reply.send(done));
        };
        self.within(|| self.group.spawn("settle", settle));
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }

    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>> {
        let which = Arc::new(which.clone());
        let sight = self.fetch(move |c| {
            let which = Arc::clone(&which);
            async move { catalog::sight(c, key, &which).await }.boxed()
        })?;
        if let Some(sight) = &sight {
            self.check_seen(sight.dataset.id, sight.revision)?;
        }
        Ok(sight)
    }

    fn version(&self) -> Option<i64> {
        // To learn of the commits of other services takes a round trip.
        None
    }

    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed> {
        let filter = Arc::new(filter.clone());
        self.read(|c| {
            let filter = Arc::clone(&filter);
            async move { search::list(c, key, &filter, skip, limit).await }.boxed()
        })
    }

    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
        let tag: Arc<str> = tag.into();
        self.fetch(move |c| {
            let tag = Arc::clone(&tag);
            async move { tags::holders(c, owner, &tag).await }.boxed()
        })
    }

    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>> {
        self.fetch(move |c| tags::list(c, filter).boxed())
    }

    fn retained(&self) -> Result<Vec<Dataset>> {
        self.read(|c| catalog::retained(c).boxed())
    }

    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>> {
        self.read(|c| {
            async move {
                catalog::columns(c, dataset).await?;
                pages::newest_within(c, SeriesId::rows(dataset), n_bytes).await
            }
            .boxed()
        })
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let page = self.page_on(&self.connections, dataset, *read)?;
        self.check_seen(dataset, page.revision)?;
        self.note_seen(dataset, page.revision);
        Ok(page)
    }

    fn recent_page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let Some(page) = self.page_of_standby(dataset, *read) else {
            return self.page(dataset, read);
        };
        self.note_seen(dataset, page.revision);
        Ok(page)
    }

    fn require(&self, dataset: DatasetId, seen: u64, head: u64) -> Result<()> {
        if seen > head && self.connections.is_primary_lost() {
            return Err(behind());
        }
        // More than there is was not seen here: the caller may mean another store.
        self.note_seen(dataset, seen.min(head));
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        self.connections.is_read_only()
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        if self.is_read_only() {
            return ready(Err(StoreError::Unreachable("standbys alone can be reached".into())))
                .boxed();
        }
        let connections = self.connections.clone();
        let check = async move { connections.check(CHECK).await };
        self.in_turn(None, check, |()| {})
    }

    #[cfg(any(test, feature = "faults"))]
    fn limit_pages(&self, _: u32) -> BoxFuture<'_, Result<()>> {
        // The disk is the server's.
        ready(Ok(())).boxed()
    }

    fn shared(&self) -> Option<&dyn SharedStore> {
        Some(self)
    }

    fn era(&self) -> i64 {
        self.era
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        let since = self.read(|c| since::read_since(c, dataset, after, limit).boxed())?;
        if let Some(since) = &since {
            self.check_seen(dataset, since.revision)?;
            self.note_seen(dataset, since.revision);
        }
        Ok(since)
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        scan::scan(self, SeriesId { dataset, resolution }, span, visit)
    }
}

impl SharedStore for PostgresStore {
    fn heads(&self, datasets: &[DatasetId]) -> Result<Heads> {
        let ids: Arc<[i64]> = datasets.iter().map(|dataset| dataset.get()).collect();
        let heads = self.fetch(move |c| {
            let ids = Arc::clone(&ids);
            async move { commits::heads(c, &ids).await }.boxed()
        })?;
        for (dataset, revision) in &heads.revisions {
            self.check_seen(*dataset, *revision)?;
        }
        Ok(heads)
    }

    fn commits(&self, dataset: DatasetId, after: u64, limit: usize) -> Result<Vec<Commit>> {
        let commits = self.fetch(move |c| commits::list(c, dataset, after, limit).boxed())?;
        if let Some(last) = commits.last() {
            self.note_seen(dataset, last.revision);
        }
        Ok(commits)
    }
}

/// Reads a page, and counts if that is asked for.
async fn read_page(c: &mut PgConnection, dataset: DatasetId, read: PageRead) -> Result<PageOfRows> {
    let PageRead { resolution, span, order, skip, limit, count } = read;
    let (revision, empty) = catalog::columns(c, dataset).await?;
    let mut wanted = Wanted { span, order, skip, limit };
    let is_counted = count == Count::All;
    let id = SeriesId { dataset, resolution };
    let stored = StoredSeries { id, empty };
    let mut count = None;
    if is_counted || skip > 0 {
        let (n, rest) = match resolution {
            Resolution::Raw => stored.count(c, &wanted).await?,
            _ => pages::count_buckets(c, id, &wanted).await?,
        };
        wanted = rest;
        count = is_counted.then_some(n);
    }
    let rows = match resolution {
        Resolution::Raw => Rows::Raw(stored.read(c, &wanted).await?),
        _ => Rows::Buckets(pages::buckets(c, id, &wanted).await?),
    };
    Ok(PageOfRows { count, rows, revision })
}

#[cfg(test)]
mod tests;
