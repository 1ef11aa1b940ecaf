//! One connection by itself, for a look at a server: a pool tries again until its time is up, and cannot say
//! why there is none.

use std::time::Duration;

use sqlx::{ConnectOptions as _, PgConnection};
use tokio::time::timeout;

use super::{DatabaseUrl, fault::timed_out};

/// How long connecting may take: longer than a server far away needs, and no test of patience.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Connects to the server at `url` once.
///
/// # Errors
/// Why it cannot be reached, or what it refuses.
pub async fn connect(url: &DatabaseUrl) -> Result<PgConnection, sqlx::Error> {
    timeout(CONNECT_WITHIN, url.connect_options().connect())
        .await
        .unwrap_or_else(|_| Err(timed_out()))
}
