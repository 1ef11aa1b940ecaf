//! Copies of datasets: their catalog entries and buckets of pruned rows. `append.rs` appends their rows.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::{Connection, params};

use super::progress::{self, Progress};
use super::tables::dataset_id;
use super::{Result, StoreError, buckets, catalog};
use crate::catalog::{DatasetRef, NewDataset, TagFilter};
use crate::store::engine::CatalogEntry;
use crate::store::session::ready;
use crate::store::{Sight, tags};

/// Returns the dataset with the lowest id above `after`.
pub(super) fn next_entry(
    connection: &Connection,
    after: Option<DatasetId>,
) -> Result<Option<CatalogEntry>> {
    let sql = "SELECT id FROM datasets WHERE id > ?1 ORDER BY id LIMIT 1";
    let after = after.map_or(0, DatasetId::get);
    let Some(id) = connection.find(sql, [after], dataset_id)? else { return Ok(None) };
    let sight = catalog::sight(connection, None, &DatasetRef::Id(id))?;
    let Some(Sight { dataset, columns, newest, .. }) = sight else { return Ok(None) };
    Ok(Some(CatalogEntry {
        dataset,
        owner: catalog::owner(connection, id)?,
        columns,
        tags: ready(tags::list(&mut &*connection, TagFilter::OfDataset(id)))?,
        newest,
        kept_from: Progress::read(connection, id)?.kept_from,
    }))
}

/// Creates a dataset from a catalog entry.
pub(super) fn create(connection: &Connection, entry: &CatalogEntry) -> Result<()> {
    let CatalogEntry { dataset, .. } = entry;
    let new = [NewDataset::from(entry)];
    catalog::create_numbered(connection, &new, Some(dataset.id), dataset.created_at)?;
    for column in &entry.columns {
        let sql = "UPDATE columns SET created_at = ?3 WHERE dataset = ?1 AND name = ?2";
        let created = column.created_at.micros();
        connection.run(sql, params![dataset.id.get(), column.name, created])?;
    }
    progress::touch(connection, dataset.id, dataset.updated_at)
}

/// Stores buckets of pruned rows.
pub(super) fn put_buckets(
    connection: &Connection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut progress = Progress::read(connection, dataset)?;
    if progress.newest.is_some() {
        return Err(StoreError::failed(format!("dataset {dataset} has rows, and is no copy")));
    }
    buckets::extend_finest(connection, dataset, new)?;
    progress.kept_from = progress.kept_from.max(Some(kept_from));
    progress.revision += 1;
    progress.save(connection, dataset)
}
