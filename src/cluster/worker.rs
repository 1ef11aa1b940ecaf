//! A worker: responds to roll calls and runs work orders.
//!
//! It accepts a roll call if it has a free slot and holds the function. If it does not hold the function,
//! it first fetches it, preferably from the author of the roll call. A work order waits for a slot and
//! runs in a sandbox (`runtime`). The result is signed. Heads of this program send orders on a line
//! (`heads.rs`), on which they can also cancel orders. Other heads send each order as a message on its
//! own stream.

mod executor;
mod external;
mod functions;
mod heads;
mod refusal;
mod scratch_dir;
mod shares;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use content::{Function, Kind};
use lru::LruCache;
use model::function::FunctionId;
use model::node::PeerId;
use parking_lot::Mutex;
use runtime::run::Limits;
use task::tally::Tally;
use task::traces;
use tokio::select;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tracing::{Instrument as _, debug, field, info, info_span, warn};
use web::rate_limit::LogLimit;

pub use self::executor::{ExecutionOptions, WorkerError};
use self::executor::{Executor, ExecutorError};
pub use self::external::ExternalRuntime;
use self::functions::Compilations;
use self::refusal::{WorkRefusal, list_modules};
use self::shares::{HeldPlace, Shares, part_of};
use crate::attributes::{Attributes, bounded};
use crate::function_call::FunctionCall;
use crate::message::{
    CallDigest, Code, ExecuteReply, Message, NodeResult, OrderState, SignedCall, WORK_PROTOCOL,
    WorkOrder, WorkOrderResponse, json,
};
use crate::network::Standing;
use crate::network::line::Line;
use crate::peers::WorkProtocol;
use crate::{NodeContext, metrics};

/// Default number of functions that a node runs simultaneously, by document 1. The maximum is
/// 65535.
pub const CONCURRENCY_DEFAULT: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Default limits of a function. After 18 s, there are 2 s left for the response before a head stops
/// waiting. 256 MiB of memory fit any demo and most models. 16 MiB of output are more than b7s clients
/// print, but little enough that a head can hold the responses of many workers.
pub const LIMITS_DEFAULT: Limits = Limits {
    wall: Duration::from_secs(18),
    memory_bytes: 256 * 1024 * 1024,
    output_bytes: 16 * 1024 * 1024,
    fuel: None,
};

/// Maximum number of work orders that wait for a slot. It is enough for the orders that one client can
/// have in progress at a head.
const WAITING_MAX: u32 = 256;

/// Maximum time for which a work order waits for a slot. Heads with a line receive a message that
/// the order waits.
const SLOT_WITHIN: Duration = Duration::from_secs(30);

/// Maximum time for which a work order waits for a slot if its head has no line. Such a head cannot
/// distinguish a waiting order from a slow one.
const SLOT_WITHIN_UNTOLD: Duration = Duration::from_secs(5);

/// Time to stop canceled runs and send their responses when a worker stops.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Maximum size of a response without the output: ids, signature, numbers and the reason why the run was
/// stopped.
const RESPONSE_RESERVE_BYTES: usize = 64 * 1024;

/// Maximum size of one byte of output in JSON: a control character becomes `\u001b`.
const ESCAPED_BYTES: usize = 6;

/// Returns the maximum size of a response in JSON, in bytes, if the output of a function can have
/// `output_bytes`.
pub const fn answer_bytes_max(output_bytes: usize) -> usize {
    output_bytes.saturating_mul(ESCAPED_BYTES).saturating_add(RESPONSE_RESERVE_BYTES)
}

/// Handle to a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker(Arc<WorkerParts>);

#[derive(Debug)]
struct WorkerParts {
    context: NodeContext,
    executor: Executor,
    attributes: BTreeMap<String, String>,
    n_slots: u16,
    slots: Shares,
    /// Work orders, each counted from its arrival until its response is sent.
    orders: Shares,
    /// Permits for open lines.
    open_lines: Arc<Semaphore>,
    /// Open lines by head.
    lines: Tally<PeerId>,
    /// Roll calls in progress. The first tally counts by author and request, to ignore repeated calls,
    /// and the second by author.
    calls: (Tally<(PeerId, String)>, Tally<PeerId>),
    /// Limits how many roll calls for unknown functions are logged, by author.
    call_logs: Mutex<LruCache<PeerId, LogLimit>>,
    phase: watch::Sender<Phase>,
    /// Notified when the offers to heads change.
    changed: Notify,
    compilations: Compilations,
}

