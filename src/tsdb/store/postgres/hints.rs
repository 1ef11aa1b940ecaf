//! Hints between services that there are new commits: one notification after those of some milliseconds,
//! never in a transaction that writes, whose commits would wait for each other.
//!
//! A hint says nothing but that a look is worth it. Where none arrives, as through a pooler that hands out
//! connections by transaction, or on a standby, services look from time to time.

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use db::postgres::{
    DatabaseUrl, Listener,
    connections::{Connections, Snapshot},
};
use futures::FutureExt as _;
use tokio::{sync::Notify, time::sleep};
use tracing::debug;
use uuid::Uuid;

use super::{Result, StoreError};

/// The name under which services notify each other.
const CHANNEL: &str = "triptych_datasets";

/// The pause after a notification, in which all commits share the next one. A reader does not see the delay,
/// and a database does not notice fifty a second.
const PAUSE: Duration = Duration::from_millis(20);

/// The pause after a connection failed.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Commits of this service and of others.
#[derive(Debug)]
pub(super) struct Hints {
    /// Tells this service's notifications from those of others.
    id: Arc<str>,
    /// A commit was made here.
    committed: Notify,
    /// Another service made one.
    received: Notify,
}

impl Hints {
    pub(super) fn new() -> Self {
        let (committed, received) = Default::default();
        Self { id: Uuid::new_v4().to_string().into(), committed, received }
    }

    /// Notes a commit of this service.
    pub(super) fn note_commit(&self) {
        self.committed.notify_one();
    }

    /// Waits until another service has committed something, perhaps before the call. Cancel-safe.
    pub(super) async fn received(&self) {
        self.received.notified().await;
    }

    /// Notifies other services of commits until it is dropped.
    pub(super) async fn send(&self, connections: &Connections) {
        loop {
            self.committed.notified().await;
            let notified = connections.read(Snapshot::Statement, |c| {
                let query = sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL);
                query.bind(self.id.to_string()).execute(c).map(|done| Ok(done.map(drop)?)).boxed()
            });
            let notified: Result<()> = notified.await;
            // The next commit, or the next look, makes up for it.
            if let Err(error) = notified {
                debug!(error = &error as &dyn Error, "failed to notify other services");
            }
            sleep(PAUSE).await;
        }
    }

    /// Receives notifications of other services until it is dropped.
    pub(super) async fn receive(&self, url: &DatabaseUrl) {
        loop {
            let Err(error) = self.listen(url).await;
            debug!(error = &error as &dyn Error, "failed to listen for other services");
            sleep(RETRY_AFTER).await;
        }
    }

    async fn listen(&self, url: &DatabaseUrl) -> Result<Infallible, StoreError> {
        let mut listener = Listener::connect(url, CHANNEL).await?;
        loop {
            let sender = listener.next().await?;
            // Some may have been lost with the connection.
            if sender.as_deref() != Some(&self.id) {
                self.received.notify_one();
            }
        }
    }
}
