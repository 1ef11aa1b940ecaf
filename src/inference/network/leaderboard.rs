//! Leaderboard: actors ranked by their mean loss, and losses of the network compared with an uninformed
//! baseline.
//!
//! Actors are compared by the loss that the network learns from, over the epochs that all ranked actors
//! have in common, since epochs differ in difficulty. Actors with too few epochs are not ranked, since a
//! single lucky submission would be first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::network::{EpochLosses, Leaderboard, RankedActor};
use wire::inference::{Bundle, HistoryEpoch, LabeledValue};

use crate::math::loss::LossRule;
use crate::math::regret::{Losses, Role};
use crate::math::statistics::count;
use crate::network::submission::numbers;
use crate::network::topic::{Topic, Truth};
use crate::{Inference, InferenceError};

/// Default number of epochs to average: twenty minutes of the shortest epochs.
pub const EPOCHS_DEFAULT: u32 = 100;

/// Maximum number of epochs to average.
pub const EPOCHS_MAX: u32 = 500;

/// Number of epochs that an actor needs for a rank, out of the latest twice as many. Fewer would be
/// luck. An actor that left does not restrict the others to its epochs.
pub(super) const RANKED_EPOCHS_MIN: u32 = 10;

/// Maximum number of losses, including those of pairs, that are read for a ranking. It covers all
/// requested epochs of a topic with a dozen actors, or five epochs with a thousand inferers and fifty
/// forecasters.
const LOSSES_READ_MAX: usize = 250_000;

/// Minimum number of epochs that are read, even of the largest topics.
const EPOCHS_MIN: usize = 5;

impl Inference {
    /// Ranks the actors of the latest `n_epochs` of `topic` that were learned from, or of fewer epochs
    /// if it has many actors.
    ///
    /// # Errors
    /// [`InferenceError`] if the topic does not exist, or the store fails.
    pub async fn ranking(
        &self,
        topic: TopicId,
        n_epochs: u32,
    ) -> Result<Leaderboard, InferenceError> {
        let settings = self.find_topic(topic)?;
        let newest = self.losses_until(topic, BlockHeight::MAX, 1).await?;
        let Some((_, losses)) = newest.first() else {
            return Ok(ranking(&settings, &[], &[], n_epochs));
        };
        let n_actors = losses.inferer.len() + losses.forecaster.len();
        let n_losses = n_actors + losses.inferer.len() * losses.forecaster.len();
        let n_affordable = (LOSSES_READ_MAX / n_losses.max(1)).max(EPOCHS_MIN);
        let n_epochs = n_epochs.min(u32::try_from(n_affordable).unwrap_or(u32::MAX));
        let losses = self.losses_until(topic, BlockHeight::MAX, n_epochs).await?;
        // Also reads as many earlier epochs for the baseline, plus the epochs without a ground truth.
        let lag = settings.timing.ground_truth_lag / settings.timing.epoch_length.max(1);
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let limit = n_epochs.saturating_mul(2).saturating_add(lag).min(2 * EPOCHS_MAX);
        let history = self.history(topic, 0..=BlockHeight::MAX, limit).await?;
        let mut board = ranking(&settings, &history, &losses, n_epochs);
        self.add_names(topic, &mut board.actors).await?;
        Ok(board)
    }

    /// Adds the name of each actor's latest submission, so that it keeps its name when it misses an
    /// epoch.
    async fn add_names(
        &self,
        topic: TopicId,
        actors: &mut [RankedActor],
    ) -> Result<(), InferenceError> {
        let newest = self.latest(topic).await?;
        let nonce = newest.bundle.nonce;
        let names = self.read(topic, move |store| store.names(topic, nonce)).await?;
        let Bundle { inferer_values, forecaster_values, .. } = &newest.bundle.bundle;
        let present: BTreeSet<&Address> =
            inferer_values.iter().chain(forecaster_values).map(|value| &value.worker).collect();
        for actor in actors {
            let Ok(worker) = actor.worker.parse() else { continue };
            actor.name = names.get(&worker).cloned();
            if !present.contains(&worker) {
                let newest = self.newest_of(topic, worker, BlockHeight::MAX).await?;
                actor.name = newest.and_then(|(_, submission)| submission.name);
            }
        }
        Ok(())
    }
}

