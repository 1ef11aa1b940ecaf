//! Offers: sends the state of this node to peers when they connect and when it changes.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use model::function::FunctionId;
use model::node::{PeerId, Subgroup};
use parking_lot::Mutex;
use tokio::select;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::NodeRole;
use crate::NodeContext;
use crate::message::{OFFER_PROTOCOL, Offer, json};
use crate::worker::Worker;

/// Delay of an offer after a change. Also the minimum interval between offers of a busy node, whose free
/// slots change with each run.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval at which an unchanged offer is repeated, in case one was lost. Heads consider an offer valid
/// for more than twice as long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Interval at which an unchanged offer is repeated to a worker, which only needs to know sources of
/// functions. The interval is longer because many workers send offers to each other.
const AGAIN_AFTER_TO_WORKERS: Duration = Duration::from_mins(1);

/// Maximum number of simultaneous sends, not counting slow sends.
const PROMPT_MAX: usize = 256;

/// Sends the offers of a node. Each receiver has its own task, so that a stalled receiver does not delay
/// the other receivers.
pub(super) struct Offers {
    context: NodeContext,
    node_role: NodeRole,
    subgroups: Vec<Subgroup>,
    /// Latest offer, without slots and attributes.
    latest: watch::Sender<Arc<Offer>>,
    /// Receivers. If a receiver's bell is notified, it gets an offer immediately.
    receivers: Mutex<HashMap<PeerId, Arc<Notify>>>,
    permits: Semaphore,
}

impl Offers {
    pub(super) fn new(
        context: NodeContext,
        node_role: NodeRole,
        subgroups: Vec<Subgroup>,
    ) -> Arc<Self> {
        let offers = Self {
            context,
            node_role,
            subgroups,
            latest: watch::Sender::default(),
            receivers: Mutex::default(),
            permits: Semaphore::new(PROMPT_MAX),
        };
        offers.latest.send_replace(Arc::new(offers.offer()));
        Arc::new(offers)
    }

