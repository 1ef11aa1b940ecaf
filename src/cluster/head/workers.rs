//! Exchange with workers and clients on the network: sends work orders in the format of each worker,
//! cancels them, and handles offers, reports, results and requests.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use model::node::PeerId;
use parking_lot::Mutex;
use task::group::Group;
use task::traces::Carrier;
use tokio::select;
use tokio::time::sleep;
use tracing::{debug, info, warn};
use wire::executions::ClusterEventKind;
use wire::functions::{ClusterBody, ExecuteRequest};

use super::inbox::{Failure, Readiness, ReplyKind, read_answer, shorten_reason};
use super::order::Order;
use super::{Client, Execution, Head};
use crate::message::{
    Code, Execute, ExecuteReply, LINE_PROTOCOL, Message, NodeResult, OrderState, RollCallResponse,
    Signed, SignedCall, WORK_PROTOCOL, WorkOrder, WorkOrderResponse, frame, json,
};
use crate::metrics;
use crate::network::line::{Frame, Frames, Incoming, Line};
use crate::network::{ExchangeError, Network};
use crate::peers::{NodeOffer, WorkProtocol};

/// Age of a running order after which the head pings its worker, and the interval between these pings.
/// Two missed pings are noticed well before the order times out, but a short stall of a busy machine is
/// tolerated.
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
    ) -> Result<Option<u64>, ExchangeError> {
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
        self.0
            .lines
            .send(peer, Frame { kind: frame::ORDER, content: message }, read)
            .await
            .map(Some)
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
                    self.0.inboxes.put_everywhere(&peer, || ReplyKind::Stalled);
                }
                self.0.lines.send_soon(&peer, Frame { kind: frame::PING, content: Bytes::new() });
            }
        }
    }

    /// Cancels the run of a request on `peer`, if the peer is a worker of this program.
    pub(super) fn cancel_at(&self, peer: &PeerId, request_id: &str) {
        if self.0.context.peers.work_protocol(peer) == WorkProtocol::Line {
            let content = Bytes::copy_from_slice(request_id.as_bytes());
            self.0.lines.send_soon(peer, Frame { kind: frame::CANCEL, content });
        }
    }
}

/// A worker's line with its number. The lock is held while a line is opened, so that only one line is
/// opened.
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

    /// Sends a frame to `peer`. If there is no line, opens one and runs `read` on it until it is
    /// closed. Returns the number of the line. Cancel-safe.
    ///
    /// # Errors
    /// Returns [`ExchangeError`] if no line can be opened.
    pub(super) async fn send<R: Future<Output = ()> + Send + 'static>(
        &self,
        peer: &PeerId,
        frame: Frame,
        read: impl FnOnce(PeerId, u64, Frames) -> R + Send,
    ) -> Result<u64, ExchangeError> {
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
            // The peer has closed the line. Removing the line lets the next order open a new line.
            own_slot.lock().await.take_if(|(other, _)| *other == number);
        });
        let sent = new.send(frame).await;
        *line = Some((number, new));
        sent.map(|()| number).map_err(|_| ExchangeError::Stopped)
    }

    /// Sends a frame to `peer` in the background, if there is a line.
    pub(super) fn send_soon(&self, peer: &PeerId, frame: Frame) {
        let Some(slot) = self.by_worker.lock().get(peer).cloned() else { return };
        self.group.spawn("line frame", async move {
            let line = slot.lock().await.clone();
            if let Some((_, line)) = line
                && line.send(frame).await.is_err()
            {
                debug!("dropped a frame: the line is closed");
            }
        });
    }

    /// Removes the slot of a worker to which no line could be opened, unless another order uses the
    /// slot. The worker might have disconnected already, which removes the slot too.
    fn forget_unused(&self, peer: &PeerId, slot: &LineSlot) {
        let mut by_worker = self.by_worker.lock();
        let is_current = by_worker.get(peer).is_some_and(|other| Arc::ptr_eq(other, slot));
        // The table and the caller have one reference each, so no other order uses the slot.
        if is_current && Arc::strong_count(slot) == 2 {
            by_worker.remove(peer);
        }
    }

    /// Removes the line to a disconnected worker, which closes it.
    pub(super) fn forget(&self, peer: &PeerId) {
        self.by_worker.lock().remove(peer);
    }
}

