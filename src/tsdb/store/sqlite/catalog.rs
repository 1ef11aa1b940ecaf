//! The catalogue in its tables: datasets and their columns, and who may see them.

use std::collections::{BTreeMap, BTreeSet};

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    key::KeyId,
    timestamp::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params, types::Type};

use super::{
    StoreError,
    postings::{self, Term},
    search::SearchTexts,
    tags,
};
use crate::{
    catalog::{COLUMNS_MAX, Change, DatasetRef, Grant, NewDataset},
    rollup::Fold,
    store::{ColumnOutcome, Created, DatasetFields, Updated},
};

/// Datasets of one name that an error lists at most: enough to choose from, and few to look through.
const SHARED_MAX: usize = 20;

/// What the stored name of a deleted column starts with. No other name contains it, as a control
/// character.
const DELETED: char = '\t';

/// Creates datasets, all or none.
pub(super) fn create(
    connection: &Connection,
    all: &[NewDataset],
    now: Timestamp,
) -> Result<Created, StoreError> {
    // What is refused is refused before anything is written.
    let mut names = BTreeSet::new();
    for new in all {
        let is_first = names.insert((new.owner.map(KeyId::get), new.name.as_str()));
        if !is_first || owned(connection, new.owner, &new.name)?.is_some() {
            return Ok(Created::NameTaken { name: new.name.clone() });
        }
    }
    let mut created = Vec::with_capacity(all.len());
    let mut terms: BTreeMap<Term<'_>, Vec<DatasetId>> = BTreeMap::new();
    for new in all {
        let dataset = insert(connection, new, now)?;
        let of_tags = tags::ids_of_dataset(connection, dataset.id)?.into_iter().map(Term::Tag);
        let of_fields = new.metadata.iter().map(|(field, value)| Term::Field(field, value));
        for term in new.owner.map(Term::Owner).into_iter().chain(of_tags).chain(of_fields) {
            terms.entry(term).or_default().push(dataset.id);
        }
        created.push(dataset);
    }
    for (term, ids) in &terms {
        postings::add(connection, term, ids)?;
    }
    for dataset in &created {
        SearchTexts::new(dataset).add(connection, dataset.id)?;
    }
    Ok(Created::New(created))
}

