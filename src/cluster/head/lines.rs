//! Lines to workers: opened at the first order, kept, and opened again where one ended.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use model::node::PeerId;
use parking_lot::Mutex;
use task::group::Group;
use tracing::debug;

use crate::{
    message::LINE_PROTOCOL,
    network::{
        Network, SendError,
        line::{Frame, Frames, Line},
    },
};

/// A worker's place in the table, its line with its number: locked while it is being opened, so that
/// one is.
type Place = Arc<tokio::sync::Mutex<Option<(u64, Line)>>>;

/// The lines, by worker. Cheap to clone; all clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    network: Network,
    group: Group,
    places: Arc<Mutex<HashMap<PeerId, Place>>>,
    /// Places above which those without a line are dropped.
    n_places_max: usize,
    /// Numbers the lines.
    n_opened: Arc<AtomicU64>,
}

impl Lines {
    pub(super) fn new(network: Network, group: Group, n_places_max: usize) -> Self {
        let (places, n_opened) = (Arc::default(), Arc::default());
        Self { network, group, places, n_places_max, n_opened }
    }

    /// Sends a frame to `peer`, on a new line if need be, which `read` then reads until it ends.
    /// Returns the number of the line. Cancel-safe.
    ///
    /// # Errors
    /// [`SendError`] if no line can be had.
    pub(super) async fn send<R: Future<Output = ()> + Send + 'static>(
        &self,
        peer: &PeerId,
        frame: Frame,
        read: impl FnOnce(PeerId, u64, Frames) -> R + Send,
    ) -> Result<u64, SendError> {
        let place = self.place(peer);
        let mut line = place.lock().await;
        if let Some((number, line)) = line.as_ref()
            && line.send(frame.clone()).await.is_ok()
        {
            return Ok(*number);
        }
        let (new, frames) = self.network.open_line(peer, LINE_PROTOCOL).await?;
        let number = self.n_opened.fetch_add(1, Ordering::Relaxed);
        let (reading, mine) = (read(peer.clone(), number, frames), Arc::clone(&place));
        self.group.spawn("line", async move {
            reading.await;
            // Its other side has gone; the next order opens a new one.
            mine.lock().await.take_if(|(other, _)| *other == number);
        });
        let sent = new.send(frame).await;
        *line = Some((number, new));
        sent.map(|()| number).map_err(|_| SendError::Stopped)
    }

    /// Sends a frame to `peer` some time soon, if there is a line.
    pub(super) fn send_soon(&self, peer: &PeerId, frame: Frame) {
        let Some(place) = self.places.lock().get(peer).cloned() else { return };
        self.group.spawn("cancel", async move {
            let line = place.lock().await.clone();
            if let Some((_, line)) = line
                && line.send(frame).await.is_err()
            {
                debug!("canceled nothing: the line has ended, and with it the work");
            }
        });
    }

    /// Forgets the line to a worker that is gone, which ends it.
    pub(super) fn forget(&self, peer: &PeerId) {
        self.places.lock().remove(peer);
    }

    fn place(&self, peer: &PeerId) -> Place {
        let mut places = self.places.lock();
        // Only connected peers are given work, and those that go are forgotten.
        if places.len() >= self.n_places_max {
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        Arc::clone(places.entry(peer.clone()).or_default())
    }
}
