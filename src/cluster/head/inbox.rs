//! Routing of peers' replies to the executions that wait for them, and parsing of worker responses.

use std::collections::HashMap;
use std::sync::Arc;

use model::function::FunctionId;
use model::node::PeerId;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use super::SignaturePolicy;
use crate::message::{CallDigest, Code, NodeResult, Signed, WorkOrderResponse};

/// An event concerning a peer during an execution.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) peer: PeerId,
    pub(super) kind: ReplyKind,
}

#[derive(Debug)]
pub(super) enum ReplyKind {
    /// The peer replied to the roll call.
    RollCall(Readiness),
    /// The work order waits for a slot.
    Waiting,
    /// The worker compiles the function for the work order.
    Compiling,
    /// The worker has compiled the function and runs the work order.
    Running,
    /// The worker responded to the work order. Includes the outcome of checking the signature.
    Answered(Box<Result<NodeResult, Failure>>, Signed),
    /// The worker missed pings while it ran an order.
    Stalled,
    /// A part of a long response of the worker has arrived.
    Sending,
    /// The last connection to the peer was closed.
    Gone,
    /// The line with this number was closed. A later line might exist.
    LineClosed(u64),
}

/// Readiness of a peer to run the function of a roll call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The peer is ready to run the function.
    Ready,
    /// The peer refuses for this reason.
    Refused(String),
    /// The peer is busy, as this text describes.
    Busy(String),
    /// The peer fetches the function and is ready afterwards.
    Fetching,
}

/// Inboxes of the executions in progress, by request id.
#[derive(Debug, Default)]
pub(super) struct Inboxes(Arc<Mutex<HashMap<String, OpenInbox>>>);

#[derive(Debug)]
struct OpenInbox {
    function_id: String,
    call: CallDigest,
    replies: mpsc::Sender<Reply>,
}

/// Maximum number of waiting replies for one execution. Further replies are dropped. It is enough for
/// the results of thousands of workers that respond at the same time.
const REPLIES_MAX: usize = 16 * 1024;

/// Inbox of one execution. It is closed when this is dropped.
#[derive(Debug)]
pub(super) struct Inbox {
    request_id: String,
    replies: mpsc::Receiver<Reply>,
    inboxes: Arc<Mutex<HashMap<String, OpenInbox>>>,
}

impl Inboxes {
    /// Opens the inbox of a request.
    pub(super) fn open(&self, request_id: &str, function: FunctionId, call: CallDigest) -> Inbox {
        let (sender, replies) = mpsc::channel(REPLIES_MAX);
        let entry = OpenInbox { function_id: function.to_string(), call, replies: sender };
        self.0.lock().insert(request_id.to_owned(), entry);
        Inbox { request_id: request_id.to_owned(), replies, inboxes: Arc::clone(&self.0) }
    }

    /// Returns the function of an open request and the digest of its call.
    pub(super) fn call_of(&self, request_id: &str) -> Option<(String, CallDigest)> {
        self.0.lock().get(request_id).map(|entry| (entry.function_id.clone(), entry.call))
    }

    /// Puts a reply of `peer` into the inbox of a request, if the inbox is open.
    pub(super) fn put(&self, request_id: &str, peer: &PeerId, kind: ReplyKind) {
        if let Some(entry) = self.0.lock().get(request_id) {
            entry.put(Reply { peer: peer.clone(), kind });
        }
    }

    /// Puts an event of `peer` into every open inbox.
    pub(super) fn put_everywhere(&self, peer: &PeerId, kind: impl Fn() -> ReplyKind) {
        for entry in self.0.lock().values() {
            entry.put(Reply { peer: peer.clone(), kind: kind() });
        }
    }
}

impl OpenInbox {
    fn put(&self, reply: Reply) {
        // Replies that a worker can send without an order must not displace results. A roll call with so
        // many replies has found its workers.
        let can_repeat = matches!(
            reply.kind,
            ReplyKind::RollCall(_)
                | ReplyKind::Waiting
                | ReplyKind::Compiling
                | ReplyKind::Running
                | ReplyKind::Sending
        );
        if can_repeat && self.replies.capacity() < self.replies.max_capacity() / 2 {
            return;
        }
        if self.replies.try_send(reply).is_err() {
            warn!("dropped a reply: too many are waiting for one execution");
        }
    }
}

