//! Copies of datasets: their catalog entries. `append.rs` writes their rows and buckets.

use model::dataset::DatasetId;
use model::key::KeyId;
use sqlx::PgConnection;

use super::time::Time;
use super::{Result, catalog};
use crate::catalog::{DatasetRef, NewDataset, TagFilter};
use crate::store::engine::CatalogEntry;
use crate::store::{Sight, tags};

/// Returns the dataset with the lowest id above `after`.
pub(super) async fn next_entry(
    c: &mut PgConnection,
    after: Option<DatasetId>,
) -> Result<Option<CatalogEntry>> {
    let found: Option<(i64, Option<i64>, Option<Time>)> = sqlx::query_as(
        "SELECT id, owner, kept_from FROM datasets.datasets WHERE id > $1 ORDER BY id LIMIT 1",
    )
    .bind(after.map_or(0, DatasetId::get))
    .fetch_optional(&mut *c)
    .await?;
    let Some((id, owner, kept_from)) = found else { return Ok(None) };
    let id = catalog::dataset_id(id)?;
    let sight = catalog::sight(c, None, DatasetRef::Id(id)).await?;
    let Some(Sight { dataset, columns, newest, .. }) = sight else { return Ok(None) };
    Ok(Some(CatalogEntry {
        dataset,
        owner: owner.map(KeyId::new),
        columns,
        tags: tags::list(c, TagFilter::OfDataset(id)).await?,
        newest,
        kept_from: kept_from.map(|Time(at)| at),
    }))
}

/// Creates a dataset from a catalog entry. New datasets get higher ids.
pub(super) async fn create(c: &mut PgConnection, entry: CatalogEntry) -> Result<()> {
    let CatalogEntry { dataset, columns, .. } = &entry;
    catalog::insert(c, &NewDataset::from(&entry), Some(dataset.id), dataset.created_at).await?;
    let sql = "UPDATE datasets.datasets SET updated_at = $2 WHERE id = $1";
    sqlx::query(sql).bind(dataset.id.get()).bind(Time(dataset.updated_at)).execute(&mut *c).await?;
    let sql = "SELECT setval(sequence, $1)
         FROM (SELECT pg_get_serial_sequence('datasets.datasets', 'id')::regclass AS sequence) AS s
         WHERE $1 > coalesce(pg_sequence_last_value(sequence), 0)";
    sqlx::query(sql).bind(dataset.id.get()).execute(&mut *c).await?;
    sqlx::query(
        "UPDATE datasets.columns c SET created_at = n.created_at
         FROM unnest($2::text[], $3::timestamptz[]) AS n (name, created_at)
         WHERE c.dataset = $1 AND c.name = n.name",
    )
    .bind(dataset.id.get())
    .bind(columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
    .bind(columns.iter().map(|column| Time(column.created_at)).collect::<Vec<_>>())
    .execute(c)
    .await?;
    Ok(())
}
