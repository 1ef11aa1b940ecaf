//! A head: finds workers for a function, has them run it, and groups the results.
//!
//! An execution first tries to acquire offered slots (`slots.rs`, chosen by `placement.rs`, queued in a
//! `fair_queue.rs`). If that is not possible, the head calls the roll (`rollcall.rs`). `gather.rs` then
//! sends the work orders through `workers.rs`, collects the results and replaces workers that fail or
//! are slow. `report.rs` derives the code and the message of the outcome. `inbox.rs` routes replies of
//! peers to their execution. `executions.rs` stores executions. The REST API is in `server.rs`.

mod executions;
mod gather;
mod inbox;
mod install;
mod node_registry;
pub mod order;
mod placement;
mod report;
mod rollcall;
pub mod server;
mod slots;
mod workers;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::node::{PeerId, Subgroup};
use parking_lot::Mutex;
use task::tally::{Counted, Tally};
use task::traces;
use tokio::select;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument as _, Span, field, info, info_span, warn};
use uuid::Uuid;
use web::address::Network;
use web::rate_limit::Bucket;

use self::executions::{Cause, Events, ExecutionStatus, Executions, Track};
use self::inbox::{Inbox, Inboxes, Readiness};
use self::install::Installs;
use self::node_registry::Access;
pub use self::node_registry::{NodeRegistry, RegistryError};
use self::order::{NodeCount, Order};
use self::rollcall::{Roster, Selection};
use self::slots::{Lease, SlotGrant, SlotRequest, Slots};
use self::workers::Lines;
use crate::message::{CallDigest, Code, NodeResult};
use crate::peers::Peer;
use crate::result_groups::{ResultGroup, group};
use crate::{NodeContext, metrics};

/// Default time for one worker to respond to a work order, as in b7s. A worker that exceeds it is
/// replaced by a spare, which gets the same time.
pub const RESPONSE_WITHIN: Duration = Duration::from_secs(20);

/// Maximum number of simultaneous executions. One client can have half of the executions that other
/// clients leave (see [`admit`]). Further requests are refused, since each execution can hold a request
/// body and its results in memory.
const EXECUTIONS_MAX: u32 = 512;

/// Time for canceled executions to end when the node stops.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Policy for signatures of results. Results with a wrong signature are always rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Unsigned results are accepted too: b7s workers do not sign.
    WhereGiven,
    /// Only signed results are accepted.
    Required,
}

/// Outcome of an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Overall code: [`Code::OK`] if enough nodes returned a result.
    pub code: Code,
    /// Id of the request, a UUID.
    pub request_id: String,
    /// Description of the failure, or empty.
    pub message: String,
    /// Distinct results, the most frequent first.
    pub groups: Vec<ResultGroup>,
    /// Nodes that returned a result, or failed and were not replaced, ordered by id.
    pub peers: Vec<PeerId>,
    /// Details of the run on each node, without the output, which is in `groups`.
    pub runs: BTreeMap<PeerId, NodeResult>,
}

impl Execution {
    fn failed(code: Code, request_id: String, message: String) -> Self {
        let (groups, peers, runs) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { code, request_id, message, groups, peers, runs }
    }

    /// Returns the size of the distinct outputs.
    fn n_output_bytes(&self) -> usize {
        let outcomes = self.groups.iter().map(|group| &group.outcome);
        outcomes
            .flat_map(|it| [&it.stdout, &it.stderr, &it.stdout_sha256, &it.stderr_sha256])
            .map(String::len)
            .sum()
    }

    /// Returns the outcome of a request that was not started.
    fn rejected(code: Code, message: String) -> Self {
        Self::failed(code, String::new(), message)
    }

    fn cut_short(request_id: String, cause: Cause) -> Self {
        let (code, message) = match cause {
            Cause::Caller => (Code::CANCELED, "the execution was canceled"),
            Cause::Stopping => {
                (Code::UNAVAILABLE, "the execution was canceled: the node is stopping")
            }
        };
        Self::failed(code, request_id, message.to_owned())
    }
}

/// Reason for not starting an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The limit of simultaneous executions is reached.
    #[error("too many executions are in progress; try again later")]
    Busy,
    /// This client's limit of simultaneous executions is reached.
    #[error("too many executions of this client are in progress; wait until one of them completes")]
    ClientBusy,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// An execution that was admitted.
#[derive(Debug)]
struct Admission {
    track: Track,
    order: Order,
    share: ClientShare,
    span: Span,
    _permit: OwnedSemaphorePermit,
}

/// Outcome of a search that found too few workers for an order.
#[derive(Debug)]
struct Shortage {
    roster: Box<Roster>,
    /// True if the search ended because its time has passed.
    is_late: bool,
    /// True if there were enough eligible workers, but too few had a free slot.
    is_queued: bool,
}