/// Phase of a worker's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// The worker accepts work.
    Working,
    /// The worker accepts no more work and completes its runs.
    Draining,
    /// The worker cancels its runs.
    CutShort,
    /// The worker closes its lines.
    Ended,
}

/// A work order with a slot.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    head: &'a PeerId,
    order: &'a WorkOrder,
    id: FunctionId,
    call: &'a FunctionCall,
    line: Option<&'a Line>,
    /// True if the head received a message that the order waits for a slot.
    has_waited: bool,
}

impl Worker {
    /// Creates a worker that runs `concurrency` functions simultaneously, and starts to compile its
    /// functions.
    ///
    /// # Errors
    /// Returns [`WorkerError`] if the runtime cannot be set up.
    pub fn new(
        context: NodeContext,
        concurrency: NonZeroU32,
        limits: Limits,
        execution: ExecutionOptions,
        attributes: BTreeMap<String, String>,
    ) -> Result<Self, WorkerError> {
        let n_slots = u16::try_from(concurrency.get()).unwrap_or(u16::MAX);
        let n_orders = usize::from(n_slots) + WAITING_MAX as usize;
        let worker = Self(Arc::new(WorkerParts {
            executor: Executor::new(context.functions.clone(), concurrency, limits, execution)?,
            context,
            attributes,
            n_slots,
            slots: Shares::new(n_slots.into()),
            orders: Shares::new(n_orders),
            lines: Tally::default(),
            open_lines: Arc::new(Semaphore::new(heads::LINES_MAX as usize)),
            calls: Default::default(),
            call_logs: Mutex::new(LruCache::new(heads::AUTHORS_MAX)),
            phase: watch::Sender::new(Phase::Working),
            changed: Notify::new(),
            compilations: Compilations::default(),
        }));
        worker.compile_kept();
        Ok(worker)
    }

