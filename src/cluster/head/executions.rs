//! Executions that a head remembers: in progress and recent.
//!
//! [`Track`] records the progress of an execution for readers and sends it to followers of the head's
//! events.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::node::PeerId;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use task::clock::Clock;
use task::tally::Tally;
use tokio::sync::{Notify, broadcast};
use tokio::time::Instant;
use wire::executions::{ClusterEvent, ClusterEventKind, ExecutionBody, ExecutionPeerBody, Usage};
use wire::functions::ResultGroupBody;
use wire::nodes::NodeOrderBody;

use ClusterEventKind::{Compiled, Compiling, Dispatched, Reported};

use super::order::Order;
use super::{Client, ClientShare, Execution, admit};

/// Maximum number of remembered executions, as in b7s. If there are more, the oldest completed
/// executions are evicted.
pub(super) const KEPT_MAX: usize = 1000;

/// Maximum size of the remembered output, in bytes. If it is exceeded, the oldest completed executions
/// are evicted, but not the one that completed last.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Executions. Clones share one table.
#[derive(Debug, Clone)]
pub(crate) struct Executions {
    history: Arc<Mutex<History>>,
    events: Events,
}

#[derive(Debug, Default)]
struct History {
    by_id: HashMap<String, Arc<ExecutionEntry>>,
    /// Ids of the executions, the oldest first.
    order: VecDeque<String>,
    /// Size of the output of all results, in bytes.
    n_bytes: usize,
    /// Id of the execution that completed last.
    latest: String,
}

#[derive(Debug)]
struct ExecutionEntry {
    request_id: String,
    started: Instant,
    canceled: Notify,
    progress: Mutex<ExecutionProgress>,
}

#[derive(Debug)]
struct ExecutionProgress {
    /// Response body without the results. The elapsed time is set when the execution has ended.
    body: ExecutionBody,
    /// Reason for ending the execution early. Only meaningful after `canceled` was notified.
    cause: Cause,
    /// Outcome; `None` while the execution is in progress.
    result: Option<Arc<Execution>>,
}

/// Reason for canceling an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The client canceled the execution or disconnected.
    Caller,
    /// The node is stopping and the time to drain has elapsed.
    Stopping,
}

/// State of a remembered execution.
#[derive(Debug, Clone)]
pub(super) enum ExecutionStatus {
    InProgress,
    /// The execution is complete, with this outcome.
    Ended(Arc<Execution>),
}

/// Records the progress of an execution. If it is dropped early, the execution counts as canceled.
#[derive(Debug)]
pub(super) struct Track {
    entry: Arc<ExecutionEntry>,
    executions: Executions,
}

impl Executions {
    pub(super) fn new(events: Events) -> Self {
        Self { history: Arc::default(), events }
    }

    /// Registers a new execution.
    pub(super) fn begin(&self, request_id: &str, order: &Order, now: Timestamp) -> Track {
        let body = ExecutionBody {
            request_id: request_id.to_owned(),
            state: "waiting".to_owned(),
            function_id: order.function.to_string(),
            method: order.work.method.clone(),
            subgroup: order.subgroup.as_ref().map(ToString::to_string),
            number_of_nodes: order.nodes.number(),
            started_at: now.to_string(),
            ..ExecutionBody::default()
        };
        let entry = Arc::new(ExecutionEntry {
            request_id: request_id.to_owned(),
            started: Instant::now(),
            canceled: Notify::new(),
            progress: Mutex::new(ExecutionProgress { body, cause: Cause::Caller, result: None }),
        });
        let mut history = self.history.lock();
        history.by_id.insert(request_id.to_owned(), Arc::clone(&entry));
        history.order.push_back(request_id.to_owned());
        history.evict();
        Track { entry, executions: self.clone() }
    }

    /// Returns the state of execution `id`, if it is remembered.
    pub(super) fn find(&self, id: &str) -> Option<ExecutionStatus> {
        let result = self.entry(id)?.progress.lock().result.clone();
        Some(result.map_or(ExecutionStatus::InProgress, ExecutionStatus::Ended))
    }

    /// Returns execution `id` with its results.
    pub(super) fn get(&self, id: &str) -> Option<ExecutionBody> {
        self.entry(id).map(|entry| entry.body(true))
    }

    /// Returns the latest `limit` executions without their results, the latest first.
    pub(crate) fn list(&self, limit: usize) -> Vec<ExecutionBody> {
        let entries: Vec<Arc<ExecutionEntry>> = {
            let history = self.history.lock();
            let latest = history.order.iter().rev().filter_map(|id| history.by_id.get(id));
            latest.take(limit).cloned().collect()
        };
        entries.into_iter().map(|entry| entry.body(false)).collect()
    }

