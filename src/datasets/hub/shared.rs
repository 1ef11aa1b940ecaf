//! Publishes the commits of several services in order.
//!
//! For each dataset with readers, the hub knows the revision of the latest published commit. The
//! following commit is published when this service makes it or reads it from the store. A commit of this
//! service with a higher revision is not published, since commits of other services are missing before
//! it. The dataset is marked instead, so that all missing commits are read from the store.

use model::dataset::DatasetId;

use super::frame::Frame;
use super::{Channel, Hub, HubEvent};

/// A dataset that has readers, and the revision up to which they have its commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) dataset: DatasetId,
    /// Revision of the latest published commit. `None` before a reader has read the dataset.
    pub(crate) published: Option<u64>,
}

impl Channel {
    /// Returns true if commit `revision` follows the latest published commit. If earlier commits are
    /// missing, marks the dataset to be read.
    pub(super) fn is_next(&mut self, revision: u64) -> bool {
        let is_next = self.published.is_some_and(|published| published + 1 == revision);
        let is_done = self.published.is_some_and(|published| published >= revision);
        self.is_behind |= !is_next && !is_done;
        is_next
    }
}

impl Hub {
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
    fn lose(&mut self) {
        drop(self.sender.send(HubEvent::Lost));
        self.published = None;
        self.is_behind = false;
    }
}
