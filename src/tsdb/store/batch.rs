//! Named batches of rows. A batch that is sent twice is stored once.

use model::idempotency::IdempotencyKey;
use model::key::KeyId;

use super::Appended;

/// Time for which the store remembers a batch, in microseconds of the engine's clock. Within this day, a
/// writer that missed the response will have retried.
pub(super) const KEPT_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// Maximum number of remembered batches of a writer. If there are more, the oldest are forgotten early.
/// The number allows some hundred batches per second for a writer that retries within minutes.
pub(super) const PER_WRITER_MAX: i64 = 100_000;

/// Digest of a request.
pub type Digest = [u8; 32];

/// Identity of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchId {
    /// Key of the writer. Other writers may use the same name.
    pub writer: KeyId,
    /// Name of the batch.
    pub key: IdempotencyKey,
    /// Digest of the request, to reject a different request with the same name.
    pub digest: Digest,
}

/// A batch to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Identity, by which its writer can find the batch later.
    pub id: BatchId,
    /// Number of rows of the append that belong to the batch.
    pub n_rows: u64,
}

/// A stored batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch {
    /// Digest of the request that stored it.
    pub digest: Digest,
    /// Result of the append.
    pub appended: Appended,
}
