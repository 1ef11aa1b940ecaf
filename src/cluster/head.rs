//! A head: finds workers for a function, has them run it, and groups what they return.
//!
//! One execution goes through `slots.rs` (workers known to be ready, chosen by `placement.rs`, waited
//! for in a `fair_queue.rs`) or, where those do not suffice, `rollcall.rs` (who says it is), then `gather.rs`
//! (work orders out by `dispatch.rs`, results in, spares in the place of those that fail or take long)
//! and `report.rs` (code and message). Replies of peers find their execution through `inbox.rs`;
//! `executions.rs` remembers it. Absent on purpose: HTTP, which is `server.rs`.

mod dispatch;
mod executions;
mod gather;
mod inbound;
mod inbox;
mod install;
mod node_registry;
pub mod order;
mod placement;
mod report;
mod rollcall;
pub mod server;
mod slots;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, RandomState},
    mem::take,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use model::node::{PeerId, Subgroup};
use task::{
    tally::{Counted, Tally},
    traces,
};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use tracing::{Instrument as _, Span, field, info, info_span, warn};
use uuid::Uuid;
use web::address::Network;

pub use self::node_registry::{NodeRegistry, RegistryError};
use self::{
    dispatch::Lines,
    executions::{Cause, Events, ExecutionStatus, Executions, Track},
    inbox::{Inbox, Inboxes, Reply},
    install::Installs,
    node_registry::Access,
    order::{NodeCount, Order},
    rollcall::{Roster, Selection},
    slots::{Lease, SlotGrant, SlotRequest, Slots},
};
use crate::{
    fair_queue::Position,
    message::{CallDigest, Code, NodeResult},
    metrics,
    node_context::NodeContext,
    peers::Peer,
    result_groups::{ResultGroup, group},
};

/// How long one worker has to answer a work order unless the operator says otherwise, as in b7s. A
/// worker that misses it is replaced by a spare, which has as long.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// Executions under way at once, of which a client alone may have half. More are refused: each may
/// hold a body and its results in memory.
const EXECUTIONS_MAX: u32 = 512;

/// How long executions that a stopping node ends may take to do so: they wait for nobody any more.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Which results a head takes. One with a wrong signature it never does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Those that are not signed, too: workers of b7s sign none.
    WhereGiven,
    /// Signed ones alone.
    Required,
}

/// How a head works.
#[derive(Debug)]
pub struct HeadOptions {
    /// Which results it takes.
    pub signatures: SignaturePolicy,
    /// How long one worker has to answer a work order, usually [`ANSWER_WITHIN`].
    pub answer_within: Duration,
    /// How much longer a worker has that must compile the function first.
    pub compile_within: Duration,
    /// What the operator decided of nodes.
    pub registry: NodeRegistry,
}

/// How an execution went.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The outcome: [`Code::OK`] where enough nodes answered.
    pub code: Code,
    /// The request's own id, a UUID.
    pub request_id: String,
    /// What went wrong, or empty.
    pub message: String,
    /// The distinct results, the most frequent first.
    pub groups: Vec<ResultGroup>,
    /// The nodes that answered, in the order of their ids.
    pub peers: Vec<PeerId>,
    /// Each run, without its outcome, which its group has.
    pub runs: BTreeMap<PeerId, NodeResult>,
}

impl Execution {
    fn failed(code: Code, request_id: String, message: String) -> Self {
        let (groups, peers, runs) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self { code, request_id, message, groups, peers, runs }
    }

    fn cut_short(request_id: String, cause: Cause) -> Self {
        let (code, message) = match cause {
            Cause::Caller => (Code::CANCELED, "the execution was canceled"),
            Cause::Stopping => (Code::UNAVAILABLE, "the node is stopping, and ended the execution"),
        };
        Self::failed(code, request_id, message.to_owned())
    }
}

/// Why a head does not start an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// As many as possible are under way.
    #[error("too many executions are under way; try again later")]
    Busy,
    /// This client has as many under way as one may.
    #[error(
        "as many executions of this client are under way as it may have; wait until some have ended"
    )]
    ClientBusy,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// An execution that was let in.
