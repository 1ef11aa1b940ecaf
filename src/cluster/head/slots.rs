//! Slots: workers that could run a function immediately, according to their offers and the orders that
//! this head gave them.
//!
//! A worker of this program sends its functions and free slots to the heads, repeatedly and after
//! changes. While an offer is fresh, the head acquires slots here by the rules of `placement.rs`
//! instead of calling the roll. If all eligible workers are busy, requests wait in the fair order of
//! `fair_queue.rs`. Nodes without offers are found by roll call.

mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::function::FunctionId;
use model::node::PeerId;
use parking_lot::Mutex;
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use self::worker::WorkerState;
use super::Client;
use super::node_registry::NodeRegistry;
use super::placement::{
    Candidate, HEDGE_AFTER_UNKNOWN, RunTime, Trust, choose, expect_completion, is_newcomer,
};
use crate::attributes::Requirements;
use crate::fair_queue::{FairQueue, Verdict};
use crate::peers::NodeOffer;
use crate::result_groups::ResultGroup;

/// Maximum number of functions whose usual run time is remembered.
const FUNCTIONS_MAX: usize = 1024;

/// A request for several workers can be overtaken by this many other requests. After that, free slots
/// of its eligible workers are reserved for it. Otherwise, a steady flow of requests for single workers
/// would delay it forever.
const OVERTAKEN_MAX: u64 = 16;

/// Interval at which waiting requests check again whether one of them can be served. A worker's pause
/// might be over, or the fast workers might have stalled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Request for slots of several workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotRequest {
    /// Function to run.
    pub(super) function: FunctionId,
    /// Group of the workers, if any.
    pub(super) subgroup: Option<String>,
    /// Attributes that the workers must declare.
    pub(super) requirements: Requirements,
    /// Number of workers, each with one slot.
    pub(super) n: usize,
    /// True if the workers might have to fetch the function first.
    pub(super) can_fetch: bool,
}

/// Outcome of [`Slots::take`].
#[derive(Debug)]
pub(super) enum SlotGrant {
    /// The slots are granted.
    Now(Vec<Lease>),
    /// There are enough workers, but they are busy.
    Later(QueuedRequest),
    /// Too few workers are known.
    Unknown,
}

/// A slot of a worker, held until dropped.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) peer: PeerId,
    number: u64,
    slots: Slots,
}

/// A request that waits for slots. If it is dropped, the request is removed from the queue when requests
/// are served next.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    granted: oneshot::Receiver<Vec<Lease>>,
    slots: Slots,
    look_at: Instant,
}

/// Slots of all workers. Clones share one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<SlotTable>>);

#[derive(Debug, Default)]
struct SlotTable {
    /// Decisions about access to work.
    registry: NodeRegistry,
    workers: BTreeMap<PeerId, WorkerState>,
    /// If more workers are known, workers without an offer are forgotten.
    n_workers_max: usize,
    /// Waiting requests. Limited by the number of executions in progress.
    queue: FairQueue<Client, Waiting, Vec<Lease>>,
    /// Usual run time of each function, over all workers.
    usual: BTreeMap<FunctionId, RunTime>,
    /// Number of leases so far, which is also the number of the latest lease.
    turn: u64,
    /// Number of requests that were served so far after they waited.
    n_served: u64,
    /// Time of the latest check of the waiting requests.
    looked_at: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    want: SlotRequest,
    /// Value of `n_served` when the request was queued.
    n_served_before: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slots.release(self);
    }
}

impl QueuedRequest {
    /// Waits for the slots; `None` if there are too few eligible workers now. Cancel-safe.
    pub(super) async fn granted(&mut self) -> Option<Vec<Lease>> {
        loop {
            select! {
                granted = &mut self.granted => return granted.ok(),
                () = sleep_until(self.look_at) => {
                    self.look_at = Instant::now() + LOOK_EVERY;
                    let table = self.slots.0.lock();
                    // Another request might have checked for all of them.
                    if table.looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                        self.slots.grant(table);
                    }
                }
            }
        }
    }
}

impl Slots {
    /// Creates an empty table. If more than `n_workers_max` workers are known, workers without an offer
    /// are forgotten. `registry` decides which workers can get work.
    pub(super) fn new(registry: NodeRegistry, n_workers_max: usize) -> Self {
        Self(Arc::new(Mutex::new(SlotTable { registry, n_workers_max, ..SlotTable::default() })))
    }

    /// Serves waiting requests after the access of workers has changed.
    pub(super) fn look_again(&self) {
        self.grant(self.0.lock());
    }