/// Handle to a head. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Head(Arc<HeadParts>);

#[derive(Debug)]
struct HeadParts {
    context: NodeContext,
    /// Subgroups of this node.
    subgroups: Vec<Subgroup>,
    signatures: SignaturePolicy,
    response_within: Duration,
    compile_within: Duration,
    inboxes: Inboxes,
    slots: Slots,
    registry: NodeRegistry,
    /// Held while the set of allowed peers is replaced.
    allowing: Mutex<()>,
    installs: Installs,
    lines: Lines,
    events: Events,
    executions: Executions,
    permits: Arc<Semaphore>,
    shares: Tally<Client>,
    /// Limits the roll calls that are repeated since a peer has joined a topic.
    join_calls: Mutex<Bucket>,
    /// Keyed hash that turns a client into the tag in its orders, so that the tag does not reveal the
    /// client's address.
    client_tags: RandomState,
    is_stopping: AtomicBool,
}

impl Head {
    /// Creates a head that belongs to `subgroups` and the general group.
    pub fn new(
        context: NodeContext,
        subgroups: &[Subgroup],
        signatures: SignaturePolicy,
        response_within: Duration,
        compile_within: Duration,
        registry: NodeRegistry,
    ) -> Self {
        let events = Events::new(context.clock.clone());
        let n_peers_max = context.peers.n_max();
        let head = Self(Arc::new(HeadParts {
            lines: Lines::new(context.network.clone(), context.group.clone()),
            context,
            subgroups: subgroups.to_vec(),
            signatures,
            response_within,
            compile_within,
            inboxes: Inboxes::default(),
            slots: Slots::new(registry.clone(), n_peers_max),
            registry,
            allowing: Mutex::default(),
            installs: Installs::default(),
            executions: Executions::new(events.clone()),
            events,
            permits: Arc::new(Semaphore::new(EXECUTIONS_MAX as usize)),
            shares: Tally::default(),
            join_calls: Mutex::new(Bucket::full(rollcall::JOIN_CALLS)),
            client_tags: RandomState::new(),
            is_stopping: AtomicBool::new(false),
        }));
        head.0.context.group.spawn("pings", head.clone().watch_workers());
        head
    }

    /// Executes `order` on behalf of `client` and returns the outcome, even if the execution failed.
    ///
    /// Completes within the sum of [`Order::wait_within`], twice the time limit of a worker, and the
    /// time to compile the function. Dropping the future cancels the work orders on workers of this
    /// program. b7s workers cannot cancel an order, so they complete theirs.
    ///
    /// # Errors
    /// Returns [`Unavailable`] if the execution was not started.
    pub async fn execute(
        &self,
        client: &Client,
        order: Order,
    ) -> Result<Arc<Execution>, Unavailable> {
        let admission = self.admit(client, order)?;
        Ok(self.run(admission).await)
    }

    /// Starts to execute `order`, and returns the id of the request.
    ///
    /// # Errors
    /// Returns [`Unavailable`] if the execution was not started.
    pub fn execute_soon(&self, client: &Client, order: Order) -> Result<String, Unavailable> {
        let admission = self.admit(client, order)?;
        let (head, request_id) = (self.clone(), admission.track.request_id().to_owned());
        self.0.context.group.spawn("execution", async move {
            head.run(admission).await;
        });
        Ok(request_id)
    }

    /// Returns the remembered executions.
    pub(crate) fn executions(&self) -> &Executions {
        &self.0.executions
    }

    /// Returns the known peers, ordered by id.
    pub fn peers(&self) -> Vec<(PeerId, Peer)> {
        self.0.context.peers.list()
    }

    /// Returns the total and the free slots of worker `peer`, if it offers any.
    pub(crate) fn slots_of(&self, peer: &PeerId) -> Option<(usize, usize)> {
        self.0.slots.offered_slots(peer)
    }

