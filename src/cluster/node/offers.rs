//! Offers: telling peers what this node is and has, when they connect and when it changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use model::node::{PeerId, Subgroup};
use parking_lot::Mutex;
use tokio::{
    select,
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;

use super::NodeRole;
use crate::{
    message::{Credit, OFFER_PROTOCOL, Offer, json},
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

/// How long after an offer to a worker the next change is sent. Two hundred workers that run a function for
/// the first time would all tell their neighbors of it at once, while the first call still runs.
const CHANGE_AFTER_TO_WORKERS: Duration = Duration::from_secs(10);

/// Offers that are sent at one time.
const TELLING_MAX: usize = 32;

/// Functions named in one offer.
const NAMED_MAX: usize = 256;

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
    pub(super) context: NodeContext,
    pub(super) node_role: NodeRole,
    pub(super) subgroups: Vec<Subgroup>,
    pub(super) identified: Arc<Identified>,
}

impl Offers {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        let mut told: BTreeMap<PeerId, (Offer, Instant)> = BTreeMap::new();
        loop {
            let (offer, now) = (self.offer(), Instant::now());
            let new = self.identified.take();
            let speaking = self.context.peers.speaking(OFFER_PROTOCOL);
            told.retain(|peer, _| speaking.contains(peer) && !new.contains(peer));
            let due = speaking.into_iter().filter_map(|peer| {
                let offer = if self.context.peers.is_worker(&peer) {
                    offer.clone()
                } else {
                    self.offer_for(&peer, &offer)
                };
                let is_known = told
                    .get(&peer)
                    .is_some_and(|(last, at)| now < *at + self.wait_before(&peer, *last == offer));
                (!is_known).then_some((peer, offer))
            });
            let due: Vec<(PeerId, Offer)> = due.collect();
            let reached = stream::iter(due)
                .map(|(peer, offer)| self.tell(peer, offer))
                .buffer_unordered(TELLING_MAX)
                .collect::<Vec<Option<(PeerId, Offer)>>>();
            let mut is_settled = !self.node_role.worker().is_some_and(Worker::is_busy);
            for reached in reached.await {
                match reached {
                    Some((peer, offer)) => drop(told.insert(peer, (offer, now))),
                    None => is_settled = false,
                }
            }
            let next =
                if is_settled { self.next_due(&told, &offer, now) } else { now + LOOK_EVERY };
            self.wait_for_change(next).await;
        }
    }

    /// When the next offer of those in `told` is due again, where `offer` is the current one.
    fn next_due(
        &self,
        told: &BTreeMap<PeerId, (Offer, Instant)>,
        offer: &Offer,
        now: Instant,
    ) -> Instant {
        let next = told.iter().map(|(peer, (last, at))| {
            // Heads have received every change just now.
            let is_same = last == offer || !self.context.peers.is_worker(peer);
            *at + self.wait_before(peer, is_same)
        });
        next.min().unwrap_or(now + AGAIN_AFTER)
    }

    /// How long after an offer to `peer` the next one is sent: the same one, or another.
    fn wait_before(&self, peer: &PeerId, is_same: bool) -> Duration {
        match (self.context.peers.is_worker(peer), is_same) {
            (true, true) => AGAIN_AFTER_TO_WORKERS,
            (true, false) => CHANGE_AFTER_TO_WORKERS,
            (false, true) => AGAIN_AFTER,
            (false, false) => Duration::ZERO,
        }
    }

    /// Waits until a peer is to be told at once, until shortly after the offer may have changed, or until
    /// `end`.
    async fn wait_for_change(&self, end: Instant) {
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
        select! {
            () = self.identified.bell.notified() => {}
            () = changed => {}
            () = sleep_until(end) => {}
        }
    }

    async fn tell(&self, peer: PeerId, offer: Offer) -> Option<(PeerId, Offer)> {
        match self.context.network.tell(&peer, OFFER_PROTOCOL, &json(&offer)).await {
            Ok(()) => Some((peer, offer)),
            Err(error) => {
                debug!(%peer, %error, "an offer did not reach a peer");
                None
            }
        }
    }

    /// The offer as workers receive it: without slots, which they have no use for, and which change
    /// with each run, and without attributes.
    fn offer(&self) -> Offer {
        let functions = self.context.functions.list();
        Offer {
            role: self.node_role.role().to_string(),
            subgroups: self.subgroups.iter().map(Subgroup::to_string).collect(),
            functions: functions.iter().take(NAMED_MAX).map(|f| f.id.to_string()).collect(),
            ..Offer::default()
        }
    }

    /// The offer as one peer receives it, with its credits.
    fn offer_for(&self, peer: &PeerId, offer: &Offer) -> Offer {
        let Some(worker) = self.node_role.worker() else { return offer.clone() };
        let Credit { slots, credits, generation } = worker.credit_for(peer);
        let generation = (generation > 0).then_some(generation);
        let attributes = worker.attributes();
        Offer { slots, slots_free: credits, generation, attributes, ..offer.clone() }
    }
}
