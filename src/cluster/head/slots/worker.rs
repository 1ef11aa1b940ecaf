//! State of one worker, kept by a head: its offer, orders and results so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::function::FunctionId;
use tokio::time::Instant;

use super::super::placement::{Load, RunTime};
use super::SlotRequest;
use crate::peers::NodeOffer;

/// Validity of an offer. Workers repeat their offer every 30 s, so one offer can be lost.
pub(super) const FRESH_WITHIN: Duration = Duration::from_secs(75);

/// Duration of the pause after a worker reported that it is full: about the time until its next offer.
/// It is doubled for each consecutive report.
pub(super) const FULL_FOR: Duration = Duration::from_secs(1);

/// Duration of the pause after a worker did not respond, doubled for each consecutive failure. After
/// the pause, one order tests the worker.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(1);

/// Maximum number of functions remembered per worker. It applies separately to run times and to
/// `learned` functions.
const FUNCTIONS_MAX: usize = 256;

/// A worker that misses this many pings gets no work until it answers one.
const PINGS_MISSED_MAX: u32 = 2;

/// State of a worker.
#[derive(Debug, Default)]
pub(super) struct WorkerState {
    /// Latest offer and its time.
    pub(super) offer: Option<(Arc<NodeOffer>, Instant)>,
    /// Functions that the worker has run for this head. The worker might offer these functions under
    /// other ids.
    pub(super) learned: BTreeSet<FunctionId>,
    /// Orders that this head gave the worker, by number of the lease.
    pub(super) running: BTreeMap<u64, (FunctionId, Instant)>,
    /// Number of the worker's latest lease.
    pub(super) last_turn: u64,
    run_times: BTreeMap<FunctionId, Measured>,
    /// Number of results so far. Results that agreed with a majority count several times.
    n_answers: u64,
    full: Pause,
    silent: Pause,
    /// Number of pings since the worker last responded.
    n_pings: u32,
}

/// Time in which a worker ran one function.
#[derive(Debug, Clone, Copy)]
struct Measured {
    time: RunTime,
    at: Instant,
    /// True if there was only one run, which might have included fetching and compiling.
    is_cold: bool,
}

/// A pause during which a worker gets no work. Each consecutive pause is twice as long as the previous
/// pause.
#[derive(Debug, Default, Clone, Copy)]
struct Pause {
    n_in_row: u32,
    until: Option<Instant>,
}

impl Pause {
    fn extend(&mut self, now: Instant, first: Duration) {
        // A pause is doubled at most 6 times, to 64 s.
        self.until = Some(now + first * 2_u32.pow(self.n_in_row.min(6)));
        self.n_in_row = self.n_in_row.saturating_add(1);
    }

    fn is_over(self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }
}

impl WorkerState {
    /// Returns true if this head can use a slot of the worker, now or when one of its orders ends.
    pub(super) fn is_of_use(&self) -> bool {
        self.n_free() > 0 || !self.running.is_empty()
    }

    /// Returns the number of additional orders that the worker could run.
    pub(super) fn n_free(&self) -> usize {
        let offered = self.offer.as_ref().map_or(0, |(offer, _)| offer.n_usable);
        offered.saturating_sub(self.running.len())
    }

    /// Returns the number of additional orders that this worker can get as a newcomer, while there are
    /// trusted workers.
    pub(super) fn n_free_of_newcomer(&self) -> usize {
        let n_answers = usize::try_from(self.n_answers).unwrap_or(usize::MAX);
        // A newcomer can have two orders before its first result, and two more for each result.
        let allowed = n_answers.saturating_mul(2).saturating_add(2);
        self.n_free().min(allowed.saturating_sub(self.running.len()))
    }

    /// Returns the relative probability of being drawn.
    pub(super) fn weight(&self) -> u64 {
        self.n_answers.saturating_add(1)
    }

    /// Returns true if the worker could run the request, now or once it has a free slot.
    pub(super) fn could_run(&self, want: &SlotRequest, now: Instant) -> bool {
        let is_offered = self.offer.as_ref().is_some_and(|(offer, at)| {
            now - *at < FRESH_WITHIN
                && (want.can_fetch || self.has(want.function))
                && want.subgroup.as_ref().is_none_or(|name| offer.subgroups.contains(name))
                && want.requirements.are_met_by(&offer.attributes)
        });
        is_offered && !self.is_silent(now)
    }

    /// Returns true if the worker could run the request and is not paused for being full.
    pub(super) fn is_fit(&self, want: &SlotRequest, now: Instant) -> bool {
        self.could_run(want, now) && self.full.is_over(now)
    }

