//! Datasets with their columns and access rights, in the tables of SQLite.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use db::statement::Statements as _;
use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::key::KeyId;
use model::timestamp::Timestamp;
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Row, params};

use super::postings::{self, Term};
use super::progress::Progress;
use super::tables::{checked_id, dataset_id};
use super::{Result, StoreError};
use crate::catalog::{DatasetRef, NewDataset, Refusal};
use crate::rollup::Fold;
use crate::store::Sight;
use crate::store::changes::CatalogSession;
use crate::store::session::ready;
use crate::store::state::State;
use crate::store::tags::attach;

/// Maximum number of datasets that an error about an ambiguous name lists.
const SHARED_MAX: usize = 20;

/// First character of the stored name of a deleted column. Valid column names contain no control
/// characters.
const DELETED: char = '\t';

/// Creates either all or none of the datasets. A single dataset can be given its id.
pub(super) fn create(
    connection: &Connection,
    all: &[NewDataset],
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Vec<Dataset>> {
    let mut created = Vec::with_capacity(all.len());
    let mut terms: BTreeMap<Term<'_>, Vec<DatasetId>> = BTreeMap::new();
    for new in all {
        check_name(connection, new.owner, &new.name)?;
        let dataset = insert(connection, new, id, now)?;
        let of_tags = tag_terms(connection, dataset.id)?;
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
    Ok(created)
}

/// Checks that `owner` does not own a dataset called `name` yet.
fn check_name(connection: &Connection, owner: Option<KeyId>, name: &str) -> Result<()> {
    let sql = "SELECT id FROM datasets WHERE name = ?1 AND ifnull(owner, 0) = ?2";
    let owner = owner.map_or(0, KeyId::get);
    match connection.find(sql, params![name, owner], dataset_id)? {
        Some(_) => Err(Refusal::NameTaken { name: name.to_owned() }.into()),
        None => Ok(()),
    }
}

/// Inserts a dataset without its entries in the search indexes.
fn insert(
    connection: &Connection,
    new: &NewDataset,
    id: Option<DatasetId>,
    now: Timestamp,
) -> Result<Dataset> {
    let folded = new.name.to_lowercase();
    let owner = new.owner.map(KeyId::get);
    let number = connection.value(
        "INSERT INTO datasets (id, name, folded, description, owner, created_at, updated_at)
         VALUES (?6, ?1, ?2, ?3, ?4, ?5, ?5) RETURNING id",
        params![new.name, folded, new.description, owner, now.micros(), id.map(DatasetId::get)],
    )?;
    let id = checked_id(number)?;
    connection.run(
        "INSERT INTO progress (dataset, revision, n_fresh, n_late) VALUES (?1, 0, 0, 0)",
        [id.get()],
    )?;
    insert_metadata(connection, id, &new.metadata)?;
    ready((&mut &*connection).add_columns(id, &[], &new.columns, now))?;
    for tag in &new.tags {
        ready(attach(&mut &*connection, id, new.owner, tag))?;
    }
    Ok(new.dataset(id, now))
}

fn insert_metadata(
    connection: &Connection,
    dataset: DatasetId,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    for (name, value) in metadata {
        let sql = "INSERT INTO metadata (dataset, field, value) VALUES (?1, ?2, ?3)";
        connection.run(sql, params![dataset.get(), name, value])?;
    }
    Ok(())
}

#[expect(
    clippy::future_not_send,
    reason = "they complete immediately, on the thread of the connection"
)]
impl CatalogSession for &Connection {
    /// A deleted column retains its position, by which chunks identify columns.
    const DELETE_COLUMN: &'static str =
        "UPDATE columns SET name = char(9) || ordinal WHERE id = ?1";

