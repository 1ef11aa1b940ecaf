//! Slots: which workers could run a function at once, by what they offer and what they run for us.
//!
//! A worker of ours tells the heads what it holds and how many slots are free, and tells it anew
//! when that changes. As long as that is fresh, a head need not ask who is ready: it takes slots
//! here, and gives them back when the answers are in. Where all that could run a function are taken,
//! requests wait here in their order, longer than a function takes but far shorter than a roll call.
//! Absent on purpose: nodes that offer nothing, which are found by roll call.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use model::{
    function::FunctionId,
    node::{PeerId, SUBGROUP_BYTES_MAX},
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use crate::message::Offer;

/// How long an offer counts. Workers repeat theirs each 10 s, so that one may be lost on its way.
const FRESH_WITHIN: Duration = Duration::from_secs(25);

/// How long a worker that said it is full is left alone: as long as it takes to offer anew.
const FULL_FOR: Duration = Duration::from_secs(1);

/// Functions remembered of one worker that it ran and does not offer.
const LEARNED_MAX: usize = 256;

/// What is wanted: workers of one kind, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Want {
    /// They hold this function.
    pub(super) function: FunctionId,
    /// They belong to this group, if any.
    pub(super) subgroup: Option<String>,
    /// So many of them.
    pub(super) n: usize,
}

/// What became of a wish for slots.
#[derive(Debug)]
pub(super) enum Taken {
    /// These are taken.
    Now(Vec<Lease>),
    /// There are as many workers, but they are busy for this head: the slots come, maybe.
    Later(oneshot::Receiver<Vec<Lease>>),
    /// There are not as many workers that are known to be fit.
    Unknown,
}

/// A slot of a worker, taken until this is dropped.
#[derive(Debug)]
pub(super) struct Lease {
    peer: PeerId,
    slots: Slots,
}

/// The slots of all workers. Cheap to clone; all clones share one table.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    workers: BTreeMap<PeerId, Worker>,
    /// Whoever waits, the first to be served first. No more than executions under way.
    waiting: VecDeque<Waiting>,
    /// Counts what was taken, so that slots are taken in turn.
    turn: u64,
}

#[derive(Debug, Default)]
struct Worker {
    offer: Option<Known>,
    /// Functions it has run for us, maybe under another id than that which it offers.
    learned: BTreeSet<FunctionId>,
    /// What we have it run.
    n_taken: usize,
    /// When it was chosen last.
    turn: u64,
    /// Until when it is left alone.
    full_until: Option<Instant>,
}

/// What a worker offered last.
#[derive(Debug)]
struct Known {
    functions: BTreeSet<FunctionId>,
    subgroups: BTreeSet<String>,
    n_slots: usize,
    /// What it ran for others by then.
    n_foreign: usize,
    at: Instant,
}

#[derive(Debug)]
struct Waiting {
    want: Want,
    granted: oneshot::Sender<Vec<Lease>>,
}

impl Lease {
    /// Whose slot it is.
    pub(super) fn peer(&self) -> &PeerId {
        &self.peer
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.slots.release(&self.peer);
    }
}

impl Slots {
    /// Takes note of what a worker offers.
    pub(super) fn offered(&self, peer: &PeerId, offer: &Offer, names_max: usize) {
        let mut table = self.0.lock();
        let worker = table.worker(peer);
        worker.offer = Some(Known {
            functions: offer
                .functions
                .iter()
                .take(names_max)
                .filter_map(|f| f.parse().ok())
                .collect(),
            subgroups: offer
                .subgroups
                .iter()
                .take(names_max)
                .filter(|name| name.len() <= SUBGROUP_BYTES_MAX)
                .cloned()
                .collect(),
            n_slots: offer.slots,
            n_foreign: offer.slots.saturating_sub(offer.slots_free),
            at: Instant::now(),
        });
        self.grant(table);
    }

    /// Takes note that a worker holds a function, since it has just run it.
    pub(super) fn holds(&self, peer: &PeerId, function: FunctionId) {
        let mut table = self.0.lock();
        let Some(worker) = table.workers.get_mut(peer) else { return };
        let is_new =
            worker.offer.as_ref().is_some_and(|known| !known.functions.contains(&function));
        if is_new && worker.learned.insert(function) && worker.learned.len() > LEARNED_MAX {
            worker.learned.pop_first();
        }
    }

    /// Takes note that a worker does not hold a function, since it has just said so.
    pub(super) fn lacks(&self, peer: &PeerId, function: FunctionId) {
        let mut table = self.0.lock();
        let Some(worker) = table.workers.get_mut(peer) else { return };
        worker.learned.remove(&function);
        if let Some(known) = &mut worker.offer {
            known.functions.remove(&function);
        }
    }

    /// Takes note that a worker has no slot free, since it has just said so: what it offered does not
    /// count for a while.
    pub(super) fn full(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(peer) {
            worker.full_until = Some(Instant::now() + FULL_FOR);
        }
    }

    /// Forgets a worker that is gone.
    pub(super) fn lost(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(peer) {
            worker.offer = None;
            worker.learned.clear();
            if worker.n_taken == 0 {
                table.workers.remove(peer);
            }
        }
    }

