//! State that a topic learns about its actors from the losses of its epochs.

use std::collections::BTreeSet;
use std::iter::repeat;

use model::topic::{Address, BlockHeight};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::inference::LabeledValue;

use crate::math::exact::Exact;
use crate::math::loss::{LossRule, TRUTHS_MAX};
use crate::math::pair_values::FullBundle;
use crate::math::regret::{
    ByActor, ByRole, Crowd, Losses, Pace, Regrets, Role, RoleValues, initial_regret, is_experienced,
};
use crate::math::sortition::{initial_score, missed_epochs, penalized};
use crate::math::statistics::{moving_average, quantile};
use crate::math::synthesis::Newcomers;
use crate::math::synthesis::weights::scale;
use crate::network::forecast::{LOSS_AVERAGE_ALPHA, Past};
use crate::network::submission::numbers;
use crate::network::topic::Topic;

/// Number of epochs after which an absent actor is forgotten. The number of pairwise regrets grows with
/// the square of the number of actors, so actors that left must not accumulate.
const FORGOTTEN_AFTER_EPOCHS: u64 = 1000;

/// Maximum number of stored actors per role: more than an epoch
/// [accepts](crate::network::topic::SUBMISSIONS_MAX). If there are more, actors without a score are
/// forgotten first, so that submissions under made-up names do not displace other actors.
const KNOWN_MAX: usize = 2048;

/// Participation of an actor in epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experience {
    /// Number of epochs in which the actor was active and from which the network learned, or 0 if the
    /// actor has only rested.
    pub n_epochs: u32,
    /// Latest epoch that `n_epochs` counts. If there is none, the latest epoch in which the actor
    /// rested.
    pub last_nonce: BlockHeight,
}

/// State learned from all epochs up to `nonce`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Learned {
    /// Latest epoch from which the network learned.
    pub nonce: Option<BlockHeight>,
    /// Number of epochs from which the network learned.
    pub n_learned: u64,
    /// Unit of the losses, or `None` if it is the unit of the topic's present settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Regrets of all families.
    pub regrets: Regrets,
    /// Scale of the regrets of the actors in the latest epoch.
    #[serde(with = "Exact")]
    pub regret_scale: Option<f64>,
    /// Regret of newcomers.
    #[serde(with = "Exact")]
    pub initial_regret: f64,
    /// Latest loss of the combined value.
    #[serde(with = "Exact")]
    pub combined_loss: Option<f64>,
    /// Latest loss of each actor.
    pub losses: RoleValues,
    /// Moving average of each actor's scores.
    pub scores: RoleValues,
    /// Moving average of each inferer's losses.
    #[serde(with = "Exact")]
    pub loss_averages: ByActor<f64>,
    /// Latest ground truths, oldest first, if the topic's losses are scaled by their deviation.
    #[serde(with = "Exact", default, skip_serializing_if = "Vec::is_empty")]
    pub truths: Vec<f64>,
    /// Inferences and losses in past epochs, from which the built-in forecasters predict.
    #[serde(skip)]
    pub past: Past,
    /// Score toward which the scores of resting actors move: a quantile, set by the topic, of the
    /// active actors' latest scores. `None` until the network has learned from a first epoch.
    #[serde(flatten, with = "RestingTargets")]
    pub resting_targets: ByRole<Option<f64>>,
    /// Participation of each actor.
    #[serde(flatten, with = "ExperienceByRole")]
    pub experience: ByRole<ByActor<Experience>>,
}

/// Serialized form of `resting_targets`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ByRole<Option<f64>>")]
struct RestingTargets {
    #[serde(rename = "resting_target_inferer", with = "Exact")]
    inferer: Option<f64>,
    #[serde(rename = "resting_target_forecaster", with = "Exact")]
    forecaster: Option<f64>,
}

