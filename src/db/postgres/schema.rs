//! The tables of a room, in a schema of their own, and the number of their format.

use sqlx::{AssertSqlSafe, PgConnection};
use task::causes::chain;
use tracing::warn;

use super::fault::{Fault, WorkError};

/// The key of the lock under which one service of several creates the tables: any number will do, and
/// this one is the letters `tript`.
const CREATE_LOCK: i64 = 0x74_72_69_70_74;

/// Before the statements of views, which may fail without the rest of the transaction. They wait for a
/// reader of a view no longer than people notice, since other readers wait behind them.
const BEGIN_VIEWS: &str = "SAVEPOINT views; SET LOCAL lock_timeout = 500;";

/// After them: the rest of the transaction waits for locks as long as before.
const END_VIEWS: &str = "SET LOCAL lock_timeout TO DEFAULT; RELEASE views";

/// The tables of a room.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    /// The schema that holds them, such as `datasets`.
    pub name: &'static str,
    /// The number of their format, kept in a table `format` beside them; any other is refused.
    pub version: i32,
    /// The statements that create them in an empty schema.
    pub tables: &'static str,
    /// The statements that create or replace views for people, and their functions; empty if there are
    /// none. They are no part of the format.
    pub views: &'static str,
}

/// What a look at the tables of a room found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaSeen {
    /// Tables of this format.
    Format(i32),
    /// No tables in the schema, or no schema.
    Missing {
        /// Whether the user of the connection may create them.
        can_create: bool,
    },
}

/// Why tables were not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The database failed.
    #[error("open the tables of the database")]
    Database(#[from] sqlx::Error),
    /// Another version of the program made them.
    #[error(
        "read tables of format {found}, where this program knows format {known} alone; run the version that made them, see UPGRADE in `triptych man operate`"
    )]
    Version {
        /// The format of the tables.
        found: i64,
        /// The program's format, by [`Schema::version`].
        known: i64,
    },
}

impl WorkError for SchemaError {
    fn unreachable_cause(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Database(error) => Some(error).filter(|&e| Fault::from(e) == Fault::Unreachable),
            Self::Version { .. } => None,
        }
    }

    fn is_full(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_full())
    }
}

impl Schema {
    /// Creates the tables if there are none, and checks their format, in the transaction of
    /// `connection`; a random number that is that of these tables.
    ///
    /// # Errors
    /// [`SchemaError`]: the database failed, or another version of the program made the tables.
    pub async fn open(&self, connection: &mut PgConnection) -> Result<i64, SchemaError> {
        // They come with their format, in one transaction. Where they are, no service waits for another
        // one that opens them, too, and may have been paused.
        if !self.are_there(connection).await? {
            self.create(connection).await?;
        }
        let (found, era): (i32, i64) =
            sqlx::query_as("SELECT version, era FROM format").fetch_one(&mut *connection).await?;
        if found != self.version {
            return Err(SchemaError::Version { found: found.into(), known: self.version.into() });
        }
        self.put_views(connection).await?;
        Ok(era)
    }

    /// Looks for the tables, and changes nothing.
    ///
    /// # Errors
    /// That of the database.
    pub async fn look(&self, connection: &mut PgConnection) -> Result<SchemaSeen, sqlx::Error> {
        let name = self.name;
        if self.are_there(connection).await? {
            let format = AssertSqlSafe(format!("SELECT version FROM {name}.format"));
            return sqlx::query_scalar(format).fetch_one(connection).await.map(SchemaSeen::Format);
        }
        let rights = "SELECT CASE WHEN EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)
             THEN has_schema_privilege($1, 'CREATE')
             ELSE has_database_privilege(current_database(), 'CREATE') END";
        let can_create = sqlx::query_scalar(rights).bind(name).fetch_one(connection).await?;
        Ok(SchemaSeen::Missing { can_create })
    }

    /// Whether there are tables. Read from the catalog: `to_regclass` goes on to say no, in a transaction
    /// that waited for the one which made them.
    async fn are_there(&self, connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
        let look =
            "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = 'format')";
        sqlx::query_scalar(look).bind(self.name).fetch_one(connection).await
    }

    /// Creates the tables, unless another service did so meanwhile.
    async fn create(&self, connection: &mut PgConnection) -> Result<(), SchemaError> {
        let Self { name, version, tables, .. } = *self;
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(CREATE_LOCK)
            .execute(&mut *connection)
            .await?;
        if self.are_there(connection).await? {
            return Ok(());
        }
        let look = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)";
        if !sqlx::query_scalar(look).bind(name).fetch_one(&mut *connection).await? {
            let create = AssertSqlSafe(format!("CREATE SCHEMA {name}"));
            sqlx::raw_sql(create).execute(&mut *connection).await?;
        }
        let format = "CREATE TABLE format (version integer NOT NULL, era bigint NOT NULL)";
        sqlx::raw_sql(format).execute(&mut *connection).await?;
        sqlx::raw_sql(tables).execute(&mut *connection).await?;
        let insert = "INSERT INTO format (version, era)
             VALUES ($1, hashtextextended(gen_random_uuid()::text, 0))";
        sqlx::query(insert).bind(version).execute(connection).await?;
        Ok(())
    }

    /// Creates the views, or replaces those of another text, by the comment on the table `format`.
    /// Nothing waits for them: they are left unchanged where the role may not change them, where the
    /// database takes no writes, and while another service or a reader of a view is in the way.
    async fn put_views(&self, connection: &mut PgConnection) -> Result<(), SchemaError> {
        if self.views.is_empty() {
            return Ok(());
        }
        let look =
            "SELECT format('COMMENT ON TABLE format IS %L', 'views ' || md5($1)) FROM pg_class
             WHERE oid = 'format'::regclass AND pg_has_role(relowner, 'USAGE')
             AND current_setting('transaction_read_only') = 'off'
             AND obj_description(oid, 'pg_class') IS DISTINCT FROM 'views ' || md5($1)";
        let wanted: Option<String> =
            sqlx::query_scalar(look).bind(self.views).fetch_optional(&mut *connection).await?;
        let Some(comment) = wanted else { return Ok(()) };
        let lock = "SELECT pg_try_advisory_xact_lock($1)";
        if !sqlx::query_scalar(lock).bind(CREATE_LOCK).fetch_one(&mut *connection).await? {
            return Ok(());
        }
        let Self { name, views, .. } = *self;
        let put = format!("{BEGIN_VIEWS}{views};{comment};{END_VIEWS}");
        if let Err(error) = sqlx::raw_sql(AssertSqlSafe(put)).execute(&mut *connection).await {
            sqlx::raw_sql("ROLLBACK TO views").execute(connection).await?;
            let cause = chain(&error);
            warn!(cause, "the views of the schema {name} stay as they are: {cause}");
        }
        Ok(())
    }
}