    /// Returns the number of orders that `peer` runs or is about to be given.
    pub(super) fn n_running(&self, peer: &PeerId) -> usize {
        self.0.lock().workers.get(peer).map_or(0, |worker| worker.running.len())
    }

    /// Records a worker's offer. An offer without slots withdraws the previous offer.
    pub(super) fn note_offer(&self, peer: &PeerId, offer: Arc<NodeOffer>) {
        let mut table = self.0.lock();
        if offer.n_slots > 0 {
            table.worker(peer).offer = Some((offer, Instant::now()));
        } else if let Some(worker) = table.workers.get_mut(peer) {
            worker.offer = None;
        }
    }

    /// Records that a worker responded to an order for `function` after `elapsed`.
    pub(super) fn note_answer(&self, peer: &PeerId, function: FunctionId, elapsed: Duration) {
        let mut table = self.0.lock();
        let is_cold = table.worker(peer).note_answer(function, elapsed, Instant::now());
        let usual = match table.usual.get(&function) {
            None => RunTime::first(elapsed),
            // A worker's first run is not averaged, since it might include fetching and compiling.
            Some(usual) if is_cold => *usual,
            Some(usual) => usual.after(elapsed),
        };
        table.usual.insert(function, usual);
        if table.usual.len() > FUNCTIONS_MAX {
            table.usual.pop_first();
        }
    }

    /// Compares the results of an execution and adjusts the weights of its workers. The majority is the
    /// group with more than half of the total weight, so that trusted workers outweigh more numerous
    /// strangers.
    pub(super) fn judge(&self, groups: &[ResultGroup]) {
        let mut table = self.0.lock();
        let weight = |peer: &PeerId| table.workers.get(peer).map_or(1, WorkerState::weight);
        let weights: Vec<u64> =
            groups.iter().map(|group| group.peers.iter().map(weight).sum()).collect();
        let total: u64 = weights.iter().sum();
        let majority = weights.iter().position(|weight| weight * 2 > total);
        for (idx, group) in groups.iter().enumerate() {
            let has_agreed = majority.map(|majority| majority == idx);
            // If only one worker returned the majority's result, this does not count as agreement,
            // since no other worker confirmed it.
            let has_agreed = has_agreed.filter(|agreed| !agreed || group.peers.len() > 1);
            for peer in &group.peers {
                if let Some(worker) = table.workers.get_mut(peer) {
                    worker.judge(has_agreed);
                }
            }
        }
    }

    /// Records that a worker has just reported that it does not hold a function.
    pub(super) fn note_missing(&self, peer: &PeerId, function: FunctionId) {
        let mut table = self.0.lock();
        let Some(worker) = table.workers.get_mut(peer) else { return };
        worker.learned.remove(&function);
        if let Some((offer, _)) = &mut worker.offer {
            Arc::make_mut(offer).functions.remove(&function);
        }
    }

    /// Records that a worker has just reported that it is full. The worker's offer does not count for a
    /// while.
    pub(super) fn note_full(&self, peer: &PeerId) {
        if let Some(worker) = self.0.lock().workers.get_mut(peer) {
            worker.note_full(Instant::now());
        }
    }

    /// Records that a worker gave no usable response to an order. The worker gets no work for a while.
    pub(super) fn note_silent(&self, peer: &PeerId) {
        self.0.lock().worker(peer).note_silence(Instant::now());
    }

    /// Returns the workers that have been running an order for longer than `age` or have an unanswered
    /// ping.
    pub(super) fn slow_workers(&self, age: Duration) -> Vec<PeerId> {
        let (now, table) = (Instant::now(), self.0.lock());
        let slow = table.workers.iter().filter(|(_, worker)| worker.is_slow(age, now));
        slow.map(|(peer, _)| peer.clone()).collect()
    }

    /// Records that a worker was sent a ping. Returns true if the worker has just missed too many
    /// pings.
    pub(super) fn note_ping(&self, peer: &PeerId) -> bool {
        self.0.lock().workers.get_mut(peer).is_some_and(WorkerState::note_ping)
    }

    /// Records that a worker answered a ping.
    pub(super) fn note_pong(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(peer)
            && worker.note_pong()
        {
            self.grant(table);
        }
    }

    /// Forgets a disconnected worker.
    pub(super) fn note_lost(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.remove(peer)
            && !worker.running.is_empty()
        {
            table.workers.insert(peer.clone(), worker.forget());
        }
    }

