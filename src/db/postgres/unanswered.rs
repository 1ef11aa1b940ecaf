//! Writes that the server has not answered when their callers wait no longer.
//!
//! A server that waits for a standby to confirm a commit does not notice that its client is gone. If the
//! client closed the connection, each write that is tried again would take another one of the server,
//! until there are none left, also for reads. So it keeps the connection, and the permit to write.

use std::time::Duration;

use sqlx::{Connection as _, PgPool, Postgres, pool::PoolConnection};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};
use tracing::warn;

/// Between two looks whether the server still works on the write: as long as writers wait for a permit.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Whether the server works on a statement of this program that began before the last look. Another
/// server, which leads now, does not: then nothing is left of the write that could take connections.
const IS_WORKING: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity
    WHERE application_name = 'triptych' AND state = 'active'
    AND state_change < clock_timestamp() - interval '4 seconds')";

/// Keeps the connection of a write until the server answers it, or is not there any more.
pub(super) async fn wait_for_answer(
    mut connection: PoolConnection<Postgres>,
    permit: OwnedSemaphorePermit,
    pool: PgPool,
) {
    // What comes before the answer to this is the answer to the write.
    if timeout(LOOK_EVERY, connection.ping()).await.is_err() {
        warn!("the database does not answer a write: it may wait for a standby");
        while timeout(LOOK_EVERY, connection.ping()).await.is_err() {
            let is_working = sqlx::query_scalar(IS_WORKING).fetch_one(&pool);
            if let Ok(Ok(false)) = timeout(LOOK_EVERY, is_working).await {
                break;
            }
        }
    }
    connection.close_on_drop();
    drop((connection, permit));
}
