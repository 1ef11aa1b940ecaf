//! Deleting objects that no segment refers to any more, once no reader can be under way that began
//! before.

use std::error::Error;

use db::postgres::connections::{Connections, Snapshot};
use futures::FutureExt as _;
use sqlx::PgConnection;
use tracing::warn;

use super::{key_of, owner::Claimant};
use crate::store::postgres::{Result, StoreError, catalog::dataset_id};

/// How long an object may be staged, in microseconds: longer than a service takes to write it, also one
/// that was paused. Nobody makes a segment of it after that.
const STAGED_MICROS: i64 = 3_600 * 1_000_000;

/// Objects that are deleted before their records are, in one step.
const STEP: i64 = 64;

/// Deletes all objects whose grace period is over.
///
/// # Errors
/// [`StoreError`] of the database. Objects that cannot be deleted are left for the next time.
pub(in super::super) async fn sweep(
    connections: &Connections,
    claimant: Claimant<'_>,
) -> Result<()> {
    let sealing = claimant.sealing;
    connections.write(|c| expire(c).boxed()).await?;
    let grace = i64::try_from(sealing.options.grace.as_micros()).unwrap_or(i64::MAX);
    loop {
        let find = connections.read_here(Snapshot::Statement, |c| dead(c, grace).boxed());
        let found = find.await?;
        // Only now: a clone that can still take the prefix has the same records of these.
        if found.is_empty() || !claimant.claim().await? {
            return Ok(());
        }
        for (object, dataset) in &found {
            let key = key_of(dataset_id(*dataset)?, object);
            if let Err(error) = sealing.options.objects.delete(&key).await {
                let error = &error as &dyn Error;
                warn!(error, "object {key}, which is not needed any more, was not deleted");
                return Ok(());
            }
        }
        let objects = found.into_iter().map(|(object, _)| object).collect();
        connections.write(|c| forget(c, objects).boxed()).await?;
    }
}

/// Notes that what was staged for too long has no segment, and gets none.
async fn expire(c: &mut PgConnection) -> Result<()> {
    let sql = "WITH now AS (SELECT (extract(epoch FROM now()) * 1000000)::bigint AS at)
         UPDATE objects SET state = 'dead', at = now.at FROM now
         WHERE state = 'staged' AND objects.at < now.at - $1";
    sqlx::query(sql).bind(STAGED_MICROS).execute(c).await?;
    Ok(())
}

/// Some objects that were let go longer than `grace` microseconds ago, and their datasets.
async fn dead(c: &mut PgConnection, grace: i64) -> Result<Vec<(String, i64)>> {
    let sql = "SELECT id::text, dataset FROM objects WHERE state = 'dead'
             AND at <= (extract(epoch FROM now()) * 1000000)::bigint - $1
         ORDER BY at LIMIT $2";
    let found = sqlx::query_as(sql).bind(grace).bind(STEP).fetch_all(c).await;
    found.map_err(StoreError::from)
}

/// Removes the records of objects that were deleted.
async fn forget(c: &mut PgConnection, objects: Vec<String>) -> Result<()> {
    let sql = "DELETE FROM objects WHERE id = ANY($1::uuid[]) AND state = 'dead'";
    sqlx::query(sql).bind(objects).execute(c).await?;
    Ok(())
}
