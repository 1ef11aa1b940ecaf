//! Roll call: finds the workers that are ready to run a function.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::node::{GENERAL_TOPIC, PeerId, Subgroup};
use task::traces::Carrier;
use tokio::select;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};
use web::rate_limit::Rate;

use super::executions::Track;
use super::inbox::{Inbox, Readiness, Reply, ReplyKind};
use super::order::{NodeCount, Order};
use super::placement::rank_reports;
use super::slots::{Lease, QueuedRequest, SlotGrant};
use super::{Client, HeadParts, Shortage};
use crate::message::{Message, RollCall, json};
use crate::metrics;
use crate::network::PublishError;

/// Summary of the replies to a roll call, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct Roster {
    wanted: NodeCount,
    /// Workers that are ready and were not chosen yet.
    pub(super) ready: VecDeque<PeerId>,
    /// Latest reply of each connected worker. A ready worker remains ready, whatever it replies later.
    replies: BTreeMap<PeerId, Readiness>,
    /// Number of replies before which some listening workers have certainly not replied.
    n_replies_min: usize,
}

impl Roster {
    pub(super) fn new(wanted: NodeCount) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Records a reply to the roll call.
    pub(super) fn note(&mut self, peer: PeerId, readiness: Readiness) {
        if self.replies.get(&peer) == Some(&Readiness::Ready) {
            return;
        }
        if readiness == Readiness::Ready {
            self.ready.push_back(peer.clone());
        }
        self.replies.insert(peer, readiness);
    }

    /// Forgets a disconnected worker.
    pub(super) fn forget(&mut self, peer: &PeerId) {
        self.ready.retain(|ready| ready != peer);
        self.replies.remove(peer);
        self.n_replies_min = 0;
    }

    /// Forgets the workers that refused or are busy, since they might be free now.
    pub(super) fn forget_refusals(&mut self) {
        self.replies.retain(|_, reply| reply.reason().is_none());
    }

    /// Returns the workers that refused or are busy, with their reasons.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (&PeerId, &str)> {
        self.replies.iter().filter_map(|(peer, reply)| Some((peer, reply.reason()?)))
    }

    /// Returns true if `peer` refused or is busy.
    pub(super) fn has_refused(&self, peer: &PeerId) -> bool {
        self.replies.get(peer).is_some_and(|reply| reply.reason().is_some())
    }

    /// Returns the number of workers that fetch the function and will then be ready.
    pub(super) fn n_fetching(&self) -> usize {
        self.replies.values().filter(|reply| **reply == Readiness::Fetching).count()
    }

    /// Removes and returns the workers to run the function, if enough are ready. They are in the order
    /// of [`rank_reports`]. Workers without a `weight` are paused. If all workers are requested, paused
    /// workers are omitted. Workers that are not chosen stay ready as spares.
    pub(super) fn take_chosen(
        &mut self,
        weight: impl Fn(&PeerId) -> Option<u64>,
    ) -> Option<Vec<PeerId>> {
        rank_reports(self.ready.make_contiguous(), &weight);
        let n_chosen = match self.wanted {
            NodeCount::Exactly(n) => n.get(),
            NodeCount::Everyone => {
                self.ready.iter().filter(|peer| weight(peer).is_some()).count().max(1)
            }
        };
        (n_chosen <= self.ready.len()).then(|| self.ready.drain(..n_chosen).collect())
    }

    /// Returns the number of workers that might become ready: they are busy or fetch the function.
    fn n_coming(&self) -> usize {
        let is_coming =
            |reply: &&Readiness| matches!(reply, Readiness::Busy(_) | Readiness::Fetching);
        self.replies.values().filter(is_coming).count()
    }

    /// Returns the `listening` workers if all of them have replied. Calls `listening` only if enough
    /// workers have replied since the last call: with thousands of workers, a call for each reply would
    /// take seconds.
    fn listening_if_replied(
        &mut self,
        listening: impl FnOnce() -> Vec<PeerId>,
    ) -> Option<Vec<PeerId>> {
        if self.replies.len() < self.n_replies_min {
            return None;
        }
        let listening = listening();
        let silent = listening.iter().filter(|peer| !self.replies.contains_key(*peer));
        let n_silent = silent.count();
        self.n_replies_min = self.replies.len() + n_silent;
        (n_silent == 0).then_some(listening)
    }

    /// Returns true if all `listening` workers refused, and none of them because it is busy.
    fn is_refused_by_all(&self, listening: &[PeerId]) -> bool {
        self.refusals().next().is_some()
            && self.n_coming() == 0
            && listening.iter().all(|peer| self.has_refused(peer))
    }

    /// Returns true if enough workers are ready, busy or fetching the function to complete the request.
    fn is_worth_waiting(&self) -> bool {
        let n_coming = self.n_coming();
        match self.wanted {
            NodeCount::Exactly(n) => n_coming > 0 && self.ready.len() + n_coming >= n.get(),
            NodeCount::Everyone => self.ready.is_empty() && n_coming > 0,
        }
    }

    /// Returns true if there are too few workers in `listening`, all of which have replied.
    fn is_short_of(&self, listening: &[PeerId]) -> bool {
        let NodeCount::Exactly(n) = self.wanted else { return false };
        !listening.is_empty() && listening.len() < n.get()
    }

    /// Returns true if enough workers are ready. If all workers are requested, returns true once all of
    /// `listening`, which have replied, are ready or have refused.
    fn is_complete(&self, listening: Option<&[PeerId]>) -> bool {
        let is_fetching = |peer: &PeerId| self.replies.get(peer) == Some(&Readiness::Fetching);
        match self.wanted {
            NodeCount::Exactly(n) => self.ready.len() >= n.get(),
            NodeCount::Everyone => {
                !self.ready.is_empty() && listening.is_some_and(|it| !it.iter().any(is_fetching))
            }
        }
    }
}

