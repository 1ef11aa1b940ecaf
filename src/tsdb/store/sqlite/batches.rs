//! Records of named batches, by which a batch that is sent twice is detected.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::idempotency::IdempotencyKey;
use model::key::KeyId;
use rusqlite::{Connection, params};

use super::{Result, StoreError};
use crate::store::Appended;
use crate::store::batch::{Batch, KEPT_MICROS, PER_WRITER_MAX, StoredBatch};

/// Maximum number of records that one step removes. Writers wait for a step, which takes some
/// milliseconds.
const STEP_BATCHES: i64 = 256;

/// Returns the batch that `writer` named `key`, unless its dataset was deleted.
pub(super) fn find(
    connection: &Connection,
    writer: KeyId,
    key: &IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let sql = "SELECT digest, rows, revision FROM batches JOIN datasets ON id = dataset
         WHERE writer = ?1 AND batch = ?2";
    let found = connection.find(sql, params![writer.get(), key.to_string()], |row| {
        let appended = Appended { n_rows: row.get(1)?, revision: row.get(2)? };
        Ok(StoredBatch { digest: row.get(0)?, appended })
    });
    Ok(found?)
}

/// Records batches as stored.
///
/// # Errors
/// [`StoreError::BatchStored`] if a batch is already stored.
pub(super) fn put(
    connection: &Connection,
    dataset: DatasetId,
    batches: &[Batch],
    revision: u64,
) -> Result<()> {
    for Batch { id, n_rows } in batches {
        let n_put = connection.run(
            "INSERT INTO batches (writer, n, batch, dataset, revision, rows, digest, at)
             SELECT ?1, ifnull(max(n), 0) + 1, ?2, ?3, ?4, ?5, ?6,
                 CAST(unixepoch('subsec') * 1000000 AS INTEGER) FROM batches WHERE writer = ?1
             ON CONFLICT (writer, batch) DO UPDATE SET n = excluded.n, dataset = excluded.dataset,
                 revision = excluded.revision, rows = excluded.rows, digest = excluded.digest,
                 at = excluded.at
             WHERE NOT EXISTS (SELECT 1 FROM datasets WHERE id = batches.dataset)",
            params![
                id.writer.get(),
                id.key.to_string(),
                dataset.get(),
                revision,
                n_rows,
                id.digest
            ],
        )?;
        if n_put == 0 {
            return Err(StoreError::BatchStored);
        }
    }
    Ok(())
}

/// Removes some old records of batches of one writer: the writer with the lowest number above `after`.
/// Returns the number to pass as `after` to the next call, or `None` if there is no such writer.
pub(super) fn trim(connection: &Connection, after: i64) -> Result<Option<i64>> {
    let next = "SELECT writer FROM batches WHERE writer > ?1 ORDER BY writer LIMIT 1";
    let found = connection.find(next, [after], |row| row.get(0))?;
    let Some::<i64>(writer) = found else { return Ok(None) };
    let n_gone = connection.run(
        "DELETE FROM batches WHERE writer = ?1
         AND n < (SELECT min(n) FROM batches WHERE writer = ?1) + ?2
         AND (at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?3
             OR n <= (SELECT max(n) FROM batches WHERE writer = ?1) - ?4)",
        [writer, STEP_BATCHES, KEPT_MICROS, PER_WRITER_MAX],
    )?;
    Ok(Some(if n_gone > 0 { after } else { writer }))
}
