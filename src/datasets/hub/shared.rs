//! Publishing the commits of several services in one order.
//!
//! For each dataset with readers the hub knows the last commit that it published. The commit after that
//! is published as it is made here, or as it is read from the store. One that comes before its turn is
//! dropped, and the dataset marked to be read: commits in between were made by other services.

use model::dataset::DatasetId;

use super::{Channel, Hub, HubEvent, frame::Frame, send_all};

/// A dataset with readers or waiting callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) dataset: DatasetId,
    /// The last commit that was published; `None` if nobody has read yet.
    pub(crate) published: Option<u64>,
}

impl Channel {
    /// Whether commit `revision` is the next to be published; if a later one is, marks the dataset to be
    /// read.
    pub(super) fn is_next(&mut self, revision: u64) -> bool {
        if self.n_readers == 0 {
            return false;
        }
        let is_next = self.published.is_some_and(|published| published + 1 == revision);
        let is_done = self.published.is_some_and(|published| published >= revision);
        self.is_behind |= !is_next && !is_done;
        is_next
    }
}

impl Hub {
    /// Names the commit that a dataset had when a reader that had subscribed looked, before it reads
    /// rows. The first reader's is where publishing starts.
    pub(crate) fn begin(&self, dataset: DatasetId, revision: u64) {
        if let Some(followed) = self.readers.lock().datasets.get_mut(&dataset) {
            followed.published.get_or_insert(revision);
            followed.note_commit(revision);
            if followed.is_behind {
                self.wake.notify_one();
            }
        }
    }

    /// Publishes the commits after `after` up to `through`, without those that were published meanwhile.
    pub(crate) fn publish_read(
        &self,
        dataset: DatasetId,
        after: u64,
        through: u64,
        frames: Vec<Frame>,
    ) {
        let mut readers = self.readers.lock();
        let Some(followed) = readers.datasets.get_mut(&dataset) else { return };
        followed.note_commit(through);
        // The readers may be others than before.
        let Some(published) = followed.published else { return };
        if published < after {
            followed.is_behind = true;
            self.wake.notify_one();
            return;
        }
        let frames = frames.into_iter().filter_map(|frame| frame.trim(published));
        send_all(&followed.sender, frames);
        followed.published = Some(published.max(through));
    }

    /// The datasets that somebody follows.
    pub(crate) fn followed(&self) -> Vec<Followed> {
        let readers = self.readers.lock();
        let followed = |(dataset, channel): (&DatasetId, &Channel)| Followed {
            dataset: *dataset,
            published: channel.published,
        };
        readers.datasets.iter().map(followed).collect()
    }

    /// Takes in that the store had the dataset at commit `head`, or not at all, some time after the hub
    /// was as in `before`.
    pub(crate) fn note_head(&self, before: Followed, head: Option<u64>) {
        let mut readers = self.readers.lock();
        let Some(followed) = readers.datasets.get_mut(&before.dataset) else { return };
        match head {
            // No receivers is not an error.
            None => drop(followed.sender.send(HubEvent::Access(None))),
            Some(head) if before.published.is_some_and(|published| head < published) => {
                followed.lose(head);
            }
            Some(head) => {
                followed.note_commit(head);
                followed.is_behind |= followed.published.is_some_and(|published| published < head);
            }
        }
    }

    /// The datasets that are marked to be read, each with its last published commit. They are not
    /// marked any more.
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

    /// Ends the streams of a dataset, whose commits after the published ones are not known any more and
    /// which is at commit `head`. Their readers connect again and get what they miss.
    pub(crate) fn lose(&self, dataset: DatasetId, head: u64) {
        if let Some(followed) = self.readers.lock().datasets.get_mut(&dataset) {
            followed.lose(head);
        }
    }

    /// Notifies all readers that their access may have ended.
    pub(crate) fn recheck_all_access(&self) {
        for followed in self.readers.lock().datasets.values() {
            drop(followed.sender.send(HubEvent::Access(None)));
        }
    }

    /// Waits until there is something to read, or somebody new follows a dataset. Cancel-safe.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Channel {
    fn lose(&mut self, head: u64) {
        drop(self.sender.send(HubEvent::Lost));
        self.published = None;
        self.is_behind = false;
        self.newest.send_replace(head);
    }
}
