//! Named batches of rows. A batch that a client sends twice is stored once.

use data_encoding::HEXLOWER;
use model::dataset::DatasetId;
use model::idempotency::IdempotencyKey;
use model::key::KeyId;

use super::session::{Row, Session, to_json};
use super::{Appended, Result, StoreError};

/// Time for which the record of a batch is stored, in microseconds of the engine's clock. A writer that
/// missed a response retries within a day.
pub(super) const KEPT_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// Maximum number of recorded batches of a writer. Beyond it, the oldest records are removed early. A
/// writer that retries within minutes can still send some hundred batches per second.
pub(super) const PER_WRITER_MAX: i64 = 100_000;

/// SHA-256 of a request.
pub type Digest = [u8; 32];

/// Identity of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchId {
    /// Key of the writer. Different writers can use the same name for different batches.
    pub writer: KeyId,
    /// Name that the writer chose for the batch.
    pub key: IdempotencyKey,
    /// Digest of the request, by which a different request with the same name is rejected.
    pub digest: Digest,
}

/// A batch to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Identity by which the writer can find the batch later.
    pub id: BatchId,
    /// Number of rows of the append that belong to this batch.
    pub n_rows: u64,
}

/// A stored batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch {
    /// Digest of the request that stored the batch.
    pub digest: Digest,
    /// Result of the append that contained the batch.
    pub appended: Appended,
}

/// Returns the batch that `writer` named `key`, unless its dataset was deleted. Locks the record so that
/// the transaction counts as a write and waits for standbys. A server that crashed during a commit must
/// not report a batch that its standbys might lack.
pub(super) async fn find<S: Session>(
    s: &mut S,
    writer: KeyId,
    key: &IdempotencyKey,
) -> Result<Option<StoredBatch>> {
    let sql = format!(
        "SELECT digest, revision, {} FROM datasets.batches b WHERE writer = ?1 AND batch = ?2
             AND EXISTS (SELECT 1 FROM datasets.datasets WHERE id = b.dataset){}",
        S::BATCH_ROWS,
        S::FOR_KEY_SHARE
    );
    let batch = |row: &Row<'_>| {
        let number = |idx| Ok::<u64, StoreError>(row.get_unsigned(idx)?.unwrap_or_default());
        let appended = Appended { n_rows: number(2)?, revision: number(1)? };
        Ok(StoredBatch { digest: row.get(0)?, appended })
    };
    Ok(s.all(&sql, &[&writer.get(), &key.to_string()], batch).await?.pop())
}

/// Records batches as stored. Replaces the record of a batch of a deleted dataset. Waits for
/// transactions that are storing one of the batches.
///
/// # Errors
/// [`StoreError::BatchStored`] if a batch is already stored.
pub(super) async fn put<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    batches: &[Batch],
    revision: u64,
) -> Result<()> {
    if batches.is_empty() {
        return Ok(());
    }
    let record = |Batch { id, n_rows }: &Batch| {
        (id.writer.get(), id.key.to_string(), *n_rows, HEXLOWER.encode(&id.digest))
    };
    let records = to_json(&batches.iter().map(record).collect::<Vec<_>>())?;
    let n_put = s.run(S::PUT_BATCHES, &[&dataset.get(), &revision.cast_signed(), &records]).await?;
    let is_all = usize::try_from(n_put) == Ok(batches.len());
    if is_all { Ok(()) } else { Err(StoreError::BatchStored) }
}
