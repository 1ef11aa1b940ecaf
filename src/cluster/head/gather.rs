//! Gathering: sends work orders to the chosen workers and collects the results, with spares for workers
//! that fail.
//!
//! An order for `n` nodes has `n` seats, each of which gets one result. A worker that fails is replaced
//! by another worker that reported, by an offered slot, or by another roll call. If a worker needs much
//! longer than usual, a spare runs the order too. The first result fills the seat and the other order is
//! canceled. A worker that reports that no worker could run the order is replaced only if it is the first
//! to do so: the second one confirms the report. Orders whose results are no longer needed are canceled.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use model::node::PeerId;
use task::causes::chain;
use tokio::select;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info};
use wire::functions::Outcome;

use super::Head;
use super::executions::Track;
use super::inbox::{Failure, Inbox, Reply, ReplyKind};
use super::order::Order;
use super::placement::{NEWCOMER_WAIT_MAX, Trust};
use super::rollcall::{Calls, Roster, Selection, topic};
use super::slots::Lease;
use crate::message::{Code, NodeResult, Signed};
use crate::network::ExchangeError;
use crate::peers::WorkProtocol;

/// Time to send an order and to receive its result, in addition to the run time that a request limits.
const TRANSFER_WITHIN: Duration = Duration::from_secs(5);

/// Outcome of the work orders.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Results by worker.
    pub(super) answers: BTreeMap<PeerId, NodeResult>,
    /// Workers that failed and were not replaced.
    pub(super) failed: BTreeMap<PeerId, Failure>,
    /// Workers that failed and were replaced by a spare.
    pub(super) replaced: BTreeMap<PeerId, Failure>,
    /// Reasons of workers that refused to fill a vacant seat.
    pub(super) refused: BTreeMap<PeerId, String>,
}

impl Gathered {
    /// Returns the fraction of seats that got a result, from 0 to 1. Seats that were still open when the
    /// quorum was reached do not count.
    pub(super) fn share(&self) -> f64 {
        let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        count(self.answers.len()) / count(self.answers.len() + self.failed.len()).max(1.0)
    }

