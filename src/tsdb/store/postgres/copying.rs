//! Copies of datasets: their entries in the catalog, and buckets whose rows were pruned. Their rows are
//! appended in `append.rs`.

use futures::future::{BoxFuture, FutureExt as _};
use model::{block::Block, dataset::DatasetId, key::KeyId, row::Bucket, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    PostgresStore, Result, StoreError, append,
    buckets::{self, OpenBuckets},
    catalog,
    commit::Changes,
    head::Head,
    tags,
};
use crate::{
    catalog::{DatasetRef, NewDataset, TagChange, TagFilter},
    store::{
        Sight,
        copying::{CatalogEntry, CopyStore},
    },
};

impl CopyStore for PostgresStore {
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
        self.read(|c| next_entry(c, after).boxed())
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.fetch(|c| grants(c).boxed())
    }

    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| async move { create(c, &entry).await }.boxed(), |()| {})
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(
            Some(dataset),
            move |c| put_buckets(c, dataset, buckets, kept_from).boxed(),
            |()| {},
        )
    }

    fn copy_rows(
        &self,
        dataset: DatasetId,
        mut rows: Block,
        updated_at: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(
            Some(dataset),
            move |c| {
                async move { append::append_copied(c, dataset, &mut rows, updated_at).await }
                    .boxed()
            },
            |()| {},
        )
    }
}

/// The dataset with the lowest number above that of `after`.
async fn next_entry(
    c: &mut PgConnection,
    after: Option<DatasetId>,
) -> Result<Option<CatalogEntry>> {
    let found: Option<(i64, Option<i64>, Option<i64>)> = sqlx::query_as(
        "SELECT d.id, d.owner, h.kept_from FROM datasets d JOIN head h ON h.dataset = d.id
         WHERE d.id > $1 ORDER BY d.id LIMIT 1",
    )
    .bind(after.map_or(0, DatasetId::get))
    .fetch_optional(&mut *c)
    .await?;
    let Some((id, owner, kept_from)) = found else { return Ok(None) };
    let id = catalog::dataset_id(id)?;
    let sight = catalog::sight(c, None, &DatasetRef::Id(id)).await?;
    let Some(Sight { dataset, columns, newest, .. }) = sight else { return Ok(None) };
    Ok(Some(CatalogEntry {
        dataset,
        owner: owner.map(KeyId::new),
        columns,
        tags: tags::list(c, TagFilter::OfDataset(id)).await?,
        newest,
        kept_from: kept_from.map(Timestamp::from_micros),
    }))
}

/// What gives the keys the tags that they hold.
async fn grants(c: &mut PgConnection) -> Result<Vec<TagChange>> {
    let found: Vec<(i64, String, Option<i64>)> = sqlx::query_as(
        "SELECT kt.key, t.name, t.owner FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.is_public OR t.owner IS NOT NULL ORDER BY kt.key, t.id",
    )
    .fetch_all(c)
    .await?;
    let granting = |(key, tag, owner): (i64, String, Option<i64>)| {
        TagChange::granting(KeyId::new(key), tag, owner.map(KeyId::new))
    };
    Ok(found.into_iter().map(granting).collect())
}

/// Creates a dataset as `entry` has it.
async fn create(c: &mut PgConnection, entry: &CatalogEntry) -> Result<()> {
    let CatalogEntry { dataset, columns, .. } = entry;
    catalog::insert(c, &NewDataset::from(entry), Some(dataset.id), dataset.created_at).await?;
    // New datasets get numbers after it.
    let sql = "SELECT setval('datasets_id_seq', greatest($1, last_value)) FROM datasets_id_seq";
    sqlx::query(sql).bind(dataset.id.get()).execute(&mut *c).await?;
    sqlx::query(
        "UPDATE columns c SET created_at = n.created_at
         FROM unnest($2::text[], $3::bigint[]) AS n (name, created_at)
         WHERE c.dataset = $1 AND c.name = n.name",
    )
    .bind(dataset.id.get())
    .bind(columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
    .bind(columns.iter().map(|column| column.created_at.micros()).collect::<Vec<_>>())
    .execute(&mut *c)
    .await?;
    sqlx::query("UPDATE head SET updated_at = $2 WHERE dataset = $1")
        .bind(dataset.id.get())
        .bind(dataset.updated_at.micros())
        .execute(c)
        .await?;
    Ok(())
}

/// Stores buckets whose rows were pruned.
async fn put_buckets(
    c: &mut PgConnection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    if head.newest.is_some() {
        return Err(StoreError::NoCopy { dataset });
    }
    let mut changes = Changes::default();
    if let Some(first) = new.first() {
        let mut open = OpenBuckets::read(c, &head, first.timestamp).await?;
        buckets::extend_finest(&mut head, &mut open, new, &mut changes);
    }
    head.kept_from = head.kept_from.max(Some(kept_from));
    head.commit(c, changes, 0, head.updated_at).await
}
