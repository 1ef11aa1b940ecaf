//! A worker: answers roll calls it can serve, and runs work orders.
//!
//! It answers yes where it has a free slot and holds the function, which it first fetches from a
//! peer if need be, the roll call's author before all. A work order then waits shortly for a slot
//! and runs in this process, contained by room `runtime`. Absent on purpose: who may give orders; a
//! worker serves every head of its network, as b7s ones do.

mod executor;

use std::{
    collections::BTreeSet,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use model::{
    function::{FunctionError, FunctionId, Method},
    node::PeerId,
};
use parking_lot::Mutex;
use runtime::run::Limits;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};
use tracing::{debug, info, warn};

pub use self::executor::StartError;
use self::executor::{Executor, ExecutorError};
use crate::{
    functions::{FetchError, Functions},
    message::{
        Code, FUNCTION_PROTOCOL, Message, NodeResult, RollCall, RollCallResponse, WORK_PROTOCOL,
        WorkOrder, WorkOrderResponse, json,
    },
    network::{MESSAGE_BYTES_MAX, Network},
    peers::Peers,
};

/// Functions that a node runs at once unless told otherwise, by document 1. More than 65535 count as
/// so many.
pub const CONCURRENCY_DEFAULT: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// What a function may use unless told otherwise. Its 18 s end 2 s before a head stops waiting for
/// the answer, so that the head still hears that the time was up. 256 MiB hold any demo and most
/// models. 1 MiB of output grows to at most [`MESSAGE_BYTES_MAX`] as JSON, unless most of it is
/// control characters; then the head is told so.
pub const LIMITS_DEFAULT: Limits = Limits {
    wall: Duration::from_secs(18),
    memory_bytes: 256 * 1024 * 1024,
    output_bytes: 1024 * 1024,
};

/// Roll calls handled at once, most of them waiting for a function. More are not answered.
const CALLS_MAX: usize = 256;

/// Work orders that wait for a slot, as many as a head has under way, so that one head alone is never
/// refused for this. More are refused.
const WAITING_MAX: u32 = 256;

/// How long a work order waits for a slot: heads that asked at one time fill the slots they were
/// all promised.
const SLOT_WITHIN: Duration = Duration::from_secs(5);

/// How a worker is sized.
#[derive(Debug, Clone, Copy)]
pub struct WorkerOptions {
    /// How many functions it runs at once.
    pub concurrency: NonZeroU32,
    /// What each may use.
    pub limits: Limits,
}

/// Handle to a worker. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    network: Network,
    functions: Functions,
    peers: Peers,
    executor: Executor,
    n_slots: u16,
    slots: Semaphore,
    /// Work orders from their coming to their answer's going.
    orders: Semaphore,
    /// The roll calls being handled, by author and request.
    calls: Mutex<BTreeSet<(PeerId, String)>>,
    is_stopping: AtomicBool,
}

/// Why a worker does not do what a head asks.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("consensus is not supported")]
    Consensus,
    #[error("read the request")]
    Request(#[from] FunctionError),
    #[error("the node is stopping")]
    Stopping,
    #[error("no free slot: all {n_slots} are taken")]
    Full { n_slots: u16 },
    #[error("get the function")]
    Fetch(#[from] FetchError),
    #[error("the function is not here")]
    Missing,
    #[error("the function's file is {has}, not {wanted}")]
    Method { has: Method, wanted: Method },
    #[error("run the function")]
    Run(#[from] ExecutorError),
    #[error("the result has {n_bytes} bytes as a message, more than {MESSAGE_BYTES_MAX}")]
    TooLong { n_bytes: usize },
}

/// A roll call that is being handled. Published again meanwhile, it is not handled twice.
struct Call<'a> {
    calls: &'a Mutex<BTreeSet<(PeerId, String)>>,
    call: (PeerId, String),
}

impl<'a> Call<'a> {
    fn admitted(
        calls: &'a Mutex<BTreeSet<(PeerId, String)>>,
        author: &PeerId,
        request_id: &str,
    ) -> Option<Self> {
        let call = (author.clone(), request_id.to_owned());
        let mut admitted = calls.lock();
        let is_admitted = admitted.len() < CALLS_MAX && admitted.insert(call.clone());
        is_admitted.then(|| Self { calls, call })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.call);
    }
}