impl Inbox {
    /// Returns the next reply. Cancel-safe.
    pub(super) async fn next(&mut self) -> Reply {
        // `None` does not occur, since the sender stays in the table until this inbox is dropped.
        let Some(reply) = self.replies.recv().await else { return std::future::pending().await };
        reply
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.inboxes.lock().remove(&self.request_id);
    }
}

/// Maximum length of a worker's reason, in characters. The rest is neither forwarded nor stored.
const REASON_CHARS_MAX: usize = 400;

/// Reason for a missing result of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The work order could not be sent.
    Unreached(String),
    /// The worker refused.
    Refused(Code, String),
    /// The worker refused, and claims that every other worker would refuse too.
    Final(Code, String),
    /// The response exceeds the limit of this head.
    TooLong,
    /// The response could not be parsed, for this reason, or contains no result.
    Malformed(String),
    /// The worker did not respond in time.
    Silent,
    /// A spare that got the order later responded first.
    Overtaken,
    /// The connection or line was closed.
    Lost,
    /// The signature is not from the worker, or is for another result.
    Forged,
    /// The result is unsigned but this head requires a signature.
    Unsigned,
}

impl Failure {
    /// Returns true if a result from another worker proves that this refusal was wrong.
    pub(super) fn is_refuted_by_a_result(&self) -> bool {
        match self {
            Self::Final(..) => true,
            Self::Refused(code, _) => *code == Code::ERROR,
            _ => false,
        }
    }

    /// Describes the failure in a phrase that follows the peer's id, such as "did not respond".
    pub(super) fn public_text(&self) -> String {
        match self {
            Self::Unreached(reason) => format!("was not reached ({reason})"),
            Self::Refused(code, reason) | Self::Final(code, reason) if reason.is_empty() => {
                format!("refused with code {}", code.as_str())
            }
            Self::Refused(_, reason) | Self::Final(_, reason) => format!("refused ({reason})"),
            Self::TooLong => {
                "returned more output than this head accepts: raise its --output-limit".to_owned()
            }
            Self::Malformed(reason) => format!("returned a malformed response ({reason})"),
            Self::Silent => "did not respond in time".to_owned(),
            Self::Overtaken => "was slower than usual, and a spare responded first".to_owned(),
            Self::Lost => "was lost".to_owned(),
            Self::Forged => "returned a result with a wrong signature".to_owned(),
            Self::Unsigned => "returned a result without a signature".to_owned(),
        }
    }
}

