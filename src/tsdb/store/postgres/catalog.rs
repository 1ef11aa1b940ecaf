//! The catalog in its tables: datasets and their columns, and who may see them.

use std::collections::BTreeMap;

use db::postgres::fault::unsigned;
use model::{
    block::Block,
    dataset::{Column, Dataset, DatasetId, Dtype},
    key::KeyId,
    timestamp::Timestamp,
};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    Result, StoreError,
    head::{Head, check_place},
    tags,
    texts::{dtype, shown_name, sought},
};
use crate::{
    catalog::{Change, ColumnChange, DatasetChange, DatasetRef, NewDataset, Refusal},
    rollup::Fold,
    store::Sight,
};

/// Datasets of one name that an error lists at most: enough to choose from, and few to look through.
const SHARED_MAX: i64 = 20;

/// The dataset of a stored number.
pub(super) fn dataset_id(number: i64) -> Result<DatasetId> {
    let error = || sqlx::Error::Decode(format!("{number} is no dataset").into());
    DatasetId::new(number).ok_or_else(|| error().into())
}

/// Whether there is a dataset of a number.
pub(super) async fn is_listed(c: &mut PgConnection, id: DatasetId) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT FROM datasets WHERE id = $1)";
    Ok(sqlx::query_scalar(sql).bind(id.get()).fetch_one(c).await?)
}

/// Creates a dataset with the number `id`, of which the rows are on the server `place`; `None` for this
/// one.
///
/// # Errors
/// [`Refusal`] if the name or the number is taken.
pub(super) async fn insert(
    c: &mut PgConnection,
    new: &NewDataset,
    id: DatasetId,
    place: Option<i64>,
    now: Timestamp,
) -> Result<Dataset> {
    let inserted: Option<i64> = sqlx::query_scalar(
        "INSERT INTO datasets (id, name, folded, description, searched, owner, created_at)
         OVERRIDING SYSTEM VALUE
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING RETURNING id",
    )
    .bind(id.get())
    .bind(&new.name)
    .bind(new.name.to_lowercase())
    .bind(&new.description)
    .bind(new.description.to_lowercase())
    .bind(new.owner.map(KeyId::get))
    .bind(now.micros())
    .fetch_optional(&mut *c)
    .await?;
    if inserted.is_none() {
        let refusal = if is_listed(c, id).await? {
            Refusal::NumberTaken { dataset: id }
        } else {
            Refusal::NameTaken { name: new.name.clone() }
        };
        return Err(refusal.into());
    }
    // What is left of a deleted dataset of this number would be its rows, and its rows be removed with
    // that.
    let sql = "INSERT INTO head (dataset, place, updated_at) SELECT $1, $2, $3
         WHERE NOT EXISTS (SELECT FROM doomed WHERE dataset = $1)";
    let head = sqlx::query(sql).bind(id.get()).bind(place).bind(now.micros());
    if head.execute(&mut *c).await?.rows_affected() == 0 {
        return Err(Refusal::NumberTaken { dataset: id }.into());
    }
    insert_metadata(c, id, &new.metadata).await?;
    add_columns(c, id, &new.columns, now).await?;
    for tag in &new.tags {
        tags::attach(c, id, new.owner, tag).await?;
    }
    Ok(Dataset {
        id,
        name: new.name.clone(),
        description: new.description.clone(),
        metadata: new.metadata.clone(),
        created_at: now,
        updated_at: now,
    })
}

async fn insert_metadata(
    c: &mut PgConnection,
    dataset: DatasetId,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    if metadata.is_empty() {
        return Ok(());
    }
    let sql = "INSERT INTO metadata (dataset, field, value)
         SELECT $1, * FROM unnest($2::text[], $3::text[])";
    sqlx::query(sql)
        .bind(dataset.get())
        .bind(metadata.keys().collect::<Vec<_>>())
        .bind(metadata.values().collect::<Vec<_>>())
        .execute(c)
        .await?;
    Ok(())
}