    /// Returns the known peers, ordered by id.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> Vec<(PeerId, crate::peers::Peer)> {
        self.0.context.peers.list()
    }

    /// Returns the total number of slots and the number of free slots.
    pub fn slots(&self) -> (usize, usize) {
        let (n_slots, n_free) = self.0.slots.places();
        (n_slots, n_free.min(self.0.executor.n_free()))
    }

    /// Returns the declared attributes that fit in an offer.
    pub(crate) fn attributes(&self) -> Attributes {
        bounded(&self.0.attributes)
    }

    /// Returns the metrics in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        let NodeContext { metrics, peers, .. } = &self.0.context;
        metrics.set(metrics::SLOTS_FREE, &[], self.slots().1);
        metrics.set(metrics::PEERS_CONNECTED, &[], peers.n_connected());
        metrics.text()
    }

    /// Returns the number of slots that `head` could use if no other head needed any, and the number
    /// that it can use now, including the slots of its running orders. Both are 0 for a head that this
    /// worker does not obey.
    pub(crate) fn slots_for(&self, head: &PeerId) -> (usize, usize) {
        if !self.0.context.network.allows(head) {
            return (0, 0);
        }
        let (n_slots, standing) = (usize::from(self.0.n_slots), self.standing(head));
        let n_slots_max = part_of(standing, n_slots);
        if self.is_stopping() {
            return (n_slots_max, 0);
        }
        // Runs that were canceled might still occupy the executor.
        let n_taken = n_slots.saturating_sub(self.0.executor.n_free());
        let n_lost = n_taken.saturating_sub(self.0.slots.n_held());
        let share = self.0.orders.share_of(head, standing, n_slots.saturating_sub(n_lost));
        (n_slots_max, share)
    }

    /// Returns true if there are running or waiting orders, which can change the slots offered to each
    /// head.
    pub(crate) fn is_busy(&self) -> bool {
        let (n_slots, n_free) = self.slots();
        n_free < n_slots || self.0.orders.are_in_use()
    }

    /// Forgets a disconnected head's share of the admitted orders.
    pub(crate) fn note_disconnected(&self, head: &PeerId) {
        self.0.orders.forget(head);
    }

    /// Waits until a slot is occupied or the offers to heads change. Only one caller can wait at a time.
    /// Cancel-safe.
    pub(crate) async fn slots_changed(&self) {
        select! {
            () = self.0.slots.next_taken() => {}
            () = self.0.changed.notified() => {}
        }
    }

    /// Records that the allowed heads have changed.
    pub(crate) fn note_allowed_changed(&self) {
        self.0.changed.notify_one();
    }

    /// Returns true if the worker accepts no more work.
    fn is_stopping(&self) -> bool {
        *self.0.phase.borrow() > Phase::Working
    }

    /// Waits until this worker is in `phase` or a later phase. Cancel-safe.
    async fn reached(&self, phase: Phase) {
        // Cannot fail, since the sender exists as long as this worker.
        drop(self.0.phase.subscribe().wait_for(|current| *current >= phase).await);
    }

    fn standing(&self, head: &PeerId) -> Standing {
        self.0.context.network.standing(head)
    }

    /// Runs a work order of `head` and sends the response in a message of b7s version `version`.
    /// Dropping the future cancels the run.
    pub async fn work_order(&self, head: PeerId, order: WorkOrder, version: WorkProtocol) {
        let request_id = order.request_id.clone();
        let admitted = self.0.orders.try_take(&head, self.standing(&head));
        let response = match &admitted {
            Some(_) => self.answer(&head, &order, None).await,
            None => WorkRefusal::Full { n_slots: self.0.n_slots }.answer(&head, &order),
        };
        let own_id = self.0.context.network.peer_id().to_string();
        let message = match version {
            WorkProtocol::B7sV1 => Message::ExecuteResponse(ExecuteReply {
                request_id,
                code: response.code,
                results: BTreeMap::from([(own_id.clone(), response.result)]),
                message: response.error_message,
                from: own_id,
                ..ExecuteReply::default()
            }),
            _ => Message::WorkOrderResponse(response),
        };
        self.tell(&head, &message).await;
        drop(admitted);
    }

    /// Stops accepting work and waits up to `within` until the responses to all orders in progress are
    /// sent. Then cancels the rest and sends responses to their heads. Returns true if none was canceled.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.phase.send_replace(Phase::Draining);
        self.0.changed.notify_one();
        let n_running = self.0.slots.n_held();
        if n_running > 0 {
            info!(component = "node", n_running, "waiting for running functions");
        }
        let is_done = timeout(within, self.0.orders.all_free()).await.is_ok();
        if !is_done {
            self.0.phase.send_replace(Phase::CutShort);
            drop(timeout(END_WITHIN, self.0.orders.all_free()).await);
        }
        self.close_lines().await;
        is_done
    }

    /// Runs a work order and returns the response. Reports the state of the order on `line`, if set.
    async fn answer(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        line: Option<&Line>,
    ) -> WorkOrderResponse {
        let began = Instant::now();
        self.0.context.metrics.add(metrics::WORK_ORDERS, &[&order.function_id]);
        let span = info_span!(
            target: traces::TARGET, "WorkOrder", otel.kind = "server",
            function.cid = order.function_id, function.method = order.method,
            execution.request.id = order.request_id, peer.id = %head, execution.code = field::Empty,
        );
        order.carrier.iter().for_each(|carrier| carrier.adopt(&span));
        let response = match self.outcome(head, order, line).instrument(span.clone()).await {
            Ok(response) => response,
            Err(refusal) => refusal.answer(head, order),
        };
        span.record("execution.code", response.code.as_str());
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(request = order.request_id, peer = %head, elapsed_ms, "answered a work order");
        response
    }

    /// Runs a work order and returns the response with its result.
    async fn outcome(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        line: Option<&Line>,
    ) -> Result<WorkOrderResponse, WorkRefusal> {
        if order.config.consensus_algorithm.as_ref().is_some_and(|name| !name.is_empty()) {
            return Err(WorkRefusal::Consensus);
        }
        let id = FunctionId::parse_any(&order.function_id)?;
        let call = FunctionCall::new(order.method.parse()?, order.arguments(), &order.config);
        if self.is_stopping() {
            return Err(WorkRefusal::Stopping);
        }
        let (_slot, has_waited) = self.take_slot(head, order, line).await?;
        // The worker might have begun to stop while the order waited.
        if self.is_stopping() {
            return Err(WorkRefusal::Stopping);
        }
        debug!(request = order.request_id, function = %id, peer = %head, "execution begins");
        let run = Run { head, order, id, call: &call, line, has_waited };
        let result = select! {
            result = self.run_with_refetch(run) => result?,
            () = self.reached(Phase::CutShort) => return Err(WorkRefusal::Stopping),
        };
        self.count(&order.function_id, &result);
        let (request, code) = (&order.request_id, result.code.clone());
        info!(function = %id, request, code = code.as_str(), "execution complete");
        let call = CallDigest::new(order, head);
        let of = SignedCall { request_id: request, function_id: &order.function_id, call };
        let result = result.sign(of, &self.0.context.identity);
        let request_id = request.clone();
        Ok(WorkOrderResponse { request_id, code, result, ..WorkOrderResponse::default() })
    }

    /// Acquires a slot for `order`. Also returns true if the order had to wait, in which case the head was
    /// told so on `line`, if set.
    async fn take_slot(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        line: Option<&Line>,
    ) -> Result<(HeldPlace, bool), WorkRefusal> {
        let (slots, standing) = (&self.0.slots, self.standing(head));
        if let Some(slot) = slots.try_take(head, standing) {
            return Ok((slot, false));
        }
        self.tell_state(line, order, OrderState::WAITING).await;
        let within = if line.is_some() { SLOT_WITHIN } else { SLOT_WITHIN_UNTOLD };
        let slot = slots.take(head, standing, within).await;
        let slot = slot.ok_or(WorkRefusal::Full { n_slots: self.0.n_slots })?;
        Ok((slot, true))
    }

    fn count(&self, function: &str, result: &NodeResult) {
        let (metrics, usage) = (&self.0.context.metrics, result.usage);
        metrics.add(metrics::RUNS, &[function]);
        let outcome = if result.code == Code::OK { metrics::RUNS_OK } else { metrics::RUNS_ERR };
        metrics.add(outcome, &[function]);
        metrics.observe(metrics::RUN_TIME, &[], Duration::from_nanos(usage.wall_clock_ns));
        metrics.add_n(metrics::RUNS_CPU_USER, &[], usage.cpu_user_ns / 1_000_000);
        metrics.add_n(metrics::RUNS_CPU_SYS, &[], usage.cpu_sys_ns / 1_000_000);
    }

    /// Runs a work order. If the function was removed or damaged in the meantime, fetches it again once.
    async fn run_with_refetch(&self, run: Run<'_>) -> Result<NodeResult, WorkRefusal> {
        let Run { head, order, id, call, .. } = run;
        for _ in 0..2 {
            self.ensure_fetched(head, id).await?;
            let Some(function) = self.0.context.functions.get(id) else { continue };
            if !function.runs(&call.method) {
                let has = list_modules(&function);
                return Err(WorkRefusal::Method { has, wanted: call.method.clone() });
            }
            let (client, peer_id) = (self.client_of(head, order), self.0.context.network.peer_id());
            self.compile_for(run, &function, &client).await?;
            let (executor, call, request_id) = (&self.0.executor, call.clone(), &order.request_id);
            let span = info_span!(target: traces::TARGET, "ExecuteFunction", function.cid = %id);
            let running = executor.run(&function, call, request_id, client, peer_id);
            let result = running.instrument(span).await?;
            if let Some(result) = result {
                self.note_run(head, id);
                return Ok(result);
            }
        }
        Err(WorkRefusal::Missing)
    }

    /// Compiles the function of `run` if necessary and reports the state of the order to the head.
    async fn compile_for(
        &self,
        run: Run<'_>,
        function: &Function,
        client: &Arc<str>,
    ) -> Result<(), ExecutorError> {
        let Run { order, call, line, has_waited, .. } = run;
        let executor = &self.0.executor;
        if !executor.is_compiled(function, call).await? {
            self.tell_state(line, order, OrderState::COMPILING).await;
            executor.compile(function, call, Arc::clone(client)).await?;
            self.tell_state(line, order, OrderState::RUNNING).await;
        } else if has_waited {
            self.tell_state(line, order, OrderState::RUNNING).await;
        }
        if call.method == function.method || function.kind == Kind::Module {
            self.note_compiled(function.id);
        }
        Ok(())
    }

    /// Returns the party that compilations for an order are charged to: the order's client if the
    /// operator named `head`, else the head itself, since an unnamed head could invent any number of
    /// clients.
    fn client_of(&self, head: &PeerId, order: &WorkOrder) -> Arc<str> {
        let tag = if self.standing(head) == Standing::Named { order.client.as_str() } else { "" };
        // Maximum length of a client tag, in characters: the digits of 64 bits.
        let tag: String = tag.chars().take(16).collect();
        format!("{head} {tag}").into()
    }

    async fn tell(&self, peer: &PeerId, message: &Message) {
        let bytes = json(message);
        metrics::count_sent(&self.0.context.metrics, WORK_PROTOCOL, message.kind(), bytes.len());
        if let Err(error) = self.0.context.network.tell(peer, WORK_PROTOCOL, &bytes).await {
            warn!(%peer, %error, "a response did not reach its head");
        }
    }
}
