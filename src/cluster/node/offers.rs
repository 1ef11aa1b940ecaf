//! Offers: telling peers what this node is and has, when they connect and when it changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::pending,
    mem,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use model::{
    function::FunctionId,
    node::{PeerId, Subgroup},
};
use parking_lot::Mutex;
use tokio::{
    select,
    sync::{Notify, Semaphore},
    time::{Instant, sleep, sleep_until, timeout},
};
use tracing::debug;

use super::NodeRole;
use crate::{
    message::{OFFER_PROTOCOL, Offer, json},
    network::SendError,
    node_context::NodeContext,
    worker::Worker,
};

/// How long after a change the offer is sent, and how often while the node is busy: free slots change
/// with each run.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often an unchanged offer is sent again, in case one was lost. Heads believe
/// an offer for more than twice as long.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// How often it is sent again to a worker, to which others are only sources of functions:
/// workers are many, and all of them tell each other.
const AGAIN_AFTER_TO_WORKERS: Duration = Duration::from_mins(1);

/// The same for each peer that receives offers, if that comes to more: a head of ten thousand workers
/// repeats its offer fifty times a second, and once in some minutes to each.
const AGAIN_AFTER_OF_EACH: Duration = Duration::from_millis(20);

/// Maximum number of simultaneous sends, apart from those that take long.
const PROMPT_MAX: usize = 256;

/// Peers that have said what they speak, or that they are workers, since the offering task last
/// looked. It may know them from before: one that went and came back in between has forgotten what it
/// was sent.
#[derive(Debug, Default)]
pub(super) struct Identified {
    peers: Mutex<BTreeSet<PeerId>>,
    bell: Notify,
}

impl Identified {
    /// Adds a peer. There are at most as many as are connected.
    pub(super) fn add(&self, peer: PeerId) {
        self.peers.lock().insert(peer);
        self.bell.notify_one();
    }

    fn take(&self) -> BTreeSet<PeerId> {
        mem::take(&mut *self.peers.lock())
    }
}

/// The offering task's state.
pub(super) struct Offers {
    context: NodeContext,
    node_role: NodeRole,
    subgroups: Vec<Subgroup>,
    identified: Arc<Identified>,
    receivers: BTreeMap<PeerId, Receiver>,
    sends: Sends<Arc<Offer>>,
    /// When all receivers are looked at next.
    look_at: Instant,
    /// What was offered when they were looked at last; none before the first time.
    looked_with: Option<Arc<Offer>>,
}

/// A peer that receives offers.
#[derive(Debug)]
struct Receiver {
    /// What it was sent last, and when; none where it was sent nothing yet, or the last did not reach it.
    last: Option<(Arc<Offer>, Instant)>,
    /// When it is looked at next.
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

    /// Runs until it is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let (offer, now) = (Arc::new(self.offer()), Instant::now());
            self.send_due(&offer, now);
            let is_busy = self.node_role.worker().is_some_and(Worker::is_busy);
            let next = if is_busy { now + LOOK_EVERY } else { self.look_at };
            self.wait_for_change(next).await;
        }
    }

    /// Starts to send what is due. All receivers are looked at once a second at most: a head may
    /// have ten thousand of them, each of which is due at another time.
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

    /// Returns what to send to `peer` now, if anything. It counts as sent from here. Forgets the peer if it
    /// is gone.
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

    /// Goes on with the sends until there may be something to send: shortly after a peer was identified, the
    /// offer may have changed or a send failed, or at `end`.
    async fn wait_for_change(&mut self, mut end: Instant) {
        let changed = async {
            match &self.node_role {
                NodeRole::Head(_) => self.context.functions.changed().await,
                NodeRole::Worker(worker) => select! {
                    () = self.context.functions.changed() => {}
                    () = worker.slots_changed() => {}
                },
            }
            // What changes often is sent once a second.
            sleep(LOOK_EVERY).await;
        };
        let mut changed = pin!(changed);
        loop {
            select! {
                () = &mut changed => return,
                () = sleep_until(end) => return,
                () = self.identified.bell.notified() => {
                    // Peers that are identified at about the same time are sent an offer together.
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

    /// The offer as workers receive it: without slots, which they have no use for, and which change
    /// with each run, and without attributes.
    fn offer(&self) -> Offer {
        // Others than those of strangers that only had them fetched.
        let mut functions = self.context.functions.foremost(256);
        // In an order that does not change with each run.
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

/// How long after an offer to one of `n_receivers` the next one is sent: the same one, or another.
fn wait_before(n_receivers: usize, is_worker: bool, is_same: bool) -> Duration {
    match (is_worker, is_same) {
        (true, true) => {
            let n_receivers = u32::try_from(n_receivers).unwrap_or(u32::MAX);
            AGAIN_AFTER_TO_WORKERS.max(AGAIN_AFTER_OF_EACH.saturating_mul(n_receivers))
        }
        // Two hundred workers that run a function for the first time would otherwise all tell their
        // neighbors at one time, while the first call runs.
        (true, false) => Duration::from_secs(10),
        (false, true) => AGAIN_AFTER,
        (false, false) => Duration::ZERO,
    }
}

/// Sends to many peers, of which one that stalls delays no other.
///
/// At most one send to each peer is in progress. If messages are put meanwhile, the newest of them is
/// sent next. The number of simultaneous sends is limited, but one that takes long stops counting, so
/// that stalled peers cannot use the limit up.
struct Sends<M> {
    send: Box<dyn Fn(PeerId, M) -> SendFuture + Send>,
    /// The peers that are being sent to, each with its next message.
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
            // A send that takes longer no longer counts towards `PROMPT_MAX`.
            let prompt = timeout(Duration::from_millis(250), &mut send).await;
            drop(permit);
            let outcome = match prompt {
                Ok(outcome) => outcome,
                Err(_) => send.await,
            };
            (peer, outcome)
        }));
    }

    /// Sends until a peer did not get the newest message put for it, and returns that peer.
    /// Cancel-safe.
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
