//! Weighted means of values over the actors of an epoch.

use std::collections::BTreeMap;

use model::topic::Address;

use super::implied::{Implied, walk};
use super::weights::{self, dot};
use super::{Epoch, Newcomers, Values};
use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, PairwiseRegrets, RoleValues};

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

/// A family of regrets, with the column of each actor.
struct Against<'t, 'a> {
    table: &'t EpochTable<'a>,
    pairwise: &'t PairwiseRegrets,
    inferers: Vec<Option<usize>>,
    forecasters: Vec<Option<usize>>,
}

impl<'t, 'a> Against<'t, 'a> {
    fn new(table: &'t EpochTable<'a>, pairwise: &'t PairwiseRegrets) -> Self {
        let columns = |pairs: &PairValues, names: &[&Address]| {
            names.iter().map(|name| pairs.columns().binary_search(name).ok()).collect()
        };
        Self {
            table,
            pairwise,
            inferers: columns(&pairwise.inferer, table.inferers()),
            forecasters: columns(&pairwise.forecaster, table.forecasters()),
        }
    }

    /// Returns the regrets of all actors against the value without or with only `name`. Pairs without a
    /// regret have that of newcomers.
    fn line(&self, name: &Address) -> Vec<f64> {
        let newcomer = self.table.newcomer();
        let mut line = Vec::with_capacity(self.inferers.len() + self.forecasters.len());
        for (pairs, columns) in [
            (&self.pairwise.inferer, &self.inferers),
            (&self.pairwise.forecaster, &self.forecasters),
        ] {
            let row = pairs.row_of(name).unwrap_or_default();
            line.extend(columns.iter().map(|column| {
                let regret = column.and_then(|idx| row.get(idx)).copied();
                regret.filter(|regret| !regret.is_nan()).unwrap_or(newcomer)
            }));
        }
        line
    }
}

/// Combines the values of all other actors for each left-out inferer, with the regrets and implied
/// values of that case. Empty with fewer than two inferers.
pub fn one_out_inferer(table: &EpochTable<'_>, implied: &Implied) -> BTreeMap<Address, Values> {
    if table.inferers().len() < 2 {
        return BTreeMap::new();
    }
    let against = Against::new(table, &table.epoch().regrets.one_out_inferer);
    let each = (0..table.inferers().len()).map(|idx| without_inferer(&against, implied, idx));
    named(table.inferers(), each.collect::<Vec<_>>())
}

/// Combines the values without the inferer at `withheld_idx`.
fn without_inferer(against: &Against<'_, '_>, implied: &Implied, withheld_idx: usize) -> Values {
    let table = against.table;
    let n_inferers = table.inferers().len();
    let Some(withheld) = table.inferers().get(withheld_idx) else { return Values::new() };
    let mut line = against.line(withheld);
    let implied: Vec<Option<&[f64]>> =
        (0..line.len() - n_inferers).map(|idx| implied.without(idx, withheld_idx)).collect();
    let (inferers, forecasters) = line.split_at_mut(n_inferers);
    if let Some(place) = inferers.get_mut(withheld_idx) {
        *place = ABSENT;
    }
    // A forecaster that expects no loss of another inferer has no value. In 2024 it still affected the
    // scale. With a common scale, it could only reduce the others' weights.
    let has_common_scale = table.epoch().params.common_scale().is_some();
    for (place, value) in forecasters.iter_mut().zip(&implied) {
        if has_common_scale && value.is_none() {
            *place = ABSENT;
        }
    }
    table.weigh(&mut line);
    let (inferers, forecasters) = line.split_at_mut(n_inferers);
    for (place, value) in forecasters.iter_mut().zip(&implied) {
        if value.is_none() {
            *place = 0.0;
        }
    }
    let weight = inferers.iter().chain(forecasters.iter()).sum();
    let sums = table.values().iter().enumerate().map(|(label_idx, values)| {
        let implied = forecasters.iter().zip(&implied);
        let implied =
            implied.filter_map(|(weight, value)| Some((*value)?.get(label_idx)? * weight));
        dot(values, inferers) + implied.sum::<f64>()
    });
    table.mean(weight, sums)
}

/// Combines the values of all other actors for each left-out forecaster, with the regrets of that case.
/// Empty with fewer than two forecasters.
pub fn one_out_forecaster(table: &EpochTable<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_out_forecaster, |is_named| !is_named)
}

/// Combines the inferers with each single forecaster, with the regrets of that case. Empty with fewer
/// than two forecasters.
pub fn one_in_forecaster(table: &EpochTable<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_in_forecaster, |is_named| is_named)
}

/// Combines the values for each forecaster with its row of `pairwise`. `counts` returns true if a
/// forecaster is included. Its argument is true for the forecaster of the row.
fn each_forecaster(
    table: &EpochTable<'_>,
    pairwise: &PairwiseRegrets,
    counts: impl Fn(bool) -> bool,
) -> BTreeMap<Address, Values> {
    if table.forecasters().len() < 2 {
        return BTreeMap::new();
    }
    let against = Against::new(table, pairwise);
    let n_inferers = table.inferers().len();
    let with = |(named_idx, name): (usize, &&Address)| {
        let mut line = against.line(name);
        for (idx, place) in line.iter_mut().skip(n_inferers).enumerate() {
            if !counts(idx == named_idx) {
                *place = ABSENT;
            }
        }
        table.combined(line)
    };
    named(table.forecasters(), table.forecasters().iter().enumerate().map(with))
}