    /// Returns true if the worker holds `function`, as far as is known.
    pub(super) fn has(&self, function: FunctionId) -> bool {
        self.offer.as_ref().is_some_and(|(offer, _)| offer.functions.contains(&function))
            || self.learned.contains(&function)
    }

    /// Returns true if the worker is paused for not responding. After the pause, one order tests the
    /// worker.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_tried = self.silent.n_in_row > 0 && !self.running.is_empty();
        is_tried || !self.silent.is_over(now) || self.n_pings > PINGS_MISSED_MAX
    }

    /// Returns true if the worker has been running an order for longer than `age`, or has an unanswered
    /// ping.
    pub(super) fn is_slow(&self, age: Duration, now: Instant) -> bool {
        self.n_pings > 0 || self.running.values().any(|(_, since)| now - *since > age)
    }

    /// Records that a ping was sent. Returns true if the worker has just missed too many pings.
    pub(super) fn note_ping(&mut self) -> bool {
        self.n_pings = self.n_pings.saturating_add(1);
        self.n_pings == PINGS_MISSED_MAX + 1
    }

    /// Records the answer to a ping. Returns true if the worker had missed too many pings before.
    pub(super) fn note_pong(&mut self) -> bool {
        std::mem::take(&mut self.n_pings) > PINGS_MISSED_MAX
    }

    /// Returns the load of the worker for `function`.
    pub(super) fn load(&self, function: FunctionId, now: Instant) -> Load {
        let mut orders = self.running.values().filter(|(of, _)| *of == function);
        let (n_slots, n_usable) =
            self.offer.as_ref().map_or((1, 1), |(offer, _)| (offer.n_slots, offer.n_usable));
        let measured = self.run_times.get(&function).filter(|measured| !measured.is_cold);
        Load {
            own: measured.map(|measured| (measured.time, now - measured.at)),
            oldest: orders.next().map(|(_, since)| now - *since).unwrap_or_default(),
            n_ahead: n_slots - n_usable + self.running.len(),
            n_slots,
        }
    }

    /// Records a response to an order for `function` after `elapsed`. Returns true if the worker has not
    /// run `function` before.
    pub(super) fn note_answer(
        &mut self,
        function: FunctionId,
        elapsed: Duration,
        now: Instant,
    ) -> bool {
        self.full = Pause::default();
        self.silent = Pause::default();
        self.n_pings = 0;
        let is_new =
            self.offer.as_ref().is_some_and(|(offer, _)| !offer.functions.contains(&function));
        if is_new && self.learned.insert(function) && self.learned.len() > FUNCTIONS_MAX {
            self.learned.pop_first();
        }
        let last = self.run_times.get(&function);
        let time = match last {
            Some(Measured { time, is_cold: false, .. }) => time.after(elapsed),
            _ => RunTime::first(elapsed),
        };
        let is_cold = last.is_none();
        self.run_times.insert(function, Measured { time, at: now, is_cold });
        if self.run_times.len() > FUNCTIONS_MAX {
            self.run_times.pop_first();
        }
        is_cold
    }

    /// Records a result of the worker: `has_agreed` is true if the result agreed with the majority, and
    /// `None` if there was no majority.
    pub(super) fn judge(&mut self, has_agreed: Option<bool>) {
        self.n_answers = match has_agreed {
            None => self.n_answers.saturating_add(1),
            // A result that agreed with the majority counts like four results without a majority.
            Some(true) => self.n_answers.saturating_add(4),
            // A result that contradicts the majority reduces the number to a quarter.
            Some(false) => self.n_answers / 4,
        };
        // The number is limited, so that a worker stays trusted once it has a quarter of the maximum.
        self.n_answers = self.n_answers.min(1024);
    }

    /// Records that the worker reported that it is full.
    pub(super) fn note_full(&mut self, now: Instant) {
        self.full.extend(now, FULL_FOR);
    }

    /// Records that the worker gave no usable response to an order.
    pub(super) fn note_silence(&mut self, now: Instant) {
        // A failure during the pause does not count again, since its order was most likely given at
        // about the same time as the order that caused the pause.
        if self.silent.is_over(now) {
            self.silent.extend(now, SILENT_FOR);
            // A missing response halves the number of results.
            self.n_answers /= 2;
        }
    }

    /// Returns the part of the state that is kept after a disconnect: the leases.
    pub(super) fn forget(self) -> Self {
        Self { running: self.running, ..Self::default() }
    }

    /// Returns true if the state can be discarded.
    pub(super) fn is_forgettable(&self) -> bool {
        self.running.is_empty()
            && self.offer.is_none()
            && self.n_answers == 0
            && self.silent.n_in_row == 0
    }
}
