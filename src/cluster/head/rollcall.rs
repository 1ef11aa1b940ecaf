//! Roll call: which workers are ready to run a function.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use model::node::{GENERAL_TOPIC, PeerId, Subgroup};
use tokio::{
    select,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    Inner, Order, Wanted,
    inbox::{Inbox, Reply},
};
use crate::{
    message::{Message, RollCall, json},
    network::PublishError,
};

/// How long after a roll call it is published again while too few have reported, doubled each time:
/// a worker that was busy may be free, and one behind others may have missed it. Short of this,
/// repeating would add to the load that keeps workers from answering.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often to look whether somebody new listens: a worker that has just connected has missed the
/// roll call for certain, and gossip repeats nothing to those.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Who reported, in the order in which they did.
#[derive(Debug)]
pub(super) struct Roster {
    wanted: Wanted,
    /// Those who are ready and not chosen.
    pub(super) ready: VecDeque<PeerId>,
    /// All who ever reported ready and did not leave: nobody is counted twice.
    known: BTreeSet<PeerId>,
    /// Those who refused, and why.
    pub(super) refused: BTreeMap<PeerId, String>,
}

impl Roster {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, ready: VecDeque::new(), known: BTreeSet::new(), refused: BTreeMap::new() }
    }

    /// Takes note of a reply to the roll call.
    pub(super) fn note(&mut self, reply: Reply) {
        match reply {
            Reply::Ready(peer) => {
                self.refused.remove(&peer);
                if self.known.insert(peer.clone()) {
                    self.ready.push_back(peer);
                }
            }
            Reply::Refused(peer, reason) => {
                if !self.known.contains(&peer) {
                    self.refused.insert(peer, reason);
                }
            }
            Reply::Gone(peer) => {
                self.ready.retain(|ready| *ready != peer);
                self.known.remove(&peer);
                self.refused.remove(&peer);
            }
            Reply::Answered(..) => {}
        }
    }

    /// Takes those who are to run the function, the first to report, if they are enough. The rest
    /// stay ready as spares.
    pub(super) fn take_chosen(&mut self) -> Option<Vec<PeerId>> {
        let n_chosen = match self.wanted {
            Wanted::Exactly(n) => n.get(),
            Wanted::Everyone => self.ready.len().max(1),
        };
        (n_chosen <= self.ready.len()).then(|| self.ready.drain(..n_chosen).collect())
    }

    /// Whether there is nobody to wait for: enough are ready, or everyone is wanted and all of
    /// `listening` have replied.
    fn is_filled(&self, listening: impl FnOnce() -> Vec<PeerId>) -> bool {
        match self.wanted {
            Wanted::Exactly(n) => self.ready.len() >= n.get(),
            Wanted::Everyone => {
                let replied =
                    |peer: &PeerId| self.known.contains(peer) || self.refused.contains_key(peer);
                !self.ready.is_empty() && listening().iter().all(replied)
            }
        }
    }
}

/// The topic of those who may run `order`.
pub(super) fn topic(order: &Order) -> &str {
    order.subgroup.as_ref().map_or(GENERAL_TOPIC, Subgroup::as_str)
}

/// Publishes the roll call of a request, again and again, until enough have reported or the time is
/// up. Cancel-safe.
pub(super) async fn call(
    head: &Inner,
    request_id: &str,
    order: &Order,
    inbox: &mut Inbox,
) -> Roster {
    let topic = topic(order);
    let message = json(&Message::RollCall(RollCall {
        function_id: order.function.to_string(),
        request_id: request_id.to_owned(),
        consensus: 0,
        attributes: order.attributes.clone(),
    }));
    let function = order.function;
    info!(request = request_id, %function, topic, "performing roll call for request");
    let mut roster = Roster::new(order.nodes);
    let deadline = Instant::now() + order.roll_call_within;
    let mut calls =
        Calls { published_at: None, n_joins: 0, again_after: AGAIN_AFTER, look_at: Instant::now() };
    loop {
        if roster.is_filled(|| head.peers.listening(topic)) {
            let peers = roster.ready.len();
            info!(request = request_id, peers, "enough peers reported for roll call");
            return roster;
        }
        select! {
            biased;
            reply = inbox.next() => roster.note(reply),
            () = sleep_until(deadline) => {
                let (ready, refused) = (roster.ready.len(), roster.refused.len());
                info!(request = request_id, ready, refused, "roll call timed out");
                return roster;
            }
            () = sleep_until(calls.look_at) => {
                calls.publish_if_due(head, request_id, topic, &message).await;
            }
        }
    }
}