impl Refusal {
    fn code(&self) -> Code {
        match self {
            Self::Missing | Self::Method { .. } | Self::Fetch(_) => Code::NOT_FOUND,
            _ => Code::ERROR,
        }
    }

    /// The whole chain of causes as one text, for the head's user.
    fn told(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

impl Worker {
    /// Makes a worker.
    ///
    /// # Errors
    /// [`StartError`] if the runtime cannot be set up.
    pub fn new(
        network: Network,
        functions: Functions,
        peers: Peers,
        options: WorkerOptions,
    ) -> Result<Self, StartError> {
        let WorkerOptions { concurrency, limits } = options;
        let n_slots = u16::try_from(concurrency.get()).unwrap_or(u16::MAX);
        let n_orders = usize::from(n_slots) + WAITING_MAX as usize;
        Ok(Self(Arc::new(Inner {
            executor: Executor::new(functions.clone(), concurrency, limits)?,
            network,
            functions,
            peers,
            n_slots,
            slots: Semaphore::new(n_slots.into()),
            orders: Semaphore::new(n_orders),
            calls: Mutex::default(),
            is_stopping: AtomicBool::new(false),
        })))
    }

    /// How many functions it runs at once, and how many more it could run now.
    #[must_use]
    pub fn slots(&self) -> (usize, usize) {
        (self.0.n_slots.into(), self.0.slots.available_permits())
    }

    /// Answers a roll call of `author`, once it has the function. A roll call that asks for
    /// attributes is not answered, since this node declares none. Cancel-safe.
    pub async fn roll_call(&self, author: PeerId, call: RollCall) {
        let RollCall { function_id, request_id, .. } = &call;
        info!(function = function_id, request = request_id, peer = %author, "received roll call request");
        if call.attributes.is_some() {
            return;
        }
        let Some(_call) = Call::admitted(&self.0.calls, &author, request_id) else {
            debug!(request = request_id, "ignored a roll call: it or too many are being handled");
            return;
        };
        let (code, message) = match self.readied(&author, &call).await {
            Ok(()) => (Code::ACCEPTED, String::new()),
            Err(refusal) => (refusal.code(), refusal.told()),
        };
        info!(
            function = function_id, request = request_id, peer = %author,
            code = code.as_str(), reason = message, "reporting for roll call"
        );
        let response = Message::RollCallResponse(RollCallResponse {
            code,
            function_id: call.function_id,
            request_id: call.request_id,
            message,
        });
        self.tell(&author, &json(&response)).await;
    }

    /// Runs a work order of `head` and tells it the outcome. Dropping it ends the run.
    pub async fn work_order(&self, head: PeerId, order: WorkOrder) {
        let request = order.request_id.clone();
        let began = Instant::now();
        let admitted = self.0.orders.try_acquire();
        let outcome = match &admitted {
            Ok(_) => self.outcome(&head, &order).await,
            Err(_) => Err(Refusal::Full { n_slots: self.0.n_slots }),
        };
        let response = match outcome {
            Ok(response) => response,
            Err(refusal) => {
                warn!(request, peer = %head, reason = refusal.told(), "refused a work order");
                let code = refusal.code();
                json(&Message::WorkOrderResponse(WorkOrderResponse {
                    request_id: order.request_id,
                    code,
                    error_message: refusal.told(),
                    ..WorkOrderResponse::default()
                }))
            }
        };
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(request, peer = %head, elapsed_ms, "answered a work order");
        self.tell(&head, &response).await;
    }

    /// Takes no more work, and waits until what runs has ended and was answered, at most for
    /// `within`. Returns whether it has.
    pub async fn drain(&self, within: Duration) -> bool {
        self.0.is_stopping.store(true, Ordering::Relaxed);
        let n_orders = u32::from(self.0.n_slots) + WAITING_MAX;
        timeout(within, self.0.orders.acquire_many(n_orders)).await.is_ok()
    }

    async fn readied(&self, author: &PeerId, call: &RollCall) -> Result<(), Refusal> {
        if call.consensus != 0 {
            return Err(Refusal::Consensus);
        }
        let id: FunctionId = call.function_id.parse()?;
        self.check_free()?;
        self.fetched(author, id).await?;
        self.check_free()
    }

    fn check_free(&self) -> Result<(), Refusal> {
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        if self.0.slots.available_permits() == 0 {
            return Err(Refusal::Full { n_slots: self.0.n_slots });
        }
        Ok(())
    }

    /// Sees to it that function `id` is kept: asks `author` for it first, then those who say they
    /// hold it, then the rest.
    async fn fetched(&self, author: &PeerId, id: FunctionId) -> Result<(), Refusal> {
        if self.0.functions.get(id).is_some() {
            return Ok(());
        }
        let speaking = self.0.peers.speaking(FUNCTION_PROTOCOL);
        let mut asked: Vec<PeerId> = Vec::new();
        for peer in
            [author.clone()].into_iter().chain(self.0.peers.holding(id)).chain(speaking.clone())
        {
            if speaking.contains(&peer) && !asked.contains(&peer) {
                asked.push(peer);
            }
        }
        self.0.functions.obtain(id, &self.0.network, &asked).await?;
        Ok(())
    }

    /// Runs a work order and returns the message that tells the outcome.
    async fn outcome(&self, head: &PeerId, order: &WorkOrder) -> Result<Vec<u8>, Refusal> {
        let id: FunctionId = order.function_id.parse()?;
        let wanted: Method = order.method.parse()?;
        let full = || Refusal::Full { n_slots: self.0.n_slots };
        if self.0.is_stopping.load(Ordering::Relaxed) {
            return Err(Refusal::Stopping);
        }
        let slot = timeout(SLOT_WITHIN, self.0.slots.acquire()).await;
        let _slot = slot.map_err(|_| full())?.map_err(|_| Refusal::Stopping)?;
        let result = self.ran(head, order, (id, &wanted)).await?;
        info!(function = %id, request = order.request_id, code = result.code.as_str(), "execution complete");
        let response = json(&Message::WorkOrderResponse(WorkOrderResponse {
            request_id: order.request_id.clone(),
            code: result.code.clone(),
            result,
            error_message: String::new(),
        }));
        if response.len() > MESSAGE_BYTES_MAX {
            return Err(Refusal::TooLong { n_bytes: response.len() });
        }
        Ok(response)
    }

    /// Runs a work order. Where the function went or proves damaged since the roll call, it is fetched
    /// once more.
    async fn ran(
        &self,
        head: &PeerId,
        order: &WorkOrder,
        (id, wanted): (FunctionId, &Method),
    ) -> Result<NodeResult, Refusal> {
        for _ in 0..2 {
            self.fetched(head, id).await?;
            let Some(function) = self.0.functions.get(id) else { continue };
            if function.method != *wanted {
                return Err(Refusal::Method { has: function.method, wanted: wanted.clone() });
            }
            let peer_id = self.0.network.peer_id();
            if let Some(result) = self.0.executor.run(&function, order, peer_id).await? {
                return Ok(result);
            }
        }
        Err(Refusal::Missing)
    }

    async fn tell(&self, peer: &PeerId, message: &[u8]) {
        if let Err(error) = self.0.network.tell(peer, WORK_PROTOCOL, message).await {
            warn!(%peer, %error, "an answer did not reach its head");
        }
    }
}
