//! Batches by their writers and keys, for a writer that sends one again.

use db::postgres::fault::unsigned;
use model::{dataset::DatasetId, idempotency::IdempotencyKey, key::KeyId};
use sqlx::PgConnection;

use super::{Result, StoreError};
use crate::store::{
    Appended,
    batch::{Batch, Digest, KEPT_MICROS, PER_WRITER_MAX, StoredBatch},
};

/// Batches that one transaction forgets at most.
const STEP_BATCHES: i64 = 10_000;

/// The batch that `writer` calls `key`, unless its dataset is gone.
pub(super) async fn find(
    c: &mut PgConnection,
    writer: KeyId,
    key: &IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let found: Option<(Digest, i64, i64)> = sqlx::query_as(
        "SELECT b.digest, b.rows, b.revision FROM batches b JOIN datasets d ON d.id = b.dataset
         WHERE b.writer = $1 AND b.batch = $2",
    )
    .bind(writer.get())
    .bind(key.to_string())
    .fetch_optional(c)
    .await?;
    let Some((digest, n_rows, revision)) = found else { return Ok(None) };
    let appended = Appended { n_rows: unsigned(n_rows)?, revision: unsigned(revision)? };
    Ok(Some(StoredBatch { digest, appended }))
}

/// Keeps that the batches are stored. Where another transaction is storing one of them, this waits for
/// its end.
///
/// # Errors
/// [`StoreError::BatchStored`] if one was stored before.
pub(super) async fn put(
    c: &mut PgConnection,
    dataset: DatasetId,
    batches: &[Batch],
    revision: u64,
) -> Result<()> {
    if batches.is_empty() {
        return Ok(());
    }
    let ids = || batches.iter().map(|batch| &batch.id);
    let writers: Vec<i64> = ids().map(|id| id.writer.get()).collect();
    let keys: Vec<String> = ids().map(|id| id.key.to_string()).collect();
    let digests: Vec<&[u8]> = ids().map(|id| id.digest.as_slice()).collect();
    let rows: Vec<i64> = batches.iter().map(|batch| batch.n_rows.cast_signed()).collect();
    // In one order, so that two transactions do not wait for each other.
    let put = sqlx::query(
        "INSERT INTO batches (writer, batch, dataset, revision, rows, digest, at)
         SELECT writer, batch, $1, $2, rows, digest, (extract(epoch FROM now()) * 1000000)::bigint
             FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bytea[])
             AS new (writer, batch, rows, digest) ORDER BY writer, batch
         ON CONFLICT (writer, batch) DO UPDATE SET dataset = excluded.dataset,
             revision = excluded.revision, rows = excluded.rows, digest = excluded.digest,
             at = excluded.at
         WHERE NOT EXISTS (SELECT 1 FROM datasets WHERE id = batches.dataset)",
    )
    .bind(dataset.get())
    .bind(revision.cast_signed())
    .bind(writers)
    .bind(keys)
    .bind(rows)
    .bind(digests)
    .execute(c)
    .await?;
    let is_all = usize::try_from(put.rows_affected()) == Ok(batches.len());
    if is_all { Ok(()) } else { Err(StoreError::BatchStored) }
}

/// Forgets some old batches; whether there may be more.
pub(super) async fn trim(c: &mut PgConnection) -> Result<bool> {
    let gone = sqlx::query(
        "WITH bounds AS MATERIALIZED (SELECT writer, greatest(
                 (extract(epoch FROM now()) * 1000000)::bigint - $1,
                 (SELECT at FROM batches b WHERE b.writer = w.writer
                     ORDER BY at DESC OFFSET $2 LIMIT 1)) AS until
             FROM (SELECT DISTINCT writer FROM batches) w)
         DELETE FROM batches WHERE ctid = ANY(ARRAY(SELECT b.ctid FROM batches b
             JOIN bounds ON b.writer = bounds.writer AND b.at <= bounds.until LIMIT $3))",
    )
    .bind(KEPT_MICROS)
    .bind(PER_WRITER_MAX)
    .bind(STEP_BATCHES)
    .execute(c)
    .await?;
    Ok(gone.rows_affected() > 0)
}