impl Readiness {
    /// Returns the reason if the worker refused or is busy.
    fn reason(&self) -> Option<&str> {
        match self {
            Self::Refused(reason) | Self::Busy(reason) => Some(reason),
            Self::Ready | Self::Fetching => None,
        }
    }
}

/// The workers chosen for an order.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) leases: Vec<Lease>,
    /// Other workers that reported.
    pub(super) roster: Roster,
}

/// Returns the topic that the workers for `order` listen to.
pub(super) fn topic(order: &Order) -> &str {
    order.subgroup.as_ref().map_or(GENERAL_TOPIC, Subgroup::as_str)
}

/// Repeats the roll call of a request until enough workers have reported or offer free slots, all
/// workers have refused, or the deadline has passed. This is the deadline of the roll call, or `end` if
/// enough workers could run the function but are busy or still fetching it. Cancel-safe.
pub(super) async fn call(
    head: &HeadParts,
    track: &Track,
    order: &Order,
    client: &Client,
    inbox: &mut Inbox,
    end: Instant,
) -> Result<Selection, Shortage> {
    let (request, topic) = (track.request_id(), topic(order));
    let function = order.function;
    info!(request, %function, topic, "performing roll call for request");
    track.note_roll_call(topic);
    let mut roster = Roster::new(order.nodes);
    let mut calls = Calls::new(head, track, order);
    let started = Instant::now();
    let deadline = end.min(started + order.roll_call_within);
    // Before this time, the group does not count as too small, since gossip also reaches workers that
    // are not connected to this head. It needs much less time than this for several hops.
    let relayed_at = started + Duration::from_millis(500);
    let mut queued: Option<QueuedRequest> = None;
    // Set after the first round. Workers that hold the function report immediately, so slots of other
    // workers, which would have to fetch it from this head, are acquired only after that.
    let mut can_fetch = false;
    loop {
        let listening = roster.listening_if_replied(|| head.listening(order));
        if roster.is_complete(listening.as_deref()) {
            let peers = roster.ready.len();
            info!(request, peers, "enough peers reported for roll call");
            return head.choose_of(roster, order).map_err(Shortage::early);
        }
        let listening = listening.as_deref();
        if queued.is_none() && listening.is_some_and(|it| roster.is_refused_by_all(it)) {
            info!(request, refused = roster.refusals().count(), "all peers refused");
            return head.choose_of(roster, order).map_err(Shortage::early);
        }
        let is_known = Instant::now() >= relayed_at && head.context.peers.is_settled();
        if is_known && listening.is_some_and(|it| roster.is_short_of(it)) {
            let (ready, refused) = (roster.ready.len(), roster.refusals().count());
            info!(request, ready, refused, "the group has fewer peers than requested");
            return Err(Shortage::early(roster.into()));
        }
        let is_waiting = queued.is_some() || roster.is_worth_waiting();
        select! {
            biased;
            granted = grant(&mut queued) => match granted {
                Some(leases) => return Ok(Selection { leases, roster }),
                None => queued = None,
            },
            Reply { peer, kind } = inbox.next() => match kind {
                ReplyKind::RollCall(readiness) => {
                    head.note_readiness(track, order, &mut roster, peer, readiness);
                }
                ReplyKind::Gone => roster.forget(&peer),
                _ => {}
            },
            () = sleep_until(if is_waiting { end } else { deadline }) => {
                let (ready, refused) = (roster.ready.len(), roster.refusals().count());
                info!(request, ready, refused, "roll call timed out");
                let is_queued = queued.is_some();
                let short = |roster| Shortage { roster, is_late: true, is_queued };
                return head.choose_of(roster, order).map_err(short);
            }
            // Wakes up to check again whether the group is too small.
            () = sleep_until(relayed_at), if Instant::now() < relayed_at => {}
            () = sleep_until(calls.look_at) => {
                calls.publish_if_due(head, track, order).await;
                roster.n_replies_min = 0;
                // A worker that was full, or lacked the function, when the roll was called might offer
                // slots by now.
                if queued.is_none() {
                    match head.take_slots(order, client, can_fetch) {
                        SlotGrant::Now(leases) => return Ok(Selection { leases, roster }),
                        SlotGrant::Later(request) => queued = Some(request),
                        SlotGrant::Unknown => {}
                    }
                }
                can_fetch = true;
            }
        }
    }
}

