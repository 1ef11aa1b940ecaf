//! Datasets with their columns, as SQL statements for all engines.

use std::collections::BTreeSet;
use std::future::Future;

use db::postgres::fault::PostgresError;
use db::sql::Value;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;

use super::engine::CatalogEntry;
use super::postgres::binary::Array;
use super::session::{Row, Session, from_json, to_json};
use super::tags::{attach, check_public_name, sought};
use super::time::Time;
use super::{PAGE_TEXT_BYTES_MAX, Result, Sight, StoreError};
use crate::catalog::{COLUMNS_MAX, DatasetChange, DatasetRef, Listed, NewDataset, Refusal};
use crate::rollup::check_refold;

/// Maximum number of datasets that an error about an ambiguous name lists.
const SHARED_MAX: usize = 20;

/// Number of datasets of a page that are read at once, which is the usual length of a page.
const READ_AT_ONCE: usize = 250;

/// Parts of the catalog that each engine implements differently.
pub(super) trait CatalogSession: Session {
    /// Aggregate function for a JSON array.
    const JSON_ARRAY: &'static str;

    /// Metadata of the dataset `d`, as a JSON object.
    const METADATA: &'static str;

    /// Columns of the dataset `d` in the order of their positions, as a JSON array of arrays: id, name,
    /// type, and microseconds of the creation time. The name of a deleted column is empty.
    const COLUMNS: &'static str;

    /// Revision, latest timestamp and bound of pruned timestamps of the dataset `d`, with the tables
    /// that contain them and `d`.
    const STATE_OF_DATASETS: &'static str;

    /// Table `wanted (key, value)` with the elements of the JSON array `?1` in the order of `key`.
    const WANTED: &'static str;

    /// Statement that inserts a dataset and returns its id, or nothing if the id or the name is in use.
    /// Parameters: name, name in lower case, description, description in lower case, metadata as a JSON
    /// object, id or null, owner, and current time.
    const INSERT: &'static str;

    /// Statement that replaces the name, the description and the metadata of a dataset. Parameters: the
    /// first six of [`Self::INSERT`].
    const UPDATE: &'static str;

    /// Statement that adds columns to the dataset `?1` at the time `?3`. `?2` is a JSON array of arrays:
    /// position from 1, number of the column in its array of PostgreSQL, name, and type.
    const ADD_COLUMNS: &'static str;

    /// Statement that marks the column with the id `?1` as deleted.
    const DELETE_COLUMN: &'static str;

    /// Completes the record of an inserted dataset. `given` is its id if the caller chose it.
    fn complete(
        &mut self,
        dataset: &Dataset,
        given: Option<DatasetId>,
    ) -> impl Future<Output = Result<()>>;

    /// Adds `created` datasets to the search indexes, with the owners in `new`.
    fn index(&mut self, new: &[NewDataset], created: &[Dataset]) -> Result<()>;

    /// Updates the search indexes after [`Self::UPDATE`].
    fn index_update(&mut self, old: &Dataset, new: &Dataset) -> Result<()>;
}