/// Inserts a dataset, and all that follows it but what it is found by.
fn insert(
    connection: &Connection,
    new: &NewDataset,
    now: Timestamp,
) -> Result<Dataset, StoreError> {
    let folded = new.name.to_lowercase();
    let id = connection
        .prepare_cached(
            "INSERT INTO datasets (name, folded, description, owner, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?5) RETURNING id",
        )?
        .query_row(
            params![new.name, folded, new.description, new.owner.map(KeyId::get), now.micros()],
            dataset_id,
        )?;
    connection
        .prepare_cached(
            "INSERT INTO progress (dataset, revision, n_fresh, n_late) VALUES (?1, 0, 0, 0)",
        )?
        .execute([id.get()])?;
    insert_metadata(connection, id, &new.metadata)?;
    add_columns(connection, id, &new.columns, now)?;
    for tag in &new.tags {
        tags::attach(connection, id, new.owner, tag)?;
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

fn insert_metadata(
    connection: &Connection,
    dataset: DatasetId,
    metadata: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    let mut field = connection
        .prepare_cached("INSERT INTO metadata (dataset, field, value) VALUES (?1, ?2, ?3)")?;
    for (name, value) in metadata {
        field.execute(params![dataset.get(), name, value])?;
    }
    Ok(())
}

/// Changes what a dataset is called and described by.
pub(super) fn update(
    connection: &Connection,
    id: DatasetId,
    change: &Change,
    now: Timestamp,
) -> Result<Updated, StoreError> {
    let Some(old) = dataset(connection, &DatasetRef::Id(id))? else {
        return Err(StoreError::NoDataset { dataset: id });
    };
    let mut new = old.clone();
    change.apply(&mut new);
    let owner = owner(connection, id)?;
    if new.name != old.name && owned(connection, owner, &new.name)?.is_some() {
        return Ok(Updated::NameTaken);
    }
    let columns = columns(connection, id)?;
    let is_refolded =
        Fold::for_dataset(&columns, &old.metadata) != Fold::for_dataset(&columns, &new.metadata);
    if is_refolded && has_rows(connection, id)? {
        return Ok(Updated::Refolds);
    }
    new.updated_at = now;
    let folded = new.name.to_lowercase();
    connection
        .prepare_cached(
            "UPDATE datasets SET name = ?2, folded = ?3, description = ?4, updated_at = ?5
             WHERE id = ?1",
        )?
        .execute(params![id.get(), new.name, folded, new.description, now.micros()])?;
    let (texts, old_texts) = (SearchTexts::new(&new), SearchTexts::new(&old));
    if texts != old_texts {
        old_texts.remove(connection, id)?;
        texts.add(connection, id)?;
    }
    if new.metadata != old.metadata {
        forget_metadata(connection, id, &old.metadata)?;
        insert_metadata(connection, id, &new.metadata)?;
        for (field, value) in &new.metadata {
            postings::add(connection, &Term::Field(field, value), &[id])?;
        }
    }
    Ok(Updated::Done(new))
}

/// Takes a dataset out of every table of the catalogue; whether it was there. Its tags stay.
pub(super) fn forget(connection: &Connection, id: DatasetId) -> Result<bool, StoreError> {
    let Some(dataset) = dataset(connection, &DatasetRef::Id(id))? else { return Ok(false) };
    if let Some(owner) = owner(connection, id)? {
        postings::remove(connection, &Term::Owner(owner), id)?;
    }
    for tag in tags::ids_of_dataset(connection, id)? {
        postings::remove(connection, &Term::Tag(tag), id)?;
    }
    forget_metadata(connection, id, &dataset.metadata)?;
    SearchTexts::new(&dataset).remove(connection, id)?;
    for sql in [
        "DELETE FROM dataset_tags WHERE dataset = ?1",
        "DELETE FROM columns WHERE dataset = ?1",
        "DELETE FROM progress WHERE dataset = ?1",
        "DELETE FROM datasets WHERE id = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([id.get()])?;
    }
    Ok(true)
}

fn forget_metadata(
    connection: &Connection,
    id: DatasetId,
    metadata: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    for (field, value) in metadata {
        postings::remove(connection, &Term::Field(field, value), id)?;
    }
    connection.prepare_cached("DELETE FROM metadata WHERE dataset = ?1")?.execute([id.get()])?;
    Ok(())
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

/// Adds one column, if the buckets that are there stay those that its rows fold into.
pub(super) fn add_column(
    connection: &Connection,
    dataset: DatasetId,
    name: &str,
    dtype: Dtype,
    now: Timestamp,
) -> Result<ColumnOutcome, StoreError> {
    let old = columns(connection, dataset)?;
    if old.iter().any(|column| column.name == name) {
        return Ok(ColumnOutcome::Exists);
    }
    if old.len() >= COLUMNS_MAX {
        return Ok(ColumnOutcome::TooMany);
    }
    add_columns(connection, dataset, &[(name.to_owned(), dtype)], now)?;
    let new = columns(connection, dataset)?;
    let metadata = metadata(connection, dataset)?;
    if !continues(Fold::for_dataset(&old, &metadata), Fold::for_dataset(&new, &metadata))
        && has_rows(connection, dataset)?
    {
        let added = connection
            .prepare_cached("DELETE FROM columns WHERE dataset = ?1 AND name = ?2")?
            .execute(params![dataset.get(), name])?;
        debug_assert_eq!(added, 1, "it was added above");
        return Ok(ColumnOutcome::Refolds);
    }
    new.into_iter().next_back().map(ColumnOutcome::Done).ok_or(StoreError::NoDataset { dataset })
}

/// Renames a column, if the buckets that are there stay those that its rows fold into.
pub(super) fn rename_column(
    connection: &Connection,
    dataset: DatasetId,
    name: &str,
    new_name: &str,
) -> Result<ColumnOutcome, StoreError> {
    let old = columns(connection, dataset)?;
    let Some(place) = find_column(&old, name) else { return Ok(ColumnOutcome::Unknown) };
    if old.iter().any(|column| column.name == new_name) {
        return Ok(ColumnOutcome::Exists);
    }
    let mut new = old.clone();
    let Some(column) = new.get_mut(place) else { return Ok(ColumnOutcome::Unknown) };
    new_name.clone_into(&mut column.name);
    let renamed = column.clone();
    let metadata = metadata(connection, dataset)?;
    if Fold::for_dataset(&old, &metadata) != Fold::for_dataset(&new, &metadata)
        && has_rows(connection, dataset)?
    {
        return Ok(ColumnOutcome::Refolds);
    }
    connection
        .prepare_cached("UPDATE columns SET name = ?3 WHERE dataset = ?1 AND name = ?2")?
        .execute(params![dataset.get(), name, new_name])?;
    Ok(ColumnOutcome::Done(renamed))
}

/// Deletes a column, if the buckets of stored rows do not depend on it. It keeps its place, since
/// chunks hold columns by their places.
pub(super) fn delete_column(
    connection: &Connection,
    dataset: DatasetId,
    name: &str,
) -> Result<ColumnOutcome, StoreError> {
    let old = columns(connection, dataset)?;
    let Some(place) = find_column(&old, name) else { return Ok(ColumnOutcome::Unknown) };
    let mut new = old.clone();
    let Some(column) = new.get_mut(place) else { return Ok(ColumnOutcome::Unknown) };
    let deleted = column.clone();
    column.name.clear();
    let metadata = metadata(connection, dataset)?;
    if Fold::for_dataset(&old, &metadata) != Fold::for_dataset(&new, &metadata)
        && has_rows(connection, dataset)?
    {
        return Ok(ColumnOutcome::Refolds);
    }
    connection
        .prepare_cached(
            "UPDATE columns SET name = char(9) || ordinal WHERE dataset = ?1 AND name = ?2",
        )?
        .execute(params![dataset.get(), name])?;
    Ok(ColumnOutcome::Done(deleted))
}

/// The place of the column called `name`.
fn find_column(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|column| !column.is_deleted() && column.name == name)
}

/// Whether rows that lack what `new` takes beyond `old` fold into the same buckets by both.
fn continues(old: Fold, new: Fold) -> bool {
    match (old, new) {
        (Fold::Nothing, _) => true,
        (
            Fold::Bars { prices: old, volume: old_volume },
            Fold::Bars { prices: new, volume: new_volume },
        ) => old == new && (old_volume.is_none() || old_volume == new_volume),
        (
            Fold::Value { value: old, volume: old_volume },
            Fold::Value { value: new, volume: new_volume },
        ) => old == new && (old_volume.is_none() || old_volume == new_volume),
        _ => false,
    }
}

fn has_rows(connection: &Connection, dataset: DatasetId) -> Result<bool, StoreError> {
    let sql = "SELECT newest IS NOT NULL OR kept_from IS NOT NULL FROM progress WHERE dataset = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row([dataset.get()], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// The dataset, without a check of access. Of those with one name it is the service's own, else the
/// first.
pub(super) fn dataset(
    connection: &Connection,
    which: &DatasetRef,
) -> Result<Option<Dataset>, StoreError> {
    let found = match which {
        DatasetRef::Id(id) => connection
            .prepare_cached(
                "SELECT id, name, description, created_at, updated_at FROM datasets WHERE id = ?1",
            )?
            .query_row([id.get()], dataset_of),
        DatasetRef::Name(name) => connection
            .prepare_cached(
                "SELECT id, name, description, created_at, updated_at FROM datasets
                 WHERE name = ?1 ORDER BY owner IS NOT NULL, id LIMIT 1",
            )?
            .query_row([name], dataset_of),
    };
    let found = found.optional()?;
    let Some(mut dataset) = found else { return Ok(None) };
    dataset.metadata = metadata(connection, dataset.id)?;
    Ok(Some(dataset))
}

/// The dataset that `owner` calls `name`.
pub(super) fn owned(
    connection: &Connection,
    owner: Option<KeyId>,
    name: &str,
) -> Result<Option<DatasetId>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT id FROM datasets WHERE name = ?1 AND ifnull(owner, 0) = ?2")?;
    let owner = owner.map_or(0, KeyId::get);
    Ok(statement.query_row(params![name, owner], dataset_id).optional()?)
}

fn owner(connection: &Connection, id: DatasetId) -> Result<Option<KeyId>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT owner FROM datasets WHERE id = ?1")?;
    let owner: Option<i64> = statement.query_row([id.get()], |row| row.get(0))?;
    Ok(owner.map(KeyId::new))
}

/// What `key` may do with the dataset, if it may see it. Of those with one name it means its own;
/// several of others are an error, since anybody may call a dataset as another one is called.
pub(super) fn grant(
    connection: &Connection,
    key: KeyId,
    which: &DatasetRef,
) -> Result<Option<Grant>, StoreError> {
    let name = match which {
        DatasetRef::Id(id) => {
            let mut statement =
                connection.prepare_cached("SELECT id, owner IS ?2 FROM datasets WHERE id = ?1")?;
            let mut rows = statement.query(params![id.get(), key.get()])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            return grant_of(connection, key, row);
        }
        DatasetRef::Name(name) => name,
    };
    if let Some(dataset) = owned(connection, Some(key), name)? {
        return grant(connection, key, &DatasetRef::Id(dataset));
    }
    let mut statement =
        connection.prepare_cached("SELECT id, 0 FROM datasets WHERE name = ?1 ORDER BY id")?;
    let mut rows = statement.query([name])?;
    let mut grants = Vec::new();
    while let Some(row) = rows.next()? {
        grants.extend(grant_of(connection, key, row)?);
        if grants.len() >= SHARED_MAX {
            break;
        }
    }
    if grants.len() > 1 {
        let datasets = grants.into_iter().map(|grant| grant.dataset).collect();
        return Err(StoreError::SharedName { name: name.clone(), datasets });
    }
    Ok(grants.pop())
}

/// What `key` may do with the dataset of a row of its number and whether the key owns it.
fn grant_of(
    connection: &Connection,
    key: KeyId,
    row: &Row<'_>,
) -> Result<Option<Grant>, StoreError> {
    let (dataset, is_owner) = (dataset_id(row)?, row.get(1)?);
    let matching_tags = tags::shared(connection, key, dataset)?;
    let is_visible = is_owner || !matching_tags.is_empty();
    Ok(is_visible.then_some(Grant { dataset, is_owner, matching_tags }))
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

/// The datasets that say how much they keep, with the fields of their metadata that do. The index
/// `metadata_keep` is for these fields.
pub(super) fn retentions(connection: &Connection) -> Result<Vec<DatasetFields>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT dataset, field, value FROM metadata
         WHERE field IN ('keep_days', 'keep_bytes') ORDER BY dataset",
    )?;
    let mut rows = statement.query([])?;
    let mut found: Vec<DatasetFields> = Vec::new();
    while let Some(row) = rows.next()? {
        let (dataset, field, value) = (dataset_id(row)?, row.get(1)?, row.get(2)?);
        match found.last_mut() {
            Some((last, fields)) if *last == dataset => drop(fields.insert(field, value)),
            _ => found.push((dataset, BTreeMap::from([(field, value)]))),
        }
    }
    Ok(found)
}

/// When a dataset last changed.
pub(super) fn newest_change(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let newest: Option<i64> =
        connection.query_row("SELECT max(updated_at) FROM datasets", [], |row| row.get(0))?;
    Ok(newest.map(Timestamp::from_micros))
}

/// A dataset's columns, in their order, with the deleted ones.
pub(super) fn columns(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Vec<Column>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, name, dtype, created_at FROM columns WHERE dataset = ?1 ORDER BY ordinal",
    )?;
    let columns = statement.query_map([dataset.get()], |row| {
        let name: String = row.get(1)?;
        Ok(Column {
            id: row.get(0)?,
            dataset_id: dataset,
            name: if name.starts_with(DELETED) { String::new() } else { name },
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
pub(super) fn dataset_id(row: &Row<'_>) -> rusqlite::Result<DatasetId> {
    let number = row.get(0)?;
    DatasetId::new(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}

fn dtype(row: &Row<'_>, idx: usize) -> rusqlite::Result<Dtype> {
    let text: String = row.get(idx)?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(idx, Type::Text, Box::new(error))
    })
}