impl Shortage {
    /// Returns the shortage of a roll call that completed before its deadline.
    fn early(roster: Box<Roster>) -> Self {
        Self { roster, is_late: false, is_queued: false }
    }
}

/// Waits for queued slots; `None` if they cannot be granted any more. Cancel-safe.
async fn grant(queued: &mut Option<QueuedRequest>) -> Option<Vec<Lease>> {
    match queued {
        Some(queued) => queued.granted().await,
        None => std::future::pending().await,
    }
}

/// Maximum of the minimum time between publications for peers that have joined a topic.
const JOINED_AFTER_MAX: Duration = Duration::from_secs(1);

/// Limit of the roll calls of a head that are repeated since a peer has joined a topic. A peer that joins
/// and leaves repeatedly must not make the head exceed the gossip limits of its workers.
pub(super) const JOIN_CALLS: Rate = Rate::per_second(20, 50);

/// Maximum time until the next publication.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(32);

/// Publishes one roll call repeatedly. A publication is due if there was none yet, if `again_after` has
/// passed, or if a peer has joined a topic since the latest one, `joined_after` has passed, and
/// [`JOIN_CALLS`] allows it.
#[derive(Debug)]
pub(super) struct Calls {
    message: Vec<u8>,
    /// Time of the latest publication.
    published_at: Option<Instant>,
    /// Number of topic joins at the time of the latest publication.
    n_joins: u64,
    /// Time until the next publication.
    again_after: Duration,
    /// Minimum time until the next publication if a peer joins a topic.
    joined_after: Duration,
    /// Time of the next check whether a publication is due.
    pub(super) look_at: Instant,
}