    /// Returns the metrics in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        let HeadParts { context, permits, .. } = &*self.0;
        let n_executing = EXECUTIONS_MAX as usize - permits.available_permits();
        context.metrics.set(metrics::EXECUTING, &[], n_executing);
        context.metrics.set(metrics::PEERS_CONNECTED, &[], context.peers.n_connected());
        context.metrics.text()
    }

    /// Returns true once no more executions are started.
    #[cfg(test)]
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.is_stopping.load(Ordering::Relaxed)
    }

    /// Rejects new executions and waits up to `within` for executions in progress. Then cancels the
    /// rest, whose clients still get a response. Returns true if all completed.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.is_stopping.store(true, Ordering::Relaxed);
        let n_in_progress = self.0.executions.in_progress().len();
        if n_in_progress > 0 {
            info!(component = "node", n_in_progress, "waiting for executions in progress");
        }
        if timeout(within, self.0.permits.acquire_many(EXECUTIONS_MAX)).await.is_ok() {
            return true;
        }
        for (request, function) in self.0.executions.in_progress() {
            warn!(request, %function, "canceled an execution: the node is stopping");
        }
        self.0.executions.stop();
        // The node does not wait longer for canceled executions. The server still sends their
        // responses.
        drop(timeout(END_WITHIN, self.0.permits.acquire_many(EXECUTIONS_MAX)).await);
        false
    }

    fn admit(&self, client: &Client, order: Order) -> Result<Admission, Unavailable> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Unavailable::Stopping);
        }
        let share = admit(&self.0.shares, client, EXECUTIONS_MAX as usize)?;
        let permit =
            Arc::clone(&self.0.permits).try_acquire_owned().map_err(|_| Unavailable::Busy)?;
        let request_id = Uuid::new_v4().to_string();
        let client_tag = format!("{:x}", self.0.client_tags.hash_one(client));
        let order = Order { client_tag, ..order };
        let track = self.0.executions.begin(&request_id, &order, self.0.context.clock.now());
        let span = info_span!(
            target: traces::TARGET, "Execute",
            function.cid = %order.function, function.method = order.work.method,
            execution.request.id = request_id, execution.node.count = order.nodes.number(),
            execution.code = field::Empty,
        );
        Ok(Admission { track, order, share, span, _permit: permit })
    }

    async fn run(&self, admission: Admission) -> Arc<Execution> {
        let Admission { track, order, share, span, _permit } = admission;
        let function = order.function.to_string();
        self.0.context.metrics.add(metrics::EXECUTIONS, &[&function, "none"]);
        let (execution, is_complete) = select! {
            execution = self.outcome(&track, &order, share.holder()).instrument(span.clone()) => {
                (execution, true)
            }
            cause = track.canceled() => {
                (Execution::cut_short(track.request_id().to_owned(), cause), false)
            }
        };
        let (request, code) = (track.request_id(), execution.code.as_str());
        let (cluster_size, responded) = (execution.peers.len(), execution.runs.len());
        span.record("execution.code", code);
        info!(request, function, cluster_size, responded, code, "received execution responses");
        self.0.context.metrics.add(metrics::ANSWERS, &[code]);
        self.0.context.metrics.observe(metrics::EXECUTE_TIME, &[], track.elapsed());
        if is_complete { track.end(execution) } else { track.cancel(execution) }
    }

    async fn outcome(&self, track: &Track, order: &Order, client: &Client) -> Execution {
        let request_id = track.request_id().to_owned();
        let call = CallDigest::new(&order.work, self.0.context.network.peer_id());
        let mut inbox = self.0.inboxes.open(&request_id, order.function, call);
        let chosen = match self.choose_workers(track, order, client, &mut inbox).await {
            Ok(chosen) => chosen,
            Err(Shortage { roster, is_late, is_queued }) => {
                let message = if is_queued {
                    report::still_queued(order, &roster)
                } else {
                    report::too_few(order, &roster, &self.0.listening(order), is_late)
                };
                let message = report::with_withheld(message, &self.0.withheld(order));
                return Execution::failed(Code::TIMEOUT, request_id, message);
            }
        };
        let gathered = gather::gather(self, track, order, chosen, &mut inbox).await;
        let (code, message) = report::summarize(&gathered, order);
        let (expected, actual) = (order.threshold, gathered.share());
        if actual < expected {
            info!(request = request_id, expected, have = actual, "threshold condition not met");
        }
        let taking_part = gathered.answers.keys().chain(gathered.failed.keys());
        let mut peers: Vec<PeerId> = taking_part.cloned().collect();
        peers.sort();
        let mut runs = gathered.answers;
        let groups =
            group(runs.iter_mut().map(|(peer, run)| (peer.clone(), take(&mut run.result))));
        self.0.context.peers.count_runs(&groups);
        self.0.slots.judge(&groups);
        Execution { code, request_id, message, groups, peers, runs }
    }

    /// Finds the workers for an order: from offers of free slots, or else by roll call.
    async fn choose_workers(
        &self,
        track: &Track,
        order: &Order,
        client: &Client,
        inbox: &mut Inbox,
    ) -> Result<Selection, Shortage> {
        let end = Instant::now() + order.wait_within;
        let warm = |leases: Vec<Lease>| {
            track.note_warm();
            self.0.context.metrics.add(metrics::WARM, &[]);
            Selection { leases, roster: Roster::new(order.nodes) }
        };
        match self.0.take_slots(order, client, false) {
            SlotGrant::Now(leases) => return Ok(warm(leases)),
            SlotGrant::Later(mut queued) => match timeout_at(end, queued.granted()).await {
                Ok(Some(leases)) => return Ok(warm(leases)),
                // While the request was queued, too few eligible workers remained, so the roll is
                // called.
                Ok(None) => {}
                Err(_) => {
                    let roster = Roster::new(order.nodes).into();
                    return Err(Shortage { roster, is_late: true, is_queued: true });
                }
            },
            SlotGrant::Unknown => {}
        }
        rollcall::call(&self.0, track, order, client, inbox, end).await
    }
}