    /// Grants slots if enough eligible workers are free and no other request waits for them. Queues the
    /// request if enough workers are eligible but busy.
    pub(super) fn take(&self, client: &Client, want: SlotRequest) -> SlotGrant {
        let mut table = self.0.lock();
        if table.queue.len() == 0
            && let Some(peers) = table.choose_workers(&want, &BTreeSet::new())
        {
            return SlotGrant::Now(self.leases(&mut table, peers, want.function));
        }
        if table.n_could_run(&want) < want.n {
            return SlotGrant::Unknown;
        }
        let n_served_before = table.n_served;
        let granted = table.queue.push(client.clone(), Waiting { want, n_served_before });
        self.grant(table);
        let look_at = Instant::now() + LOOK_EVERY;
        let mut queued = QueuedRequest { granted, slots: self.clone(), look_at };
        match queued.granted.try_recv() {
            Ok(leases) => SlotGrant::Now(leases),
            Err(_) => SlotGrant::Later(queued),
        }
    }

    /// Takes a slot of a worker with at least this `trust` that is not in `excluded`.
    pub(super) fn take_spare(
        &self,
        want: &SlotRequest,
        excluded: &BTreeSet<PeerId>,
        trust: Trust,
    ) -> Option<Lease> {
        let mut table = self.0.lock();
        let want = SlotRequest { n: 1, ..want.clone() };
        let heaviest = table.heaviest();
        let spares = table.candidates(&want, Instant::now()).into_iter().filter(|(peer, spare)| {
            spare.is_free
                && !excluded.contains(*peer)
                && (trust == Trust::Any || !is_newcomer(spare.weight, heaviest))
        });
        let spares = spares.collect();
        let peers = SlotTable::draw(spares, 1)?;
        self.leases(&mut table, peers, want.function).pop()
    }

    /// Takes a slot of `peer`, which reported ready, regardless of its offer.
    pub(super) fn take_of(&self, peer: &PeerId, function: FunctionId) -> Lease {
        let mut table = self.0.lock();
        Lease { peer: peer.clone(), number: table.take(peer, function), slots: self.clone() }
    }

    /// Returns the relative probability of choosing `peer`, or `None` while it is paused for not
    /// responding.
    pub(super) fn weight_of(&self, peer: &PeerId) -> Option<u64> {
        let table = self.0.lock();
        let Some(worker) = table.workers.get(peer) else { return Some(1) };
        (!worker.is_silent(Instant::now())).then(|| worker.weight())
    }

    /// Returns true if `peer` has returned far fewer results than other workers.
    pub(super) fn is_newcomer(&self, peer: &PeerId) -> bool {
        let table = self.0.lock();
        let weight = table.workers.get(peer).map_or(1, WorkerState::weight);
        is_newcomer(weight, table.heaviest())
    }

    /// Returns true if `peer` has not given a result yet.
    pub(super) fn has_never_answered(&self, peer: &PeerId) -> bool {
        self.0.lock().workers.get(peer).is_none_or(|worker| worker.weight() == 1)
    }

    /// Returns the time after which a spare runs an order for `function` too.
    pub(super) fn hedge_after(&self, function: FunctionId) -> Duration {
        let table = self.0.lock();
        table.usual.get(&function).map_or(HEDGE_AFTER_UNKNOWN, |usual| usual.hedge_after())
    }

    /// Returns the total and the free slots that `peer` offers.
    pub(super) fn offered_slots(&self, peer: &PeerId) -> Option<(usize, usize)> {
        let table = self.0.lock();
        let worker = table.workers.get(peer)?;
        Some((worker.offer.as_ref()?.0.n_slots, worker.n_free()))
    }

    fn leases(
        &self,
        table: &mut SlotTable,
        peers: Vec<PeerId>,
        function: FunctionId,
    ) -> Vec<Lease> {
        let lease = |peer: PeerId| {
            let number = table.take(&peer, function);
            Lease { peer, number, slots: self.clone() }
        };
        peers.into_iter().map(lease).collect()
    }

