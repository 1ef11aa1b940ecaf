//! Copies of datasets: their catalog entries and buckets of pruned rows. `append.rs` appends their rows.

use db::statement::Statements as _;
use futures::future::BoxFuture;
use model::block::Block;
use model::dataset::DatasetId;
use model::key::KeyId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::{Connection, params};

use super::progress::{self, Progress};
use super::series::SeriesId;
use super::tables::dataset_id;
use super::{Result, SqliteStore, StoreError, append, buckets, catalog, chunks, tags, tail};
use crate::catalog::{DatasetRef, NewDataset, TagChange, TagFilter};
use crate::span::{Span, just_before};
use crate::store::Sight;
use crate::store::copying::{CatalogEntry, CopyStore};

impl CopyStore for SqliteStore {
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
        self.readers.read(|connection| next_entry(connection, after))
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.readers.read(grants)
    }

    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| create(connection, &entry))
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| put_buckets(connection, dataset, buckets, kept_from))
    }

    fn prune_copy(
        &self,
        dataset: DatasetId,
        before: Timestamp,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| prune(connection, dataset, before, kept_from))
    }

    fn copy_rows(
        &self,
        dataset: DatasetId,
        mut rows: Block,
        updated_at: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| {
            append::append_copied(connection, dataset, &mut rows, updated_at)
        })
    }
}

/// Returns the dataset with the lowest id above `after`.
fn next_entry(connection: &Connection, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
    let sql = "SELECT id FROM datasets WHERE id > ?1 ORDER BY id LIMIT 1";
    let after = after.map_or(0, DatasetId::get);
    let Some(id) = connection.find(sql, [after], dataset_id)? else { return Ok(None) };
    let sight = catalog::sight(connection, None, &DatasetRef::Id(id))?;
    let Some(Sight { dataset, columns, newest, .. }) = sight else { return Ok(None) };
    Ok(Some(CatalogEntry {
        dataset,
        owner: catalog::owner(connection, id)?,
        columns,
        tags: tags::list(connection, TagFilter::OfDataset(id))?,
        newest,
        kept_from: Progress::read(connection, id)?.kept_from,
    }))
}

/// Returns the changes that give the keys the tags that they hold.
fn grants(connection: &Connection) -> Result<Vec<TagChange>> {
    let sql = "SELECT kt.key, t.name, t.owner FROM key_tags kt JOIN tags t ON t.id = kt.tag
         WHERE t.is_public OR t.owner IS NOT NULL ORDER BY kt.key, t.id";
    Ok(connection.all(sql, [], |row| {
        let (key, tag) = (KeyId::new(row.get(0)?), row.get(1)?);
        Ok(TagChange::granting(key, tag, row.get::<_, Option<i64>>(2)?.map(KeyId::new)))
    })?)
}

/// Creates a dataset from a catalog entry.
fn create(connection: &Connection, entry: &CatalogEntry) -> Result<()> {
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

/// Removes rows that were pruned at the source. Their buckets remain.
fn prune(
    connection: &Connection,
    dataset: DatasetId,
    before: Timestamp,
    kept_from: Timestamp,
) -> Result<()> {
    let mut progress = Progress::read(connection, dataset)?;
    let last = just_before(before);
    let span = Span { first: Timestamp::MIN, last };
    tail::remove(connection, dataset, span)?;
    let empty = Block::new(&catalog::dtypes(connection, dataset)?);
    chunks::cut(connection, SeriesId::rows(dataset), span, &empty)?;
    progress.recount(connection, dataset)?;
    progress.kept_from = progress.kept_from.max(Some(kept_from));
    progress.note_removal(connection, dataset)?;
    progress.save(connection, dataset)
}

/// Stores buckets of pruned rows.
fn put_buckets(
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
