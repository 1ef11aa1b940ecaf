//! Tasks that start, stop and finish together.

use std::{future::Future, pin::Pin, sync::Arc};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, debug_span};

/// In a box, so that the runtime's part of a task is compiled once and not for each task of the program.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A set of tasks that stop on one signal and are waited for.
///
/// Every task of the program belongs to a group. Clones share the one set.
#[derive(Debug, Clone, Default)]
pub struct Group(Arc<Shared>);

/// Behind one count: cloning a token takes a lock that all its clones share.
#[derive(Debug, Default)]
struct Shared {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Group {
    /// Runs `work` until it ends or the group stops, whichever comes first.
    ///
    /// `work` is dropped at an await point when the group stops, so it must be cancel-safe.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(work));
    }

    /// Runs `work` to its end, even while the group stops: [`Self::shutdown`] waits for it.
    ///
    /// `work` is expected to watch [`Self::stopped`] and to finish soon after.
    pub fn spawn_to_end(
        &self,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn_boxed_to_end(name, Box::pin(work));
    }

    fn spawn_boxed(&self, name: &'static str, work: Work) {
        let stop = self.0.stop.clone();
        let work = async move {
            stop.run_until_cancelled(work).await;
        };
        self.spawn_boxed_to_end(name, Box::pin(work));
    }

    fn spawn_boxed_to_end(&self, name: &'static str, work: Work) {
        self.0.tasks.spawn(work.instrument(debug_span!("task", name)));
    }

    /// Returns a group that stops when this one does, and can be stopped alone.
    ///
    /// Its tasks are waited for by its own [`Self::shutdown`], not by its parent's.
    #[must_use]
    pub fn child(&self) -> Self {
        let stop = self.0.stop.child_token();
        Self(Arc::new(Shared { tasks: TaskTracker::new(), stop }))
    }

    /// Asks every task to stop, without waiting.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until the group is asked to stop. Cancel-safe.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }

    /// Whether the group was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Stops every task and waits until the last one is gone.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
