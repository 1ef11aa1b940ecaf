//! Transactions of writers, which wait for the earlier ones of their dataset, and hints between services
//! about new commits: one notification for all commits within a few milliseconds. A hint is never sent
//! in the transaction of a write, since PostgreSQL commits transactions with notifications one by one.
//!
//! A hint only tells that there are commits to read. Where hints do not arrive, such as behind a pooler
//! or on a standby, services poll.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use db::postgres::connections::{Connections, Snapshot};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use model::dataset::DatasetId;
use sqlx::PgConnection;
use tokio::sync::{Mutex as Queue, Notify};
use tokio::time::sleep;
use tracing::debug;
use uuid::Uuid;

use super::{Result, StoreError};

/// PostgreSQL channel on which services notify one another of commits.
const CHANNEL: &str = "triptych_datasets";

/// Pause after a notification. All commits during the pause share the next notification. Readers do not
/// notice this delay, and fifty notifications per second are no load for the database.
const PAUSE: Duration = Duration::from_millis(20);

/// Pause before a lost connection for notifications is opened again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

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

/// Signals of commits, within this service and from other services.
#[derive(Debug)]
pub(super) struct Hints {
    /// Random id in the notifications of this service, by which the service ignores its own
    /// notifications.
    id: Arc<str>,
    /// Signaled after a commit of this service.
    committed: Notify,
    /// Signaled after a commit of another service.
    received: Notify,
}

impl Hints {
    pub(super) fn new() -> Self {
        let (committed, received) = Default::default();
        Self { id: Uuid::new_v4().to_string().into(), committed, received }
    }

    /// Signals that this service has made a commit.
    pub(super) fn note_commit(&self) {
        self.committed.notify_one();
    }

    /// Waits for a commit of another service, possibly before the call. Cancel-safe.
    pub(super) async fn received(&self) {
        self.received.notified().await;
    }

    /// Notifies other services of commits, until the future is dropped.
    pub(super) async fn send(&self, connections: &Connections) {
        loop {
            self.committed.notified().await;
            let notified = connections.read(Snapshot::Statement, |c| {
                let query = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL);
                query.bind(self.id.to_string()).execute(c).map(|done| Ok(done.map(drop)?)).boxed()
            });
            let notified: Result<()> = notified.await;
            // The loss is harmless: other services learn of the commit by the next notification or by
            // polling.
            if let Err(error) = notified {
                debug!(error = &error as &dyn Error, "failed to notify other services");
            }
            sleep(PAUSE).await;
        }
    }

    /// Receives notifications of other services, until the future is dropped.
    pub(super) async fn receive(&self, connections: &Connections) {
        loop {
            let Err(error) = self.listen(connections).await;
            debug!(error = &error as &dyn Error, "failed to listen for other services");
            sleep(RETRY_AFTER).await;
        }
    }

    async fn listen(&self, connections: &Connections) -> Result<Infallible, StoreError> {
        let mut listener = connections.listen(CHANNEL).await?;
        loop {
            let notified = listener.try_recv().await?;
            // `None` means that the connection was interrupted, so notifications can be missing.
            if notified.is_none_or(|notified| notified.payload() != &*self.id) {
                self.received.notify_one();
            }
        }
    }
}
