//! Leaving out: what the network would infer without one actor, or with one forecaster alone.
//!
//! Without a forecaster, or with one alone, all inferers are weighed anew, which is inferers ×
//! forecasters in all. Without an inferer the forecasters are, which is as much, and the inferers
//! together (in `shared`) as far as their regrets allow it; the others are walked one by one.

mod shared;

use std::collections::BTreeMap;

use model::topic::Address;

use self::shared::{Part, Source};
use super::{
    Values,
    combine::{ABSENT, Table, dot, named},
    implied::Implied,
    weights::{Curve, Heights},
};
use crate::math::regret::{Versus, grid::Seats};

/// A family of regrets, and where the actors of the epoch stand in it.
struct Against<'t, 'a> {
    table: &'t Table<'a>,
    versus: &'t Versus,
    inferers: Seats,
    forecasters: Seats,
}

impl<'t, 'a> Against<'t, 'a> {
    fn new(table: &'t Table<'a>, versus: &'t Versus) -> Self {
        let inferers = versus.inferer.seats(table.inferers());
        let forecasters = versus.forecaster.seats(table.forecasters());
        Self { table, versus, inferers, forecasters }
    }

    /// The regrets of all actors against the quantity of `name`.
    fn line(&self, name: &Address) -> Vec<f64> {
        let n_inferers = self.table.inferers().len();
        let mut line = vec![0.0; n_inferers + self.table.forecasters().len()];
        let (inferers, forecasters) = line.split_at_mut(n_inferers);
        let grid = &self.versus.inferer;
        grid.fill(grid.row(name), &self.inferers, self.table.newcomer(), inferers);
        self.fill_forecasters(name, forecasters);
        line
    }

    fn fill_forecasters(&self, name: &Address, line: &mut [f64]) {
        let grid = &self.versus.forecaster;
        grid.fill(grid.row(name), &self.forecasters, self.table.newcomer(), line);
    }
}

/// Combines without each inferer in turn, by the regrets of that case; what the forecasters imply
/// is implied without it, too. Empty with fewer than two inferers.
pub fn one_out_inferer(table: &Table<'_>, implied: &Implied) -> BTreeMap<Address, Values> {
    if table.inferers().len() < 2 {
        return BTreeMap::new();
    }
    let against = Against::new(table, &table.epoch().regrets.one_out_inferer);
    let curve = table.curve();
    let parts = curve.map(|curve| shared::parts(&shared::Crowd::new(table, &against, curve)));
    let mut parts = parts.unwrap_or_default().into_iter();
    let without =
        |(withheld_idx, withheld): (usize, &&Address)| match (parts.next().flatten(), curve) {
            (Some(part), Some(curve)) => {
                beside(&against, curve, implied, (withheld_idx, withheld), &part)
            }
            _ => walked(&against, implied, (withheld_idx, withheld)),
        };
    named(table.inferers(), table.inferers().iter().enumerate().map(without).collect::<Vec<_>>())
}

/// Combines without the inferer at `withheld_idx`: every other actor is weighed by itself.
fn walked(
    against: &Against<'_, '_>,
    implied: &Implied,
    (withheld_idx, withheld): (usize, &Address),
) -> Values {
    let table = against.table;
    let n_inferers = table.inferers().len();
    let mut line = against.line(withheld);
    let has_value = |idx: usize| implied.without(idx, withheld_idx).is_some();
    let (inferers, forecasters) = line.split_at_mut(n_inferers);
    if let Some(place) = inferers.get_mut(withheld_idx) {
        *place = ABSENT;
    }
    // A forecaster that forecast nobody else has no value. In 2024 it still had a say in the
    // scale; where the scale is common, it could only push the others' weights to nothing.
    let has_common_scale = table.epoch().params.common_scale().is_some();
    for (idx, place) in forecasters.iter_mut().enumerate() {
        if has_common_scale && !has_value(idx) {
            *place = ABSENT;
        }
    }
    table.weigh(&mut line);
    let (inferers, forecasters) = line.split_at_mut(n_inferers);
    for (idx, place) in forecasters.iter_mut().enumerate() {
        if !has_value(idx) {
            *place = 0.0;
        }
    }
    let weight = inferers.iter().chain(forecasters.iter()).sum();
    let sums = table.values().iter().enumerate().map(|(label_idx, values)| {
        let implied = forecasters.iter().enumerate().filter_map(|(idx, weight)| {
            Some(implied.without(idx, withheld_idx)?.get(label_idx)? * weight)
        });
        dot(values, inferers) + implied.sum::<f64>()
    });
    table.mean(weight, sums)
}

/// Combines without the inferer at `withheld_idx`, where the other inferers' `part` is known.
fn beside(
    against: &Against<'_, '_>,
    curve: Curve,
    implied: &Implied,
    (withheld_idx, withheld): (usize, &Address),
    part: &Part,
) -> Values {
    let table = against.table;
    let mut line = vec![0.0; table.forecasters().len()];
    against.fill_forecasters(withheld, &mut line);
    let forecasters = line.iter().enumerate().filter_map(|(idx, regret)| {
        Some((curve.exponent(*regret), Source::Implied(implied.without(idx, withheld_idx)?)))
    });
    let apart = part.apart.iter().map(|(exponent, idx)| (*exponent, Source::Submitted(*idx)));
    let others: Vec<(f64, Source<'_>)> = apart.chain(forecasters).collect();
    let heights = Heights::below(others.iter().fold(part.least, |least, (e, _)| least.min(*e)));
    let factor = (heights.shift - part.shift).exp();
    let mut weight = factor * part.weight;
    let mut sums: Values = part.sums.iter().map(|sum| factor * sum).collect();
    for (exponent, source) in others {
        let height = heights.at(exponent);
        weight += height;
        for (label_idx, (sum, values)) in sums.iter_mut().zip(table.values()).enumerate() {
            let value = match source {
                Source::Submitted(idx) => values.get(idx),
                Source::Implied(values) => values.get(label_idx),
            };
            *sum += height * value.copied().unwrap_or_default();
        }
    }
    table.mean(weight, sums.into_iter())
}

/// Combines without each forecaster in turn, by the regrets of that case. Empty with fewer than
/// two forecasters.
pub fn one_out_forecaster(table: &Table<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_out_forecaster, |is_named| !is_named)
}

/// Combines the inferers with each forecaster alone, by the regrets of that case. Empty with fewer
/// than two forecasters.
pub fn one_in_forecaster(table: &Table<'_>) -> BTreeMap<Address, Values> {
    each_forecaster(table, &table.epoch().regrets.one_in_forecaster, |is_named| is_named)
}

/// Combines for each forecaster by its row of `versus`, with those forecasters that count: by
/// whether they are the one of the row.
fn each_forecaster(
    table: &Table<'_>,
    versus: &Versus,
    counts: impl Fn(bool) -> bool,
) -> BTreeMap<Address, Values> {
    if table.forecasters().len() < 2 {
        return BTreeMap::new();
    }
    let against = Against::new(table, versus);
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

#[cfg(test)]
mod tests;