/// Ranks the actors in the latest `n_epochs` of `losses`, latest first. `history` has the ground truths,
/// oldest first.
fn ranking(
    topic: &Topic,
    history: &[HistoryEpoch],
    losses: &[(BlockHeight, Losses)],
    n_epochs: u32,
) -> Leaderboard {
    let rule = topic.judging.loss;
    let by_nonce: BTreeMap<BlockHeight, &Losses> =
        losses.iter().map(|(nonce, losses)| (*nonce, losses)).collect();
    let mut truths = Truths::default();
    let mut epochs = Vec::new();
    for epoch in history.iter().filter(|epoch| !epoch.truth.is_empty()) {
        let uninformed = truths.uninformed_loss(topic, &epoch.truth);
        truths.take(&epoch.truth);
        if let Some(losses) = by_nonce.get(&epoch.nonce) {
            epochs.push(EpochLosses {
                nonce: epoch.nonce,
                opened_at: epoch.opened_at.clone(),
                combined: rule.plain(losses.combined),
                naive: rule.plain(losses.naive),
                uninformed,
            });
        }
    }
    let min = usize::try_from(RANKED_EPOCHS_MIN.min(n_epochs)).unwrap_or(usize::MAX);
    let Standings { ranked, common, unranked } = standings(records(losses), min);
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let actor = |record: &Record<'_>, counted: &BTreeSet<usize>| {
        let losses: Vec<f64> =
            counted.iter().filter_map(|at| record.losses.get(at)).copied().collect();
        let mean = |of: &dyn Fn(f64) -> f64| {
            losses.iter().map(|loss| of(*loss)).sum::<f64>() / count(losses.len().max(1))
        };
        RankedActor {
            worker: record.worker.to_string(),
            role: record.role.name().to_owned(),
            name: None,
            rank: None,
            n_epochs: number(record.losses.len()),
            n_counted_epochs: number(losses.len()),
            mean_loss: mean(&|loss| loss),
            mean_plain_loss: mean(&|loss| rule.plain(loss)),
        }
    };
    let mut actors: Vec<RankedActor> = ranked.iter().map(|record| actor(record, &common)).collect();
    actors.sort_by(|a, b| a.mean_loss.total_cmp(&b.mean_loss));
    for (rank, ranked) in (1..).zip(&mut actors) {
        ranked.rank = Some(rank);
    }
    actors.extend(unranked.iter().map(|(record, n_counted)| RankedActor {
        n_counted_epochs: number(*n_counted),
        ..actor(record, &record.losses.keys().copied().collect())
    }));
    Leaderboard {
        topic_id: topic.id.get(),
        epochs,
        min_epochs: number(min),
        n_common_epochs: number(common.len()),
        is_logarithmic: !rule.allow_negative,
        actors,
    }
}

/// Losses of an actor by index of the epoch, where 0 is the latest.
pub(super) struct Record<'a> {
    pub(super) role: Role,
    pub(super) worker: &'a Address,
    pub(super) losses: BTreeMap<usize, f64>,
}

/// Returns the losses of each actor.
fn records(losses: &[(BlockHeight, Losses)]) -> Vec<Record<'_>> {
    let mut records: BTreeMap<(Role, &Address), BTreeMap<usize, f64>> = BTreeMap::new();
    for (at, (_, losses)) in losses.iter().enumerate() {
        for role in Role::ALL {
            for (worker, loss) in losses.by_actor(role) {
                records.entry((role, worker)).or_default().insert(at, *loss);
            }
        }
    }
    let record = |((role, worker), losses)| Record { role, worker, losses };
    records.into_iter().map(record).collect()
}

/// Ranked and unranked actors.
pub(super) struct Standings<'a> {
    pub(super) ranked: Vec<Record<'a>>,
    /// Epochs that all ranked actors have in common.
    pub(super) common: BTreeSet<usize>,
    /// Unranked actors with the number of their epochs that count toward a rank, in descending
    /// order.
    pub(super) unranked: Vec<(Record<'a>, usize)>,
}

/// Divides `records` into ranked and unranked actors. Each ranked actor has `min` of the latest `2 *
/// min` epochs. All ranked actors have at least `min` epochs in common.
pub(super) fn standings(mut records: Vec<Record<'_>>, min: usize) -> Standings<'_> {
    // Actors with the most epochs come first, since they have the most in common.
    records.sort_by_key(|record| Reverse(record.losses.len()));
    let mut ranked = Vec::new();
    let mut common: Option<BTreeSet<usize>> = None;
    let mut unranked = Vec::new();
    for record in records {
        let n_recent = record.losses.range(..min.saturating_mul(2)).count();
        let own = record.losses.keys().copied();
        let shared: BTreeSet<usize> = match &common {
            Some(common) => own.filter(|at| common.contains(at)).collect(),
            None => own.collect(),
        };
        if n_recent >= min && shared.len() >= min {
            ranked.push(record);
            common = Some(shared);
        } else {
            let n_counted = if n_recent < min { n_recent } else { shared.len() };
            unranked.push((record, n_counted));
        }
    }
    unranked.sort_by_key(|(_, n_counted)| Reverse(*n_counted));
    Standings { ranked, common: common.unwrap_or_default(), unranked }
}

/// Ground truths so far.
#[derive(Default)]
struct Truths {
    n_epochs: u32,
    sum: f64,
}

impl Truths {
    fn take(&mut self, truth: &[LabeledValue]) {
        if let Some(first) = truth.first() {
            self.n_epochs += 1;
            self.sum += first.value;
        }
    }

    /// Returns the loss of an uninformed prediction from earlier ground truths, or `None` without any.
    fn uninformed_loss(&self, topic: &Topic, truth: &[LabeledValue]) -> Option<f64> {
        let truth = numbers(truth);
        let said = match topic.truth {
            Truth::Direction { .. } => {
                vec![1.0 / count(truth.len()); truth.len()]
            }
            Truth::Value if self.n_epochs == 0 => return None,
            Truth::Value => vec![self.sum / f64::from(self.n_epochs)],
        };
        Some(LossRule { allow_negative: true, ..topic.judging.loss }.loss(&said, &truth))
    }
}
