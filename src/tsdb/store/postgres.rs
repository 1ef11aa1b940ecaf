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
//! A dataset is on one of several servers, if there are: the first one has the catalog of all, and each
//! the rows of its own.
//!
//! The connections live on a small runtime of their own. So reads can block any thread, as the contract
//! has it, and a write goes on when its caller is gone.

mod append;
mod batches;
mod buckets;
mod catalog;
mod chunks;
pub mod cold;
mod columns_copy;
mod commit;
mod commits;
mod copying;
mod delete;
mod fault;
mod first_page;
mod head;
pub mod look;
mod maintenance;
pub mod moves;
mod pages;
mod place;
mod placement;
mod remote;
mod routing;
mod scan;
mod search;
mod servers;
mod since;
mod singles;
mod standby_reads;
pub mod stores;
mod tables;
mod tags;
mod tail;
mod texts;
mod turns;

use std::{future::Future, sync::Arc, time::Duration};

use db::postgres::{
    DatabaseUrl,
    connections::{Connections, ConnectionsOptions, DONE_WITHIN},
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
    sync::oneshot,
    task::unconstrained,
};

use self::{
    append::Known,
    catalog::Placed,
    cold::{Cold, ColdOptions, Fetched},
    pages::{StoredSeries, Wanted},
    servers::Servers,
    standby_reads::{SeenCommits, behind},
    turns::Turns,
};
use super::{
    Append, Appended, Commit, Count, DatabaseFigures, Heads, OnCommit, OnRemoval, PageOfRows,
    PageRead, Result, SharedStore, Sight, Since, Store, StoreError, batch::StoredBatch,
    objects::Objects, row_batch::VisitBatch, series::SeriesId,
};
use crate::{
    catalog::{DatasetChange, DatasetRef, Filter, Listed, NewDataset, Tag, TagChange, TagFilter},
    span::Span,
};

/// Connections to each server that a service opens at most, but for those to look at it.
pub const CONNECTIONS_MAX: u32 = 24;

/// The connections: those that write, 8 downloads, and a few for pages.
const CONNECTIONS: ConnectionsOptions = ConnectionsOptions {
    schema: tables::SCHEMA.name,
    n_max: CONNECTIONS_MAX,
    n_writers: 12,
    era: None,
};

/// Threads of the runtime: packing chunks is most of what a writer does, and the database the rest.
const THREADS: usize = 2;

/// How long a step of a long read may take, such as reading a chunk. The server ends a statement sooner;
/// this is for one that does not respond at all.
const STEP_WITHIN: Duration = DONE_WITHIN;

/// A write that changes nothing.
const CHECK: &str = "UPDATE format SET version = version WHERE false";

/// The shared store.
#[derive(Debug)]
pub struct PostgresStore {
    servers: Arc<Servers>,
    turns: Arc<Turns>,
    known: Arc<Known>,
    seen: Arc<SeenCommits>,
    /// Where old chunks go; none if they stay.
    cold: Option<Cold>,
    group: Group,
    /// `None` once it is dropped.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Opens the store in the database at `url`, and creates its tables if they are missing. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]: the database cannot be reached, another version of the program made its
    /// tables, or it has no catalog.
    pub fn open(url: &DatabaseUrl) -> Result<Self> {
        Self::open_with(url, None)
    }

    /// Opens the store like [`Self::open`], whose old chunks go to objects.
    ///
    /// # Errors
    /// As for [`Self::open`]. The place of the objects is not tried.
    pub fn open_cold(url: &DatabaseUrl, cold: ColdOptions) -> Result<Self> {
        Self::open_with(url, Some(Cold::new(cold)))
    }

    /// Opens the store like [`Self::open`], whose old chunks are in `objects`, if there are: they are read
    /// there, and none is written or deleted.
    ///
    /// # Errors
    /// As for [`Self::open`]. The place of the objects is not tried.
    pub fn open_beside(url: &DatabaseUrl, objects: Option<Objects>) -> Result<Self> {
        Self::open_with(url, objects.map(Cold::reading))
    }

    /// Opens the store like [`Self::open_beside`] to read it alone, without its maintenance: that is left to
    /// its services, which know where old chunks go.
    ///
    /// # Errors
    /// As for [`Self::open`]. The place of the objects is not tried.
    pub fn open_source(url: &DatabaseUrl, objects: Option<Objects>) -> Result<Self> {
        let mut store = Self::connect(url)?;
        store.cold = objects.map(Cold::reading);
        Ok(store)
    }

