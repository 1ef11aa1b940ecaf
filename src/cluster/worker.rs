//! A worker: answers roll calls it can serve, and runs work orders.
//!
//! It answers yes where it has a free slot and holds the function, which it first fetches from a
//! peer if need be, the roll call's author before all. A work order then waits shortly for a slot,
//! runs, contained by room `runtime`, and its result is signed. Heads of ours give orders on a line
//! (`line.rs`), on which they can cancel them, too; others by a message for each.

mod compile;
mod executor;
mod external;
mod install;
mod line;
mod refusal;
mod rollcall;
mod scratch_dir;
mod shares;

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use lru::LruCache;
use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use runtime::run::Limits;
use task::{causes::chain, tally::Tally, traces};
use tokio::{
    select,
    sync::{Notify, Semaphore, watch},
    time::{Instant, timeout},
};
use tracing::{Instrument as _, debug, field, info, info_span, warn};
use web::rate_limit::LogLimit;

use self::{
    compile::Compilations,
    executor::{Executor, ExecutorError},
    line::OpenLine,
    refusal::{Refusal, list_modules},
    shares::{HeldPlace, Shares, Standing, part_of},
};
pub use self::{
    executor::{ExecutionOptions, StartError},
    external::ExternalRuntime,
};
use crate::{
    attributes::{Attributes, bounded},
    function_call::FunctionCall,
    message::{
        CallDigest, Code, ExecuteReply, Message, NodeResult, OrderState, SignedCall, WORK_PROTOCOL,
        WorkOrder, WorkOrderResponse, json,
    },
    metrics,
    network::line::Line,
    node_context::NodeContext,
    peers::{FunctionPeers, WorkProtocol},
};
use content::{FUNCTION_PROTOCOL, Function, Requester};

/// Functions that a node runs at once unless told otherwise, by document 1. More than 65535 count as
/// so many.
pub const CONCURRENCY_DEFAULT: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// What a function may use unless told otherwise. Its 18 s end 2 s before a head stops waiting for
/// the answer, so that the head still hears that the time was up. 256 MiB hold any demo and most
/// models. 16 MiB of output are far more than b7s clients print, and few enough that a head holds the
/// answers of many workers.
pub const LIMITS_DEFAULT: Limits = Limits {
    wall: Duration::from_secs(18),
    memory_bytes: 256 * 1024 * 1024,
    output_bytes: 16 * 1024 * 1024,
    fuel: None,
};

/// Work orders that wait for a slot, as many as a head has under way, so that one head alone is never
/// refused for this. More are refused.
const WAITING_MAX: u32 = 256;

/// Time for which a work order waits for its head's turn at a slot. Heads with a line are told that it
/// waits.
const SLOT_WITHIN: Duration = Duration::from_secs(30);

/// The same for heads without a line, which take a waiting order for a slow one.
const SLOT_WITHIN_UNTOLD: Duration = Duration::from_secs(5);

/// How long runs that a stopping worker ends may take to do so, and their heads to be told.
const END_WITHIN: Duration = Duration::from_secs(1);

/// How a worker is set up.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// How many functions it runs at once.
    pub concurrency: NonZeroU32,
    /// What each may use.
    pub limits: Limits,
    /// How they are run.
    pub execution: ExecutionOptions,
    /// What it declares of itself: requests may ask for nodes that do.
    pub attributes: BTreeMap<String, String>,
}

/// What an answer takes beside the output, at most: ids, a signature, numbers, and why a run ended.
const ANSWER_RESERVE_BYTES: usize = 64 * 1024;

/// What a byte of output takes as JSON, at most: a control character is `\u001b`.
const ESCAPED_BYTES: usize = 6;

/// The longest answer, as JSON, of a worker whose functions write at most `output_bytes`.
pub const fn answer_bytes_max(output_bytes: usize) -> usize {
    output_bytes.saturating_mul(ESCAPED_BYTES).saturating_add(ANSWER_RESERVE_BYTES)
}

/// The longest client tag that is distinguished, in characters: the digits of 64 bits.
const CLIENT_TAG_MAX: usize = 16;