    /// If several datasets have the name, returns the dataset that the key owns. If the key owns none of
    /// these, the name is ambiguous and causes an error, since anyone can give a dataset the name of an
    /// existing dataset.
    async fn sight(&mut self, key: Option<KeyId>, which: DatasetRef) -> Result<Option<Sight>> {
        let connection: &Connection = self;
        let own = key.map(KeyId::get);
        let (column, value) = match &which {
            DatasetRef::Id(id) => ("id", Value::from(id.get())),
            DatasetRef::Name(name) => ("name", Value::from(name.clone())),
        };
        let mut statement = connection.prepare_cached(&format!(
            "SELECT id, name, description, created_at, updated_at, owner IS ?2 AS own, owner
             FROM datasets WHERE {column} = ?1 ORDER BY own DESC, id"
        ))?;
        let mut rows = statement.query(params![value, own])?;
        let mut seen: Vec<(Dataset, bool, Option<KeyId>, Vec<String>)> = Vec::new();
        while let Some(row) = rows.next()? {
            let (dataset, is_owner) = (dataset_of(row)?, row.get(5)?);
            let matching_tags = match key {
                Some(key) => shared_tags(connection, key, dataset.id)?,
                None => Vec::new(),
            };
            if is_owner || key.is_none() || !matching_tags.is_empty() {
                let owner = row.get::<_, Option<i64>>(6)?.map(KeyId::new);
                seen.push((dataset, is_owner, owner, matching_tags));
            }
            if is_owner || key.is_none() || seen.len() >= SHARED_MAX {
                break;
            }
        }
        if seen.len() > 1
            && let DatasetRef::Name(name) = which
        {
            let datasets = seen.into_iter().map(|(dataset, ..)| dataset.id).collect();
            return Err(StoreError::SharedName { name, datasets });
        }
        let Some((mut dataset, is_owner, owner, matching_tags)) = seen.pop() else {
            return Ok(None);
        };
        dataset.metadata = metadata(connection, dataset.id)?;
        let columns = columns(connection, dataset.id)?;
        let State { revision, newest, kept_from, .. } =
            Progress::read(connection, dataset.id)?.state;
        Ok(Some(Sight {
            dataset,
            owner,
            is_owner,
            matching_tags,
            columns,
            revision,
            newest,
            kept_from,
        }))
    }

    async fn create(
        &mut self,
        all: &[NewDataset],
        id: Option<DatasetId>,
        now: Timestamp,
    ) -> Result<Vec<Dataset>> {
        create(self, all, id, now)
    }

    async fn describe(&mut self, old: &Dataset, new: &Dataset) -> Result<()> {
        let id = old.id;
        if new.name != old.name {
            check_name(self, owner(self, id)?, &new.name)?;
        }
        let sql = "UPDATE datasets SET name = ?2, folded = ?3, description = ?4 WHERE id = ?1";
        let folded = new.name.to_lowercase();
        Connection::run(self, sql, params![id.get(), new.name, folded, new.description])?;
        let (texts, old_texts) = (SearchTexts::new(new), SearchTexts::new(old));
        if texts != old_texts {
            old_texts.remove(self, id)?;
            texts.add(self, id)?;
        }
        if new.metadata != old.metadata {
            forget_metadata(self, id, &old.metadata)?;
            insert_metadata(self, id, &new.metadata)?;
            for (field, value) in &new.metadata {
                postings::add(self, &Term::Field(field, value), &[id])?;
            }
        }
        Ok(())
    }

    async fn add_columns(
        &mut self,
        dataset: DatasetId,
        _: &[Column],
        new: &[(String, Dtype)],
        now: Timestamp,
    ) -> Result<()> {
        for (name, dtype) in new {
            Connection::run(
                self,
                "INSERT INTO columns (dataset, ordinal, name, dtype, created_at)
                 VALUES (?1, (SELECT count(*) FROM columns WHERE dataset = ?1), ?2, ?3, ?4)
                 ON CONFLICT (dataset, name) DO NOTHING",
                params![dataset.get(), name, dtype.to_string(), now.micros()],
            )?;
        }
        Ok(())
    }
}

