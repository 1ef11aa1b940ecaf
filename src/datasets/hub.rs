//! Broadcasts new rows from each commit to the readers that follow the dataset.
//!
//! A commit is rendered once, and all readers share the bytes. A reader that lags by more than the
//! buffer is cut off: it reconnects and gets the replay. Channels are also notified when their access
//! may have ended.
//!
//! Where several services write one store, each publishes all commits, in their order: see
//! [`shared`].

pub(crate) mod frame;
mod shared;

use std::{collections::HashMap, sync::Arc};

use model::{dataset::DatasetId, key::KeyId};
use parking_lot::Mutex;
use tokio::sync::{
    Notify,
    broadcast::{self, error::RecvError},
    watch,
};

use self::frame::Frame;

/// Frames that a reader may lag. At [`FRAME_ROWS`](frame::FRAME_ROWS) rows each they hold most of a
/// bulk insert, and a followed dataset takes some 20 MB at worst.
pub(crate) const LAG_FRAMES: usize = 256;

/// What is broadcast to the readers of a dataset.
#[derive(Debug, Clone)]
pub(crate) enum HubEvent {
    Frame(Frame),
    /// The access of this key, or of any if `None`, may have ended: the reader must check again.
    Access(Option<KeyId>),
    /// The commits that follow are not known: the reader must connect again.
    Lost,
}

/// Who writes the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// This service alone: all commits are published as they are made here.
    One,
    /// Other services, too: a commit is published when all before it are.
    Several,
}

/// A reader lagged too far behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("keep {lag_frames} frames for a slow reader")]
pub(crate) struct CutOff {
    /// The number of frames that it missed.
    pub(crate) lag_frames: u64,
}

/// Handle to the hub. Cheap to clone; all clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    readers: Arc<Mutex<Channels>>,
    /// The maximum of readers of all datasets together. One more is refused.
    readers_max: usize,
    writers: Writers,
    /// Notified when there is something to read of other services' commits.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Channels {
    datasets: HashMap<DatasetId, Channel>,
    n_readers: usize,
}

/// A dataset that has readers, or callers that wait for its next commit.
#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<HubEvent>,
    /// The newest commit that is known here; 0 if none is.
    newest: watch::Sender<u64>,
    n_readers: usize,
    n_waiters: usize,
    /// The last commit that was published; `None` until a reader has looked at the dataset. Used where
    /// there are several writers.
    published: Option<u64>,
    /// Whether there are later commits to be read.
    is_behind: bool,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(LAG_FRAMES),
            newest: watch::Sender::new(0),
            n_readers: 0,
            n_waiters: 0,
            published: None,
            is_behind: false,
        }
    }
}

impl Channel {
    /// Notifies the waiting callers of commit `revision`.
    fn note_commit(&self, revision: u64) {
        self.newest.send_if_modified(|newest| {
            let is_newer = *newest < revision;
            *newest = revision.max(*newest);
            is_newer
        });
    }
}

/// The frames of one dataset that are published after subscribing.
#[derive(Debug)]
pub(crate) struct Subscription {
    dataset: DatasetId,
    key: KeyId,
    hub: Hub,
    messages: broadcast::Receiver<HubEvent>,
}

/// Waits for commits of one dataset. Counts as a reader.
#[derive(Debug)]
pub(crate) struct CommitWatch {
    dataset: DatasetId,
    hub: Hub,
    newest: watch::Receiver<u64>,
}

impl Channels {
    /// Counts one reader more, of `dataset`; none at the maximum.
    fn follow(&mut self, dataset: DatasetId, readers_max: usize) -> Option<&mut Channel> {
        if self.n_readers >= readers_max {
            return None;
        }
        self.n_readers += 1;
        Some(self.datasets.entry(dataset).or_default())
    }

    /// Counts one reader less: `leave` takes it out of the channel.
    fn unfollow(&mut self, dataset: DatasetId, leave: impl FnOnce(&mut Channel)) {
        self.n_readers = self.n_readers.saturating_sub(1);
        let Some(followed) = self.datasets.get_mut(&dataset) else { return };
        leave(followed);
        if followed.n_readers == 0 && followed.n_waiters == 0 {
            self.datasets.remove(&dataset);
        }
    }
}

impl Hub {
    /// A hub of at most `readers_max` readers.
    pub(crate) fn new(readers_max: usize, writers: Writers) -> Self {
        Self { readers: Arc::default(), readers_max, writers, wake: Arc::default() }
    }

