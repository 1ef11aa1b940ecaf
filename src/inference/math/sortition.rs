//! Merit sortition: the choice of the actors that are active in an epoch.
//!
//! As on the chain, the actors with the highest moving averages of their scores are active, up to a
//! maximum number. The scores of the other actors that submitted move toward a quantile of the active
//! actors' scores, so that they become active in turn. As an extension, actors without a score get at
//! most a share of the active places, since an account can submit under any number of names.

use std::collections::BTreeSet;

use model::topic::{Address, BlockHeight};

use crate::math::statistics::{count, deviation};

/// Default for the maximum number of active inferers per epoch: the chain's parameter
/// `max_top_inferers_to_reward`.
pub const INFERERS_MAX_DEFAULT: u32 = 32;

/// Default for the maximum number of active forecasters per epoch: the chain's parameter
/// `max_top_forecasters_to_reward`.
pub const FORECASTERS_MAX_DEFAULT: u32 = 6;

/// Returns the moving average `score` after `n_missed` consecutive missed epochs. Each of them moves
/// the average by the share `alpha` toward `initial`, the score of newcomers.
///
/// The chain applies this penalty when an actor submits again (`CalculateLivenessPenaltyToInferer` and
/// `…ToForecaster` in `x/emissions/keeper`, since v0.8, with the formula `NCalcEma`).
pub fn penalized(score: f64, initial: f64, alpha: f64, n_missed: u64) -> f64 {
    let n_missed = i32::try_from(n_missed).unwrap_or(i32::MAX);
    initial + (score - initial) * (1.0 - alpha).powi(n_missed)
}

/// Returns the number of epochs of `epoch_length` that an actor missed between `last` and `nonce`,
/// as in the chain's `CountWorkerContiguousMissedEpochs`.
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

/// Standing of an actor with the network, in ascending order of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// Actor that is not trusted and has no score yet.
    Newcomer,
    /// Actor that is not trusted but has a score.
    Scored,
    /// Actor of the operator or on the whitelist.
    Trusted,
}

/// Actor that submitted for an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Address of the actor on the chain.
    pub worker: Address,
    /// Moving average of the actor's scores, or the [initial score](initial_score) if it has none.
    pub score: f64,
    /// Standing of the actor.
    pub record: Record,
    /// Time at which the submission arrived, in any unit. Among actors with equal score and standing,
    /// the earlier is preferred.
    pub arrival: i64,
    /// True if the actor's value is far from the values of all actors that are not newcomers. A
    /// newcomer with such a value is not active.
    pub is_far: bool,
}

/// Limits of the active actors of a role in an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RolePlaces {
    /// Maximum number of active actors.
    pub n_max: usize,
    /// Maximum share of newcomers among the active actors, 0 to 1: the topic's quantile. At least one
    /// newcomer is allowed.
    pub newcomer_share: f64,
}

/// Returns the active workers among `candidates`: the best by score, then by standing, then by arrival.
/// The number of newcomers is limited if there are other actors.
pub fn choose_active(mut candidates: Vec<Candidate>, places: RolePlaces) -> BTreeSet<Address> {
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

/// Returns the maximum number of active newcomers if there are `n_known` other actors, at least 1.
fn newcomers_max(n_known: usize, places: RolePlaces) -> usize {
    let RolePlaces { n_max, newcomer_share } = places;
    let beside = |n_newcomers: usize| {
        let n_active = n_newcomers.saturating_add(n_known).min(n_max);
        count(n_newcomers) <= newcomer_share * count(n_active)
    };
    // A linear search is fast enough, since there are at most a thousand places.
    (1..=n_max).take_while(|n_newcomers| beside(*n_newcomers)).last().unwrap_or(1)
}

/// Returns the initial score of newcomers: two standard deviations below the lowest of `scores`, so
/// that they do not displace the actors with these scores. Returns 0 without scores.
pub fn initial_score(scores: &[f64]) -> f64 {
    let lowest = scores.iter().copied().reduce(f64::min);
    // The factor is the chain's parameter `lambda_initial_score`.
    lowest.map_or(0.0, |lowest| lowest - 2.0 * deviation(scores))
}

#[cfg(test)]
mod tests;
