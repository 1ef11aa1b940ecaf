//! Offers: sends the state of this node to peers when they connect and when it changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use model::function::FunctionId;
use model::node::{PeerId, Subgroup};
use parking_lot::Mutex;
use tokio::select;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::NodeRole;
use crate::NodeContext;
use crate::message::{OFFER_PROTOCOL, Offer, json};
use crate::network::SendError;
use crate::worker::Worker;

/// Delay of an offer after a change. Also the minimum interval between offers of a busy node, since its
/// free slots change with each run.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Interval at which an unchanged offer is repeated, in case one was lost. Heads believe an offer
/// for more than twice as long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// The same for a worker as the receiver, which only needs sources of functions. There are many workers,
/// which send offers to each other.
const AGAIN_AFTER_TO_WORKERS: Duration = Duration::from_mins(1);

/// Maximum number of simultaneous sends, without slow sends.
const PROMPT_MAX: usize = 256;

/// Peers that have identified themselves, or have become known as workers, since the offering task
/// last looked. A peer that reconnected in between has forgotten the last offer.
#[derive(Debug, Default)]
pub(super) struct Identified {
    peers: Mutex<BTreeSet<PeerId>>,
    bell: Notify,
}

impl Identified {
    /// Adds a peer.
    pub(super) fn add(&self, peer: PeerId) {
        self.peers.lock().insert(peer);
        self.bell.notify_one();
    }

    fn take(&self) -> BTreeSet<PeerId> {
        mem::take(&mut *self.peers.lock())
    }
}

/// State of the offering task.
pub(super) struct Offers {
    context: NodeContext,
    node_role: NodeRole,
    subgroups: Vec<Subgroup>,
    identified: Arc<Identified>,
    receivers: BTreeMap<PeerId, Receiver>,
    sends: Sends<Arc<Offer>>,
    /// Time of the next look at all receivers.
    look_at: Instant,
    /// Offer at the last such look.
    looked_with: Option<Arc<Offer>>,
}

/// Peer that receives offers.
#[derive(Debug)]
struct Receiver {
    /// Latest offer and its time; `None` before the first offer and after a failure.
    last: Option<(Arc<Offer>, Instant)>,
    /// Time of the next look at this receiver.
    look_at: Instant,
}

impl Offers {
    pub(super) fn new(
        context: NodeContext,
        node_role: NodeRole,
        subgroups: Vec<Subgroup>,
        identified: Arc<Identified>,
    ) -> Self {
        let (receivers, look_at) = (BTreeMap::new(), Instant::now());
        let network = context.network.clone();
        let sends = Sends::new(move |peer, offer: Arc<Offer>| {
            let network = network.clone();
            async move { network.tell(&peer, OFFER_PROTOCOL, &json(&*offer)).await }.boxed()
        });
        Self {
            context,
            node_role,
            subgroups,
            identified,
            receivers,
            sends,
            look_at,
            looked_with: None,
        }
    }

    /// Runs until dropped.
    pub(super) async fn run(mut self) {
        loop {
            let (offer, now) = (Arc::new(self.offer()), Instant::now());
            self.send_due(&offer, now);
            let is_busy = self.node_role.worker().is_some_and(Worker::is_busy);
            let next = if is_busy { now + LOOK_EVERY } else { self.look_at };
            self.wait_for_change(next).await;
        }
    }

    /// Starts the sends that are due. Looks at all receivers at most once a second: a head can have
    /// ten thousand of them.
    fn send_due(&mut self, offer: &Arc<Offer>, now: Instant) {
        let mut looked_at = self.identified.take();
        for peer in &looked_at {
            self.receivers.insert(peer.clone(), Receiver { last: None, look_at: now });
        }
        // The slots in a worker's offers change with each order.
        let has_changed =
            self.node_role.worker().is_some() || self.looked_with.as_ref() != Some(offer);
        let is_full_look = has_changed || self.look_at <= now;
        if is_full_look {
            let due =
                self.receivers.iter().filter(|(_, known)| has_changed || known.look_at <= now);
            looked_at.extend(due.map(|(peer, _)| peer.clone()));
            self.looked_with = Some(Arc::clone(offer));
        }
        for peer in looked_at {
            if let Some(offer) = self.look(&peer, offer, now) {
                self.sends.put(peer, offer);
            }
        }
        if is_full_look {
            let next = self.receivers.values().map(|known| known.look_at).min();
            self.look_at = next.unwrap_or(now + AGAIN_AFTER).max(now + LOOK_EVERY);
        }
    }

    /// Returns the offer to send to `peer` now, if any, which then counts as sent. Forgets the peer
    /// if it is disconnected.
    fn look(&mut self, peer: &PeerId, offer: &Arc<Offer>, now: Instant) -> Option<Arc<Offer>> {
        if !self.context.peers.speaks(peer, OFFER_PROTOCOL) {
            self.receivers.remove(peer);
            return None;
        }
        let is_worker = self.context.peers.is_worker(peer);
        let offer = if is_worker { Arc::clone(offer) } else { self.offer_for(peer, offer) };
        let last = &self.receivers.get(peer)?.last;
        let again_at =
            last.as_ref().map(|(last, at)| *at + self.wait_before(is_worker, *last == offer));
        let again_at = again_at.filter(|at| now < *at);
        let look_at = again_at.unwrap_or_else(|| now + self.wait_before(is_worker, true));
        self.look_at = self.look_at.min(look_at);
        let receiver = self.receivers.get_mut(peer)?;
        receiver.look_at = look_at;
        if again_at.is_some() {
            return None;
        }
        receiver.last = Some((Arc::clone(&offer), now));
        Some(offer)
    }

