//! Tags with their datasets, holders and owners.

use model::dataset::DatasetId;
use model::key::KeyId;
use sqlx::PgConnection;

use super::{Result, StoreError};
use crate::catalog::{Tag, TagChange, TagFilter};

/// Returns a text to search for. A zero character, which the database cannot store, is replaced by
/// a control character that no stored text contains.
pub(super) fn sought(text: &str) -> String {
    text.replace('\0', "\u{1}")
}

/// Changes the datasets or keys of a tag. Returns false if nothing changed.
pub(super) async fn change(c: &mut PgConnection, change: &TagChange) -> Result<bool> {
    let changing = match change {
        TagChange::Attach(dataset, tag) => return add(c, *dataset, tag).await,
        TagChange::Detach(dataset, tag) => sqlx::query(
            "DELETE FROM datasets.dataset_tags
             WHERE dataset = $1 AND tag IN (SELECT id FROM datasets.tags WHERE name = $2)",
        )
        .bind(dataset.get())
        .bind(sought(tag)),
        TagChange::Acquire { tag, key } => sqlx::query(
            "INSERT INTO datasets.key_tags (key, tag) SELECT $1, id FROM datasets.tags
             WHERE name = $2 AND is_public ON CONFLICT DO NOTHING",
        )
        .bind(key.get())
        .bind(sought(tag)),
        TagChange::Give { owner, tag, key } => sqlx::query(
            "INSERT INTO datasets.key_tags (key, tag) SELECT $1, id FROM datasets.tags
             WHERE name = $2 AND owner = $3 ON CONFLICT DO NOTHING",
        )
        .bind(key.get())
        .bind(sought(tag))
        .bind(owner.get()),
        TagChange::Take { owner, tag, key } => sqlx::query(
            "DELETE FROM datasets.key_tags
             WHERE key = $1 AND tag = (SELECT id FROM datasets.tags WHERE name = $2 AND owner = $3)",
        )
        .bind(key.get())
        .bind(sought(tag))
        .bind(owner.get()),
    };
    let is_changed = changing.execute(&mut *c).await?.rows_affected() > 0;
    if is_changed && matches!(change, TagChange::Detach(..) | TagChange::Take { .. }) {
        sqlx::query("UPDATE datasets.withdrawals SET n = n + 1").execute(c).await?;
    }
    Ok(is_changed)
}

async fn add(c: &mut PgConnection, dataset: DatasetId, tag: &str) -> Result<bool> {
    let sql = "SELECT owner FROM datasets.datasets WHERE id = $1 FOR KEY SHARE";
    let owner: Option<Option<i64>> =
        sqlx::query_scalar(sql).bind(dataset.get()).fetch_optional(&mut *c).await?;
    let owner = owner.ok_or(StoreError::NoDataset { dataset })?.map(KeyId::new);
    attach(c, dataset, owner, tag).await
}

/// Attaches a tag to a dataset of `owner`: the public one of this name, or the owner's own, which
/// is created if it does not exist. Returns false if the dataset had it.
pub(super) async fn attach(
    c: &mut PgConnection,
    dataset: DatasetId,
    owner: Option<KeyId>,
    name: &str,
) -> Result<bool> {
    let usable: Option<i64> = sqlx::query_scalar(
        "SELECT id FROM datasets.tags WHERE name = $1 AND (is_public OR coalesce(owner, 0) = $2)
         ORDER BY is_public DESC LIMIT 1",
    )
    .bind(name)
    .bind(owner.map_or(0, KeyId::get))
    .fetch_optional(&mut *c)
    .await?;
    let tag: i64 = match usable {
        Some(tag) => tag,
        // Another writer may create it at the same time.
        None => {
            sqlx::query_scalar(
                "INSERT INTO datasets.tags (name, is_public, owner) VALUES ($1, false, $2)
                 ON CONFLICT (name, coalesce(owner, 0)) DO UPDATE SET name = excluded.name
                 RETURNING id",
            )
            .bind(name)
            .bind(owner.map(KeyId::get))
            .fetch_one(&mut *c)
            .await?
        }
    };
    let sql =
        "INSERT INTO datasets.dataset_tags (dataset, tag) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    let added = sqlx::query(sql).bind(dataset.get()).bind(tag).execute(c).await?;
    Ok(added.rows_affected() > 0)
}

/// Returns the keys that hold the tag that `owner` calls `tag`, in ascending order.
pub(super) async fn holders(c: &mut PgConnection, owner: KeyId, tag: &str) -> Result<Vec<KeyId>> {
    let sql = "SELECT kt.key FROM datasets.key_tags kt JOIN datasets.tags t ON t.id = kt.tag
         WHERE t.name = $1 AND t.owner = $2 ORDER BY kt.key";
    let keys: Vec<i64> =
        sqlx::query_scalar(sql).bind(sought(tag)).bind(owner.get()).fetch_all(c).await?;
    Ok(keys.into_iter().map(KeyId::new).collect())
}

/// Returns the tags that `filter` selects, in alphabetical order. A key may hold several tags of the
/// same name.
pub(super) async fn list(c: &mut PgConnection, filter: TagFilter) -> Result<Vec<Tag>> {
    let (sql, number) = match filter {
        TagFilter::KnownTo(key) => (
            "SELECT * FROM (SELECT name, is_public, owner,
                 id IN (SELECT tag FROM datasets.key_tags WHERE key = $1) AS held, id FROM datasets.tags) AS known
             WHERE is_public OR owner = $1 OR held ORDER BY name, id",
            key.get(),
        ),
        TagFilter::OfDataset(dataset) => (
            "SELECT t.name, t.is_public, t.owner, false, t.id FROM datasets.dataset_tags dt
             JOIN datasets.tags t ON t.id = dt.tag WHERE dt.dataset = $1 ORDER BY t.name",
            dataset.get(),
        ),
    };
    let rows: Vec<(String, bool, Option<i64>, bool, i64)> =
        sqlx::query_as(sql).bind(number).fetch_all(c).await?;
    let tag = |(name, is_public, owner, is_held, _): (_, _, Option<i64>, _, _)| Tag {
        name,
        is_public,
        owner: owner.map(KeyId::new),
        is_held,
    };
    Ok(rows.into_iter().map(tag).collect())
}
