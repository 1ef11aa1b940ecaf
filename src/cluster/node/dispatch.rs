//! Dispatching: routes network events to the role that handles them.
//!
//! The dispatching task never waits for the network, since the network waits for this task. Anything
//! slow runs in another task. The number of these tasks is limited.

use std::sync::Arc;

use bytes::Bytes;
use model::node::{PeerId, Role};
use parking_lot::Mutex;
use task::causes::chain;
use task::tally::Tally;
use tokio::select;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tracing::{debug, warn};
use web::rate_limit::LogLimit;

use super::NodeRole;
use super::offers::Offers;
use crate::message::{
    Code, ExecuteReply, InstallFunction, Message, MessageError, OFFER_PROTOCOL, Offer,
    WORK_PROTOCOL, WorkOrder, json,
};
use crate::network::{Event, Standing};
use crate::peers::{NodeOffer, WorkProtocol};
use crate::worker::Worker;
use crate::{NodeContext, metrics};
use content::Answer;

/// Maximum number of roll calls in progress or waiting. The same limit applies to work orders, which are
/// counted separately. Further messages are dropped, and the heads that sent them time out. A worker
/// admits fewer messages, so that it can respond to the remaining messages with a refusal.
const HANDLED_MAX: usize = 512;

/// Maximum number of installations requested by all unnamed peers together. The rest is reserved for
/// named peers.
const UNNAMED_INSTALLING_MAX: usize = 96;

/// Maximum number of installations requested by one unnamed peer.
const INSTALLING_PER_PEER_MAX: usize = 8;

/// Maximum number of requests for functions that wait for their content. A peer can have a quarter of
/// the number that the others leave. In a large cluster, many nodes request a new function at the same
/// time. Peers beyond this number get no response and try another peer or retry later.
const FUNCTION_REQUESTS_MAX: usize = 512;

/// Response to a client on the network that this head does not accept.
const NOT_ACCEPTED: &str =
    "this head executes only for clients that it accepts: use its REST API with its token";

/// State of the dispatching task.
pub(super) struct Dispatch {
    node_role: NodeRole,
    context: NodeContext,
    offers: Arc<Offers>,
    /// True if the role is a head that executes requests of every peer.
    is_open: bool,
    calls: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    installing: Arc<Semaphore>,
    /// Installations of unnamed peers.
    installers: Tally<PeerId>,
    /// Requests for functions that wait for their content.
    function_requests: Tally<PeerId>,
    /// Limits the log lines about dropped messages.
    dropped: Mutex<LogLimit>,
}

impl Dispatch {
    pub(super) fn new(
        node_role: &NodeRole,
        context: &NodeContext,
        offers: Arc<Offers>,
        is_open: bool,
    ) -> Self {
        Self {
            node_role: node_role.clone(),
            context: context.clone(),
            offers,
            is_open,
            calls: Arc::new(Semaphore::new(HANDLED_MAX)),
            orders: Arc::new(Semaphore::new(HANDLED_MAX)),
            // Most installations wait for a fetch. Installations have separate permits, so that roll
            // calls are still handled.
            installing: Arc::new(Semaphore::new(128)),
            installers: Tally::default(),
            function_requests: Tally::default(),
            dropped: Mutex::default(),
        }
    }