    /// Returns the number of results in the largest group.
    pub(super) fn n_equal(&self) -> usize {
        let mut counts: BTreeMap<&Outcome, usize> = BTreeMap::new();
        for answer in self.answers.values() {
            *counts.entry(&answer.result).or_default() += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// Has the chosen workers run the order. Returns once all have returned a result or failed, or once
/// the quorum is reached.
///
/// Dropping the future cancels the orders on workers of this program.
pub(super) async fn gather(
    head: &Head,
    track: &Track,
    order: &Order,
    chosen: Selection,
    inbox: &mut Inbox,
) -> Gathered {
    let Selection { leases, roster } = chosen;
    let end = Instant::now() + head.0.response_within * 2;
    let mut work = Work {
        head,
        track,
        order,
        messages: BTreeMap::new(),
        sending: FuturesUnordered::new(),
        open: BTreeMap::new(),
        closed_lines: BTreeSet::new(),
        given_up: BTreeSet::new(),
        n_final_refusals: 0,
        is_hedging: false,
        hedge_after: head.0.slots.hedge_after(order.function),
        vacant: Vec::new(),
        calls: None,
        roster,
        gathered: Gathered::default(),
        end,
        end_compiled: end + head.0.compile_within,
    };
    for (seat, lease) in leases.into_iter().enumerate() {
        work.order(lease, seat);
    }
    while let Some(deadline) = work.next_deadline() {
        let look_at = work.calls.as_ref().map_or(deadline, |calls| calls.look_at);
        select! {
            Some((peer, sent)) = work.sending.next(), if !work.sending.is_empty() => {
                work.note_sent(&peer, sent);
            }
            reply = inbox.next() => work.note(reply),
            () = sleep_until(deadline.min(look_at)) => work.look(Instant::now()).await,
        }
        if work.has_quorum() {
            break;
        }
    }
    // Dropping `work` cancels the open orders.
    std::mem::take(&mut work.gathered)
}

/// Outcome of sending a work order: the number of the [line](crate::network::line) on which the order
/// was sent, or `None` if the order had its own stream.
type Sent = Result<Option<u64>, ExchangeError>;

/// The work orders of a request.
struct Work<'a> {
    head: &'a Head,
    track: &'a Track,
    order: &'a Order,
    /// Encoded work order, by protocol.
    messages: BTreeMap<WorkProtocol, Bytes>,
    sending: FuturesUnordered<BoxFuture<'static, (PeerId, Sent)>>,
    /// Work orders that have no result yet, keyed by worker.
    open: BTreeMap<PeerId, Open>,
    /// Numbers of lines that were closed before the line of an open order was known. If the order turns
    /// out to have been sent on one of them, it is lost.
    closed_lines: BTreeSet<u64>,
    /// Workers that failed and are not tried again.
    given_up: BTreeSet<PeerId>,
    /// Number of workers that claimed that no worker could run the order.
    n_final_refusals: usize,
    /// A spare runs the order too if a worker has returned no result after this time.
    hedge_after: Duration,
    /// Seats of failed workers that wait for a spare.
    vacant: Vec<Vacant>,
    /// Roll call for spares, if one is in progress.
    calls: Option<Calls>,
    /// True if the roll call continues without vacant seats, to find spares for slow workers.
    is_hedging: bool,
    roster: Roster,
    gathered: Gathered,
    end: Instant,
    /// Later deadline that replaces `end` once a worker reports that its order must wait, for example
    /// for a compilation.
    end_compiled: Instant,
}

/// The seat of a worker that failed.
struct Vacant {
    peer: PeerId,
    seat: usize,
    failure: Failure,
    /// Deadline for a spare to take the seat.
    until: Instant,
}

/// A work order that has no result yet.
struct Open {
    /// Number of the seat that the result is for.
    seat: usize,
    /// Time of dispatch.
    since: Instant,
    /// Start of the run: the dispatch, or later if the function had to be compiled.
    run_since: Instant,
    /// True if the worker has reported that the order waits for a slot or a compilation.
    is_pending: bool,
    /// True while the worker compiles the function.
    is_compiling: bool,
    /// Deadline of the result.
    until: Instant,
    /// Time at which a spare runs the order too; `None` if a spare was already used or none is intended.
    hedge_at: Option<Instant>,
    /// Line that the order was sent on, once known.
    line: Option<u64>,
    _lease: Lease,
}

impl Work<'_> {
    fn order(&mut self, lease: Lease, seat: usize) {
        let (head, peer) = (self.head.clone(), lease.peer.clone());
        let since = Instant::now();
        let until = self.end.min(since + self.response_within(&peer));
        let hedge_at = Some(since + self.hedge_after).filter(|at| *at < until);
        self.track.note_dispatched(&peer);
        let open = Open {
            seat,
            since,
            run_since: since,
            is_pending: false,
            is_compiling: false,
            until,
            hedge_at,
            line: None,
            _lease: lease,
        };
        self.open.insert(peer.clone(), open);
        let protocol = head.0.context.peers.work_protocol(&peer);
        let encode = || self.order.encode(&head, self.track.request_id(), protocol).into();
        let message = self.messages.entry(protocol).or_insert_with(encode).clone();
        self.sending.push(Box::pin(async move {
            let sent = head.send(&peer, protocol, message).await;
            (peer, sent)
        }));
    }

    /// Returns the time for `peer` to run the order and respond. It is shorter if the order has a time
    /// limit and the worker enforces it: it is a worker of this program, and need not fetch the function.
    fn response_within(&self, peer: &PeerId) -> Duration {
        let (head, order) = (&self.head.0, self.order);
        let runtime = order.work.config.runtime.as_ref();
        match runtime.map(|runtime| runtime.run_time_ms) {
            Some(run_time_ms @ 1..)
                if head.context.peers.work_protocol(peer) == WorkProtocol::Line
                    && head.context.peers.offer(peer).functions.contains(&order.function) =>
            {
                (Duration::from_millis(run_time_ms) + TRANSFER_WITHIN).min(head.response_within)
            }
            _ => head.response_within,
        }
    }

    /// Returns the next deadline, or `None` if no order is open and no seat is vacant.
    fn next_deadline(&self) -> Option<Instant> {
        let answer = self.open.values().map(|open| open.hedge_at.unwrap_or(open.until)).min();
        let vacancy = self.vacant.iter().map(|vacant| vacant.until).min();
        [answer, vacancy].into_iter().flatten().min()
    }

    fn note_sent(&mut self, peer: &PeerId, sent: Sent) {
        match sent {
            Err(error) => self.fail(peer, Failure::Unreached(chain(&error))),
            Ok(Some(number)) if self.closed_lines.contains(&number) => {
                self.fail(peer, Failure::Lost);
            }
            Ok(line) => {
                if let Some(open) = self.open.get_mut(peer) {
                    open.line = line;
                } else if self.given_up.contains(peer) {
                    // The peer was given up while the order was being sent. A cancellation that arrived
                    // before the order had no effect, so it is repeated.
                    self.head.cancel_at(peer, self.track.request_id());
                }
            }
        }
    }

    fn note(&mut self, reply: Reply) {
        let Reply { peer, kind } = reply;
        match kind {
            ReplyKind::Answered(answer, signed) => {
                if !self.open.contains_key(&peer) {
                    let request = self.track.request_id();
                    debug!(request, %peer, "ignored an unexpected result");
                    return;
                }
                match *answer {
                    Ok(answer) => self.note_answer(peer, answer, signed),
                    Err(failure) => self.fail(&peer, failure),
                }
            }
            ReplyKind::LineClosed(number) => match self.open.get(&peer).map(|open| open.line) {
                Some(Some(line)) if line == number => self.fail(&peer, Failure::Lost),
                Some(None) => {
                    self.closed_lines.insert(number);
                }
                _ => {}
            },
            ReplyKind::Waiting => self.note_pending(&peer, false),
            ReplyKind::Compiling => self.note_pending(&peer, true),
            ReplyKind::Running => self.note_running(&peer),
            ReplyKind::Stalled => self.hedge(&peer, Instant::now()),
            ReplyKind::Sending => self.note_sending(&peer),
            ReplyKind::Gone => {
                if self.open.contains_key(&peer) {
                    // The order is canceled, since the peer might have reconnected already and run it
                    // on the new connection.
                    self.head.cancel_at(&peer, self.track.request_id());
                }
                self.fail(&peer, Failure::Lost);
                self.roster.forget(&peer);
                self.fill();
            }
            ReplyKind::RollCall(readiness) => {
                let (head, roster) = (&self.head.0, &mut self.roster);
                head.note_readiness(self.track, self.order, roster, peer, readiness);
                self.fill();
            }
        }
    }

    /// Extends the deadlines of an order that waits for a slot or for its function to be compiled.
    fn note_pending(&mut self, peer: &PeerId, is_compiling: bool) {
        let Some(open) = self.open.get_mut(peer).filter(|open| open.run_since == open.since) else {
            return;
        };
        if !open.is_pending {
            let now = Instant::now();
            let within = self.head.0.compile_within + self.head.0.response_within;
            self.end = self.end_compiled;
            open.is_pending = true;
            open.until = self.end.min(open.since + within);
            // A spare runs the order after 10 s, since a worker that only pretends to wait must not
            // delay the request. Most modules compile in less time.
            let hedge_at = open.hedge_at.map(|_| now + Duration::from_secs(10));
            open.hedge_at = hedge_at.filter(|at| *at < open.until);
        }
        if is_compiling && !std::mem::replace(&mut open.is_compiling, true) {
            self.track.note_compiling(peer);
        }
    }

    fn note_running(&mut self, peer: &PeerId) {
        let response_within = self.response_within(peer);
        let Some(open) = self.open.get_mut(peer).filter(|open| open.is_pending) else { return };
        let now = Instant::now();
        open.is_pending = false;
        open.run_since = now;
        open.until = self.end.min(now + response_within);
        let hedge_at = open.hedge_at.map(|_| now + self.hedge_after);
        open.hedge_at = hedge_at.filter(|at| *at < open.until);
        if std::mem::take(&mut open.is_compiling) {
            self.track.note_running(peer);
        }
    }

    /// Extends the deadlines of an order while a response of its worker arrives, which might be the
    /// response to another order that precedes it.
    fn note_sending(&mut self, peer: &PeerId) {
        let Some(open) = self.open.get_mut(peer) else { return };
        let now = Instant::now();
        open.until = self.end.min(now + TRANSFER_WITHIN).max(open.until);
        let hedge_at = open.hedge_at.map(|at| at.max(now + self.hedge_after));
        open.hedge_at = hedge_at.filter(|at| *at < open.until);
    }

    fn note_answer(&mut self, peer: PeerId, answer: NodeResult, signed: Signed) {
        let Some(open) = self.open.remove(&peer) else { return };
        let slots = &self.head.0.slots;
        slots.note_answer(&peer, self.order.function, open.run_since.elapsed());
        let is_signed = signed == Signed::Yes;
        self.track.note_answer(&peer, answer.result.exit_code, answer.usage, is_signed);
        self.gathered.answers.insert(peer, answer);
        for (rival, order) in self.open.extract_if(.., |_, other| other.seat == open.seat) {
            self.head.cancel_at(&rival, self.track.request_id());
            self.given_up.insert(rival.clone());
            if order.since < open.since {
                if order.is_pending && !order.is_compiling {
                    slots.note_full(&rival);
                } else {
                    slots.note_silent(&rival);
                }
                self.track.note_failure(&rival, &Failure::Overtaken.public_text(), true);
                self.gathered.replaced.insert(rival, Failure::Overtaken);
            } else {
                self.track.note_canceled(&rival);
            }
        }
        let refuted =
            self.gathered.replaced.iter().filter(|(_, failure)| failure.is_refuted_by_a_result());
        for (liar, _) in refuted {
            slots.note_silent(liar);
        }
    }

    /// Has a spare run the order of the slow worker `peer` too.
    fn hedge(&mut self, peer: &PeerId, now: Instant) {
        let Some((seat, since)) = self.open.get(peer).map(|open| (open.seat, open.since)) else {
            return;
        };
        let n_orders = self.open.values().filter(|open| open.seat == seat).count();
        // Allows a third order for the seat, in case the first spare has stalled too.
        let is_allowed = n_orders < 3;
        let trust = if now - since < NEWCOMER_WAIT_MAX && !self.head.0.slots.is_newcomer(peer) {
            Trust::Earned
        } else {
            Trust::Any
        };
        let spare = if is_allowed { self.spare(trust) } else { None };
        if self.head.0.slots.has_never_answered(peer) {
            // A worker that has never returned a result might be unable to, so it gets no further orders
            // for a while, although this one is still open. The roll is called again, since other
            // workers might hold the function by now.
            self.head.0.slots.note_silent(peer);
            self.is_hedging = true;
            self.call();
        }
        if let Some(open) = self.open.get_mut(peer) {
            let is_repeated = is_allowed && spare.is_none();
            // If no spare was free, tries again soon.
            open.hedge_at = is_repeated
                .then_some(now + Duration::from_millis(100))
                .filter(|at| *at < open.until);
        }
        if let Some(spare) = spare {
            let request = self.track.request_id();
            info!(request, %peer, spare = %spare.peer, "a worker is slow: a spare runs the order too");
            self.order(spare, seat);
        }
    }

    async fn look(&mut self, now: Instant) {
        let late = self.open.iter().filter(|(_, open)| open.until <= now);
        let late: Vec<PeerId> = late.map(|(peer, _)| peer.clone()).collect();
        for peer in late {
            self.head.cancel_at(&peer, self.track.request_id());
            self.fail(&peer, Failure::Silent);
        }
        let slow = self.open.iter().filter(|(_, open)| open.hedge_at.is_some_and(|at| at <= now));
        let slow: Vec<PeerId> = slow.map(|(peer, _)| peer.clone()).collect();
        for peer in &slow {
            self.hedge(peer, now);
        }
        self.give_up_vacancies(|vacant| vacant.until <= now);
        if let Some(calls) = &mut self.calls {
            calls.publish_if_due(&self.head.0, self.track, self.order).await;
        }
    }

    /// Gives up on `peer` if it has an open order and replaces it with a spare if possible.
    fn fail(&mut self, peer: &PeerId, failure: Failure) {
        let Some(Open { seat, .. }) = self.open.remove(peer) else { return };
        self.given_up.insert(peer.clone());
        self.demote(peer, &failure);
        let request = self.track.request_id();
        info!(request, %peer, reason = failure.public_text(), "a worker gave no result");
        if self.open.values().any(|open| open.seat == seat) {
            // No replacement is needed, since a spare already runs the order.
            self.track.note_failure(peer, &failure.public_text(), true);
            self.gathered.replaced.insert(peer.clone(), failure);
            return;
        }
        let is_final = matches!(failure, Failure::Final(..) | Failure::TooLong);
        self.n_final_refusals += usize::from(is_final);
        // A single worker might lie about this, so a second one must confirm it.
        let is_believed = is_final && self.n_final_refusals >= 2;
        if !is_believed && let Some(spare) = self.spare(Trust::Any) {
            return self.replace(peer.clone(), seat, failure, spare);
        }
        self.track.note_failure(peer, &failure.public_text(), false);
        if is_believed {
            self.gathered.failed.insert(peer.clone(), failure);
            return;
        }
        let until = self.end.min(Instant::now() + self.order.roll_call_within);
        self.vacant.push(Vacant { peer: peer.clone(), seat, failure, until });
        self.call();
        self.fill();
    }

    /// Starts a roll call for spares.
    fn call(&mut self) {
        if self.calls.is_none() {
            self.roster.forget_refusals();
            self.track.note_roll_call(topic(self.order));
            self.calls = Some(Calls::new(&self.head.0, self.track, self.order));
        }
    }

    /// Lowers the standing of a worker according to its failure.
    fn demote(&self, peer: &PeerId, failure: &Failure) {
        let head = &self.head.0;
        match failure {
            Failure::Refused(code, _) if *code == Code::NOT_FOUND => {
                head.slots.note_missing(peer, self.order.function);
            }
            Failure::Refused(code, _) if *code == Code::UNAVAILABLE => head.slots.note_full(peer),
            // The request itself might be at fault, and a client with bad requests must not demote the
            // workers that other clients use. If another worker returns a result for the order, the
            // refusal was wrong, and `note_answer` demotes the worker.
            Failure::Refused(..) | Failure::Final(..) => {}
            // Disconnected workers are forgotten anyway.
            _ if head.context.peers.is_connected(peer) => head.slots.note_silent(peer),
            _ => {}
        }
    }

    fn replace(&mut self, peer: PeerId, seat: usize, failure: Failure, spare: Lease) {
        info!(request = self.track.request_id(), %peer, spare = %spare.peer, "a spare takes over");
        self.track.note_failure(&peer, &failure.public_text(), true);
        self.gathered.replaced.insert(peer, failure);
        self.order(spare, seat);
    }

    /// Acquires a slot of a worker with at least this `trust` that was not tried yet. Returns `None` if
    /// there is no such worker or no time is left.
    fn spare(&mut self, trust: Trust) -> Option<Lease> {
        if self.end <= Instant::now() {
            return None;
        }
        let tried = self.tried();
        let slots = &self.head.0.slots;
        let is_eligible = |peer: &PeerId| trust == Trust::Any || !slots.is_newcomer(peer);
        self.roster.ready.retain(|peer| !tried.contains(peer));
        while let Some(idx) = self.roster.ready.iter().position(is_eligible)
            && let Some(peer) = self.roster.ready.remove(idx)
        {
            let lease = slots.take_of(&peer, self.order.function);
            // The lease is used only if the peer was not cordoned since it reported.
            if self.head.0.may_run(&peer, self.order) {
                return Some(lease);
            }
        }
        slots.take_spare(&self.order.slot_request(1), &tried, trust)
    }

    fn tried(&self) -> BTreeSet<PeerId> {
        let others = self.gathered.answers.keys().chain(self.open.keys());
        self.given_up.iter().chain(others).cloned().collect()
    }

    /// Fills vacant seats with spares. Gives up on the remaining seats once every listening worker was
    /// tried or has refused.
    fn fill(&mut self) {
        while !self.vacant.is_empty()
            && let Some(spare) = self.spare(Trust::Any)
        {
            let Vacant { peer, seat, failure, .. } = self.vacant.remove(0);
            self.replace(peer, seat, failure, spare);
        }
        if self.vacant.is_empty() {
            self.calls.take_if(|_| !self.is_hedging);
            return;
        }
        let tried = self.tried();
        let listening = self.head.0.listening(self.order);
        if listening.iter().all(|peer| tried.contains(peer) || self.roster.has_refused(peer)) {
            self.give_up_vacancies(|_| true);
        }
    }

    fn give_up_vacancies(&mut self, which: impl Fn(&Vacant) -> bool) {
        let given_up = self.vacant.extract_if(.., |vacant| which(vacant));
        self.gathered.failed.extend(given_up.map(|vacant| (vacant.peer, vacant.failure)));
        if self.vacant.is_empty() && self.calls.take_if(|_| !self.is_hedging).is_some() {
            let refused = self.roster.refusals().filter(|(peer, _)| !self.given_up.contains(*peer));
            let refused = refused.map(|(peer, reason)| (peer.clone(), reason.to_owned()));
            self.gathered.refused.extend(refused);
        }
    }

    fn has_quorum(&self) -> bool {
        let quorum = self.order.quorum.filter(|_| !self.gathered.answers.is_empty());
        quorum.is_some_and(|n| self.gathered.n_equal() >= n.get())
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        for peer in self.open.keys() {
            self.head.cancel_at(peer, self.track.request_id());
            self.track.note_canceled(peer);
        }
    }
}
