//! Background maintenance in small transactions between writes: removes the rows of deleted datasets,
//! and old records of commits and batches.
//!
//! Every service runs the maintenance and skips records that another service has locked.

use std::error::Error;
use std::time::Duration;

use db::postgres::connections::Connections;
use futures::FutureExt as _;
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::time::Time;
use super::{Result, StoreError, head, reads};
use crate::span::Span;
use crate::store::batch::{KEPT_MICROS, PER_WRITER_MAX};
use crate::store::records;
use crate::store::session::Session as _;

/// Interval at which deleted datasets are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Number of intervals of [`LOOK_EVERY`] after which old records of commits and batches are removed.
const LOOKS_PER_TRIM: u32 = 60;

/// Maximum number of records of a table that one step removes. A step takes some tens of milliseconds.
pub(super) const STEP_RECORDS: i64 = 10_000;

/// Runs the maintenance until the future is dropped.
pub(super) async fn run(connections: Connections) {
    for n_looks in 1_u32.. {
        sleep(LOOK_EVERY).await;
        let mut done = remove_doomed(&connections).await;
        if n_looks % LOOKS_PER_TRIM == 0 {
            done = done.and(trim(&connections).await);
        }
        match done {
            Ok(()) => {}
            // No warning, since the next request to the store reports the same error.
            Err(error @ StoreError::Unreachable(_)) => {
                debug!(
                    error = &error as &dyn Error,
                    "maintenance of the dataset store waits for the database"
                );
            }
            Err(error) => {
                warn!(error = &error as &dyn Error, "maintenance of the dataset store failed");
            }
        }
    }
}

/// Does all pending maintenance.
pub(super) async fn settle(connections: &Connections) -> Result<()> {
    remove_doomed(connections).await?;
    trim(connections).await
}

async fn remove_doomed(connections: &Connections) -> Result<()> {
    while connections.write(|c| step(c).boxed()).await? {}
    Ok(())
}

async fn trim(connections: &Connections) -> Result<()> {
    while connections.write(|c| head::trim_commits(c).boxed()).await? {}
    while connections.write(|c| trim_batches(c).boxed()).await? {}
    Ok(())
}

/// Removes a dataset from the catalog. [`run`] removes its rows later. Returns false if the dataset does
/// not exist.
pub(super) async fn doom(c: &mut PgConnection, dataset: DatasetId) -> Result<bool> {
    let sql = "WITH gone AS (DELETE FROM datasets.datasets WHERE id = ?1 RETURNING id)
         INSERT INTO datasets.doomed (dataset) SELECT id FROM gone";
    let n_doomed = c.run(sql, &[&dataset.get()]).await?;
    records::doom(c, dataset).await?;
    Ok(n_doomed > 0)
}

/// Removes some records of a deleted dataset. Returns true if there can be more.
async fn step(c: &mut PgConnection) -> Result<bool> {
    let sql = "SELECT dataset FROM datasets.doomed LIMIT 1 FOR UPDATE SKIP LOCKED";
    let Some::<i64>(doomed) = c.all(sql, &[], |row| row.get(0)).await?.pop() else {
        return Ok(false);
    };
    // Selects records by key, since `ctid` is not unique in a partitioned table.
    let bound = reads::nth(c, doomed, Span::ALL, STEP_RECORDS).await?.map(Time);
    let sql = "DELETE FROM datasets.rows WHERE dataset = ?1 AND ts < coalesce(?2, 'infinity')";
    c.run(sql, &[&doomed, &bound]).await?;
    if bound.is_some() {
        return Ok(true);
    }
    // Also removes the batches, which a later dataset with this id would otherwise inherit.
    for (table, key) in
        [("buckets", "resolution, ts"), ("commits", "revision"), ("batches", "writer, batch")]
    {
        let sql = format!(
            "DELETE FROM datasets.{table} WHERE (dataset, {key}) IN (
                 SELECT dataset, {key} FROM datasets.{table} WHERE dataset = ?1 LIMIT ?2)"
        );
        if c.run(&sql, &[&doomed, &STEP_RECORDS]).await? > 0 {
            return Ok(true);
        }
    }
    c.run("DELETE FROM datasets.doomed WHERE dataset = ?1", &[&doomed]).await?;
    Ok(true)
}

/// Removes some old records, and the oldest records of writers that have stored very many batches.
/// Returns true if it removed any, so there can be more.
async fn trim_batches(c: &mut PgConnection) -> Result<bool> {
    let sql = "WITH bounds AS MATERIALIZED (SELECT writer, greatest(
                 now() - ?1 * interval '1 microsecond',
                 (SELECT at FROM datasets.batches b WHERE b.writer = w.writer
                     ORDER BY at DESC OFFSET ?2 LIMIT 1)) AS until
             FROM (SELECT DISTINCT writer FROM datasets.batches) w)
         DELETE FROM datasets.batches WHERE (writer, batch) IN (
             SELECT b.writer, b.batch FROM datasets.batches b
             JOIN bounds ON b.writer = bounds.writer AND b.at <= bounds.until LIMIT ?3)";
    Ok(c.run(sql, &[&KEPT_MICROS, &PER_WRITER_MAX, &STEP_RECORDS]).await? > 0)
}
