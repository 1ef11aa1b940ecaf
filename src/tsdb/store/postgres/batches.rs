//! Batches by their writers and keys, for a writer that sends one again.

use db::postgres::fault::unsigned;
use model::{dataset::DatasetId, idempotency::IdempotencyKey, key::KeyId};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{Result, StoreError};
use crate::store::{
    Appended,
    batch::{Batch, Digest, KEPT_MICROS, PER_WRITER_MAX, StoredBatch},
};

/// Batches that one transaction forgets at most.
const STEP_BATCHES: i64 = 10_000;

/// The batch that `writer` calls `key`, unless its dataset is gone.
///
/// Its lock is a write, which a server with standbys reports once they have all that came before. A
/// server that crashed while it waited for them has the batch, and they may not.
pub(super) async fn find(
    c: &mut PgConnection,
    writer: KeyId,
    key: &IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let found: Option<(Digest, i64, i64)> = sqlx::query_as(
        "SELECT b.digest, b.rows, b.revision FROM batches b JOIN datasets d ON d.id = b.dataset
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

/// Batches to be stored, as the lists that a statement takes.
#[derive(Debug, Default)]
pub(super) struct BatchLists {
    pub(super) writers: Vec<i64>,
    pub(super) keys: Vec<String>,
    pub(super) rows: Vec<i64>,
    pub(super) digests: Vec<Vec<u8>>,
}

impl BatchLists {
    pub(super) fn new(batches: &[Batch]) -> Self {
        let mut lists = Self::default();
        for Batch { id, n_rows } in batches {
            lists.writers.push(id.writer.get());
            lists.keys.push(id.key.to_string());
            lists.rows.push(n_rows.cast_signed());
            lists.digests.push(id.digest.to_vec());
        }
        lists
    }
}

/// The statement that stores batches of dataset `$1` and revision `$2`, in the lists from `$3` to
/// `$6`, if `condition` holds. Those that are stored already it leaves out, unless their dataset is
/// gone. Where another transaction is storing one of them, it waits for its end: in one order, so
/// that two do not wait for each other.
pub(super) fn insert(condition: &str) -> String {
    format!(
        "INSERT INTO batches (writer, batch, dataset, revision, rows, digest, at)
         SELECT writer, batch, $1, $2, rows, digest, (extract(epoch FROM now()) * 1000000)::bigint
             FROM unnest($3::bigint[], $4::text[], $5::bigint[], $6::bytea[])
             AS new (writer, batch, rows, digest) WHERE {condition} ORDER BY writer, batch
         ON CONFLICT (writer, batch) DO UPDATE SET dataset = excluded.dataset,
             revision = excluded.revision, rows = excluded.rows, digest = excluded.digest,
             at = excluded.at
         WHERE NOT EXISTS (SELECT 1 FROM datasets WHERE id = batches.dataset)"
    )
}

/// Stores batches that have no rows.
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
    let BatchLists { writers, keys, rows, digests } = BatchLists::new(batches);
    let put = sqlx::query(AssertSqlSafe(insert("true")))
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