    /// Updates the offer after changes, at most once a second. Runs until dropped.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let worker = self.node_role.worker();
            if !worker.is_some_and(Worker::is_busy) {
                let slots_changed = async {
                    match worker {
                        Some(worker) => worker.slots_changed().await,
                        None => pending().await,
                    }
                };
                select! {
                    () = self.context.functions.changed() => {}
                    () = slots_changed => {}
                }
            }
            sleep(LOOK_EVERY).await;
            // This wakes the receivers even if the offer is unchanged, since their slots, which it
            // omits, might have changed.
            self.latest.send_replace(Arc::new(self.offer()));
        }
    }

    /// Sends offers to a peer that has identified itself, from now until it is disconnected. Does
    /// nothing if the peer identifies itself again on the same connection.
    pub(super) fn greet(self: &Arc<Self>, peer: &PeerId) {
        let mut receivers = self.receivers.lock();
        if receivers.contains_key(peer) || !self.context.peers.speaks(peer, OFFER_PROTOCOL) {
            return;
        }
        self.update();
        let bell = Arc::new(Notify::new());
        receivers.insert(peer.clone(), Arc::clone(&bell));
        let (offers, peer) = (Arc::clone(self), peer.clone());
        self.context.group.spawn("offers", async move { offers.serve(&peer, &bell).await });
    }

    /// Sends an offer for workers to a peer that has become known as a worker.
    pub(super) fn greet_worker(&self, peer: &PeerId) {
        self.update();
        if let Some(bell) = self.receivers.lock().get(peer) {
            bell.notify_one();
        }
    }

    /// Stops sending offers to a disconnected peer. If it reconnects, [`Self::greet`] sends it the
    /// latest offer, even if that is unchanged.
    pub(super) fn forget(&self, peer: &PeerId) {
        if let Some(bell) = self.receivers.lock().remove(peer) {
            bell.notify_one();
        }
    }

    fn update(&self) {
        let offer = self.offer();
        self.latest.send_if_modified(|latest| {
            let has_changed = **latest != offer;
            *latest = Arc::new(offer);
            has_changed
        });
    }

    /// Sends a peer offers that are due, until it is disconnected.
    async fn serve(&self, peer: &PeerId, bell: &Arc<Notify>) {
        let peers = &self.context.peers;
        let mut latest = self.latest.subscribe();
        // Latest offer that the peer received, and its time.
        let mut last: Option<(Arc<Offer>, Instant)> = None;
        loop {
            let n_receivers = {
                let mut receivers = self.receivers.lock();
                if !receivers.get(peer).is_some_and(|current| Arc::ptr_eq(current, bell)) {
                    return;
                }
                if !peers.speaks(peer, OFFER_PROTOCOL) {
                    receivers.remove(peer);
                    return;
                }
                receivers.len()
            };
            let is_worker = peers.is_worker(peer);
            let offer = Arc::clone(&latest.borrow_and_update());
            let offer = if is_worker { offer } else { self.offer_for(peer, &offer) };
            let due = last.as_ref().map(|(last, at)| {
                let is_same = *last == offer;
                *at + wait_before(n_receivers, is_worker, is_same)
            });
            let now = Instant::now();
            let next = match due.filter(|due| *due > now) {
                Some(due) => due,
                None if self.send(peer, &offer).await => {
                    last = Some((offer, now));
                    now + wait_before(n_receivers, is_worker, true)
                }
                None => {
                    last = None;
                    Instant::now() + LOOK_EVERY
                }
            };
            select! {
                () = bell.notified() => last = None,
                _ = latest.changed() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Sends an offer. Returns false if it did not arrive.
    async fn send(&self, peer: &PeerId, offer: &Offer) -> bool {
        let message = json(offer);
        let sending = self.context.network.tell(peer, OFFER_PROTOCOL, &message);
        let sent = limited(&self.permits, sending).await;
        if let Err(error) = &sent {
            debug!(%peer, %error, "an offer did not reach a peer");
        }
        sent.is_ok()
    }

    /// Returns the offer for workers. The offer omits the slots, which change with each run, and the
    /// attributes, since workers need neither.
    fn offer(&self) -> Offer {
        // If there are too many functions, those that were only fetched for strangers are omitted first.
        let mut functions = self.context.functions.foremost(256);
        // Sorted, so that the order does not change with each run.
        functions.sort();
        let ready = self.node_role.worker().map(Worker::ready).unwrap_or_default();
        let is_ready = |id: &&FunctionId| ready.contains(*id);
        Offer {
            role: self.node_role.role().to_string(),
            subgroups: self.subgroups.iter().map(Subgroup::to_string).collect(),
            ready: functions.iter().filter(is_ready).map(FunctionId::to_string).collect(),
            functions: functions.iter().map(FunctionId::to_string).collect(),
            ..Offer::default()
        }
    }

    /// Returns the offer for a peer that is not a worker, with the slots that it may use.
    fn offer_for(&self, peer: &PeerId, offer: &Arc<Offer>) -> Arc<Offer> {
        let Some(worker) = self.node_role.worker() else { return Arc::clone(offer) };
        let (slots, slots_free) = worker.slots_for(peer);
        let attributes = worker.attributes();
        Arc::new(Offer { slots, slots_free, attributes, ..(**offer).clone() })
    }
}

/// Returns the minimum time between two offers to the same receiver, if there are `n_receivers`.
/// `is_worker` is true if the receiver is a worker, and `is_same` if the offer is unchanged.
fn wait_before(n_receivers: usize, is_worker: bool, is_same: bool) -> Duration {
    match (is_worker, is_same) {
        (true, true) => {
            let n_receivers = u32::try_from(n_receivers).unwrap_or(u32::MAX);
            // At least 20 ms per receiver: a head of ten thousand workers sends fifty offers a second,
            // which is one every few minutes to each worker.
            AGAIN_AFTER_TO_WORKERS.max(Duration::from_millis(20).saturating_mul(n_receivers))
        }
        // Without this delay, two hundred workers that run a function for the first time would all send
        // offers to their neighbors during that run.
        (true, false) => Duration::from_secs(10),
        (false, true) => AGAIN_AFTER,
        (false, false) => Duration::ZERO,
    }
}

/// Runs `sending` with one of `permits`. If it is slow, the permit is returned early, so that stalled
/// peers cannot use up all permits.
async fn limited<T>(permits: &Semaphore, sending: impl Future<Output = T>) -> T {
    let mut sending = std::pin::pin!(sending);
    let permit = permits.acquire().await;
    if let Ok(sent) = timeout(Duration::from_millis(250), &mut sending).await {
        return sent;
    }
    drop(permit);
    sending.await
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sends_to_stalled_peers_do_not_block_sends_to_other_peers() {
        let permits = Semaphore::new(2);
        let stalled = join_all((0..8).map(|_| limited(&permits, pending::<()>())));
        let prompt = async {
            sleep(Duration::from_secs(1)).await;
            limited(&permits, async {}).await;
        };
        select! {
            _ = stalled => panic!("a stalled send completed"),
            () = prompt => {}
        }
        assert_eq!(permits.available_permits(), 2);
    }

    #[test]
    fn unchanged_offers_to_many_workers_are_repeated_rarely() {
        assert_eq!(wait_before(300, true, true), AGAIN_AFTER_TO_WORKERS);
        assert_eq!(wait_before(10_000, true, true), Duration::from_secs(200));
        assert_eq!(
            wait_before(10_000, false, true),
            AGAIN_AFTER,
            "a head considers the offer valid for this time"
        );
    }
}