    fn open_with(url: &DatabaseUrl, cold: Option<Cold>) -> Result<Self> {
        let mut store = Self::connect(url)?;
        store.cold.clone_from(&cold);
        let maintenance = maintenance::run(Arc::clone(&store.servers), cold);
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
        let group = Group::default();
        let (turns, known, seen) = Default::default();
        let open = connections.write(|c| {
            async move {
                let era = tables::SCHEMA.open(c).await?;
                stores::check_first(c).await?;
                Ok::<_, StoreError>(era)
            }
            .boxed()
        });
        let opened = {
            let _context = runtime.enter();
            futures::executor::block_on(unconstrained(open))
        };
        let era = match opened {
            Ok(era) => era,
            Err(error) => {
                // A runtime waits for its threads where it is dropped.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let servers = Arc::new(Servers::new(connections, era, runtime.handle().clone()));
        let runtime = Some(runtime);
        let store = Self { servers, turns, known, seen, cold: None, group, runtime };
        store.wait(store.servers.refresh())?;
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
        let servers = Arc::clone(&self.servers);
        let create = async move { placement::create(&servers, datasets, now).await };
        self.in_turn(None, create, self.noting_change())
    }

    fn change(
        &self,
        dataset: DatasetId,
        change: DatasetChange,
        now: Timestamp,
    ) -> BoxFuture<'_, Result<Sight>> {
        let servers = Arc::clone(&self.servers);
        let change = async move { columns_copy::change(&servers, dataset, change, now).await };
        self.in_turn(Some(dataset), change, self.noting_change())
    }

    fn change_tag(&self, change: TagChange) -> BoxFuture<'_, Result<bool>> {
        self.write(
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
        let (servers, known) = (Arc::clone(&self.servers), Arc::clone(&self.known));
        let cold = self.cold.clone();
        let work =
            async move { routing::append(&servers, cold.as_ref(), &known, dataset, append).await };
        let note = self.noting_commit(dataset);
        let write =
            self.in_turn(Some(dataset), work, move |(appended, rows): &(Appended, Block)| {
                note(appended.revision);
                on_commit(appended, rows);
            });
        async move { Ok(write.await?.0) }.boxed()
    }

    fn find_batch(&self, writer: KeyId, key: &IdempotencyKey) -> Result<Option<StoredBatch>> {
        let (servers, key) = (Arc::clone(&self.servers), key.clone());
        self.run(async move { remote::find_batch(&servers, writer, &key).await })
    }

    fn prune(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        limit_rows: usize,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>> {
        let write = self.write_at(
            dataset,
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
        let write = self.write_at(
            dataset,
            move |c| delete::rows(c, dataset, span, now).boxed(),
            self.noting_removal(dataset, on_commit),
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn delete(&self, dataset: DatasetId) -> BoxFuture<'_, Result<bool>> {
        let servers = Arc::clone(&self.servers);
        let delete = async move { placement::delete(&servers, dataset).await };
        self.in_turn(Some(dataset), delete, self.noting_change())
    }

    fn settle(&self) -> BoxFuture<'_, Result<()>> {
        let (reply, answer) = oneshot::channel();
        let (servers, cold) = (Arc::clone(&self.servers), self.cold.clone());
        let settle = async move {
            drop(reply.send(maintenance::settle_servers(&servers, cold.as_ref()).await));
        };
        self.within(|| self.group.spawn("settle", settle));
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }.boxed()
    }

    fn sight(&self, key: Option<KeyId>, which: &DatasetRef) -> Result<Option<Sight>> {
        let which = Arc::new(which.clone());
        let first = self.servers.first();
        let found = self.fetch(&first.connections, move |c| {
            let which = Arc::clone(&which);
            async move { catalog::sight(c, key, &which).await }.boxed()
        })?;
        let Some(Placed { mut sight, place }) = found else { return Ok(None) };
        match place {
            None => self.check_seen(first, sight.dataset.id, sight.revision)?,
            Some(place) => self.read_remote_state(sight.dataset.id, place)?.put_in(&mut sight),
        }
        Ok(Some(sight))
    }

    fn version(&self) -> Option<i64> {
        // To learn of the commits of other services takes a round trip.
        None
    }

    fn list(&self, key: KeyId, filter: &Filter, skip: u64, limit: usize) -> Result<Listed> {
        let filter = Arc::new(filter.clone());
        let mut listed = self.read(&self.servers.first().connections, |c| {
            let filter = Arc::clone(&filter);
            async move { search::list(c, key, &filter, skip, limit).await }.boxed()
        })?;
        self.date_changes(&mut listed.datasets)?;
        Ok(listed)
    }

    fn holders(&self, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
        let tag: Arc<str> = tag.into();
        self.fetch(&self.servers.first().connections, move |c| {
            let tag = Arc::clone(&tag);
            async move { tags::holders(c, owner, &tag).await }.boxed()
        })
    }

    fn tags(&self, filter: TagFilter) -> Result<Vec<Tag>> {
        let first = self.servers.first();
        self.fetch(&first.connections, move |c| tags::list(c, filter).boxed())
    }

    fn retained(&self) -> Result<Vec<Dataset>> {
        self.read(&self.servers.first().connections, |c| catalog::retained(c).boxed())
    }

    fn newest_within(&self, dataset: DatasetId, n_bytes: u64) -> Result<Option<Timestamp>> {
        self.read_at(dataset, |server| {
            self.read(&server.connections, |c| {
                async move {
                    catalog::columns(c, dataset).await?;
                    pages::newest_within(c, SeriesId::rows(dataset), n_bytes).await
                }
                .boxed()
            })
        })
    }

    fn page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        self.read_at(dataset, |server| {
            let page = self.page_on(&server.connections, dataset, *read)?;
            self.check_seen(server, dataset, page.revision)?;
            self.note_seen(dataset, page.revision);
            Ok(page)
        })
    }

    fn recent_page(&self, dataset: DatasetId, read: &PageRead) -> Result<PageOfRows> {
        let Some(page) = self.page_of_standby(dataset, *read) else {
            return self.page(dataset, read);
        };
        self.note_seen(dataset, page.revision);
        Ok(page)
    }

    fn require(&self, dataset: DatasetId, seen: u64, head: u64) -> Result<()> {
        if seen > head && self.servers.first().connections.is_primary_lost() {
            return Err(behind());
        }
        // More than there is was not seen here: the caller may mean another store.
        self.note_seen(dataset, seen.min(head));
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        self.servers.first().connections.is_read_only()
    }

    fn check(&self) -> BoxFuture<'_, Result<()>> {
        if self.is_read_only() {
            return ready(Err(StoreError::Unreachable("standbys alone can be reached".into())))
                .boxed();
        }
        let connections = self.servers.first().connections.clone();
        let check = async move { connections.check(CHECK).await };
        self.in_turn(None, check, |()| {})
    }

