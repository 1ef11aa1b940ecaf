//! Merit sortition: which of the actors that submitted for an epoch are active in it.
//!
//! The chain's rule: the best by the moving average of their scores, up to a number of places.
//! Actors that rest move toward a quantile of the active ones' scores, so that newcomers get their
//! turn. Ours on top: actors that were never scored hold a share of the places at most, since
//! an account can submit under as many names as it makes up. Absent on purpose: who is trusted, and
//! what an outlier is, which the caller knows.

use std::collections::BTreeSet;

use model::topic::{Address, BlockHeight};

use crate::math::statistics::{count, deviation};

/// Active inferers of an epoch where a topic does not say, by the chain's parameter
/// `max_top_inferers_to_reward`.
pub const INFERERS_MAX_DEFAULT: u32 = 32;

/// Active forecasters of an epoch where a topic does not say, by the chain's parameter
/// `max_top_forecasters_to_reward`.
pub const FORECASTERS_MAX_DEFAULT: u32 = 6;

/// How many deviations below the lowest score newcomers start, by the chain's parameter
/// `lambda_initial_score`.
const INITIAL_DEVIATIONS: f64 = 2.0;

/// Returns the moving average `score` of an actor that missed `n_missed` epochs in a row: it moves
/// toward `initial`, where newcomers start, once for each of them, by the share `alpha`.
///
/// The chain does this when an actor submits again (`CalculateLivenessPenaltyToInferer` and
/// `…ToForecaster` in `x/emissions/keeper`, since v0.8, with the formula `NCalcEma`).
pub fn penalized(score: f64, initial: f64, alpha: f64, n_missed: u64) -> f64 {
    let n_missed = i32::try_from(n_missed).unwrap_or(i32::MAX);
    initial + (score - initial) * (1.0 - alpha).powi(n_missed)
}

/// Returns the epochs of `epoch_length` that an actor missed whose last one was at `last`, up to the
/// one at `nonce`, which it did not miss: as `CountWorkerContiguousMissedEpochs` of the chain.
pub const fn missed_epochs(
    last: BlockHeight,
    nonce: BlockHeight,
    epoch_length: BlockHeight,
) -> u64 {
    match nonce.saturating_sub(last) {
        0 => 0,
        apart => (apart - 1) / epoch_length,
    }
}

/// What is known of an actor, the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// Never scored, and submitted by someone who signed up.
    Newcomer,
    /// Scored at least once.
    Scored,
    /// Submitted by the operator, or by a worker that the topic names.
    Trusted,
}

/// An actor that submitted for an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The actor's address on the chain.
    pub worker: Address,
    /// The moving average of its scores; what newcomers [start from](initial_score) without one.
    pub score: f64,
    /// What is known of it.
    pub record: Record,
    /// When its submission came, in any unit. Of equals the first is active.
    pub arrival: i64,
    /// Whether its value is far from those of known actors. A newcomer with such a value rests.
    pub is_far: bool,
}

/// The places of one role in an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Places {
    /// How many actors are active at most.
    pub n_max: usize,
    /// The largest share of newcomers among them, 0 to 1: the topic's quantile. One of them has a
    /// place in any case.
    pub newcomer_share: f64,
}

/// Returns the workers among `candidates` that are active: the best by score, of equals those with
/// the better record, then those that came first. Newcomers are limited where others take part.
pub fn choose_active(mut candidates: Vec<Candidate>, places: Places) -> BTreeSet<Address> {
    candidates.sort_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score);
        let by_record = by_score.then(b.record.cmp(&a.record));
        by_record.then(a.arrival.cmp(&b.arrival)).then_with(|| a.worker.cmp(&b.worker))
    });
    let is_newcomer = |candidate: &Candidate| candidate.record == Record::Newcomer;
    let n_known = candidates.iter().filter(|candidate| !is_newcomer(candidate)).count();
    let mut newcomers_left = newcomers_max(n_known, places);
    let mut active = BTreeSet::new();
    for candidate in candidates {
        if active.len() >= places.n_max {
            break;
        }
        if is_newcomer(&candidate) && n_known > 0 {
            if newcomers_left == 0 || candidate.is_far {
                continue;
            }
            newcomers_left -= 1;
        }
        active.insert(candidate.worker);
    }
    active
}

/// How many newcomers may be active beside `n_known` actors that are none: their share of all that
/// are active then.
fn newcomers_max(n_known: usize, places: Places) -> usize {
    let Places { n_max, newcomer_share } = places;
    let beside = |n_newcomers: usize| {
        let n_active = n_newcomers.saturating_add(n_known).min(n_max);
        count(n_newcomers) <= newcomer_share * count(n_active)
    };
    // Places are a thousand at most.
    (1..=n_max).take_while(|n_newcomers| beside(*n_newcomers)).last().unwrap_or(1)
}

/// Returns what a newcomer starts from beside actors with `scores`: two deviations below the lowest,
/// so that it takes no place of theirs. 0 where nobody was scored.
pub fn initial_score(scores: &[f64]) -> f64 {
    let lowest = scores.iter().copied().reduce(f64::min);
    lowest.map_or(0.0, |lowest| lowest - INITIAL_DEVIATIONS * deviation(scores))
}

#[cfg(test)]
mod tests;
