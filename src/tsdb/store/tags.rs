//! Tags with their datasets, holders and owners, as SQL statements for all engines.

use model::dataset::DatasetId;
use model::key::KeyId;

use super::session::{Row, Session};
use super::{Result, StoreError};
use crate::catalog::{Refusal, Tag, TagChange, TagFilter};

/// Prepares a text as a parameter of a search. Replaces NUL characters, which PostgreSQL rejects, with a
/// control character that no stored text contains.
pub(super) fn sought(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

/// Attaches or detaches a tag, or gives it to a key or revokes it. Returns false if nothing changed.
pub(super) async fn change<S: Session>(s: &mut S, change: TagChange) -> Result<bool> {
    let n_changed = match &change {
        TagChange::Attach(dataset, tag) => {
            let sql =
                format!("SELECT owner FROM datasets.datasets WHERE id = ?1{}", S::FOR_KEY_SHARE);
            let mut owners = s.all(&sql, &[&dataset.get()], |row| row.get(0)).await?;
            let Some::<Option<i64>>(owner) = owners.pop() else {
                return Err(StoreError::NoDataset { dataset: *dataset });
            };
            let added = attach(s, *dataset, owner.map(KeyId::new), tag).await?;
            if added.is_some() {
                check_public_name(s, *dataset).await?;
            }
            added.map(|tag| s.index_tag(tag, *dataset, true)).transpose()?;
            return Ok(added.is_some());
        }
        TagChange::Detach(dataset, tag) => {
            let sql = "DELETE FROM datasets.dataset_tags
                 WHERE dataset = ?1 AND tag IN (SELECT id FROM datasets.tags WHERE name = ?2)
                 RETURNING tag";
            let removed = s.all(sql, &[&dataset.get(), &sought(tag)], |row| row.get(0)).await?;
            for tag in &removed {
                s.index_tag(*tag, *dataset, false)?;
            }
            removed.len() as u64
        }
        TagChange::Give { owner, tag, key } => {
            let sql = "INSERT INTO datasets.key_tags (key, tag) SELECT ?1, id FROM datasets.tags
                 WHERE name = ?2 AND (owner = ?3 OR ?3 IS NULL AND is_public)
                 ON CONFLICT DO NOTHING";
            s.run(sql, &[&key.get(), &sought(tag), &owner.map(KeyId::get)]).await?
        }
        TagChange::Take { owner, tag, key } => {
            let sql = "DELETE FROM datasets.key_tags WHERE key = ?1 AND tag IN (
                 SELECT id FROM datasets.tags WHERE name = ?2 AND (owner = ?3 OR ?3 IS NULL))";
            s.run(sql, &[&key.get(), &sought(tag), &owner.map(KeyId::get)]).await?
        }
    };
    let is_withdrawal = matches!(change, TagChange::Detach(..) | TagChange::Take { .. });
    if n_changed > 0 && is_withdrawal {
        s.count_withdrawal().await?;
    }
    Ok(n_changed > 0)
}

/// Attaches a tag to a dataset of `owner`: the public tag of this name, or else the owner's private tag,
/// which is created if it does not exist. Returns the id of the tag, or `None` if it was already
/// attached. The caller must update the search indexes.
pub(super) async fn attach<S: Session>(
    s: &mut S,
    dataset: DatasetId,
    owner: Option<KeyId>,
    name: &str,
) -> Result<Option<i64>> {
    let usable = "SELECT id FROM datasets.tags
         WHERE name = ?1 AND (is_public OR coalesce(owner, 0) = ?2)
         ORDER BY is_public DESC LIMIT 1";
    let (name, owner) = (name.to_owned(), owner.map(KeyId::get));
    let key = owner.unwrap_or(0);
    let mut found = s.all(usable, &[&name, &key], |row| row.get(0)).await?;
    if found.is_empty() {
        // `DO NOTHING`, since another writer can create the same tag concurrently.
        let sql = "INSERT INTO datasets.tags (name, is_public, owner) VALUES (?1, false, ?2)
             ON CONFLICT DO NOTHING";
        s.run(sql, &[&name, &owner]).await?;
        found = s.all(usable, &[&name, &key], |row| row.get(0)).await?;
    }
    let Some::<i64>(tag) = found.pop() else { return Ok(None) };
    let sql =
        "INSERT INTO datasets.dataset_tags (dataset, tag) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    Ok((s.run(sql, &[&dataset.get(), &tag]).await? > 0).then_some(tag))
}

