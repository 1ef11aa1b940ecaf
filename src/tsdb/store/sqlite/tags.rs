//! Tags with their datasets, holders and owners.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::key::KeyId;
use rusqlite::{Connection, params};

use super::postings::{self, Term};
use super::{Result, StoreError};
use crate::catalog::{Tag, TagChange, TagFilter};

/// Changes the datasets or keys of a tag. Returns false if nothing changed.
pub(super) fn change(connection: &Connection, change: &TagChange) -> Result<bool> {
    let n_changed = match change {
        TagChange::Attach(dataset, tag) => return add(connection, *dataset, tag),
        TagChange::Detach(dataset, tag) => return remove(connection, *dataset, tag),
        TagChange::Acquire { tag, key } => connection.run(
            "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags
             WHERE name = ?2 AND is_public ON CONFLICT DO NOTHING",
            params![key.get(), tag],
        )?,
        TagChange::Give { owner, tag, key } => connection.run(
            "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags
             WHERE name = ?2 AND owner = ?3 ON CONFLICT DO NOTHING",
            params![key.get(), tag, owner.get()],
        )?,
        TagChange::Take { owner, tag, key } => connection.run(
            "DELETE FROM key_tags
             WHERE key = ?1 AND tag = (SELECT id FROM tags WHERE name = ?2 AND owner = ?3)",
            params![key.get(), tag, owner.get()],
        )?,
    };
    Ok(n_changed > 0)
}

fn add(connection: &Connection, dataset: DatasetId, tag: &str) -> Result<bool> {
    let sql = "SELECT owner FROM datasets WHERE id = ?1";
    let owner: Option<Option<i64>> = connection.find(sql, [dataset.get()], |row| row.get(0))?;
    let owner = owner.ok_or(StoreError::NoDataset { dataset })?.map(KeyId::new);
    let Some(added) = attach(connection, dataset, owner, tag)? else { return Ok(false) };
    postings::add(connection, &Term::Tag(added), &[dataset])?;
    Ok(true)
}

/// Attaches a tag to a dataset of `owner`: the public one of this name, or the owner's own, which
/// is created if it does not exist. Returns its id, unless the dataset had it. The caller updates
/// the postings.
pub(super) fn attach(
    connection: &Connection,
    dataset: DatasetId,
    owner: Option<KeyId>,
    name: &str,
) -> Result<Option<i64>> {
    let usable = connection.find(
        "SELECT id FROM tags WHERE name = ?1 AND (is_public OR ifnull(owner, 0) = ?2)
         ORDER BY is_public DESC LIMIT 1",
        params![name, owner.map_or(0, KeyId::get)],
        |row| row.get(0),
    )?;
    let tag: i64 = match usable {
        Some(tag) => tag,
        None => connection.value(
            "INSERT INTO tags (name, is_public, owner) VALUES (?1, 0, ?2) RETURNING id",
            params![name, owner.map(KeyId::get)],
        )?,
    };
    let n_added = connection.run(
        "INSERT INTO dataset_tags (dataset, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        [dataset.get(), tag],
    )?;
    Ok((n_added > 0).then_some(tag))
}

/// Detaches a tag from a dataset. Returns false if the dataset did not have it. Holders keep the
/// tag.
fn remove(connection: &Connection, dataset: DatasetId, tag: &str) -> Result<bool> {
    let removed = connection.all(
        "DELETE FROM dataset_tags
         WHERE dataset = ?1 AND tag IN (SELECT id FROM tags WHERE name = ?2) RETURNING tag",
        params![dataset.get(), tag],
        |row| row.get(0),
    )?;
    for tag in &removed {
        postings::remove(connection, &Term::Tag(*tag), dataset)?;
    }
    Ok(!removed.is_empty())
}

/// Returns the keys that hold the tag that `owner` calls `tag`, in ascending order.
pub(super) fn holders(connection: &Connection, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
    Ok(connection.all(
        "SELECT kt.key FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.name = ?1 AND t.owner = ?2 ORDER BY kt.key",
        params![tag, owner.get()],
        |row| Ok(KeyId::new(row.get(0)?)),
    )?)
}

/// Returns the ids of the tags that a key holds.
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

/// Returns the tags that `filter` selects, in alphabetical order. A key may hold several tags of the
/// same name.
pub(super) fn list(connection: &Connection, filter: TagFilter) -> Result<Vec<Tag>> {
    let (sql, number) = match filter {
        TagFilter::KnownTo(key) => (
            "SELECT name, is_public, owner, id IN (SELECT tag FROM key_tags WHERE key = ?1) AS held
             FROM tags WHERE is_public OR owner = ?1 OR held ORDER BY name, id",
            key.get(),
        ),
        TagFilter::OfDataset(dataset) => (
            "SELECT t.name, t.is_public, t.owner, 0 FROM dataset_tags dt
             JOIN tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
            dataset.get(),
        ),
    };
    Ok(connection.all(sql, [number], |row| {
        let owner: Option<i64> = row.get(2)?;
        let (name, is_public, is_held) = (row.get(0)?, row.get(1)?, row.get(3)?);
        Ok(Tag { name, is_public, owner: owner.map(KeyId::new), is_held })
    })?)
}

/// Returns the ids of the tags of a dataset.
pub(super) fn ids_of_dataset(connection: &Connection, dataset: DatasetId) -> Result<Vec<i64>> {
    let sql = "SELECT tag FROM dataset_tags WHERE dataset = ?1";
    Ok(connection.all(sql, [dataset.get()], |row| row.get(0))?)
}
