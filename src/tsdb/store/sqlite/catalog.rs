//! Parts of the catalog that only SQLite has: search indexes, and metadata in separate records.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::HEXLOWER;
use db::statement::Statements as _;
use model::dataset::{Dataset, DatasetId, Dtype, VALUE_COLUMN};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use super::Result;
use super::postings::{self, Term};
use crate::catalog::{DatasetRef, NewDataset};
use crate::rollup::Fold;
use crate::store::Sight;
use crate::store::datasets::{self, CatalogSession};
use crate::store::session::ready;

#[expect(
    clippy::future_not_send,
    reason = "they complete immediately, on the thread of the connection"
)]
impl CatalogSession for &Connection {
    const JSON_ARRAY: &'static str = "json_group_array";
    const METADATA: &'static str =
        "(SELECT json_group_object(field, value) FROM metadata WHERE dataset = d.id)";
    const COLUMNS: &'static str = "(SELECT json_group_array(
             json_array(id, iif(name GLOB char(9) || '*', '', name), dtype, created_at))
         FROM (SELECT * FROM columns WHERE dataset = d.id ORDER BY ordinal))";
    const STATE_OF_DATASETS: &'static str = "p.revision, p.newest, p.kept_from
         FROM datasets d JOIN progress p ON p.dataset = d.id";
    const WANTED: &'static str = "json_each(?1) AS wanted";
    const INSERT: &'static str = "INSERT INTO datasets
             (id, name, folded, description, owner, created_at, updated_at)
         VALUES (?6, ?1, ?2, ?3, ?7, ?8, ?8) ON CONFLICT DO NOTHING RETURNING id";
    const UPDATE: &'static str =
        "UPDATE OR IGNORE datasets SET name = ?1, folded = ?2, description = ?3 WHERE id = ?6";
    const ADD_COLUMNS: &'static str =
        "INSERT INTO columns (dataset, ordinal, name, dtype, created_at)
         SELECT ?1, (value ->> 0) - 1, value ->> 2, value ->> 3, ?3 FROM json_each(?2)";

    /// A deleted column retains its position, by which chunks identify columns.
    const DELETE_COLUMN: &'static str =
        "UPDATE columns SET name = char(9) || ordinal WHERE id = ?1";

    async fn complete(&mut self, dataset: &Dataset, _: Option<DatasetId>) -> Result<()> {
        let sql = "INSERT INTO progress (dataset, revision, n_fresh, n_late) VALUES (?1, 0, 0, 0)";
        Connection::run(self, sql, [dataset.id.get()])?;
        insert_metadata(self, dataset)
    }

    fn index(&mut self, new: &[NewDataset], created: &[Dataset]) -> Result<()> {
        let mut terms: BTreeMap<Term<'_>, Vec<DatasetId>> = BTreeMap::new();
        for (new, dataset) in new.iter().zip(created) {
            let of_tags = tag_terms(self, dataset.id)?;
            let of_fields = field_terms(&dataset.metadata);
            for term in new.owner.map(Term::Owner).into_iter().chain(of_tags).chain(of_fields) {
                terms.entry(term).or_default().push(dataset.id);
            }
        }
        for (term, ids) in &terms {
            postings::add(self, term, ids)?;
        }
        for dataset in created {
            add_texts(self, dataset.id, &search_texts(dataset))?;
        }
        Ok(())
    }

    fn index_update(&mut self, old: &Dataset, new: &Dataset) -> Result<()> {
        let (texts, old_texts) = (search_texts(new), search_texts(old));
        if texts != old_texts {
            remove_texts(self, new.id, &old_texts)?;
            add_texts(self, new.id, &texts)?;
        }
        if new.metadata != old.metadata {
            forget_metadata(self, old)?;
            insert_metadata(self, new)?;
            for term in field_terms(&new.metadata) {
                postings::add(self, &term, &[new.id])?;
            }
        }
        Ok(())
    }
}

fn insert_metadata(connection: &Connection, dataset: &Dataset) -> Result<()> {
    for (name, value) in &dataset.metadata {
        let sql = "INSERT INTO metadata (dataset, field, value) VALUES (?1, ?2, ?3)";
        connection.run(sql, params![dataset.id.get(), name, value])?;
    }
    Ok(())
}

/// Returns the search terms for metadata fields.
fn field_terms(metadata: &BTreeMap<String, String>) -> impl Iterator<Item = Term<'_>> {
    metadata.iter().map(|(field, value)| Term::Field(field, value))
}

/// Returns the search terms for the tags of a dataset.
fn tag_terms(connection: &Connection, id: DatasetId) -> Result<Vec<Term<'static>>> {
    let sql = "SELECT tag FROM dataset_tags WHERE dataset = ?1";
    Ok(connection.all(sql, [id.get()], |row| Ok(Term::Tag(row.get(0)?)))?)
}

