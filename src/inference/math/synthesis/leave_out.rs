//! Values without one actor, or with a single forecaster.
//!
//! Each left-out actor requires new weights of all others, which is inferers × (inferers + forecasters)
//! weights for all inferers. The row `synthesis` of the bench `figures` measures the cost for a thousand
//! inferers and fifty forecasters.

use std::collections::BTreeMap;

use model::topic::Address;

use super::Values;
use super::combine::{ABSENT, EpochTable, named};
use super::implied::Implied;
use super::weights::dot;
use crate::math::pair_values::PairValues;
use crate::math::regret::PairwiseRegrets;

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
