//! The executions a head remembers: those under way, and those that ended lately.
//!
//! [`Track`] is one execution's pen: what it notes is seen by readers of the execution, and
//! sent to followers of the head's events.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use model::{node::PeerId, timestamp::Timestamp};
use parking_lot::Mutex;
use task::clock::Clock;
use tokio::{
    sync::{Notify, broadcast},
    time::Instant,
};
use wire::{
    executions::{ClusterEvent, ClusterEventKind, ExecutionBody, ExecutionPeerBody, Usage},
    functions::ResultGroupBody,
    nodes::NodeOrderBody,
};

use super::{Execution, order::Order};

/// Executions remembered, as many as b7s keeps results. The oldest that has ended is forgotten.
pub(super) const KEPT_MAX: usize = 1000;

/// The output remembered of all of them together, in bytes. Where there is more, the oldest results
/// are forgotten.
const KEPT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The executions. Cheap to clone; all clones share one table.
#[derive(Debug, Clone)]
pub(crate) struct Executions {
    table: Arc<Mutex<Table>>,
    events: Events,
}

#[derive(Debug, Default)]
struct Table {
    by_id: HashMap<String, Arc<Entry>>,
    /// From the oldest to the newest.
    order: VecDeque<String>,
    /// Output bytes of all results kept.
    n_bytes: usize,
}

#[derive(Debug)]
struct Entry {
    request_id: String,
    started: Instant,
    canceled: Notify,
    record: Mutex<Record>,
}

#[derive(Debug)]
struct Record {
    /// What is served of it, but for its results and, while it is under way, for its time.
    body: ExecutionBody,
    /// Why it is to end early, once somebody wants that.
    cause: Cause,
    /// None while it is under way.
    result: Option<Arc<Execution>>,
}

/// Why an execution ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its client canceled it.
    Caller,
    /// The node is stopping, and has waited long enough.
    Stopping,
}

/// What was found of an execution.
#[derive(Debug, Clone)]
pub(super) enum ExecutionStatus {
    /// It is under way.
    UnderWay,
    /// It ended so.
    Ended(Arc<Execution>),
}

/// One execution's pen. Dropped before the end was noted, it notes that nobody waits any more.
#[derive(Debug)]
pub(super) struct Track {
    entry: Arc<Entry>,
    executions: Executions,
}

impl Executions {
    pub(super) fn new(events: Events) -> Self {
        Self { table: Arc::default(), events }
    }

