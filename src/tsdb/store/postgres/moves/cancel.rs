//! Cancelling a move that is not fenced yet, whether or not a service is at work on it:
//!
//! 1. *Mark*: in one transaction with the record, the `generation` of the source's state is raised. From
//!    then on nobody who found the move before can fence it, and who finds it later sees the mark.
//! 2. *Remove*: what the target has of the dataset goes, and then the record. Steps that write where the
//!    target has no state yet that would stop them take turns on the target and look for the mark.
//!
//! A cancellation that was interrupted in between is finished like a move, by any service.

use std::sync::Arc;

use db::postgres::connections::Snapshot;
use futures::{FutureExt as _, future::BoxFuture};
use model::dataset::DatasetId;
use sqlx::{AssertSqlSafe, PgConnection};
use tracing::info;

use super::{
    super::{
        PostgresStore, Result, StoreError, columns_copy, delete,
        servers::{FIRST, Servers},
        stores::ServersRefusal,
    },
    Move, OnProgress, RECORD, Record, Step, await_record, lock_stated, raise, resume,
};

/// Takes the turn of those that begin or cancel moves of a dataset to this server until the transaction
/// ends: any number will do, and this one is the letters `move`.
const TAKE_TURN: &str = "SELECT pg_advisory_xact_lock(1836021349, hashint8($1))";

/// A move that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelledMove {
    /// Nothing of it is left.
    Removed,
    /// A server cannot be reached: what was copied is removed by a service once it can be.
    Removing,
}

impl PostgresStore {
    /// Cancels the move of a dataset, which stays where it is: its readers and writers are not affected.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Servers`] if it is not being moved, or is in the last step.
    pub fn cancel_move(&self, dataset: DatasetId) -> BoxFuture<'_, Result<CancelledMove>> {
        let servers = Arc::clone(&self.servers);
        let work = async move {
            mark(&servers, dataset).await?;
            match resume(&servers, dataset, &(Arc::new(|_| {}) as OnProgress)).await {
                // Or another service has removed it.
                Ok(_) | Err(StoreError::Moved { .. }) => Ok(CancelledMove::Removed),
                Err(error) if error.is_server_lost() => Ok(CancelledMove::Removing),
                Err(error) => Err(error),
            }
        };
        self.in_turn(None, work, |_| {})
    }
}

/// Marks a move as cancelled, unless it is fenced.
pub(super) async fn mark(servers: &Servers, dataset: DatasetId) -> Result<()> {
    let mut transaction = servers.first().connections.begin_write().await?;
    let marked = mark_locked(&mut transaction, servers, dataset).await;
    transaction.finish(marked).await
}

async fn mark_locked(c: &mut PgConnection, servers: &Servers, dataset: DatasetId) -> Result<()> {
    delete::await_packer(c, dataset).await?;
    columns_copy::lock_place(c, dataset).await?;
    let lock = AssertSqlSafe(format!("{RECORD} FOR UPDATE"));
    let found = sqlx::query_as(lock).bind(dataset.get()).fetch_optional(&mut *c).await?;
    let (id, source, _, step): Record = found.ok_or(ServersRefusal::NotMoving { dataset })?;
    if step == Step::Cancel.to_string() {
        return Ok(());
    }
    if source == FIRST {
        raise_unfenced(c, dataset).await?;
    } else {
        let unknown = || ServersRefusal::Unknown { name: source.to_string() };
        let source = servers.find(source).await?.ok_or_else(unknown)?;
        source.connections.write(move |c| raise_unfenced(c, dataset).boxed()).await?;
    }
    let sql =
        "UPDATE moves SET step = $2, touched_at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = $1";
    sqlx::query(sql).bind(id).bind(Step::Cancel.to_string()).execute(c).await?;
    Ok(())
}

/// Raises the generation of the state of a dataset that is here, and not fenced.
async fn raise_unfenced(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    match lock_stated(c, dataset).await? {
        Some((None, _)) => raise(c, dataset).await,
        _ => Err(ServersRefusal::Fenced { dataset }.into()),
    }
}

/// How others ended a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveEnd {
    /// The dataset is not where it was moved from: it may have been moved on since.
    Done,
    Cancelled,
}

/// How others ended the move of a dataset from `source`; `None` while it is on record, and if there is no
/// such dataset.
pub(super) async fn find_end(
    servers: &Servers,
    dataset: DatasetId,
    source: i64,
) -> Result<Option<MoveEnd>> {
    match await_record(servers, dataset).await? {
        Some((.., step)) if step == Step::Cancel.to_string() => {
            return Ok(Some(MoveEnd::Cancelled));
        }
        Some(_) => return Ok(None),
        None => {}
    }
    let read = servers.first().connections.read_here(Snapshot::Statement, |c| {
        let sql = "SELECT coalesce(place, 0) FROM head WHERE dataset = $1";
        let place = sqlx::query_scalar(sql).bind(dataset.get());
        async move { Ok::<Option<i64>, StoreError>(place.fetch_optional(c).await?) }.boxed()
    });
    let end = |place| if place == source { MoveEnd::Cancelled } else { MoveEnd::Done };
    Ok(read.await?.map(end))
}

impl Move {
    /// Runs `work` in a transaction of the target if the move is on record at `step`, one of a dataset at a
    /// time: what it does is there for all that find another step on record.
    pub(super) async fn write_target(
        &self,
        step: Step,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<()>> + Send,
    ) -> Result<()> {
        let mut transaction = self.target.connections.begin_write().await?;
        let done = async {
            let turn = sqlx::query(TAKE_TURN).bind(self.dataset.get());
            turn.execute(&mut *transaction).await?;
            let id = self.id;
            let read = self.first.connections.read_here(Snapshot::Statement, |c| {
                let sql = "SELECT EXISTS (SELECT FROM moves WHERE id = $1 AND step = $2)";
                let is_recorded = sqlx::query_scalar(sql).bind(id).bind(step.to_string());
                async move { Ok::<bool, StoreError>(is_recorded.fetch_one(c).await?) }.boxed()
            });
            if !read.await? {
                return Err(self.overtaken());
            }
            work(&mut transaction).await
        };
        let done = done.await;
        transaction.finish(done).await
    }

    /// Removes what the target has of the dataset whose move was cancelled, and the record of it.
    pub(super) async fn remove_copy(&self) -> Result<()> {
        let (dataset, is_further) = (self.dataset, self.target.place != FIRST);
        let removed = self.write_target(Step::Cancel, move |c| {
            async move {
                match lock_stated(c, dataset).await? {
                    // It was left by a creation, and never is what was copied.
                    Some((None, _)) => return Ok(()),
                    Some(_) if is_further => drop(delete::dataset(c, dataset).await?),
                    Some(_) => raise(c, dataset).await?,
                    None => {}
                }
                delete::doom(c, dataset).await
            }
            .boxed()
        });
        removed.await?;
        delete::finish(&self.target.connections, dataset).await?;
        self.forget().await?;
        info!(
            dataset.id = %dataset,
            "cancelled the move of dataset {dataset} from the server {} to {}",
            self.source.name, self.target.name
        );
        Ok(())
    }
}
