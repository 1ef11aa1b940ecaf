//! Weighted means of values over the actors of an epoch.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use model::topic::Address;

use super::implied::{Implied, walk};
use super::weights::{self, Generation, dot, mean_within, range};
use super::{Epoch, Newcomers, Values};
use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, PairwiseRegrets, RoleValues};

/// Regret that excludes an actor: the actor gets no weight and does not affect the scale.
pub const ABSENT: f64 = f64::NEG_INFINITY;

/// Actors of an epoch with their values. The position of an actor is its index in the list of inferers,
/// sorted by address, followed by the forecasters that imply a value, sorted by address. A *line* is a
/// list with one number per position, such as regrets or weights.
#[derive(Debug)]
pub struct EpochTable<'a> {
    epoch: &'a Epoch<'a>,
    inferers: Vec<&'a Address>,
    forecasters: Vec<&'a Address>,
    /// Value of each actor by label and position.
    values: Vec<Vec<f64>>,
    /// Range of these values by label. Unlimited in the generation of 2024, in which implied values can
    /// be outside the range of the inferences.
    ranges: Vec<RangeInclusive<f64>>,
}

impl<'a> EpochTable<'a> {
    /// Creates the table of the actors of `epoch`.
    pub fn new(epoch: &'a Epoch<'a>, implied: &'a Implied) -> Self {
        let n_labels = epoch.inferences.first_key_value().map_or(0, |(_, values)| values.len());
        let of_label = |label_idx: usize| {
            let submitted = epoch.inferences.values().map(Vec::as_slice);
            let all = submitted.chain(implied.values());
            all.filter_map(|values| values.get(label_idx)).copied().collect()
        };
        let values: Vec<Vec<f64>> = (0..n_labels).map(of_label).collect();
        let range_of = |values: &Vec<f64>| match epoch.params.generation {
            Generation::MadV017 => range(values),
            Generation::StdevOct2024 => f64::NEG_INFINITY..=f64::INFINITY,
        };
        Self {
            epoch,
            inferers: epoch.inferences.keys().collect(),
            forecasters: implied.forecasters().collect(),
            ranges: values.iter().map(range_of).collect(),
            values,
        }
    }

    /// Returns the inferers by position.
    pub fn inferers(&self) -> &[&'a Address] {
        &self.inferers
    }

    /// Returns the forecasters in order of their positions, which follow the positions of the inferers.
    pub fn forecasters(&self) -> &[&'a Address] {
        &self.forecasters
    }

    /// Returns the inferred and implied values by label and position.
    pub fn values(&self) -> &[Vec<f64>] {
        &self.values
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> &'a Epoch<'a> {
        self.epoch
    }

    /// Returns the regret of an actor without a regret in a family.
    pub fn newcomer(&self) -> f64 {
        match self.epoch.newcomers {
            Newcomers::Everyone => 0.0,
            Newcomers::WithRegret(regret) => regret,
        }
    }

    /// Returns the line of `regrets`. Actors without a regret have the regret of newcomers.
    pub fn line(&self, regrets: &RoleValues) -> Vec<f64> {
        let mut line = self.aligned(&self.inferers, &regrets.inferer);
        line.extend(self.aligned(&self.forecasters, &regrets.forecaster));
        line
    }

    /// Returns a line of the inferers' naive regrets. The line ends before the forecasters, which have
    /// no naive regrets.
    pub fn naive_line(&self) -> Vec<f64> {
        self.aligned(&self.inferers, &self.epoch.regrets.naive)
    }

    /// Replaces each regret in `line` with the weight that results from it.
    pub fn weigh(&self, line: &mut [f64]) {
        if self.epoch.newcomers != Newcomers::Everyone {
            return weights::weigh(line, self.epoch.params);
        }
        for (idx, place) in line.iter_mut().enumerate() {
            let counts = idx < self.inferers.len() && place.is_finite();
            *place = if counts { 1.0 } else { 0.0 };
        }
    }

    /// Returns the mean of the values for each label, with weights from the regrets in `line`.
    pub fn combined(&self, mut line: Vec<f64>) -> Values {
        self.weigh(&mut line);
        self.mean(line.iter().sum(), self.values.iter().map(|values| dot(values, &line)))
    }

    /// Returns the weighted mean for each label from the sum of all weights and the weighted sum of
    /// each label's values.
    pub fn mean(&self, weight: f64, sums: impl Iterator<Item = f64>) -> Values {
        let weight_min = self.epoch.params.epsilon_safe_div;
        let pairs = sums.zip(&self.ranges);
        pairs.map(|(sum, range)| mean_within(range, sum, weight, weight_min)).collect()
    }

    /// Returns the regret of each of `names`. Both lists are sorted and walked in parallel, since this
    /// is faster than looking up each name.
    fn aligned(&self, names: &[&Address], regrets: &ByActor<f64>) -> Vec<f64> {
        let found = walk(names.iter().copied(), regrets);
        found.map(|regret| regret.copied().unwrap_or(self.newcomer())).collect()
    }
}

/// Returns a map from each of `names` to the number at the same index.
pub fn named<T>(names: &[&Address], numbers: impl IntoIterator<Item = T>) -> BTreeMap<Address, T> {
    names.iter().map(|name| (*name).clone()).zip(numbers).collect()
}

/// Pairwise regrets of one family, with the column of each actor.
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

    /// Returns a line of regrets against the value without `name`, or with only `name`, depending on the
    /// family. Actors without a regret have the regret of newcomers.
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

/// Returns, for each inferer, the combined value with this inferer left out. The regrets and implied
/// values are those with this inferer left out, too. Empty with fewer than two inferers.
pub fn one_out_inferer(table: &EpochTable<'_>, implied: &Implied) -> BTreeMap<Address, Values> {
    if table.inferers().len() < 2 {
        return BTreeMap::new();
    }
    let against = Against::new(table, &table.epoch().regrets.one_out_inferer);
    let each = (0..table.inferers().len()).map(|idx| without_inferer(&against, implied, idx));
    named(table.inferers(), each.collect::<Vec<_>>())
}

/// Returns the combined value without the inferer at `withheld_idx`.
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
    // A forecaster that predicted losses for none of the other inferers implies no value, so its weight
    // is 0. In the generation of 2024, its regret still affects the scale. With a common scale, the
    // forecaster is excluded, since it would only reduce the weights of the other actors.
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

/// Returns, for each forecaster, the combined value with this forecaster left out. The regrets are those
/// with this forecaster left out, too. Empty with fewer than two forecasters.
pub fn one_out_forecaster(table: &EpochTable<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_out_forecaster, |is_named| !is_named)
}

/// Returns, for each forecaster, the value combined from the inferers and only this forecaster. The
/// regrets are those with this forecaster as the only one. Empty with fewer than two forecasters.
pub fn one_in_forecaster(table: &EpochTable<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_in_forecaster, |is_named| is_named)
}

/// Returns one combined value for each forecaster, with the regrets in its row of `pairwise`. `counts`
/// selects the forecasters that are included in this value: it is called for every forecaster, with true
/// for the forecaster of the row and with false for the others.
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