/// Adds the columns that the dataset does not have.
async fn add_columns(
    c: &mut PgConnection,
    dataset: DatasetId,
    columns: &[(String, Dtype)],
    now: Timestamp,
) -> Result<()> {
    for (name, dtype) in columns {
        sqlx::query(
            "INSERT INTO columns (dataset, ordinal, name, dtype, created_at)
             VALUES ($1, (SELECT count(*) FROM columns WHERE dataset = $1), $2, $3, $4)
             ON CONFLICT (dataset, name) DO NOTHING",
        )
        .bind(dataset.get())
        .bind(name)
        .bind(dtype.to_string())
        .bind(now.micros())
        .execute(&mut *c)
        .await?;
    }
    Ok(())
}

/// Changes a dataset's description or columns; what it is now.
pub(super) async fn change(
    c: &mut PgConnection,
    dataset: DatasetId,
    change: &DatasetChange,
    now: Timestamp,
) -> Result<Sight> {
    // No rows come meanwhile.
    let is_empty = Head::lock(c, dataset).await?.is_empty();
    change_locked(c, dataset, change, is_empty, now).await
}

/// Changes a dataset whose state is locked, on the server that has the catalog. `is_empty` says that it
/// never had rows.
pub(super) async fn change_locked(
    c: &mut PgConnection,
    dataset: DatasetId,
    change: &DatasetChange,
    is_empty: bool,
    now: Timestamp,
) -> Result<Sight> {
    let old = find(c, dataset).await?;
    match change {
        DatasetChange::Description(change) => describe(c, &old, change, is_empty).await?,
        DatasetChange::Column(change) => change_column(c, &old, change, is_empty, now).await?,
        DatasetChange::NewColumns(columns) => add_columns(c, dataset, columns, now).await?,
    }
    touch(c, dataset, change, now).await?;
    find(c, dataset).await
}

/// Notes a change in the state of a dataset.
pub(super) async fn touch(
    c: &mut PgConnection,
    dataset: DatasetId,
    change: &DatasetChange,
    now: Timestamp,
) -> Result<()> {
    let is_added = matches!(
        change,
        DatasetChange::NewColumns(_) | DatasetChange::Column(ColumnChange::Add(..))
    );
    let is_renamed = matches!(
        change,
        DatasetChange::Column(ColumnChange::Rename { .. } | ColumnChange::Delete(_))
    );
    // Also where nothing is written: writers learn by it that what they know has changed.
    let sql = "UPDATE head SET updated_at = coalesce($2, updated_at),
         renamed_after = CASE WHEN $3 THEN revision ELSE renamed_after END WHERE dataset = $1";
    sqlx::query(sql)
        .bind(dataset.get())
        .bind(Some(now.micros()).filter(|_| !is_added))
        .bind(is_renamed)
        .execute(c)
        .await?;
    Ok(())
}

async fn find(c: &mut PgConnection, dataset: DatasetId) -> Result<Sight> {
    let found = sight(c, None, &DatasetRef::Id(dataset)).await?;
    found.map(|placed| placed.sight).ok_or(StoreError::NoDataset { dataset })
}

async fn describe(
    c: &mut PgConnection,
    Sight { dataset: old, columns, .. }: &Sight,
    change: &Change,
    is_empty: bool,
) -> Result<()> {
    let mut new = old.clone();
    change.apply(&mut new);
    let is_refolded =
        Fold::for_dataset(columns, &old.metadata) != Fold::for_dataset(columns, &new.metadata);
    if is_refolded && !is_empty {
        return Err(Refusal::Refolds.into());
    }
    let changed = sqlx::query(
        "UPDATE datasets SET name = $2, folded = $3, description = $4, searched = $5 WHERE id = $1",
    )
    .bind(old.id.get())
    .bind(&new.name)
    .bind(new.name.to_lowercase())
    .bind(&new.description)
    .bind(new.description.to_lowercase())
    .execute(&mut *c)
    .await;
    match changed {
        Err(sqlx::Error::Database(fault)) if fault.is_unique_violation() => {
            return Err(Refusal::NameTaken { name: new.name }.into());
        }
        changed => changed?,
    };
    if new.metadata != old.metadata {
        sqlx::query("DELETE FROM metadata WHERE dataset = $1")
            .bind(old.id.get())
            .execute(&mut *c)
            .await?;
        insert_metadata(c, old.id, &new.metadata).await?;
    }
    Ok(())
}

