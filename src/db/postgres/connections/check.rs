//! Whether the database takes writes.

use std::{sync::atomic::Ordering, time::Duration};

use futures::{FutureExt as _, future::BoxFuture};
use tracing::info;

use super::{BEGIN_WRITE, Connections};
use crate::postgres::{fault::WorkError, work::OnceJob};

/// How long a check may take whether the server takes writes. The caller has other servers to turn to.
const CHECKED_WITHIN: Duration = Duration::from_secs(5);

/// Takes a megabyte of the disk until the transaction ends, for which no standby is waited for.
const TRY_SPACE: &str = "SET LOCAL synchronous_commit = local;
    CREATE TEMP TABLE space_trial ON COMMIT DROP AS
    SELECT repeat('x', 1000) FROM generate_series(1, 1000)";

impl Connections {
    /// Tests whether the database takes writes by `sql`, which changes nothing; after a write that
    /// found its disk full also by one of a megabyte, which is undone. It needs no permit, since it waits
    /// for no standby.
    ///
    /// # Errors
    /// That of the database.
    pub async fn check<E: WorkError>(&self, sql: &'static str) -> Result<(), E> {
        Ok(self.check_writes(sql).await?)
    }

    fn check_writes(&self, sql: &'static str) -> BoxFuture<'_, Result<(), sqlx::Error>> {
        async move {
            let was_full = self.is_full.load(Ordering::Relaxed);
            let check = OnceJob::new(|c| {
                async move {
                    if was_full {
                        sqlx::raw_sql(TRY_SPACE).execute(&mut *c).await?;
                    }
                    sqlx::raw_sql(sql).execute(c).await?;
                    Ok::<_, sqlx::Error>(())
                }
                .boxed()
            });
            let done = async { self.begin(Some(BEGIN_WRITE), None).await?.run(&check).await };
            let ended = self.within(CHECKED_WITHIN, done).await;
            check.into_result(ended)?;
            if was_full && self.is_full.swap(false, Ordering::Relaxed) {
                info!("the database's disk has space again");
            }
            Ok(())
        }
        .boxed()
    }
}
