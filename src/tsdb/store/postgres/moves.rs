//! Moving a dataset from one server to another while it is read and written.
//!
//! No transaction is on both servers. A move is a row of `moves` on the first server and these steps, each
//! of which can be done again by another service after one that was lost:
//!
//! 1. *Purge*: what the target has of the dataset, from a time when it was there, is removed.
//! 2. *Copy*: chunks and logs are copied while the source has the dataset.
//! 3. *Fence*: the source's state says that the dataset is on the target. The commit of any writer fails
//!    that read the state before. Writers and readers wait, since the target's state still says that
//!    the dataset is on the source.
//! 4. *Activate*: what has changed since is copied, and in one transaction of the target with the small
//!    tables, once all of it is as on the source, the target's state becomes the dataset's.
//! 5. *Clean*: the first server's state says where the dataset is, and what the source has is removed.
//!    A download that reads it goes on in its snapshot.
//!
//! Row numbers, revisions, creation times and the feed stay the same, so that streams go on by revision.
//!
//! A service that was paused may go on when others have finished its move, and moved the dataset again. So
//! each step tests, in its transaction, what the move began with: its record on the first server, and the
//! `generation` of the dataset's state on the source and on the target, which steps that end raise.
//!
//! A move that is not fenced yet can be cancelled, which `cancel` describes.

pub mod cancel;
mod copy;
pub(super) mod retries;
mod steps;

use std::{fmt, sync::Arc, time::Duration};

use db::postgres::{connections::Snapshot, fault::unsigned};
use futures::{FutureExt as _, future::BoxFuture};
use model::dataset::DatasetId;
use parking_lot::Mutex;
use sqlx::{AssertSqlSafe, PgConnection};
use tokio::time::Instant;
use tracing::info;

use self::cancel::MoveEnd;
use super::{
    PostgresStore, Result, StoreError, catalog, columns_copy, delete,
    servers::{FIRST, Server, Servers},
    stores::{ServersRefusal, remove::lock_stores},
};
use crate::catalog::DatasetRef;

/// How often a service says that it goes on with a move: some times before it is taken for lost.
const TOUCH_EVERY: Duration = Duration::from_secs(10);

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveProgress {
    /// Chunks that are on the target.
    pub n_chunks: u64,
    /// Chunks that the dataset had when it was last looked.
    pub n_all: u64,
}

/// Is called with the progress of a move, on another thread.
pub type OnProgress = Arc<dyn Fn(MoveProgress) + Send + Sync>;

/// The steps that are on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Purge,
    Copy,
    Clean,
    /// It was cancelled: the dataset stays where it is, and what was copied is to be removed.
    Cancel,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Purge => "purge",
            Self::Copy => "copy",
            Self::Clean => "clean",
            Self::Cancel => "cancel",
        })
    }
}

/// A move under way.
#[derive(Debug)]
struct Move {
    /// Its number on record.
    id: i64,
    dataset: DatasetId,
    first: Arc<Server>,
    source: Arc<Server>,
    target: Arc<Server>,
    /// The generation of the source's state behind the fence; `None` where that is removed already.
    fenced: Option<i64>,
    /// The generation of the target's state until it has the dataset; `None` where there is none yet.
    awaited: Option<i64>,
    /// When other services were last told that the move goes on.
    touched_at: Mutex<Instant>,
}

/// Where a server says that a dataset is, `None` for there, and the generation of that.
type Stated = (Option<i64>, i64);

impl Move {
    /// Keeps other services from taking the move for abandoned.
    async fn touch(&self) -> Result<()> {
        if self.touched_at.lock().elapsed() < TOUCH_EVERY {
            return Ok(());
        }
        *self.touched_at.lock() = Instant::now();
        self.record(Step::Copy).await
    }

    /// Finds the move of a dataset that is on record, and how far it is.
    async fn find(servers: &Servers, dataset: DatasetId) -> Result<Option<(Self, String)>> {
        let read = servers.first().connections.read_here(Snapshot::Statement, |c| {
            let found = sqlx::query_as(RECORD).bind(dataset.get());
            async move { Ok::<Option<Record>, StoreError>(found.fetch_optional(c).await?) }.boxed()
        });
        let Some((id, source, target, _)) = read.await? else { return Ok(None) };
        let server = async |place: i64| {
            let unknown = || ServersRefusal::Unknown { name: place.to_string() };
            Ok::<_, StoreError>(servers.find(place).await?.ok_or_else(unknown)?)
        };
        let (source, target) = (server(source).await?, server(target).await?);
        let (fenced, awaited) = (stated(&source, dataset).await?, stated(&target, dataset).await?);
        // What was read is of this move if that is on record still.
        let found = await_record(servers, dataset).await?;
        let step = found.filter(|found| found.0 == id).map(|found| found.3);
        let moved = Self {
            id,
            dataset,
            first: Arc::clone(servers.first()),
            source,
            target,
            fenced: fenced.map(|(place, generation)| generation + i64::from(place.is_none())),
            awaited: awaited.map(|(_, generation)| generation),
            touched_at: Mutex::new(Instant::now()),
        };
        Ok(step.map(|step| (moved, step)))
    }

