//! Slots: which workers could run a function at once, by what they offer and what they run for us.
//!
//! A worker of ours sends the heads what it holds and how many slots are free, and again when that
//! changes. As long as that is fresh, a head need not ask who is ready: it takes slots here, by the
//! rules of `placement.rs`, and gives them back when the answers are in. Where all that could run a
//! function are taken, requests wait here in the fair order of `fair_queue.rs`. Absent on purpose: nodes
//! that offer nothing, which are found by roll call.

mod worker;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use model::{function::FunctionId, node::PeerId};
use parking_lot::Mutex;
use tokio::{
    select,
    sync::oneshot,
    time::{Instant, sleep},
};

use self::worker::{KnownOffer, Worker};
use super::{
    Client,
    node_registry::NodeRegistry,
    placement::{
        Candidate, HEDGE_AFTER_UNKNOWN, RunTime, Trust, choose, expect_completion, is_newcomer,
    },
};
use crate::{
    attributes::Requirements,
    fair_queue::{FairQueue, Position, Verdict},
    message::Offer,
    result_groups::ResultGroup,
};

/// Functions whose usual time is remembered.
const FUNCTIONS_MAX: usize = 1024;

/// Requests that are served while one that wants several workers waits. After that the workers that
/// fit it take nothing else, or it would wait as long as others want one worker each.
const OVERTAKEN_MAX: u64 = 16;

/// How often a waiting request looks whether workers can be given to it that could not before: one
/// was left alone for a while, or the fast ones turn out to be stalled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is wanted: workers of one kind, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotRequest {
    /// They run this function.
    pub(super) function: FunctionId,
    /// They belong to this group, if any.
    pub(super) subgroup: Option<String>,
    /// They declare this.
    pub(super) requirements: Requirements,
    /// So many of them.
    pub(super) n: usize,
    /// Whether they may have to fetch it first.
    pub(super) can_fetch: bool,
}

/// What [`Slots::take`] comes to.
#[derive(Debug)]
pub(super) enum SlotGrant {
    /// These are taken.
    Now(Vec<Lease>),
    /// There are as many workers, but they are busy for this head.
    Later(QueuedRequest),
    /// There are not as many workers that are known to be fit.
    Unknown,
}

/// A slot of a worker, taken until this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) peer: PeerId,
    number: u64,
    slots: Slots,
}

/// A request that waits for slots. Dropping it gives up its place.
#[derive(Debug)]
pub(super) struct QueuedRequest {
    number: u64,
    granted: oneshot::Receiver<Vec<Lease>>,
    slots: Slots,
}

/// The slots of all workers. Cheap to clone; all clones share one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// Who may be given work.
    registry: NodeRegistry,
    workers: BTreeMap<PeerId, Worker>,
    /// Workers above which those that offer nothing are forgotten.
    n_workers_max: usize,
    /// No more than executions under way.
    queue: FairQueue<Client, Waiting>,
    n_queued: usize,
    /// How long workers usually take to answer, by function.
    usual: BTreeMap<FunctionId, RunTime>,
    /// Counts what was taken and what waited.
    turn: u64,
    /// Counts the requests that were served after they waited.
    n_served: u64,
    /// Makes random numbers of turns.
    random: RandomState,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    want: SlotRequest,
    /// Requests that had been served when this one began to wait.
    n_served_before: u64,
    /// None once it is served.
    granted: Option<oneshot::Sender<Vec<Lease>>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slots.release(self);
    }
}

impl QueuedRequest {
    /// Waits for the slots; none if there are not as many fit workers any more. Cancel-safe.
    pub(super) async fn granted(&mut self) -> Option<Vec<Lease>> {
        loop {
            select! {
                granted = &mut self.granted => return granted.ok(),
                () = sleep(LOOK_EVERY) => self.slots.grant(self.slots.0.lock()),
            }
        }
    }

    /// Where it waits.
    pub(super) fn position(&self) -> Option<Position> {
        self.slots.0.lock().queue.position(|waiting| waiting.number == self.number)
    }
}

