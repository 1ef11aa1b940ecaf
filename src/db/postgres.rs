//! PostgreSQL, as all stores of this program use it: one database, with a schema for each store.
//!
//! [`Connections`](connections::Connections) limits the number of connections and the duration of
//! transactions, [`Schema`](schema::Schema) creates tables once even if several services start at the
//! same time, and [`Fault`](fault::Fault) classifies errors.

pub mod connections;
pub mod fault;
pub mod schema;

use std::env;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions as _, PgConnection};
use tokio::time::timeout;

use self::fault::timed_out;

/// Address of a database, such as `postgres://user@host:5432/name`.
///
/// Missing parts come from the environment variables and the password file that `psql` uses. `Debug` and
/// `Display` hide the password.
#[derive(Clone, derive_more::Debug, derive_more::Display)]
#[debug("{self}")]
#[display(
    "postgres://{}:{}/{}",
    options.get_host(),
    options.get_port(),
    options.get_database().unwrap_or(options.get_username())
)]
pub struct DatabaseUrl {
    text: Arc<str>,
    options: Arc<PgConnectOptions>,
}

impl DatabaseUrl {
    /// Returns true if the address `text` contains a password.
    #[must_use]
    pub fn has_password(text: &str) -> bool {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, query) = rest.split_at(end);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':') || query.contains("password=")
    }

    /// Returns the options of a new connection, with the current content of the password file. Does not
    /// set `extra_float_digits`: poolers reject it, and the default of the server is exact.
    fn connect_options(&self) -> PgConnectOptions {
        let options = self.text.parse().unwrap_or_else(|_| self.options.as_ref().clone());
        options.application_name("triptych").extra_float_digits(None)
    }
}

/// Parameters of an address that concern TLS. sqlx ignores unknown parameters, so a misspelled `sslmode`
/// would turn off the check of the server.
const TLS_PARAMETERS: &str = "sslmode, sslrootcert, sslcert, sslkey, ssl-mode, ssl-root-cert, ssl-ca, \
     ssl-cert, ssl-key";

/// Error for a text that is not the address of a database, or for settings of the environment that do
/// not apply to it. Does not contain the text, since the text can include a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// The text is not an address.
    #[error("address of a database must have the form postgres://user@host:5432/name")]
    Form,
    /// A parameter of the address is unknown.
    #[error("parameter {0} of the database's address is unknown; known are {TLS_PARAMETERS}")]
    Parameter(String),
    /// The environment variable `PGSSLMODE` has an unknown value.
    #[error(
        "PGSSLMODE={0} is unknown; known are disable, allow, prefer, require, verify-ca and verify-full"
    )]
    SslMode(String),
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        let is_url = ["postgres://", "postgresql://"].iter().any(|start| text.starts_with(start));
        if !is_url {
            return Err(DatabaseUrlError::Form);
        }
        let options = text.parse().map_err(|_| DatabaseUrlError::Form)?;
        let query = text.split_once('?').map_or("", |(_, query)| query);
        let names = query.split('&').filter_map(|parameter| parameter.split('=').next());
        for name in names.filter(|name| name.starts_with("ssl")) {
            if !TLS_PARAMETERS.split(", ").any(|known| known == name) {
                return Err(DatabaseUrlError::Parameter(name.to_owned()));
            }
        }
        check_mode(&env::var("PGSSLMODE").unwrap_or_default())?;
        Ok(Self { text: text.into(), options: Arc::new(options) })
    }
}

/// Checks the value of the environment variable `PGSSLMODE`, which sqlx ignores if it is wrong.
fn check_mode(mode: &str) -> Result<(), DatabaseUrlError> {
    let is_known = mode.is_empty() || mode.parse::<PgSslMode>().is_ok();
    if is_known { Ok(()) } else { Err(DatabaseUrlError::SslMode(mode.to_owned())) }
}

/// Opens a connection to the database at `url`, outside of a pool, so that an error tells why connecting
/// fails. Times out after 5 s.
///
/// The connection has an open transaction, and no prepared statements of other clients, so that it can
/// lead through a pooler. After a failed statement, the transaction rejects further ones.
///
/// # Errors
/// The error of the server or of the connection.
pub async fn connect(url: &DatabaseUrl) -> Result<PgConnection, sqlx::Error> {
    let connect = async {
        let mut connection = url.connect_options().connect().await?;
        sqlx::raw_sql("BEGIN; DEALLOCATE ALL").execute(&mut connection).await?;
        Ok(connection)
    };
    timeout(Duration::from_secs(5), connect).await.unwrap_or_else(|_| Err(timed_out()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatted_address_contains_no_password() {
        let url: DatabaseUrl = "postgres://user:secret@host/rows".parse().unwrap();
        assert_eq!(format!("{url} {url:?}"), "postgres://host:5432/rows postgres://host:5432/rows");
        for (text, want) in [
            ("postgres://user:secret@host/rows", true),
            ("postgres://host/rows?password=secret", true),
            ("postgres://user@host:5432/rows?sslmode=require", false),
            ("postgres://host:5432", false),
        ] {
            assert_eq!(DatabaseUrl::has_password(text), want, "{text}");
        }
        for text in ["host/rows", "mysql://host/rows", "postgres://host/rows?sslmode=bogus", ""] {
            assert_eq!(text.parse::<DatabaseUrl>().unwrap_err(), DatabaseUrlError::Form);
        }
    }

    #[test]
    fn wrong_settings_of_the_connection_are_rejected() {
        let error = |text: &str| text.parse::<DatabaseUrl>().unwrap_err().to_string();
        let misspelled = error("postgres://user:secret@host/rows?sslmod=verify-full");
        assert!(misspelled.starts_with("parameter sslmod of the"), "{misspelled}");
        assert!(!misspelled.contains("secret"), "{misspelled}");
        let known = "postgres://host/rows?sslmode=verify-full&options[search_path]=x&user=a";
        known.parse::<DatabaseUrl>().unwrap();
        for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
            assert_eq!(check_mode(mode), Ok(()), "{mode}");
        }
        let mode = check_mode("verify_full").unwrap_err().to_string();
        assert!(mode.starts_with("PGSSLMODE=verify_full is unknown"), "{mode}");
    }
}
