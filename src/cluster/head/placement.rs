//! Placement: which workers run an order, and when a spare is asked too. Plain functions of values.
//!
//! A worker's completion is what was measured of it: how long it took to answer orders for this
//! function, multiplied by its load. Nobody gains by answering faster than workers usually do, since a
//! forged answer costs no time. Among workers whose completion is about equal two are drawn, with a
//! chance that grows with the answers they have given, and the better one is chosen: a newcomer only
//! where both are. Absent on purpose: what is known of each worker, which is `slots.rs`.

use std::{cmp::Reverse, time::Duration};

/// Completions within this factor of the best are about equal: a worker with all but one slot taken is
/// expected to take twice as long as an idle one.
const NEAR_FACTOR: u32 = 2;

/// Completions below this are taken for this: what differs is the network's jitter.
const COMPLETION_MIN: Duration = Duration::from_millis(1);

/// What an order is expected to take where nobody has run the function yet. Above most functions,
/// so that the first measurement does not make a worker look slow.
const UNKNOWN_RUN: Duration = Duration::from_millis(50);

/// A worker with less than this share of the largest weight is a newcomer. Workers that have served as
/// long have weights that are closer.
const NEWCOMER_SHARE: u64 = 4;

/// A newcomer is used in place of waiting for trusted workers if these are expected to take that many
/// times as long.
const NEWCOMER_FACTOR: u32 = 8;

/// The same where they are expected to take so much longer: nobody waits that long for trust.
pub(super) const NEWCOMER_WAIT_MAX: Duration = Duration::from_secs(1);

/// How fast a measurement loses its weight: in this time, half of what it differs from the usual. A
/// slow worker is tried again after some of these.
const MEASURED_HALF_LIFE: Duration = Duration::from_secs(10);

/// A spare is asked after this multiple of the mean time of a function, and
/// [`HEDGE_DEVIATIONS`] times its deviation. Lower ones run more functions twice.
const HEDGE_MEANS: u32 = 3;

/// How many deviations past the mean an order may take; see [`HEDGE_MEANS`].
const HEDGE_DEVIATIONS: u32 = 4;

/// The shortest time after which a spare is asked: a busy machine delays an answer by as long.
pub(super) const HEDGE_AFTER_MIN: Duration = Duration::from_millis(300);

/// After how long a spare is asked where nobody has run the function yet. Most functions are faster.
pub(super) const HEDGE_AFTER_UNKNOWN: Duration = Duration::from_secs(2);

/// Which workers a spare is looked for among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those that have served about as long as the best.
    Earned,
    /// Workers of any standing.
    Any,
}

/// Moving averages of how long orders took, as TCP keeps them of round trips (RFC 6298).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunTime {
    mean: Duration,
    deviation: Duration,
}

/// What is known of a worker's load for one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// How long it took to answer orders for the function, and how long ago it last did; none before
    /// it has answered two.
    pub(super) own: Option<(RunTime, Duration)>,
    /// The round trip to it.
    pub(super) round_trip: Duration,
    /// How long its oldest order for the function has been unanswered.
    pub(super) oldest: Duration,
    /// Orders it runs, and those that wait for it.
    pub(super) n_ahead: usize,
    /// Orders it runs at once.
    pub(super) n_slots: usize,
}

/// A worker that could run an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// How long it is expected to take to answer.
    pub(super) completion: Duration,
    /// Whether it has a free slot.
    pub(super) is_free: bool,
    /// The chance with which it is drawn, relative to the others.
    pub(super) weight: u64,
    /// Lower for a worker that was chosen longer ago.
    pub(super) last_turn: u64,
}

impl RunTime {
    /// The averages after the first order took `elapsed`.
    pub(super) fn first(elapsed: Duration) -> Self {
        Self { mean: elapsed, deviation: elapsed / 2 }
    }

    /// The averages after one more order took `elapsed`.
    pub(super) fn after(self, elapsed: Duration) -> Self {
        let deviation = self.deviation * 3 / 4 + self.mean.abs_diff(elapsed) / 4;
        Self { mean: self.mean * 7 / 8 + elapsed / 8, deviation }
    }

    /// After how long an order takes longer than usual.
    fn overdue_after(self) -> Duration {
        self.mean * HEDGE_MEANS + self.deviation * HEDGE_DEVIATIONS
    }

    /// After how long without an answer a spare is asked too.
    pub(super) fn hedge_after(self) -> Duration {
        self.overdue_after().max(HEDGE_AFTER_MIN)
    }
}

/// Returns how long a worker under `load` is expected to take, where workers take `usual`.
pub(super) fn expect_completion(load: Load, usual: Option<RunTime>) -> Duration {
    let usual_mean = usual.map_or(UNKNOWN_RUN, |usual| usual.mean);
    let own = load.own.map_or(usual_mean + load.round_trip, |(own, age)| {
        let n_halved = age.as_secs_f64() / MEASURED_HALF_LIFE.as_secs_f64();
        usual_mean + own.mean.saturating_sub(usual_mean).mul_f64(0.5_f64.powf(n_halved))
    });
    let is_overdue = usual.is_some_and(|usual| load.oldest > usual.overdue_after());
    let run = if is_overdue { own.max(load.oldest) } else { own };
    run + run.mul_f64(share(load.n_ahead, load.n_slots))
}