/// Serialized form of `experience`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ByRole<ByActor<Experience>>")]
struct ExperienceByRole {
    #[serde(rename = "inferers", with = "Exact")]
    inferer: ByActor<Experience>,
    #[serde(rename = "forecasters", with = "Exact")]
    forecaster: ByActor<Experience>,
}

impl Exact for Experience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialize::serialize(self, serializer)
    }

    fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Deserialize::deserialize(deserializer)
    }
}

/// Error for a bundle if the loss of one of its values is not a finite number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("loss of a value in the bundle is not a finite number")]
pub struct BundleError;

impl Learned {
    /// Returns true if a snapshot is taken before the next epoch. It is taken before every 32nd epoch, so
    /// that learning again from an epoch repeats at most 31 earlier epochs.
    pub const fn is_snapshot_due(&self) -> bool {
        self.n_learned.is_multiple_of(32)
    }

    /// Returns the treatment of actors without a regret.
    ///
    /// On the chain, all actors of a topic are treated as new while the topic's initial regret is 0.
    /// With fewer than ten actors, it stays 0 forever. Here all actors are treated as new only until
    /// the network has learned from an epoch.
    pub fn newcomers(&self) -> Newcomers {
        if self.regrets.is_empty() {
            Newcomers::Everyone
        } else {
            Newcomers::WithRegret(self.initial_regret)
        }
    }

    /// Returns true if the network learned from an epoch in which `name` was active in either role.
    pub fn is_scored(&self, name: &Address) -> bool {
        let seen = Role::ALL.map(|role| self.experience[role].get(name));
        seen.into_iter().flatten().any(|seen| seen.n_epochs > 0)
    }

    /// Returns true if the losses from which this state was learned have the unit of `rule`.
    pub fn has_unit(&self, rule: &LossRule) -> bool {
        self.unit.as_ref().is_none_or(|unit| *unit == rule.unit())
    }

    /// Returns the approximate memory usage in bytes.
    pub fn n_bytes(&self) -> usize {
        let n_actors = self.experience.inferer.len() + self.experience.forecaster.len();
        let past = self.past.epochs().map(|epoch| epoch.losses.len() + epoch.offsets.len());
        // Apart from pairwise regrets, an actor needs about a kilobyte: its address and a number in a
        // dozen maps.
        n_actors * 1024 + self.regrets.n_bytes() + 8 * past.sum::<usize>()
    }

    /// Computes the losses of `bundle` for the ground truth `truth`, learns from them and returns them.
    /// If earlier losses have another unit, only the ground truths and the number of epochs are kept.
    ///
    /// # Errors
    /// [`BundleError`] if a value of the bundle or its loss is not a number. In this case, the state
    /// does not change.
    pub fn learn(
        &mut self,
        topic: &Topic,
        bundle: &FullBundle,
        truth: &[f64],
    ) -> Result<Losses, BundleError> {
        let (mut rule, mut truths) = (topic.judging.loss, Vec::new());
        if rule.is_scaled() {
            let n_before = self.truths.len().min(TRUTHS_MAX - 1);
            truths.extend_from_slice(&self.truths[self.truths.len() - n_before..]);
            truths.extend(truth.first());
            rule = rule.scaled_by(&truths);
        }
        let unit = Some(topic.judging.loss.unit());
        let losses =
            Losses { unit: unit.clone(), ..losses(rule, bundle, truth, topic.labeling.default)? };
        if !self.has_unit(&topic.judging.loss) {
            *self = Self { n_learned: self.n_learned, ..Self::default() };
        }
        self.unit = unit;
        self.truths = truths;
        let pace = Pace { alpha: topic.judging.alpha_regret, initial: self.initial_regret };
        self.regrets.learn(&losses, pace);
        self.nonce = Some(bundle.nonce);
        self.n_learned += 1;
        self.combined_loss = Some(losses.combined);
        average(&mut self.loss_averages, &losses.inferer, LOSS_AVERAGE_ALPHA);
        let inferences = bundle.inferer_values.iter();
        let inferences = inferences.map(|one| (one.worker.clone(), numbers(&one.values)));
        self.past.remember(&inferences.collect(), &losses.inferer);
        for role in Role::ALL {
            self.penalize_absence(topic, role, losses.by_actor(role), bundle.nonce);
            take_part(&mut self.experience[role], losses.by_actor(role), bundle.nonce);
            self.losses[role].extend(losses.by_actor(role).clone());
            let scores = losses.scores(role);
            average(&mut self.scores[role], &scores, topic.judging.merit_sortition_alpha);
            let values: Vec<f64> = scores.values().copied().collect();
            let target = quantile(&values, topic.active_quantiles[role]);
            self.resting_targets[role] = target.or(self.resting_targets[role]);
        }
        self.settle(topic, bundle.nonce);
        Ok(losses)
    }

