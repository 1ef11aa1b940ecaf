//! The catalog: datasets with their columns and access rights.

use std::collections::{BTreeMap, BTreeSet};

use db::postgres::fault::unsigned;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection};

use super::binary::Array;
use super::head::{Head, dtype};
use super::time::Time;
use super::{Result, StoreError};
use crate::catalog::{
    Change, ColumnChange, DatasetChange, DatasetRef, Filter, Listed, NewDataset, Refusal,
};
use crate::rollup::check_refold;
use crate::store::Sight;
use crate::store::tags::{self, sought};

/// Maximum number of datasets that an error about an ambiguous name lists.
const SHARED_MAX: i64 = 20;

/// SQL for the metadata fields of dataset `d` and for their values, in the same order.
const METADATA: &str = "ARRAY(SELECT key FROM jsonb_each_text(d.metadata) ORDER BY key),
     ARRAY(SELECT value FROM jsonb_each_text(d.metadata) ORDER BY key)";

/// Finds the datasets that are visible to key `$1`, with all fields `$2` and values `$3` and every word
/// of `$5`. Ranks them by the first of these rules that applies: the name begins with `$4`, the name
/// contains every word, the description contains every word, both together do. Scans all visible
/// datasets, since an index of parts of words would need an extension.
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

/// Converts a stored dataset id.
pub(super) fn dataset_id(number: i64) -> Result<DatasetId> {
    let error = || sqlx::Error::Decode(format!("dataset {number} is invalid").into());
    Ok(DatasetId::new(number).ok_or_else(error)?)
}

/// Creates either all or none of the datasets.
pub(super) async fn create(
    c: &mut PgConnection,
    all: Vec<NewDataset>,
    now: Timestamp,
) -> Result<Vec<Dataset>> {
    let mut created = Vec::with_capacity(all.len());
    for new in &all {
        created.push(insert(c, new, None, now).await?);
    }
    Ok(created)
}

