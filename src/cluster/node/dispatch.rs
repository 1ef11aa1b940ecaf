//! Dispatching: what happens on the network goes to whom it concerns.
//!
//! Never waits for the network, since the network waits for it: whatever takes time is a task, and
//! their number is bounded.

use std::sync::Arc;

use bytes::Bytes;
use model::node::PeerId;
use task::group::Group;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};
use tracing::{debug, warn};

use super::Duty;
use crate::{
    functions::Functions,
    message::{FUNCTION_PROTOCOL, Message, MessageError, OFFER_PROTOCOL, Offer, WORK_PROTOCOL},
    network::{Answer, Event},
    peers::Peers,
};

/// Roll calls, and apart from them work orders, handled at once, waiting ones among them. More are
/// dropped, and their heads time out. More than a worker admits, so that it can say no.
const HANDLED_MAX: usize = 512;

/// Peers that are given a function at once: each may hold one of the largest modules in memory.
/// More are told that it is not here, and ask another peer or later.
const GIVING_MAX: usize = 16;

/// The dispatching task's state.
pub(super) struct Dispatch {
    duty: Duty,
    functions: Functions,
    peers: Peers,
    identified: Arc<Notify>,
    group: Group,
    calls: Arc<Semaphore>,
    orders: Arc<Semaphore>,
    giving: Arc<Semaphore>,
}

impl Dispatch {
    pub(super) fn new(
        duty: &Duty,
        functions: &Functions,
        peers: &Peers,
        identified: &Arc<Notify>,
        group: &Group,
    ) -> Self {
        Self {
            duty: duty.clone(),
            functions: functions.clone(),
            peers: peers.clone(),
            identified: Arc::clone(identified),
            group: group.clone(),
            calls: Arc::new(Semaphore::new(HANDLED_MAX)),
            orders: Arc::new(Semaphore::new(HANDLED_MAX)),
            giving: Arc::new(Semaphore::new(GIVING_MAX)),
        }
    }

    /// Runs until the network ends.
    pub(super) async fn run(self, mut events: mpsc::Receiver<Event>) {
        while let Some(event) = events.recv().await {
            self.peers.note(&event);
            match event {
                Event::Gossip { author, bytes, .. } => self.gossiped(author, &bytes),
                Event::Told { peer, protocol, bytes } => self.told(peer, &protocol, &bytes),
                Event::Asked { peer, protocol, bytes, answer } if protocol == FUNCTION_PROTOCOL => {
                    self.asked(&peer, bytes, answer);
                }
                Event::Identified { .. } => self.identified.notify_one(),
                Event::Disconnected(peer) => {
                    if let Duty::Head(head) = &self.duty {
                        head.lost(&peer);
                    }
                }
                _ => {}
            }
        }
    }

    fn gossiped(&self, author: PeerId, bytes: &[u8]) {
        match (&self.duty, Message::read(bytes)) {
            (Duty::Worker(worker), Ok(Message::RollCall(call))) => {
                let worker = worker.clone();
                let work = async move { worker.roll_call(author, call).await };
                self.start("roll call", &self.calls, work);
            }
            // Work orders by gossip are allowed upstream; nobody sends them.
            (_, Ok(_)) => {}
            (_, Err(error)) => dropped(&author, &error),
        }
    }

    fn told(&self, peer: PeerId, protocol: &str, bytes: &[u8]) {
        match protocol {
            WORK_PROTOCOL => match (&self.duty, Message::read(bytes)) {
                (Duty::Head(head), Ok(Message::RollCallResponse(response))) => {
                    head.reported(peer, response);
                }
                (Duty::Head(head), Ok(Message::WorkOrderResponse(response))) => {
                    head.answered(peer, response);
                }
                (Duty::Worker(worker), Ok(Message::WorkOrder(order))) => {
                    let worker = worker.clone();
                    let work = async move { worker.work_order(peer, order).await };
                    self.start("work order", &self.orders, work);
                }
                (_, Ok(_)) => debug!(%peer, "dropped a message that is not for this role"),
                (_, Err(error)) => dropped(&peer, &error),
            },
            OFFER_PROTOCOL => match serde_json::from_slice::<Offer>(bytes) {
                Ok(offer) => self.peers.offered(&peer, &offer),
                Err(error) => debug!(%peer, %error, "dropped an offer"),
            },
            _ => {}
        }
    }

    fn asked(&self, peer: &PeerId, question: Bytes, answer: oneshot::Sender<Answer>) {
        let Ok(permit) = Arc::clone(&self.giving).try_acquire_owned() else {
            debug!(%peer, "gave no function: too many are being given");
            return;
        };
        let functions = self.functions.clone();
        self.group.spawn("give a function", async move {
            let found = functions.answer(&question).await;
            // Whoever asked may be gone.
            drop(answer.send(found));
            drop(permit);
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
        self.group.spawn(name, async move {
            work.await;
            drop(permit);
        });
    }
}

fn dropped(peer: &PeerId, error: &MessageError) {
    debug!(%peer, %error, "dropped a message");
}