/// Handle to a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: NodeContext,
    executor: Executor,
    attributes: BTreeMap<String, String>,
    n_slots: u16,
    slots: Shares,
    /// Work orders from their coming to their answer's going.
    orders: Shares,
    /// The heads' lines.
    lines: Mutex<HashMap<PeerId, OpenLine>>,
    /// Numbers the lines.
    n_lines: AtomicU64,
    /// Taken by each line until it has ended.
    open_lines: Arc<Semaphore>,
    /// The roll calls being handled, by author and request, and by author.
    calls: (Tally<(PeerId, String)>, Tally<PeerId>),
    /// Which roll calls for functions that are not here are logged, by author.
    call_logs: Mutex<LruCache<PeerId, LogLimit>>,
    is_stopping: AtomicBool,
    /// Signals that other heads may use the slots, or none.
    changed: Notify,
    compilations: Compilations,
    /// Start of the heads' turns at slots that cannot be divided equally. Random, so that a head does
    /// not have its turn at all workers at one time.
    turns_began: Instant,
    /// Whether what runs is to end, since the node has waited for it long enough.
    is_cut_short: watch::Sender<bool>,
}

/// A work order that has a slot.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    head: &'a PeerId,
    order: &'a WorkOrder,
    id: FunctionId,
    call: &'a FunctionCall,
    line: Option<&'a Line>,
    /// True if the head was told that the order waits for a slot.
    has_waited: bool,
}

impl Worker {
    /// Makes a worker.
    ///
    /// # Errors
    /// [`StartError`] if the runtime cannot be set up.
    pub fn new(context: NodeContext, options: WorkerOptions) -> Result<Self, StartError> {
        let WorkerOptions { concurrency, limits, execution, attributes } = options;
        let n_slots = u16::try_from(concurrency.get()).unwrap_or(u16::MAX);
        let n_orders = usize::from(n_slots) + WAITING_MAX as usize;
        let worker = Self(Arc::new(Inner {
            executor: Executor::new(context.functions.clone(), concurrency, limits, execution)?,
            context,
            attributes,
            n_slots,
            slots: Shares::new(n_slots.into()),
            orders: Shares::new(n_orders),
            lines: Mutex::default(),
            n_lines: AtomicU64::new(0),
            open_lines: Arc::new(Semaphore::new(line::LINES_MAX as usize)),
            calls: Default::default(),
            call_logs: Mutex::new(LruCache::new(rollcall::AUTHORS_MAX)),
            is_stopping: AtomicBool::new(false),
            changed: Notify::new(),
            compilations: Compilations::default(),
            turns_began: Instant::now() - Duration::from_secs(rand::random_range(0..60)),
            is_cut_short: watch::Sender::new(false),
        }));
        worker.compile_kept();
        Ok(worker)
    }

    /// Returns the peers it knows, by id.
    #[cfg(test)]
    pub(crate) fn peers(&self) -> Vec<(PeerId, crate::peers::Peer)> {
        self.0.context.peers.list()
    }

    /// How many functions it runs at once, and how many more it could run now.
    pub fn slots(&self) -> (usize, usize) {
        let (n_slots, n_free) = self.0.slots.places();
        (n_slots, n_free.min(self.0.executor.n_free()))
    }

    /// What it declares of itself, as far as that fits in an offer.
    pub(crate) fn attributes(&self) -> Attributes {
        bounded(&self.0.attributes)
    }

    /// Returns its counts as Prometheus text.
    pub fn metrics_text(&self) -> String {
        self.0.context.metrics.set(metrics::SLOTS_FREE, &[], self.slots().1);
        self.0.context.metrics.text()
    }

