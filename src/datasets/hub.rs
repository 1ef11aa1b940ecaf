//! Broadcasts new rows from each commit to the readers that follow the dataset.
//!
//! A commit is rendered once, and all readers share the bytes. A reader that lags by more than the
//! buffer is cut off: it reconnects and gets the replay. Readers are also notified when their access
//! may have ended.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use model::{dataset::DatasetId, key::KeyId};
use parking_lot::Mutex;
use tokio::sync::{
    broadcast::{self, error::RecvError},
    watch,
};

/// Frames that a reader may lag. At [`FRAME_ROWS`] rows each they hold most of a bulk insert, and a
/// followed dataset takes some 20 MB at worst.
pub(crate) const LAG_FRAMES: usize = 256;

/// Rows in one frame at most.
pub(crate) const FRAME_ROWS: usize = 256;

/// Bytes of a frame at most, except its last row: as many as usual rows have.
pub(crate) const FRAME_BYTES: usize = 80 * 1024;

/// Events ready to be sent, and the commit that made them.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The number of the commit in its dataset.
    pub(crate) revision: u64,
    /// One or more whole events.
    pub(crate) events: Bytes,
}

/// What is broadcast to the readers of a dataset.
#[derive(Debug, Clone)]
pub(crate) enum HubEvent {
    Frame(Frame),
    /// The access of this key, or of any if `None`, may have ended: the reader must check again.
    Access(Option<KeyId>),
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
    readers: Arc<Mutex<Readers>>,
    /// The maximum of readers of all datasets together. One more is refused.
    readers_max: usize,
}

#[derive(Debug, Default)]
struct Readers {
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
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(LAG_FRAMES),
            newest: watch::Sender::new(0),
            n_readers: 0,
            n_waiters: 0,
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

impl Readers {
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
    pub(crate) fn new(readers_max: usize) -> Self {
        Self { readers: Arc::default(), readers_max }
    }

    /// Follows a dataset, which `key` sees; none at the maximum of readers.
    pub(crate) fn subscribe(&self, dataset: DatasetId, key: KeyId) -> Option<Subscription> {
        let mut readers = self.readers.lock();
        let followed = readers.follow(dataset, self.readers_max)?;
        followed.n_readers += 1;
        let messages = followed.sender.subscribe();
        Some(Subscription { dataset, key, hub: self.clone(), messages })
    }