impl HeadParts {
    /// Takes slots for an order from workers with an offer that hold the function. If `can_fetch` is
    /// true and this head holds the function, workers without the function are eligible, too. An order
    /// for all nodes always needs a roll call.
    fn take_slots(&self, order: &Order, client: &Client, can_fetch: bool) -> SlotGrant {
        match order.nodes {
            NodeCount::Exactly(n) => {
                let can_fetch = can_fetch && self.context.functions.get(order.function).is_some();
                self.slots.take(client, SlotRequest { can_fetch, ..order.slot_request(n.get()) })
            }
            NodeCount::Everyone => SlotGrant::Unknown,
        }
    }

    /// Returns the connected peers of the order's group that may run it, ordered by id.
    fn listening(&self, order: &Order) -> Vec<PeerId> {
        let mut peers = self.group_of(order);
        peers.retain(|peer| self.may_run(peer, order));
        peers
    }

    /// Returns the connected peers of the order's group, ordered by id.
    fn group_of(&self, order: &Order) -> Vec<PeerId> {
        self.context.peers.listening(rollcall::topic(order))
    }

    /// Counts the connected nodes that match the order but are not allowed to get work, by reason.
    fn withheld(&self, order: &Order) -> BTreeMap<Access, usize> {
        let mut withheld = BTreeMap::new();
        for peer in self.group_of(order).iter().filter(|peer| self.is_selected(peer, order)) {
            *withheld.entry(self.registry.access(peer)).or_default() += 1;
        }
        withheld.remove(&Access::Open);
        withheld
    }

    /// Returns true if `peer` is allowed to get `order`, even if it is not ready. Exact attributes are
    /// not checked here, since workers compare their attributes with the roll call.
    fn may_run(&self, peer: &PeerId, order: &Order) -> bool {
        self.registry.access(peer) == Access::Open && self.is_selected(peer, order)
    }

    fn is_selected(&self, peer: &PeerId, order: &Order) -> bool {
        let selector = order.requirements.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(&self.context.peers.offer(peer).attributes))
    }

    /// Records a reply to the roll call for `order`, if `peer` is allowed to run it.
    fn note_readiness(
        &self,
        track: &Track,
        order: &Order,
        roster: &mut Roster,
        peer: PeerId,
        readiness: Readiness,
    ) {
        if !self.may_run(&peer, order) {
            return;
        }
        if readiness == Readiness::Ready {
            track.note_reported(&peer);
        }
        roster.note(peer, readiness);
    }

    /// Chooses workers among the peers that reported and acquires their slots. Returns the roster if too
    /// few peers reported.
    fn choose_of(&self, mut roster: Roster, order: &Order) -> Result<Selection, Box<Roster>> {
        loop {
            roster.ready.retain(|peer| self.may_run(peer, order));
            let Some(peers) = roster.take_chosen(|peer| self.slots.weight_of(peer)) else {
                return Err(roster.into());
            };
            let leases: Vec<Lease> =
                peers.iter().map(|peer| self.slots.take_of(peer, order.function)).collect();
            // If a worker was cordoned in the meantime, the operation that drains it might not wait for
            // this lease. In this case, all workers are chosen again.
            if peers.iter().all(|peer| self.may_run(peer, order)) {
                return Ok(Selection { leases, roster });
            }
            roster.ready.extend(peers);
        }
    }
}

/// Originator of an execution, for fairness. Clients are not distinguished by token, since a head has
/// only one token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// HTTP clients of this network.
    Network(Network),
    /// A peer that sent `MsgExecute`.
    Peer(PeerId),
    /// The program that contains the head.
    Program,
}

/// An execution in progress, or a reader of events, counted for its client until dropped.
type ClientShare = Counted<Client>;

/// Counts an execution or a reader of `client`. A client can have half of the `n_max` that remain after
/// those of all other clients are subtracted.
///
/// # Errors
/// Returns [`Unavailable::ClientBusy`] if a client that has some has reached this limit, and
/// [`Unavailable::Busy`] if the other clients leave none to a client without any.
fn admit(
    under_way: &Tally<Client>,
    client: &Client,
    n_max: usize,
) -> Result<ClientShare, Unavailable> {
    let has_room = |n_own, n_others| n_own < n_max.saturating_sub(n_others) / 2;
    let is_known = under_way.count(client) > 0;
    let unavailable = if is_known { Unavailable::ClientBusy } else { Unavailable::Busy };
    under_way.add(client, has_room).ok_or(unavailable)
}
