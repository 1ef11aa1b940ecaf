//! Deletes rows of a span at once, and a dataset in two steps: it is invisible at once, and its space is
//! freed in small steps.

use db::postgres::connections::Connections;
use futures::FutureExt as _;
use model::{dataset::DatasetId, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    Result, buckets, chunks,
    cold::Fetched,
    commit::Changes,
    head::Head,
    pages::{StoredSeries, Wanted},
    tail,
};
use crate::{
    span::Span,
    store::{Removal, Removed},
};

/// Records of each table that one step removes: as many chunks take a few milliseconds.
const STEP_RECORDS: i64 = 256;

/// Deletes the rows of a span; how many that were.
pub(super) async fn rows(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
    now: Timestamp,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    if span.first > span.last {
        return Ok(Removed { n_rows: 0, revision: head.revision });
    }
    let stored =
        StoredSeries { id: head.rows(), empty: head.empty.clone(), fetched: Fetched::default() };
    let (n_rows, _) = stored.count(c, &Wanted::all(span)).await?;
    tail::remove(c, dataset, span).await?;
    chunks::cut(c, head.rows(), span, &head.empty).await?;
    buckets::cut(c, &mut head, span).await?;
    head.recount(c).await?;
    let removal = Some(Removal::Span(span));
    head.commit(c, Changes { removal, ..Changes::default() }, 0, now).await?;
    Ok(Removed { n_rows, revision: head.revision })
}

/// Takes a dataset out of the catalog and leaves its rows to [`step`]; the server that has them, `None`
/// for this one, if there was such a dataset.
pub(super) async fn dataset(
    c: &mut PgConnection,
    dataset: DatasetId,
) -> Result<Option<Option<i64>>> {
    await_packer(c, dataset).await?;
    // A writer that holds the row finishes first.
    let sql = "SELECT place FROM head WHERE dataset = $1 FOR UPDATE";
    let found: Option<Option<i64>> =
        sqlx::query_scalar(sql).bind(dataset.get()).fetch_optional(&mut *c).await?;
    if found.is_some() {
        sqlx::query("DELETE FROM datasets WHERE id = $1")
            .bind(dataset.get())
            .execute(&mut *c)
            .await?;
        doom(c, dataset).await?;
    }
    Ok(found)
}

/// Waits for the end of the transaction that packs a dataset, and keeps others from packing it, if it is
/// in `unsettled`. A packer locks the dataset there before its state in `head`: a transaction that locks
/// them in the other order may wait for the packer while that waits for it.
pub(super) async fn await_packer(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    let sql = "SELECT FROM unsettled WHERE dataset = $1 FOR UPDATE";
    sqlx::query(sql).bind(dataset.get()).execute(c).await?;
    Ok(())
}

/// Leaves all records of a dataset on this server to [`step`].
pub(super) async fn doom(c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    let sql = "INSERT INTO doomed (dataset) VALUES ($1) ON CONFLICT DO NOTHING";
    sqlx::query(sql).bind(dataset.get()).execute(c).await?;
    Ok(())
}

/// Removes some records of a deleted dataset; whether there may be more.
pub(super) async fn step(c: &mut PgConnection) -> Result<bool> {
    let sql = "SELECT dataset FROM doomed LIMIT 1 FOR UPDATE SKIP LOCKED";
    let doomed: Option<i64> = sqlx::query_scalar(sql).fetch_optional(&mut *c).await?;
    let Some(doomed) = doomed else { return Ok(false) };
    remove_some(c, doomed).await?;
    // There may be another dataset.
    Ok(true)
}

/// Removes all records of one deleted dataset that are left on a server.
pub(super) async fn finish(connections: &Connections, dataset: DatasetId) -> Result<()> {
    while connections.write(move |c| step_of(c, dataset).boxed()).await? {}
    Ok(())
}

/// Removes some records of one deleted dataset; whether there may be more.
async fn step_of(c: &mut PgConnection, dataset: DatasetId) -> Result<bool> {
    let sql = "SELECT dataset FROM doomed WHERE dataset = $1 FOR UPDATE";
    let doomed: Option<i64> =
        sqlx::query_scalar(sql).bind(dataset.get()).fetch_optional(&mut *c).await?;
    let Some(doomed) = doomed else { return Ok(false) };
    remove_some(c, doomed).await?;
    Ok(true)
}

async fn remove_some(c: &mut PgConnection, doomed: i64) -> Result<()> {
    let mut n_gone = 0;
    for sql in [
        "DELETE FROM chunks WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM chunks WHERE dataset = $1 LIMIT $2))",
        "DELETE FROM segments WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM segments WHERE dataset = $1 LIMIT $2))",
        "DELETE FROM tail WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM tail WHERE dataset = $1 LIMIT $2))",
        "DELETE FROM buckets WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM buckets WHERE dataset = $1 LIMIT $2))",
        "DELETE FROM feed WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM feed WHERE dataset = $1 LIMIT $2))",
    ] {
        let done = sqlx::query(sql).bind(doomed).bind(STEP_RECORDS).execute(&mut *c).await?;
        n_gone += done.rows_affected();
    }
    if n_gone == 0 {
        let sql =
            "UPDATE objects SET state = 'dead', at = (extract(epoch FROM now()) * 1000000)::bigint
             WHERE dataset = $1 AND state <> 'dead'";
        sqlx::query(sql).bind(doomed).execute(&mut *c).await?;
        // They would be those of the next dataset of this number.
        let sql = "DELETE FROM batches WHERE dataset = $1";
        sqlx::query(sql).bind(doomed).execute(&mut *c).await?;
        sqlx::query("DELETE FROM doomed WHERE dataset = $1").bind(doomed).execute(c).await?;
    }
    Ok(())
}