    /// Begins an execution.
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
        let entry = Arc::new(Entry {
            request_id: request_id.to_owned(),
            started: Instant::now(),
            canceled: Notify::new(),
            record: Mutex::new(Record { body, cause: Cause::Caller, result: None }),
        });
        let mut table = self.table.lock();
        table.by_id.insert(request_id.to_owned(), Arc::clone(&entry));
        table.order.push_back(request_id.to_owned());
        table.forget();
        Track { entry, executions: self.clone() }
    }

    /// Returns how execution `id` went, if it is remembered.
    pub(super) fn find(&self, id: &str) -> Option<ExecutionStatus> {
        let entry = self.entry(id)?;
        let record = entry.record.lock();
        Some(record.result.clone().map_or(ExecutionStatus::UnderWay, ExecutionStatus::Ended))
    }

    /// Returns execution `id`, with its results.
    pub(super) fn get(&self, id: &str) -> Option<ExecutionBody> {
        self.entry(id).map(|entry| entry.body(true))
    }

    /// Returns the newest `limit` executions, the newest first, without their results.
    pub(crate) fn list(&self, limit: usize) -> Vec<ExecutionBody> {
        let table = self.table.lock();
        let newest = table.order.iter().rev().filter_map(|id| table.by_id.get(id)).take(limit);
        let newest: Vec<Arc<Entry>> = newest.cloned().collect();
        drop(table);
        newest.into_iter().map(|entry| entry.body(false)).collect()
    }

    /// Cancels execution `id`. Returns whether it was under way; none if it is not remembered.
    pub(crate) fn cancel(&self, id: &str) -> Option<bool> {
        let entry = self.entry(id)?;
        let is_under_way = entry.record.lock().result.is_none();
        if is_under_way {
            entry.canceled.notify_one();
        }
        Some(is_under_way)
    }

    /// Returns those that are under way, the oldest first, each by its id and function.
    pub(crate) fn under_way(&self) -> Vec<(String, String)> {
        let function = |entry: &Entry| entry.record.lock().body.function_id.clone();
        let under_way = self.entries_under_way().into_iter();
        under_way.map(|entry| (entry.request_id.clone(), function(&entry))).collect()
    }

    /// Returns the work orders that `peer` runs, the oldest first.
    pub(super) fn running_on(&self, peer: &PeerId) -> Vec<NodeOrderBody> {
        let orders = self.entries_under_way().into_iter().filter_map(|entry| {
            let record = entry.record.lock();
            let mut parts = record.body.peers.iter();
            let part = parts.find(|part| part.peer_id == peer.as_str() && part.is_open())?;
            Some(NodeOrderBody {
                request_id: entry.request_id.clone(),
                function_id: record.body.function_id.clone(),
                elapsed_ms: millis(entry.started.elapsed()) - part.dispatched_ms,
            })
        });
        orders.collect()
    }

    /// Ends all that are under way, since the node is stopping.
    pub(super) fn stop(&self) {
        for entry in self.entries_under_way() {
            entry.record.lock().cause = Cause::Stopping;
            entry.canceled.notify_one();
        }
    }

    fn entries_under_way(&self) -> Vec<Arc<Entry>> {
        let table = self.table.lock();
        let entries = table.order.iter().filter_map(|id| table.by_id.get(id));
        entries.filter(|entry| entry.record.lock().result.is_none()).cloned().collect()
    }

    fn entry(&self, id: &str) -> Option<Arc<Entry>> {
        self.table.lock().by_id.get(id).cloned()
    }
}

impl Table {
    /// Forgets the oldest that have ended while there are too many.
    fn forget(&mut self) {
        let mut n_looked = 0;
        while (self.order.len() > KEPT_MAX || self.n_bytes > KEPT_BYTES_MAX)
            && n_looked < self.order.len()
        {
            let Some(id) = self.order.pop_front() else { return };
            let n_bytes = self
                .by_id
                .get(&id)
                .and_then(|entry| entry.record.lock().result.as_deref().map(n_bytes));
            if let Some(n_bytes) = n_bytes {
                self.by_id.remove(&id);
                self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
            } else {
                // Under way, of which there are few.
                self.order.push_back(id);
                n_looked += 1;
            }
        }
    }
}

