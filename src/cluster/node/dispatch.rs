//! Dispatching: what happens on the network goes to whom it concerns.
//!
//! Never waits for the network, since the network waits for it: whatever takes time is a task, and
//! their number is bounded.

use std::sync::Arc;

use bytes::Bytes;
use model::node::{PeerId, Role};
use task::tally::Tally;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tracing::{debug, warn};

use super::{NodeRole, offers::Identified};
use crate::{
    message::{
        Code, ExecuteReply, InstallFunction, Message, MessageError, OFFER_PROTOCOL, Offer,
        WORK_PROTOCOL, WorkOrder, json,
    },
    metrics,
    network::Event,
    node_context::NodeContext,
    peers::WorkProtocol,
    worker::Worker,
};
use content::Answer;

/// Roll calls, and apart from them work orders, handled at once, waiting ones among them. More are
/// dropped, and their heads time out. More than a worker admits, so that it can say no.
const HANDLED_MAX: usize = 512;

/// Installations of all peers together that were not named to this node. The others are left to named
/// ones.
const UNNAMED_INSTALLING_MAX: usize = 96;

/// Installations of one such peer: a dozen of hostile ones are needed to keep other strangers out.
const INSTALLING_PER_PEER_MAX: usize = 8;

/// What a client on the network that this head does not accept is answered.
const NOT_ACCEPTED: &str =
    "this head executes for clients that it accepts alone: use its REST API with its token";

/// The dispatching task's state.
pub(super) struct Dispatch {
    node_role: NodeRole,
    context: NodeContext,
    identified: Arc<Identified>,
    /// Whether it executes for all peers, not only for those it accepts.
    is_open: bool,
    calls: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    installing: Arc<Semaphore>,
    /// Installations of peers that were not named to this node.
    installers: Tally<PeerId>,
    giving: Arc<Semaphore>,
    asking: Arc<Semaphore>,
}

impl Dispatch {
    pub(super) fn new(
        node_role: &NodeRole,
        context: &NodeContext,
        identified: &Arc<Identified>,
        is_open: bool,
    ) -> Self {
        Self {
            node_role: node_role.clone(),
            context: context.clone(),
            identified: Arc::clone(identified),
            is_open,
            calls: Arc::new(Semaphore::new(HANDLED_MAX)),
            orders: Arc::new(Semaphore::new(HANDLED_MAX)),
            // Most of them wait for a fetch. They have permits of their own, so that roll calls are answered.
            installing: Arc::new(Semaphore::new(128)),
            installers: Tally::default(),
            // Each may hold one of the largest modules in memory.
            giving: Arc::new(Semaphore::new(16)),
            // A large cluster that hears of a new function asks for it at one time. Further peers get no answer,
            // and ask another peer or later.
            asking: Arc::new(Semaphore::new(512)),
        }
    }

