//! Why a pool has no connection: it tries again until its time is up, and cannot say what failed.

use std::time::Duration;

use sqlx::{ConnectOptions as _, PgPool};
use tokio::time::timeout;

use super::fault::{no_connection, timed_out};

/// How long connecting may take that only tells why the pool has no connection.
const LOOK_WITHIN: Duration = Duration::from_secs(1);

/// Connects once, and returns why that failed, which is no lost connection;
/// [`sqlx::Error::PoolTimedOut`] if the server gives connections, and all of `pool` are in use.
pub(super) async fn explain(pool: &PgPool) -> sqlx::Error {
    match timeout(LOOK_WITHIN, pool.connect_options().connect()).await {
        Ok(Ok(_)) => sqlx::Error::PoolTimedOut,
        Ok(Err(cause)) => no_connection(cause),
        Err(_) => no_connection(timed_out()),
    }
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgPoolOptions;
    use task::causes::chain;

    use super::*;
    use crate::postgres::fault::{Fault, is_lost};

    #[tokio::test]
    async fn a_pool_without_a_connection_says_why_and_lost_none() {
        let pool = PgPoolOptions::new()
            .acquire_timeout(Duration::from_millis(50))
            .connect_lazy("postgres://me:secret@127.0.0.1:1/rows")
            .unwrap();
        assert!(matches!(pool.acquire().await, Err(sqlx::Error::PoolTimedOut)));
        let error = explain(&pool).await;
        assert!(!is_lost(&error) && Fault::from(&error) == Fault::Unreachable, "{error:?}");
        let text = chain(&error);
        assert_eq!(text.matches("refused").count(), 1, "{text}");
        assert!(text.contains("triptych doctor --store") && !text.contains("secret"), "{text}");
    }
}
