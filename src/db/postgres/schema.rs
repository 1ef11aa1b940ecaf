//! Tables of a store, in a separate schema with the number of their format.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use tracing::info;

use crate::format;

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
        /// True if the user of the connection can create the schema or the tables.
        can_create: bool,
    },
}

/// Reason why the tables of a store cannot be used, as the cause of an
/// [`sqlx::Error::Configuration`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The tables were created by another version of the program.
    #[error("tables have format {found}, expected {known}; {}", format::advice(*found, *known))]
    Version {
        /// Format of the tables.
        found: i64,
        /// Format that this version of the program uses.
        known: i64,
    },
    /// The encoding of the database cannot represent every text.
    #[error(
        "database has encoding {found}, expected UTF8; create another database: createdb --encoding UTF8 --template template0 NAME"
    )]
    Encoding {
        /// Encoding of the database.
        found: String,
    },
    /// The user cannot read and write all tables.
    #[error("user lacks privileges: {lacking}")]
    Privileges {
        /// Privileges and their tables, such as `INSERT on datasets.rows`.
        lacking: String,
    },
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
            return Err(SchemaError::Encoding { found: encoding }.into());
        }
        let lock = "SELECT pg_advisory_xact_lock($1)";
        sqlx::query(lock).bind(CREATE_LOCK).execute(&mut *connection).await?;
        // Tables and format are created in one transaction, so either both exist or neither exists.
        if !self.are_there(connection).await? {
            self.create(connection).await?;
        }
        let (found, era) = self.read_format(connection).await?;
        if found != self.version {
            self.upgrade(connection, found).await?;
        }
        Ok(era)
    }

    /// Upgrades tables of the format `found`. Waits for open writing transactions, since these have read
    /// the format. Later transactions read the new format.
    async fn upgrade(&self, connection: &mut PgConnection, found: i32) -> Result<(), sqlx::Error> {
        let Self { name, version, steps, .. } = *self;
        let (from, known) = (found.into(), version.into());
        let steps = format::steps_from(steps, from, known);
        let steps = steps.ok_or(SchemaError::Version { found: from, known })?;
        let lock = format!("LOCK TABLE {name}.format IN ACCESS EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(lock)).execute(&mut *connection).await?;
        for step in steps {
            sqlx::raw_sql(*step).execute(&mut *connection).await?;
        }
        let raise = format!("UPDATE {name}.format SET version = $1");
        sqlx::query(AssertSqlSafe(raise)).bind(version).execute(connection).await?;
        info!(found, known, "upgraded the schema {name} from format {found} to {known}");
        Ok(())
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
    pub async fn check(&self, connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
        let (found, era) = self.read_format(connection).await?;
        if found != self.version {
            return Err(
                SchemaError::Version { found: found.into(), known: self.version.into() }.into()
            );
        }
        Ok(era)
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
            Some(lacking) => Err(SchemaError::Privileges { lacking }.into()),
            None => Ok(()),
        }
    }

    /// Determines the state of the tables without changing anything.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn look(&self, connection: &mut PgConnection) -> Result<SchemaSeen, sqlx::Error> {
        let name = self.name;
        if self.are_there(connection).await? {
            return self
                .read_format(connection)
                .await
                .map(|(format, _)| SchemaSeen::Format(format));
        }
        let rights = "SELECT CASE WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)
             THEN has_schema_privilege($1, 'CREATE')
             ELSE has_database_privilege(current_database(), 'CREATE') END";
        let can_create = sqlx::query_scalar(rights).bind(name).fetch_one(connection).await?;
        Ok(SchemaSeen::Missing { can_create })
    }

    /// Returns true if the tables exist. Reads the catalog, since `to_regclass` can miss new tables in a
    /// transaction that waited for their creation.
    async fn are_there(&self, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let look =
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'format')";
        sqlx::query_scalar(look).bind(self.name).fetch_one(connection).await
    }

    async fn create(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let Self { name, version, tables, .. } = *self;
        let look = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
        if !sqlx::query_scalar(look).bind(name).fetch_one(&mut *connection).await? {
            let create = AssertSqlSafe(format!("CREATE SCHEMA {name}"));
            sqlx::raw_sql(create).execute(&mut *connection).await?;
        }
        // Has a primary key only because logical replication requires one in every table.
        let format = format!(
            "SET LOCAL search_path = {name};
             CREATE TABLE format (version integer PRIMARY KEY, era bigint NOT NULL)"
        );
        sqlx::raw_sql(AssertSqlSafe(format)).execute(&mut *connection).await?;
        sqlx::raw_sql(tables).execute(&mut *connection).await?;
        let insert = "INSERT INTO format (version, era)
             VALUES ($1, hashtextextended(gen_random_uuid()::text, 0))";
        sqlx::query(insert).bind(version).execute(connection).await?;
        Ok(())
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
