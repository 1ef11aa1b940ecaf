//! Dispatch: work orders in the form that each worker takes, the lines they travel on, and what ends them.
//!
//! Absent on purpose: who is given work, and what comes of it all, which is `gather.rs`.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use model::node::PeerId;
use parking_lot::Mutex;
use task::{group::Group, traces::Carrier};
use tokio::time::sleep;
use tracing::{debug, info};

use super::{Head, inbox::Reply, order::Order};
use crate::{
    message::{Execute, LINE_PROTOCOL, Message, WORK_PROTOCOL, WorkOrder, frame, json},
    metrics,
    network::{
        Network, SendError,
        line::{Frame, Frames, Line},
    },
    peers::WorkProtocol,
};

/// How often a worker that runs an order for as long is pinged: two missed pings are noticed long
/// before an order's time is up, and a short stall of a busy machine is none.
const PING_EVERY: Duration = Duration::from_secs(1);

impl Order {
    /// The order of request `request_id`, in the form that nodes take which are given work that way.
    pub(super) fn message(&self, head: &Head, request_id: &str, protocol: WorkProtocol) -> Vec<u8> {
        let order = WorkOrder {
            request_id: request_id.to_owned(),
            timestamp: head.0.context.clock.now().to_string(),
            carrier: Carrier::of_current_span(),
            ..self.work.clone()
        };
        match protocol {
            WorkProtocol::Line => json(&WorkOrder { client: self.client_tag.clone(), ..order }),
            WorkProtocol::B7sV2 => json(&Message::WorkOrder(order)),
            WorkProtocol::B7sV1 => {
                let from = head.0.context.network.peer_id().to_string();
                json(&Message::Execute(Execute { order, from, ..Execute::default() }))
            }
        }
    }
}

impl Head {
    /// Sends a work order. Returns the number of the line it is sent on, if it is one.
    pub(super) async fn send(
        &self,
        peer: &PeerId,
        protocol: WorkProtocol,
        message: Bytes,
    ) -> Result<Option<u64>, SendError> {
        let (protocol_id, kind) = match protocol {
            WorkProtocol::Line => (LINE_PROTOCOL, "MsgWorkOrder"),
            WorkProtocol::B7sV2 => (WORK_PROTOCOL, "MsgWorkOrder"),
            WorkProtocol::B7sV1 => (WORK_PROTOCOL, "MsgExecute"),
        };
        metrics::count_sent(&self.0.context.metrics, protocol_id, kind, message.len());
        if protocol != WorkProtocol::Line {
            return self.0.context.network.tell(peer, WORK_PROTOCOL, &message).await.map(|()| None);
        }
        let head = self.clone();
        let read = |peer, number, frames| async move { head.read_line(peer, number, frames).await };
        let order = Frame { kind: frame::ORDER, content: message };
        self.0.lines.send(peer, order, read).await.map(Some)
    }

    /// Pings workers of ours that run an order for long, until it is dropped. One that misses two
    /// pings is out until it answers, and spares are asked for what it runs.
    pub(super) async fn watch_workers(self) {
        loop {
            sleep(PING_EVERY).await;
            for peer in self.0.slots.slow_workers(PING_EVERY) {
                if self.0.context.peers.work_protocol(&peer) != WorkProtocol::Line {
                    continue;
                }
                if self.0.slots.note_ping(&peer) {
                    info!(%peer, "a worker missed two pings: it is given no work until it answers");
                    self.0.inboxes.put_everywhere(|| Reply::Stalled(peer.clone()));
                }
                let ping = Frame { kind: frame::PING, content: Bytes::new() };
                self.0.lines.send_soon(&peer, ping);
            }
        }
    }

    /// Has a worker of ours end the run of a request.
    pub(super) fn cancel_at(&self, peer: &PeerId, request_id: &str) {
        if self.0.context.peers.work_protocol(peer) == WorkProtocol::Line {
            let content = Bytes::copy_from_slice(request_id.as_bytes());
            self.0.lines.send_soon(peer, Frame { kind: frame::CANCEL, content });
        }
    }
}

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
