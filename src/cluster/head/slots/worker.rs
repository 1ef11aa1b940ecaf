//! What a head knows of one worker: its offer, what it runs, and how it has answered so far.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use model::{function::FunctionId, node::SUBGROUP_BYTES_MAX};
use tokio::time::Instant;

use super::{
    super::placement::{Load, RunTime},
    SlotRequest,
};
use crate::{
    attributes::{Attributes, bounded},
    message::Offer,
};

/// The most slots believed of one worker: a head has no more executions under way.
const SLOTS_BELIEVED_MAX: usize = 256;

/// How long an offer counts. Workers repeat theirs each 30 s, so that one may be lost on its way.
pub(super) const FRESH_WITHIN: Duration = Duration::from_secs(75);

/// How long a worker that said it is full is left alone, doubled each time it says so again: as long
/// as it takes to offer again.
pub(super) const FULL_FOR: Duration = Duration::from_secs(1);

/// How long a worker that did not answer is left alone, doubled each time. Then one order tries it.
pub(super) const SILENT_FOR: Duration = Duration::from_secs(1);

/// How often these times are doubled at most: 64 s.
const DOUBLED_MAX: u32 = 6;

/// Functions remembered of one worker, that it ran and does not offer, or that were measured.
const FUNCTIONS_MAX: usize = 256;

/// Orders that a newcomer runs at once beside trusted workers, before its first answer.
const NEWCOMER_ORDERS: usize = 2;

/// How many answers that nobody could compare one that agreed with the majority is worth.
const AGREED_WORTH: u64 = 4;

/// An answer against the majority divides the weight by this.
const DISAGREED_COST: u64 = 4;

/// The most answers that count: a worker that has given fewer is trusted as much once it has given a
/// quarter of these.
const ANSWERS_MAX: u64 = 1024;

/// A missing answer divides the weight by this.
const SILENT_COST: u64 = 2;

/// A worker that misses so many pings is out until it answers.
const PINGS_MISSED_MAX: u32 = 2;

/// What is known of a worker.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) offer: Option<KnownOffer>,
    /// Functions it has run for us, maybe under another id than it offers.
    pub(super) learned: BTreeSet<FunctionId>,
    /// What we have it run, by the number of the lease.
    pub(super) running: BTreeMap<u64, (FunctionId, Instant)>,
    /// When it was chosen last.
    pub(super) last_turn: u64,
    /// The round trip of its last ping.
    pub(super) round_trip: Duration,
    run_times: BTreeMap<FunctionId, Measured>,
    /// Answers it gave, by their worth.
    n_answers: u64,
    full: Pause,
    silent: Pause,
    /// Pings since its last answer.
    n_pings: u32,
}

/// How long a worker took to answer orders for one function.
#[derive(Debug, Clone, Copy)]
struct Measured {
    time: RunTime,
    at: Instant,
    /// Whether it answered once alone: it had to fetch and compile the function first.
    is_cold: bool,
}

/// What a worker offered last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownOffer {
    pub(super) functions: BTreeSet<FunctionId>,
    subgroups: BTreeSet<String>,
    attributes: Attributes,
    pub(super) n_slots: usize,
    /// Those of its slots that are not for this head.
    n_foreign: usize,
    at: Instant,
}

/// A time for which a worker is left alone, longer each time in a row.
#[derive(Debug, Default, Clone, Copy)]
struct Pause {
    n_in_row: u32,
    until: Option<Instant>,
}

impl Pause {
    fn extend(&mut self, now: Instant, first: Duration) {
        self.until = Some(now + first * 2_u32.pow(self.n_in_row.min(DOUBLED_MAX)));
        self.n_in_row = self.n_in_row.saturating_add(1);
    }

    fn is_over(self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }
}

impl KnownOffer {
    /// What of `offer` is believed, with at most `names_max` names of each kind.
    pub(super) fn read(offer: &Offer, names_max: usize, now: Instant) -> Self {
        let n_slots = offer.slots.min(SLOTS_BELIEVED_MAX);
        let functions = offer.functions.iter().take(names_max);
        let subgroups = offer.subgroups.iter().take(names_max);
        Self {
            functions: functions.filter_map(|f| f.parse().ok()).collect(),
            subgroups: subgroups.filter(|name| name.len() <= SUBGROUP_BYTES_MAX).cloned().collect(),
            attributes: bounded(&offer.attributes),
            n_slots,
            n_foreign: n_slots - offer.slots_free.min(n_slots),
            at: now,
        }
    }
}

impl Worker {
    /// Whether it has a slot for this head, or will have one.
    pub(super) fn is_of_use(&self) -> bool {
        self.n_free() > 0 || !self.running.is_empty()
    }

    /// How many more orders it could run.
    pub(super) fn n_free(&self) -> usize {
        let offered = self.offer.as_ref().map_or(0, |known| known.n_slots - known.n_foreign);
        offered.saturating_sub(self.running.len())
    }