/// Returns the indices of `n` of the `candidates`, each with a free slot; none if waiting for a busy
/// one is expected to be faster, or fewer are free. `draw` returns random numbers.
pub(super) fn choose(
    candidates: &[Candidate],
    n: usize,
    mut draw: impl FnMut() -> u64,
) -> Option<Vec<usize>> {
    let mut pool = near_and_free(candidates, n)?;
    if pool.len() == n {
        return Some(pool);
    }
    let heaviest = candidates.iter().map(|c| c.weight).max().unwrap_or_default();
    let rank = |idx: usize| {
        let candidate = candidates.get(idx);
        candidate.map(|c| (is_newcomer(c.weight, heaviest), c.completion, c.last_turn))
    };
    let mut chosen = Vec::with_capacity(n);
    while chosen.len() < n {
        let first = draw_weighted(candidates, &pool, &mut draw);
        let taken = pool.swap_remove(first);
        let better = if pool.is_empty() || pool.len() + 1 == n - chosen.len() {
            taken
        } else {
            let second = draw_weighted(candidates, &pool, &mut draw);
            let other = pool.swap_remove(second);
            let (better, worse) =
                if rank(taken) <= rank(other) { (taken, other) } else { (other, taken) };
            pool.push(worse);
            better
        };
        chosen.push(better);
    }
    Some(chosen)
}

/// Those with a free slot whose completion is about as good as any `n` can have. Newcomers count only
/// where there are too few others, or waiting for these would take too long.
fn near_and_free(candidates: &[Candidate], n: usize) -> Option<Vec<usize>> {
    let heaviest = candidates.iter().map(|c| c.weight).max().unwrap_or_default();
    let is_trusted = |c: &Candidate| !is_newcomer(c.weight, heaviest);
    let last_completion = |is_meant: &dyn Fn(&Candidate) -> bool| {
        let meant = candidates.iter().filter(|c| is_meant(c)).map(|c| c.completion);
        let mut completions: Vec<Duration> = meant.collect();
        let last = n.checked_sub(1).filter(|last| *last < completions.len())?;
        Some(*completions.select_nth_unstable(last).1)
    };
    let wait = last_completion(&is_trusted);
    let limit = wait.or_else(|| last_completion(&|_| true))?.max(COMPLETION_MIN) * NEAR_FACTOR;
    let free = candidates.iter().enumerate();
    let mut pool: Vec<(usize, &Candidate)> =
        free.filter(|(_, c)| c.is_free && c.completion <= limit).collect();
    if let Some(wait) = wait
        && pool.iter().filter(|(_, c)| is_trusted(c)).count() < n
    {
        pool.retain(|(_, c)| is_trusted(c) || is_worth_the_risk(c, wait));
    }
    (pool.len() >= n).then(|| pool.into_iter().map(|(idx, _)| idx).collect())
}

/// Whether a worker of this weight is a newcomer, where the largest weight is `heaviest`.
pub(super) const fn is_newcomer(weight: u64, heaviest: u64) -> bool {
    weight.saturating_mul(NEWCOMER_SHARE) < heaviest
}

/// Whether a newcomer is used where trusted workers are expected to take `wait`.
fn is_worth_the_risk(newcomer: &Candidate, wait: Duration) -> bool {
    let patience = newcomer.completion * (NEWCOMER_FACTOR - 1);
    newcomer.completion + patience.min(NEWCOMER_WAIT_MAX) < wait
}

/// Returns the position in `pool` of a candidate drawn by weight.
fn draw_weighted(
    candidates: &[Candidate],
    pool: &[usize],
    draw: &mut impl FnMut() -> u64,
) -> usize {
    let weight = |idx: &usize| candidates.get(*idx).map_or(1, |c| u128::from(c.weight.max(1)));
    let total: u128 = pool.iter().map(weight).sum();
    let mut rest = u128::from(draw()) % total.max(1);
    for (position, idx) in pool.iter().enumerate() {
        match rest.checked_sub(weight(idx)) {
            Some(less) => rest = less,
            None => return position,
        }
    }
    0
}

/// Orders peers that reported for a roll call: trusted ones first, otherwise as they reported.
pub(super) fn rank_reports<P>(reported: &mut [P], weight: impl Fn(&P) -> Option<u64>) {
    let heaviest = reported.iter().filter_map(&weight).max().unwrap_or_default();
    reported.sort_by_cached_key(|peer| {
        let weight = weight(peer);
        let is_trusted = weight.is_some_and(|weight| !is_newcomer(weight, heaviest));
        Reverse((weight.is_some(), is_trusted))
    });
}

#[expect(clippy::cast_precision_loss, reason = "both are counts of orders, far below 2^52")]
fn share(n: usize, of: usize) -> f64 {
    n as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests;
