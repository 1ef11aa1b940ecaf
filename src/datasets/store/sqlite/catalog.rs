//! The catalogue in its tables: datasets, columns, tags, and who may see what.

use std::collections::BTreeMap;

use accounts::KeyId;
use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    timestamp::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, named_params, params, types::Type};

use super::StoreError;
use crate::{
    catalog::{Filter, Grant, Listed, NewDataset, Tag},
    query::DatasetRef,
    store::{Acquired, Created},
};

/// The columns of a dataset that [`dataset_of`] reads.
const FIELDS: &str = "d.id, d.name, d.description, d.created_at, d.updated_at";

/// True of the datasets that `:key` owns or shares a tag with.
const VISIBLE: &str = "(d.owner = :key OR EXISTS (
    SELECT 1 FROM dataset_tags dt JOIN key_tags kt ON kt.tag = dt.tag
    WHERE dt.dataset = d.id AND kt.key = :key))";

/// Creates a dataset, unless its name is taken.
pub(super) fn create(
    connection: &Connection,
    new: &NewDataset,
    now: Timestamp,
) -> Result<Created, StoreError> {
    let inserted = connection
        .prepare_cached(
            "INSERT INTO datasets (name, description, owner, created_at, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT (name) DO NOTHING RETURNING id",
        )?
        .query_row(
            params![new.name, new.description, new.owner.map(KeyId::get), now.micros()],
            dataset_id,
        )
        .optional()?;
    let Some(id) = inserted else { return Ok(Created::NameTaken) };
    connection
        .prepare_cached(
            "INSERT INTO progress (dataset, revision, n_fresh, n_late) VALUES (?1, 0, 0, 0)",
        )?
        .execute([id.get()])?;
    let mut field = connection
        .prepare_cached("INSERT INTO metadata (dataset, field, value) VALUES (?1, ?2, ?3)")?;
    for (name, value) in &new.metadata {
        field.execute(params![id.get(), name, value])?;
    }
    add_columns(connection, id, &new.columns, now)?;
    for tag in &new.tags {
        add_tag(connection, id, tag)?;
    }
    Ok(Created::New(Dataset {
        id,
        name: new.name.clone(),
        description: new.description.clone(),
        metadata: new.metadata.clone(),
        created_at: now,
        updated_at: now,
    }))
}

/// Adds the columns that the dataset does not have.
pub(super) fn add_columns(
    connection: &Connection,
    dataset: DatasetId,
    columns: &[(String, Dtype)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO columns (dataset, ordinal, name, dtype, created_at)
         VALUES (?1, (SELECT count(*) FROM columns WHERE dataset = ?1), ?2, ?3, ?4)
         ON CONFLICT (dataset, name) DO NOTHING",
    )?;
    for (name, dtype) in columns {
        insert.execute(params![dataset.get(), name, dtype.to_string(), now.micros()])?;
    }
    Ok(())
}

/// Gives the dataset a tag, which is created private if there is none of this name.
pub(super) fn add_tag(
    connection: &Connection,
    dataset: DatasetId,
    tag: &str,
) -> Result<bool, StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO tags (name, is_public) VALUES (?1, 0) ON CONFLICT (name) DO NOTHING",
        )?
        .execute([tag])?;
    let n_added = connection
        .prepare_cached(
            "INSERT INTO dataset_tags (dataset, tag)
             SELECT ?1, id FROM tags WHERE name = ?2 ON CONFLICT DO NOTHING",
        )?
        .execute(params![dataset.get(), tag])?;
    Ok(n_added > 0)
}

