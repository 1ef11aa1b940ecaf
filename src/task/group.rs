//! Groups of tasks that are stopped and awaited together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, debug_span};

/// Work of a task. It is boxed, so that tokio's generic code for spawning is compiled only once.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A set of tasks that a single signal stops, and that are awaited together.
///
/// Every task of the program belongs to a group. Clones refer to the same set.
#[derive(Debug, Clone, Default)]
pub struct Group(Arc<GroupTasks>);

/// State of a group. Clones of the group share it by a single [`Arc`], since cloning a
/// `CancellationToken` acquires a lock.
#[derive(Debug, Default)]
struct GroupTasks {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Group {
    /// Runs `work` until it completes, or until the group stops.
    ///
    /// When the group stops, `work` is dropped at an await point, so it must be cancel-safe.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn_boxed(name, Box::pin(work));
    }

    /// Runs `work` until it completes, even if the group stops. [`Self::shutdown`] waits for it.
    ///
    /// `work` should wait for [`Self::stopped`] and complete soon after that.
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

    /// Returns a group that stops with this group, and that can also be stopped separately.
    ///
    /// [`Self::shutdown`] of this group does not wait for the tasks of the returned group.
    #[must_use]
    pub fn child(&self) -> Self {
        let stop = self.0.stop.child_token();
        Self(Arc::new(GroupTasks { tasks: TaskTracker::new(), stop }))
    }

    /// Tells all tasks to stop. Does not wait for them.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Waits until the group is stopped. Cancel-safe.
    pub async fn stopped(&self) {
        self.0.stop.cancelled().await;
    }

    /// Returns true if the group was stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Tells all tasks to stop and waits for their completion.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
