//! Broadcasts the rows of each commit to the readers that follow the dataset.
//!
//! A commit is rendered once, and all readers share the bytes. A reader that lags behind by more than
//! the buffer is cut off. The reader reconnects and gets the missed rows. Readers are also notified if
//! they might have lost access.
//!
//! If several services write to one store, each of them publishes all commits in order. For each dataset
//! with readers, the hub knows the revision of the latest published commit. The following commit is
//! published when this service makes it or reads it from the store. A commit of this service with a
//! higher revision is not published, since commits of other services are missing before it. The dataset
//! is marked instead, so that all missing commits are read from the store.

pub(crate) mod frame;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::dataset::DatasetId;
use model::key::KeyId;
use parking_lot::Mutex;
use tokio::select;
use tokio::sync::Notify;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use self::frame::Frame;

/// Maximum number of frames that a reader can lag behind. With [`FRAME_ROWS`](frame::FRAME_ROWS) rows
/// per frame, they cover most of a bulk insert. The frames of a dataset occupy at most some 20 MB.
pub(crate) const LAG_FRAMES: usize = 256;

/// Event that a reader of a dataset receives.
#[derive(Debug, Clone)]
pub(crate) enum HubEvent {
    Frame(Frame),
    /// One or several commits without new rows, such as deletions.
    Removal,
    /// The key of the reader might have lost access, so the reader must check it again.
    Access,
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
    readers: Vec<Arc<Notices>>,
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
            readers: Vec::new(),
            published: None,
            is_behind: false,
        }
    }
}

/// Pending notices of a reader. They are flags instead of queued events, so repeated notices do not add
/// to its lag.
#[derive(Debug)]
struct Notices {
    /// Key of the reader.
    key: KeyId,
    was_removed: AtomicBool,
    must_recheck_access: AtomicBool,
    /// Notified after a flag was set.
    wake: Notify,
}

impl Notices {
    fn set(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Returns the next notice and clears its flag.
    fn take(&self) -> Option<HubEvent> {
        if self.must_recheck_access.swap(false, Ordering::AcqRel) {
            return Some(HubEvent::Access);
        }
        self.was_removed.swap(false, Ordering::AcqRel).then_some(HubEvent::Removal)
    }
}

/// Receiver of the events of a dataset that are published after the subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    dataset: DatasetId,
    hub: Hub,
    messages: broadcast::Receiver<HubEvent>,
    notices: Arc<Notices>,
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
        if followed.readers.is_empty() {
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
        let notices = Arc::new(Notices {
            key,
            was_removed: AtomicBool::new(false),
            must_recheck_access: AtomicBool::new(false),
            wake: Notify::new(),
        });
        followed.readers.push(Arc::clone(&notices));
        let messages = followed.sender.subscribe();
        self.wake.notify_one();
        Some(Subscription { dataset, hub: self.clone(), messages, notices })
    }

    /// Publishes commit `revision` to the readers of a dataset. Calls `render` only if the dataset has
    /// readers.
    pub(crate) fn publish(
        &self,
        dataset: DatasetId,
        revision: u64,
        render: impl FnOnce() -> Vec<Frame>,
    ) {
        {
            let mut readers = self.readers.lock();
            let Some(followed) = readers.datasets.get_mut(&dataset) else { return };
            if self.writers == Writers::Several && !followed.is_next(revision) {
                if followed.is_behind {
                    self.wake.notify_one();
                }
                return;
            }
        }
        let frames = render();
        match self.writers {
            Writers::One => {
                if let Some(followed) = self.readers.lock().datasets.get(&dataset) {
                    followed.send_all(frames);
                }
            }
            Writers::Several => {
                self.publish_read(dataset, revision.saturating_sub(1), revision, frames);
            }
        }
    }

    /// Notifies the readers of a dataset that they might have lost access.
    pub(crate) fn recheck_access(&self, dataset: DatasetId) {
        if let Some(followed) = self.readers.lock().datasets.get(&dataset) {
            followed.recheck_access(None);
        }
    }

    /// Notifies the readers with the key `key` that they might have lost access.
    pub(crate) fn recheck_access_of(&self, key: KeyId) {
        for followed in self.readers.lock().datasets.values() {
            followed.recheck_access(Some(key));
        }
    }

    /// Returns the number of readers of all datasets.
    pub(crate) fn n_all_readers(&self) -> usize {
        self.readers.lock().n_readers
    }

    /// Sets the revision after which commits are published. A reader calls this with the latest
    /// revision of the dataset, after it has subscribed and before it reads rows. Only the first
    /// call has an effect.
    pub(crate) fn begin(&self, dataset: DatasetId, revision: u64) {
        if let Some(followed) = self.readers.lock().datasets.get_mut(&dataset) {
            followed.published.get_or_insert(revision);
            if followed.is_behind {
                self.wake.notify_one();
            }
        }
    }

    /// Publishes commits that were read from the store: all commits after `after` up to `through`. Skips
    /// commits that are already published.
    pub(crate) fn publish_read(
        &self,
        dataset: DatasetId,
        after: u64,
        through: u64,
        frames: Vec<Frame>,
    ) {
        let mut readers = self.readers.lock();
        let Some(followed) = readers.datasets.get_mut(&dataset) else { return };
        // All readers have left since the commits were read, or the commits are already published.
        let is_new = |published: &u64| *published < through;
        let Some(published) = followed.published.filter(is_new) else { return };
        if published < after {
            followed.is_behind = true;
            self.wake.notify_one();
            return;
        }
        let frames = frames.into_iter().filter_map(|frame| frame.trim(published));
        followed.send_all(frames.collect());
        followed.published = Some(through);
    }

