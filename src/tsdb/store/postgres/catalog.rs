//! Datasets with their columns and access rights, in the tables of PostgreSQL.

use std::collections::BTreeSet;

use db::postgres::fault::unsigned;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::binary::Array;
use super::head::dtype;
use super::time::Time;
use super::{Result, StoreError};
use crate::catalog::{DatasetRef, Filter, Listed, NewDataset, Refusal};
use crate::store::Sight;
use crate::store::changes::CatalogSession;
use crate::store::tags::{self, sought};

/// Maximum number of datasets that an error about an ambiguous name lists.
const SHARED_MAX: i64 = 20;

/// SQL for the metadata fields of dataset `d` and for their values, in the same order.
const METADATA: &str = "ARRAY(SELECT key FROM jsonb_each_text(d.metadata) ORDER BY key),
     ARRAY(SELECT value FROM jsonb_each_text(d.metadata) ORDER BY key)";

/// Finds the datasets that are visible to key `$1`, have the metadata fields `$2` with the values `$3`,
/// and contain every word of `$5`. Ranks a dataset by the first rule that applies: its name begins with
/// `$4`, its name contains every word, its description contains every word, name and description
/// together contain every word. Scans all visible datasets, since a substring index would need an
/// extension.
const FOUND: &str = "
WITH seen AS (
    SELECT id, folded, searched, metadata FROM datasets.datasets WHERE owner = $1
    UNION
    SELECT d.id, d.folded, d.searched, d.metadata FROM datasets.key_tags kt
    JOIN datasets.dataset_tags dt ON dt.tag = kt.tag JOIN datasets.datasets d ON d.id = dt.dataset WHERE kt.key = $1
), found AS (
    SELECT id, folded, CASE
        WHEN $4::text IS NULL THEN 1
        WHEN starts_with(folded, $4) THEN 0
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w WHERE position(w IN folded) = 0) THEN 1
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w WHERE position(w IN searched) = 0) THEN 2
        WHEN NOT EXISTS (SELECT FROM unnest($5::text[]) AS w
            WHERE position(w IN folded) = 0 AND position(w IN searched) = 0) THEN 3
    END AS rank FROM seen
    WHERE NOT EXISTS (SELECT FROM unnest($2::text[], $3::text[]) AS wanted (field, value)
        WHERE metadata ->> field IS DISTINCT FROM value)
)
SELECT (SELECT count(*) FROM found WHERE rank IS NOT NULL), ARRAY(
    SELECT id FROM found WHERE rank IS NOT NULL
    ORDER BY rank, CASE rank WHEN 0 THEN folded END, id OFFSET $6 LIMIT $7)";

/// Converts a dataset id that was read from a table.
pub(super) fn dataset_id(number: i64) -> Result<DatasetId> {
    let error = || sqlx::Error::Decode(format!("dataset {number} is invalid").into());
    Ok(DatasetId::new(number).ok_or_else(error)?)
}

impl CatalogSession for PgConnection {
    const DELETE_COLUMN: &'static str =
        "UPDATE datasets.columns SET deleted_at = now() WHERE id = ?1";

