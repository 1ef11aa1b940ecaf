//! Offers: telling peers what this node is and has, when they connect and when it changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use model::node::{PeerId, Subgroup};
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

/// Peers that are told at once.
const TELLING_MAX: usize = 32;

/// Functions named in one offer.
const NAMED_MAX: usize = 256;

/// The offering task's state.
pub(super) struct Offers {
    pub(super) network: Network,
    pub(super) functions: Functions,
    pub(super) peers: Peers,
    pub(super) duty: Duty,
    pub(super) subgroups: Vec<Subgroup>,
    /// Rung when a peer has said what it speaks.
    pub(super) identified: Arc<Notify>,
}

impl Offers {
    /// Runs until it is dropped.
    pub(super) async fn run(self) {
        let mut told: BTreeMap<PeerId, (Offer, Instant)> = BTreeMap::new();
        loop {
            let (offer, now) = (self.offer(), Instant::now());
            let speaking = self.peers.speaking(OFFER_PROTOCOL);
            told.retain(|peer, (last, at)| {
                speaking.contains(peer) && *last == offer && now - *at < AGAIN_AFTER
            });
            let due = speaking.into_iter().filter(|peer| !told.contains_key(peer));
            let due: Vec<PeerId> = due.collect();
            let message = json(&offer);
            let reached = stream::iter(due)
                .map(|peer| self.tell(peer, &message))
                .buffer_unordered(TELLING_MAX)
                .collect::<Vec<Option<PeerId>>>();
            for peer in reached.await.into_iter().flatten() {
                told.insert(peer, (offer.clone(), now));
            }
            // Rung or not, it is time for the next look.
            drop(timeout(LOOK_EVERY, self.identified.notified()).await);
        }
    }

    async fn tell(&self, peer: PeerId, message: &[u8]) -> Option<PeerId> {
        match self.network.tell(&peer, OFFER_PROTOCOL, message).await {
            Ok(()) => Some(peer),
            Err(error) => {
                debug!(%peer, %error, "an offer did not reach a peer");
                None
            }
        }
    }

    fn offer(&self) -> Offer {
        let (slots, slots_free) = match &self.duty {
            Duty::Head(_) => (0, 0),
            Duty::Worker(worker) => worker.slots(),
        };
        let functions = self.functions.list();
        Offer {
            role: self.duty.role().to_string(),
            subgroups: self.subgroups.iter().map(Subgroup::to_string).collect(),
            functions: functions.iter().take(NAMED_MAX).map(|f| f.id.to_string()).collect(),
            slots,
            slots_free,
        }
    }
}