    /// Returns the datasets that have readers.
    pub(crate) fn followed(&self) -> Vec<Followed> {
        let readers = self.readers.lock();
        let followed = |(dataset, channel): (&DatasetId, &Channel)| Followed {
            dataset: *dataset,
            published: channel.published,
        };
        readers.datasets.iter().map(followed).collect()
    }

    /// Records that `head` is the latest revision of a dataset in the store. `head` is `None` if the
    /// dataset does not exist. The caller must have read it from the store after it got `before`.
    pub(crate) fn note_head(&self, before: Followed, head: Option<u64>) {
        let mut readers = self.readers.lock();
        let Some(followed) = readers.datasets.get_mut(&before.dataset) else { return };
        match head {
            None => followed.recheck_access(None),
            Some(head) if before.published.is_some_and(|published| head < published) => {
                followed.lose();
            }
            Some(head) => {
                followed.is_behind |= followed.published.is_some_and(|published| published < head);
            }
        }
    }

    /// Returns the datasets that are marked to be read, each with its latest published revision. Removes
    /// the marks.
    pub(crate) fn take_behind(&self) -> Vec<(DatasetId, u64)> {
        let mut readers = self.readers.lock();
        let marked = readers.datasets.iter_mut().filter(|(_, followed)| followed.is_behind);
        let taken = marked.filter_map(|(dataset, followed)| {
            let published = followed.published?;
            followed.is_behind = false;
            Some((*dataset, published))
        });
        taken.collect()
    }

    /// Marks a dataset to be read.
    pub(crate) fn mark_behind(&self, dataset: DatasetId) {
        if let Some(followed) = self.readers.lock().datasets.get_mut(&dataset) {
            followed.is_behind = true;
            self.wake.notify_one();
        }
    }

    /// Closes the streams of a dataset, since the commits after the latest published commit are unknown.
    /// The readers reconnect and get the missing rows.
    pub(crate) fn lose(&self, dataset: DatasetId) {
        if let Some(followed) = self.readers.lock().datasets.get_mut(&dataset) {
            followed.lose();
        }
    }

    /// Notifies all readers that they might have lost access.
    pub(crate) fn recheck_all_access(&self) {
        for followed in self.readers.lock().datasets.values() {
            followed.recheck_access(None);
        }
    }

    /// Waits until a dataset is to be read, or until a reader subscribes. Cancel-safe.
    pub(crate) async fn wait_for_work(&self) {
        self.wake.notified().await;
    }
}

impl Channel {
    /// Sends the frames of commits to all readers.
    fn send_all(&self, frames: Vec<Frame>) {
        if frames.is_empty() {
            for reader in &self.readers {
                reader.set(&reader.was_removed);
            }
        }
        for frame in frames {
            // Fails only if the last reader has left.
            if self.sender.send(HubEvent::Frame(frame)).is_err() {
                return;
            }
        }
    }

    /// Notifies the readers with the key `key`, or all readers if `None`, that they might have lost
    /// access.
    fn recheck_access(&self, key: Option<KeyId>) {
        for reader in self.readers.iter().filter(|reader| key.is_none_or(|key| key == reader.key)) {
            reader.set(&reader.must_recheck_access);
        }
    }

    /// Returns true if commit `revision` follows the latest published commit. If earlier commits are
    /// missing, marks the dataset to be read.
    fn is_next(&mut self, revision: u64) -> bool {
        let is_next = self.published.is_some_and(|published| published + 1 == revision);
        let is_done = self.published.is_some_and(|published| published >= revision);
        self.is_behind |= !is_next && !is_done;
        is_next
    }

    fn lose(&mut self) {
        drop(self.sender.send(HubEvent::Lost));
        self.published = None;
        self.is_behind = false;
    }
}

impl Subscription {
    /// Discards earlier events. A reader must call this before it reads the store.
    pub(crate) fn restart(&mut self) {
        self.messages = self.messages.resubscribe();
        while self.notices.take().is_some() {}
    }

    /// Receives the next event. Returns `None` after the hub was dropped. Cancel-safe.
    ///
    /// # Errors
    /// [`CutOff`] if this reader lags by more than [`LAG_FRAMES`].
    pub(crate) async fn next(&mut self) -> Result<Option<HubEvent>, CutOff> {
        loop {
            if let Some(notice) = self.notices.take() {
                return Ok(Some(notice));
            }
            select! {
                () = self.notices.wake.notified() => {}
                message = self.messages.recv() => {
                    return match message {
                        Ok(event) => Ok(Some(event)),
                        Err(RecvError::Closed) => Ok(None),
                        Err(RecvError::Lagged(lag_frames)) => Err(CutOff { lag_frames }),
                    };
                }
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let leave = |followed: &mut Channel| {
            followed.readers.retain(|reader| !Arc::ptr_eq(reader, &self.notices));
            if followed.readers.is_empty() {
                followed.published = None;
                followed.is_behind = false;
            }
        };
        self.hub.readers.lock().unfollow(self.dataset, leave);
    }
}

/// A dataset that has readers, and the revision up to which they have its commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) dataset: DatasetId,
    /// Revision of the latest published commit. `None` before a reader has read the dataset.
    pub(crate) published: Option<u64>,
}

#[cfg(test)]
mod tests;