/// Creates either all or none of the datasets. A single dataset can be given its `id`. Later datasets
/// get higher ids.
///
/// # Errors
/// [`Refusal::NameTaken`], [`Refusal::PublicNameTaken`].
pub(super) async fn create<S: CatalogSession>(
    s: &mut S,
    all: &[NewDataset],
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Vec<Dataset>> {
    let mut created = Vec::with_capacity(all.len());
    for new in all {
        let dataset = insert(s, new, id, now).await?;
        s.complete(&dataset, id).await?;
        add_columns(s, dataset.id, &[], &new.columns, now).await?;
        for tag in &new.tags {
            attach(s, dataset.id, new.owner, tag).await?;
        }
        created.push(dataset);
    }
    // A copy of a store keeps its names.
    if id.is_none() {
        for dataset in &created {
            check_public_name(s, dataset.id).await?;
        }
    }
    s.index(all, &created)?;
    Ok(created)
}

async fn insert<S: CatalogSession>(
    s: &mut S,
    new: &NewDataset,
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Dataset> {
    let NewDataset { name, description, metadata, owner, .. } = new;
    let (folded, searched) = (name.to_lowercase(), description.to_lowercase());
    let (number, owner) = (id.map(DatasetId::get), owner.map(KeyId::get));
    let metadata = to_json(metadata)?;
    let values: [&(dyn Value + Sync); 8] =
        [name, &folded, description, &searched, &metadata, &number, &owner, &Time(now)];
    match (s.all(S::INSERT, &values, id_of).await?.pop(), id) {
        (Some(inserted), _) => Ok(new.dataset(inserted, now)),
        (None, None) => Err(Refusal::NameTaken { name: name.clone() }.into()),
        (None, Some(id)) => {
            Err(StoreError::failed(format!("dataset number {id} or its name is taken")))
        }
    }
}

/// Adds columns to a dataset after its `old` columns. Columns that already exist are skipped.
async fn add_columns<S: CatalogSession>(
    s: &mut S,
    dataset: DatasetId,
    old: &[Column],
    new: &[(String, Dtype)],
    now: Timestamp,
) -> Result<()> {
    let mut names: BTreeSet<&str> = old.iter().map(|column| column.name.as_str()).collect();
    let mut arrays: Vec<Array> = old.iter().map(|column| Array::of(column.dtype)).collect();
    let mut added = Vec::new();
    for (name, dtype) in new.iter().filter(|(name, _)| names.insert(name)) {
        let array = Array::of(*dtype);
        arrays.push(array);
        let slot = arrays.iter().filter(|other| **other == array).count();
        added.push((arrays.len(), slot, name, dtype.to_string()));
    }
    if !added.is_empty() {
        s.run(S::ADD_COLUMNS, &[&dataset.get(), &to_json(&added)?, &Time(now)]).await?;
    }
    Ok(())
}

/// Changes the description or the columns of a dataset. Returns the changed dataset. `is_empty` is true
/// if the dataset never had rows.
pub(super) async fn change<S: CatalogSession>(
    s: &mut S,
    id: DatasetId,
    change: DatasetChange,
    is_empty: bool,
    now: Timestamp,
) -> Result<Sight> {
    let Sight { dataset: old, columns, .. } = find(s, id).await?;
    let (mut new, mut all) = (old.clone(), columns.clone());
    let mut updated = Some(Time(now));
    match change {
        DatasetChange::Description(change) => change.apply(&mut new),
        DatasetChange::Column(change) => {
            all = change.apply(id, &columns, now)?;
            updated.take_if(|_| all.len() > columns.len());
        }
        DatasetChange::NewColumns(added) => {
            updated = None;
            let mut names: BTreeSet<&str> =
                columns.iter().map(|column| column.name.as_str()).collect();
            for (name, dtype) in added.iter().filter(|(name, _)| names.insert(name)) {
                let (name, dtype) = (name.clone(), *dtype);
                all.push(Column { id: 0, dataset_id: id, name, dtype, created_at: now });
            }
            if all.len() > COLUMNS_MAX {
                return Err(Refusal::ColumnsFull.into());
            }
        }
    }
    check_refold((&columns, &old.metadata), (&all, &new.metadata), is_empty)?;
    if old != new {
        describe(s, &old, &new).await?;
    }
    let added = all.iter().skip(columns.len());
    let added: Vec<_> = added.map(|column| (column.name.clone(), column.dtype)).collect();
    add_columns(s, id, &columns, &added, now).await?;
    for (old, new) in columns.iter().zip(&all).filter(|(old, new)| old.name != new.name) {
        if new.is_deleted() {
            s.run(S::DELETE_COLUMN, &[&old.id]).await?;
        } else {
            let sql = "UPDATE datasets.columns SET name = ?2 WHERE id = ?1";
            s.run(sql, &[&old.id, &new.name]).await?;
        }
    }
    // Updates the record even if nothing changes: its new version tells writers of PostgreSQL that the
    // columns might have changed.
    let sql = "UPDATE datasets.datasets SET updated_at = coalesce(?2, updated_at) WHERE id = ?1";
    s.run(sql, &[&id.get(), &updated]).await?;
    find(s, id).await
}

/// Returns a dataset as it is visible to the service.
///
/// # Errors
/// [`StoreError::NoDataset`].
pub(super) async fn find<S: CatalogSession>(s: &mut S, dataset: DatasetId) -> Result<Sight> {
    sight(s, None, DatasetRef::Id(dataset)).await?.ok_or(StoreError::NoDataset { dataset })
}

/// Replaces the name, the description and the metadata of a dataset.
async fn describe<S: CatalogSession>(s: &mut S, old: &Dataset, new: &Dataset) -> Result<()> {
    let Dataset { id, name, description, metadata, .. } = new;
    let (folded, searched) = (name.to_lowercase(), description.to_lowercase());
    let metadata = to_json(metadata)?;
    let values: [&(dyn Value + Sync); 6] =
        [name, &folded, description, &searched, &metadata, &id.get()];
    match s.run(S::UPDATE, &values).await {
        Ok(0) => Err(Refusal::NameTaken { name: name.clone() }.into()),
        Err(StoreError::Failed(cause))
            if cause.downcast_ref().is_some_and(PostgresError::is_duplicate) =>
        {
            Err(Refusal::NameTaken { name: name.clone() }.into())
        }
        updated => {
            updated?;
            if name != &old.name {
                check_public_name(s, *id).await?;
            }
            s.index_update(old, new)
        }
    }
}

/// See [`Catalog::sight`](super::Catalog::sight). A single statement, since it runs for every request.
///
/// If several datasets have the name, returns the dataset that the key owns, or else the dataset of the
/// service, which has no owner. If there is neither, the name is ambiguous and causes an error, since
/// anyone can give a dataset the name of an existing dataset.
pub(super) async fn sight<S: CatalogSession>(
    s: &mut S,
    key: Option<KeyId>,
    which: DatasetRef,
) -> Result<Option<Sight>> {
    let (column, value): (_, Box<dyn Value + Send + Sync>) = match &which {
        DatasetRef::Id(id) => ("id", Box::new(id.get())),
        DatasetRef::Name(name) => ("name", Box::new(sought(name))),
    };
    let sql = format!(
        "SELECT {dataset}, d.owner, d.owner IS NOT DISTINCT FROM ?2 AS own,
             (SELECT CAST({array}(t.name) AS text) FROM {shared}
                 JOIN datasets.tags t ON t.id = dt.tag WHERE dt.dataset = d.id),
             {columns}, {state}
         WHERE d.{column} = ?1 AND (?2 IS NULL OR d.owner = ?2
             OR EXISTS (SELECT 1 FROM {shared} WHERE dt.dataset = d.id))
         ORDER BY own DESC, d.owner IS NULL DESC, d.id LIMIT {SHARED_MAX}",
        dataset = dataset_sql::<S>(),
        array = S::JSON_ARRAY,
        shared =
            "datasets.dataset_tags dt JOIN datasets.key_tags kt ON kt.tag = dt.tag AND kt.key = ?2",
        columns = S::COLUMNS,
        state = S::STATE_OF_DATASETS,
    );
    let seen = s.all(&sql, &[&*value, &key.map(KeyId::get)], sight_of).await?;
    if let (DatasetRef::Name(name), [first, _, ..]) = (which, seen.as_slice())
        && key.is_some()
        && !first.is_owner
        && first.owner.is_some()
    {
        let datasets = seen.into_iter().map(|sight| sight.dataset.id).collect();
        return Err(StoreError::SharedName { name, datasets });
    }
    Ok(seen.into_iter().next())
}

/// Returns the SQL for the fields of the dataset `d` that [`dataset_of`] reads.
fn dataset_sql<S: CatalogSession>() -> String {
    format!("d.id, d.name, d.description, d.created_at, d.updated_at, {}", S::METADATA)
}

fn dataset_of(row: &Row<'_>) -> Result<Dataset> {
    let (Time(created_at), Time(updated_at)) = (row.get(3)?, row.get(4)?);
    Ok(Dataset {
        id: id_of(row)?,
        name: row.get(1)?,
        description: row.get(2)?,
        metadata: from_json(row, 5)?.unwrap_or_default(),
        created_at,
        updated_at,
    })
}

fn sight_of(row: &Row<'_>) -> Result<Sight> {
    let dataset = dataset_of(row)?;
    let columns: Option<Vec<(i64, String, String, i64)>> = from_json(row, 9)?;
    let column = |(id, name, dtype, created): (i64, String, String, i64)| {
        let dtype = dtype.parse().map_err(StoreError::failed)?;
        let created_at = Timestamp::from_micros(created);
        Ok(Column { id, dataset_id: dataset.id, name, dtype, created_at })
    };
    let time = |idx| Ok::<_, StoreError>(row.get::<Option<Time>>(idx)?.map(|Time(at)| at));
    let mut matching_tags: Vec<String> = from_json(row, 8)?.unwrap_or_default();
    matching_tags.sort_unstable();
    Ok(Sight {
        owner: row.get::<Option<i64>>(6)?.map(KeyId::new),
        is_owner: row.get(7)?,
        matching_tags,
        columns: columns.into_iter().flatten().map(column).collect::<Result<_>>()?,
        revision: row.get_unsigned(10)?.unwrap_or_default(),
        newest: time(11)?,
        kept_from: time(12)?,
        dataset,
    })
}

/// Reads the dataset id in the first column.
fn id_of(row: &Row<'_>) -> Result<DatasetId> {
    let number = row.get(0)?;
    let error = || StoreError::failed(format!("dataset {number} is invalid"));
    DatasetId::new(number).ok_or_else(error)
}

/// Returns the datasets with these ids, in the order of the ids, skipping missing datasets.
pub(super) async fn by_ids<S: CatalogSession>(s: &mut S, ids: &[i64]) -> Result<Vec<Dataset>> {
    let sql = format!(
        "SELECT {} FROM {} JOIN datasets.datasets d ON d.id = CAST(wanted.value AS bigint)
         ORDER BY wanted.key",
        dataset_sql::<S>(),
        S::WANTED
    );
    s.all(&sql, &[&to_json(&ids)?], dataset_of).await
}

/// Returns a page of the datasets with these ids. It ends early if their texts exceed
/// [`PAGE_TEXT_BYTES_MAX`]. `is_last` is true if no ids follow these.
pub(super) async fn page_of<S: CatalogSession>(
    s: &mut S,
    ids: &[i64],
    count: Option<u64>,
    is_last: bool,
) -> Result<Listed> {
    let (mut datasets, mut n_bytes) = (Vec::new(), 0);
    for ids in ids.chunks(READ_AT_ONCE) {
        for dataset in by_ids(s, ids).await? {
            if n_bytes > PAGE_TEXT_BYTES_MAX {
                return Ok(Listed { count, is_last: false, datasets });
            }
            let texts = dataset.metadata.iter().map(|(field, value)| field.len() + value.len());
            n_bytes += dataset.description.len() + texts.sum::<usize>();
            datasets.push(dataset);
        }
    }
    Ok(Listed { count, is_last, datasets })
}

/// Returns the dataset with the lowest id above `after`, or the first dataset if `after` is `None`.
pub(super) async fn next_dataset<S: Session>(
    s: &mut S,
    after: Option<DatasetId>,
) -> Result<Option<DatasetId>> {
    let sql = "SELECT id FROM datasets.datasets WHERE id > ?1 ORDER BY id LIMIT 1";
    let after = after.map_or(0, DatasetId::get);
    Ok(s.all(sql, &[&after], id_of).await?.pop())
}

/// Creates a dataset with the id, times, owner and visible columns of `entry`.
pub(super) async fn create_copy<S: CatalogSession>(s: &mut S, entry: CatalogEntry) -> Result<()> {
    let Dataset { id, created_at, updated_at, .. } = entry.dataset;
    create(s, &[NewDataset::from(&entry)], Some(id), created_at).await?;
    let sql = "UPDATE datasets.datasets SET updated_at = ?2 WHERE id = ?1";
    s.run(sql, &[&id.get(), &Time(updated_at)]).await?;
    for Column { name, created_at, .. } in &entry.columns {
        let sql = "UPDATE datasets.columns SET created_at = ?3 WHERE dataset = ?1 AND name = ?2";
        s.run(sql, &[&id.get(), name, &Time(*created_at)]).await?;
    }
    Ok(())
}
