//! How many workers each API key has in an epoch.

use model::topic::{BlockHeight, TopicId};
use rusqlite::{Connection, params};

use super::{StoreError, number};
use crate::submission::Holding;

/// Counts one more worker of a key in an epoch.
///
/// # Errors
/// [`StoreError::FullOfKey`] if the key has as many as it may, besides those of the file.
pub(super) fn count(
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
