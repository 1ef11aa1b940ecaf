//! PostgreSQL, as all stores of this program use it: one database, with a schema for each store.
//!
//! [`Connections`](connections::Connections) limits the number of connections and the duration of
//! transactions, [`Schema`](schema::Schema) creates tables once even if several services start at the
//! same time, and [`Fault`](fault::Fault) classifies errors.

pub mod connections;
pub mod fault;
pub mod schema;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
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

/// Error for a text that is not the address of a database. Does not contain the text, since the text can
/// include a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address of a database must have the form postgres://user@host:5432/name")]
pub struct DatabaseUrlError;

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(text: &str) -> Result<Self, DatabaseUrlError> {
        let is_url = ["postgres://", "postgresql://"].iter().any(|start| text.starts_with(start));
        if !is_url {
            return Err(DatabaseUrlError);
        }
        let options = text.parse().map_err(|_| DatabaseUrlError)?;
        Ok(Self { text: text.into(), options: Arc::new(options) })
    }
}

/// Opens a connection to the database at `url`, outside of a pool, so that an error tells why connecting
/// fails. Times out after 5 s.
///
/// # Errors
/// The error of the server or of the connection.
pub async fn connect(url: &DatabaseUrl) -> Result<PgConnection, sqlx::Error> {
    timeout(Duration::from_secs(5), url.connect_options().connect())
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

/// Opens a connection to the database at `url` that receives the notifications of `channel`. A lost
/// connection is reopened.
///
/// # Errors
/// The error of the database, for example of a standby, which does not support notifications.
pub async fn listen(url: &DatabaseUrl, channel: &str) -> Result<PgListener, sqlx::Error> {
    let options = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let pool = options.connect_with(url.connect_options()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(channel).await?;
    Ok(listener)
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
        for text in ["host/rows", "mysql://host/rows", ""] {
            assert_eq!(text.parse::<DatabaseUrl>().unwrap_err(), DatabaseUrlError);
        }
    }
}
