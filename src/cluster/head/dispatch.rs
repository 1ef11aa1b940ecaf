//! Dispatch: sends work orders in the format of each worker and cancels them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::node::PeerId;
use parking_lot::Mutex;
use task::group::Group;
use task::traces::Carrier;
use tokio::time::sleep;
use tracing::{debug, info};

use super::Head;
use super::inbox::Reply;
use super::order::Order;
use crate::message::{Execute, LINE_PROTOCOL, Message, WORK_PROTOCOL, WorkOrder, frame, json};
use crate::metrics;
use crate::network::line::{Frame, Frames, Line};
use crate::network::{Network, SendError};
use crate::peers::WorkProtocol;

/// Interval between pings of a worker that has been running an order for as long. Two missed pings are
/// noticed well before the order times out, but a short stall of a busy machine is tolerated.
const PING_EVERY: Duration = Duration::from_secs(1);

impl Order {
    /// Returns the work order of request `request_id`, encoded for `protocol`.
    pub(super) fn encode(&self, head: &Head, request_id: &str, protocol: WorkProtocol) -> Vec<u8> {
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
    /// Sends an encoded work order. Returns the number of the line that it was sent on, if any.
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
        self.0.lines.send(peer, Frame::new(frame::ORDER, message), read).await.map(Some)
    }

    /// Pings workers that have been running an order for long. A worker that misses two pings gets no
    /// work until it responds, and its orders get a spare. Runs until dropped.
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
                self.0.lines.send_soon(&peer, Frame::new(frame::PING, Bytes::new()));
            }
        }
    }

    /// Cancels the run of a request on `peer`, if that is a worker of ours.
    pub(super) fn cancel_at(&self, peer: &PeerId, request_id: &str) {
        if self.0.context.peers.work_protocol(peer) == WorkProtocol::Line {
            let content = Bytes::copy_from_slice(request_id.as_bytes());
            self.0.lines.send_soon(peer, Frame::new(frame::CANCEL, content));
        }
    }
}

/// A worker's line with its number. Locked while it is being opened, so that only one is.
type LineSlot = Arc<tokio::sync::Mutex<Option<(u64, Line)>>>;

/// Lines by worker. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    network: Network,
    group: Group,
    /// Contains connected peers only.
    by_worker: Arc<Mutex<HashMap<PeerId, LineSlot>>>,
    n_opened: Arc<AtomicU64>,
}

impl Lines {
    pub(super) fn new(network: Network, group: Group) -> Self {
        Self { network, group, by_worker: Arc::default(), n_opened: Arc::default() }
    }

    /// Sends a frame to `peer`. Opens a line if necessary, which `read` then reads until it is closed.
    /// Returns the number of the line. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`SendError`] if no line can be opened.
    pub(super) async fn send<R: Future<Output = ()> + Send + 'static>(
        &self,
        peer: &PeerId,
        frame: Frame,
        read: impl FnOnce(PeerId, u64, Frames) -> R + Send,
    ) -> Result<u64, SendError> {
        let slot = Arc::clone(self.by_worker.lock().entry(peer.clone()).or_default());
        let mut line = slot.lock().await;
        if let Some((number, line)) = line.as_ref()
            && line.send(frame.clone()).await.is_ok()
        {
            return Ok(*number);
        }
        let (new, frames) = match self.network.open_line(peer, LINE_PROTOCOL).await {
            Ok(opened) => opened,
            Err(error) => {
                self.forget_unused(peer, &slot);
                return Err(error);
            }
        };
        let number = self.n_opened.fetch_add(1, Ordering::Relaxed);
        let (reading, own_slot) = (read(peer.clone(), number, frames), Arc::clone(&slot));
        self.group.spawn("line", async move {
            reading.await;
            // The peer has closed the line. The next order opens a new one.
            own_slot.lock().await.take_if(|(other, _)| *other == number);
        });
        let sent = new.send(frame).await;
        *line = Some((number, new));
        sent.map(|()| number).map_err(|_| SendError::Stopped)
    }

    /// Sends a frame to `peer` in the background, if there is a line.
    pub(super) fn send_soon(&self, peer: &PeerId, frame: Frame) {
        let Some(slot) = self.by_worker.lock().get(peer).cloned() else { return };
        self.group.spawn("cancel", async move {
            let line = slot.lock().await.clone();
            if let Some((_, line)) = line
                && line.send(frame).await.is_err()
            {
                debug!("dropped a frame: the line has ended");
            }
        });
    }

    /// Forgets the slot of a worker to which no line could be opened, unless another order uses it. The
    /// worker might have disconnected and been forgotten before.
    fn forget_unused(&self, peer: &PeerId, slot: &LineSlot) {
        let mut by_worker = self.by_worker.lock();
        let is_current = by_worker.get(peer).is_some_and(|other| Arc::ptr_eq(other, slot));
        // The table and the caller have one reference each.
        if is_current && Arc::strong_count(slot) == 2 {
            by_worker.remove(peer);
        }
    }

    /// Removes the line to a disconnected worker, which closes it.
    pub(super) fn forget(&self, peer: &PeerId) {
        self.by_worker.lock().remove(peer);
    }
}