    /// How many more orders it is given beside trusted workers, if it is a newcomer.
    pub(super) fn n_free_of_newcomer(&self) -> usize {
        let n_answers = usize::try_from(self.n_answers).unwrap_or(usize::MAX);
        let allowed = NEWCOMER_ORDERS.saturating_add(n_answers.saturating_mul(2));
        self.n_free().min(allowed.saturating_sub(self.running.len()))
    }

    /// The chance with which it is drawn, relative to other workers.
    pub(super) fn weight(&self) -> u64 {
        self.n_answers.saturating_add(1)
    }

    /// Whether it could run what is wanted, now or once it has a free slot.
    pub(super) fn could_run(&self, want: &SlotRequest, now: Instant) -> bool {
        let is_offered = self.offer.as_ref().is_some_and(|known| {
            now - known.at < FRESH_WITHIN
                && (want.can_fetch || self.has(want.function))
                && want.subgroup.as_ref().is_none_or(|name| known.subgroups.contains(name))
                && want.requirements.are_met_by(&known.attributes)
        });
        is_offered && !self.is_silent(now)
    }

    /// Whether it could, and has not said that it is full.
    pub(super) fn is_fit(&self, want: &SlotRequest, now: Instant) -> bool {
        self.could_run(want, now) && self.full.is_over(now)
    }

    /// Whether it holds `function`, as far as is known.
    pub(super) fn has(&self, function: FunctionId) -> bool {
        self.offer.as_ref().is_some_and(|known| known.functions.contains(&function))
            || self.learned.contains(&function)
    }

    /// Whether it is left alone, since it did not answer. After that time, one order tries it.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_tried = self.silent.n_in_row > 0 && !self.running.is_empty();
        is_tried || !self.silent.is_over(now) || self.n_pings > PINGS_MISSED_MAX
    }

    /// Whether it runs an order for longer than `age`, or has not answered a ping.
    pub(super) fn is_slow(&self, age: Duration, now: Instant) -> bool {
        self.n_pings > 0 || self.running.values().any(|(_, since)| now - *since > age)
    }

    /// Takes note that it is pinged. Returns whether it has just missed too many.
    pub(super) fn note_ping(&mut self) -> bool {
        self.n_pings = self.n_pings.saturating_add(1);
        self.n_pings == PINGS_MISSED_MAX + 1
    }

    /// Takes note that it answered a ping. Returns whether it had missed too many.
    pub(super) fn note_pong(&mut self) -> bool {
        std::mem::take(&mut self.n_pings) > PINGS_MISSED_MAX
    }

    /// Its load, for `function`, with `n_waiting` orders that wait for it.
    pub(super) fn load(&self, function: FunctionId, n_waiting: usize, now: Instant) -> Load {
        let mut orders = self.running.values().filter(|(of, _)| *of == function);
        let (n_slots, n_foreign) =
            self.offer.as_ref().map_or((1, 0), |known| (known.n_slots, known.n_foreign));
        let measured = self.run_times.get(&function).filter(|measured| !measured.is_cold);
        Load {
            own: measured.map(|measured| (measured.time, now - measured.at)),
            round_trip: self.round_trip,
            oldest: orders.next().map(|(_, since)| now - *since).unwrap_or_default(),
            n_ahead: n_foreign + self.running.len() + n_waiting,
            n_slots,
        }
    }

    /// Takes note of an answer to an order for `function`, `elapsed` after it was sent. Returns whether
    /// it is its first.
    pub(super) fn note_answer(
        &mut self,
        function: FunctionId,
        elapsed: Duration,
        now: Instant,
    ) -> bool {
        self.full = Pause::default();
        self.silent = Pause::default();
        self.n_pings = 0;
        let is_new = self.offer.as_ref().is_some_and(|known| !known.functions.contains(&function));
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

    /// Takes note of how its answer compares: whether it agreed with the majority; none where nobody
    /// did, or there was none.
    pub(super) fn judge(&mut self, has_agreed: Option<bool>) {
        self.n_answers = match has_agreed {
            None => self.n_answers.saturating_add(1),
            Some(true) => self.n_answers.saturating_add(AGREED_WORTH),
            Some(false) => self.n_answers / DISAGREED_COST,
        };
        self.n_answers = self.n_answers.min(ANSWERS_MAX);
    }

    /// Takes note that it said it is full.
    pub(super) fn note_full(&mut self, now: Instant) {
        self.full.extend(now, FULL_FOR);
    }

    /// Takes note that it did not answer an order, or with nothing of use.
    pub(super) fn note_silence(&mut self, now: Instant) {
        // What it was given at one time counts once.
        if self.silent.is_over(now) {
            self.silent.extend(now, SILENT_FOR);
            self.n_answers /= SILENT_COST;
        }
    }

    /// What is left of it once it is gone: what it was given and is not given back.
    pub(super) fn forget(self) -> Self {
        Self { running: self.running, ..Self::default() }
    }

    /// Whether nothing is known of it that matters.
    pub(super) fn is_forgettable(&self) -> bool {
        self.running.is_empty()
            && self.offer.is_none()
            && self.n_answers == 0
            && self.silent.n_in_row == 0
    }
}