/// Changes one column, if the buckets that are there stay those that its rows fold into. A deleted
/// one keeps its place, since chunks hold columns by their places.
async fn change_column(
    c: &mut PgConnection,
    Sight { dataset, columns: old, .. }: &Sight,
    change: &ColumnChange,
    is_empty: bool,
    now: Timestamp,
) -> Result<()> {
    let new = change.apply(dataset.id, old, now)?;
    let before = Fold::for_dataset(old, &dataset.metadata);
    let after = Fold::for_dataset(&new, &dataset.metadata);
    // Rows have no value in a new column.
    let is_new = matches!(change, ColumnChange::Add(..));
    let continues = before.is_none_or(|before| after.is_some_and(|after| after.continues(before)));
    if before != after && !is_empty && !(is_new && continues) {
        return Err(Refusal::Refolds.into());
    }
    let (name, new_name) = match change {
        ColumnChange::Add(name, dtype) => {
            return add_columns(c, dataset.id, &[(name.clone(), *dtype)], now).await;
        }
        ColumnChange::Rename { name, new_name } => (name, Some(new_name)),
        ColumnChange::Delete(name) => (name, None),
    };
    sqlx::query(
        "UPDATE columns SET name = coalesce($3, chr(9) || ordinal) WHERE dataset = $1 AND name = $2",
    )
    .bind(dataset.id.get())
    .bind(name)
    .bind(new_name)
    .execute(c)
    .await?;
    Ok(())
}

/// What is seen of a dataset, and the server that has its rows, where that is another one: then the state
/// in `sight` is an old one.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) sight: Sight,
    pub(super) place: Option<i64>,
}

/// What a statement reads of a dataset that a key may see; before the last one, which is its place, are
/// four of its columns.
type Seen = (
    i64,
    String,
    String,
    i64,
    i64,
    bool,
    i64,
    Option<i64>,
    Vec<String>,
    Vec<String>,
    Vec<String>,
    Vec<i64>,
    Vec<String>,
    Vec<String>,
    Vec<i64>,
    Option<i64>,
);

