//! Transactions of writers, which wait for the earlier ones of their dataset.

use std::sync::Arc;

use db::postgres::connections::Connections;
use futures::future::BoxFuture;
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tokio::sync::Mutex as Queue;

use super::Result;
use super::hints::Hints;

/// Queues of writers, chosen by dataset id. Writers of a dataset share a queue, so that only one of them
/// occupies a connection. Ids that differ by a multiple of 1024 share a queue, too.
pub(super) type Queues = [Queue<()>; 1024];

/// The connections, queues and hints for writes.
#[derive(Debug, Clone)]
pub(super) struct Writes {
    pub(super) connections: Connections,
    pub(super) queues: Arc<Queues>,
    pub(super) hints: Arc<Hints>,
}

impl Writes {
    /// Runs `work` in a transaction, after the earlier writes of its dataset, and calls `on_commit` with
    /// its result.
    pub(super) async fn write<T: Send>(
        &self,
        dataset: Option<DatasetId>,
        work: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T>> + Send,
        on_commit: impl FnOnce(&T) + Send,
    ) -> Result<T> {
        let queues = &self.queues;
        let queue = dataset.and_then(|dataset| {
            queues.get(usize::try_from(dataset.get()).unwrap_or_default() % queues.len())
        });
        let _turn = match queue {
            Some(queue) => Some(queue.lock().await),
            None => None,
        };
        let done = self.connections.write(work).await?;
        on_commit(&done);
        self.hints.note_commit();
        Ok(done)
    }
}