impl Head {
    /// Handles a worker's reply to a roll call.
    pub(crate) fn note_roll_call_reply(&self, peer: &PeerId, response: RollCallResponse) {
        let RollCallResponse { code, function_id, request_id, message, from } = response;
        self.0.context.peers.note_version(peer, !from.is_empty());
        let reason = || match message.as_str() {
            "" => format!("code {}", code.as_str()),
            message => shorten_reason(message),
        };
        let readiness = match &code {
            code if *code == Code::ACCEPTED => Readiness::Ready,
            code if *code == Code::PROCESSING => Readiness::Fetching,
            code if *code == Code::UNAVAILABLE => Readiness::Busy(reason()),
            _ => Readiness::Refused(reason()),
        };
        if self.0.inboxes.call_of(&request_id).is_some_and(|(id, _)| id == function_id) {
            self.0.inboxes.put(&request_id, peer, ReplyKind::RollCall(readiness));
        }
    }

    /// Handles a worker's response to a work order and verifies its signature.
    pub(crate) fn note_answer(&self, peer: &PeerId, response: WorkOrderResponse) {
        let request_id = response.request_id.clone();
        let Some((function_id, call)) = self.0.inboxes.call_of(&request_id) else { return };
        let of = SignedCall { request_id: &request_id, function_id: &function_id, call };
        let signed = response.result.signed_by(peer, of);
        let answer = read_answer(response, signed, self.0.signatures);
        self.0.inboxes.put(&request_id, peer, ReplyKind::Answered(Box::new(answer), signed));
    }

    /// Handles the start of a response that exceeds the size limit. The request gets no result from
    /// `peer`.
    pub(crate) fn note_long_answer(&self, peer: &PeerId, start: &[u8]) {
        let request_id = request_id_in(start);
        if request_id.is_none_or(|id| self.0.inboxes.call_of(id).is_none()) {
            self.0.context.network.blame(peer);
        }
        match request_id {
            Some(request_id) => self.0.inboxes.put(request_id, peer, failed(Failure::TooLong)),
            // The request is unknown, so any request that waits for this worker might be affected.
            None => self.0.inboxes.put_everywhere(peer, || failed(Failure::TooLong)),
        }
    }

    /// Handles the start of a message of `peer` for which there was no memory. If it names a request, the
    /// request gets no result from `peer`.
    pub(crate) fn note_dropped_answer(&self, peer: &PeerId, start: &[u8]) {
        if let Some(request_id) = request_id_in(start) {
            self.0.inboxes.put(request_id, peer, failed(Failure::Lost));
        }
    }

    /// Handles a message of `peer` that could not be parsed for `reason`. If it names a request, the
    /// request gets no result from `peer`.
    pub(crate) fn note_malformed(&self, peer: &PeerId, bytes: &[u8], reason: &str) {
        if let Some(request_id) = request_id_in(bytes) {
            let failure = Failure::Malformed(shorten_reason(reason));
            self.0.inboxes.put(request_id, peer, failed(failure));
        }
    }

    /// Handles the response to a work order of a b7s worker of version 1.
    pub(crate) fn note_execute_response(&self, peer: &PeerId, mut response: ExecuteReply) {
        let result = response.results.remove(peer.as_str()).unwrap_or_default();
        let ExecuteReply { request_id, code, message, .. } = response;
        let response = WorkOrderResponse {
            request_id,
            code,
            result,
            error_message: message,
            ..WorkOrderResponse::default()
        };
        self.note_answer(peer, response);
    }

    /// Records a peer's offer. An offer without slots withdraws the previous offer.
    pub(crate) fn note_offer(&self, peer: &PeerId, offer: Arc<NodeOffer>) {
        // The offer of a disconnected peer would never be removed, so it is ignored. Offers of peers
        // that wait for approval are recorded, since workers rarely repeat them.
        if self.0.context.peers.is_connected(peer) {
            self.0.slots.note_offer(peer, offer);
        }
    }

    /// Publishes that a peer has connected.
    pub(crate) fn note_connected(&self, peer: &PeerId) {
        self.0.events.emit(|| ClusterEventKind::PeerJoined { peer_id: peer.to_string() });
    }

    /// Forgets a peer that has disconnected.
    pub(crate) fn note_disconnected(&self, peer: &PeerId) {
        self.0.slots.note_lost(peer);
        self.0.lines.forget(peer);
        self.0.inboxes.put_everywhere(peer, || ReplyKind::Gone);
        self.0.events.emit(|| ClusterEventKind::PeerLeft { peer_id: peer.to_string() });
    }