    /// Locks the state on the target, which does not have the dataset yet: what a service copies that was
    /// taken for lost fails by it.
    async fn lock_target(&self, c: &mut PgConnection) -> Result<()> {
        match lock_stated(c, self.dataset).await? {
            Some((Some(_), generation)) if Some(generation) == self.awaited => Ok(()),
            _ => Err(self.overtaken()),
        }
    }

    /// Another service has finished this move.
    fn overtaken(&self) -> StoreError {
        let generation = self.fenced.unwrap_or_default();
        StoreError::Moved { dataset: self.dataset, place: self.target.place, generation }
    }
}

/// Number, source, target and step of a move on record.
type Record = (i64, i64, i64, String);

/// What is on record of the move of a dataset.
const RECORD: &str = "SELECT id, source, target, step FROM moves WHERE dataset = $1";

/// What is on record of the move of a dataset, after the end of a transaction that marks it as cancelled.
async fn await_record(servers: &Servers, dataset: DatasetId) -> Result<Option<Record>> {
    let read = servers.first().connections.read_here(Snapshot::LockedStatement, |c| {
        let lock = AssertSqlSafe(format!("{RECORD} FOR SHARE"));
        let found = sqlx::query_as(lock).bind(dataset.get());
        async move { Ok::<Option<Record>, StoreError>(found.fetch_optional(c).await?) }.boxed()
    });
    read.await
}

/// Is read alone and with a lock, always by the number of the dataset.
const STATED: &str = "SELECT place, generation FROM head WHERE dataset = $1";

/// What a server says of where a dataset is; `None` if it says nothing.
async fn stated(server: &Server, dataset: DatasetId) -> Result<Option<Stated>> {
    let read = server.connections.read_here(Snapshot::Statement, |c| {
        let found = sqlx::query_as(STATED).bind(dataset.get());
        async move { Ok::<Option<Stated>, StoreError>(found.fetch_optional(c).await?) }.boxed()
    });
    read.await
}

/// The same, which then stays so until the end of the transaction.
async fn lock_stated(c: &mut PgConnection, dataset: DatasetId) -> Result<Option<Stated>> {
    delete::await_packer(c, dataset).await?;
    let lock = AssertSqlSafe(format!("{STATED} FOR UPDATE"));
    Ok(sqlx::query_as(lock).bind(dataset.get()).fetch_optional(c).await?)
}

/// Raises the generation of the state of a dataset, so that what was read of it before is known to be old.
async fn raise(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    let sql = "UPDATE head SET generation = generation + 1 WHERE dataset = $1";
    sqlx::query(sql).bind(dataset.get()).execute(c).await?;
    Ok(())
}

impl PostgresStore {
    /// Moves a dataset to the server called `to`; whether it was on another one. A move that was
    /// interrupted is continued.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if there is no such server, the dataset is being moved to
    /// another one, or the move was cancelled.
    pub fn move_dataset(
        &self,
        dataset: DatasetId,
        to: &str,
        on_progress: OnProgress,
    ) -> BoxFuture<'_, Result<bool>> {
        let (servers, to) = (Arc::clone(&self.servers), to.to_owned());
        let work = async move {
            let target = place_of(servers.first(), &to).await?;
            let Some(source) = begin(&servers, dataset, target).await? else { return Ok(false) };
            let resumed = resume(&servers, dataset, &on_progress).await;
            if matches!(resumed, Ok(true)) {
                return Ok(true);
            }
            match cancel::find_end(&servers, dataset, source).await {
                Ok(Some(MoveEnd::Cancelled)) => Err(ServersRefusal::Cancelled { dataset }.into()),
                Ok(Some(MoveEnd::Done)) => Ok(true),
                Ok(None) | Err(_) => resumed.map(|_| true),
            }
        };
        self.in_turn(None, work, |_| {})
    }

    /// The number of the dataset that the service sees under a number or name: the catalog's, also while
    /// the dataset is on no server, in the last step of a move. `None` if there is none. Blocks.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find_dataset(&self, which: &DatasetRef) -> Result<Option<DatasetId>> {
        let which = Arc::new(which.clone());
        let found = self.fetch(&self.servers.first().connections, move |c| {
            let which = Arc::clone(&which);
            async move { catalog::sight(c, None, &which).await }.boxed()
        });
        Ok(found?.map(|found| found.sight.dataset.id))
    }

    /// The datasets on the server called `name`, in the order of their numbers, with those that are on their
    /// way from it. Blocks.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if there is no server of this name.
    pub fn datasets_on(&self, name: &str) -> Result<Vec<DatasetId>> {
        let (servers, name) = (Arc::clone(&self.servers), name.to_owned());
        self.run(async move {
            let place = place_of(servers.first(), &name).await?;
            let read = servers.first().connections.read_here(Snapshot::Statement, |c| {
                let sql = "SELECT dataset FROM head h WHERE coalesce(place, 0) = $1 OR EXISTS (
                         SELECT FROM moves m WHERE m.dataset = h.dataset AND m.source = $1)
                     ORDER BY dataset";
                let ids = sqlx::query_scalar(sql).bind(place);
                async move { Ok::<Vec<i64>, StoreError>(ids.fetch_all(c).await?) }.boxed()
            });
            read.await?.into_iter().map(catalog::dataset_id).collect()
        })
    }
}