/// What acquiring `tag` would come to, without doing it.
pub(super) fn acquirable(
    connection: &Connection,
    key: KeyId,
    tag: &str,
) -> Result<Acquired, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT is_public, EXISTS (SELECT 1 FROM key_tags WHERE key = ?2 AND tag = tags.id)
         FROM tags WHERE name = ?1",
    )?;
    let found = statement
        .query_row(params![tag, key.get()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(match found {
        None => Acquired::Unknown,
        Some((_, true)) => Acquired::Held,
        Some((false, false)) => Acquired::Private,
        Some((true, false)) => Acquired::New,
    })
}

/// Gives a key a public tag that it does not hold.
pub(super) fn acquire(
    connection: &Connection,
    key: KeyId,
    tag: &str,
) -> Result<Acquired, StoreError> {
    let acquired = acquirable(connection, key, tag)?;
    if acquired == Acquired::New {
        connection
            .prepare_cached(
                "INSERT INTO key_tags (key, tag) SELECT ?1, id FROM tags WHERE name = ?2",
            )?
            .execute(params![key.get(), tag])?;
    }
    Ok(acquired)
}

/// The dataset, whoever may see it.
pub(super) fn dataset(
    connection: &Connection,
    which: &DatasetRef,
) -> Result<Option<Dataset>, StoreError> {
    let by = column_of(which);
    let sql = format!("SELECT {FIELDS} FROM datasets d WHERE d.{by} = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([value_of(which)], dataset_of).optional()?;
    let Some(mut dataset) = found else { return Ok(None) };
    dataset.metadata = metadata(connection, dataset.id)?;
    Ok(Some(dataset))
}

/// What `key` may do with the dataset, if it may see it.
pub(super) fn grant(
    connection: &Connection,
    key: KeyId,
    which: &DatasetRef,
) -> Result<Option<Grant>, StoreError> {
    let by = column_of(which);
    let sql = format!("SELECT d.id, d.owner IS :key FROM datasets d WHERE d.{by} = :which");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement
        .query_row(named_params! {":key": key.get(), ":which": value_of(which)}, |row| {
            Ok((dataset_id(row)?, row.get(1)?))
        })
        .optional()?;
    let Some((dataset, is_owner)) = found else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT t.name FROM dataset_tags dt
         JOIN key_tags kt ON kt.tag = dt.tag AND kt.key = ?2
         JOIN tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
    )?;
    let tags = statement.query_map(params![dataset.get(), key.get()], |row| row.get(0))?;
    let matching_tags: Vec<String> = tags.collect::<Result<_, _>>()?;
    let is_visible = is_owner || !matching_tags.is_empty();
    Ok(is_visible.then_some(Grant { dataset, is_owner, matching_tags }))
}

/// The datasets that `key` may see, in the order of their numbers, or the best match first.
pub(super) fn list(
    connection: &Connection,
    key: KeyId,
    filter: &Filter,
    (skip, limit): (u64, usize),
) -> Result<Listed, StoreError> {
    let key = key.get();
    let skip = i64::try_from(skip).unwrap_or(i64::MAX);
    match filter {
        Filter::All => {
            let matching = format!("FROM datasets d WHERE {VISIBLE}");
            let page = named_params! {":key": key, ":limit": limit, ":skip": skip};
            listed(connection, &matching, "d.id", page)
        }
        Filter::Text(text) => {
            let matching = format!(
                "FROM datasets d WHERE {VISIBLE} AND (instr(lower(d.name), :text) > 0
                 OR instr(lower(d.description), :text) > 0)"
            );
            let order = "CASE instr(lower(d.name), :text) WHEN 0 THEN 3
                 WHEN 1 THEN lower(d.name) <> :text ELSE 2 END, d.name";
            let text = text.to_ascii_lowercase();
            let page = named_params! {":key": key, ":text": text, ":limit": limit, ":skip": skip};
            listed(connection, &matching, order, page)
        }
        Filter::Metadata(field, value) => {
            let matching = format!(
                "FROM metadata m JOIN datasets d ON d.id = m.dataset
                 WHERE m.field = :field AND m.value = :value AND {VISIBLE}"
            );
            let page = named_params! {":key": key, ":field": field, ":value": value,
            ":limit": limit, ":skip": skip};
            listed(connection, &matching, "d.id", page)
        }
    }
}