#[derive(Debug)]
struct Admission {
    track: Track,
    order: Order,
    share: ClientShare,
    span: Span,
    _permit: OwnedSemaphorePermit,
}

/// Why nobody runs an order.
#[derive(Debug)]
struct Shortage {
    roster: Box<Roster>,
    /// True if the time of the roll call was up.
    is_late: bool,
    /// Where the request waited for slots, if it did.
    position: Option<Position>,
}

/// Handle to a head. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Head(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: NodeContext,
    /// The groups it belongs to itself, beside the general one.
    subgroups: Vec<Subgroup>,
    signatures: SignaturePolicy,
    /// How long one worker has to answer a work order.
    answer_within: Duration,
    /// How much longer it has if it must compile the function first.
    compile_within: Duration,
    inboxes: Inboxes,
    slots: Slots,
    /// What the operator decided of nodes.
    registry: NodeRegistry,
    /// Held while the set of heard peers is replaced.
    heeding: tokio::sync::Mutex<()>,
    installs: Installs,
    lines: Lines,
    events: Events,
    executions: Executions,
    permits: Arc<Semaphore>,
    shares: Tally<Client>,
    /// Makes tags of clients that say nothing of their addresses.
    client_tags: RandomState,
    is_stopping: AtomicBool,
}

impl Head {
    /// Makes a head that belongs to `subgroups` beside the general one.
    pub fn new(context: NodeContext, subgroups: &[Subgroup], options: HeadOptions) -> Self {
        let HeadOptions { signatures, answer_within, compile_within, registry } = options;
        let events = Events::new(context.clock.clone());
        let n_peers_max = context.peers.n_max();
        let head = Self(Arc::new(Inner {
            lines: Lines::new(context.network.clone(), context.group.clone(), n_peers_max),
            context,
            subgroups: subgroups.to_vec(),
            signatures,
            answer_within,
            compile_within,
            inboxes: Inboxes::default(),
            slots: Slots::new(registry.clone(), n_peers_max),
            registry,
            heeding: tokio::sync::Mutex::default(),
            installs: Installs::default(),
            executions: Executions::new(events.clone()),
            events,
            permits: Arc::new(Semaphore::new(EXECUTIONS_MAX as usize)),
            shares: Tally::default(),
            client_tags: RandomState::new(),
            is_stopping: AtomicBool::new(false),
        }));
        head.0.context.group.spawn("pings", head.clone().watch_workers());
        head
    }

    /// Executes `order` of `client`, and returns how it went, also where it failed.
    ///
    /// Takes at most [`Order::wait_within`] and twice the time of a worker, and the time to compile the
    /// function. Dropping it cancels what workers of ours run for it.
    ///
    /// # Errors
    /// [`Unavailable`] if it was not started.
    pub async fn execute(
        &self,
        client: &Client,
        order: Order,
    ) -> Result<Arc<Execution>, Unavailable> {
        let admission = self.admit(client, order)?;
        Ok(self.run(admission).await)
    }

    /// Starts to execute `order`, and returns the request's id, by which its outcome is found.
    ///
    /// # Errors
    /// [`Unavailable`] if it was not started.
    pub fn execute_soon(&self, client: &Client, order: Order) -> Result<String, Unavailable> {
        let admission = self.admit(client, order)?;
        let (head, request_id) = (self.clone(), admission.track.request_id().to_owned());
        self.0.context.group.spawn("execution", async move {
            head.run(admission).await;
        });
        Ok(request_id)
    }

    /// The executions that it remembers, of which the newest 1000.
    pub(crate) fn executions(&self) -> &Executions {
        &self.0.executions
    }

    /// Returns the peers it knows, by id.
    pub fn peers(&self) -> Vec<(PeerId, Peer)> {
        self.0.context.peers.list()
    }

    /// How many slots worker `peer` has, and how many of them are free, if it offers any.
    pub(crate) fn slots_of(&self, peer: &PeerId) -> Option<(usize, usize)> {
        self.0.slots.offered_slots(peer)
    }

