//! Tags in their tables: which datasets have them, which keys hold them, and whose they are.

use model::{dataset::DatasetId, key::KeyId};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{
    StoreError,
    postings::{self, Term},
};
use crate::{catalog::Tag, store::Acquired};

/// Gives a dataset the public tag called `tag`, or its owner's own one; whether it did not have it.
pub(super) fn add(
    connection: &Connection,
    dataset: DatasetId,
    tag: &str,
) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached("SELECT owner FROM datasets WHERE id = ?1")?;
    let owner: Option<Option<i64>> =
        statement.query_row([dataset.get()], |row| row.get(0)).optional()?;
    let owner = owner.ok_or(StoreError::NoDataset { dataset })?.map(KeyId::new);
    let Some(added) = attach(connection, dataset, owner, tag)? else { return Ok(false) };
    postings::add(connection, &Term::Tag(added), &[dataset])?;
    Ok(true)
}

/// Gives a dataset of `owner` a tag: the public one of this name, or the owner's own, which is
/// created if there is none. Returns its number, unless the dataset had it. The posting is left to
/// the caller.
pub(super) fn attach(
    connection: &Connection,
    dataset: DatasetId,
    owner: Option<KeyId>,
    name: &str,
) -> Result<Option<i64>, StoreError> {
    let tag = match usable(connection, owner, name)? {
        Some(tag) => tag,
        None => connection
            .prepare_cached(
                "INSERT INTO tags (name, is_public, owner) VALUES (?1, 0, ?2) RETURNING id",
            )?
            .query_row(params![name, owner.map(KeyId::get)], |row| row.get(0))?,
    };
    let n_added = connection
        .prepare_cached(
            "INSERT INTO dataset_tags (dataset, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
        )?
        .execute(params![dataset.get(), tag])?;
    Ok((n_added > 0).then_some(tag))
}

/// The tag that `name` means to a key that puts it on a dataset: the public one, or its own.
fn usable(
    connection: &Connection,
    key: Option<KeyId>,
    name: &str,
) -> Result<Option<i64>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM tags WHERE name = ?1 AND (is_public OR ifnull(owner, 0) = ?2)
         ORDER BY is_public DESC LIMIT 1",
    )?;
    let key = key.map_or(0, KeyId::get);
    Ok(statement.query_row(params![name, key], |row| row.get(0)).optional()?)
}

/// Takes a tag from a dataset; whether it had it. The tag stays, with its holders.
pub(super) fn remove(
    connection: &Connection,
    dataset: DatasetId,
    tag: &str,
) -> Result<bool, StoreError> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM dataset_tags
         WHERE dataset = ?1 AND tag IN (SELECT id FROM tags WHERE name = ?2) RETURNING tag",
    )?;
    let removed = statement.query_map(params![dataset.get(), tag], |row| row.get(0))?;
    let removed: Vec<i64> = removed.collect::<Result<_, _>>()?;
    for tag in &removed {
        postings::remove(connection, &Term::Tag(*tag), dataset)?;
    }
    Ok(!removed.is_empty())
}

/// What acquiring `tag` would come to, without doing it.
pub(super) fn acquirable(
    connection: &Connection,
    key: KeyId,
    tag: &str,
) -> Result<Acquired, StoreError> {
    // Names are each owner's own: private tags that the key neither owns nor holds are not there.
    let mut statement = connection.prepare_cached(
        "SELECT is_public, id IN (SELECT tag FROM key_tags WHERE key = ?2) AS is_held
         FROM tags WHERE name = ?1 AND (is_public OR owner = ?2 OR is_held)
         ORDER BY is_public DESC, is_held DESC LIMIT 1",
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
        connection
            .prepare_cached(
                "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags
                 WHERE name = ?2 AND is_public ON CONFLICT DO NOTHING",
            )?
            .execute(params![key.get(), tag])?;
    }
    Ok(acquired)
}

/// Gives `key` the tag that `owner` calls `tag`; whether it did not hold it.
pub(super) fn give(
    connection: &Connection,
    owner: KeyId,
    tag: &str,
    key: KeyId,
) -> Result<bool, StoreError> {
    let n_given = connection
        .prepare_cached(
            "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags
             WHERE name = ?2 AND owner = ?3 ON CONFLICT DO NOTHING",
        )?
        .execute(params![key.get(), tag, owner.get()])?;
    Ok(n_given > 0)
}

/// Takes the tag that `owner` calls `tag` from `key`; whether it held it.
pub(super) fn take(
    connection: &Connection,
    owner: KeyId,
    tag: &str,
    key: KeyId,
) -> Result<bool, StoreError> {
    let n_taken = connection
        .prepare_cached(
            "DELETE FROM key_tags
             WHERE key = ?1 AND tag = (SELECT id FROM tags WHERE name = ?2 AND owner = ?3)",
        )?
        .execute(params![key.get(), tag, owner.get()])?;
    Ok(n_taken > 0)
}

/// The keys that hold the tag that `owner` calls `tag`, in the order of their numbers.
pub(super) fn holders(
    connection: &Connection,
    owner: KeyId,
    tag: &str,
) -> Result<Vec<KeyId>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT kt.key FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.name = ?1 AND t.owner = ?2 ORDER BY kt.key",
    )?;
    let holders =
        statement.query_map(params![tag, owner.get()], |row| Ok(KeyId::new(row.get(0)?)))?;
    Ok(holders.collect::<Result<_, _>>()?)
}

/// The numbers of the tags that a key holds.
pub(super) fn ids_held_by(connection: &Connection, key: KeyId) -> Result<Vec<i64>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT tag FROM key_tags WHERE key = ?1")?;
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

/// All tags, in alphabetical order.
pub(super) fn all(connection: &Connection) -> Result<Vec<Tag>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT name, is_public, owner FROM tags ORDER BY name, id")?;
    let tags = statement.query_map([], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

/// The tags that a key knows of, in alphabetical order: public ones, its own, and those it holds,
/// of which several may have one name.
pub(super) fn list_known(connection: &Connection, key: KeyId) -> Result<Vec<Tag>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT name, is_public, owner FROM tags
         WHERE is_public OR owner = ?1 OR id IN (SELECT tag FROM key_tags WHERE key = ?1)
         ORDER BY name, id",
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

/// The numbers of a dataset's tags.
pub(super) fn ids_of_dataset(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<i64>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT tag FROM dataset_tags WHERE dataset = ?1")?;
    let tags = statement.query_map([dataset.get()], |row| row.get(0))?;
    Ok(tags.collect::<Result<_, _>>()?)
}

fn tag_of(row: &Row<'_>) -> rusqlite::Result<Tag> {
    let owner: Option<i64> = row.get(2)?;
    Ok(Tag { name: row.get(0)?, is_public: row.get(1)?, owner: owner.map(KeyId::new) })
}
