//! Weighted means of values over the actors of an epoch.

use std::collections::BTreeMap;

use model::topic::Address;

use super::implied::{Implied, walk};
use super::weights::{self, dot};
use super::{Epoch, Newcomers, Values};
use crate::math::regret::{ByActor, RoleValues};

/// Regret that marks an actor as ignored: it has no weight and does not affect the scale.
pub const ABSENT: f64 = f64::NEG_INFINITY;

/// Actors of an epoch by position: inferers first, then the forecasters that imply a value, each by
/// address. A line is a list with one number per position.
#[derive(Debug)]
pub struct EpochTable<'a> {
    epoch: &'a Epoch<'a>,
    inferers: Vec<&'a Address>,
    forecasters: Vec<&'a Address>,
    /// Values of the actors for each label.
    values: Vec<Vec<f64>>,
}

impl<'a> EpochTable<'a> {
    /// Arranges the actors of `epoch`.
    pub fn new(epoch: &'a Epoch<'a>, implied: &'a Implied) -> Self {
        let n_labels = epoch.inferences.first_key_value().map_or(0, |(_, values)| values.len());
        let of_label = |label_idx: usize| {
            let submitted = epoch.inferences.values().map(Vec::as_slice);
            let all = submitted.chain(implied.values());
            all.filter_map(|values| values.get(label_idx)).copied().collect()
        };
        Self {
            epoch,
            inferers: epoch.inferences.keys().collect(),
            forecasters: implied.forecasters().collect(),
            values: (0..n_labels).map(of_label).collect(),
        }
    }

    /// Returns the inferers by position.
    pub fn inferers(&self) -> &[&'a Address] {
        &self.inferers
    }

    /// Returns the forecasters by position minus the number of inferers.
    pub fn forecasters(&self) -> &[&'a Address] {
        &self.forecasters
    }

    /// Returns the inferred or implied values by position for each label.
    pub fn values(&self) -> &[Vec<f64>] {
        &self.values
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> &'a Epoch<'a> {
        self.epoch
    }

    /// Returns the regret of an actor without one in a family.
    pub fn newcomer(&self) -> f64 {
        match self.epoch.newcomers {
            Newcomers::Everyone => 0.0,
            Newcomers::WithRegret(regret) => regret,
        }
    }

    /// Returns `regrets` as a line.
    pub fn line(&self, regrets: &RoleValues) -> Vec<f64> {
        let mut line = self.aligned(&self.inferers, &regrets.inferer);
        line.extend(self.aligned(&self.forecasters, &regrets.forecaster));
        line
    }

    /// Returns the inferers' naive regrets as a line, in which forecasters are ignored.
    pub fn naive_line(&self) -> Vec<f64> {
        self.aligned(&self.inferers, &self.epoch.regrets.naive)
    }

    /// Replaces the regrets of `line` by weights.
    pub fn weigh(&self, line: &mut [f64]) {
        if self.epoch.newcomers != Newcomers::Everyone {
            return weights::weigh(line, self.epoch.params);
        }
        for (idx, place) in line.iter_mut().enumerate() {
            let counts = idx < self.inferers.len() && place.is_finite();
            *place = if counts { 1.0 } else { 0.0 };
        }
    }

    /// Returns the mean of the values, weighted by the regrets of `line`.
    pub fn combined(&self, mut line: Vec<f64>) -> Values {
        self.weigh(&mut line);
        self.mean(line.iter().sum(), self.values.iter().map(|values| dot(values, &line)))
    }

    /// Returns the mean from the sum of weights and the weighted sums by label.
    pub fn mean(&self, weight: f64, sums: impl Iterator<Item = f64>) -> Values {
        let divisor = weight.max(self.epoch.params.epsilon_safe_div);
        sums.map(|sum| sum / divisor).collect()
    }

    /// Walks two sorted lists in parallel, which is cheaper than looking up each name.
    fn aligned(&self, names: &[&Address], regrets: &ByActor<f64>) -> Vec<f64> {
        let found = walk(names.iter().copied(), regrets);
        found.map(|regret| regret.copied().unwrap_or(self.newcomer())).collect()
    }
}

/// Pairs `names` with `numbers`.
pub fn named<T>(names: &[&Address], numbers: impl IntoIterator<Item = T>) -> BTreeMap<Address, T> {
    names.iter().map(|name| (*name).clone()).zip(numbers).collect()
}