    /// Returns how many slots `head` could use if no other head needed any, and how many it may use
    /// now, including those that run for it. None if this worker does not obey it.
    pub(crate) fn slots_for(&self, head: &PeerId) -> (usize, usize) {
        if !self.0.context.network.hears(head) {
            return (0, 0);
        }
        let (n_slots, standing) = (usize::from(self.0.n_slots), self.standing(head));
        let n_slots_max = part_of(standing, n_slots);
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return (n_slots_max, 0);
        }
        // Runs that were given up may still hold the executor.
        let n_taken = n_slots.saturating_sub(self.0.executor.n_free());
        let n_lost = n_taken.saturating_sub(self.0.slots.n_held());
        let turn = usize::try_from(self.0.turns_began.elapsed().as_secs()).unwrap_or_default();
        let share = self.0.orders.share_of(head, standing, n_slots.saturating_sub(n_lost), turn);
        (n_slots_max, share)
    }

    /// Returns true if the heads' shares may change without a further order.
    pub(crate) fn is_busy(&self) -> bool {
        let (n_slots, n_free) = self.slots();
        n_free < n_slots || self.0.orders.are_in_use()
    }

    /// Forgets the share of a head that is gone.
    pub(crate) fn note_disconnected(&self, head: &PeerId) {
        self.0.orders.forget(head);
    }

    /// Waits until a slot is taken, or what heads may have of them changes; for one caller.
    /// Cancel-safe.
    pub(crate) async fn slots_changed(&self) {
        select! {
            () = self.0.slots.next_taken() => {}
            () = self.0.changed.notified() => {}
        }
    }

    /// Takes note that other heads may have its slots than before.
    pub(crate) fn heeds_others(&self) {
        self.0.changed.notify_one();
    }

    /// How much of this worker `head` may take up.
    fn standing(&self, head: &PeerId) -> Standing {
        let network = &self.0.context.network;
        if network.knows_by_name(head) {
            Standing::Named
        } else if network.has_names() {
            Standing::Stranger
        } else {
            Standing::Unknown
        }
    }

    /// Runs a work order of `head` and tells it the outcome in a message of the same b7s version.
    /// Dropping it ends the run.
    pub async fn work_order(&self, head: PeerId, order: WorkOrder, version: WorkProtocol) {
        let request_id = order.request_id.clone();
        let admitted = self.0.orders.try_take(&head, self.standing(&head));
        let response = match &admitted {
            Some(_) => self.answer(&head, &order, None).await,
            None => Refusal::Full { n_slots: self.0.n_slots }.answer(&head, &order),
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

    /// Takes no more work, and waits until what runs has ended and was answered, at most for
    /// `within`. What has not is ended, and its head told. Returns whether all ended by itself.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.is_stopping.store(true, Ordering::Relaxed);
        self.0.changed.notify_one();
        let n_running = self.0.slots.n_held();
        if n_running > 0 {
            info!(component = "node", n_running, "waiting for the functions that run");
        }
        let is_done = timeout(within, self.0.orders.all_free()).await.is_ok();
        if !is_done {
            self.0.is_cut_short.send_replace(true);
            drop(timeout(END_WITHIN, self.0.orders.all_free()).await);
        }
        self.end_lines().await;
        is_done
    }

    /// Runs a work order, and returns the answer to it. Tells the head on `line`, if it has one, while
    /// the function is compiled.
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

    /// Sees to it that function `id` is kept.
    async fn ensure_fetched(&self, author: &PeerId, id: FunctionId) -> Result<(), Refusal> {
        if self.0.context.functions.get(id).is_some() {
            return Ok(());
        }
        let asked = self.sources(author, id);
        let began = Instant::now();
        let peers = FunctionPeers { network: &self.0.context.network, peers: &asked };
        let requester = self.requester(author);
        let span = info_span!(target: traces::TARGET, "FunctionInstall", function.cid = %id);
        let obtaining = self.0.context.functions.obtain(id, &requester, &peers);
        let obtained = obtaining.instrument(span).await;
        self.0.context.metrics.observe(metrics::INSTALL_TIME, &[], began.elapsed());
        self.count_installed(obtained.as_ref().ok());
        self.compile_soon(author, obtained?.id);
        Ok(())
    }

    /// Returns the party on whose behalf a function is kept that `peer` wants.
    fn requester(&self, peer: &PeerId) -> Requester {
        match self.standing(peer) {
            Standing::Named => Requester::Named(peer.clone()),
            Standing::Stranger | Standing::Unknown => Requester::Peer(peer.clone()),
        }
    }

    /// Records that function `id` ran for `head`, so that it is evicted after those that did not.
    fn note_run(&self, head: &PeerId, id: FunctionId) {
        let functions = &self.0.context.functions;
        let Some(noted) = functions.note_use(id, &self.requester(head), true) else { return };
        let functions = functions.clone();
        self.0.context.group.spawn("save the use of a function", async move {
            if let Err(error) = functions.save(noted).await {
                warn!(function = %id, reason = chain(&error), "cannot save the use of a function");
            }
        });
    }

    /// Counts an attempt to get a function, with what was got.
    fn count_installed(&self, obtained: Option<&Function>) {
        let metrics = &self.0.context.metrics;
        metrics.add(metrics::INSTALLED, &[]);
        match obtained {
            Some(function) => {
                metrics.add(metrics::INSTALLED_OK, &[]);
                metrics.add_n(metrics::INSTALLED_BYTES, &[], function.size_bytes);
            }
            None => metrics.add(metrics::INSTALLED_ERR, &[]),
        }
    }

    /// Whom to ask for function `id`: `author` first, then peers that say they hold it, then the rest.
    fn sources(&self, author: &PeerId, id: FunctionId) -> Vec<PeerId> {
        let peers = &self.0.context.peers;
        let speaking = peers.speaking(FUNCTION_PROTOCOL);
        // One that has just connected may not have said yet what it speaks.
        let is_asked = |peer: &PeerId| speaking.contains(peer) || peers.is_silent(peer);
        let first = Some(author).filter(|author| is_asked(author)).cloned();
        let holding = peers.holding(id).into_iter().filter(|peer| speaking.contains(peer));
        let mut asked: Vec<PeerId> = Vec::new();
        for peer in first.into_iter().chain(holding).chain(speaking.iter().cloned()) {
            if !asked.contains(&peer) {
                asked.push(peer);
            }
        }
        asked
    }

    /// Runs a work order and returns the answer that tells the outcome.
    async fn outcome(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        line: Option<&Line>,
    ) -> Result<WorkOrderResponse, Refusal> {
        let id = FunctionId::parse_any(&order.function_id)?;
        let call =
            FunctionCall::new(order.method.parse()?, order.parameters.as_deref(), &order.config);
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        let (_slot, has_waited) = self.take_slot(head, order, line).await?;
        // The worker may have begun to stop while the order waited.
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        debug!(request = order.request_id, function = %id, peer = %head, "execution begins");
        let mut is_cut_short = self.0.is_cut_short.subscribe();
        let run = Run { head, order, id, call: &call, line, has_waited };
        let result = select! {
            result = self.run_with_refetch(run) => result?,
            _ = is_cut_short.wait_for(|is_cut_short| *is_cut_short) => return Err(Refusal::Stopping),
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

    /// Takes a slot for `order`. Returns it, and true if `head` was told that the order waits.
    async fn take_slot(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        line: Option<&Line>,
    ) -> Result<(HeldPlace, bool), Refusal> {
        let (slots, standing) = (&self.0.slots, self.standing(head));
        if let Some(slot) = slots.try_take(head, standing) {
            return Ok((slot, false));
        }
        self.tell_state(line, order, OrderState::WAITING).await;
        let within = if line.is_some() { SLOT_WITHIN } else { SLOT_WITHIN_UNTOLD };
        let slot = slots.take(head, standing, within).await;
        let slot = slot.ok_or(Refusal::Full { n_slots: self.0.n_slots })?;
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

    /// Runs a work order. Where the function went or proves damaged since the roll call, it is fetched
    /// once more.
    async fn run_with_refetch(&self, run: Run<'_>) -> Result<NodeResult, Refusal> {
        let Run { head, order, id, call, .. } = run;
        for _ in 0..2 {
            self.ensure_fetched(head, id).await?;
            let Some(function) = self.0.context.functions.get(id) else { continue };
            if !function.runs(&call.method) {
                let has = list_modules(&function);
                return Err(Refusal::Method { has, wanted: call.method.clone() });
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
        Err(Refusal::Missing)
    }

    /// Compiles the function of `run` unless it is compiled, and tells the head what the order is
    /// doing.
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
        if call.method == function.method {
            self.note_compiled(function.id);
        }
        Ok(())
    }

    /// Whose compilations those of an order count among: its client's, as far as `head` was named to this
    /// node, and otherwise the head's, which could invent any number of clients.
    fn client_of(&self, head: &PeerId, order: &WorkOrder) -> Arc<str> {
        let tag = if self.standing(head) == Standing::Named { order.client.as_str() } else { "" };
        let tag: String = tag.chars().take(CLIENT_TAG_MAX).collect();
        format!("{head} {tag}").into()
    }

    async fn tell(&self, peer: &PeerId, message: &Message) {
        let bytes = json(message);
        metrics::count_sent(&self.0.context.metrics, WORK_PROTOCOL, message.kind(), bytes.len());
        if let Err(error) = self.0.context.network.tell(peer, WORK_PROTOCOL, &bytes).await {
            warn!(%peer, %error, "an answer did not reach its head");
        }
    }
}