/// Removes a dataset from all tables of the catalog except the tables of tags. Returns false if the
/// dataset does not exist.
pub(super) fn forget(connection: &Connection, id: DatasetId) -> Result<bool> {
    let sight = ready(datasets::sight(&mut &*connection, None, DatasetRef::Id(id)))?;
    let Some(Sight { dataset, owner, .. }) = sight else { return Ok(false) };
    if let Some(owner) = owner {
        postings::remove(connection, &Term::Owner(owner), id)?;
    }
    for tag in tag_terms(connection, id)? {
        postings::remove(connection, &tag, id)?;
    }
    forget_metadata(connection, &dataset)?;
    remove_texts(connection, id, &search_texts(&dataset))?;
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

fn forget_metadata(connection: &Connection, dataset: &Dataset) -> Result<()> {
    for term in field_terms(&dataset.metadata) {
        postings::remove(connection, &term, dataset.id)?;
    }
    connection.run("DELETE FROM metadata WHERE dataset = ?1", [dataset.id.get()])?;
    Ok(())
}

/// Returns the columns from which the dataset's buckets are computed, or `None` if it has no buckets.
pub(super) fn fold(connection: &Connection, dataset: DatasetId) -> Result<Option<Fold>> {
    fold_of(connection, dataset, &columns(connection, dataset)?)
}

/// Returns the names and types of all columns of a dataset. Deleted columns have no name.
pub(super) fn columns(connection: &Connection, dataset: DatasetId) -> Result<Vec<(String, Dtype)>> {
    // The name of a deleted column begins with a tab.
    let sql = "SELECT iif(name GLOB char(9) || '*', '', name), dtype FROM columns
         WHERE dataset = ?1 ORDER BY ordinal";
    Ok(connection.all(sql, [dataset.get()], |row| Ok((row.get(0)?, dtype(row, 1)?)))?)
}

/// Returns the fold of a dataset with these columns, like [`fold`].
pub(super) fn fold_of(
    connection: &Connection,
    dataset: DatasetId,
    columns: &[(String, Dtype)],
) -> Result<Option<Fold>> {
    let columns: Vec<_> = columns.iter().map(|(name, dtype)| (name.as_str(), *dtype)).collect();
    let sql = "SELECT value FROM metadata WHERE dataset = ?1 AND field = ?2";
    let value_column: Option<String> =
        connection.find(sql, params![dataset.get(), VALUE_COLUMN], |row| row.get(0))?;
    Ok(Fold::choose(&columns, value_column.as_deref()))
}

/// Returns the datasets with a retention limit. The index `metadata_keep` covers the metadata fields of
/// the limits.
pub(super) fn retained(connection: &Connection) -> Result<Vec<Dataset>> {
    let sql = "SELECT DISTINCT dataset FROM metadata
         WHERE field IN ('keep_days', 'keep_bytes') ORDER BY dataset";
    let ids = connection.all(sql, [], |row| row.get(0))?;
    ready(datasets::by_ids(&mut &*connection, &ids))
}

/// Returns the types of the columns of a dataset in their order.
pub(super) fn dtypes(connection: &Connection, dataset: DatasetId) -> Result<Vec<Dtype>> {
    let sql = "SELECT dtype FROM columns WHERE dataset = ?1 ORDER BY ordinal";
    Ok(connection.all(sql, [dataset.get()], |row| dtype(row, 0))?)
}

fn dtype(row: &Row<'_>, column_idx: usize) -> rusqlite::Result<Dtype> {
    let text = row.get_ref(column_idx)?.as_str()?;
    let failed =
        |error| rusqlite::Error::FromSqlConversionFailure(column_idx, Type::Text, Box::new(error));
    text.parse().map_err(failed)
}

/// Lowercase name and description of a dataset, each with an index of `search.rs` that finds the dataset
/// by it.
type SearchTexts = [(&'static str, String); 4];

fn search_texts(dataset: &Dataset) -> SearchTexts {
    let (name, description) = (dataset.name.to_lowercase(), dataset.description.to_lowercase());
    [
        ("name_grams", grams(&name)),
        ("description_grams", grams(&description)),
        ("name_runs", name),
        ("description_runs", description),
    ]
}

/// Adds the texts to the indexes.
///
/// SQLite flushes the indexes before a statement that writes to a table with foreign keys. To avoid this
/// for every dataset, add the texts of many datasets after all other statements.
fn add_texts(connection: &Connection, id: DatasetId, texts: &SearchTexts) -> Result<()> {
    for (index, body) in texts {
        let sql = format!("INSERT INTO {index} (rowid, body) VALUES (?1, ?2)");
        connection.run(&sql, params![id.get(), body])?;
    }
    Ok(())
}

/// Removes the texts from the indexes. The texts must be equal to the texts that were added.
fn remove_texts(connection: &Connection, id: DatasetId, texts: &SearchTexts) -> Result<()> {
    for (index, body) in texts {
        let sql = format!("INSERT INTO {index} ({index}, rowid, body) VALUES ('delete', ?1, ?2)");
        connection.run(&sql, params![id.get(), body])?;
    }
    Ok(())
}

/// Returns the distinct letters and pairs of letters of a text. Letters and pairs are encoded as
/// hexadecimal digits, so that the tokenizer of the index does not split words at punctuation.
pub(super) fn grams(text: &str) -> String {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect::<Vec<_>>();
    let grams = [2, 3].into_iter().flat_map(|n| ends.windows(n));
    let found: BTreeSet<&str> =
        grams.filter_map(|ends| text.get(*ends.first()?..*ends.last()?)).collect();
    found.into_iter().map(|gram| hex(gram) + " ").collect()
}

/// Encodes a text as hexadecimal digits.
pub(super) fn hex(text: &str) -> String {
    HEXLOWER.encode(text.as_bytes())
}
