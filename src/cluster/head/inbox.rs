//! Replies of peers, delivered to the execution that waits for them, and what they mean.

use std::{collections::HashMap, sync::Arc};

use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use super::SignaturePolicy;
use crate::message::{CallDigest, Code, NodeResult, Signed, WorkOrderResponse};

/// What a peer does in the course of an execution.
#[derive(Debug)]
pub(super) enum Reply {
    /// It is ready to run the function.
    Ready(PeerId),
    /// It is not, for a reason.
    Refused(PeerId, String),
    /// It is not as long as it is busy, for a reason.
    Busy(PeerId, String),
    /// It fetches the function, and will be ready then.
    Fetching(PeerId),
    /// A worker says that its order waits for a slot.
    Waiting(PeerId),
    /// It compiles the function for a work order.
    Compiling(PeerId),
    /// It runs a work order, for which it has compiled the function.
    Running(PeerId),
    /// It answered a work order; with what is known of its signature.
    Answered(PeerId, Box<Result<NodeResult, Failure>>, Signed),
    /// It missed pings while it ran an order.
    Stalled(PeerId),
    /// It answered a work order at greater length than this head takes.
    TooLong(PeerId),
    /// Its last connection is gone.
    Gone(PeerId),
    /// The line to it of this number has ended. There may be a newer one.
    LineEnded(PeerId, u64),
}

/// The executions that wait for replies, by request id.
#[derive(Debug, Default)]
pub(super) struct Inboxes(Arc<Mutex<HashMap<String, Entry>>>);

#[derive(Debug)]
struct Entry {
    function_id: String,
    call: CallDigest,
    replies: mpsc::Sender<Reply>,
}

/// One execution's replies. Dropping it closes the inbox.
#[derive(Debug)]
pub(super) struct Inbox {
    request_id: String,
    replies: mpsc::Receiver<Reply>,
    inboxes: Arc<Mutex<HashMap<String, Entry>>>,
}

impl Inboxes {
    /// Opens the inbox of one request for one call of a function.
    pub(super) fn open(&self, request_id: &str, function: FunctionId, call: CallDigest) -> Inbox {
        // As many as in b7s. More are dropped: they are replies to a roll call that has found its workers.
        let (sender, replies) = mpsc::channel(1000);
        let entry = Entry { function_id: function.to_string(), call, replies: sender };
        self.0.lock().insert(request_id.to_owned(), entry);
        Inbox { request_id: request_id.to_owned(), replies, inboxes: Arc::clone(&self.0) }
    }

    /// Returns the function that an open request is for.
    pub(super) fn function_of(&self, request_id: &str) -> Option<String> {
        self.0.lock().get(request_id).map(|entry| entry.function_id.clone())
    }

    /// Returns the function that an open request is for, and the digest of its call.
    pub(super) fn call_of(&self, request_id: &str) -> Option<(String, CallDigest)> {
        self.0.lock().get(request_id).map(|entry| (entry.function_id.clone(), entry.call))
    }

    /// Puts a reply into the inbox of a request, if it is open.
    pub(super) fn put(&self, request_id: &str, reply: Reply) {
        if let Some(entry) = self.0.lock().get(request_id) {
            entry.put(reply);
        }
    }

    /// Puts a reply into every inbox.
    pub(super) fn put_everywhere(&self, reply: impl Fn() -> Reply) {
        for entry in self.0.lock().values() {
            entry.put(reply());
        }
    }
}

impl Entry {
    fn put(&self, reply: Reply) {
        if self.replies.try_send(reply).is_err() {
            warn!("dropped a reply: too many wait for one execution");
        }
    }
}

impl Inbox {
    /// Returns the next reply. Cancel-safe.
    pub(super) async fn next(&mut self) -> Reply {
        // The other end is held by the table this inbox is in.
        let Some(reply) = self.replies.recv().await else { return std::future::pending().await };
        reply
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.inboxes.lock().remove(&self.request_id);
    }
}

/// The longest part of a worker's reason that is passed on and remembered, in characters.
const REASON_CHARS_MAX: usize = 400;

/// Why a worker gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The work order did not reach it.
    Unreached(String),
    /// It said why not.
    Refused(Code, String),
    /// It said why not, and that no other would either.
    Hopeless(Code, String),
    /// It said more than this head takes.
    TooLong,
    /// It said nothing in its time.
    Silent,
    /// A spare that was asked later answered first.
    Overtaken,
    /// Its connection ended.
    Lost,
    /// Its result bears the signature of another, or of another result.
    Forged,
    /// Its result bears none, and this head takes signed ones alone.
    Unsigned,
}

impl Failure {
    /// Whether an answer of another worker to the same order shows that this one refused wrongly.
    pub(super) fn is_refuted_by_an_answer(&self) -> bool {
        match self {
            Self::Hopeless(..) => true,
            Self::Refused(code, _) => *code == Code::ERROR,
            _ => false,
        }
    }

    /// What happened, to stand after the peer's id.
    pub(super) fn public_text(&self) -> String {
        match self {
            Self::Unreached(reason) => format!("was not reached ({reason})"),
            Self::Refused(code, reason) | Self::Hopeless(code, reason) if reason.is_empty() => {
                format!("refused with code {}", code.as_str())
            }
            Self::Refused(_, reason) | Self::Hopeless(_, reason) => format!("refused ({reason})"),
            Self::TooLong => {
                "gave more output than this head takes: raise its --output-limit".to_owned()
            }
            Self::Silent => "did not answer in time".to_owned(),
            Self::Overtaken => "took longer than usual, and a spare answered first".to_owned(),
            Self::Lost => "was lost".to_owned(),
            Self::Forged => "gave a result with a wrong signature".to_owned(),
            Self::Unsigned => "gave a result without a signature".to_owned(),
        }
    }
}

/// What is passed on of the reason that a peer gives.
pub(super) fn reason(told: &str) -> String {
    told.chars().take(REASON_CHARS_MAX).collect()
}

/// Reads a worker's answer. A run that failed is a result too, with its exit code. Without a run,
/// workers of ours say why in the message, and those of b7s leave the result empty.
pub(super) fn read_answer(
    response: WorkOrderResponse,
    signed: Signed,
    policy: SignaturePolicy,
) -> Result<NodeResult, Failure> {
    let WorkOrderResponse { code, result, error_message, is_final, .. } = response;
    // Known codes have three characters.
    let code = if code.as_str().len() > 8 { Code::ERROR } else { code };
    let has_run = error_message.is_empty() && result.result.exit_code != 0;
    if code != Code::OK && !has_run {
        let refused = if is_final { Failure::Hopeless } else { Failure::Refused };
        return Err(refused(code, reason(&error_message)));
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
        let result = Outcome { stdout: String::new(), stderr: String::new(), exit_code };
        let response = WorkOrderResponse {
            code,
            result: NodeResult { result, ..NodeResult::default() },
            ..WorkOrderResponse::default()
        };
        let read = read_answer(response, signed, policy).map(|answer| answer.result.exit_code);
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
        let read = read_answer(response, Signed::No, SignaturePolicy::Required);
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
        assert_eq!(read_answer(response, Signed::No, SignaturePolicy::WhereGiven), Err(want));
    }

    #[test]
    fn a_wrong_signature_is_never_taken_and_none_where_that_is_allowed() {
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