    /// Returns its counts as Prometheus text.
    pub fn metrics_text(&self) -> String {
        let n_under_way = EXECUTIONS_MAX as usize - self.0.permits.available_permits();
        self.0.context.metrics.set(metrics::EXECUTING, &[], n_under_way);
        self.0.context.metrics.set(
            metrics::PEERS_CONNECTED,
            &[],
            self.0.context.peers.n_connected(),
        );
        let relayed = self.0.context.network.relay_counts();
        for (gauge, n) in [
            (metrics::PEERS_RELAYED, relayed.n_relayed_peers),
            (metrics::RELAY_RESERVATIONS, relayed.n_reservations),
            (metrics::RELAY_CIRCUITS, relayed.n_circuits),
            (metrics::RELAY_REFUSED, relayed.n_refused),
        ] {
            self.0.context.metrics.set(gauge, &[], n);
        }
        self.0.context.metrics.text()
    }

    /// Whether it starts no more executions.
    #[cfg(test)]
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.is_stopping.load(Ordering::Relaxed)
    }

    /// Starts no more executions, and waits until those under way have ended, at most for `within`.
    /// Those that have not are ended, and their clients get an answer. Returns whether all ended by
    /// themselves.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.is_stopping.store(true, Ordering::Relaxed);
        let n_under_way = self.0.executions.under_way().len();
        if n_under_way > 0 {
            info!(component = "node", n_under_way, "waiting for the executions under way");
        }
        if timeout(within, self.0.permits.acquire_many(EXECUTIONS_MAX)).await.is_ok() {
            return true;
        }
        for (request, function) in self.0.executions.under_way() {
            warn!(request, %function, "ended an execution: the node is stopping");
        }
        self.0.executions.stop();
        // Their answers are served a little longer than this.
        drop(timeout(END_WITHIN, self.0.permits.acquire_many(EXECUTIONS_MAX)).await);
        false
    }

    fn admit(&self, client: &Client, order: Order) -> Result<Admission, Unavailable> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Unavailable::Stopping);
        }
        let permits = Arc::clone(&self.0.permits);
        let share = admit(&self.0.shares, client, EXECUTIONS_MAX as usize)?;
        let permit = permits.try_acquire_owned().map_err(|_| Unavailable::Busy)?;
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
        let (execution, is_whole) = select! {
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
        if is_whole { track.ended(execution) } else { track.cut_short(execution) }
    }

    async fn outcome(&self, track: &Track, order: &Order, client: &Client) -> Execution {
        let request_id = track.request_id().to_owned();
        let call = CallDigest::new(&order.work, self.0.context.network.peer_id());
        let mut inbox = self.0.inboxes.open(&request_id, order.function, call);
        let chosen = match self.choose_workers(track, order, client, &mut inbox).await {
            Ok(chosen) => chosen,
            Err(Shortage { roster, is_late, position }) => {
                let listening = self.0.listening(order);
                let withheld = self.0.withheld(order);
                let message = match position {
                    Some(position) => report::still_queued(order, &roster, position),
                    None => report::too_few(order, &roster, &listening, is_late),
                };
                let message = report::with_withheld(message, &withheld);
                return Execution::failed(Code::TIMEOUT, request_id, message);
            }
        };
        let gathered = gather::gather(self, track, order, chosen, &mut inbox).await;
        let (code, message) = report::summarize(&gathered, order);
        let (expected, have) = (order.threshold, gathered.share());
        if have < expected {
            info!(request = request_id, expected, have, "threshold condition not met");
        }
        let peers: Vec<PeerId> = gathered.answers.keys().cloned().collect();
        let mut runs = gathered.answers;
        let outcome =
            |(peer, run): (&PeerId, &mut NodeResult)| (peer.clone(), take(&mut run.result));
        let groups = group(runs.iter_mut().map(outcome));
        self.0.context.peers.count_runs(&groups);
        self.0.slots.judge(&groups);
        Execution { code, request_id, message, groups, peers, runs }
    }

    /// Finds who is to run the order: workers that offer free slots, else by roll call.
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
                // There are too few of them now.
                Ok(None) => {}
                Err(_) => {
                    let position = queued.position();
                    let roster = Roster::new(order.nodes).into();
                    return Err(Shortage { roster, is_late: true, position });
                }
            },
            SlotGrant::Unknown => {}
        }
        rollcall::call(&self.0, track, order, client, inbox, end).await
    }
}

