//! Tables of a store, in a separate schema with the number of their format.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use tracing::info;

use crate::format::{self, FormatError};

/// Key of the advisory lock that a service holds while it creates or upgrades tables. The number is
/// arbitrary and spells `tript`.
const CREATE_LOCK: i64 = 0x74_72_69_70_74;

/// Required encoding of the database, which can represent every text.
const ENCODING: &str = "UTF8";

/// Tables of a store in their own schema, and the upgrades of older formats.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// Name of the schema, such as `datasets`.
    pub name: &'static str,
    /// Number of the format, stored in a table `format` of the schema.
    pub version: i32,
    /// Statements that upgrade from older formats, in order. The last statement results in
    /// [`Self::version`]. Statements must qualify the names of tables.
    pub steps: &'static [&'static str],
    /// Statements that create the tables in an empty schema.
    pub tables: &'static str,
}

/// State of the tables of a store, found by an inspection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaSeen {
    /// The tables exist in this format.
    Format(i32),
    /// The schema or the tables do not exist.
    Missing {
        /// True if the user of the connection can create the schema.
        can_create: bool,
    },
}

/// Reason why the tables of a store cannot be used, as the cause of an
/// [`sqlx::Error::Configuration`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The tables were created by another version of the program.
    #[error(transparent)]
    Version(#[from] FormatError),
    /// The encoding of the database cannot represent every text.
    #[error(
        "database has encoding {0}, expected UTF8; create another database: createdb --encoding UTF8 --template template0 NAME"
    )]
    Encoding(String),
    /// The user cannot read and write all tables. Contains privileges and their tables, such as `INSERT
    /// on datasets.rows`.
    #[error("user lacks privileges: {0}")]
    Privileges(String),
}

impl From<SchemaError> for sqlx::Error {
    fn from(error: SchemaError) -> Self {
        Self::Configuration(error.into())
    }
}

impl SchemaError {
    /// Returns the cause of `error` if it is a [`SchemaError`].
    #[must_use]
    pub fn of(error: &sqlx::Error) -> Option<&Self> {
        match error {
            sqlx::Error::Configuration(cause) => cause.downcast_ref(),
            _ => None,
        }
    }
}

impl Schema {
    /// Creates missing tables, or upgrades tables of an older format, in the transaction of
    /// `connection`. Returns the random number that identifies the tables. Waits for other services that
    /// create or upgrade tables.
    ///
    /// # Errors
    /// The error of the database, or [`SchemaError`] if the database has another encoding or the format
    /// of the tables cannot be upgraded.
    pub(super) async fn open(&self, connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
        let sql = "SELECT current_setting('server_encoding')";
        let encoding: String = sqlx::query_scalar(sql).fetch_one(&mut *connection).await?;
        if encoding != ENCODING {
            return Err(SchemaError::Encoding(encoding).into());
        }
        let lock = "SELECT pg_advisory_xact_lock($1)";
        sqlx::query(lock).bind(CREATE_LOCK).execute(&mut *connection).await?;
        let Self { name, version, steps, tables } = *self;
        // Tables and format are created in one transaction, so either both exist or neither exists. The
        // format has a primary key only because logical replication requires one in every table.
        if !self.exists(connection).await? {
            let create = format!(
                "CREATE SCHEMA IF NOT EXISTS {name};
                 SET LOCAL search_path = {name};
                 CREATE TABLE format (version integer PRIMARY KEY, era bigint NOT NULL);
                 {tables};
                 INSERT INTO {name}.format
                 VALUES ({version}, hashtextextended(gen_random_uuid()::text, 0))"
            );
            sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
        }
        let (found, era) = self.read_format(connection).await?;
        let steps = self.steps_from(steps, found)?;
        if found != version {
            // Waits for open writing transactions, since these have read the format. Later transactions
            // read the new format.
            let upgrade = format!(
                "LOCK TABLE {name}.format IN ACCESS EXCLUSIVE MODE;
                 {};
                 UPDATE {name}.format SET version = {version}",
                steps.join(";\n")
            );
            sqlx::raw_sql(AssertSqlSafe(upgrade)).execute(connection).await?;
            info!(found, version, "upgraded the schema {name} from format {found} to {version}");
        }
        Ok(era)
    }