    /// Runs until the network is closed.
    pub(super) async fn run(self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            self.context.peers.note(&event);
            if let Event::Disconnected(peer) = &event {
                self.offers.forget(peer);
                self.context.network.forget(peer);
            }
            match (event, self.node_role.head()) {
                (Event::Gossip { author, topic, bytes }, _) => {
                    self.context.metrics.add(metrics::TOPIC_MESSAGES, &[&topic]);
                    self.handle_gossip(author, &bytes);
                }
                (Event::Message { peer, protocol, bytes }, _) => {
                    self.handle_message(peer, &protocol, &bytes);
                }
                (Event::TooLong { peer, protocol, start }, Some(head))
                    if protocol == WORK_PROTOCOL =>
                {
                    head.note_long_answer(&peer, &start);
                }
                (Event::TooLong { peer, .. }, _) => self.context.network.blame(&peer),
                (Event::Crowded { peer, start }, head) => {
                    debug!(%peer, "dropped a message: too much memory is in use");
                    if let Some(head) = head {
                        head.note_dropped_answer(&peer, &start);
                    }
                }
                (Event::Question { peer, bytes, answer }, _) => {
                    self.answer_function_request(&peer, bytes, answer);
                }
                (Event::LineOpened { peer, line, frames, .. }, _) => {
                    if let NodeRole::Worker(worker) = self.node_role.clone() {
                        let work = async move { worker.serve_line(peer, line, frames).await };
                        self.context.group.spawn("line", work);
                    }
                }
                (Event::Identified { peer, .. }, _) => self.offers.greet(&peer),
                (Event::Connected(peer), Some(head)) => head.note_connected(&peer),
                (Event::Disconnected(peer), Some(head)) => head.note_disconnected(&peer),
                (Event::Disconnected(peer), None) => {
                    if let Some(worker) = self.node_role.worker() {
                        worker.note_disconnected(&peer);
                    }
                }
                _ => {}
            }
        }
    }

    fn handle_gossip(&self, author: PeerId, bytes: &[u8]) {
        let Some(message) = self.read(&author, bytes) else { return };
        match (&self.node_role, message) {
            (NodeRole::Worker(worker), Message::RollCall(call)) => {
                let worker = worker.clone();
                let work = async move { worker.roll_call(author, call).await };
                self.start("roll call", &self.calls, work);
            }
            (_, Message::InstallFunction(install)) => self.install(author, install),
            // Work orders by gossip are ignored. b7s nodes would accept them, but never send them that
            // way.
            _ => {}
        }
    }

    fn handle_message(&self, peer: PeerId, protocol: &str, bytes: &[u8]) {
        self.context.metrics.add(metrics::DIRECT_MESSAGES, &[]);
        match protocol {
            // The peer might have opened the stream while it was still allowed.
            WORK_PROTOCOL if !self.context.network.allows(&peer) => {
                debug!(%peer, "dropped a message of a peer that is not allowed");
            }
            WORK_PROTOCOL => {
                if let Some(message) = self.read(&peer, bytes) {
                    self.handle_work_message(peer, message);
                }
            }
            OFFER_PROTOCOL => match serde_json::from_slice::<Offer>(bytes) {
                Ok(offer) => {
                    // The messages of peers that wait for approval do not count as valid, so that these
                    // peers are disconnected first if there are too many connections.
                    if self.context.network.allows(&peer) {
                        self.vouch(&peer);
                    }
                    let offer = Arc::new(NodeOffer::read(&offer));
                    let is_worker = offer.role == Some(Role::Worker);
                    if is_worker && self.node_role.role() == Role::Worker {
                        self.context.network.neighbor(&peer);
                    }
                    let was_worker = self.context.peers.is_worker(&peer);
                    self.context.peers.note_offer(&peer, Arc::clone(&offer));
                    if is_worker && !was_worker && self.node_role.role() == Role::Worker {
                        // Before its role was known, the peer might have received an offer with slots,
                        // which must be replaced.
                        self.offers.greet_worker(&peer);
                    }
                    if let Some(head) = self.node_role.head() {
                        head.note_offer(&peer, offer);
                    }
                }
                Err(error) => {
                    self.context.network.blame(&peer);
                    debug!(%peer, %error, "dropped an offer");
                }
            },
            _ => {}
        }
    }

    /// Handles a message of the work protocol.
    fn handle_work_message(&self, peer: PeerId, message: Message) {
        match (&self.node_role, message) {
            (NodeRole::Head(head), Message::RollCallResponse(response)) => {
                head.note_roll_call_reply(&peer, response);
            }
            (NodeRole::Head(head), Message::WorkOrderResponse(response)) => {
                head.note_answer(&peer, response);
            }
            (NodeRole::Head(head), Message::ExecuteResponse(response)) => {
                head.note_execute_response(&peer, response);
            }
            (NodeRole::Head(_), Message::Execute(request)) if !self.serves(&peer) => {
                self.refuse(peer, request.order.request_id);
            }
            (NodeRole::Head(head), Message::Execute(request)) => {
                let head = head.clone();
                let work = async move { head.execute_for_peer(peer, request).await };
                self.start("execution", &self.orders, work);
            }
            (NodeRole::Worker(worker), Message::WorkOrder(order)) => {
                self.order(worker, peer, order, WorkProtocol::B7sV2);
            }
            (NodeRole::Worker(worker), Message::Execute(request)) => {
                self.order(worker, peer, request.order, WorkProtocol::B7sV1);
            }
            (_, Message::InstallFunction(install)) => self.install(peer, install),
            (NodeRole::Worker(worker), Message::EvictFunctions(request)) => {
                let (worker, head) = (worker.clone(), peer.clone());
                let work = async move { worker.evict(head, request).await };
                self.start_counted("eviction", &peer, work);
            }
            (NodeRole::Head(head), Message::EvictFunctionsResponse(report)) => {
                head.note_evicted(peer, report);
            }
            (NodeRole::Head(head), Message::InstallFunctionResponse(response)) => {
                head.note_installed(peer, response);
            }
            _ => debug!(%peer, "dropped a message that is not for this role"),
        }
    }

    /// Returns true if this node is a head that executes requests of `client`.
    fn serves(&self, client: &PeerId) -> bool {
        self.is_open || self.context.network.allows_by_name(client)
    }

    /// Refuses a request of `client`.
    fn refuse(&self, client: PeerId, request_id: String) {
        debug!(peer = %client, "refused to execute for a peer that is not accepted");
        let message = Message::ExecuteResponse(ExecuteReply {
            request_id,
            code: Code::FORBIDDEN,
            message: NOT_ACCEPTED.to_owned(),
            from: self.context.network.peer_id().to_string(),
            ..ExecuteReply::default()
        });
        let network = self.context.network.clone();
        self.start("refusal", &self.orders, async move {
            if let Err(error) = network.tell(&client, WORK_PROTOCOL, &json(&message)).await {
                debug!(peer = %client, %error, "a refusal did not reach its client");
            }
        });
    }

    fn order(&self, worker: &Worker, head: PeerId, order: WorkOrder, version: WorkProtocol) {
        let worker = worker.clone();
        let work = async move { worker.work_order(head, order, version).await };
        self.start("work order", &self.orders, work);
    }

    fn install(&self, author: PeerId, install: InstallFunction) {
        let NodeRole::Worker(worker) = &self.node_role else { return };
        let (worker, peer) = (worker.clone(), author.clone());
        let work = async move { worker.install(author, install).await };
        self.start_counted("installation", &peer, work);
    }

    /// Starts an installation or an eviction requested by `author`. Unnamed peers leave room for named
    /// peers, no matter how slowly they receive their responses.
    fn start_counted(
        &self,
        name: &'static str,
        author: &PeerId,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let is_named = self.context.network.standing(author) == Standing::Named;
        let counted = self.installers.add(author, |n_own, n_others| {
            n_own < INSTALLING_PER_PEER_MAX && n_own + n_others < UNNAMED_INSTALLING_MAX
        });
        if counted.is_none() && !is_named {
            debug!(peer = %author, "dropped an {name}: too many of its peer are in progress");
            return;
        }
        // Named peers are limited only by the total.
        let counted = counted.filter(|_| !is_named);
        self.start(name, &self.installing, async move {
            work.await;
            drop(counted);
        });
    }

    /// Records that `peer` sent a valid message, unless it is not connected. The number of authors of
    /// relayed gossip is not limited.
    fn vouch(&self, peer: &PeerId) {
        if self.context.peers.is_connected(peer) {
            self.context.network.vouch(peer);
        }
    }

    /// Parses and counts a message.
    fn read(&self, peer: &PeerId, bytes: &[u8]) -> Option<Message> {
        match Message::read(bytes) {
            Ok(message) => {
                self.vouch(peer);
                self.context.metrics.add(metrics::PROCESSED, &[message.kind()]);
                self.context.metrics.add(metrics::PROCESSED_OK, &[message.kind()]);
                Some(message)
            }
            Err(error) => {
                let reason = chain(&error);
                debug!(%peer, reason, "dropped a message");
                if matches!(error, MessageError::Unknown) {
                    // Nodes of b7s send messages that this program does not need.
                    self.context.metrics.add(metrics::PROCESSED, &["unknown"]);
                    return None;
                }
                // The connection might have been closed in the middle of the message.
                if !matches!(&error, MessageError::Malformed(error) if error.is_eof()) {
                    self.context.network.blame(peer);
                }
                if let Some(head) = self.node_role.head() {
                    head.note_malformed(peer, bytes, &reason);
                }
                self.context.metrics.add(metrics::PROCESSED, &["malformed"]);
                self.context.metrics.add(metrics::PROCESSED_ERR, &["malformed"]);
                None
            }
        }
    }

    fn answer_function_request(
        &self,
        peer: &PeerId,
        question: Bytes,
        mut answer: oneshot::Sender<Answer>,
    ) {
        let place = self.function_requests.add(peer, |n_own, n_others| {
            n_own < FUNCTION_REQUESTS_MAX.saturating_sub(n_others).div_ceil(4)
        });
        let Some(place) = place else {
            debug!(%peer, "dropped a request for a function: there are too many");
            return;
        };
        let functions = self.context.functions.clone();
        let requester = self.context.network.standing(peer).requester(peer);
        self.context.group.spawn("send a function", async move {
            let found = select! {
                found = functions.answer(requester, &question) => found,
                // The peer is not waiting any more.
                () = answer.closed() => return,
            };
            // Fails in the same case.
            drop(answer.send(found));
            drop(place);
        });
    }

    fn start(
        &self,
        name: &'static str,
        handled: &Arc<Semaphore>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let Ok(permit) = Arc::clone(handled).try_acquire_owned() else {
            let (is_logged, n_before) = self.dropped.lock().admit(Instant::now(), 1);
            if is_logged {
                warn!(n_before, "dropped a {name}: too many are in progress");
            }
            return;
        };
        self.context.group.spawn(name, async move {
            work.await;
            drop(permit);
        });
    }
}