impl Inner {
    /// Takes slots for an order by what workers offer: of those that hold the function or, where they
    /// `can_fetch` it, of all if this head holds it. What offers do not say is asked for: who else there
    /// is.
    fn take_slots(&self, order: &Order, client: &Client, can_fetch: bool) -> SlotGrant {
        match order.nodes {
            NodeCount::Exactly(n) => {
                let can_fetch = can_fetch && self.context.functions.get(order.function).is_some();
                self.slots.take(client, SlotRequest { can_fetch, ..order.slot_request(n.get()) })
            }
            NodeCount::Everyone => SlotGrant::Unknown,
        }
    }

    /// The connected peers of the order's group that may run it, by id.
    fn listening(&self, order: &Order) -> Vec<PeerId> {
        let mut peers = self.group_of(order);
        peers.retain(|peer| self.may_run(peer, order));
        peers
    }

    /// The connected peers of the order's group, by id.
    fn group_of(&self, order: &Order) -> Vec<PeerId> {
        self.context.peers.listening(rollcall::topic(order))
    }

    /// Counts the connected nodes of the order's group that are meant and get no work, by why.
    fn withheld(&self, order: &Order) -> BTreeMap<Access, usize> {
        let mut withheld = BTreeMap::new();
        for peer in self.group_of(order).iter().filter(|peer| self.is_selected(peer, order)) {
            *withheld.entry(self.registry.access(peer)).or_default() += 1;
        }
        withheld.remove(&Access::Open);
        withheld
    }

    /// Whether `peer` may be given `order`, whether it is ready or not. Roll calls carry exact
    /// attributes, which workers compare themselves.
    fn may_run(&self, peer: &PeerId, order: &Order) -> bool {
        self.registry.access(peer) == Access::Open && self.is_selected(peer, order)
    }

    fn is_selected(&self, peer: &PeerId, order: &Order) -> bool {
        let selector = order.requirements.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(&self.context.peers.attributes(peer)))
    }

    /// Whether a reply to a roll call is of a peer that may run `order`.
    fn is_meant(&self, reply: &Reply, order: &Order) -> bool {
        match reply {
            Reply::Ready(peer)
            | Reply::Refused(peer, _)
            | Reply::Busy(peer, _)
            | Reply::Fetching(peer) => self.may_run(peer, order),
            _ => true,
        }
    }

    /// Takes slots of those that reported, if they are enough.
    fn choose_of(&self, mut roster: Roster, order: &Order) -> Result<Selection, Box<Roster>> {
        loop {
            roster.ready.retain(|peer| self.may_run(peer, order));
            let Some(peers) = roster.take_chosen(|peer| self.slots.weight_of(peer)) else {
                return Err(roster.into());
            };
            let lease = |peer: &PeerId| self.slots.take_of(peer, order.function);
            let leases: Vec<Lease> = peers.iter().map(lease).collect();
            // One that was cordoned meanwhile may have been seen without its lease.
            if peers.iter().all(|peer| self.may_run(peer, order)) {
                return Ok(Selection { leases, roster });
            }
            roster.ready.extend(peers);
        }
    }
}

/// Who asks for an execution. A head has one token, so that bearing it tells nobody apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Any client over HTTP from this network.
    Network(Network),
    /// A peer that sends `MsgExecute`.
    Peer(PeerId),
    /// The program that the head is part of.
    Program,
}

/// One execution of a client, until this is dropped.
type ClientShare = Counted<Client>;

/// Counts an execution of `client` in `under_way`, of which there are `n_max` at most. A client may have
/// half of what others leave.
///
/// # Errors
/// [`Unavailable`] says whether the client itself has as many as it may.
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