    /// Cancels execution `id`. Returns true if it was in progress, or `None` if it is unknown.
    pub(crate) fn cancel(&self, id: &str) -> Option<bool> {
        let entry = self.entry(id)?;
        let is_in_progress = entry.progress.lock().result.is_none();
        if is_in_progress {
            entry.canceled.notify_one();
        }
        Some(is_in_progress)
    }

    /// Returns the id and function of each execution in progress, the oldest first.
    pub(crate) fn in_progress(&self) -> Vec<(String, String)> {
        let function = |entry: &ExecutionEntry| entry.progress.lock().body.function_id.clone();
        let entries = self.entries_in_progress().into_iter();
        entries.map(|entry| (entry.request_id.clone(), function(&entry))).collect()
    }

    /// Returns the work orders that `peer` is running, the oldest first.
    pub(super) fn running_on(&self, peer: &PeerId) -> Vec<NodeOrderBody> {
        let orders = self.entries_in_progress().into_iter().filter_map(|entry| {
            let progress = entry.progress.lock();
            let mut parts = progress.body.peers.iter();
            let part = parts.find(|part| part.peer_id == peer.as_str() && part.is_open())?;
            Some(NodeOrderBody {
                request_id: entry.request_id.clone(),
                function_id: progress.body.function_id.clone(),
                elapsed_ms: millis(entry.started.elapsed()) - part.dispatched_ms,
            })
        });
        orders.collect()
    }

    /// Cancels all executions in progress because the node is stopping.
    pub(super) fn stop(&self) {
        for entry in self.entries_in_progress() {
            entry.progress.lock().cause = Cause::Stopping;
            entry.canceled.notify_one();
        }
    }

    fn entries_in_progress(&self) -> Vec<Arc<ExecutionEntry>> {
        let history = self.history.lock();
        let entries = history.order.iter().filter_map(|id| history.by_id.get(id));
        entries.filter(|entry| entry.progress.lock().result.is_none()).cloned().collect()
    }

    fn entry(&self, id: &str) -> Option<Arc<ExecutionEntry>> {
        self.history.lock().by_id.get(id).cloned()
    }
}

impl History {
    /// Evicts the oldest completed executions while the limits are exceeded.
    fn evict(&mut self) {
        let Self { by_id, order, n_bytes, latest } = self;
        let mut n_kept = order.len();
        order.retain(|id| {
            if n_kept <= KEPT_MAX && *n_bytes <= KEPT_BYTES_MAX || id == latest {
                return true;
            }
            let ended = by_id.get(id).and_then(|entry| {
                entry.progress.lock().result.as_deref().map(Execution::n_output_bytes)
            });
            let Some(n_evicted) = ended else { return true };
            by_id.remove(id);
            n_kept -= 1;
            *n_bytes = n_bytes.saturating_sub(n_evicted);
            false
        });
    }
}

impl ExecutionEntry {
    fn body(&self, with_results: bool) -> ExecutionBody {
        let progress = self.progress.lock();
        let mut body = progress.body.clone();
        match &progress.result {
            None => body.elapsed_ms = millis(self.started.elapsed()),
            Some(result) if with_results => {
                body.results = result.groups.iter().cloned().map(ResultGroupBody::from).collect();
            }
            Some(_) => {}
        }
        body
    }
}

impl Track {
    /// Returns the id of the request.
    pub(super) fn request_id(&self) -> &str {
        &self.entry.request_id
    }

    /// Waits until the execution is canceled and returns the reason. Cancel-safe.
    pub(super) async fn canceled(&self) -> Cause {
        self.entry.canceled.notified().await;
        self.entry.progress.lock().cause
    }

    /// Returns the time since the execution was started.
    pub(super) fn elapsed(&self) -> Duration {
        self.entry.started.elapsed()
    }

    /// Records that no roll call was needed.
    pub(super) fn note_warm(&self) {
        self.entry.progress.lock().body.warm = true;
    }

    /// Records that the roll is called on `topic`.
    pub(super) fn note_roll_call(&self, topic: &str) {
        let ExecutionBody { function_id, number_of_nodes, .. } = self.entry.body(false);
        let topic = topic.to_owned();
        self.emit(|request_id| ClusterEventKind::RollCall {
            request_id,
            function_id,
            topic,
            number_of_nodes,
        });
    }

