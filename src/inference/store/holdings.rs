//! Taking payloads, and counting how many workers each API key has in an epoch.

use model::{
    timestamp::Timestamp,
    topic::{BlockHeight, TopicId},
};
use rusqlite::{Connection, params};

use super::{Store, StoreError, Submitted, number, take};
use crate::submission::{Holding, Submission};

impl Store {
    /// Takes `submission` for the epoch `nonce`, if that is open and the worker's first for it.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn submit(
        &self,
        topic: TopicId,
        nonce: BlockHeight,
        submission: Submission,
        at: Timestamp,
    ) -> Result<Submitted, StoreError> {
        self.submit_of(None, (topic, nonce), submission, at)
    }

    /// Keeps `submission` likewise, counted among those of the key that `holding` names.
    ///
    /// # Errors
    /// As [`Store::blocks`].
    pub fn submit_of(
        &self,
        holding: Option<Holding>,
        key: (TopicId, BlockHeight),
        submission: Submission,
        at: Timestamp,
    ) -> Result<Submitted, StoreError> {
        let taken = self.turns.write(move |write| {
            let submitted = take(write, key, &submission, at)?;
            if let (Submitted::Taken, Some(holding)) = (submitted, holding) {
                count(write, key, holding)?;
            }
            Ok(submitted)
        });
        match taken {
            // They came as errors, so that the payload was not kept.
            Err(StoreError::FullOfLabels) => Ok(Submitted::FullOfLabels),
            Err(StoreError::FullOfKey) => Ok(Submitted::FullOfKey),
            submitted => submitted,
        }
    }
}

/// Counts one more worker of a key in an epoch.
///
/// # Errors
/// [`StoreError::FullOfKey`] if the key has as many as it may, besides those of the file.
fn count(
    write: &Connection,
    (topic, nonce): (TopicId, BlockHeight),
    holding: Holding,
) -> Result<(), StoreError> {
    let statement =
        "INSERT INTO holdings (topic_id, nonce, key_id, n_workers) VALUES (?1, ?2, ?3, 1)
         ON CONFLICT DO UPDATE SET n_workers = n_workers + 1 RETURNING n_workers";
    let n_workers: u32 = write
        .prepare_cached(statement)?
        .query_row(params![number(topic.get()), number(nonce), holding.key], |row| row.get(0))?;
    if holding.quota.allows(n_workers) { Ok(()) } else { Err(StoreError::FullOfKey) }
}