    /// If several datasets have the name, returns the dataset that the key owns. If the key owns none of
    /// these, the name is ambiguous and causes an error, since anyone can give a dataset the name of an
    /// existing dataset.
    async fn sight(&mut self, key: Option<KeyId>, which: DatasetRef) -> Result<Option<Sight>> {
        let (condition, id, name) = match &which {
            DatasetRef::Id(id) => ("d.id = $1", id.get(), String::new()),
            DatasetRef::Name(name) => ("d.name = $2", 0, sought(name)),
        };
        let columns = "FROM datasets.columns WHERE dataset = d.id ORDER BY position";
        let sql = format!(
            "SELECT * FROM (
                 SELECT d.id, d.name, d.description, d.created_at, d.updated_at, {METADATA},
                     d.owner IS NOT DISTINCT FROM $3 AS own, d.revision, d.latest, d.owner,
                     d.kept_from, ARRAY(SELECT t.name FROM datasets.dataset_tags dt
                         JOIN datasets.key_tags kt ON kt.tag = dt.tag AND kt.key = $3
                         JOIN datasets.tags t ON t.id = dt.tag
                         WHERE dt.dataset = d.id ORDER BY t.name) AS shared,
                     ARRAY(SELECT id {columns}),
                     ARRAY(SELECT CASE WHEN deleted_at IS NULL THEN name ELSE '' END {columns}),
                     ARRAY(SELECT dtype {columns}), ARRAY(SELECT created_at {columns})
                 FROM datasets.datasets d
                 WHERE {condition} AND ($1::bigint, $2::text) IS NOT NULL
             ) AS seen WHERE own OR $3 IS NULL OR cardinality(shared) > 0
             ORDER BY own DESC, id LIMIT $4"
        );
        let seen = sqlx::query(AssertSqlSafe(sql))
            .bind(id)
            .bind(name)
            .bind(key.map(KeyId::get))
            .bind(SHARED_MAX)
            .fetch_all(self)
            .await?;
        let Some(first) = seen.first() else { return Ok(None) };
        let sight = sight_of(first)?;
        if seen.len() > 1
            && key.is_some()
            && !sight.is_owner
            && let DatasetRef::Name(name) = which
        {
            let ids = seen.iter().map(|row| dataset_id(row.try_get(0)?));
            return Err(StoreError::SharedName { name, datasets: ids.collect::<Result<_>>()? });
        }
        Ok(Some(sight))
    }

    async fn create(
        &mut self,
        all: &[NewDataset],
        id: Option<DatasetId>,
        now: Timestamp,
    ) -> Result<Vec<Dataset>> {
        let mut created = Vec::with_capacity(all.len());
        for new in all {
            created.push(insert(self, new, id, now).await?);
        }
        if let Some(id) = id {
            let sql = "SELECT setval(sequence, $1) FROM (
                 SELECT pg_get_serial_sequence('datasets.datasets', 'id')::regclass AS sequence
             ) AS s WHERE $1 > coalesce(pg_sequence_last_value(sequence), 0)";
            sqlx::query(sql).bind(id.get()).execute(self).await?;
        }
        Ok(created)
    }

    async fn describe(&mut self, old: &Dataset, new: &Dataset) -> Result<()> {
        let changed = sqlx::query(
            "UPDATE datasets.datasets SET name = $2, folded = $3, description = $4, searched = $5,
                 metadata = jsonb_object($6::text[], $7::text[]) WHERE id = $1",
        )
        .bind(old.id.get())
        .bind(&new.name)
        .bind(new.name.to_lowercase())
        .bind(&new.description)
        .bind(new.description.to_lowercase())
        .bind(new.metadata.keys().collect::<Vec<_>>())
        .bind(new.metadata.values().collect::<Vec<_>>())
        .execute(self)
        .await;
        match changed {
            Err(sqlx::Error::Database(fault)) if fault.is_unique_violation() => {
                Err(Refusal::NameTaken { name: new.name.clone() }.into())
            }
            changed => Ok(changed.map(drop)?),
        }
    }

    async fn add_columns(
        &mut self,
        dataset: DatasetId,
        old: &[Column],
        new: &[(String, Dtype)],
        now: Timestamp,
    ) -> Result<()> {
        let mut names: BTreeSet<&str> = old.iter().map(|column| column.name.as_str()).collect();
        let mut arrays: Vec<Array> = old.iter().map(|column| Array::of(column.dtype)).collect();
        let (mut positions, mut slots) = (Vec::new(), Vec::new());
        let (mut new_names, mut dtypes) = (Vec::new(), Vec::new());
        for (name, dtype) in new.iter().filter(|(name, _)| names.insert(name)) {
            let array = Array::of(*dtype);
            arrays.push(array);
            positions.push(i32::try_from(arrays.len()).unwrap_or(i32::MAX));
            let slot = arrays.iter().filter(|other| **other == array).count();
            slots.push(i32::try_from(slot).unwrap_or(i32::MAX));
            new_names.push(name.as_str());
            dtypes.push(dtype.to_string());
        }
        if new_names.is_empty() {
            return Ok(());
        }
        sqlx::query(
            "INSERT INTO datasets.columns (dataset, position, slot, name, dtype, created_at)
             SELECT $1, position, slot, name, dtype, $6
             FROM unnest($2::integer[], $3::integer[], $4::text[], $5::text[])
                 AS new (position, slot, name, dtype) ORDER BY position",
        )
        .bind(dataset.get())
        .bind(positions)
        .bind(slots)
        .bind(new_names)
        .bind(dtypes)
        .bind(Time(now))
        .execute(self)
        .await?;
        Ok(())
    }
}

/// Creates a dataset, optionally with a given id.
///
/// # Errors
/// [`Refusal::NameTaken`] if the name is in use. With a given id, [`StoreError::Failed`] if the id or
/// the name is in use.
async fn insert(
    c: &mut PgConnection,
    new: &NewDataset,
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Dataset> {
    // The id of a deleted dataset is in use until its rows are removed. Otherwise these rows would
    // become rows of the new dataset.
    let inserted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO datasets.datasets
             (id, name, folded, description, searched, metadata, owner, created_at, updated_at)
         SELECT coalesce($1, nextval(pg_get_serial_sequence('datasets.datasets', 'id'))),
             $2, $3, $4, $5, jsonb_object($6::text[], $7::text[]), $8, $9, $9
         WHERE NOT EXISTS (SELECT FROM datasets.doomed WHERE dataset = $1)
         ON CONFLICT DO NOTHING RETURNING id",
    )
    .bind(id.map(DatasetId::get))
    .bind(&new.name)
    .bind(new.name.to_lowercase())
    .bind(&new.description)
    .bind(new.description.to_lowercase())
    .bind(new.metadata.keys().collect::<Vec<_>>())
    .bind(new.metadata.values().collect::<Vec<_>>())
    .bind(new.owner.map(KeyId::get))
    .bind(Time(now))
    .fetch_optional(&mut *c)
    .await?;
    let Some(inserted) = inserted else {
        return Err(match id {
            Some(id) => StoreError::failed(format!("dataset number {id} or its name is taken")),
            None => Refusal::NameTaken { name: new.name.clone() }.into(),
        });
    };
    let id = dataset_id(inserted)?;
    c.add_columns(id, &[], &new.columns, now).await?;
    for tag in &new.tags {
        tags::attach(c, id, new.owner, tag).await?;
    }
    Ok(new.dataset(id, now))
}

