//! Parameters and rows of statements, in the SQL that both engines understand.
//!
//! A parameter is written `?1`, which becomes `$1` for PostgreSQL. All integers have 64 bits. Stores
//! execute the statements themselves, on their own threads.

use std::marker::PhantomData;

use rusqlite::types::FromSql;
use rusqlite::{Params, ToSql, params_from_iter};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Arguments as _, AssertSqlSafe, Decode, Encode, Postgres, Row as _, Type};

use crate::postgres::fault::unsigned;

/// A value that can be a parameter of a statement.
pub trait Value: ToSql {
    /// Appends the value to the arguments of a PostgreSQL statement.
    ///
    /// # Errors
    /// [`sqlx::Error::Encode`] if the value cannot be encoded.
    fn add_to(&self, arguments: &mut PgArguments) -> Result<(), sqlx::Error>;
}

/// A value that can be read from a column.
pub trait Column: FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

/// A row of a result from either engine, for a store with the error type `E`.
#[derive(Debug)]
pub struct Row<'r, E> {
    row: RowOf<'r>,
    error: PhantomData<fn() -> E>,
}

#[derive(derive_more::Debug)]
enum RowOf<'r> {
    Sqlite(#[debug(skip)] &'r rusqlite::Row<'r>),
    Postgres(#[debug(skip)] &'r PgRow),
}

impl<T: ToSql + for<'q> Encode<'q, Postgres> + Type<Postgres>> Value for T {
    fn add_to(&self, arguments: &mut PgArguments) -> Result<(), sqlx::Error> {
        arguments.add(self).map_err(sqlx::Error::Encode)
    }
}

impl<T: FromSql + for<'r> Decode<'r, Postgres> + Type<Postgres>> Column for T {}

impl<'r, E> From<&'r rusqlite::Row<'r>> for Row<'r, E> {
    fn from(row: &'r rusqlite::Row<'r>) -> Self {
        Self { row: RowOf::Sqlite(row), error: PhantomData }
    }
}

impl<'r, E> From<&'r PgRow> for Row<'r, E> {
    fn from(row: &'r PgRow) -> Self {
        Self { row: RowOf::Postgres(row), error: PhantomData }
    }
}

impl<E: From<rusqlite::Error> + From<sqlx::Error>> Row<'_, E> {
    /// Returns the value in column `idx`, counted from 0.
    ///
    /// # Errors
    /// The error of the engine if the column does not exist or has another type.
    pub fn get<T: Column>(&self, idx: usize) -> Result<T, E> {
        match self.row {
            RowOf::Sqlite(row) => Ok(row.get(idx)?),
            RowOf::Postgres(row) => Ok(row.try_get(idx)?),
        }
    }

    /// Returns the number in column `idx`, or `None` for null.
    ///
    /// # Errors
    /// The same as for [`Self::get`], or if the number is negative or too large.
    pub fn get_unsigned<T: TryFrom<i64>>(&self, idx: usize) -> Result<Option<T>, E> {
        Ok(self.get::<Option<i64>>(idx)?.map(unsigned).transpose()?)
    }
}

/// Creates a statement for PostgreSQL from its text `sql` and its parameters `values`. The text must not
/// come from an untrusted source.
///
/// # Errors
/// [`sqlx::Error::Encode`] if a value cannot be encoded.
pub fn query<'v>(
    sql: &str,
    values: impl IntoIterator<Item = &'v dyn Value>,
) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
    let mut arguments = PgArguments::default();
    values.into_iter().try_for_each(|value| value.add_to(&mut arguments))?;
    Ok(sqlx::query_with(AssertSqlSafe(sql.replace('?', "$")), arguments))
}

/// Returns `values` as the parameters of a statement, for SQLite.
pub fn params<'v>(values: impl IntoIterator<Item = &'v dyn Value>) -> impl Params {
    params_from_iter(values.into_iter().map(|value| value as &dyn ToSql))
}