    /// Follows a dataset, which `key` sees; none at the maximum of readers.
    pub(crate) fn subscribe(&self, dataset: DatasetId, key: KeyId) -> Option<Subscription> {
        let mut readers = self.readers.lock();
        let followed = readers.follow(dataset, self.readers_max)?;
        followed.n_readers += 1;
        let messages = followed.sender.subscribe();
        self.wake.notify_one();
        Some(Subscription { dataset, key, hub: self.clone(), messages })
    }

    /// Watches for commits of a dataset from now on; none at the maximum of readers.
    pub(crate) fn watch(&self, dataset: DatasetId) -> Option<CommitWatch> {
        let mut readers = self.readers.lock();
        let followed = readers.follow(dataset, self.readers_max)?;
        followed.n_waiters += 1;
        let newest = followed.newest.subscribe();
        self.wake.notify_one();
        Some(CommitWatch { dataset, hub: self.clone(), newest })
    }

    /// Publishes commit `revision` to the readers of a dataset. `render` is called only if there are
    /// any.
    pub(crate) fn publish(
        &self,
        dataset: DatasetId,
        revision: u64,
        render: impl FnOnce() -> Vec<Frame>,
    ) {
        let sender = {
            let mut readers = self.readers.lock();
            let Some(followed) = readers.datasets.get_mut(&dataset) else { return };
            followed.note_commit(revision);
            if self.writers == Writers::Several && !followed.is_next(revision) {
                if followed.is_behind {
                    self.wake.notify_one();
                }
                return;
            }
            if followed.n_readers == 0 {
                return;
            }
            followed.sender.clone()
        };
        let frames = render();
        match self.writers {
            Writers::One => send_all(&sender, frames),
            Writers::Several => {
                self.publish_read(dataset, revision.saturating_sub(1), revision, frames);
            }
        }
    }

    /// Notifies the readers of a dataset that their access may have ended.
    pub(crate) fn recheck_access(&self, dataset: DatasetId) {
        if let Some(followed) = self.readers.lock().datasets.get(&dataset) {
            // No receivers is not an error.
            drop(followed.sender.send(HubEvent::Access(None)));
        }
    }

    /// Notifies the readers of `key` that their access may have ended. The others pass over it.
    pub(crate) fn recheck_access_of(&self, key: KeyId) {
        for followed in self.readers.lock().datasets.values() {
            drop(followed.sender.send(HubEvent::Access(Some(key))));
        }
    }

    /// The number of readers of all datasets.
    pub(crate) fn n_all_readers(&self) -> usize {
        self.readers.lock().n_readers
    }
}

/// Sends frames to the readers that are left.
fn send_all(sender: &broadcast::Sender<HubEvent>, frames: impl IntoIterator<Item = Frame>) {
    for frame in frames {
        // The last reader may have left meanwhile.
        if sender.send(HubEvent::Frame(frame)).is_err() {
            return;
        }
    }
}

impl Subscription {
    /// Skips what was published until now, for a reader that is about to read the store.
    pub(crate) fn restart(&mut self) {
        self.messages = self.messages.resubscribe();
    }

    /// Receives the next event; `None` when the hub is gone. Cancel-safe.
    ///
    /// # Errors
    /// [`CutOff`] if this reader lags by more than [`LAG_FRAMES`].
    pub(crate) async fn next(&mut self) -> Result<Option<HubEvent>, CutOff> {
        loop {
            return match self.messages.recv().await {
                Ok(HubEvent::Access(Some(key))) if key != self.key => continue,
                Ok(event) => Ok(Some(event)),
                Err(RecvError::Closed) => Ok(None),
                Err(RecvError::Lagged(lag_frames)) => Err(CutOff { lag_frames }),
            };
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let leave = |followed: &mut Channel| {
            followed.n_readers -= 1;
            if followed.n_readers == 0 {
                followed.published = None;
                followed.is_behind = false;
            }
        };
        self.hub.readers.lock().unfollow(self.dataset, leave);
    }
}

impl CommitWatch {
    /// The newest commit that is known here; 0 if none is.
    pub(crate) fn newest(&self) -> u64 {
        *self.newest.borrow()
    }

    /// Waits until a commit after `revision` is known here, and returns the newest one. Cancel-safe.
    ///
    /// Commits without rows, such as deletions, may pass unnoticed until the next one.
    pub(crate) async fn wait_after(&mut self, revision: u64) -> u64 {
        let newest = self.newest.wait_for(|newest| *newest > revision).await.map(|newest| *newest);
        match newest {
            Ok(newest) => newest,
            // The channel lives as long as this watch.
            Err(_) => futures::future::pending().await,
        }
    }
}

impl Drop for CommitWatch {
    fn drop(&mut self) {
        let leave = |followed: &mut Channel| followed.n_waiters -= 1;
        self.hub.readers.lock().unfollow(self.dataset, leave);
    }
}

#[cfg(test)]
mod tests;
