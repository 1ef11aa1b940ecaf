//! Named batches of rows. A batch that a client sends twice is stored once.

use model::idempotency::IdempotencyKey;
use model::key::KeyId;

use super::Appended;

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