    /// Records that `peer` is ready.
    pub(super) fn note_reported(&self, peer: &PeerId) {
        self.emit_of(peer, |request_id, peer_id| Reported { request_id, peer_id });
    }

    /// Records that `peer` was given a work order.
    pub(super) fn note_dispatched(&self, peer: &PeerId) {
        let part = ExecutionPeerBody {
            peer_id: peer.to_string(),
            state: "running".to_owned(),
            dispatched_ms: millis(self.elapsed()),
            ..ExecutionPeerBody::default()
        };
        let mut progress = self.entry.progress.lock();
        "running".clone_into(&mut progress.body.state);
        progress.body.peers.push(part);
        let function_id = progress.body.function_id.clone();
        drop(progress);
        self.emit_of(peer, |request_id, peer_id| Dispatched { request_id, function_id, peer_id });
    }

    /// Records that `peer` compiles the function before it runs it.
    pub(super) fn note_compiling(&self, peer: &PeerId) {
        self.note_state(peer, "compiling", |part| &mut part.compiling_ms);
        self.emit_of(peer, |request_id, peer_id| Compiling { request_id, peer_id });
    }

    /// Records that `peer` has compiled the function and runs it.
    pub(super) fn note_running(&self, peer: &PeerId) {
        self.note_state(peer, "running", |part| &mut part.compiled_ms);
        self.emit_of(peer, |request_id, peer_id| Compiled { request_id, peer_id });
    }

    /// Records the state of `peer` and the time of the change. The execution counts as compiling
    /// until one of its workers runs.
    fn note_state(
        &self,
        peer: &PeerId,
        state: &str,
        at: impl FnOnce(&mut ExecutionPeerBody) -> &mut Option<f64>,
    ) {
        let elapsed_ms = millis(self.elapsed());
        self.update(peer, |part| {
            state.clone_into(&mut part.state);
            *at(part) = Some(elapsed_ms);
        });
        let mut progress = self.entry.progress.lock();
        let is_running = progress.body.peers.iter().any(|part| part.state == "running");
        let state = if is_running { "running" } else { "compiling" };
        state.clone_into(&mut progress.body.state);
    }

    /// Records that `peer` returned a result.
    pub(super) fn note_answer(&self, peer: &PeerId, exit_code: i32, usage: Usage, is_signed: bool) {
        let elapsed_ms = millis(self.elapsed());
        self.update(peer, |part| {
            "answered".clone_into(&mut part.state);
            part.answered_ms = Some(elapsed_ms);
            part.exit_code = Some(exit_code);
            part.usage = Some(usage);
            part.signed = is_signed;
        });
        self.emit(|request_id| ClusterEventKind::Result {
            request_id,
            peer_id: peer.to_string(),
            exit_code,
            elapsed_ms,
        });
    }

    /// Records that the work of `peer` is no longer needed.
    pub(super) fn note_canceled(&self, peer: &PeerId) {
        self.update(peer, |part| "canceled".clone_into(&mut part.state));
    }

    /// Records that the execution completed, and returns its outcome.
    pub(super) fn end(self, execution: Execution) -> Arc<Execution> {
        let elapsed_ms = millis(self.elapsed());
        self.emit(|request_id| ClusterEventKind::Done {
            request_id,
            code: execution.code.as_str().to_owned(),
            message: execution.message.clone(),
            elapsed_ms,
        });
        self.finish("done", execution)
    }

    /// Records that the execution was canceled.
    pub(super) fn cancel(self, execution: Execution) -> Arc<Execution> {
        self.emit(|request_id| ClusterEventKind::Canceled { request_id });
        self.finish("canceled", execution)
    }

    fn finish(&self, state: &str, execution: Execution) -> Arc<Execution> {
        let execution = Arc::new(execution);
        // The history is locked before the result is set. Otherwise, another execution could evict
        // this entry before its bytes are added, and the total would remain too high.
        let mut history = self.executions.history.lock();
        let mut progress = self.entry.progress.lock();
        state.clone_into(&mut progress.body.state);
        progress.body.elapsed_ms = millis(self.elapsed());
        progress.body.code = Some(execution.code.as_str().to_owned());
        progress.body.message.clone_from(&execution.message);
        progress.result = Some(Arc::clone(&execution));
        drop(progress);
        history.n_bytes += execution.n_output_bytes();
        self.request_id().clone_into(&mut history.latest);
        history.evict();
        execution
    }