/// Shortens a peer's reason to the maximum length.
pub(super) fn shorten_reason(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

/// Returns the result in a worker's response. A failed run is a result too: the response then has no
/// error message and an exit code other than 0. If there was no run, workers of this program set the
/// error message, and b7s workers leave the result empty.
pub(super) fn read_answer(
    response: WorkOrderResponse,
    signed: Signed,
    policy: SignaturePolicy,
) -> Result<NodeResult, Failure> {
    let WorkOrderResponse { code, result, error_message, is_final, .. } = response;
    // Other codes, such as "202", would describe the whole execution as successful or in progress.
    let is_known = matches!(code.as_str().as_bytes(), [b'4' | b'5', b'0'..=b'9', b'0'..=b'9']);
    let is_success = code == Code::OK && error_message.is_empty();
    let code = if is_known || is_success { code } else { Code::ERROR };
    if is_success && result == NodeResult::default() {
        return Err(Failure::Malformed("no result".to_owned()));
    }
    let has_run = error_message.is_empty() && result.result.exit_code != 0;
    if code != Code::OK && !has_run {
        let failure = if is_final { Failure::Final } else { Failure::Refused };
        return Err(failure(code, shorten_reason(&error_message)));
    }
    match (signed, policy) {
        (Signed::Wrongly, _) => Err(Failure::Forged),
        (Signed::No, SignaturePolicy::Required) => Err(Failure::Unsigned),
        _ => Ok(NodeResult { code, ..result }),
    }
}

#[cfg(test)]
mod tests {
    use wire::functions::Outcome;

    use super::*;
    use crate::message::NodeResult;

    #[track_caller]
    fn check(
        (code, exit_code): (Code, i32),
        (signed, policy): (Signed, SignaturePolicy),
        want: &Result<i32, Failure>,
    ) {
        let result = Outcome { exit_code, ..Outcome::default() };
        let response = WorkOrderResponse {
            result: NodeResult { code: code.clone(), result, ..NodeResult::default() },
            code,
            ..WorkOrderResponse::default()
        };
        let read = read_answer(response, signed, policy).map(|answer| answer.result.exit_code);
        assert_eq!(&read, want);
    }

    #[test]
    fn exit_code_of_a_failed_run_is_a_result_but_a_refused_order_is_not() {
        let unsigned = (Signed::No, SignaturePolicy::WhereGiven);
        check((Code::OK, 0), unsigned, &Ok(0));
        check((Code::ERROR, 14), unsigned, &Ok(14));
        let missing = Failure::Refused(Code::NOT_FOUND, String::new());
        check((Code::NOT_FOUND, 0), unsigned, &Err(missing));
        let response =
            WorkOrderResponse { code: Code::ERROR, is_final: true, ..WorkOrderResponse::default() };
        let read = read_answer(response, Signed::No, SignaturePolicy::Required);
        assert_eq!(read, Err(Failure::Final(Code::ERROR, String::new())));
    }

    #[test]
    fn refusal_with_a_placeholder_result_for_b7s_heads_is_not_a_result() {
        let response = WorkOrderResponse {
            code: Code::ERROR,
            result: NodeResult::not_run(Code::ERROR, "no free slot"),
            error_message: "no free slot".to_owned(),
            ..WorkOrderResponse::default()
        };
        let want = Failure::Refused(Code::ERROR, "no free slot".to_owned());
        assert_eq!(read_answer(response, Signed::No, SignaturePolicy::WhereGiven), Err(want));
    }

    #[test]
    fn wrong_signature_is_always_rejected_and_a_missing_signature_if_required() {
        use SignaturePolicy::{Required, WhereGiven};
        check((Code::OK, 0), (Signed::Yes, WhereGiven), &Ok(0));
        check((Code::OK, 0), (Signed::Yes, Required), &Ok(0));
        check((Code::OK, 0), (Signed::No, Required), &Err(Failure::Unsigned));
        check((Code::OK, 0), (Signed::Wrongly, WhereGiven), &Err(Failure::Forged));
        // A worker that refuses has no result to sign.
        let busy = Failure::Refused(Code::ERROR, String::new());
        check((Code::ERROR, 0), (Signed::No, Required), &Err(busy));
    }

    #[test]
    fn response_without_a_result_or_with_the_code_of_another_state_is_no_result() {
        let read = |code: Code| {
            let response = WorkOrderResponse { code, ..WorkOrderResponse::default() };
            read_answer(response, Signed::No, SignaturePolicy::WhereGiven)
        };
        assert_eq!(read(Code::OK), Err(Failure::Malformed("no result".to_owned())));
        let contradictory = WorkOrderResponse {
            code: Code::OK,
            result: NodeResult { code: Code::OK, ..NodeResult::default() },
            error_message: "no slot".to_owned(),
            ..WorkOrderResponse::default()
        };
        let read_contradictory =
            read_answer(contradictory, Signed::No, SignaturePolicy::WhereGiven);
        assert_eq!(read_contradictory, Err(Failure::Refused(Code::ERROR, "no slot".to_owned())));
        for code in [Code::ACCEPTED, Code::NO_CONTENT, Code::default()] {
            assert_eq!(read(code), Err(Failure::Refused(Code::ERROR, String::new())));
        }
    }

    #[test]
    fn long_reasons_and_codes_are_truncated() {
        let long = WorkOrderResponse {
            code: serde_json::from_value("9".repeat(1000).into()).unwrap(),
            error_message: "é".repeat(1000),
            ..WorkOrderResponse::default()
        };
        let want = Failure::Refused(Code::ERROR, "é".repeat(REASON_CHARS_MAX));
        assert_eq!(read_answer(long, Signed::No, SignaturePolicy::WhereGiven), Err(want));
    }
}