impl Slots {
    /// Those of about `n_workers_max` workers that may be given work by `registry`.
    pub(super) fn new(registry: NodeRegistry, n_workers_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Table { registry, n_workers_max, ..Table::default() })))
    }

    /// Serves requests that wait, since more workers may be given work than before.
    pub(super) fn look_again(&self) {
        self.grant(self.0.lock());
    }

    /// How many orders `peer` runs, or is about to be given.
    pub(super) fn n_running(&self, peer: &PeerId) -> usize {
        self.0.lock().workers.get(peer).map_or(0, |worker| worker.running.len())
    }

    /// Takes note of what a worker offers.
    pub(super) fn note_offer(&self, peer: &PeerId, offer: &Offer, names_max: usize) {
        let mut table = self.0.lock();
        let known = KnownOffer::read(offer, names_max, Instant::now());
        table.worker(peer).offer = Some(known);
    }

    /// Records the round trip of the latest ping of a worker.
    pub(super) fn set_round_trip(&self, peer: &PeerId, round_trip: Duration) {
        if let Some(worker) = self.0.lock().workers.get_mut(peer) {
            worker.round_trip = round_trip;
        }
    }

    /// Takes note that a worker answered an order for `function`, `elapsed` after it was sent.
    pub(super) fn note_answer(&self, peer: &PeerId, function: FunctionId, elapsed: Duration) {
        let mut table = self.0.lock();
        let is_cold = table.worker(peer).note_answer(function, elapsed, Instant::now());
        let usual = match table.usual.get(&function) {
            None => RunTime::first(elapsed),
            // A function is fetched and compiled once, which is not usual.
            Some(usual) if is_cold => *usual,
            Some(usual) => usual.after(elapsed),
        };
        table.usual.insert(function, usual);
        if table.usual.len() > FUNCTIONS_MAX {
            table.usual.pop_first();
        }
    }

    /// Takes note of how answers of one execution compare. The majority is more than half by weight,
    /// so that strangers, however many, do not outvote workers that are trusted.
    pub(super) fn judge(&self, groups: &[ResultGroup]) {
        let mut table = self.0.lock();
        let weight = |peer: &PeerId| table.workers.get(peer).map_or(1, Worker::weight);
        let weights: Vec<u64> =
            groups.iter().map(|group| group.peers.iter().map(weight).sum()).collect();
        let total: u64 = weights.iter().sum();
        let majority = weights.iter().position(|weight| weight * 2 > total);
        for (idx, group) in groups.iter().enumerate() {
            let has_agreed = majority.map(|majority| majority == idx);
            // One that answered alone agreed with nobody.
            let has_agreed = has_agreed.filter(|agreed| !agreed || group.peers.len() > 1);
            for peer in &group.peers {
                if let Some(worker) = table.workers.get_mut(peer) {
                    worker.judge(has_agreed);
                }
            }
        }
    }

    /// Takes note that a worker does not hold a function, since it has just said so.
    pub(super) fn note_lacking(&self, peer: &PeerId, function: FunctionId) {
        let mut table = self.0.lock();
        let Some(worker) = table.workers.get_mut(peer) else { return };
        worker.learned.remove(&function);
        if let Some(known) = &mut worker.offer {
            known.functions.remove(&function);
        }
    }

    /// Takes note that a worker has no slot free, since it has just said so: what it offered does not
    /// count for a while.
    pub(super) fn note_full(&self, peer: &PeerId) {
        if let Some(worker) = self.0.lock().workers.get_mut(peer) {
            worker.note_full(Instant::now());
        }
    }

    /// Takes note that a worker did not answer an order, or with nothing of use: it is left alone for
    /// a while.
    pub(super) fn note_silent(&self, peer: &PeerId) {
        self.0.lock().worker(peer).note_silence(Instant::now());
    }

    /// Workers that run an order for longer than `age`, and those that have not answered a ping.
    pub(super) fn slow_workers(&self, age: Duration) -> Vec<PeerId> {
        let (now, table) = (Instant::now(), self.0.lock());
        let slow = table.workers.iter().filter(|(_, worker)| worker.is_slow(age, now));
        slow.map(|(peer, _)| peer.clone()).collect()
    }

    /// Takes note that a worker is pinged. Returns whether it has just missed too many.
    pub(super) fn note_ping(&self, peer: &PeerId) -> bool {
        self.0.lock().workers.get_mut(peer).is_some_and(Worker::note_ping)
    }

    /// Takes note that a worker answered a ping.
    pub(super) fn note_pong(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(peer)
            && worker.note_pong()
        {
            self.grant(table);
        }
    }

    /// Forgets a worker that is gone.
    pub(super) fn note_lost(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.remove(peer)
            && !worker.running.is_empty()
        {
            table.workers.insert(peer.clone(), worker.forget());
        }
    }

    /// Takes slots at once, if as many workers are known to be fit and free and nobody waits who
    /// could have them; waits for them, if they are known to be fit.
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
        let (granted, coming) = oneshot::channel();
        table.turn += 1;
        let number = table.turn;
        let n_served_before = table.n_served;
        let waiting = Waiting { number, want, n_served_before, granted: Some(granted) };
        table.queue.push(client.clone(), waiting);
        self.grant(table);
        let mut queued = QueuedRequest { number, granted: coming, slots: self.clone() };
        match queued.granted.try_recv() {
            Ok(leases) => SlotGrant::Now(leases),
            Err(_) => SlotGrant::Later(queued),
        }
    }

    /// Takes one slot at once, of a worker of this trust that is not in `but`.
    pub(super) fn take_spare(
        &self,
        want: &SlotRequest,
        but: &BTreeSet<PeerId>,
        trust: Trust,
    ) -> Option<Lease> {
        let mut table = self.0.lock();
        let want = SlotRequest { n: 1, ..want.clone() };
        let spares = table.candidates(&want, Instant::now()).into_iter();
        let heaviest = table.heaviest();
        let is_meant =
            |spare: &Candidate| trust == Trust::Any || !is_newcomer(spare.weight, heaviest);
        let spares = spares
            .filter(|(peer, spare)| spare.is_free && !but.contains(*peer) && is_meant(spare))
            .collect();
        let peers = table.draw(spares, 1)?;
        self.leases(&mut table, peers, want.function).pop()
    }

    /// Takes a slot of `peer`, which said that it is ready, whatever is known of it.
    pub(super) fn take_of(&self, peer: &PeerId, function: FunctionId) -> Lease {
        let mut table = self.0.lock();
        Lease { peer: peer.clone(), number: table.take(peer, function), slots: self.clone() }
    }

    /// The chance with which `peer` is chosen; none while it is left alone, since it did not answer.
    pub(super) fn weight_of(&self, peer: &PeerId) -> Option<u64> {
        let table = self.0.lock();
        let Some(worker) = table.workers.get(peer) else { return Some(1) };
        (!worker.is_silent(Instant::now())).then(|| worker.weight())
    }

    /// Whether `peer` has served much less than others.
    pub(super) fn is_newcomer(&self, peer: &PeerId) -> bool {
        let table = self.0.lock();
        let weight = table.workers.get(peer).map_or(1, Worker::weight);
        is_newcomer(weight, table.heaviest())
    }

    /// Whether `peer` has given no answer yet.
    pub(super) fn has_never_answered(&self, peer: &PeerId) -> bool {
        self.0.lock().workers.get(peer).is_none_or(|worker| worker.weight() == 1)
    }

    /// After how long without an answer a spare is asked to run `function` too.
    pub(super) fn hedge_after(&self, function: FunctionId) -> Duration {
        let table = self.0.lock();
        table.usual.get(&function).map_or(HEDGE_AFTER_UNKNOWN, |usual| usual.hedge_after())
    }

    /// How many slots `peer` has, and how many of them are free, if it offers any.
    pub(super) fn offered_slots(&self, peer: &PeerId) -> Option<(usize, usize)> {
        let table = self.0.lock();
        let worker = table.workers.get(peer)?;
        Some((worker.offer.as_ref()?.n_slots, worker.n_free()))
    }

    fn leases(&self, table: &mut Table, peers: Vec<PeerId>, function: FunctionId) -> Vec<Lease> {
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

    /// Serves requests that wait and can be served. Takes the lock, since those that gave up meanwhile
    /// drop what they are granted, which takes it again.
    fn grant(&self, mut table: parking_lot::MutexGuard<'_, Table>) {
        let mut queue = std::mem::take(&mut table.queue);
        let mut granted = Vec::new();
        let mut unmet: Vec<SlotRequest> = Vec::new();
        // Workers whose next free slots are for a request that was overtaken too often.
        let mut reserved: BTreeSet<PeerId> = BTreeSet::new();
        table.n_queued = queue.len();
        queue.serve(|waiting| {
            if waiting.granted.as_ref().is_none_or(oneshot::Sender::is_closed) {
                return Verdict::Dropped;
            }
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
            let leases = self.leases(&mut table, peers, waiting.want.function);
            granted.extend(waiting.granted.take().map(|to| (to, leases)));
            Verdict::Served
        });
        table.n_queued = queue.len();
        table.queue = queue;
        drop(table);
        for (to, leases) in granted {
            drop(to.send(leases));
        }
    }
}

