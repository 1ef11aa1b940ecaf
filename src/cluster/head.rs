//! A head: finds workers for a function, has them run it, and groups what they return.
//!
//! One execution goes through `rollcall.rs` (who is ready), `gather.rs` (work orders out, results
//! in, spares in the place of those that fail) and `report.rs` (code and message). Replies of peers
//! find their execution through `inbox.rs`. Absent on purpose: HTTP, which is `server.rs`.

mod gather;
mod inbox;
mod report;
mod rollcall;
pub mod server;

use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use model::{
    execution::{self, ResultGroup},
    function::{FunctionId, Method},
    node::{PeerId, Subgroup},
};
use task::clock::Clock;
use tokio::{sync::Semaphore, time::timeout};
use tracing::info;
use uuid::Uuid;

use self::inbox::{Inboxes, Reply};
use crate::{
    functions::{Function, Functions},
    message::{Code, RollCallResponse, WorkOrderResponse},
    network::Network,
    peers::{Peer, Peers},
};

/// How long a head waits for workers to report unless the request says otherwise, as b7s does.
pub const ROLL_CALL_WITHIN: Duration = Duration::from_secs(5);

/// The longest a request may have a head wait for workers to report.
pub const ROLL_CALL_WITHIN_MAX: Duration = Duration::from_mins(1);

/// The share of nodes that must answer unless the request says otherwise, as in b7s.
pub const THRESHOLD_DEFAULT: f64 = 0.6;

/// Executions under way at once. More are refused: each may hold a body and its results in memory.
const EXECUTIONS_MAX: u32 = 256;

/// What is to be executed, by whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The function.
    pub function: FunctionId,
    /// The file in it to run.
    pub method: Method,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// The standard input.
    pub stdin: Option<String>,
    /// How many nodes are to run it.
    pub nodes: Wanted,
    /// The group they must belong to; none for the whole cluster.
    pub subgroup: Option<Subgroup>,
    /// How long to wait for them to report.
    pub roll_call_within: Duration,
    /// The share of them that must answer, above 0 and at most 1.
    pub threshold: f64,
    /// What they must declare, in the terms of b7s.
    pub attributes: Option<serde_json::Value>,
}

/// How many nodes are to run a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// So many.
    Exactly(NonZeroUsize),
    /// All that report before the wait is over, one at least.
    Everyone,
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
    /// The nodes that took part, in the order of their ids.
    pub peers: Vec<PeerId>,
}

/// Why a head does not start an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// As many as possible are under way.
    #[error("too many executions are under way; try again later")]
    Busy,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

/// Handle to a head. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Head(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    network: Network,
    peers: Peers,
    functions: Functions,
    subgroups: Vec<Subgroup>,
    clock: Clock,
    inboxes: Inboxes,
    executions: Semaphore,
    is_stopping: AtomicBool,
}

impl Head {
    /// Makes a head that belongs to `subgroups` itself.
    #[must_use]
    pub fn new(
        network: Network,
        functions: Functions,
        peers: Peers,
        subgroups: Vec<Subgroup>,
        clock: Clock,
    ) -> Self {
        Self(Arc::new(Inner {
            network,
            peers,
            functions,
            subgroups,
            clock,
            inboxes: Inboxes::default(),
            executions: Semaphore::new(EXECUTIONS_MAX as usize),
            is_stopping: AtomicBool::new(false),
        }))
    }

    /// Executes `order`, and returns how it went, also where it failed.
    ///
    /// Takes at most [`Order::roll_call_within`] and 40 s. Dropping it ends the head's wait; workers
    /// finish what they run.
    ///
    /// # Errors
    /// [`Unavailable`] if it was not started.
    pub async fn execute(&self, order: Order) -> Result<Execution, Unavailable> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Unavailable::Stopping);
        }
        let _permit = self.0.executions.try_acquire().map_err(|_| Unavailable::Busy)?;
        let request_id = Uuid::new_v4().to_string();
        let mut inbox = self.0.inboxes.open(&request_id, order.function);
        let mut roster = rollcall::call(&self.0, &request_id, &order, &mut inbox).await;
        let Some(chosen) = roster.take_chosen() else {
            let message = report::too_few(&order, &roster, &self.listening(&order));
            return Ok(Execution {
                code: Code::TIMEOUT,
                request_id,
                message,
                groups: Vec::new(),
                peers: Vec::new(),
            });
        };
        let gathered =
            gather::gather(&self.0, &request_id, &order, chosen, (roster, &mut inbox)).await;
        let (code, message) = report::gathered(&gathered, order.threshold);
        let peers = gathered.peers();
        let groups = execution::group(gathered.answers);
        self.0.peers.ran(&groups);
        let (cluster_size, responded) = (peers.len(), groups.iter().map(|g| g.peers.len()).sum());
        let responded: usize = responded;
        info!(
            request = request_id, function = %order.function, cluster_size, responded,
            code = code.as_str(), "received execution responses"
        );
        Ok(Execution { code, request_id, message, groups, peers })
    }

    /// Returns the node's own id and addresses, and its groups beside the general one.
    #[must_use]
    pub fn own(&self) -> (PeerId, Vec<String>, Vec<Subgroup>) {
        let network = &self.0.network;
        (network.peer_id().clone(), network.addresses(), self.0.subgroups.clone())
    }

    /// Returns the peers it knows, by id.
    #[must_use]
    pub fn peers(&self) -> Vec<(PeerId, Peer)> {
        self.0.peers.list()
    }

    /// Returns the functions it holds, by name.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        self.0.functions.list()
    }

    /// Whether any execution is under way.
    #[must_use]
    pub fn is_executing(&self) -> bool {
        self.0.executions.available_permits() < EXECUTIONS_MAX as usize
    }

    /// Starts no more executions, and waits until those under way have ended, at most for `within`.
    /// Returns whether they have.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.is_stopping.store(true, Ordering::Relaxed);
        timeout(within, self.0.executions.acquire_many(EXECUTIONS_MAX)).await.is_ok()
    }

    /// Takes in a worker's answer to a roll call.
    pub(crate) fn reported(&self, peer: PeerId, response: RollCallResponse) {
        let RollCallResponse { code, function_id, request_id, message } = response;
        let reply = if code == Code::ACCEPTED {
            Reply::Ready(peer)
        } else {
            let reason =
                if message.is_empty() { format!("code {}", code.as_str()) } else { message };
            Reply::Refused(peer, reason)
        };
        self.0.inboxes.put_for(&request_id, &function_id, reply);
    }

    /// Takes in a worker's answer to a work order.
    pub(crate) fn answered(&self, peer: PeerId, response: WorkOrderResponse) {
        let request_id = response.request_id.clone();
        self.0.inboxes.put(&request_id, Reply::Answered(peer, Box::new(response)));
    }

    /// Takes in that a peer is gone.
    pub(crate) fn lost(&self, peer: &PeerId) {
        self.0.inboxes.put_everywhere(|| Reply::Gone(peer.clone()));
    }

    fn listening(&self, order: &Order) -> Vec<PeerId> {
        self.0.peers.listening(rollcall::topic(order))
    }
}