    /// Returns the score of newcomers in `role`.
    pub fn initial_score(&self, role: Role) -> f64 {
        let experience = &self.experience[role];
        let is_scored = |name: &Address| experience.get(name).is_some_and(|seen| seen.n_epochs > 0);
        let scored = self.scores[role].iter().filter(|(name, _)| is_scored(name));
        initial_score(&scored.map(|(_, score)| *score).collect::<Vec<_>>())
    }

    /// Lowers the scores of the actors `back`, which are active in the epoch `nonce`, once for each
    /// epoch that they missed since they were last active.
    ///
    /// The chain does this when an actor submits. Here it is done when the network learns from the
    /// epoch.
    fn penalize_absence(
        &mut self,
        topic: &Topic,
        role: Role,
        back: &ByActor<f64>,
        nonce: BlockHeight,
    ) {
        let initial = self.initial_score(role);
        let alpha = topic.judging.merit_sortition_alpha;
        for name in back.keys() {
            let seen = self.experience[role].get(name).filter(|seen| seen.n_epochs > 0);
            let Some((seen, score)) = seen.zip(self.scores[role].get_mut(name)) else { continue };
            let n_missed = missed_epochs(seen.last_nonce, nonce, topic.timing.epoch_length);
            *score = penalized(*score, initial, alpha, n_missed);
        }
    }

    /// Forgets actors after a long absence. Then updates the scale of the regrets and the regret of
    /// newcomers.
    fn settle(&mut self, topic: &Topic, nonce: BlockHeight) {
        let kept = FORGOTTEN_AFTER_EPOCHS.saturating_mul(topic.timing.epoch_length);
        let oldest = nonce.saturating_sub(kept);
        for role in Role::ALL {
            forget(&mut self.experience[role], oldest);
        }
        let is_known = |role: Role, name: &Address| self.experience[role].contains_key(name);
        self.regrets.retain(is_known);
        self.loss_averages.retain(|name, _| is_known(Role::Inferer, name));
        for role in Role::ALL {
            self.losses[role].retain(|name, _| is_known(role, name));
            self.scores[role].retain(|name, _| is_known(role, name));
        }
        let params = topic.params(None);
        let regrets = |actors: Vec<(Role, &Address, f64)>| -> Vec<f64> {
            actors.into_iter().map(|(.., regret)| regret).collect()
        };
        let present = regrets(self.actors(|seen| seen.last_nonce == nonce));
        self.regret_scale = Some(scale(&present, &params));
        let alpha = topic.judging.alpha_regret;
        let experienced = regrets(self.actors(|seen| is_experienced(seen.n_epochs, alpha)));
        let all: Vec<f64> = self.regrets.ordinary.all().collect();
        let n_min = topic.judging.n_experienced_min;
        let crowd = Crowd { experienced: &experienced, all: &all, n_min };
        self.initial_regret = initial_regret(crowd, &params).unwrap_or(self.initial_regret);
    }