/// Rejects a public dataset of a key if another public dataset has its name. Otherwise any key could make
/// the name ambiguous for all other keys. Datasets of the service have no owner and precede others.
///
/// Transactions that change names or tags of datasets pass this check one after the other, so that each
/// sees the changes of the previous one. They lock the public tags last, which prevents deadlocks.
///
/// # Errors
/// [`Refusal::PublicNameTaken`].
pub(super) async fn check_public_name<S: Session>(s: &mut S, dataset: DatasetId) -> Result<()> {
    let lock = format!("SELECT id FROM datasets.tags WHERE is_public{}", S::FOR_NO_KEY_UPDATE);
    s.all(&lock, &[], |row| row.get::<i64>(0)).await?;
    let sql = "SELECT d.name FROM datasets.datasets d
         JOIN datasets.dataset_tags dt ON dt.dataset = d.id
         JOIN datasets.tags t ON t.id = dt.tag AND t.is_public
         JOIN datasets.datasets other ON other.name = d.name AND other.id <> d.id
         JOIN datasets.dataset_tags ot ON ot.dataset = other.id AND ot.tag = dt.tag
         WHERE d.id = ?1 AND d.owner IS NOT NULL LIMIT 1";
    match s.all(sql, &[&dataset.get()], |row| row.get(0)).await?.pop() {
        Some(name) => Err(Refusal::PublicNameTaken { name }.into()),
        None => Ok(()),
    }
}

/// Returns the keys that hold the tag `tag` of `owner`, in ascending order.
pub(super) async fn holders<S: Session>(
    s: &mut S,
    owner: KeyId,
    tag: String,
) -> Result<Vec<KeyId>> {
    let sql = "SELECT kt.key FROM datasets.key_tags kt JOIN datasets.tags t ON t.id = kt.tag
         WHERE t.name = ?1 AND t.owner = ?2 ORDER BY kt.key";
    s.all(sql, &[&sought(&tag), &owner.get()], |row| row.get(0).map(KeyId::new)).await
}

/// Returns the tags that `filter` selects, in alphabetical order. Tags of different owners can have the
/// same name.
pub(super) async fn list<S: Session>(s: &mut S, filter: TagFilter) -> Result<Vec<Tag>> {
    let (sql, number) = match filter {
        TagFilter::KnownTo(key) => (
            "SELECT * FROM (SELECT name, is_public, owner,
                 id IN (SELECT tag FROM datasets.key_tags WHERE key = ?1) AS held, id
                 FROM datasets.tags) AS known
             WHERE is_public OR owner = ?1 OR held ORDER BY name, id",
            key.get(),
        ),
        TagFilter::OfDataset(dataset) => (
            "SELECT t.name, t.is_public, t.owner, false FROM datasets.dataset_tags dt
             JOIN datasets.tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
            dataset.get(),
        ),
    };
    let tag = |row: &Row<'_>| {
        let owner = row.get::<Option<i64>>(2)?.map(KeyId::new);
        Ok(Tag { name: row.get(0)?, is_public: row.get(1)?, owner, is_held: row.get(3)? })
    };
    s.all(sql, &[&number], tag).await
}

/// Returns all tags that keys hold, as the changes that would give them these tags in another store.
pub(super) async fn grants<S: Session>(s: &mut S) -> Result<Vec<TagChange>> {
    let sql = "SELECT kt.key, t.name, t.owner FROM datasets.key_tags kt
         JOIN datasets.tags t ON t.id = kt.tag
         WHERE t.is_public OR t.owner IS NOT NULL ORDER BY kt.key, t.id";
    let grant = |row: &Row<'_>| {
        let (key, tag) = (KeyId::new(row.get(0)?), row.get(1)?);
        Ok(TagChange::Give { owner: row.get::<Option<i64>>(2)?.map(KeyId::new), tag, key })
    };
    s.all(sql, &[], grant).await
}
