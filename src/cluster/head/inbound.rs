//! Messages of peers to a head: offers, reports, results and client requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::node::PeerId;
use tracing::{debug, warn};
use wire::executions::ClusterEventKind;
use wire::functions::{ClusterBody, ExecuteRequest};

use super::inbox::{Reply, read_answer, shorten_reason};
use super::order::Order;
use super::{Client, Execution, Head};
use crate::message::{
    Code, Execute, ExecuteReply, Message, NodeResult, Offer, OrderState, RollCallResponse,
    SignedCall, WORK_PROTOCOL, WorkOrderResponse, frame, json,
};
use crate::metrics;
use crate::network::line::{Frames, Incoming};
use crate::peers::NAMES_MAX;

impl Head {
    /// Handles a worker's reply to a roll call.
    pub(crate) fn note_roll_call_reply(&self, peer: PeerId, response: RollCallResponse) {
        let RollCallResponse { code, function_id, request_id, message, from } = response;
        self.0.context.peers.note_version(&peer, !from.is_empty());
        let reason = || match message.as_str() {
            "" => format!("code {}", code.as_str()),
            message => shorten_reason(message),
        };
        let reply = match &code {
            code if *code == Code::ACCEPTED => Reply::Ready(peer),
            code if *code == Code::PROCESSING => Reply::Fetching(peer),
            code if *code == Code::UNAVAILABLE => Reply::Busy(peer, reason()),
            _ => Reply::Refused(peer, reason()),
        };
        if self.0.inboxes.call_of(&request_id).is_some_and(|(id, _)| id == function_id) {
            self.0.inboxes.put(&request_id, reply);
        }
    }

    /// Handles a worker's response to a work order and verifies its signature.
    pub(crate) fn note_answer(&self, peer: PeerId, response: WorkOrderResponse) {
        let request_id = response.request_id.clone();
        let Some((function_id, call)) = self.0.inboxes.call_of(&request_id) else { return };
        let of = SignedCall { request_id: &request_id, function_id: &function_id, call };
        let signed = response.result.signed_by(&peer, of);
        let answer = read_answer(response, signed, self.0.signatures);
        self.0.inboxes.put(&request_id, Reply::Answered(peer, Box::new(answer), signed));
    }

    /// Handles the start of a response that exceeds the limit: its request gets no result of
    /// `peer`.
    pub(crate) fn note_long_answer(&self, peer: &PeerId, start: &[u8]) {
        let request_id = request_id_in(start);
        if request_id.is_none_or(|id| self.0.inboxes.call_of(id).is_none()) {
            self.0.context.network.blame(peer);
        }
        match request_id {
            Some(request_id) => self.0.inboxes.put(request_id, Reply::TooLong(peer.clone())),
            // Any request that waits for this worker might be affected.
            None => self.0.inboxes.put_everywhere(|| Reply::TooLong(peer.clone())),
        }
    }

    /// Handles the response to a work order of a b7s worker of version 1.
    pub(crate) fn note_execute_response(&self, peer: PeerId, mut response: ExecuteReply) {
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

    /// Records a peer's offer.
    pub(crate) fn note_offer(&self, peer: &PeerId, offer: &Offer) {
        // The offer of a disconnected peer would never be forgotten. Offers of peers that wait for
        // approval are recorded too, since workers rarely repeat them.
        if offer.slots > 0 && self.0.context.peers.is_connected(peer) {
            self.0.slots.note_offer(peer, offer, NAMES_MAX);
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
        self.0.inboxes.put_everywhere(|| Reply::Gone(peer.clone()));
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
        let execution = match Order::read(&request) {
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

    /// Reads the frames on a worker's line until it is closed.
    pub(super) async fn read_line(&self, peer: PeerId, number: u64, mut frames: Frames) {
        while let Some(incoming) = frames.next().await {
            let frame = match incoming {
                Incoming::Whole(frame) => frame,
                Incoming::Cut(start) => {
                    self.note_long_answer(&peer, &start.content);
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
                        Ok(response) => self.note_answer(peer.clone(), response),
                        Err(error) => {
                            self.0.context.network.blame(&peer);
                            debug!(%peer, %error, "dropped a malformed response");
                        }
                    }
                }
                _ => {}
            }
        }
        self.note_line_ended(&peer, number);
    }

    /// Records the state of a worker's order.
    fn note_state(&self, peer: &PeerId, state: &OrderState) {
        let reply = match state.state.as_str() {
            OrderState::WAITING => Reply::Waiting(peer.clone()),
            OrderState::COMPILING => Reply::Compiling(peer.clone()),
            OrderState::RUNNING => Reply::Running(peer.clone()),
            _ => return,
        };
        self.0.inboxes.put(&state.request_id, reply);
    }

    /// Records that line `number` to `peer` was closed. Orders sent on it get no result.
    pub(crate) fn note_line_ended(&self, peer: &PeerId, number: u64) {
        self.0.inboxes.put_everywhere(|| Reply::LineEnded(peer.clone(), number));
    }
}

/// Finds the request id in the start of a message, where nodes of both versions write it.
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