fn listed(
    connection: &Connection,
    matching: &str,
    order: &str,
    page: &[(&str, &dyn ToSql)],
) -> Result<Listed, StoreError> {
    let sql = format!("SELECT {FIELDS} {matching} ORDER BY {order} LIMIT :limit OFFSET :skip");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(page, dataset_of)?;
    let mut datasets: Vec<Dataset> = found.collect::<Result<_, _>>()?;
    for dataset in &mut datasets {
        dataset.metadata = metadata(connection, dataset.id)?;
    }
    let is_filter = |(name, _): &&(&str, &dyn ToSql)| !matches!(*name, ":limit" | ":skip");
    let filter: Vec<_> = page.iter().filter(is_filter).copied().collect();
    let count = connection
        .prepare_cached(&format!("SELECT count(*) {matching}"))?
        .query_row(filter.as_slice(), |row| row.get(0))?;
    Ok(Listed { count, datasets })
}

/// A dataset's fields.
pub(super) fn metadata(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<BTreeMap<String, String>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT field, value FROM metadata WHERE dataset = ?1")?;
    let fields = statement.query_map([dataset.get()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(fields.collect::<Result<_, _>>()?)
}

/// A dataset's columns, in their order.
pub(super) fn columns(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<Column>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, dtype, created_at FROM columns WHERE dataset = ?1 ORDER BY ordinal",
    )?;
    let columns = statement.query_map([dataset.get()], |row| {
        Ok(Column {
            id: row.get(0)?,
            dataset_id: dataset,
            name: row.get(1)?,
            dtype: dtype(row, 2)?,
            created_at: Timestamp::from_micros(row.get(3)?),
        })
    })?;
    Ok(columns.collect::<Result<_, _>>()?)
}

/// The types of a dataset's columns, in their order.
pub(super) fn dtypes(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<Dtype>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT dtype FROM columns WHERE dataset = ?1 ORDER BY ordinal")?;
    let dtypes = statement.query_map([dataset.get()], |row| dtype(row, 0))?;
    Ok(dtypes.collect::<Result<_, _>>()?)
}

/// All tags.
pub(super) fn tags(connection: &Connection) -> Result<Vec<Tag>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT name, is_public FROM tags ORDER BY name")?;
    let tags = statement.query_map([], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

/// A dataset's tags.
pub(super) fn dataset_tags(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<Tag>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT t.name, t.is_public FROM dataset_tags dt JOIN tags t ON t.id = dt.tag
         WHERE dt.dataset = ?1 ORDER BY t.name",
    )?;
    let tags = statement.query_map([dataset.get()], tag_of)?;
    Ok(tags.collect::<Result<_, _>>()?)
}

fn tag_of(row: &Row<'_>) -> rusqlite::Result<Tag> {
    Ok(Tag { name: row.get(0)?, is_public: row.get(1)? })
}

fn dataset_of(row: &Row<'_>) -> rusqlite::Result<Dataset> {
    Ok(Dataset {
        id: dataset_id(row)?,
        name: row.get(1)?,
        description: row.get(2)?,
        metadata: BTreeMap::new(),
        created_at: Timestamp::from_micros(row.get(3)?),
        updated_at: Timestamp::from_micros(row.get(4)?),
    })
}

/// The dataset's number in the first column.
fn dataset_id(row: &Row<'_>) -> rusqlite::Result<DatasetId> {
    let number = row.get(0)?;
    DatasetId::new(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}

fn dtype(row: &Row<'_>, idx: usize) -> rusqlite::Result<Dtype> {
    let text: String = row.get(idx)?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(idx, Type::Text, Box::new(error))
    })
}

fn column_of(which: &DatasetRef) -> &'static str {
    match which {
        DatasetRef::Id(_) => "id",
        DatasetRef::Name(_) => "name",
    }
}

fn value_of(which: &DatasetRef) -> rusqlite::types::Value {
    match which {
        DatasetRef::Id(id) => id.get().into(),
        DatasetRef::Name(name) => name.clone().into(),
    }
}
