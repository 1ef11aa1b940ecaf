//! Records of named batches, by which a batch that is sent twice is detected.

use db::postgres::fault::unsigned;
use model::dataset::DatasetId;
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use sqlx::PgConnection;

use super::{Result, StoreError};
use crate::store::Appended;
use crate::store::batch::{Batch, Digest, KEPT_MICROS, PER_WRITER_MAX, StoredBatch};

/// Maximum number of records that one transaction removes.
const STEP_BATCHES: i64 = 10_000;

/// Returns the batch that `writer` named `key`, unless its dataset was deleted. Locks the record so that
/// the transaction counts as a write and waits for standbys. A server that crashed during a commit must
/// not report a batch that its standbys might lack.
pub(super) async fn find(
    c: &mut PgConnection,
    writer: KeyId,
    key: IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let found: Option<(Digest, i64, i64)> = sqlx::query_as(
        "SELECT b.digest, b.n_rows, b.revision FROM datasets.batches b
         JOIN datasets.datasets d ON d.id = b.dataset
         WHERE b.writer = $1 AND b.batch = $2 FOR KEY SHARE OF b",
    )
    .bind(writer.get())
    .bind(key.to_string())
    .fetch_optional(c)
    .await?;
    let Some((digest, n_rows, revision)) = found else { return Ok(None) };
    let appended = Appended { n_rows: unsigned(n_rows)?, revision: unsigned(revision)? };
    Ok(Some(StoredBatch { digest, appended }))
}

/// Records batches as stored. Replaces the record of a batch of a deleted dataset. Waits for
/// transactions that are storing one of the batches. All transactions insert batches in the same order,
/// which prevents deadlocks.
///
/// # Errors
/// [`StoreError::BatchStored`] if a batch is already stored.
pub(super) async fn put(
    c: &mut PgConnection,
    dataset: DatasetId,
    batches: &[Batch],
    revision: u64,
) -> Result<()> {
    if batches.is_empty() {
        return Ok(());
    }
    let put = sqlx::query(
        "INSERT INTO datasets.batches AS b (writer, batch, dataset, revision, n_rows, digest)
         SELECT writer, batch, $1, $2, n_rows, digest
             FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bytea[])
             AS new (writer, batch, n_rows, digest) ORDER BY writer, batch
         ON CONFLICT (writer, batch) DO UPDATE SET dataset = excluded.dataset,
             revision = excluded.revision, n_rows = excluded.n_rows, digest = excluded.digest,
             at = excluded.at
         WHERE NOT EXISTS (SELECT FROM datasets.datasets WHERE id = b.dataset)",
    )
    .bind(dataset.get())
    .bind(revision.cast_signed())
    .bind(batches.iter().map(|batch| batch.id.writer.get()).collect::<Vec<_>>())
    .bind(batches.iter().map(|batch| batch.id.key.to_string()).collect::<Vec<_>>())
    .bind(batches.iter().map(|batch| batch.n_rows.cast_signed()).collect::<Vec<_>>())
    .bind(batches.iter().map(|batch| batch.id.digest.to_vec()).collect::<Vec<_>>())
    .execute(c)
    .await?;
    let is_all = usize::try_from(put.rows_affected()) == Ok(batches.len());
    if is_all { Ok(()) } else { Err(StoreError::BatchStored) }
}

/// Removes some old records, and the oldest records of writers that have stored very many batches.
/// Returns true if it removed any, so there can be more.
pub(super) async fn trim(c: &mut PgConnection) -> Result<bool> {
    let gone = sqlx::query(
        "WITH bounds AS MATERIALIZED (SELECT writer, greatest(
                 now() - $1 * interval '1 microsecond',
                 (SELECT at FROM datasets.batches b WHERE b.writer = w.writer
                     ORDER BY at DESC OFFSET $2 LIMIT 1)) AS until
             FROM (SELECT DISTINCT writer FROM datasets.batches) w)
         DELETE FROM datasets.batches WHERE (writer, batch) IN (
             SELECT b.writer, b.batch FROM datasets.batches b
             JOIN bounds ON b.writer = bounds.writer AND b.at <= bounds.until LIMIT $3)",
    )
    .bind(KEPT_MICROS)
    .bind(PER_WRITER_MAX)
    .bind(STEP_BATCHES)
    .execute(c)
    .await?;
    Ok(gone.rows_affected() > 0)
}