    /// Runs until the network ends.
    pub(super) async fn run(self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            self.context.peers.note(&event);
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
                (Event::TooLong { peer, .. }, _) => self.context.network.blame_too_long(&peer),
                (Event::Question { peer, bytes, answer }, _) => {
                    self.answer_function_request(&peer, bytes, answer);
                }
                (Event::LineOpened { peer, line, frames, .. }, _) => {
                    if let NodeRole::Worker(worker) = self.node_role.clone() {
                        let work = async move { worker.serve_line(peer, line, frames).await };
                        self.context.group.spawn("line", work);
                    }
                }
                (Event::Identified { peer, .. }, _) => self.identified.add(peer),
                (Event::Connected(peer), Some(head)) => head.note_connected(&peer),
                (Event::Pinged { peer, round_trip }, Some(head)) => {
                    head.note_ping(&peer, round_trip);
                }
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
            // Work orders by gossip are allowed upstream; nobody sends them.
            _ => {}
        }
    }

    fn handle_message(&self, peer: PeerId, protocol: &str, bytes: &[u8]) {
        self.context.metrics.add(metrics::DIRECT_MESSAGES, &[]);
        match protocol {
            WORK_PROTOCOL => {
                if let Some(message) = self.read(&peer, bytes) {
                    self.handle_work_message(peer, message);
                }
            }
            OFFER_PROTOCOL => match serde_json::from_slice::<Offer>(bytes) {
                Ok(offer) => {
                    // Under pressure, those that wait to be approved are parted with first.
                    if self.context.network.hears(&peer) {
                        self.context.network.vouch(&peer);
                    }
                    let is_worker = offer.role.parse() == Ok(Role::Worker);
                    if is_worker && self.node_role.role() == Role::Worker {
                        self.context.network.neighbor(&peer);
                    }
                    let was_worker = self.context.peers.is_worker(&peer);
                    self.context.peers.note_offer(&peer, &offer);
                    if is_worker && !was_worker && self.node_role.role() == Role::Worker {
                        // It may have been told of slots.
                        self.identified.add(peer.clone());
                    }
                    if let Some(head) = self.node_role.head() {
                        head.note_offer(&peer, &offer);
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

    /// Takes in a message of the protocol of work.
    fn handle_work_message(&self, peer: PeerId, message: Message) {
        match (&self.node_role, message) {
            (NodeRole::Head(head), Message::RollCallResponse(response)) => {
                head.note_roll_call_reply(peer, response);
            }
            (NodeRole::Head(head), Message::WorkOrderResponse(response)) => {
                head.note_answer(peer, response);
            }
            (NodeRole::Head(head), Message::ExecuteResponse(response)) => {
                head.note_execute_response(peer, response);
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

    /// Whether a head executes what `client` asks for.
    fn serves(&self, client: &PeerId) -> bool {
        self.is_open || self.context.network.trusts(client)
    }

    /// Tells `client` that nothing is executed for it.
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

    /// Starts an installation or an eviction of `author`. Peers that were not named to this node leave
    /// room to those that were, however long they take to receive their responses.
    fn start_counted(
        &self,
        name: &'static str,
        author: &PeerId,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let is_named = self.context.network.knows_by_name(author);
        let counted = self.installers.add(author, |n_own, n_others| {
            n_own < INSTALLING_PER_PEER_MAX && n_own + n_others < UNNAMED_INSTALLING_MAX
        });
        if counted.is_none() && !is_named {
            debug!(peer = %author, "dropped an {name}: too many of its peer are being handled");
            return;
        }
        // Those of named peers are bounded only by the number of all.
        let counted = counted.filter(|_| !is_named);
        self.start(name, &self.installing, async move {
            work.await;
            drop(counted);
        });
    }

    /// Reads a message, and counts it.
    fn read(&self, peer: &PeerId, bytes: &[u8]) -> Option<Message> {
        match Message::read(bytes) {
            Ok(message) => {
                self.context.network.vouch(peer);
                self.context.metrics.add(metrics::PROCESSED, &[message.kind()]);
                self.context.metrics.add(metrics::PROCESSED_OK, &[message.kind()]);
                Some(message)
            }
            Err(error) => {
                let kind = match &error {
                    MessageError::Unknown => "unknown",
                    MessageError::Malformed(_) | MessageError::LongId { .. } => {
                        self.context.network.blame(peer);
                        "malformed"
                    }
                };
                self.context.metrics.add(metrics::PROCESSED, &[kind]);
                self.context.metrics.add(metrics::PROCESSED_ERR, &[kind]);
                debug!(%peer, %error, "dropped a message");
                None
            }
        }
    }

    fn answer_function_request(
        &self,
        peer: &PeerId,
        question: Bytes,
        answer: oneshot::Sender<Answer>,
    ) {
        let Ok(place) = Arc::clone(&self.asking).try_acquire_owned() else {
            debug!(%peer, "gave no function: too many ask for one");
            return;
        };
        let (functions, giving) = (self.context.functions.clone(), Arc::clone(&self.giving));
        self.context.group.spawn("give a function", async move {
            let Ok(_permit) = giving.acquire().await else { return };
            let found = functions.answer(&question).await;
            // The peer may be gone.
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
            warn!("dropped a {name}: too many are being handled");
            return;
        };
        self.context.group.spawn(name, async move {
            work.await;
            drop(permit);
        });
    }
}