impl Table {
    fn worker(&mut self, peer: &PeerId) -> &mut Worker {
        if self.workers.len() >= self.n_workers_max && !self.workers.contains_key(peer) {
            self.workers.retain(|_, worker| worker.offer.is_some() || !worker.running.is_empty());
        }
        self.workers.entry(peer.clone()).or_default()
    }

    /// The largest weight of a worker.
    fn heaviest(&self) -> u64 {
        self.workers.values().map(Worker::weight).max().unwrap_or_default()
    }

    /// Takes a slot of `peer`, and returns the number of its lease.
    fn take(&mut self, peer: &PeerId, function: FunctionId) -> u64 {
        self.turn += 1;
        let turn = self.turn;
        let worker = self.worker(peer);
        worker.running.insert(turn, (function, Instant::now()));
        worker.last_turn = turn;
        turn
    }

    /// The workers to give a request to, as many as it wants and none of those `reserved`; none if
    /// it should wait.
    fn choose_workers(
        &self,
        want: &SlotRequest,
        reserved: &BTreeSet<PeerId>,
    ) -> Option<Vec<PeerId>> {
        let mut candidates = self.candidates(want, Instant::now());
        candidates.retain(|(peer, _)| !reserved.contains(*peer));
        self.draw(candidates, want.n)
    }

