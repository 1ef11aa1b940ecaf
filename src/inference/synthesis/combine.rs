//! Combining: weighted means of values, over the actors of one epoch.

use std::collections::BTreeMap;

use model::topic::Address;

use super::{Epoch, Newcomers, Values, implied::Implied, weights};
use crate::regret::{Family, Standing};

/// The actors of an epoch in a row: inferers first, then the forecasters that imply a value, each
/// by address. A position in the row stands for an actor in everything below.
#[derive(Debug)]
pub struct Table<'a> {
    epoch: &'a Epoch<'a>,
    inferers: Vec<&'a Address>,
    forecasters: Vec<&'a Address>,
    values: Vec<&'a [f64]>,
    /// What stands in for a standing that no one has: all actors are new to it.
    unknown: Standing,
}

impl<'a> Table<'a> {
    /// Lines up the actors of `epoch`.
    pub fn of(epoch: &'a Epoch<'a>, implied: &'a Implied) -> Self {
        let submitted = epoch.inferences.values().map(Vec::as_slice);
        Self {
            epoch,
            inferers: epoch.inferences.keys().collect(),
            forecasters: implied.forecasters().collect(),
            values: submitted.chain(implied.values()).collect(),
            unknown: Standing::default(),
        }
    }

    /// How many inferers: the first positions.
    pub fn n_inferers(&self) -> usize {
        self.inferers.len()
    }

    /// How many forecasters: the positions after the inferers.
    pub fn n_forecasters(&self) -> usize {
        self.forecasters.len()
    }

    /// The inferers, by position.
    pub fn inferers(&self) -> &[&'a Address] {
        &self.inferers
    }

    /// The forecasters, by position less the number of inferers.
    pub fn forecasters(&self) -> &[&'a Address] {
        &self.forecasters
    }

    /// What the actor at `idx` infers or implies.
    pub fn value(&self, idx: usize) -> &'a [f64] {
        self.values.get(idx).copied().unwrap_or_default()
    }

    /// The regrets of `standing`, by position; the newcomers' regret for who has none.
    pub fn line(&self, standing: Option<&Standing>) -> Vec<f64> {
        let standing = standing.unwrap_or(&self.unknown);
        let mut line = self.aligned(&self.inferers, &standing.inferer);
        line.extend(self.aligned(&self.forecasters, &standing.forecaster));
        line
    }

    /// The inferers' naive regrets, by position.
    pub fn naive_line(&self) -> Vec<f64> {
        self.aligned(&self.inferers, &self.epoch.regrets.naive)
    }

    /// Whether all quantities measure regrets by one scale.
    pub fn has_common_scale(&self) -> bool {
        self.epoch.params.common_scale().is_some()
    }

    /// The epoch itself.
    pub fn epoch(&self) -> &'a Epoch<'a> {
        self.epoch
    }

    /// The weights of `actors` (positions) by their regrets in `line`, in the order of `actors`.
    pub fn weights(&self, actors: &[usize], line: &[f64]) -> Vec<f64> {
        match self.epoch.newcomers {
            Newcomers::Everyone => {
                let counts = |idx: &usize| if *idx < self.n_inferers() { 1.0 } else { 0.0 };
                actors.iter().map(counts).collect()
            }
            Newcomers::WithRegret(_) => {
                let regrets: Vec<f64> =
                    actors.iter().filter_map(|idx| line.get(*idx)).copied().collect();
                weights::weights(&regrets, self.epoch.params)
            }
        }
    }

    /// The weighted mean of the values of `actors` by their regrets in `line`.
    pub fn combined(&self, actors: &[usize], line: &[f64]) -> Values {
        let weights = self.weights(actors, line);
        self.mean(actors.iter().map(|idx| self.value(*idx)).zip(weights))
    }

    /// The weighted mean of `values`, for each label on its own.
    pub fn mean<'v>(&self, values: impl IntoIterator<Item = (&'v [f64], f64)>) -> Values {
        let n_labels = self.values.first().map_or(0, |first| first.len());
        mean(values, n_labels, self.epoch.params.epsilon_safe_div)
    }

    /// Walks two sorted lists side by side, which costs their length where looking up each name
    /// would cost its logarithm as well.
    fn aligned(&self, names: &[&Address], regrets: &Family) -> Vec<f64> {
        let newcomer = match self.epoch.newcomers {
            Newcomers::Everyone => 0.0,
            Newcomers::WithRegret(regret) => regret,
        };
        let mut known = regrets.iter().peekable();
        let mut regret_of = |name: &Address| {
            while known.next_if(|(other, _)| *other < name).is_some() {}
            known.next_if(|(other, _)| *other == name).map_or(newcomer, |(_, regret)| *regret)
        };
        names.iter().map(|name| regret_of(name)).collect()
    }
}

/// The weighted mean of `values`, each of `n_labels` numbers. Who has no weight is passed over.
pub fn mean<'v>(
    values: impl IntoIterator<Item = (&'v [f64], f64)>,
    n_labels: usize,
    epsilon_safe_div: f64,
) -> Values {
    let mut sums = vec![0.0; n_labels];
    let mut sum_weights = 0.0;
    for (value, weight) in values {
        if weight.is_nan() || weight == 0.0 {
            continue;
        }
        sum_weights += weight;
        for (sum, number) in sums.iter_mut().zip(value) {
            *sum += weight * number;
        }
    }
    let divisor = sum_weights.max(epsilon_safe_div);
    sums.into_iter().map(|sum| sum / divisor).collect()
}

/// Pairs `names` with `numbers`.
pub fn named<T>(names: &[&Address], numbers: impl IntoIterator<Item = T>) -> BTreeMap<Address, T> {
    names.iter().map(|name| (*name).clone()).zip(numbers).collect()
}