/// Creates a dataset, optionally with a given id.
///
/// # Errors
/// [`Refusal::NameTaken`] if the name is in use, or [`StoreError::Failed`] if the given id may be in
/// use.
pub(super) async fn insert(
    c: &mut PgConnection,
    new: &NewDataset,
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Dataset> {
    // If a deleted dataset with this id still has stored rows, they would become rows of the new one.
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
    add_columns(c, id, &[], &new.columns, now).await?;
    for tag in &new.tags {
        tags::attach(c, id, new.owner, tag).await?;
    }
    Ok(new.dataset(id, now))
}

/// Adds the columns that a dataset lacks, after its `old` columns.
async fn add_columns(
    c: &mut PgConnection,
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
    .execute(c)
    .await?;
    Ok(())
}

/// Changes the description or the columns of a dataset. Returns the changed dataset.
pub(super) async fn change(
    c: &mut PgConnection,
    dataset: DatasetId,
    change: DatasetChange,
    now: Timestamp,
) -> Result<Sight> {
    // The lock prevents other writers from adding rows in the meantime.
    let is_empty = Head::lock(c, dataset).await?.is_empty();
    let old = find(c, dataset).await?;
    match &change {
        DatasetChange::Description(change) => describe(c, &old, change, is_empty).await?,
        DatasetChange::Column(change) => change_column(c, &old, change, is_empty, now).await?,
        DatasetChange::NewColumns(columns) => {
            add_columns(c, dataset, &old.columns, columns, now).await?;
        }
    }
    let is_added = matches!(
        change,
        DatasetChange::NewColumns(_) | DatasetChange::Column(ColumnChange::Add(..))
    );
    // The record is updated even if nothing changes, since its new version tells writers that the
    // columns may have changed.
    let sql = "UPDATE datasets.datasets SET updated_at = coalesce($2, updated_at) WHERE id = $1";
    sqlx::query(sql)
        .bind(dataset.get())
        .bind(Some(Time(now)).filter(|_| !is_added))
        .execute(&mut *c)
        .await?;
    find(c, dataset).await
}

async fn find(c: &mut PgConnection, dataset: DatasetId) -> Result<Sight> {
    sight(c, None, DatasetRef::Id(dataset)).await?.ok_or(StoreError::NoDataset { dataset })
}

async fn describe(
    c: &mut PgConnection,
    Sight { dataset: old, columns, .. }: &Sight,
    change: &Change,
    is_empty: bool,
) -> Result<()> {
    let mut new = old.clone();
    change.apply(&mut new);
    check_refold((columns, &old.metadata), (columns, &new.metadata), is_empty)?;
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
    .execute(c)
    .await;
    match changed {
        Err(sqlx::Error::Database(fault)) if fault.is_unique_violation() => {
            Err(Refusal::NameTaken { name: new.name }.into())
        }
        changed => Ok(changed.map(drop)?),
    }
}

/// Changes a column, unless the stored buckets would then no longer match the rows.
async fn change_column(
    c: &mut PgConnection,
    Sight { dataset, columns: old, .. }: &Sight,
    change: &ColumnChange,
    is_empty: bool,
    now: Timestamp,
) -> Result<()> {
    let new = change.apply(dataset.id, old, now)?;
    check_refold((old, &dataset.metadata), (&new, &dataset.metadata), is_empty)?;
    let changed = match change {
        ColumnChange::Add(name, dtype) => {
            return add_columns(c, dataset.id, old, &[(name.clone(), *dtype)], now).await;
        }
        ColumnChange::Rename { name, new_name } => sqlx::query(
            "UPDATE datasets.columns SET name = $3
             WHERE dataset = $1 AND name = $2 AND deleted_at IS NULL",
        )
        .bind(dataset.id.get())
        .bind(name)
        .bind(new_name),
        ColumnChange::Delete(name) => sqlx::query(
            "UPDATE datasets.columns SET deleted_at = $3
             WHERE dataset = $1 AND name = $2 AND deleted_at IS NULL",
        )
        .bind(dataset.id.get())
        .bind(name)
        .bind(Time(now)),
    };
    changed.execute(c).await?;
    Ok(())
}

/// Columns of a visible dataset in the query of [`sight`].
type Seen = (
    i64,
    String,
    String,
    Time,
    Time,
    Vec<String>,
    Vec<String>,
    bool,
    i64,
    Option<Time>,
    Vec<String>,
    Vec<i64>,
    Vec<String>,
    Vec<String>,
    Vec<Time>,
);

/// Returns the dataset as it is visible to `key`, or to the service if there is no key. Returns
/// `None` if it is not visible. If several datasets have the name, the key's own dataset is meant.
/// If the key owns none of them, the name is ambiguous, which is an error, since anyone can reuse
/// the name of an existing dataset.
pub(super) async fn sight(
    c: &mut PgConnection,
    key: Option<KeyId>,
    which: DatasetRef,
) -> Result<Option<Sight>> {
    let (condition, id, name) = match &which {
        DatasetRef::Id(id) => ("d.id = $1", id.get(), String::new()),
        DatasetRef::Name(name) => ("d.name = $2", 0, sought(name)),
    };
    let columns = "FROM datasets.columns WHERE dataset = d.id ORDER BY position";
    let sql = format!(
        "SELECT * FROM (
             SELECT d.id, d.name, d.description, d.created_at, d.updated_at, {METADATA},
                 d.owner IS NOT DISTINCT FROM $3 AS own, d.revision, d.latest,
                 ARRAY(SELECT t.name FROM datasets.dataset_tags dt
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
    let mut seen: Vec<Seen> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(id)
        .bind(name)
        .bind(key.map(KeyId::get))
        .bind(SHARED_MAX)
        .fetch_all(c)
        .await?;
    let is_plain = key.is_none() || seen.first().is_some_and(|seen| seen.7);
    if seen.len() > 1
        && !is_plain
        && let DatasetRef::Name(name) = which
    {
        let datasets = seen.iter().map(|seen| dataset_id(seen.0)).collect::<Result<_>>()?;
        return Err(StoreError::SharedName { name, datasets });
    }
    seen.truncate(1);
    seen.pop().map(sight_of).transpose()
}

fn sight_of(seen: Seen) -> Result<Sight> {
    let dataset = described((seen.0, seen.1, seen.2, seen.3, seen.4, seen.5, seen.6))?;
    let (is_owner, revision, latest, matching_tags) = (seen.7, seen.8, seen.9, seen.10);
    let (ids, names, dtypes, created) = (seen.11, seen.12, seen.13, seen.14);
    let column = |(((id, name), text), Time(created_at)): (((i64, String), String), Time)| {
        Ok(Column { id, dataset_id: dataset.id, name, dtype: dtype(&text)?, created_at })
    };
    let columns = ids.into_iter().zip(names).zip(dtypes).zip(created).map(column);
    let columns = columns.collect::<Result<_>>()?;
    let revision = unsigned(revision)?;
    let newest = latest.map(|Time(at)| at);
    Ok(Sight { dataset, is_owner, matching_tags, columns, revision, newest })
}

/// Id, name, description, times, and metadata fields and values of a dataset.
type Described = (i64, String, String, Time, Time, Vec<String>, Vec<String>);

fn described(found: Described) -> Result<Dataset> {
    let (id, name, description, Time(created_at), Time(updated_at), fields, values) = found;
    let metadata: BTreeMap<String, String> = fields.into_iter().zip(values).collect();
    Ok(Dataset { id: dataset_id(id)?, name, description, metadata, created_at, updated_at })
}

/// Returns the datasets of these ids in their order, skipping missing datasets.
pub(super) async fn by_ids(c: &mut PgConnection, ids: Vec<i64>) -> Result<Vec<Dataset>> {
    let sql = format!(
        "SELECT d.id, d.name, d.description, d.created_at, d.updated_at, {METADATA}
         FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
         JOIN datasets.datasets d ON d.id = wanted.id ORDER BY wanted.place"
    );
    let found: Vec<Described> = sqlx::query_as(AssertSqlSafe(sql)).bind(ids).fetch_all(c).await?;
    found.into_iter().map(described).collect()
}

/// Returns the datasets with a retention limit. The index `datasets_retained` covers the metadata fields
/// of the limits.
pub(super) async fn retained(c: &mut PgConnection) -> Result<Vec<Dataset>> {
    let sql = "SELECT id FROM datasets.datasets
         WHERE metadata ?| '{keep_days,keep_bytes}' ORDER BY id";
    let ids: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut *c).await?;
    by_ids(c, ids).await
}

/// Returns the datasets that are visible to `key` and match, by id or by relevance.
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