    /// Takes slots at once, if as many workers are known to be fit and free; waits for them, if
    /// they are known to be fit.
    pub(super) fn take(&self, want: Want) -> Taken {
        let mut table = self.0.lock();
        if let Some(peers) = table.chosen(&want, &BTreeSet::new()) {
            return Taken::Now(self.leases(&mut table, peers));
        }
        if table.n_fit(&want) < want.n {
            return Taken::Unknown;
        }
        let (granted, coming) = oneshot::channel();
        // Those who gave up make room.
        table.waiting.retain(|waiting| !waiting.granted.is_closed());
        table.waiting.push_back(Waiting { want, granted });
        Taken::Later(coming)
    }

    /// Takes one slot at once, of a worker that is not in `but`.
    pub(super) fn take_spare(&self, want: &Want, but: &BTreeSet<PeerId>) -> Option<Lease> {
        let mut table = self.0.lock();
        let peers = table.chosen(&Want { n: 1, ..want.clone() }, but)?;
        self.leases(&mut table, peers).pop()
    }

    /// Takes a slot of `peer`, which said that it is ready, whatever is known of it.
    pub(super) fn take_of(&self, peer: &PeerId) -> Lease {
        let mut table = self.0.lock();
        table.take(peer);
        Lease { peer: peer.clone(), slots: self.clone() }
    }

    /// How many slots `peer` has, and how many of them are free, if it offers any.
    pub(super) fn of(&self, peer: &PeerId) -> Option<(usize, usize)> {
        let table = self.0.lock();
        let worker = table.workers.get(peer)?;
        Some((worker.offer.as_ref()?.n_slots, worker.n_free()))
    }

    fn leases(&self, table: &mut Table, peers: Vec<PeerId>) -> Vec<Lease> {
        for peer in &peers {
            table.take(peer);
        }
        peers.into_iter().map(|peer| Lease { peer, slots: self.clone() }).collect()
    }

    fn release(&self, peer: &PeerId) {
        let mut table = self.0.lock();
        if let Some(worker) = table.workers.get_mut(peer) {
            worker.n_taken = worker.n_taken.saturating_sub(1);
            if worker.n_taken == 0 && worker.offer.is_none() {
                table.workers.remove(peer);
            }
        }
        self.grant(table);
    }

    /// Serves those who wait and can be served. Takes the lock, since those who gave up meanwhile
    /// drop what they are granted, which takes it again.
    fn grant(&self, mut table: parking_lot::MutexGuard<'_, Table>) {
        let mut granted = Vec::new();
        let mut idx = 0;
        while let Some(waiting) = table.waiting.get(idx) {
            if waiting.granted.is_closed() {
                table.waiting.remove(idx);
                continue;
            }
            let Some(peers) = table.chosen(&waiting.want, &BTreeSet::new()) else {
                idx += 1;
                continue;
            };
            let Some(waiting) = table.waiting.remove(idx) else { break };
            granted.push((waiting.granted, self.leases(&mut table, peers)));
        }
        drop(table);
        for (to, leases) in granted {
            drop(to.send(leases));
        }
    }
}

impl Table {
    fn worker(&mut self, peer: &PeerId) -> &mut Worker {
        self.workers.entry(peer.clone()).or_default()
    }

    fn take(&mut self, peer: &PeerId) {
        self.turn += 1;
        let turn = self.turn;
        let worker = self.worker(peer);
        worker.n_taken += 1;
        worker.turn = turn;
    }

    /// The workers to take: those with most free slots, of equal ones those that wait longest.
    fn chosen(&self, want: &Want, but: &BTreeSet<PeerId>) -> Option<Vec<PeerId>> {
        let now = Instant::now();
        let free = self.workers.iter().filter(|(peer, worker)| {
            worker.n_free() > 0 && worker.is_fit(want, now) && !but.contains(*peer)
        });
        let mut free: Vec<(&PeerId, &Worker)> = free.collect();
        if free.len() < want.n {
            return None;
        }
        free.sort_by_cached_key(|(_, worker)| (std::cmp::Reverse(worker.n_free()), worker.turn));
        Some(free.into_iter().take(want.n).map(|(peer, _)| peer.clone()).collect())
    }

    fn n_fit(&self, want: &Want) -> usize {
        let now = Instant::now();
        self.workers
            .values()
            .filter(|worker| worker.n_taken > 0 || worker.n_free() > 0)
            .filter(|worker| worker.is_fit(want, now))
            .count()
    }
}

impl Worker {
    fn n_free(&self) -> usize {
        let offered = self
            .offer
            .as_ref()
            .map_or(0, |known| known.n_slots - known.n_foreign.min(known.n_slots));
        offered.saturating_sub(self.n_taken)
    }

    fn is_fit(&self, want: &Want, now: Instant) -> bool {
        self.offer.as_ref().is_some_and(|known| {
            now - known.at < FRESH_WITHIN
                && self.full_until.is_none_or(|until| until <= now)
                && (known.functions.contains(&want.function)
                    || self.learned.contains(&want.function))
                && want.subgroup.as_ref().is_none_or(|name| known.subgroups.contains(name))
        })
    }
}

#[cfg(test)]
mod tests;
