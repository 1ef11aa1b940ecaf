//! PostgreSQL, as every store of this program uses it: one database for all rooms, a schema for each.
//!
//! [`Connections`](connections::Connections) are few and bounded in time, [`Schema`](schema::Schema)
//! creates tables once whichever service comes first, and [`Fault`](fault::Fault) says what an error
//! means.

pub mod connections;
pub mod fault;
pub mod schema;

use std::{str::FromStr, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, PgConnection,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::time::timeout;

use self::fault::timed_out;

/// The address of a database, such as `postgres://user@host:5432/name`.
///
/// What it leaves out comes from the variables and the password file that `psql` reads. It may hold a
/// password, which neither `Debug` nor `Display` shows.
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
    /// Returns true if `text`, an address, has a password in it.
    #[must_use]
    pub fn has_password(text: &str) -> bool {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, query) = rest.split_at(end);
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        user.contains(':') || query.contains("password=")
    }

    /// Options of a new connection, with the password that the password file has now. Without digits of
    /// floats, whose default is exact, since a pooler rejects the option.
    fn connect_options(&self) -> PgConnectOptions {
        let options = self.text.parse().unwrap_or_else(|_| self.options.as_ref().clone());
        options.application_name("triptych").extra_float_digits(None)
    }
}

/// A text is no address of a database. It does not say which text, which may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read the address of a database, such as postgres://user@host:5432/name")]
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

/// Opens one connection to the server at `url`, to learn why a pool has none. Times out after 5 seconds.
///
/// # Errors
/// The error of the server or of the connection.
pub async fn connect(url: &DatabaseUrl) -> Result<PgConnection, sqlx::Error> {
    timeout(Duration::from_secs(5), url.connect_options().connect())
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}

/// A connection that receives the notifications of one channel.
#[derive(Debug)]
pub struct Listener {
    listener: PgListener,
}

impl Listener {
    /// Connects to the database at `url` and listens on `channel`.
    ///
    /// # Errors
    /// The error of the database. A standby refuses to listen.
    pub async fn connect(url: &DatabaseUrl, channel: &str) -> Result<Self, sqlx::Error> {
        let options = url.connect_options();
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await?;
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(channel).await?;
        Ok(Self { listener })
    }

    /// Waits for the next notification and returns its payload. Returns `None` if the connection was lost
    /// and reopened, so that notifications may be missing. Cancel-safe.
    ///
    /// # Errors
    /// The error of the database.
    pub async fn next(&mut self) -> Result<Option<String>, sqlx::Error> {
        let notification = self.listener.try_recv().await?;
        Ok(notification.map(|notification| notification.payload().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_no_password() {
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
