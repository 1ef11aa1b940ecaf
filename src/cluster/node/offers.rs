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
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::debug;

use super::Duty;
use crate::{
    functions::Functions,
    message::{OFFER_PROTOCOL, Offer, json},
    network::Network,
    peers::Peers,
};

/// How often the offer is looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often an unchanged offer is told again, so that one that was lost is made good.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How often a worker is told again, to which others are but places where functions may be had:
/// workers are many, and all of them tell each other.
const AGAIN_AFTER_TO_WORKERS: Duration = Duration::from_mins(1);

/// Peers that are told at once.
const TELLING_MAX: usize = 32;

/// Functions named in one offer.
const NAMED_MAX: usize = 256;

/// Peers that have said what they speak, since the offering task last looked. It may know them from
/// before: one that went and came back in between has forgotten what it was told.
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
    pub(super) network: Network,
    pub(super) functions: Functions,
    pub(super) peers: Peers,
    pub(super) duty: Duty,
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
            let speaking = self.peers.speaking(OFFER_PROTOCOL);
            told.retain(|peer, _| speaking.contains(peer) && !new.contains(peer));
            let due = speaking.into_iter().filter_map(|peer| {
                let is_worker = self.peers.is_worker(&peer);
                let (offer, again_after) = if is_worker {
                    (offer.clone(), AGAIN_AFTER_TO_WORKERS)
                } else {
                    (self.offer_for(&peer, &offer), AGAIN_AFTER)
                };
                let is_known = told
                    .get(&peer)
                    .is_some_and(|(last, at)| *last == offer && now - *at < again_after);
                (!is_known).then_some((peer, offer))
            });
            let due: Vec<(PeerId, Offer)> = due.collect();
            let reached = stream::iter(due)
                .map(|(peer, offer)| self.tell(peer, offer))
                .buffer_unordered(TELLING_MAX)
                .collect::<Vec<Option<(PeerId, Offer)>>>();
            for (peer, offer) in reached.await.into_iter().flatten() {
                told.insert(peer, (offer, now));
            }
            // Rung or not, it is time for the next look.
            drop(timeout(LOOK_EVERY, self.identified.bell.notified()).await);
        }
    }

    async fn tell(&self, peer: PeerId, offer: Offer) -> Option<(PeerId, Offer)> {
        match self.network.tell(&peer, OFFER_PROTOCOL, &json(&offer)).await {
            Ok(()) => Some((peer, offer)),
            Err(error) => {
                debug!(%peer, %error, "an offer did not reach a peer");
                None
            }
        }
    }

    /// The offer as workers are told it: without slots, which they have no use for, and which change
    /// with each run.
    fn offer(&self) -> Offer {
        let functions = self.functions.list();
        Offer {
            role: self.duty.role().to_string(),
            subgroups: self.subgroups.iter().map(Subgroup::to_string).collect(),
            functions: functions.iter().take(NAMED_MAX).map(|f| f.id.to_string()).collect(),
            slots: 0,
            slots_free: 0,
        }
    }

    /// The offer as one peer is told it: what runs for that peer itself is not taken from it.
    fn offer_for(&self, peer: &PeerId, offer: &Offer) -> Offer {
        let (slots, slots_free) = match &self.duty {
            Duty::Head(_) => (0, 0),
            Duty::Worker(worker) => worker.slots_for(peer),
        };
        Offer { slots, slots_free, ..offer.clone() }
    }
}
