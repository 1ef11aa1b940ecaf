//! Placement: chooses the workers for an order, and the time after which a spare runs it too. Pure
//! functions.
//!
//! The expected completion time of a worker is its measured time for the function, multiplied by its
//! load. Being faster than usual is no advantage, since a forged result needs no time. From the workers
//! with a similar completion time, two are drawn at random. The probability grows with the number of
//! results that a worker has returned so far. The better of the two is chosen. A newcomer is chosen only
//! if both are newcomers.

use std::cmp::Reverse;
use std::time::Duration;

/// Completion times up to this multiple of the best one count as similar. Thus a worker with a single
/// free slot, which is expected to need twice as long as an idle worker, is not excluded.
const NEAR_FACTOR: u32 = 2;

/// Lower bound for completion times. Smaller differences are network jitter.
const COMPLETION_MIN: Duration = Duration::from_millis(1);

/// A worker is a newcomer if its weight, multiplied by this, is below the largest weight. The weights of
/// workers that have served equally long differ by less.
const NEWCOMER_SHARE: u64 = 4;

/// A newcomer is used if trusted workers are expected to take more than this many times as long as the
/// newcomer.
const NEWCOMER_FACTOR: u32 = 8;

/// A newcomer is used if trusted workers are expected to take longer than the newcomer by more than
/// this.
pub(super) const NEWCOMER_WAIT_MAX: Duration = Duration::from_secs(1);

/// Minimum delay before a spare runs the order too. Load on the machine alone might delay a result by
/// this much.
pub(super) const HEDGE_AFTER_MIN: Duration = Duration::from_millis(300);

/// Delay before a spare runs the order too if the function has not been run yet. Most functions take
/// less time.
pub(super) const HEDGE_AFTER_UNKNOWN: Duration = Duration::from_secs(2);

/// Required trust in a spare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Only workers that are not newcomers.
    Earned,
    /// All workers, including newcomers.
    Any,
}

/// Moving averages of the duration of orders, as in TCP's estimate of round trips (RFC 6298).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunTime {
    mean: Duration,
    deviation: Duration,
}

/// Load of a worker for one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    /// Measured time for the function and age of the latest measurement; `None` before the second
    /// result.
    pub(super) own: Option<(RunTime, Duration)>,
    /// Age of the worker's oldest open order for the function.
    pub(super) oldest: Duration,
    /// Number of orders that the worker is running.
    pub(super) n_ahead: usize,
    /// Number of the worker's slots.
    pub(super) n_slots: usize,
}

/// A worker that could run an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Expected completion time.
    pub(super) completion: Duration,
    /// True if the worker has a free slot.
    pub(super) is_free: bool,
    /// Relative probability of being drawn.
    pub(super) weight: u64,
    /// Number of the worker's latest lease. It is lower if the worker was chosen longer ago.
    pub(super) last_turn: u64,
}

impl RunTime {
    /// Returns the averages after the first order, of duration `elapsed`.
    pub(super) fn first(elapsed: Duration) -> Self {
        Self { mean: elapsed, deviation: elapsed / 2 }
    }

    /// Returns the averages after another order, of duration `elapsed`.
    pub(super) fn after(self, elapsed: Duration) -> Self {
        let deviation = self.deviation * 3 / 4 + self.mean.abs_diff(elapsed) / 4;
        Self { mean: self.mean * 7 / 8 + elapsed / 8, deviation }
    }

    /// Returns the duration above which an order counts as slower than usual.
    fn overdue_after(self) -> Duration {
        // With lower multiples, more orders would run twice.
        self.mean * 3 + self.deviation * 4
    }

    /// Returns the time after which a spare runs the order too.
    pub(super) fn hedge_after(self) -> Duration {
        self.overdue_after().max(HEDGE_AFTER_MIN)
    }
}

/// Returns the expected completion time of a worker under `load`. `usual` is the average over all
/// workers.
pub(super) fn expect_completion(load: Load, usual: Option<RunTime>) -> Duration {
    // Assumed time of a function that has not been run yet. It exceeds the time of most functions, so
    // that the first measurement does not make a worker look slow.
    let usual_mean = usual.map_or(Duration::from_millis(50), |usual| usual.mean);
    let own = load.own.map_or(usual_mean, |(own, age)| {
        // The deviation from the usual time has a half-life of 10 s, so that a slow worker is tried
        // again.
        let n_halved = age.as_secs_f64() / 10.0;
        usual_mean + own.mean.saturating_sub(usual_mean).mul_f64(0.5_f64.powf(n_halved))
    });
    let is_overdue = usual.is_some_and(|usual| load.oldest > usual.overdue_after());
    let run = if is_overdue { own.max(load.oldest) } else { own };
    run + run.mul_f64(share(load.n_ahead, load.n_slots))
}

/// Chooses `n` of the `candidates` that have a free slot and returns their indices. Returns `None` if
/// fewer are free, or if waiting for a busy one is expected to be faster. `draw` returns random numbers.
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

/// Returns the candidates with a free slot that are expected to complete in about the same time as the
/// `n` best. Newcomers are included only if there are too few trusted workers, or if waiting for trusted
/// workers would take too long.
fn near_and_free(candidates: &[Candidate], n: usize) -> Option<Vec<usize>> {
    let heaviest = candidates.iter().map(|c| c.weight).max().unwrap_or_default();
    let is_trusted = |c: &Candidate| !is_newcomer(c.weight, heaviest);
    let last_completion = |is_eligible: &dyn Fn(&Candidate) -> bool| {
        let eligible = candidates.iter().filter(|c| is_eligible(c)).map(|c| c.completion);
        let mut completions: Vec<Duration> = eligible.collect();
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

/// Returns true if a worker of this weight is a newcomer compared with a worker of weight `heaviest`.
pub(super) const fn is_newcomer(weight: u64, heaviest: u64) -> bool {
    weight.saturating_mul(NEWCOMER_SHARE) < heaviest
}

/// Returns true if using a newcomer is better than waiting for trusted workers, which are expected to
/// complete after `wait`.
fn is_worth_the_risk(newcomer: &Candidate, wait: Duration) -> bool {
    let patience = newcomer.completion * (NEWCOMER_FACTOR - 1);
    newcomer.completion + patience.min(NEWCOMER_WAIT_MAX) < wait
}

/// Draws a candidate at random by weight and returns its position in `pool`.
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

/// Sorts peers that reported: trusted workers first, then newcomers, and last the paused workers, which
/// have no `weight`. Otherwise, the order of the reports is kept.
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