    /// Executes the request of a client on the network and sends it the outcome.
    pub(crate) async fn execute_for_peer(&self, client: PeerId, request: Execute) {
        let request = ExecuteRequest {
            function_id: request.order.function_id,
            method: request.order.method,
            parameters: request.order.parameters,
            config: request.order.config,
            subgroup: Some(request.subgroup),
            topic: Some(request.topic),
        };
        let execution = match Order::read(request) {
            Ok(order) => {
                self.execute(&Client::Peer(client.clone()), order).await.unwrap_or_else(|error| {
                    Arc::new(Execution::rejected(Code::UNAVAILABLE, error.to_string()))
                })
            }
            Err(errors) => Arc::new(Execution::rejected(Code::INVALID, errors.join("; "))),
        };
        let from = self.0.context.network.peer_id().to_string();
        let message = json(&Message::ExecuteResponse(response_to_client(&execution, from)));
        self.0.context.metrics.add(metrics::SENT, &["MsgExecuteResponse"]);
        if let Err(error) = self.0.context.network.tell(&client, WORK_PROTOCOL, &message).await {
            warn!(peer = %client, %error, "a response did not reach its client");
        }
    }

    /// Reads the frames on a worker's line until it is closed or the worker is no longer allowed.
    pub(super) async fn read_line(&self, peer: PeerId, number: u64, mut frames: Frames) {
        let mut excluded = pin!(self.0.context.network.excluded(&peer));
        // A worker answers pings only after the response that it is sending. Without an order, it has no
        // long response to send.
        let note_part = || {
            self.0.slots.note_pong(&peer);
            self.0.inboxes.put_everywhere(&peer, || ReplyKind::Sending);
            self.0.slots.n_running(&peer) > 0
        };
        loop {
            let incoming = select! {
                biased;
                () = &mut excluded => None,
                incoming = frames.next_in_parts(&note_part) => incoming,
            };
            let frame = match incoming {
                None => break,
                Some(Incoming::Whole(frame)) => frame,
                Some(Incoming::Cut(start)) => {
                    // Without an order, this might be the response to one that was canceled.
                    if self.0.slots.n_running(&peer) > 0 {
                        self.note_long_answer(&peer, &start.content);
                    }
                    continue;
                }
            };
            match frame.kind {
                frame::PONG => self.0.slots.note_pong(&peer),
                frame::STATE => match serde_json::from_slice::<OrderState>(&frame.content) {
                    Ok(state) => self.note_state(&peer, &state),
                    Err(_) => self.0.context.network.blame(&peer),
                },
                frame::ANSWER => {
                    self.0.context.metrics.add(metrics::DIRECT_MESSAGES, &[]);
                    match serde_json::from_slice::<WorkOrderResponse>(&frame.content) {
                        Ok(response) => self.note_answer(&peer, response),
                        Err(error) => {
                            debug!(%peer, %error, "dropped a malformed response");
                            self.0.context.network.blame(&peer);
                            self.note_malformed(&peer, &frame.content, &error.to_string());
                        }
                    }
                }
                _ => {}
            }
        }
        self.note_line_closed(&peer, number);
    }

    /// Records the state of a worker's order.
    fn note_state(&self, peer: &PeerId, state: &OrderState) {
        let kind = match state.state.as_str() {
            OrderState::WAITING => ReplyKind::Waiting,
            OrderState::COMPILING => ReplyKind::Compiling,
            OrderState::RUNNING => ReplyKind::Running,
            _ => return,
        };
        self.0.inboxes.put(&state.request_id, peer, kind);
    }

    /// Records that line `number` to `peer` was closed. Orders sent on it get no result.
    pub(crate) fn note_line_closed(&self, peer: &PeerId, number: u64) {
        self.0.inboxes.put_everywhere(peer, || ReplyKind::LineClosed(number));
    }
}

fn failed(failure: Failure) -> ReplyKind {
    ReplyKind::Answered(Box::new(Err(failure)), Signed::No)
}

/// Finds the request id in the start of a message. Nodes of both b7s versions write it there.
fn request_id_in(start: &[u8]) -> Option<&str> {
    let text = str::from_utf8(start)
        .or_else(|error| str::from_utf8(start.get(..error.valid_up_to()).unwrap_or_default()));
    let (_, rest) = text.ok()?.split_once("\"request_id\":\"")?;
    rest.split_once('"').map(|(id, _)| id)
}

/// Returns the outcome of an execution as a message for a client on the network.
fn response_to_client(execution: &Execution, from: String) -> ExecuteReply {
    let mut results = BTreeMap::new();
    for group in &execution.groups {
        for peer in &group.peers {
            let run = execution.runs.get(peer).cloned().unwrap_or_default();
            results.insert(peer.to_string(), NodeResult { result: group.outcome.clone(), ..run });
        }
    }
    let peers = execution.peers.iter().map(PeerId::to_string).collect();
    ExecuteReply {
        request_id: execution.request_id.clone(),
        from,
        code: execution.code.clone(),
        results,
        cluster: ClusterBody { peers },
        message: execution.message.clone(),
    }
}
