//! Descriptions of tables, and the statements that read and write them in either engine.

use rusqlite::types::Value;
use rusqlite::{Connection, Result};

/// Values of a row: first the columns of the key, then the other columns.
pub(super) type Row = Vec<Value>;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Columns of the key in the order of the key, then the other columns: the name of each, and true if
    /// it contains texts.
    pub(super) columns: Vec<(String, bool)>,
    /// Number of columns in the primary key.
    pub(super) n_key: usize,
    /// True if the keys of the table are generated and never reused.
    pub(super) has_counter: bool,
}

impl Table {
    /// Returns the tables that `sql` creates, in this order. Foreign keys must refer to earlier tables.
    pub(super) fn all(sql: &str) -> Result<Vec<Self>> {
        let file = Connection::open_in_memory()?;
        file.execute_batch(sql)?;
        let mut names = file.prepare(
            "SELECT name, sql LIKE '%AUTOINCREMENT%' FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'
             ORDER BY rowid",
        )?;
        let names = names.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let names: Vec<(String, bool)> = names.collect::<Result<_>>()?;
        let mut columns = file.prepare(
            "SELECT name, type = 'TEXT', pk > 0 FROM pragma_table_info(?1) ORDER BY pk = 0, pk, cid",
        )?;
        let mut tables = Vec::with_capacity(names.len());
        for (name, has_counter) in names {
            let mut table = Self { name, columns: Vec::new(), n_key: 0, has_counter };
            let mut rows = columns.query([&table.name])?;
            while let Some(row) = rows.next()? {
                table.columns.push((row.get(0)?, row.get(1)?));
                table.n_key += usize::from(row.get::<_, bool>(2)?);
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// Returns a statement that selects the next `n_rows` rows in the order of the key: from the start,
    /// or, if `is_after`, after a key that is passed as parameters. Sorts texts by their bytes in both
    /// engines.
    pub(super) fn select(&self, is_after: bool, n_rows: usize, is_database: bool) -> String {
        let ordered = |(name, is_text): &(String, bool)| {
            let collation = if *is_text && is_database { " COLLATE \"C\"" } else { "" };
            format!("{name}{collation}")
        };
        let key = self.columns.iter().take(self.n_key).map(ordered).collect::<Vec<_>>().join(", ");
        let condition = if is_after {
            format!("WHERE ({key}) > ({})", parameters(self.n_key, is_database))
        } else {
            String::new()
        };
        let (names, table) = (self.names(), &self.name);
        format!("SELECT {names} FROM {table} {condition} ORDER BY {key} LIMIT {n_rows}")
    }

    /// Returns a statement that inserts `rows`. Their values are parameters, except for nulls.
    pub(super) fn insert(&self, rows: &[Row], is_database: bool) -> String {
        let (mark, overriding) =
            if is_database { ('$', "OVERRIDING SYSTEM VALUE") } else { ('?', "") };
        let mut n_values = 0;
        let mut value = |value: &Value| {
            if *value == Value::Null {
                return "NULL".to_owned();
            }
            n_values += 1;
            format!("{mark}{n_values}")
        };
        let mut record = |row: &Row| row.iter().map(&mut value).collect::<Vec<_>>().join(", ");
        let records: Vec<String> = rows.iter().map(|row| format!("({})", record(row))).collect();
        let (table, names, records) = (&self.name, self.names(), records.join(", "));
        format!("INSERT INTO {table} ({names}) {overriding} VALUES {records}")
    }

    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn parameters(n: usize, is_database: bool) -> String {
    let mark = if is_database { '$' } else { '?' };
    (1..=n).map(|n| format!("{mark}{n}")).collect::<Vec<_>>().join(", ")
}