/// The number of the server of a name.
async fn place_of(first: &Server, name: &str) -> Result<i64> {
    let unknown = ServersRefusal::Unknown { name: name.to_owned() };
    let read = first.connections.read_here(Snapshot::Statement, |c| {
        let sql = "SELECT id FROM stores WHERE name = $1";
        let place = sqlx::query_scalar(sql).bind(name.to_owned());
        async move { Ok::<Option<i64>, StoreError>(place.fetch_optional(c).await?) }.boxed()
    });
    Ok(read.await?.ok_or(unknown)?)
}

/// Records a move, unless it is on record; the server that the dataset is moved from, `None` if there is
/// nothing to move.
async fn begin(servers: &Servers, dataset: DatasetId, target: i64) -> Result<Option<i64>> {
    let write = servers.first().connections.write(move |c| {
        async move {
            let source = columns_copy::lock_place(c, dataset).await?;
            let found: Option<Record> =
                sqlx::query_as(RECORD).bind(dataset.get()).fetch_optional(&mut *c).await?;
            match found {
                Some((.., step)) if step == Step::Cancel.to_string() => {
                    return Err(ServersRefusal::Cancelled { dataset }.into());
                }
                Some((_, source, found, _)) if found == target => return Ok(Some(source)),
                Some(_) => return Err(ServersRefusal::Moving { dataset }.into()),
                None if source == target => return Ok(None),
                None => {}
            }
            if lock_stores(c, &[target]).await?.is_some() {
                return Err(ServersRefusal::Unknown { name: target.to_string() }.into());
            }
            let sql = "INSERT INTO moves (dataset, source, target, step, touched_at)
                 VALUES ($1, $2, $3, $4, (extract(epoch FROM now()) * 1000000)::bigint)";
            let insert = sqlx::query(sql).bind(dataset.get()).bind(source).bind(target);
            insert.bind(Step::Purge.to_string()).execute(c).await?;
            Ok(Some(source))
        }
        .boxed()
    });
    write.await
}

/// Finishes a move that is on record, or its cancellation; whether it was moved here.
async fn resume(servers: &Servers, dataset: DatasetId, on_progress: &OnProgress) -> Result<bool> {
    // Another service may have finished it.
    let Some((mut moved, step)) = Move::find(servers, dataset).await? else { return Ok(false) };
    if step == Step::Cancel.to_string() {
        moved.remove_copy().await?;
        return Ok(false);
    }
    if step == Step::Purge.to_string() {
        moved.purge().await?;
        moved.record(Step::Copy).await?;
    }
    if step != Step::Clean.to_string() {
        if !moved.is_active().await? {
            moved.copy(on_progress).await?;
        }
        moved.record(Step::Clean).await?;
    }
    moved.clean().await?;
    servers.note(dataset, moved.target.place);
    info!(
        dataset.id = %dataset,
        "moved dataset {dataset} from the server {} to {}", moved.source.name, moved.target.name
    );
    Ok(true)
}

/// How many datasets are being moved.
pub(super) async fn count(first: &Server) -> Result<u64> {
    let count = first.connections.read_here(Snapshot::Statement, |c| {
        let count = sqlx::query_scalar("SELECT count(*) FROM moves");
        async move { Ok::<i64, StoreError>(count.fetch_one(c).await?) }.boxed()
    });
    Ok(unsigned(count.await?)?)
}

/// The place that the first server has for a dataset of `place`.
fn stored_place(place: i64) -> Option<i64> {
    Some(place).filter(|place| *place != FIRST)
}

#[cfg(test)]
mod tests;