/// Returns the search terms for the tags of a dataset.
fn tag_terms(connection: &Connection, id: DatasetId) -> Result<Vec<Term<'static>>> {
    let sql = "SELECT tag FROM dataset_tags WHERE dataset = ?1";
    Ok(connection.all(sql, [id.get()], |row| Ok(Term::Tag(row.get(0)?)))?)
}

/// Returns the tags that a key and a dataset share, in alphabetical order.
fn shared_tags(connection: &Connection, key: KeyId, dataset: DatasetId) -> Result<Vec<String>> {
    Ok(connection.all(
        "SELECT t.name FROM dataset_tags dt
         JOIN key_tags kt ON kt.tag = dt.tag AND kt.key = ?2
         JOIN tags t ON t.id = dt.tag WHERE dt.dataset = ?1 ORDER BY t.name",
        [dataset.get(), key.get()],
        |row| row.get(0),
    )?)
}

/// Removes a dataset from all tables of the catalog except the tables of tags. Returns false if the
/// dataset does not exist.
pub(super) fn forget(connection: &Connection, id: DatasetId) -> Result<bool> {
    let Some(dataset) = dataset(connection, id)? else { return Ok(false) };
    if let Some(owner) = owner(connection, id)? {
        postings::remove(connection, &Term::Owner(owner), id)?;
    }
    for tag in tag_terms(connection, id)? {
        postings::remove(connection, &tag, id)?;
    }
    forget_metadata(connection, id, &dataset.metadata)?;
    SearchTexts::new(&dataset).remove(connection, id)?;
    for sql in [
        "DELETE FROM dataset_tags WHERE dataset = ?1",
        "DELETE FROM columns WHERE dataset = ?1",
        "DELETE FROM progress WHERE dataset = ?1",
        "DELETE FROM datasets WHERE id = ?1",
    ] {
        connection.run(sql, [id.get()])?;
    }
    Ok(true)
}

fn forget_metadata(
    connection: &Connection,
    id: DatasetId,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    for (field, value) in metadata {
        postings::remove(connection, &Term::Field(field, value), id)?;
    }
    connection.run("DELETE FROM metadata WHERE dataset = ?1", [id.get()])?;
    Ok(())
}

/// Returns the dataset with this id, without checking access.
pub(super) fn dataset(connection: &Connection, id: DatasetId) -> Result<Option<Dataset>> {
    let sql = "SELECT id, name, description, created_at, updated_at FROM datasets WHERE id = ?1";
    let found = connection.find(sql, [id.get()], dataset_of)?;
    let Some(mut dataset) = found else { return Ok(None) };
    dataset.metadata = metadata(connection, id)?;
    Ok(Some(dataset))
}

/// Returns the key that owns the dataset, or `None` for the service itself.
pub(super) fn owner(connection: &Connection, id: DatasetId) -> Result<Option<KeyId>> {
    let sql = "SELECT owner FROM datasets WHERE id = ?1";
    Ok(connection.value::<Option<i64>>(sql, [id.get()])?.map(KeyId::new))
}

