//! The tables of a file, as the file itself describes them, and the statements that read and write
//! them in either engine.

use rusqlite::{Connection, Result, types::Value};

/// A row: its key, and then its other columns.
pub(super) type Row = Vec<Value>;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Real,
    Text,
    Blob,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// The columns with their types: those of the key, in its order, and then the others.
    pub(super) columns: Vec<(String, Kind)>,
    /// Columns of the key.
    pub(super) n_key: usize,
}

impl From<&str> for Kind {
    /// The type that a column was declared with.
    fn from(declared: &str) -> Self {
        match declared {
            "INTEGER" => Self::Integer,
            "REAL" => Self::Real,
            "TEXT" => Self::Text,
            _ => Self::Blob,
        }
    }
}

impl Kind {
    /// The type of a list of such values in a database.
    const fn list(self) -> &'static str {
        match self {
            Self::Integer => "bigint[]",
            Self::Real => "float8[]",
            Self::Text => "text[]",
            Self::Blob => "bytea[]",
        }
    }
}

impl Table {
    /// The tables that `sql` creates, in its order: one that refers to another comes after it.
    pub(super) fn all(sql: &str) -> Result<Vec<Self>> {
        let file = Connection::open_in_memory()?;
        file.execute_batch(sql)?;
        let mut names = file.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'
             ORDER BY rowid",
        )?;
        let names: Vec<String> = names.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
        let mut columns = file.prepare(
            "SELECT name, type, pk > 0 FROM pragma_table_info(?1) ORDER BY pk = 0, pk, cid",
        )?;
        let mut tables = Vec::with_capacity(names.len());
        for name in names {
            let mut table = Self { name, columns: Vec::new(), n_key: 0 };
            let mut rows = columns.query([&table.name])?;
            while let Some(row) = rows.next()? {
                table.columns.push((row.get(0)?, Kind::from(row.get::<_, String>(1)?.as_str())));
                table.n_key += usize::from(row.get::<_, bool>(2)?);
            }
            tables.push(table);
        }
        Ok(tables)
    }

    /// The table and its key, where that is a number that it may give by itself.
    pub(super) fn counted_key(&self) -> Option<(String, String)> {
        let (key, kind) = self.columns.first()?;
        (self.n_key == 1 && *kind == Kind::Integer).then(|| (self.name.clone(), key.clone()))
    }

    /// Selects the next `n_rows` by key: all, or those after a key that is its parameters. Texts are in
    /// the order of their bytes, which a database has to be asked for.
    pub(super) fn select(&self, is_after: bool, n_rows: usize, is_database: bool) -> String {
        let ordered = |(name, kind): &(String, Kind)| match kind {
            Kind::Text if is_database => format!("{name} COLLATE \"C\""),
            _ => name.clone(),
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

    /// Inserts a row in a file.
    pub(super) fn insert_one(&self) -> String {
        let values = parameters(self.columns.len(), false);
        format!("INSERT INTO {} ({}) VALUES ({values})", self.name, self.names())
    }

    /// Inserts rows in a database, out of a list for each column.
    pub(super) fn insert_lists(&self) -> String {
        let lists = (1..).zip(&self.columns).map(|(n, (_, kind))| format!("${n}::{}", kind.list()));
        format!(
            "INSERT INTO {} ({}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({})",
            self.name,
            self.names(),
            lists.collect::<Vec<_>>().join(", ")
        )
    }

    fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// So many parameters.
fn parameters(n: usize, is_database: bool) -> String {
    let mark = if is_database { '$' } else { '?' };
    (1..=n).map(|n| format!("{mark}{n}")).collect::<Vec<_>>().join(", ")
}
