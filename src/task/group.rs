//! Tasks that start, stop and finish together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, debug_span};

/// Boxed, so that tokio's generic code for spawning is compiled once instead of for every task.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A set of tasks that are stopped by one signal and awaited together.
///
/// Every task of the program belongs to a group. Clones refer to the same set.
#[derive(Debug, Clone, Default)]
pub struct Group(Arc<GroupTasks>);

/// State in one [`Arc`], since cloning a `CancellationToken` acquires a lock that all its clones share.
#[derive(Debug, Default)]
struct GroupTasks {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Group {
    /// Runs `work` until it completes or the group stops, whichever is first.
    ///
    /// When the group stops, `work` is dropped at an await point, so it must be cancel-safe.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(work));
    }

    /// Runs `work` to its end, even while the group stops. [`Self::shutdown`] waits for it.
    ///
    /// `work` should wait for [`Self::stopped`] and finish soon after.
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

    /// Returns a group that stops with this one and can also be stopped separately.
    ///
    /// [`Self::shutdown`] of this group does not wait for tasks of the returned one.
    #[must_use]
    pub fn child(&self) -> Self {
        let stop = self.0.stop.child_token();
        Self(Arc::new(GroupTasks { tasks: TaskTracker::new(), stop }))
    }

    /// Asks every task to stop, without waiting.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until the group is asked to stop. Cancel-safe.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }

    /// Returns true if the group was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Stops every task and waits until all are complete.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
