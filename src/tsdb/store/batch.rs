//! Appends that their writers named, so that one that is sent again is stored once.

use model::{idempotency::IdempotencyKey, key::KeyId};

use super::Appended;

/// How long the store knows a batch, in microseconds by its engine's clock: a day, in which a writer
/// whose answer was lost has long been back.
pub(super) const KEPT_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// The batches of one writer that are known: of more the oldest are forgotten early. A writer that
/// retries within minutes may thus send some hundreds a second.
pub(super) const PER_WRITER_MAX: i64 = 100_000;

/// Tells the contents of requests apart.
pub type Digest = [u8; 32];

/// The name of a batch, and what came under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchId {
    /// Whose it is: other writers may use the same key.
    pub writer: KeyId,
    /// The writer's name for it.
    pub key: IdempotencyKey,
    /// What was to be stored, so that another request of the same name is not taken for it.
    pub digest: Digest,
}

/// A batch to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// By which its writer is answered once it is stored.
    pub id: BatchId,
    /// Its rows, of those of the append.
    pub n_rows: u64,
}

/// A batch that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch {
    /// That of the request which stored it.
    pub digest: Digest,
    /// What its writer was answered.
    pub appended: Appended,
}
