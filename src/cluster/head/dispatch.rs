//! Dispatch: work orders in the form that each worker takes, what ends them, and the answers read.
//!
//! Absent on purpose: who is given work, which is `gather.rs`.

use std::time::Duration;

use bytes::Bytes;
use model::{execution::Outcome, node::PeerId};
use tokio::time::sleep;
use tracing::info;

use super::{
    Head, SignaturePolicy,
    gather::{Answer, Failure},
    inbox::Reply,
    order::Order,
};
use crate::{
    message::{
        Code, Execute, LINE_PROTOCOL, Message, Signed, WORK_PROTOCOL, WorkOrder, WorkOrderResponse,
        frame, json,
    },
    metrics,
    network::{SendError, line::Frame},
    peers::WorkProtocol,
};

/// How often a worker that runs an order for as long is pinged: two missed pings are noticed long
/// before an order's time is up, and a short stall of a busy machine is none.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The longest part of a worker's reason that is passed on and remembered, in characters.
const REASON_CHARS_MAX: usize = 400;

/// The longest code of a worker that is passed on, in bytes; all that there are have three.
const CODE_BYTES_MAX: usize = 8;

/// What is passed on of the reason that a peer gives.
pub(super) fn reason(told: &str) -> String {
    told.chars().take(REASON_CHARS_MAX).collect()
}