impl Calls {
    pub(super) fn new(head: &HeadParts, track: &Track, order: &Order) -> Self {
        let message = json(&Message::RollCall(RollCall {
            function_id: order.function.to_string(),
            request_id: track.request_id().to_owned(),
            consensus: 0,
            attributes: order.requirements.attributes.clone(),
            origin: head.context.network.peer_id().to_string(),
            carrier: Carrier::of_current_span(),
        }));
        Self {
            message,
            published_at: None,
            n_joins: 0,
            // Doubled after each repetition by time. After 2 s, a busy worker might be free, or a slow one
            // might have missed the call. Repeating the call sooner would add to the load that delays
            // the replies.
            again_after: Duration::from_secs(2),
            // Doubled after each repetition for a peer that joined.
            joined_after: Duration::from_millis(100),
            look_at: Instant::now(),
        }
    }

    pub(super) async fn publish_if_due(&mut self, head: &HeadParts, track: &Track, order: &Order) {
        let (now, n_joins) = (Instant::now(), head.context.peers.n_joins());
        let (request, topic) = (track.request_id(), topic(order));
        // Checks often whether a worker has joined the topic. Such a worker has missed the call, since
        // gossip does not repeat messages.
        self.look_at = now + Duration::from_millis(100);
        if !self.is_due(now, n_joins, || head.join_calls.lock().take(now)) {
            return;
        }
        match head.context.network.publish(topic, self.message.clone()).await {
            Ok(()) => info!(request, topic, "roll call published"),
            // The call remains due, so it is published as soon as there is a listener.
            Err(PublishError::NoListeners) => return,
            Err(error) => warn!(request, topic, %error, "failed to publish a roll call"),
        }
        let counts = &head.context.metrics;
        counts.add(metrics::ROLLCALLS_PUBLISHED, &[&order.function.to_string()]);
        counts.add(metrics::MESSAGES_PUBLISHED, &[topic]);
        counts.add(metrics::PUBLISHED, &["MsgRollCall", topic]);
        counts.add_n(metrics::MESSAGES_PUBLISHED_BYTES, &[], self.message.len());
        self.note_published(now, n_joins);
    }

    fn is_due(&self, now: Instant, n_joins: u64, admit_join: impl FnOnce() -> bool) -> bool {
        let Some(at) = self.published_at else { return true };
        let is_joined = n_joins != self.n_joins && at + self.joined_after <= now;
        at + self.again_after <= now || is_joined && admit_join()
    }