    fn lost_servers(&self) -> BoxFuture<'_, Vec<String>> {
        let servers = Arc::clone(&self.servers);
        let check = async move { Ok(remote::lost_servers(&servers).await) };
        self.in_turn(None, check, |_| {}).map(Result::unwrap_or_default).boxed()
    }

    fn database(&self) -> Option<DatabaseFigures> {
        Some(self.servers.figures())
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
        self.servers.first().era
    }

    fn since(&self, dataset: DatasetId, after: i64, limit: usize) -> Result<Option<Since>> {
        self.read_at(dataset, |server| {
            let since = self.read_rows(&server.connections, dataset, |c, fetched| {
                async move { since::read_since(c, dataset, after, limit, &fetched).await }.boxed()
            })?;
            if let Some(since) = &since {
                self.check_seen(server, dataset, since.revision)?;
                self.note_seen(dataset, since.revision);
            }
            Ok(since)
        })
    }

    fn scan(
        &self,
        dataset: DatasetId,
        resolution: Resolution,
        span: Span,
        visit: VisitBatch<'_>,
    ) -> Result<()> {
        // Where the dataset is not, no batch is shown.
        self.read_at(dataset, |server| {
            scan::scan(self, server, SeriesId { dataset, resolution }, span, visit)
        })
    }
}

impl SharedStore for PostgresStore {
    fn heads(&self, datasets: &[DatasetId]) -> Result<Heads> {
        let ids: Vec<i64> = datasets.iter().map(|dataset| dataset.get()).collect();
        let servers = Arc::clone(&self.servers);
        let heads = self.run(async move { remote::heads(&servers, ids).await })?;
        for (dataset, revision) in &heads.revisions {
            self.check_seen(&self.servers.route(*dataset), *dataset, *revision)?;
        }
        Ok(heads)
    }

    fn commits(&self, dataset: DatasetId, after: u64, limit: usize) -> Result<Vec<Commit>> {
        let commits = self.read_at(dataset, |server| {
            self.fetch(&server.connections, move |c| {
                commits::list(c, dataset, after, limit).boxed()
            })
        });
        let commits = match commits {
            Err(StoreError::NoDataset { .. }) => Vec::new(),
            commits => commits?,
        };
        if let Some(last) = commits.last() {
            self.note_seen(dataset, last.revision);
        }
        Ok(commits)
    }
}

/// Reads a page, and counts if that is asked for.
async fn read_page(
    c: &mut PgConnection,
    dataset: DatasetId,
    read: PageRead,
    fetched: Fetched,
) -> Result<PageOfRows> {
    let PageRead { resolution, span, order, skip, limit, count } = read;
    let (revision, empty) = catalog::columns(c, dataset).await?;
    let mut wanted = Wanted { span, order, skip, limit };
    let is_counted = count == Count::All;
    let id = SeriesId { dataset, resolution };
    let stored = StoredSeries { id, empty, fetched };
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
