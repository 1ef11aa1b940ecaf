//! Broadcasts the rows of each commit to the readers that follow the dataset.
//!
//! A commit is rendered once, and all readers share the bytes. A reader that lags behind by more than
//! the buffer is cut off. The reader reconnects and gets the missed rows. Readers are also notified if
//! they might have lost access.
//!
//! If several services write to one store, each of them publishes all commits in order: see [`shared`].

pub(crate) mod frame;
mod shared;

use std::collections::HashMap;
use std::sync::Arc;

use model::dataset::DatasetId;
use model::key::KeyId;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self};

use self::frame::Frame;

/// Maximum number of frames that a reader can lag behind. With [`FRAME_ROWS`](frame::FRAME_ROWS) rows
/// per frame, they cover most of a bulk insert. The frames of a dataset occupy at most some 20 MB.
pub(crate) const LAG_FRAMES: usize = 256;

/// Event that the hub sends to all readers of a dataset.
#[derive(Debug, Clone)]
pub(crate) enum HubEvent {
    Frame(Frame),
    /// A commit without new rows, such as a deletion.
    Removal,
    /// This key, or every key if `None`, might have lost access. Readers with it must check their
    /// access again.
    Access(Option<KeyId>),
    /// The commits after the previous frame are no longer recorded. The reader must reconnect.
    Lost,
}

/// Number of services that write to the store, which decides when a commit can be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Only this service writes. Every commit is published when it is made.
    One,
    /// Several services write. A commit is published once all earlier commits are published.
    Several,
}

/// Error for a reader that exceeded the maximum lag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reader is {lag_frames} frames behind, more than the maximum")]
pub(crate) struct CutOff {
    /// Number of frames that were discarded before the reader received them.
    pub(crate) lag_frames: u64,
}

/// Handle to the hub. All clones share the same hub.
#[derive(Debug, Clone)]
pub(crate) struct Hub {
    readers: Arc<Mutex<Channels>>,
    /// Maximum number of readers of all datasets together. Further readers are rejected.
    readers_max: usize,
    writers: Writers,
    /// Notified when there might be commits of other services to read.
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Channels {
    datasets: HashMap<DatasetId, Channel>,
    n_readers: usize,
}

/// Channel that passes the commits of a dataset to its readers. Exists while the dataset has readers.
#[derive(Debug)]
struct Channel {
    sender: broadcast::Sender<HubEvent>,
    n_readers: usize,
    /// Revision of the latest published commit. `None` until a reader has read the dataset. Used only
    /// with [`Writers::Several`].
    published: Option<u64>,
    /// True if commits after `published` must be read from the store.
    is_behind: bool,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(LAG_FRAMES),
            n_readers: 0,
            published: None,
            is_behind: false,
        }
    }
}

/// Receiver of the events of a dataset that are published after the subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    dataset: DatasetId,
    key: KeyId,
    hub: Hub,
    messages: broadcast::Receiver<HubEvent>,
}

impl Channels {
    /// Registers a new reader of `dataset`. Returns `None` if the maximum number of readers is reached.
    fn follow(&mut self, dataset: DatasetId, readers_max: usize) -> Option<&mut Channel> {
        if self.n_readers >= readers_max {
            return None;
        }
        self.n_readers += 1;
        Some(self.datasets.entry(dataset).or_default())
    }

    /// Unregisters a reader. `leave` removes the reader from the channel.
    fn unfollow(&mut self, dataset: DatasetId, leave: impl FnOnce(&mut Channel)) {
        self.n_readers = self.n_readers.saturating_sub(1);
        let Some(followed) = self.datasets.get_mut(&dataset) else { return };
        leave(followed);
        if followed.n_readers == 0 {
            self.datasets.remove(&dataset);
        }
    }
}

impl Hub {
    /// Creates a hub without readers, which accepts at most `readers_max` at a time.
    pub(crate) fn new(readers_max: usize, writers: Writers) -> Self {
        Self { readers: Arc::default(), readers_max, writers, wake: Arc::default() }
    }

    /// Subscribes to a dataset that is visible to `key`. Returns `None` if the maximum number of readers
    /// is reached.
    pub(crate) fn subscribe(&self, dataset: DatasetId, key: KeyId) -> Option<Subscription> {
        let mut readers = self.readers.lock();
        let followed = readers.follow(dataset, self.readers_max)?;
        followed.n_readers += 1;
        let messages = followed.sender.subscribe();
        self.wake.notify_one();
        Some(Subscription { dataset, key, hub: self.clone(), messages })
    }

    /// Publishes commit `revision` to the readers of a dataset. Calls `render` only if the dataset has
    /// readers.
    pub(crate) fn publish(
        &self,
        dataset: DatasetId,
        revision: u64,
        render: impl FnOnce() -> Vec<Frame>,
    ) {
        let sender = {
            let mut readers = self.readers.lock();
            let Some(followed) = readers.datasets.get_mut(&dataset) else { return };
            if self.writers == Writers::Several && !followed.is_next(revision) {
                if followed.is_behind {
                    self.wake.notify_one();
                }
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

    /// Notifies the readers of a dataset that they might have lost access.
    pub(crate) fn recheck_access(&self, dataset: DatasetId) {
        if let Some(followed) = self.readers.lock().datasets.get(&dataset) {
            // Sending fails only if the last reader has just left.
            drop(followed.sender.send(HubEvent::Access(None)));
        }
    }

    /// Notifies the readers with the key `key` that they might have lost access. Other readers ignore the
    /// event.
    pub(crate) fn recheck_access_of(&self, key: KeyId) {
        for followed in self.readers.lock().datasets.values() {
            drop(followed.sender.send(HubEvent::Access(Some(key))));
        }
    }

    /// Returns the number of readers of all datasets.
    pub(crate) fn n_all_readers(&self) -> usize {
        self.readers.lock().n_readers
    }
}

/// Sends the frames of commits to the readers of a channel.
fn send_all(sender: &broadcast::Sender<HubEvent>, frames: Vec<Frame>) {
    if frames.is_empty() {
        drop(sender.send(HubEvent::Removal));
    }
    for frame in frames {
        // Fails only if the last reader has left.
        if sender.send(HubEvent::Frame(frame)).is_err() {
            return;
        }
    }
}

impl Subscription {
    /// Discards earlier events. A reader must call this before it reads the store.
    pub(crate) fn restart(&mut self) {
        self.messages = self.messages.resubscribe();
    }

    /// Receives the next event. Returns `None` after the hub was dropped. Cancel-safe.
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

#[cfg(test)]
mod tests;