impl Order {
    /// The order of request `request_id`, in the form that nodes take which are given work that way.
    pub(super) fn message(&self, head: &Head, request_id: &str, protocol: WorkProtocol) -> Vec<u8> {
        let order = WorkOrder {
            function_id: self.function.to_string(),
            method: self.method.to_string(),
            parameters: Some(self.parameters()),
            config: self.config(),
            request_id: request_id.to_owned(),
            timestamp: head.0.clock.now().to_string(),
            client: String::new(),
        };
        match protocol {
            WorkProtocol::Line => json(&WorkOrder { client: self.client_tag.clone(), ..order }),
            WorkProtocol::B7sV2 => json(&Message::WorkOrder(order)),
            WorkProtocol::B7sV1 => {
                let from = head.0.network.peer_id().to_string();
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
        let (protocol_id, kind, metrics) = match protocol {
            WorkProtocol::Line => (LINE_PROTOCOL, "MsgWorkOrder", &self.0.metrics),
            WorkProtocol::B7sV2 => (WORK_PROTOCOL, "MsgWorkOrder", &self.0.metrics),
            WorkProtocol::B7sV1 => (WORK_PROTOCOL, "MsgExecute", &self.0.metrics),
        };
        let n_bytes = u64::try_from(message.len()).unwrap_or(u64::MAX);
        metrics.add(metrics::MESSAGES_SENT, &[protocol_id]);
        metrics.add(metrics::SENT, &[kind]);
        metrics.add_n(metrics::MESSAGES_SENT_BYTES, &[], n_bytes);
        if protocol != WorkProtocol::Line {
            return self.0.network.tell(peer, WORK_PROTOCOL, &message).await.map(|()| None);
        }
        let frame = Frame { kind: frame::ORDER, content: message };
        let head = self.clone();
        let read = |peer, number, frames| async move { head.read_line(peer, number, frames).await };
        self.0.lines.send(peer, frame, read).await.map(Some)
    }

    /// Pings workers of ours that run an order for long, until it is dropped. One that misses two
    /// pings is out until it answers, and spares are asked for what it runs.
    pub(super) async fn watch_workers(self) {
        loop {
            sleep(PING_EVERY).await;
            for peer in self.0.slots.slow_workers(PING_EVERY) {
                if self.0.peers.work_protocol(&peer) != WorkProtocol::Line {
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
        if self.0.peers.work_protocol(peer) == WorkProtocol::Line {
            let content = Bytes::copy_from_slice(request_id.as_bytes());
            self.0.lines.send_soon(peer, Frame { kind: frame::CANCEL, content });
        }
    }
}

/// Reads a worker's answer. A run that failed is a result too, with its exit code. Without a run,
/// workers of ours say why in the message, and those of b7s leave the result empty.
pub(super) fn answer(
    response: WorkOrderResponse,
    signed: Signed,
    policy: SignaturePolicy,
) -> Result<Answer, Failure> {
    let WorkOrderResponse { code, result, error_message, is_final, .. } = response;
    let code = if code.as_str().len() > CODE_BYTES_MAX { Code::ERROR } else { code };
    let has_run = error_message.is_empty() && result.result.exit_code != 0;
    if code != Code::OK && !has_run {
        let refused = if is_final { Failure::Hopeless } else { Failure::Refused };
        return Err(refused(code, reason(&error_message)));
    }
    match (signed, policy) {
        (Signed::Wrongly, _) => Err(Failure::Forged),
        (Signed::No, SignaturePolicy::Required) => Err(Failure::Unsigned),
        _ => Ok(Answer {
            outcome: Outcome::from(result.result),
            usage: result.usage,
            code,
            signature: result.signature,
        }),
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::OutcomeBody;

    use super::*;
    use crate::message::NodeResult;

    #[track_caller]
    fn check(
        (code, exit_code): (Code, i32),
        (signed, policy): (Signed, SignaturePolicy),
        want: &Result<i32, Failure>,
    ) {
        let result = OutcomeBody { stdout: String::new(), stderr: String::new(), exit_code };
        let response = WorkOrderResponse {
            code,
            result: NodeResult { result, ..NodeResult::default() },
            ..WorkOrderResponse::default()
        };
        let read = answer(response, signed, policy).map(|answer| answer.outcome.exit_code);
        assert_eq!(&read, want);
    }

    #[test]
    fn a_failed_run_is_a_result_and_no_run_is_none() {
        let unsigned = (Signed::No, SignaturePolicy::WhereGiven);
        check((Code::OK, 0), unsigned, &Ok(0));
        check((Code::ERROR, 14), unsigned, &Ok(14));
        let missing = Failure::Refused(Code::NOT_FOUND, String::new());
        check((Code::NOT_FOUND, 0), unsigned, &Err(missing));
        let response =
            WorkOrderResponse { code: Code::ERROR, is_final: true, ..WorkOrderResponse::default() };
        let read = answer(response, Signed::No, SignaturePolicy::Required);
        assert_eq!(read, Err(Failure::Hopeless(Code::ERROR, String::new())));
    }

    #[test]
    fn a_refusal_with_the_result_that_heads_of_b7s_read_is_no_result() {
        let response = WorkOrderResponse {
            code: Code::ERROR,
            result: NodeResult::not_run(Code::ERROR, "no free slot"),
            error_message: "no free slot".to_owned(),
            ..WorkOrderResponse::default()
        };
        let want = Failure::Refused(Code::ERROR, "no free slot".to_owned());
        assert_eq!(answer(response, Signed::No, SignaturePolicy::WhereGiven), Err(want));
    }

    #[test]
    fn a_wrong_signature_is_never_taken_and_none_where_that_is_allowed() {
        use SignaturePolicy::{Required, WhereGiven};
        check((Code::OK, 0), (Signed::Yes, WhereGiven), &Ok(0));
        check((Code::OK, 0), (Signed::Yes, Required), &Ok(0));
        check((Code::OK, 0), (Signed::No, Required), &Err(Failure::Unsigned));
        check((Code::OK, 0), (Signed::Wrongly, WhereGiven), &Err(Failure::Forged));
        // Whoever refuses has no result to sign.
        let busy = Failure::Refused(Code::ERROR, String::new());
        check((Code::ERROR, 0), (Signed::No, Required), &Err(busy));
    }

    #[test]
    fn no_more_than_a_part_of_what_a_worker_says_is_kept() {
        let long = WorkOrderResponse {
            code: serde_json::from_value("9".repeat(1000).into()).unwrap(),
            error_message: "é".repeat(1000),
            ..WorkOrderResponse::default()
        };
        let want = Failure::Refused(Code::ERROR, "é".repeat(REASON_CHARS_MAX));
        assert_eq!(answer(long, Signed::No, SignaturePolicy::WhereGiven), Err(want));
    }
}
