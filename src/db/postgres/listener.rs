//! Notifications of a database, on a connection that does nothing else.

use sqlx::postgres::{PgListener, PgPoolOptions};

use super::DatabaseUrl;

/// A connection that receives the notifications of one channel.
#[derive(Debug)]
pub struct Listener {
    listener: PgListener,
}

impl Listener {
    /// Connects to the database at `url` and listens on `channel`.
    ///
    /// # Errors
    /// That of the database. A standby refuses to listen.
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

    /// Waits for the next notification and returns its text; `None` if the connection was lost and made
    /// again, and some may be missing. Cancel-safe.
    ///
    /// # Errors
    /// That of the database.
    pub async fn next(&mut self) -> Result<Option<String>, sqlx::Error> {
        let notification = self.listener.try_recv().await?;
        Ok(notification.map(|notification| notification.payload().to_owned()))
    }
}