/// What `key` sees of the dataset, if it may see it; without a key what the service sees. Of those
/// with one name it means its own; several of others are an error, since anybody may call a dataset
/// as another one is called.
pub(super) async fn sight(
    c: &mut PgConnection,
    key: Option<KeyId>,
    which: &DatasetRef,
) -> Result<Option<Placed>> {
    let (condition, id, name) = match which {
        DatasetRef::Id(id) => ("d.id = $1", id.get(), String::new()),
        DatasetRef::Name(name) => ("d.name = $2", 0, sought(name)),
    };
    let sql = format!(
        "SELECT * FROM (
             SELECT d.id, d.name, d.description, d.created_at, h.updated_at,
                 d.owner IS NOT DISTINCT FROM $3 AS own, h.revision, h.newest,
                 ARRAY(SELECT t.name FROM dataset_tags dt
                     JOIN key_tags kt ON kt.tag = dt.tag AND kt.key = $3
                     JOIN tags t ON t.id = dt.tag WHERE dt.dataset = d.id ORDER BY t.name) AS shared,
                 ARRAY(SELECT field FROM metadata WHERE dataset = d.id ORDER BY field),
                 ARRAY(SELECT value FROM metadata WHERE dataset = d.id ORDER BY field),
                 ARRAY(SELECT id FROM columns WHERE dataset = d.id ORDER BY ordinal),
                 ARRAY(SELECT name FROM columns WHERE dataset = d.id ORDER BY ordinal),
                 ARRAY(SELECT dtype FROM columns WHERE dataset = d.id ORDER BY ordinal),
                 ARRAY(SELECT created_at FROM columns WHERE dataset = d.id ORDER BY ordinal),
                 h.place
             FROM datasets d JOIN head h ON h.dataset = d.id
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
    let is_plain = key.is_none() || seen.first().is_some_and(|seen| seen.5);
    if seen.len() > 1
        && !is_plain
        && let DatasetRef::Name(name) = which
    {
        let datasets = seen.iter().map(|seen| dataset_id(seen.0)).collect::<Result<_>>()?;
        return Err(StoreError::SharedName { name: name.clone(), datasets });
    }
    seen.truncate(1);
    seen.first().map(sight_of).transpose()
}

fn sight_of(seen: &Seen) -> Result<Placed> {
    let (id, name, description, created_at, updated_at, is_owner, revision, newest, tags, ..) =
        seen;
    let (.., fields, values, ids, names, dtypes, created, place) = seen;
    let id = dataset_id(*id)?;
    let column = |(((id, name), dtype_text), at): (((&i64, &String), &String), &i64)| {
        Ok(Column {
            id: *id,
            dataset_id: dataset_id(seen.0)?,
            name: shown_name(name.clone()),
            dtype: dtype(dtype_text)?,
            created_at: Timestamp::from_micros(*at),
        })
    };
    let columns = ids.iter().zip(names).zip(dtypes).zip(created).map(column).collect::<Result<_>>();
    let dataset = Dataset {
        id,
        name: name.clone(),
        description: description.clone(),
        metadata: fields.iter().cloned().zip(values.iter().cloned()).collect(),
        created_at: Timestamp::from_micros(*created_at),
        updated_at: Timestamp::from_micros(*updated_at),
    };
    let sight = Sight {
        dataset,
        is_owner: *is_owner,
        matching_tags: tags.clone(),
        columns: columns?,
        revision: unsigned(*revision)?,
        newest: newest.map(Timestamp::from_micros),
    };
    Ok(Placed { sight, place: *place })
}

/// A dataset's number, name, description, times, and the fields and values of its metadata.
type Described = (i64, String, String, i64, i64, Vec<String>, Vec<String>);

/// The datasets of these numbers, in their order; those that are gone are left out.
pub(super) async fn by_ids(c: &mut PgConnection, ids: Vec<i64>) -> Result<Vec<Dataset>> {
    let rows: Vec<Described> = sqlx::query_as(
        "SELECT d.id, d.name, d.description, d.created_at, h.updated_at,
             ARRAY(SELECT field FROM metadata WHERE dataset = d.id ORDER BY field),
             ARRAY(SELECT value FROM metadata WHERE dataset = d.id ORDER BY field)
         FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, place)
         JOIN datasets d ON d.id = wanted.id JOIN head h ON h.dataset = d.id ORDER BY wanted.place",
    )
    .bind(ids)
    .fetch_all(c)
    .await?;
    let dataset = |(id, name, description, created_at, updated_at, fields, values): Described| {
        Ok(Dataset {
            id: dataset_id(id)?,
            name,
            description,
            metadata: fields.into_iter().zip(values).collect(),
            created_at: Timestamp::from_micros(created_at),
            updated_at: Timestamp::from_micros(updated_at),
        })
    };
    rows.into_iter().map(dataset).collect()
}

/// The datasets that say how much they keep. The index `metadata_keep` is for these fields.
pub(super) async fn retained(c: &mut PgConnection) -> Result<Vec<Dataset>> {
    let sql = "SELECT DISTINCT dataset FROM metadata
         WHERE field IN ('keep_days', 'keep_bytes') ORDER BY dataset";
    let ids: Vec<i64> = sqlx::query_scalar(sql).fetch_all(&mut *c).await?;
    by_ids(c, ids).await
}

/// The number of a dataset's last commit, and a block of its columns without rows.
///
/// # Errors
/// [`StoreError::NoDataset`], or [`StoreError::Moved`] if another server has the dataset.
pub(super) async fn columns(c: &mut PgConnection, id: DatasetId) -> Result<(u64, Block)> {
    let sql =
        "SELECT revision, ARRAY(SELECT dtype FROM columns WHERE dataset = $1 ORDER BY ordinal),
             place, generation
         FROM head WHERE dataset = $1";
    let found: Option<(i64, Vec<String>, Option<i64>, i64)> =
        sqlx::query_as(sql).bind(id.get()).fetch_optional(c).await?;
    let (revision, dtypes, place, generation) =
        found.ok_or(StoreError::NoDataset { dataset: id })?;
    check_place(id, place, generation)?;
    let dtypes: Vec<Dtype> = dtypes.iter().map(|text| dtype(text)).collect::<Result<_>>()?;
    Ok((unsigned(revision)?, Block::new(&dtypes)))
}
