//! Reads the tags of a key or a dataset.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::key::KeyId;
use rusqlite::Connection;

use super::Result;

/// Returns the ids of the tags of an API key.
pub(super) fn ids_held_by(connection: &Connection, key: KeyId) -> Result<Vec<i64>> {
    let sql = "SELECT tag FROM key_tags WHERE key = ?1";
    Ok(connection.all(sql, [key.get()], |row| row.get(0))?)
}

/// Returns the tags that a key and a dataset share, in alphabetical order.
pub(super) fn shared(
    connection: &Connection,
    key: KeyId,
    dataset: DatasetId,
) -> Result<Vec<String>> {
    Ok(connection.all(
        "SELECT t.name FROM dataset_tags dt
         JOIN key_tags kt ON kt.tag = dt.tag AND kt.key = ?2
         JOIN tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
        [dataset.get(), key.get()],
        |row| row.get(0),
    )?)
}

/// Returns the ids of the tags of a dataset.
pub(super) fn ids_of_dataset(connection: &Connection, dataset: DatasetId) -> Result<Vec<i64>> {
    let sql = "SELECT tag FROM dataset_tags WHERE dataset = ?1";
    Ok(connection.all(sql, [dataset.get()], |row| row.get(0))?)
}