    fn note_published(&mut self, now: Instant, n_joins: u64) {
        if let Some(at) = self.published_at.replace(now) {
            if at + self.again_after <= now {
                self.again_after = AGAIN_AFTER_MAX.min(self.again_after * 2);
            } else {
                self.joined_after = JOINED_AFTER_MAX.min(self.joined_after * 2);
            }
        }
        self.n_joins = n_joins;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn id(n: u8) -> PeerId {
        format!("12D3KooWpeer{n}").replace('0', "A").parse().unwrap()
    }

    fn exactly(n: usize) -> Roster {
        Roster::new(NodeCount::Exactly(NonZeroUsize::new(n).unwrap()))
    }

    #[test]
    fn peer_that_reports_twice_is_chosen_once() {
        let mut roster = exactly(2);
        for n in [1, 1, 1] {
            roster.note(id(n), Readiness::Ready);
        }
        assert!(!roster.is_complete(Some(&[])));
        assert_eq!(roster.take_chosen(|_| Some(1)), None);
        roster.note(id(2), Readiness::Ready);
        roster.note(id(3), Readiness::Ready);
        assert_eq!(roster.take_chosen(|_| Some(1)), Some(vec![id(1), id(2)]));
        roster.note(id(1), Readiness::Ready);
        assert_eq!(roster.ready, [id(3)], "a chosen worker is not a spare");
    }

    #[test]
    fn disconnected_peer_is_not_chosen_and_a_later_report_replaces_a_refusal() {
        let mut roster = exactly(1);
        roster.note(id(1), Readiness::Ready);
        roster.forget(&id(1));
        assert_eq!(roster.take_chosen(|_| Some(1)), None);
        roster.note(id(2), Readiness::Refused("full".into()));
        assert_eq!(roster.refusals().count(), 1);
        roster.note(id(2), Readiness::Ready);
        assert_eq!(
            (roster.refusals().count(), roster.take_chosen(|_| Some(1))),
            (0, Some(vec![id(2)]))
        );
    }

    #[test]
    fn first_peers_that_join_are_called_soon_and_later_ones_at_most_once_per_second() {
        let start = Instant::now();
        let mut calls = Calls {
            message: Vec::new(),
            published_at: None,
            n_joins: 0,
            again_after: Duration::from_secs(2),
            joined_after: Duration::from_millis(100),
            look_at: start,
        };
        let mut publish = |seconds: f64, n_joins| {
            let now = start + Duration::from_secs_f64(seconds);
            let is_due = calls.is_due(now, n_joins, || true);
            if is_due {
                calls.note_published(now, n_joins);
            }
            is_due
        };
        let published: Vec<u32> =
            (0..1000).filter(|n| publish(f64::from(*n) / 10.0, u64::from(*n))).collect();
        assert_eq!((published.len(), &published[..6]), (103, &[0, 1, 3, 7, 15, 25][..]));
        assert_eq!([101.0, 101.6].map(|at| publish(at, 995)), [false, true], "by time");
        assert_eq!([105.0, 105.7].map(|at| publish(at, 995)), [false, true], "later each time");
        calls.n_joins = 0;
        let now = start + Duration::from_secs(108);
        assert!(!calls.is_due(now, 995, || false) && calls.is_due(now, 995, || true));
    }

    #[test]
    fn group_is_reported_as_too_small_only_after_all_listening_workers_have_replied() {
        let mut roster = exactly(3);
        let is_short_of = |roster: &mut Roster, listening: &[u8]| {
            let listening = || listening.iter().map(|n| id(*n)).collect();
            roster.listening_if_replied(listening).is_some_and(|it| roster.is_short_of(&it))
        };
        roster.note(id(1), Readiness::Ready);
        assert!(!is_short_of(&mut roster, &[1, 2]), "one has not replied");
        roster.note(id(2), Readiness::Fetching);
        assert!(is_short_of(&mut roster, &[1, 2]));
        assert!(!is_short_of(&mut roster, &[1, 2, 3]));
        assert!(!is_short_of(&mut exactly(3), &[]), "workers might be about to connect");
    }

    #[test]
    fn roll_call_for_all_nodes_ends_when_every_listening_worker_has_replied() {
        let mut roster = Roster::new(NodeCount::Everyone);
        let is_complete = |roster: &mut Roster, n: u8| {
            let listening = roster.listening_if_replied(|| (1..=n).map(id).collect());
            roster.is_complete(listening.as_deref())
        };
        assert!(!is_complete(&mut roster, 0), "a worker might still connect");
        roster.note(id(1), Readiness::Ready);
        roster.note(id(2), Readiness::Refused("full".into()));
        assert!(!is_complete(&mut roster, 3));
        roster.note(id(3), Readiness::Ready);
        assert!(is_complete(&mut roster, 3));
        assert_eq!(roster.take_chosen(|_| Some(1)), Some(vec![id(1), id(3)]));
    }
    #[test]
    fn listening_workers_are_looked_up_rarely_while_many_workers_reply() {
        let mut roster = Roster::new(NodeCount::Everyone);
        let mut n_lookups = 0;
        for n in 1..=200 {
            roster.note(id(n), Readiness::Ready);
            let listening = roster.listening_if_replied(|| {
                n_lookups += 1;
                (1..=200).map(id).collect()
            });
            assert_eq!(roster.is_complete(listening.as_deref()), n == 200);
        }
        assert_eq!(n_lookups, 2);
    }
}