/// Reads a dataset from a record of the query in [`CatalogSession::sight`].
fn sight_of(row: &PgRow) -> Result<Sight> {
    let dataset = dataset_of(row)?;
    let [names, dtypes]: [Vec<String>; 2] = [row.try_get(14)?, row.try_get(15)?];
    let (ids, created): (Vec<i64>, Vec<Time>) = (row.try_get(13)?, row.try_get(16)?);
    let mut columns = Vec::with_capacity(ids.len());
    for (((id, name), text), Time(created_at)) in
        ids.into_iter().zip(names).zip(dtypes).zip(created)
    {
        let dtype = dtype(&text)?;
        columns.push(Column { id, dataset_id: dataset.id, name, dtype, created_at });
    }
    let time = |idx| row.try_get::<Option<Time>, _>(idx).map(|time| time.map(|Time(at)| at));
    Ok(Sight {
        dataset,
        is_owner: row.try_get(7)?,
        revision: unsigned(row.try_get(8)?)?,
        newest: time(9)?,
        owner: row.try_get::<Option<i64>, _>(10)?.map(KeyId::new),
        kept_from: time(11)?,
        matching_tags: row.try_get(12)?,
        columns,
    })
}

/// Reads a dataset from a record with its id, name, description, times, and metadata fields and values.
fn dataset_of(row: &PgRow) -> Result<Dataset> {
    let (Time(created_at), Time(updated_at)) = (row.try_get(3)?, row.try_get(4)?);
    let [fields, values]: [Vec<String>; 2] = [row.try_get(5)?, row.try_get(6)?];
    Ok(Dataset {
        id: dataset_id(row.try_get(0)?)?,
        name: row.try_get(1)?,
        description: row.try_get(2)?,
        metadata: fields.into_iter().zip(values).collect(),
        created_at,
        updated_at,
    })
}

/// Returns the datasets with these ids, in the order of the ids, skipping missing datasets.
pub(super) async fn by_ids(c: &mut PgConnection, ids: Vec<i64>) -> Result<Vec<Dataset>> {
    let sql = format!(
        "SELECT d.id, d.name, d.description, d.created_at, d.updated_at, {METADATA}
         FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
         JOIN datasets.datasets d ON d.id = wanted.id ORDER BY wanted.place"
    );
    let found = sqlx::query(AssertSqlSafe(sql)).bind(ids).fetch_all(c).await?;
    found.iter().map(dataset_of).collect()
}

/// Returns the datasets with a retention limit. The index `datasets_retained` covers the metadata fields
/// of the limits.
pub(super) async fn retained(c: &mut PgConnection) -> Result<Vec<Dataset>> {
    let sql = "SELECT id FROM datasets.datasets
         WHERE metadata ?| '{keep_days,keep_bytes}' ORDER BY id";
    let ids: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut *c).await?;
    by_ids(c, ids).await
}

/// Returns the datasets that are visible to `key` and match the filter. A text filter sorts the datasets
/// by relevance, other filters by id.
pub(super) async fn list(
    c: &mut PgConnection,
    key: KeyId,
    filter: Filter,
    skip: u64,
    limit: usize,
) -> Result<Listed> {
    let (mut fields, mut values) = (Vec::new(), Vec::new());
    let mut text = None;
    match &filter {
        Filter::All => {}
        Filter::Text(searched) => text = Some(sought(searched.to_lowercase().trim())),
        Filter::Metadata(wanted) => {
            (fields, values) =
                wanted.iter().map(|(field, value)| (sought(field), sought(value))).unzip();
        }
    }
    let words: Vec<String> =
        text.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let (count, ids): (i64, Vec<i64>) = sqlx::query_as(FOUND)
        .bind(key.get())
        .bind(fields)
        .bind(values)
        .bind(text)
        .bind(words)
        .bind(i64::try_from(skip).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_one(&mut *c)
        .await?;
    let count: u64 = unsigned(count)?;
    let is_last = skip.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX)) >= count;
    Ok(Listed { count: Some(count), is_last, datasets: by_ids(c, ids).await? })
}