    /// Returns the format and the random number of the tables.
    async fn read_format(&self, connection: &mut PgConnection) -> Result<(i32, i64), sqlx::Error> {
        let sql = format!("SELECT version, era FROM {}.format", self.name);
        sqlx::query_as(AssertSqlSafe(sql)).fetch_one(connection).await
    }

    /// Checks the format of the tables without changing anything, for a read-only server. Returns the
    /// random number that identifies the tables.
    ///
    /// # Errors
    /// The error of the database, or [`SchemaError::Version`].
    pub(super) async fn check(&self, connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
        let (found, era) = self.read_format(connection).await?;
        self.steps_from(&[], found)?;
        Ok(era)
    }

    /// Returns those of `steps` that upgrade from format `found`.
    pub(super) fn steps_from<'s>(
        &self,
        steps: &'s [&'static str],
        found: i32,
    ) -> Result<&'s [&'static str], SchemaError> {
        let name = format!("schema {}", self.name);
        Ok(format::steps_from(&name, steps, found.into(), self.version.into())?)
    }

    /// Checks that the user of the connection can read and write all tables, which must exist.
    ///
    /// # Errors
    /// The error of the database, or [`SchemaError::Privileges`].
    pub async fn check_privileges(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let names = self.tables.split("CREATE TABLE ").skip(1);
        let names = names.filter_map(|rest| rest.split([' ', '(']).next()?.rsplit('.').next());
        let names: Vec<String> = names.map(|name| format!("'{}.{name}'", self.name)).collect();
        let look = format!(
            "SELECT string_agg(lacking, '; ' ORDER BY lacking) FROM (
                 SELECT privilege || ' on ' || string_agg(name, ', ' ORDER BY name) AS lacking
                 FROM unnest(ARRAY[{}]) AS name,
                     unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
                 WHERE NOT has_table_privilege(name, privilege) GROUP BY privilege) AS found",
            names.join(", ")
        );
        let row = sqlx::raw_sql(AssertSqlSafe(look)).fetch_one(connection).await?;
        match row.try_get(0)? {
            Some(lacking) => Err(SchemaError::Privileges(lacking).into()),
            None => Ok(()),
        }
    }

    /// Determines the state of the tables without changing anything.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn look(&self, connection: &mut PgConnection) -> Result<SchemaSeen, sqlx::Error> {
        if self.exists(connection).await? {
            return Ok(SchemaSeen::Format(self.read_format(connection).await?.0));
        }
        let sql = "SELECT has_database_privilege(current_database(), 'CREATE')";
        let can_create = sqlx::query_scalar(sql).fetch_one(connection).await?;
        Ok(SchemaSeen::Missing { can_create })
    }

    /// Returns true if the tables exist. Reads the catalog, since `to_regclass` can miss new tables in a
    /// transaction that waited for their creation.
    async fn exists(&self, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let look =
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'format')";
        sqlx::query_scalar(look).bind(self.name).fetch_one(connection).await
    }
}

/// Returns the tables of the schema `name` for which the next generated key already exists. This is the
/// state after logical replication, which copies rows but not sequences.
///
/// # Errors
/// The error of the database.
pub async fn late_sequences(
    connection: &mut PgConnection,
    name: &str,
) -> Result<Vec<String>, sqlx::Error> {
    let list = "SELECT format('SELECT %L FROM %I.%I HAVING max(%I) >
                 (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM %s)',
             table_schema || '.' || table_name, table_schema, table_name, column_name,
             pg_get_serial_sequence(format('%I.%I', table_schema, table_name), column_name))
         FROM information_schema.columns WHERE table_schema = $1 AND is_identity = 'YES'";
    let queries: Vec<String> =
        sqlx::query_scalar(list).bind(name).fetch_all(&mut *connection).await?;
    let mut late = Vec::new();
    for query in queries {
        let found = sqlx::query_scalar(AssertSqlSafe(query)).fetch_optional(&mut *connection);
        late.extend(found.await?);
    }
    Ok(late)
}

#[cfg(test)]
mod tests;
