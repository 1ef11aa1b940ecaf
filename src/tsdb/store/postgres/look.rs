//! Inspection of the database server of a store, without any change.

use db::postgres::schema::{SchemaError, SchemaSeen};
use db::postgres::{self, DatabaseUrl};
use sqlx::PgConnection;

use super::tables::SCHEMA;
use super::{Result, StoreError};

/// Oldest supported version of PostgreSQL.
const MAJOR_MIN: i32 = 15;

/// Statement that reads the properties of the server.
const LOOK: &str = "SELECT split_part(current_setting('server_version'), ' ', 1),
     current_setting('server_version_num')::integer / 10000, pg_is_in_recovery(),
     current_setting('transaction_read_only')::boolean, current_setting('server_encoding'),
     (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = 'datasets')";

/// Columns of [`LOOK`].
type Look = (String, i32, bool, bool, String, Option<bool>);

/// Reads the lowest of the connection limits: for unprivileged roles, for this role, and for this
/// database.
const LIMIT: &str = "SELECT least(
     current_setting('max_connections')::bigint
         - current_setting('superuser_reserved_connections')::bigint
         - coalesce(current_setting('reserved_connections', true)::bigint, 0),
     CASE WHEN NOT rolsuper THEN nullif(rolconnlimit, -1) END,
     CASE WHEN NOT rolsuper THEN nullif(datconnlimit, -1) END)
     FROM pg_roles, pg_database
     WHERE rolname = current_user AND datname = current_database()";

/// State of a reachable server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSeen {
    /// Version of PostgreSQL, such as `15.14`.
    pub version: String,
    /// True if this version of PostgreSQL is older than the oldest supported one.
    pub is_too_old: bool,
    /// True if the server is a standby, which follows another server and rejects writes.
    pub is_standby: bool,
    /// True if transactions are read-only unless they request otherwise, as on a standby.
    pub is_read_only: bool,
    /// State of the tables. `None` if the schema exists, but the user may not use it.
    pub tables: Option<SchemaSeen>,
    /// Privileges on the tables that the user lacks, such as `INSERT on datasets.rows`.
    pub lacking: Option<String>,
    /// Maximum number of connections of all services together.
    pub n_connections: u64,
    /// Encoding of the database, such as `UTF8`.
    pub encoding: String,
}

impl ServerSeen {
    /// Format of the tables that this version of the program supports.
    pub const FORMAT: i32 = SCHEMA.version;
}

/// Inspects the server at `url`.
///
/// # Errors
/// [`StoreError`] if the server cannot be reached or rejects the queries.
pub async fn look(url: &DatabaseUrl) -> Result<ServerSeen> {
    let mut connection = postgres::connect(url).await.map_err(StoreError::from)?;
    let c: &mut PgConnection = &mut connection;
    let (version, major, is_standby, is_read_only, encoding, may_use): Look =
        sqlx::query_as(LOOK).fetch_one(&mut *c).await?;
    let limit: i64 = sqlx::query_scalar(LIMIT).fetch_one(&mut *c).await?;
    let n_connections = u64::try_from(limit).unwrap_or(0);
    let tables = if may_use == Some(false) { None } else { Some(SCHEMA.look(&mut *c).await?) };
    let mut lacking = None;
    if tables == Some(SchemaSeen::Format(SCHEMA.version))
        && let Err(error) = SCHEMA.check_privileges(c).await
    {
        match SchemaError::of(&error) {
            Some(SchemaError::Privileges(found)) => lacking = Some(found.clone()),
            _ => return Err(error.into()),
        }
    }
    Ok(ServerSeen {
        version,
        is_too_old: major < MAJOR_MIN,
        is_standby,
        is_read_only,
        tables,
        lacking,
        n_connections,
        encoding,
    })
}
