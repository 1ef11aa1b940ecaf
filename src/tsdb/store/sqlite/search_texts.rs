//! The texts that a dataset is found by, in the indexes of `search.rs`.

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use db::statement::Statements as _;
use model::dataset::{Dataset, DatasetId};
use rusqlite::{Connection, params};

use super::Result;

/// What a dataset is found by, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchTexts {
    name: String,
    description: String,
}

impl SearchTexts {
    pub(super) fn new(dataset: &Dataset) -> Self {
        let name = dataset.name.to_lowercase();
        Self { name, description: dataset.description.to_lowercase() }
    }

    /// Adds them to the indexes.
    ///
    /// A statement in between that writes to a table with foreign keys has the indexes written out:
    /// add the texts of many datasets at the end.
    pub(super) fn add(&self, connection: &Connection, id: DatasetId) -> Result<()> {
        for (index, body) in self.by_index() {
            let sql = format!("INSERT INTO {index} (rowid, body) VALUES (?1, ?2)");
            connection.run(&sql, params![id.get(), body])?;
        }
        Ok(())
    }

    /// Takes them, which are those that were added, from the indexes.
    pub(super) fn remove(&self, connection: &Connection, id: DatasetId) -> Result<()> {
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

/// The single letters and pairs of a text, each once and as hexadecimal digits, so that every letter
/// is a part of a word to the index.
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

/// A text as hexadecimal digits.
pub(super) fn hex(text: &str) -> String {
    HEXLOWER.encode(text.as_bytes())
}