    /// Returns the ordinary regret of each actor for which `is_included` returns true, sorted by
    /// address, inferers first.
    pub(crate) fn actors(
        &self,
        is_included: impl Fn(&Experience) -> bool,
    ) -> Vec<(Role, &Address, f64)> {
        let mut actors = Vec::new();
        for role in Role::ALL {
            for (name, _) in self.experience[role].iter().filter(|(_, seen)| is_included(seen)) {
                let regret = self.regrets.ordinary[role].get(name);
                actors.extend(regret.map(|regret| (role, name, *regret)));
            }
        }
        actors
    }
}

/// Returns the losses, by `rule`, of all values in `bundle`. Labels of `truth` that the bundle lacks have
/// the value `default`.
///
/// # Errors
/// [`BundleError`] if a value or its loss is not a number.
pub fn losses(
    rule: LossRule,
    bundle: &FullBundle,
    truth: &[f64],
    default: f64,
) -> Result<Losses, BundleError> {
    let of_numbers = |values: &[f64]| {
        let loss = if values.len() == truth.len() {
            rule.loss(values, truth)
        } else {
            let values = values.iter().copied().chain(repeat(default)).take(truth.len());
            rule.loss(&values.collect::<Vec<_>>(), truth)
        };
        if loss.is_finite() { Ok(loss) } else { Err(BundleError) }
    };
    let loss = |values: &[LabeledValue]| of_numbers(&numbers(values));
    Ok(Losses {
        combined: loss(&bundle.combined_value)?,
        naive: loss(&bundle.naive_value)?,
        inferer: losses_of(&bundle.inferer_values, loss)?,
        forecaster: losses_of(&bundle.forecaster_values, loss)?,
        one_out_inferer: losses_of(&bundle.one_out_inferer_values, loss)?,
        one_out_forecaster: losses_of(&bundle.one_out_forecaster_values, loss)?,
        one_in_forecaster: losses_of(&bundle.one_in_forecaster_values, loss)?,
        one_out_inferer_forecaster: bundle.without_inferer.try_map(of_numbers)?,
        std: rule.parameters.std,
        unit: None,
    })
}

/// Returns the loss of each actor's entry.
fn losses_of<'e, T>(
    entries: &'e [T],
    loss: impl Fn(&[LabeledValue]) -> Result<f64, BundleError>,
) -> Result<ByActor<f64>, BundleError>
where
    (&'e Address, &'e Vec<LabeledValue>): From<&'e T>,
{
    let pairs = entries.iter().map(<(&Address, &Vec<LabeledValue>)>::from);
    pairs.map(|(name, values)| Ok((name.clone(), loss(values)?))).collect()
}

fn take_part(experience: &mut ByActor<Experience>, losses: &ByActor<f64>, nonce: BlockHeight) {
    for name in losses.keys() {
        let seen =
            experience.entry(name.clone()).or_insert(Experience { n_epochs: 0, last_nonce: nonce });
        seen.n_epochs = seen.n_epochs.saturating_add(1);
        seen.last_nonce = nonce;
    }
}

fn average(averages: &mut ByActor<f64>, newest: &ByActor<f64>, alpha: f64) {
    for (name, value) in newest {
        let average = moving_average(averages.get(name).copied(), *value, alpha);
        averages.insert(name.clone(), average);
    }
}

/// Removes actors that were last seen before the epoch `oldest`. If more than [`KNOWN_MAX`] remain,
/// removes first those without a score, then those with the longest absence.
fn forget(experience: &mut ByActor<Experience>, oldest: BlockHeight) {
    experience.retain(|_, seen| seen.last_nonce >= oldest);
    let n_over = experience.len().saturating_sub(KNOWN_MAX);
    if n_over == 0 {
        return;
    }
    let age = |seen: &Experience| (seen.n_epochs > 0, seen.last_nonce);
    let by_age = experience.iter().map(|(name, seen)| (age(seen), name.clone()));
    let by_age: BTreeSet<_> = by_age.collect();
    for (_, name) in by_age.into_iter().take(n_over) {
        experience.remove(&name);
    }
}

#[cfg(test)]
mod tests;