/// Returns the metadata of a dataset.
fn metadata(connection: &Connection, dataset: DatasetId) -> Result<BTreeMap<String, String>> {
    let sql = "SELECT field, value FROM metadata WHERE dataset = ?1";
    let fields = connection.all(sql, [dataset.get()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(fields.into_iter().collect())
}

/// Returns the columns from which the dataset's buckets are computed, or `None` if it has no buckets.
pub(super) fn fold(connection: &Connection, dataset: DatasetId) -> Result<Option<Fold>> {
    Ok(Fold::for_dataset(&columns(connection, dataset)?, &metadata(connection, dataset)?))
}

/// Returns the datasets with a retention limit. The index `metadata_keep` covers the metadata fields of
/// the limits.
pub(super) fn retained(connection: &Connection) -> Result<Vec<Dataset>> {
    let sql = "SELECT DISTINCT dataset FROM metadata
         WHERE field IN ('keep_days', 'keep_bytes') ORDER BY dataset";
    let mut found = Vec::new();
    for id in connection.all(sql, [], dataset_id)? {
        found.extend(dataset(connection, id)?);
    }
    Ok(found)
}

/// Returns the columns of a dataset in their order, including deleted columns.
pub(super) fn columns(connection: &Connection, dataset: DatasetId) -> Result<Vec<Column>> {
    let sql = "SELECT id, name, dtype, created_at FROM columns WHERE dataset = ?1 ORDER BY ordinal";
    Ok(connection.all(sql, [dataset.get()], |row| {
        let name: String = row.get(1)?;
        Ok(Column {
            id: row.get(0)?,
            dataset_id: dataset,
            name: if name.starts_with(DELETED) { String::new() } else { name },
            dtype: dtype(row, 2)?,
            created_at: Timestamp::from_micros(row.get(3)?),
        })
    })?)
}

/// Returns the types of the columns of a dataset in their order.
pub(super) fn dtypes(connection: &Connection, dataset: DatasetId) -> Result<Vec<Dtype>> {
    let sql = "SELECT dtype FROM columns WHERE dataset = ?1 ORDER BY ordinal";
    Ok(connection.all(sql, [dataset.get()], |row| dtype(row, 0))?)
}

/// Reads a dataset from a record, without its metadata.
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

fn dtype(row: &Row<'_>, idx: usize) -> rusqlite::Result<Dtype> {
    let text: String = row.get(idx)?;
    text.parse().map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(idx, Type::Text, Box::new(error))
    })
}

/// Lowercase name and description, by which the indexes of `search.rs` find a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SearchTexts {
    name: String,
    description: String,
}

impl SearchTexts {
    fn new(dataset: &Dataset) -> Self {
        let name = dataset.name.to_lowercase();
        Self { name, description: dataset.description.to_lowercase() }
    }

    /// Adds the texts to the indexes.
    ///
    /// SQLite flushes the indexes before a statement that writes to a table with foreign keys. To avoid
    /// this for every dataset, add the texts of many datasets after all other statements.
    fn add(&self, connection: &Connection, id: DatasetId) -> Result<()> {
        for (index, body) in self.by_index() {
            let sql = format!("INSERT INTO {index} (rowid, body) VALUES (?1, ?2)");
            connection.run(&sql, params![id.get(), body])?;
        }
        Ok(())
    }

    /// Removes the texts from the indexes. The texts must be equal to the texts that were added.
    fn remove(&self, connection: &Connection, id: DatasetId) -> Result<()> {
        for (index, body) in self.by_index() {
            let sql =
                format!("INSERT INTO {index} ({index}, rowid, body) VALUES ('delete', ?1, ?2)");
            connection.run(&sql, params![id.get(), body])?;
        }
        Ok(())
    }

    fn by_index(&self) -> [(&'static str, String); 4] {
        [
            ("name_runs", self.name.clone()),
            ("description_runs", self.description.clone()),
            ("name_grams", grams(&self.name)),
            ("description_grams", grams(&self.description)),
        ]
    }
}

/// Returns the distinct letters and pairs of letters of a text. Letters and pairs are encoded as
/// hexadecimal digits, so that the tokenizer of the index does not split words at punctuation.
pub(super) fn grams(text: &str) -> String {
    let mut found = BTreeSet::new();
    let mut starts = text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]).peekable();
    let mut at = 0;
    while let Some(end) = starts.next() {
        found.extend(text.get(at..end));
        if let Some(next) = starts.peek() {
            found.extend(text.get(at..*next));
        }
        at = end;
    }
    found.into_iter().map(|gram| hex(gram) + " ").collect()
}

/// Encodes a text as hexadecimal digits.
pub(super) fn hex(text: &str) -> String {
    HEXLOWER.encode(text.as_bytes())
}
