//! Replies of peers on their way to the execution that waits for them.

use std::{collections::HashMap, sync::Arc};

use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tracing::warn;

use super::answer::Failure;
use crate::message::{CallDigest, NodeResult, Signed};

/// Replies that wait for one execution, as many as in b7s. More are dropped: they are answers to a
/// roll call that has found its workers long since.
const INBOX_CAPACITY: usize = 1000;

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
        let (sender, replies) = mpsc::channel(INBOX_CAPACITY);
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
