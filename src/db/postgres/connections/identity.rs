//! Whether connections lead to the database that they are to lead to.
//!
//! An address may come to lead to another one: a name was given to another machine, or an empty database
//! was made where one was lost. Each connection is checked once, when it is made.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use sqlx::PgConnection;

/// The code of an error about a table that does not exist.
const UNDEFINED_TABLE: &str = "42P01";

/// Makes all statements of a connection fail that name a table.
const DISABLE: &str = "SET search_path = ''";

/// An address leads to a database with other tables than it is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub struct WrongDatabase {
    /// The era of the tables that it is to have.
    pub expected: i64,
    /// The era of those that it has; `None` if it has none.
    pub found: Option<i64>,
}

impl fmt::Display for WrongDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, found } = self;
        write!(f, "find the tables of era {expected} in the database, which has ")?;
        match found {
            Some(found) => write!(f, "those of era {found}"),
            None => f.write_str("none"),
        }
    }
}

/// Which tables a database is to have, and what was found last.
#[derive(Debug)]
pub(super) struct Identity {
    expected: i64,
    wrong: Mutex<Option<WrongDatabase>>,
}

impl Identity {
    pub(super) fn new(expected: i64) -> Arc<Self> {
        Arc::new(Self { expected, wrong: Mutex::default() })
    }

    /// Fails if the connection made last led to another database.
    pub(super) fn check(&self) -> Result<(), sqlx::Error> {
        let wrong = *self.wrong.lock();
        wrong.map_or(Ok(()), |wrong| Err(sqlx::Error::Configuration(Box::new(wrong))))
    }

    /// Looks at a new connection. One to another database can do nothing.
    pub(super) async fn look(&self, c: &mut PgConnection) -> Result<(), sqlx::Error> {
        let found = match sqlx::query_scalar("SELECT era FROM format").fetch_optional(&mut *c).await
        {
            Err(sqlx::Error::Database(fault))
                if fault.code().as_deref() == Some(UNDEFINED_TABLE) =>
            {
                None
            }
            found => found?,
        };
        let wrong = WrongDatabase { expected: self.expected, found };
        let wrong = Some(wrong).filter(|wrong| wrong.found != Some(wrong.expected));
        if wrong.is_some() {
            sqlx::raw_sql(DISABLE).execute(c).await?;
        }
        *self.wrong.lock() = wrong;
        Ok(())
    }
}