    fn wait_before(&self, is_worker: bool, is_same: bool) -> Duration {
        wait_before(self.receivers.len(), is_worker, is_same)
    }

    /// Continues with sends until an offer might be due: shortly after a peer was identified, the
    /// offer changed, or a send failed, or at `end`.
    async fn wait_for_change(&mut self, mut end: Instant) {
        let changed = async {
            match &self.node_role {
                NodeRole::Head(_) => self.context.functions.changed().await,
                NodeRole::Worker(worker) => select! {
                    () = self.context.functions.changed() => {}
                    () = worker.slots_changed() => {}
                },
            }
            // Frequent changes are sent once a second.
            sleep(LOOK_EVERY).await;
        };
        let mut changed = pin!(changed);
        loop {
            select! {
                () = &mut changed => return,
                () = sleep_until(end) => return,
                () = self.identified.bell.notified() => {
                    // Peers that are identified at about the same time get an offer together.
                    end = end.min(Instant::now() + Duration::from_millis(10));
                }
                failed = self.sends.next_failed() => {
                    let look_at = Instant::now() + LOOK_EVERY;
                    if let Some(receiver) = self.receivers.get_mut(&failed) {
                        *receiver = Receiver { last: None, look_at };
                        self.look_at = self.look_at.min(look_at);
                        end = end.min(look_at);
                    }
                }
            }
        }
    }

    /// Returns the offer for workers, which need neither the slots, which change with each run, nor
    /// the attributes.
    fn offer(&self) -> Offer {
        // Prefers functions that are not only fetched for strangers.
        let mut functions = self.context.functions.foremost(256);
        // The order must not change with each run.
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

/// Returns the minimum time between two offers to one of `n_receivers`. `is_same` is true if the
/// offer is unchanged.
fn wait_before(n_receivers: usize, is_worker: bool, is_same: bool) -> Duration {
    match (is_worker, is_same) {
        (true, true) => {
            let n_receivers = u32::try_from(n_receivers).unwrap_or(u32::MAX);
            // At least 20 ms per receiver: a head of ten thousand workers sends fifty offers a second,
            // one every few minutes to each worker.
            AGAIN_AFTER_TO_WORKERS.max(Duration::from_millis(20).saturating_mul(n_receivers))
        }
        // Two hundred workers that run a function for the first time would otherwise all send
        // offers to their neighbors during the first call.
        (true, false) => Duration::from_secs(10),
        (false, true) => AGAIN_AFTER,
        (false, false) => Duration::ZERO,
    }
}

/// Sends messages to many peers. A stalled peer does not delay the others.
///
/// At most one send to each peer is in progress. The latest message put in the meantime is sent next.
/// The number of simultaneous sends is limited, but slow sends do not count, so that stalled peers
/// cannot use up the limit.
struct Sends<M> {
    send: Box<dyn Fn(PeerId, M) -> SendFuture + Send>,
    /// Peers with a send in progress and the next message for each.
    next: HashMap<PeerId, Option<M>>,
    in_progress: FuturesUnordered<BoxFuture<'static, (PeerId, Result<(), SendError>)>>,
    permits: Arc<Semaphore>,
}

type SendFuture = BoxFuture<'static, Result<(), SendError>>;

impl<M> Sends<M> {
    fn new(send: impl Fn(PeerId, M) -> SendFuture + Send + 'static) -> Self {
        Self {
            send: Box::new(send),
            next: HashMap::new(),
            in_progress: FuturesUnordered::new(),
            permits: Arc::new(Semaphore::new(PROMPT_MAX)),
        }
    }

    fn put(&mut self, peer: PeerId, message: M) {
        if let Some(next) = self.next.get_mut(&peer) {
            *next = Some(message);
        } else {
            self.next.insert(peer.clone(), None);
            self.start(peer, message);
        }
    }

    fn start(&self, peer: PeerId, message: M) {
        let mut send = (self.send)(peer.clone(), message);
        let permits = Arc::clone(&self.permits);
        self.in_progress.push(Box::pin(async move {
            let permit = permits.acquire().await;
            // A slow send no longer counts towards `PROMPT_MAX`.
            let prompt = timeout(Duration::from_millis(250), &mut send).await;
            drop(permit);
            let outcome = match prompt {
                Ok(outcome) => outcome,
                Err(_) => send.await,
            };
            (peer, outcome)
        }));
    }

    /// Sends until the latest message for a peer fails. Returns that peer. Cancel-safe.
    async fn next_failed(&mut self) -> PeerId {
        while let Some((peer, outcome)) = self.in_progress.next().await {
            if let Err(error) = &outcome {
                debug!(%peer, %error, "an offer did not reach a peer");
            }
            if let Some(message) = self.next.get_mut(&peer).and_then(Option::take) {
                self.start(peer, message);
                continue;
            }
            self.next.remove(&peer);
            if outcome.is_err() {
                return peer;
            }
        }
        pending().await
    }
}

#[cfg(test)]
mod tests;
