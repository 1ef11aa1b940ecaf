//! Who did how well: mean losses of actors, and losses of the network's values beside a baseline that
//! knows nothing. None of them is a logarithm, so that they add up.

use std::collections::BTreeMap;

use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::{
    HistoryEpoch, LabeledValue,
    leaderboard::{EpochLosses, Leaderboard, RankedActor},
};

use crate::{
    Inference, InferenceError,
    math::{
        loss::LossRule,
        regret::{Losses, Role},
    },
    network::{
        submission::numbers,
        topic::{Topic, Truth},
    },
};

/// Epochs that means are of where a request does not say: twenty minutes of the shortest ones.
pub const EPOCHS_DEFAULT: u32 = 100;

/// The most epochs that means are of.
pub const EPOCHS_MAX: u32 = 500;

/// Losses of actors and of pairs of them that are read for one ranking. A topic with a dozen actors
/// has all epochs that are asked for; one of a thousand inferers and fifty forecasters has five.
const LOSSES_READ_MAX: usize = 250_000;

/// Epochs that are read of the largest topics, too.
const EPOCHS_MIN: usize = 5;

impl Inference {
    /// Returns who did how well in the newest `n_epochs` of `topic` that were learned from; in fewer
    /// of a topic with many actors. Actors have no names.
    ///
    /// # Errors
    /// [`InferenceError`] if there is no such topic, or the file fails.
    pub async fn ranking(
        &self,
        topic: TopicId,
        n_epochs: u32,
    ) -> Result<Leaderboard, InferenceError> {
        let settings = self.find_topic(topic)?;
        let newest = self.losses_until(topic, BlockHeight::MAX, 1).await?;
        let Some((_, losses)) = newest.first() else {
            return Ok(ranking(&settings, &[], &[]));
        };
        let n_actors = losses.inferer.len() + losses.forecaster.len();
        let n_losses = n_actors + losses.inferer.len() * losses.forecaster.len();
        let n_affordable = (LOSSES_READ_MAX / n_losses.max(1)).max(EPOCHS_MIN);
        let n_epochs = n_epochs.min(u32::try_from(n_affordable).unwrap_or(u32::MAX));
        let losses = self.losses_until(topic, BlockHeight::MAX, n_epochs).await?;
        // As many again, and those whose truth is to come: the baseline knows the truths before.
        let lag = settings.timing.ground_truth_lag / settings.timing.epoch_length.max(1);
        let lag = u32::try_from(lag).unwrap_or(u32::MAX);
        let limit = n_epochs.saturating_mul(2).saturating_add(lag).min(2 * EPOCHS_MAX);
        let history = self.history(topic, 0..=BlockHeight::MAX, limit).await?;
        Ok(ranking(&settings, &history, &losses))
    }
}

/// The ranking of the epochs of `losses`, whose truths are in `history`, oldest first.
fn ranking(
    topic: &Topic,
    history: &[HistoryEpoch],
    losses: &[(BlockHeight, Losses)],
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
    let mut sums: BTreeMap<(Role, &Address), (u64, f64)> = BTreeMap::new();
    for (_, losses) in losses {
        for role in Role::ALL {
            for (worker, loss) in losses.by_actor(role) {
                let (n_epochs, sum) = sums.entry((role, worker)).or_default();
                *n_epochs += 1;
                *sum += rule.plain(*loss);
            }
        }
    }
    let actor = |((role, worker), (n_epochs, sum)): ((Role, &Address), (u64, f64))| {
        #[expect(clippy::cast_precision_loss, reason = "epochs are far fewer than 2^52")]
        let mean_loss = sum / n_epochs as f64;
        RankedActor {
            worker: worker.to_string(),
            role: role.name().to_owned(),
            name: None,
            n_epochs,
            mean_loss,
        }
    };
    let mut actors: Vec<RankedActor> = sums.into_iter().map(actor).collect();
    actors.sort_by(|a, b| a.mean_loss.total_cmp(&b.mean_loss));
    Leaderboard { topic_id: topic.id.get(), epochs, actors }
}

/// The values that came true so far.
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

    /// What one loses that knows these truths alone; none where it knows nothing to say.
    fn uninformed_loss(&self, topic: &Topic, truth: &[LabeledValue]) -> Option<f64> {
        let truth = numbers(truth);
        let said = match topic.truth {
            Truth::Direction { .. } => {
                vec![1.0 / crate::math::statistics::count(truth.len()); truth.len()]
            }
            Truth::Value if self.n_epochs == 0 => return None,
            Truth::Value => vec![self.sum / f64::from(self.n_epochs)],
        };
        Some(LossRule { allow_negative: true, ..topic.judging.loss }.loss(&said, &truth))
    }
}