impl Entry {
    fn body(&self, with_results: bool) -> ExecutionBody {
        let record = self.record.lock();
        let mut body = record.body.clone();
        match &record.result {
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
    /// The request's id.
    pub(super) fn request_id(&self) -> &str {
        &self.entry.request_id
    }

    /// Waits until somebody cancels the execution, and returns why. Cancel-safe.
    pub(super) async fn canceled(&self) -> Cause {
        self.entry.canceled.notified().await;
        self.entry.record.lock().cause
    }

    /// How long it has taken so far.
    pub(super) fn elapsed(&self) -> Duration {
        self.entry.started.elapsed()
    }

    /// Notes that no roll call was needed.
    pub(super) fn note_warm(&self) {
        self.entry.record.lock().body.warm = true;
    }

    /// Notes that workers are looked for on `topic`.
    pub(super) fn note_roll_call(&self, topic: &str) {
        let ExecutionBody { function_id, number_of_nodes, .. } = self.entry.body(false);
        let topic = topic.to_owned();
        self.tell(|request_id| ClusterEventKind::RollCall {
            request_id,
            function_id,
            topic,
            number_of_nodes,
        });
    }

    /// Notes that `peer` is ready.
    pub(super) fn note_reported(&self, peer: &PeerId) {
        self.tell(|request_id| ClusterEventKind::Reported {
            request_id,
            peer_id: peer.to_string(),
        });
    }

    /// Notes that `peer` was given the work.
    pub(super) fn note_dispatched(&self, peer: &PeerId) {
        let part = ExecutionPeerBody {
            peer_id: peer.to_string(),
            state: "running".to_owned(),
            dispatched_ms: millis(self.elapsed()),
            ..ExecutionPeerBody::default()
        };
        let mut record = self.entry.record.lock();
        "running".clone_into(&mut record.body.state);
        record.body.peers.push(part);
        drop(record);
        self.tell(|request_id| ClusterEventKind::Dispatched {
            request_id,
            peer_id: peer.to_string(),
        });
    }

    /// Notes that `peer` compiles the function before it runs it.
    pub(super) fn note_compiling(&self, peer: &PeerId) {
        self.note_state(peer, "compiling", |part| &mut part.compiling_ms);
        self.tell(|request_id| ClusterEventKind::Compiling {
            request_id,
            peer_id: peer.to_string(),
        });
    }

    /// Notes that `peer` has compiled the function and runs it.
    pub(super) fn note_running(&self, peer: &PeerId) {
        self.note_state(peer, "running", |part| &mut part.compiled_ms);
        self.tell(|request_id| ClusterEventKind::Compiled {
            request_id,
            peer_id: peer.to_string(),
        });
    }

    /// Notes the state of the part of `peer`, and when it began. The execution is compiling until one of
    /// its parts runs.
    fn note_state(
        &self,
        peer: &PeerId,
        state: &str,
        at: impl FnOnce(&mut ExecutionPeerBody) -> &mut Option<f64>,
    ) {
        let elapsed_ms = millis(self.elapsed());
        self.change(peer, |part| {
            state.clone_into(&mut part.state);
            *at(part) = Some(elapsed_ms);
        });
        let mut record = self.entry.record.lock();
        let is_running = record.body.peers.iter().any(|part| part.state == "running");
        let state = if is_running { "running" } else { "compiling" };
        state.clone_into(&mut record.body.state);
    }

    /// Notes that `peer` returned a result.
    pub(super) fn note_answer(&self, peer: &PeerId, exit_code: i32, usage: Usage, is_signed: bool) {
        let elapsed_ms = millis(self.elapsed());
        self.change(peer, |part| {
            "answered".clone_into(&mut part.state);
            part.answered_ms = Some(elapsed_ms);
            part.exit_code = Some(exit_code);
            part.usage = Some(usage);
            part.signed = is_signed;
        });
        self.tell(|request_id| ClusterEventKind::Result {
            request_id,
            peer_id: peer.to_string(),
            exit_code,
            elapsed_ms,
        });
    }

    /// Notes that the work of `peer` is not needed any more.
    pub(super) fn note_canceled(&self, peer: &PeerId) {
        self.change(peer, |part| "canceled".clone_into(&mut part.state));
    }

    /// Notes the end.
    pub(super) fn ended(self, execution: Execution) -> Arc<Execution> {
        let elapsed_ms = millis(self.elapsed());
        self.tell(|request_id| ClusterEventKind::Done {
            request_id,
            code: execution.code.as_str().to_owned(),
            message: execution.message.clone(),
            elapsed_ms,
        });
        self.end("done", execution)
    }

    /// Notes that it was canceled.
    pub(super) fn cut_short(self, execution: Execution) -> Arc<Execution> {
        self.tell(|request_id| ClusterEventKind::Canceled { request_id });
        self.end("canceled", execution)
    }

    fn end(&self, state: &str, execution: Execution) -> Arc<Execution> {
        let execution = Arc::new(execution);
        let n_bytes = n_bytes(&execution);
        // Before the record: between the two it might be forgotten, and its bytes never be.
        let mut table = self.executions.table.lock();
        let mut record = self.entry.record.lock();
        state.clone_into(&mut record.body.state);
        record.body.elapsed_ms = millis(self.elapsed());
        record.body.code = Some(execution.code.as_str().to_owned());
        record.body.message.clone_from(&execution.message);
        record.result = Some(Arc::clone(&execution));
        drop(record);
        table.n_bytes += n_bytes;
        table.forget();
        execution
    }

    fn change(&self, peer: &PeerId, change: impl FnOnce(&mut ExecutionPeerBody)) {
        let mut record = self.entry.record.lock();
        let parts = record.body.peers.iter_mut().rev();
        if let Some(part) = { parts }.find(|part| part.peer_id == peer.as_str()) {
            change(part);
        }
    }

    /// Notes that `peer` returned no result, and whether another takes its place.
    pub(super) fn note_failure(&self, peer: &PeerId, reason: &str, is_replaced: bool) {
        let state = if is_replaced { "replaced" } else { "failed" };
        let elapsed_ms = millis(self.elapsed());
        self.change(peer, |part| {
            state.clone_into(&mut part.state);
            part.answered_ms.get_or_insert(elapsed_ms);
            reason.clone_into(&mut part.reason);
        });
        self.tell(|request_id| ClusterEventKind::Failed {
            request_id,
            peer_id: peer.to_string(),
            reason: reason.to_owned(),
            replaced: is_replaced,
        });
    }

    fn tell(&self, kind: impl FnOnce(String) -> ClusterEventKind) {
        self.executions.events.tell(|| kind(self.entry.request_id.clone()));
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        if self.entry.record.lock().result.is_none() {
            self.tell(|request_id| ClusterEventKind::Canceled { request_id });
            let request_id = self.request_id().to_owned();
            self.end("canceled", Execution::cut_short(request_id, Cause::Caller));
        }
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1000.0
}

fn n_bytes(execution: &Execution) -> usize {
    let outcomes = execution.groups.iter().map(|group| &group.outcome);
    outcomes.map(|outcome| outcome.stdout.len() + outcome.stderr.len()).sum()
}

/// Events kept for a reader that is behind: those of ten executions on fifty nodes. One that is
/// further behind is cut off.
const EVENTS_CAPACITY: usize = 1024;

/// Readers at once. More are refused.
pub(super) const READERS_MAX: usize = 64;

/// Handle to the events. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Events {
    events: broadcast::Sender<ClusterEvent>,
    clock: Clock,
}

impl Events {
    pub(super) fn new(clock: Clock) -> Self {
        Self { events: broadcast::Sender::new(EVENTS_CAPACITY), clock }
    }

    /// Tells what happened, if anybody listens: `kind` is made for them alone.
    pub(super) fn tell(&self, kind: impl FnOnce() -> ClusterEventKind) {
        if self.events.receiver_count() > 0 {
            // The last reader may just have gone.
            drop(self.events.send(self.dated(kind())));
        }
    }

    /// Dates what happens now.
    pub(super) fn dated(&self, kind: ClusterEventKind) -> ClusterEvent {
        ClusterEvent { time: self.clock.now().to_string(), kind }
    }

    /// Follows the events from now on; none if [`READERS_MAX`] do.
    pub(super) fn subscribe(&self) -> Option<broadcast::Receiver<ClusterEvent>> {
        (self.events.receiver_count() < READERS_MAX).then(|| self.events.subscribe())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod events_tests {
    use super::*;

    #[test]
    fn readers_are_bounded_and_one_that_leaves_makes_room() {
        let events = Events::new(Clock::system());
        let mut readers: Vec<_> = (0..READERS_MAX).filter_map(|_| events.subscribe()).collect();
        assert_eq!(readers.len(), READERS_MAX);
        assert!(events.subscribe().is_none());
        drop(readers.pop());
        assert!(events.subscribe().is_some());
    }

    #[tokio::test]
    async fn a_reader_that_is_too_far_behind_is_cut_off() {
        let events = Events::new(Clock::system());
        let mut reader = events.subscribe().unwrap();
        for _ in 0..=EVENTS_CAPACITY {
            events.tell(|| ClusterEventKind::Heartbeat);
        }
        assert!(matches!(reader.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