    fn draw(&self, candidates: Vec<(&PeerId, Candidate)>, n: usize) -> Option<Vec<PeerId>> {
        let (peers, candidates): (Vec<&PeerId>, Vec<Candidate>) = candidates.into_iter().unzip();
        let mut n_drawn = 0_u64;
        let chosen = choose(&candidates, n, || {
            n_drawn += 1;
            self.random.hash_one((self.turn, n_drawn))
        })?;
        Some(chosen.into_iter().filter_map(|idx| peers.get(idx).copied().cloned()).collect())
    }

    /// Those that could run what is wanted, now or soon.
    fn candidates(&self, want: &SlotRequest, now: Instant) -> Vec<(&PeerId, Candidate)> {
        let is_open = self.registry.check_work();
        let fit = self.workers.iter().filter(|(peer, worker)| {
            is_open(peer) && worker.is_fit(want, now) && worker.is_of_use()
        });
        let fit: Vec<(&PeerId, &Worker)> = fit.collect();
        let heaviest = fit.iter().map(|(_, worker)| worker.weight()).max().unwrap_or_default();
        let n_slots = |worker: &Worker| worker.offer.as_ref().map_or(0, |known| known.n_slots);
        let n_slots_all: usize = fit.iter().map(|(_, worker)| n_slots(worker)).sum();
        let usual = self.usual.get(&want.function).copied();
        let candidates = fit.into_iter().map(|(peer, worker)| {
            let is_newcomer = is_newcomer(worker.weight(), heaviest);
            let n_free = if is_newcomer { worker.n_free_of_newcomer() } else { worker.n_free() };
            // Those that wait are spread over all slots, once none is free.
            let n_waiting =
                if n_free > 0 { 0 } else { self.n_queued * n_slots(worker) / n_slots_all.max(1) };
            let load = worker.load(want.function, n_waiting, now);
            // A worker without the function has to fetch it first.
            let fetch_time =
                if worker.has(want.function) { Duration::ZERO } else { Duration::from_millis(100) };
            let candidate = Candidate {
                completion: expect_completion(load, usual) + fetch_time,
                is_free: n_free > 0,
                weight: worker.weight(),
                last_turn: worker.last_turn,
            };
            (peer, candidate)
        });
        candidates.collect()
    }

    /// How many could run what is wanted, once they have a free slot.
    fn n_could_run(&self, want: &SlotRequest) -> usize {
        let (now, is_open) = (Instant::now(), self.registry.check_work());
        let open = self.workers.iter().filter(|(peer, _)| is_open(peer));
        open.map(|(_, worker)| worker)
            .filter(|worker| worker.is_of_use())
            .filter(|worker| worker.could_run(want, now))
            .count()
    }
}

#[cfg(test)]
mod tests;
