//! Dispatch: work orders in the form that each worker takes, and what ends them.
//!
//! Absent on purpose: who is given work, and what comes of it all, which is `gather.rs`.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use futures::FutureExt as _;
use model::node::PeerId;
use task::traces::Carrier;
use tokio::{select, time::sleep};
use tracing::info;
use wire::functions::ExecuteConfig;

use super::{Head, inbox::Reply, order::Order};
use crate::{
    message::{Execute, LINE_PROTOCOL, Message, WORK_PROTOCOL, WorkOrder, frame, json},
    metrics,
    network::{SendError, line::Frame},
    peer_sends::PeerSends,
    peers::WorkProtocol,
};

/// How often a worker that runs an order for as long is pinged: two missed pings are noticed long
/// before an order's time is up, and a short stall of a busy machine is none.
const PING_EVERY: Duration = Duration::from_secs(1);

/// How often workers are sent what this head wants, at most: a wait of this length does not matter.
const SEND_WANTS_EVERY: Duration = Duration::from_millis(10);

impl Order {
    /// The order of request `request_id`, in the form that nodes take which are given work that way.
    pub(super) fn message(&self, head: &Head, request_id: &str, protocol: WorkProtocol) -> Vec<u8> {
        let number_of_nodes = self.nodes.number();
        let order = WorkOrder {
            function_id: self.function.to_string(),
            method: self.call.method.to_string(),
            parameters: Some(self.call.parameters()),
            config: ExecuteConfig { number_of_nodes, ..self.call.config() },
            request_id: request_id.to_owned(),
            timestamp: head.0.context.clock.now().to_string(),
            client: String::new(),
            carrier: Carrier::of_current_span(),
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
        self.send_frame(peer, Frame { kind: frame::ORDER, content: message }).await.map(Some)
    }

    /// Sends a frame to a worker of ours. Returns the number of the line it is sent on.
    async fn send_frame(&self, peer: &PeerId, frame: Frame) -> Result<u64, SendError> {
        let head = self.clone();
        let read = |peer, number, frames| async move { head.read_line(peer, number, frames).await };
        self.0.lines.send(peer, frame, read).await
    }

    /// Sends workers that have other heads, too, what this one wants, until it is dropped.
    pub(super) async fn send_wants(self) {
        let head = self.clone();
        let mut sends = PeerSends::new("what this head wants", move |peer, want| {
            let head = head.clone();
            async move {
                let content = json(&want).into();
                head.send_frame(&peer, Frame { kind: frame::WANT, content }).await.map(drop)
            }
            .boxed()
        });
        loop {
            for (peer, want) in self.0.slots.take_wants() {
                sends.put(peer, want);
            }
            let mut changed = pin!(async {
                // What changes often is sent together.
                sleep(SEND_WANTS_EVERY).await;
                self.0.slots.want_changed().await;
            });
            loop {
                select! {
                    () = &mut changed => break,
                    failed = sends.next_failed() => self.0.slots.note_want_lost(&failed),
                }
            }
        }
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