    fn update(&self, peer: &PeerId, change: impl FnOnce(&mut ExecutionPeerBody)) {
        let mut progress = self.entry.progress.lock();
        let parts = progress.body.peers.iter_mut().rev();
        if let Some(part) = { parts }.find(|part| part.peer_id == peer.as_str()) {
            change(part);
        }
    }

    /// Records that `peer` returned no result and whether another worker replaces it.
    pub(super) fn note_failure(&self, peer: &PeerId, reason: &str, is_replaced: bool) {
        let state = if is_replaced { "replaced" } else { "failed" };
        let elapsed_ms = millis(self.elapsed());
        self.update(peer, |part| {
            state.clone_into(&mut part.state);
            part.answered_ms.get_or_insert(elapsed_ms);
            reason.clone_into(&mut part.reason);
        });
        self.emit(|request_id| ClusterEventKind::Failed {
            request_id,
            peer_id: peer.to_string(),
            reason: reason.to_owned(),
            replaced: is_replaced,
        });
    }

    fn emit_of(&self, peer: &PeerId, kind: impl FnOnce(String, String) -> ClusterEventKind) {
        self.emit(|request_id| kind(request_id, peer.to_string()));
    }

    fn emit(&self, kind: impl FnOnce(String) -> ClusterEventKind) {
        self.executions.events.emit(|| kind(self.entry.request_id.clone()));
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        if self.entry.progress.lock().result.is_none() {
            self.emit(|request_id| ClusterEventKind::Canceled { request_id });
            let request_id = self.request_id().to_owned();
            self.finish("canceled", Execution::cut_short(request_id, Cause::Caller));
        }
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

/// Number of events that are buffered for slow readers. It is enough for ten executions on fifty nodes.
/// A reader that lags further behind is disconnected.
const EVENTS_CAPACITY: usize = 1024;

/// Maximum number of simultaneous readers of the events. One client can have half of the readers that
/// other clients leave.
const READERS_MAX: usize = 64;

/// Events of the head. Clones share one channel.
#[derive(Debug, Clone)]
pub(super) struct Events {
    sender: broadcast::Sender<ClusterEvent>,
    readers: Tally<Client>,
    clock: Clock,
}

/// Future events, and the share of the client that reads them.
pub(super) type EventReader = (broadcast::Receiver<ClusterEvent>, ClientShare);

impl Events {
    pub(super) fn new(clock: Clock) -> Self {
        let sender = broadcast::Sender::new(EVENTS_CAPACITY);
        Self { sender, readers: Tally::default(), clock }
    }

    /// Sends an event to the readers. `kind` is called only if there are readers.
    pub(super) fn emit(&self, kind: impl FnOnce() -> ClusterEventKind) {
        if self.sender.receiver_count() > 0 {
            // Fails if the last reader has just left.
            drop(self.sender.send(self.timestamped(kind())));
        }
    }

    /// Returns an event with the current time.
    pub(super) fn timestamped(&self, kind: ClusterEventKind) -> ClusterEvent {
        ClusterEvent { time: self.clock.now().to_string(), kind }
    }

    /// Subscribes `client` to future events. Returns `None` if it has too many readers, or all clients
    /// together have [`READERS_MAX`].
    pub(super) fn subscribe(&self, client: &Client) -> Option<EventReader> {
        let share = admit(&self.readers, client, READERS_MAX).ok()?;
        Some((self.sender.subscribe(), share))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod events_tests {
    use web::address::Network;

    use super::*;

    #[test]
    fn client_with_many_event_readers_leaves_some_to_other_clients() {
        let events = Events::new(Clock::system());
        let client = |text: &str| Client::Network(Network::from_address(text.parse().unwrap()));
        let (greedy, operator) = (client("10.0.0.9"), client("127.0.0.1"));
        let fill = |client| (0..100).map_while(|_| events.subscribe(client)).collect::<Vec<_>>();
        let mut readers = fill(&greedy);
        assert_eq!((readers.len(), fill(&operator).len()), (READERS_MAX / 2, READERS_MAX / 4));
        assert!(events.subscribe(&greedy).is_none());
        drop(readers.pop());
        assert!(events.subscribe(&greedy).is_some());
    }

    #[tokio::test]
    async fn lagging_event_reader_is_disconnected() {
        let events = Events::new(Clock::system());
        let (mut reader, _share) = events.subscribe(&Client::Program).unwrap();
        for _ in 0..=EVENTS_CAPACITY {
            events.emit(|| ClusterEventKind::Heartbeat);
        }
        assert!(matches!(reader.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