    fn release(&self, lease: &Lease) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(&lease.peer) {
            worker.running.remove(&lease.number);
            if worker.is_forgettable() {
                table.workers.remove(&lease.peer);
            }
        }
        self.grant(table);
    }

    /// Serves waiting requests. Releases the lock before it sends the leases, since the lease of a
    /// request that gave up is dropped, which locks the table again.
    fn grant(&self, mut table: parking_lot::MutexGuard<'_, SlotTable>) {
        table.looked_at = Some(Instant::now());
        let mut queue = std::mem::take(&mut table.queue);
        let mut unmet: Vec<SlotRequest> = Vec::new();
        // Workers whose next free slots are reserved for requests that were overtaken too often.
        let mut reserved: BTreeSet<PeerId> = BTreeSet::new();
        let grants = queue.serve(|_, waiting| {
            if unmet.contains(&waiting.want) {
                return Verdict::Waits;
            }
            if table.n_could_run(&waiting.want) < waiting.want.n {
                return Verdict::Dropped;
            }
            let Some(peers) = table.choose_workers(&waiting.want, &reserved) else {
                if table.n_served - waiting.n_served_before > OVERTAKEN_MAX {
                    let fit = table.candidates(&waiting.want, Instant::now()).into_iter();
                    reserved.extend(fit.map(|(peer, _)| peer.clone()));
                }
                unmet.push(waiting.want.clone());
                return Verdict::Waits;
            };
            table.n_served += 1;
            Verdict::Served(self.leases(&mut table, peers, waiting.want.function))
        });
        table.queue = queue;
        drop(table);
        grants.send();
    }
}

impl SlotTable {
    fn worker(&mut self, peer: &PeerId) -> &mut WorkerState {
        if self.workers.len() >= self.n_workers_max && !self.workers.contains_key(peer) {
            self.workers.retain(|_, worker| worker.offer.is_some() || !worker.running.is_empty());
        }
        self.workers.entry(peer.clone()).or_default()
    }

    /// Returns the largest weight of a worker.
    fn heaviest(&self) -> u64 {
        self.workers.values().map(WorkerState::weight).max().unwrap_or_default()
    }

    /// Takes a slot of `peer` and returns the number of the lease.
    fn take(&mut self, peer: &PeerId, function: FunctionId) -> u64 {
        self.turn += 1;
        let turn = self.turn;
        let worker = self.worker(peer);
        worker.running.insert(turn, (function, Instant::now()));
        worker.last_turn = turn;
        turn
    }

    /// Returns workers for a request, none of them `reserved`. Returns `None` if the request should
    /// wait.
    fn choose_workers(
        &self,
        want: &SlotRequest,
        reserved: &BTreeSet<PeerId>,
    ) -> Option<Vec<PeerId>> {
        let mut candidates = self.candidates(want, Instant::now());
        candidates.retain(|(peer, _)| !reserved.contains(*peer));
        Self::draw(candidates, want.n)
    }

    fn draw(candidates: Vec<(&PeerId, Candidate)>, n: usize) -> Option<Vec<PeerId>> {
        let (peers, candidates): (Vec<&PeerId>, Vec<Candidate>) = candidates.into_iter().unzip();
        let chosen = choose(&candidates, n, rand::random::<u64>)?;
        Some(chosen.into_iter().filter_map(|idx| peers.get(idx).copied().cloned()).collect())
    }

    /// Returns the workers that could run the request, now or soon.
    fn candidates(&self, want: &SlotRequest, now: Instant) -> Vec<(&PeerId, Candidate)> {
        let is_open = self.registry.check_work();
        let fit: Vec<(&PeerId, &WorkerState)> = self
            .workers
            .iter()
            .filter(|(peer, worker)| {
                is_open(peer) && worker.is_fit(want, now) && worker.is_of_use()
            })
            .collect();
        let heaviest = fit.iter().map(|(_, worker)| worker.weight()).max().unwrap_or_default();
        let usual = self.usual.get(&want.function).copied();
        let candidates = fit.into_iter().map(|(peer, worker)| {
            let is_newcomer = is_newcomer(worker.weight(), heaviest);
            let n_free = if is_newcomer { worker.n_free_of_newcomer() } else { worker.n_free() };
            let candidate = Candidate {
                completion: expect_completion(worker.load(want.function, now), usual),
                is_free: n_free > 0,
                weight: worker.weight(),
                last_turn: worker.last_turn,
            };
            (peer, candidate)
        });
        candidates.collect()
    }

    /// Returns the number of workers that could run the request once they have a free slot.
    fn n_could_run(&self, want: &SlotRequest) -> usize {
        let (now, is_open) = (Instant::now(), self.registry.check_work());
        let could_run = |(peer, worker): &(&PeerId, &WorkerState)| {
            is_open(peer) && worker.is_of_use() && worker.could_run(want, now)
        };
        self.workers.iter().filter(could_run).count()
    }
}

#[cfg(test)]
mod tests;
