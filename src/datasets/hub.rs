//! New rows, from the one who commits them to the many who follow.
//!
//! A commit is rendered once, and every reader shares the bytes. A reader that falls behind by more
//! than the hub keeps is cut off: it connects again and gets the replay.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use model::dataset::DatasetId;
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, error::RecvError};

/// Frames that a reader may lag. At [`FRAME_ROWS`] rows each it is most of a bulk insert, and a
/// followed dataset costs some 13 MB at worst.
pub(crate) const LAG_FRAMES: usize = 256;

/// Rows in one frame at most.
pub(crate) const FRAME_ROWS: usize = 256;

/// Readers of all datasets together. One more is refused, and may come again later.
pub(crate) const READERS_MAX: usize = 10_000;

/// Events ready to be sent, and the commit that made them.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The number of the commit in its dataset.
    pub(crate) revision: u64,
    /// One or more whole events.
    pub(crate) events: Bytes,
}

/// There are as many readers as the hub takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("follow more than {READERS_MAX} streams at once")]
pub(crate) struct HubFull;

/// A reader fell too far behind, by so many frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("keep {lag_frames} frames for a slow reader")]
pub(crate) struct CutOff {
    /// How many frames it missed.
    pub(crate) lag_frames: u64,
}

/// Handle to the hub. Cheap to clone; all clones are one hub.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hub {
    readers: Arc<Mutex<Readers>>,
}

#[derive(Debug, Default)]
struct Readers {
    datasets: HashMap<DatasetId, broadcast::Sender<Frame>>,
    n_readers: usize,
}

/// The frames of one dataset, from the moment of subscribing on.
#[derive(Debug)]
pub(crate) struct Subscription {
    dataset: DatasetId,
    hub: Hub,
    frames: Option<broadcast::Receiver<Frame>>,
}

impl Hub {
    /// Follows a dataset.
    ///
    /// # Errors
    /// [`HubFull`] at [`READERS_MAX`].
    pub(crate) fn subscribe(&self, dataset: DatasetId) -> Result<Subscription, HubFull> {
        let mut readers = self.readers.lock();
        if readers.n_readers >= READERS_MAX {
            return Err(HubFull);
        }
        readers.n_readers += 1;
        let frames = readers
            .datasets
            .entry(dataset)
            .or_insert_with(|| broadcast::Sender::new(LAG_FRAMES))
            .subscribe();
        Ok(Subscription { dataset, hub: self.clone(), frames: Some(frames) })
    }

    /// Hands frames to the readers of a dataset. `render` is called only if there are any.
    pub(crate) fn publish(&self, dataset: DatasetId, render: impl FnOnce() -> Vec<Frame>) {
        let sender = self.readers.lock().datasets.get(&dataset).cloned();
        let Some(sender) = sender else { return };
        for frame in render() {
            // The last reader may have left meanwhile; then the frame is nobody's.
            if sender.send(frame).is_err() {
                return;
            }
        }
    }

    /// How many follow some dataset.
    pub(crate) fn n_all_readers(&self) -> usize {
        self.readers.lock().n_readers
    }

    /// How many follow a dataset.
    #[cfg(test)]
    pub(crate) fn n_readers(&self, dataset: DatasetId) -> usize {
        let readers = self.readers.lock();
        readers.datasets.get(&dataset).map_or(0, broadcast::Sender::receiver_count)
    }
}

impl Subscription {
    /// The next frame; none when the hub is gone. Cancel-safe.
    ///
    /// # Errors
    /// [`CutOff`] if this reader lags by more than [`LAG_FRAMES`].
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, CutOff> {
        let Some(frames) = &mut self.frames else { return Ok(None) };
        match frames.recv().await {
            Ok(frame) => Ok(Some(frame)),
            Err(RecvError::Closed) => Ok(None),
            Err(RecvError::Lagged(lag_frames)) => Err(CutOff { lag_frames }),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut readers = self.hub.readers.lock();
        self.frames = None;
        readers.n_readers = readers.n_readers.saturating_sub(1);
        let is_followed =
            readers.datasets.get(&self.dataset).is_some_and(|sender| sender.receiver_count() > 0);
        if !is_followed {
            readers.datasets.remove(&self.dataset);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    impl Subscription {
        /// The next frame, if it is here already.
        fn try_next(&mut self) -> Result<Option<Frame>, CutOff> {
            self.next().now_or_never().unwrap_or(Ok(None))
        }
    }

    fn dataset() -> DatasetId {
        DatasetId::new(1).unwrap()
    }

    fn frame(revision: u64) -> Vec<Frame> {
        vec![Frame { revision, events: Bytes::from_static(b"event: data\n\n") }]
    }

    #[test]
    fn all_readers_get_each_frame_once_and_share_its_bytes() {
        let hub = Hub::default();
        let mut readers: Vec<_> = (0..3).map(|_| hub.subscribe(dataset()).unwrap()).collect();
        hub.publish(dataset(), || frame(7));
        hub.publish(DatasetId::new(2).unwrap(), || panic!("nobody follows it"));
        let got: Vec<Frame> =
            readers.iter_mut().map(|reader| reader.try_next().unwrap().unwrap()).collect();
        assert!(got.iter().all(|frame| frame.revision == 7));
        assert!(got.windows(2).all(|pair| pair[0].events.as_ptr() == pair[1].events.as_ptr()));
        assert!(readers[0].try_next().unwrap().is_none());
    }

    #[test]
    fn a_reader_that_lags_is_cut_off_alone() {
        let hub = Hub::default();
        let (mut slow, mut quick) =
            (hub.subscribe(dataset()).unwrap(), hub.subscribe(dataset()).unwrap());
        for revision in 0..=LAG_FRAMES as u64 {
            hub.publish(dataset(), || frame(revision));
            assert_eq!(quick.try_next().unwrap().unwrap().revision, revision);
        }
        assert_eq!(slow.try_next().unwrap_err(), CutOff { lag_frames: 1 });
    }

    #[test]
    fn nothing_is_kept_for_a_dataset_that_nobody_follows() {
        let hub = Hub::default();
        let (one, two) = (hub.subscribe(dataset()).unwrap(), hub.subscribe(dataset()).unwrap());
        assert_eq!(hub.n_readers(dataset()), 2);
        drop(one);
        assert_eq!(hub.n_readers(dataset()), 1);
        drop(two);
        assert!(hub.readers.lock().datasets.is_empty());
        hub.publish(dataset(), || panic!("nobody follows it"));
    }

    #[test]
    fn there_is_a_last_reader() {
        let hub = Hub::default();
        let readers: Vec<_> = (0..READERS_MAX).map(|_| hub.subscribe(dataset()).unwrap()).collect();
        assert_eq!(hub.subscribe(dataset()).unwrap_err(), HubFull);
        drop(readers);
        hub.subscribe(dataset()).unwrap();
    }
}