    /// Watches for commits of a dataset from now on; none at the maximum of readers.
    pub(crate) fn watch(&self, dataset: DatasetId) -> Option<CommitWatch> {
        let mut readers = self.readers.lock();
        let followed = readers.follow(dataset, self.readers_max)?;
        followed.n_waiters += 1;
        let newest = followed.newest.subscribe();
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
            let readers = self.readers.lock();
            let Some(followed) = readers.datasets.get(&dataset) else { return };
            followed.note_commit(revision);
            if followed.n_readers == 0 {
                return;
            }
            followed.sender.clone()
        };
        for frame in render() {
            // The last reader may have left meanwhile.
            if sender.send(HubEvent::Frame(frame)).is_err() {
                return;
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

impl Subscription {
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
        let leave = |followed: &mut Channel| followed.n_readers -= 1;
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
mod tests {
    use futures::FutureExt as _;

    use super::*;

    impl Hub {
        fn n_readers(&self, dataset: DatasetId) -> usize {
            let readers = self.readers.lock();
            readers.datasets.get(&dataset).map_or(0, |followed| followed.n_readers)
        }
    }

    impl Subscription {
        /// The next frame, if it is here already.
        fn try_next(&mut self) -> Result<Option<Frame>, CutOff> {
            match self.next().now_or_never().unwrap_or(Ok(None))? {
                Some(HubEvent::Frame(frame)) => Ok(Some(frame)),
                Some(HubEvent::Access(_)) => panic!("nothing became hidden"),
                None => Ok(None),
            }
        }

        fn is_hidden(&mut self) -> bool {
            matches!(self.next().now_or_never(), Some(Ok(Some(HubEvent::Access(_)))))
        }
    }

    const KEY: KeyId = KeyId::new(7);

    fn dataset() -> DatasetId {
        DatasetId::new(1).unwrap()
    }

    fn frame(revision: u64) -> Vec<Frame> {
        vec![Frame { revision, events: Bytes::from_static(b"event: data\n\n") }]
    }

    #[test]
    fn all_readers_get_each_frame_once_and_share_its_bytes() {
        let hub = Hub::new(3);
        let mut readers: Vec<_> = (0..3).map(|_| hub.subscribe(dataset(), KEY).unwrap()).collect();
        hub.publish(dataset(), 7, || frame(7));
        hub.publish(DatasetId::new(2).unwrap(), 7, || panic!("nobody follows it"));
        let got: Vec<Frame> =
            readers.iter_mut().map(|reader| reader.try_next().unwrap().unwrap()).collect();
        assert!(got.iter().all(|frame| frame.revision == 7));
        assert!(got.windows(2).all(|pair| pair[0].events.as_ptr() == pair[1].events.as_ptr()));
        assert!(readers[0].try_next().unwrap().is_none());
    }

    #[test]
    fn a_lagging_reader_is_cut_off_alone() {
        let hub = Hub::new(3);
        let (mut slow, mut quick) =
            (hub.subscribe(dataset(), KEY).unwrap(), hub.subscribe(dataset(), KEY).unwrap());
        for revision in 0..=LAG_FRAMES as u64 {
            hub.publish(dataset(), revision, || frame(revision));
            assert_eq!(quick.try_next().unwrap().unwrap().revision, revision);
        }
        assert_eq!(slow.try_next().unwrap_err(), CutOff { lag_frames: 1 });
    }

    #[test]
    fn a_dataset_without_readers_takes_no_memory() {
        let hub = Hub::new(3);
        let (one, two) =
            (hub.subscribe(dataset(), KEY).unwrap(), hub.subscribe(dataset(), KEY).unwrap());
        assert_eq!(hub.n_readers(dataset()), 2);
        drop(one);
        assert_eq!(hub.n_readers(dataset()), 1);
        drop(two);
        assert!(hub.readers.lock().datasets.is_empty());
        hub.publish(dataset(), 8, || panic!("nobody follows it"));
    }

    #[test]
    fn readers_are_notified_when_their_access_may_have_ended() {
        let hub = Hub::new(3);
        let other = DatasetId::new(2).unwrap();
        let mut mine = hub.subscribe(dataset(), KEY).unwrap();
        let mut elsewhere = hub.subscribe(other, KEY).unwrap();
        let mut foreign = hub.subscribe(dataset(), KeyId::new(8)).unwrap();
        hub.recheck_access_of(KEY);
        assert!(mine.is_hidden() && elsewhere.is_hidden() && !foreign.is_hidden());
        hub.recheck_access(dataset());
        assert!(mine.is_hidden() && !elsewhere.is_hidden() && foreign.is_hidden());
    }

    #[test]
    fn a_commit_ends_the_wait_for_one_after_an_older_one() {
        let hub = Hub::new(2);
        let (mut one, mut two) = (hub.watch(dataset()).unwrap(), hub.watch(dataset()).unwrap());
        assert!(hub.watch(dataset()).is_none(), "they count as readers");
        assert_eq!(one.wait_after(0).now_or_never(), None);
        hub.publish(dataset(), 7, || panic!("nobody reads the rows"));
        hub.publish(dataset(), 6, || panic!("nobody reads the rows"));
        assert_eq!(one.wait_after(6).now_or_never(), Some(7));
        assert_eq!(two.wait_after(7).now_or_never(), None);
        drop((one, two));
        assert!(hub.readers.lock().datasets.is_empty());
    }

    #[test]
    fn readers_beyond_the_maximum_are_refused() {
        let hub = Hub::new(3);
        let readers: Vec<_> = (0..3).map(|_| hub.subscribe(dataset(), KEY).unwrap()).collect();
        assert!(hub.subscribe(dataset(), KEY).is_none());
        drop(readers);
        hub.subscribe(dataset(), KEY).unwrap();
    }
}
