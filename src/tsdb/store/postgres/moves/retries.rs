//! Any service finishes moves that were abandoned, and backs off from those that fail.

use std::{error::Error, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::FutureExt as _;
use lru::LruCache;
use model::dataset::DatasetId;
use task::backoff::Backoff;
use tracing::warn;

use super::{
    super::{Result, StoreError, catalog, servers::Servers},
    OnProgress, resume,
};

/// Moves that were not heard of for so long are abandoned.
const ABANDONED_AFTER: Duration = Duration::from_mins(1);

/// The longest pause before a move that fails is tried again: its dataset may be behind the fence, where
/// it cannot be used, and the fault be repaired meanwhile.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// Moves that fail, whose pauses are remembered.
const FAILING_MAX: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The pauses of moves that failed, by their numbers on record.
#[derive(Debug)]
pub(in super::super) struct Retries(LruCache<i64, Backoff>);

impl Default for Retries {
    fn default() -> Self {
        Self(LruCache::new(FAILING_MAX))
    }
}

impl Retries {
    /// The pause before a move that failed is tried again.
    fn next_pause(&mut self, id: i64) -> Duration {
        let new = || Backoff::new(ABANDONED_AFTER, PAUSE_MAX);
        self.0.get_or_insert_mut(id, new).next_wait()
    }
}

/// Finishes the moves that other services have abandoned.
pub(in super::super) async fn resume_abandoned(
    servers: &Servers,
    retries: &mut Retries,
) -> Result<()> {
    loop {
        let claim = servers.first().connections.write(|c| {
            let sql = "UPDATE moves SET touched_at = (extract(epoch FROM now()) * 1000000)::bigint
                 WHERE dataset = (SELECT dataset FROM moves
                     WHERE touched_at < (extract(epoch FROM now()) * 1000000)::bigint - $1
                     ORDER BY touched_at LIMIT 1 FOR UPDATE SKIP LOCKED)
                 RETURNING id, dataset";
            let claim = sqlx::query_as(sql).bind(micros(ABANDONED_AFTER));
            async move { Ok::<Option<(i64, i64)>, StoreError>(claim.fetch_optional(c).await?) }
                .boxed()
        });
        let Some((id, dataset)) = claim.await? else { return Ok(()) };
        let dataset = catalog::dataset_id(dataset)?;
        if let Err(error) = resume(servers, dataset, &(Arc::new(|_| {}) as OnProgress)).await {
            let pause = retries.next_pause(id);
            note(dataset, &error, pause);
            postpone(servers, id, pause).await?;
        }
    }
}

fn note(dataset: DatasetId, error: &StoreError, pause: Duration) {
    let (error, pause_s) = (error as &dyn Error, pause.as_secs());
    warn!(error, "failed to finish the move of dataset {dataset}; trying again in {pause_s} s");
}

/// Has a move be taken for abandoned after `pause`, by all services.
async fn postpone(servers: &Servers, id: i64, pause: Duration) -> Result<()> {
    let postpone = servers.first().connections.write_once(|c| {
        let sql = "UPDATE moves
             SET touched_at = (extract(epoch FROM now()) * 1000000)::bigint - $2 + $3 WHERE id = $1";
        let postpone = sqlx::query(sql).bind(id).bind(micros(ABANDONED_AFTER)).bind(micros(pause));
        async move { Ok::<_, StoreError>(postpone.execute(c).await.map(drop)?) }.boxed()
    });
    postpone.await
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