/// The publishing of one roll call.
struct Calls {
    /// When it was published last.
    published_at: Option<Instant>,
    /// How often a peer had joined a topic by then.
    n_joins: u64,
    /// How long after that it is published again.
    again_after: Duration,
    /// When to look next whether it is due.
    look_at: Instant,
}

impl Calls {
    async fn publish_if_due(&mut self, head: &Inner, request: &str, topic: &str, message: &[u8]) {
        let (now, n_joins) = (Instant::now(), head.peers.n_joins());
        self.look_at = now + LOOK_EVERY;
        let is_due = self
            .published_at
            .is_none_or(|at| n_joins != self.n_joins || at + self.again_after <= now);
        if !is_due {
            return;
        }
        self.n_joins = n_joins;
        match head.network.publish(topic, message.to_vec()).await {
            Ok(()) => info!(request, topic, "roll call published"),
            // As soon as somebody listens, it is due.
            Err(PublishError::Unheard) => return,
            Err(error) => warn!(request, topic, %error, "failed to publish a roll call"),
        }
        if self.published_at.replace(now).is_some() {
            self.again_after *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn id(n: u8) -> PeerId {
        format!("12D3KooWpeer{n}").parse().unwrap()
    }

    fn exactly(n: usize) -> Roster {
        Roster::new(Wanted::Exactly(NonZeroUsize::new(n).unwrap()))
    }

    #[test]
    fn a_peer_that_reports_twice_is_counted_once() {
        let mut roster = exactly(2);
        for n in [1, 1, 1] {
            roster.note(Reply::Ready(id(n)));
        }
        assert!(!roster.is_filled(Vec::new));
        assert_eq!(roster.take_chosen(), None);
        roster.note(Reply::Ready(id(2)));
        roster.note(Reply::Ready(id(3)));
        assert_eq!(roster.take_chosen(), Some(vec![id(1), id(2)]));
        roster.note(Reply::Ready(id(1)));
        assert_eq!(roster.ready, [id(3)], "a chosen one is no spare");
    }

    #[test]
    fn a_peer_that_left_is_not_chosen_and_one_that_changed_its_mind_is() {
        let mut roster = exactly(1);
        roster.note(Reply::Ready(id(1)));
        roster.note(Reply::Gone(id(1)));
        assert_eq!(roster.take_chosen(), None);
        roster.note(Reply::Refused(id(2), "full".into()));
        assert_eq!(roster.refused.len(), 1);
        roster.note(Reply::Ready(id(2)));
        assert_eq!((roster.refused.len(), roster.take_chosen()), (0, Some(vec![id(2)])));
    }

    #[test]
    fn everyone_is_all_who_listen_and_one_at_least() {
        let mut roster = Roster::new(Wanted::Everyone);
        assert!(!roster.is_filled(Vec::new), "somebody may come");
        roster.note(Reply::Ready(id(1)));
        roster.note(Reply::Refused(id(2), "full".into()));
        assert!(!roster.is_filled(|| vec![id(1), id(2), id(3)]));
        roster.note(Reply::Ready(id(3)));
        assert!(roster.is_filled(|| vec![id(1), id(2), id(3)]));
        assert_eq!(roster.take_chosen(), Some(vec![id(1), id(3)]));
    }
}
