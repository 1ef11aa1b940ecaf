//! Tags in their tables: which datasets have them, which keys hold them, and whose they are.

use accounts::KeyId;
use model::dataset::DatasetId;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    StoreError,
    postings::{self, Term},
};
use crate::{
    catalog::Tag,
    store::{Acquired, Tagged},
};

/// Whether a tag is one that `key` may not put on its datasets: private, and neither its own nor one
/// that it holds.
pub(super) fn is_foreign(
    connection: &Connection,
    key: Option<KeyId>,
    tag: &str,
) -> Result<bool, StoreError> {
    let Some(Tag { is_public: false, owner, .. }) = find(connection, tag)? else {
        return Ok(false);
    };
    if owner == key {
        return Ok(false);
    }
    Ok(match key {
        Some(key) => acquirable(connection, key, tag)? != Acquired::Held,
        None => true,
    })
}

/// Gives a dataset a tag that is not foreign to its owner.
pub(super) fn add(
    connection: &Connection,
    dataset: DatasetId,
    tag: &str,
) -> Result<Tagged, StoreError> {
    let mut statement = connection.prepare_cached("SELECT owner FROM datasets WHERE id = ?1")?;
    let owner: Option<Option<i64>> =
        statement.query_row([dataset.get()], |row| row.get(0)).optional()?;
    let owner = owner.ok_or(StoreError::NoDataset { dataset })?.map(KeyId::new);
    if is_foreign(connection, owner, tag)? {
        return Ok(Tagged::Foreign);
    }
    if !attach(connection, dataset, owner, tag)? {
        return Ok(Tagged::There);
    }
    postings::add(connection, &Term::Tag(tag), &[dataset])?;
    Ok(Tagged::New)
}

/// Gives a dataset of `owner` a tag, which is created private, and the owner's, if there is none of
/// this name. The posting is left to the caller.
pub(super) fn attach(
    connection: &Connection,
    dataset: DatasetId,
    owner: Option<KeyId>,
    tag: &str,
) -> Result<bool, StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO tags (name, is_public, owner) VALUES (?1, 0, ?2)
             ON CONFLICT (name) DO NOTHING",
        )?
        .execute(params![tag, owner.map(KeyId::get)])?;
    let n_added = connection
        .prepare_cached(
            "INSERT INTO dataset_tags (dataset, tag)
             SELECT ?1, id FROM tags WHERE name = ?2 ON CONFLICT DO NOTHING",
        )?
        .execute(params![dataset.get(), tag])?;
    Ok(n_added > 0)
}

/// Takes a tag from a dataset; whether it had it. The tag stays, with its holders.
pub(super) fn remove(
    connection: &Connection,
    dataset: DatasetId,
    tag: &str,
) -> Result<bool, StoreError> {
    let n_removed = connection
        .prepare_cached(
            "DELETE FROM dataset_tags
             WHERE dataset = ?1 AND tag = (SELECT id FROM tags WHERE name = ?2)",
        )?
        .execute(params![dataset.get(), tag])?;
    if n_removed > 0 {
        postings::remove(connection, &Term::Tag(tag), dataset)?;
    }
    Ok(n_removed > 0)
}

/// What acquiring `tag` would come to, without doing it.
pub(super) fn acquirable(
    connection: &Connection,
    key: KeyId,
    tag: &str,
) -> Result<Acquired, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT is_public, EXISTS (SELECT 1 FROM key_tags WHERE key = ?2 AND tag = tags.id)
         FROM tags WHERE name = ?1",
    )?;
    let found = statement
        .query_row(params![tag, key.get()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        None => Acquired::Unknown,
        Some((_, true)) => Acquired::Held,
        Some((false, false)) => Acquired::Private,
        Some((true, false)) => Acquired::New,
    })
}

/// Gives a key a public tag that it does not hold.
pub(super) fn acquire(
    connection: &Connection,
    key: KeyId,
    tag: &str,
) -> Result<Acquired, StoreError> {
    let acquired = acquirable(connection, key, tag)?;
    if acquired == Acquired::New {
        give(connection, key, tag)?;
    }
    Ok(acquired)
}

/// Gives a key a tag, of whatever kind; whether it did not hold it.
pub(super) fn give(connection: &Connection, key: KeyId, tag: &str) -> Result<bool, StoreError> {
    let n_given = connection
        .prepare_cached(
            "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags WHERE name = ?2
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![key.get(), tag])?;
    Ok(n_given > 0)
}

/// Takes a tag from a key; whether it held it.
pub(super) fn take(connection: &Connection, key: KeyId, tag: &str) -> Result<bool, StoreError> {
    let n_taken = connection
        .prepare_cached(
            "DELETE FROM key_tags
             WHERE key = ?1 AND tag = (SELECT id FROM tags WHERE name = ?2)",
        )?
        .execute(params![key.get(), tag])?;
    Ok(n_taken > 0)
}

/// The keys that hold a tag, in the order of their numbers.
pub(super) fn holders(connection: &Connection, tag: &str) -> Result<Vec<KeyId>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT kt.key FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.name = ?1 ORDER BY kt.key",
    )?;
    let holders = statement.query_map([tag], |row| Ok(KeyId::new(row.get(0)?)))?;
    Ok(holders.collect::<Result<_, _>>()?)
}

/// The tags that a key holds, in alphabetical order.
pub(super) fn held(connection: &Connection, key: KeyId) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.name FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE kt.key = ?1 ORDER BY t.name",
    )?;
    let held = statement.query_map([key.get()], |row| row.get(0))?;
    Ok(held.collect::<Result<_, _>>()?)
}

/// The tags that a key and a dataset share, in alphabetical order.
pub(super) fn shared(
    connection: &Connection,
    key: KeyId,
    dataset: DatasetId,
) -> Result<Vec<String>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.name FROM dataset_tags dt
         JOIN key_tags kt ON kt.tag = dt.tag AND kt.key = ?2
         JOIN tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
    )?;
    let shared = statement.query_map(params![dataset.get(), key.get()], |row| row.get(0))?;
    Ok(shared.collect::<Result<_, _>>()?)
}

/// The tag called `name`.
pub(super) fn find(connection: &Connection, name: &str) -> Result<Option<Tag>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT name, is_public, owner FROM tags WHERE name = ?1")?;
    Ok(statement.query_row([name], tag_of).optional()?)
}

/// All tags, in alphabetical order.
pub(super) fn all(connection: &Connection) -> Result<Vec<Tag>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT name, is_public, owner FROM tags ORDER BY name")?;
    let tags = statement.query_map([], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

/// The tags that a key knows of, in alphabetical order: public ones, its own, and those it holds.
pub(super) fn known(connection: &Connection, key: KeyId) -> Result<Vec<Tag>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT name, is_public, owner FROM tags
         WHERE is_public OR owner = ?1 OR id IN (SELECT tag FROM key_tags WHERE key = ?1)
         ORDER BY name",
    )?;
    let tags = statement.query_map([key.get()], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

/// A dataset's tags, in alphabetical order.
pub(super) fn of_dataset(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<Tag>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.name, t.is_public, t.owner FROM dataset_tags dt JOIN tags t ON t.id = dt.tag
         WHERE dt.dataset = ?1 ORDER BY t.name",
    )?;
    let tags = statement.query_map([dataset.get()], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

fn tag_of(row: &Row<'_>) -> rusqlite::Result<Tag> {
    let owner: Option<i64> = row.get(2)?;
    Ok(Tag { name: row.get(0)?, is_public: row.get(1)?, owner: owner.map(KeyId::new) })
}
