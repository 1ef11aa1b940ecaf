//! Leaving out: what the network would infer without one actor, or with one forecaster alone.

use std::collections::BTreeMap;

use model::topic::Address;

use super::{
    Values,
    combine::{Table, named},
    implied::Implied,
};

/// Combines without each inferer in turn, by the regrets of that case; what the forecasters imply
/// is implied without it, too. Empty with fewer than two inferers.
pub fn one_out_inferer(table: &Table<'_>, implied: &Implied) -> BTreeMap<Address, Values> {
    if table.n_inferers() < 2 {
        return BTreeMap::new();
    }
    let without = |(withheld_idx, withheld): (usize, &&Address)| {
        let line = table.line(table.epoch().regrets.one_out_inferer.get(*withheld));
        let value = |idx: usize| match idx.checked_sub(table.n_inferers()) {
            None => Some(table.value(idx)),
            Some(forecaster_idx) => implied.without(forecaster_idx, withheld_idx),
        };
        // A forecaster that forecast nobody else has no value. In 2024 it still had a say in the
        // scale; where the scale is common, it could only push the others' weights to nothing.
        let counts = |idx: &usize| {
            *idx != withheld_idx && (value(*idx).is_some() || !table.has_common_scale())
        };
        let n_actors = table.n_inferers() + table.n_forecasters();
        let actors: Vec<usize> = (0..n_actors).filter(counts).collect();
        let weighed = actors.iter().zip(table.weights(&actors, &line));
        table.mean(weighed.filter_map(|(idx, weight)| Some((value(*idx)?, weight))))
    };
    named(table.inferers(), table.inferers().iter().enumerate().map(without))
}

/// Combines without each forecaster in turn, by the regrets of that case. Empty with fewer than
/// two forecasters.
pub fn one_out_forecaster(table: &Table<'_>) -> BTreeMap<Address, Values> {
    if table.n_forecasters() < 2 {
        return BTreeMap::new();
    }
    let n_actors = table.n_inferers() + table.n_forecasters();
    let without = |(idx, withheld): (usize, &&Address)| {
        let line = table.line(table.epoch().regrets.one_out_forecaster.get(*withheld));
        let withheld_idx = table.n_inferers() + idx;
        let actors: Vec<usize> = (0..n_actors).filter(|idx| *idx != withheld_idx).collect();
        table.combined(&actors, &line)
    };
    named(table.forecasters(), table.forecasters().iter().enumerate().map(without))
}

/// Combines the inferers with each forecaster alone, by the regrets of that case. Empty with fewer
/// than two forecasters.
pub fn one_in_forecaster(table: &Table<'_>) -> BTreeMap<Address, Values> {
    if table.n_forecasters() < 2 {
        return BTreeMap::new();
    }
    let with = |(idx, forecaster): (usize, &&Address)| {
        let line = table.line(table.epoch().regrets.one_in_forecaster.get(*forecaster));
        let mut actors: Vec<usize> = (0..table.n_inferers()).collect();
        actors.push(table.n_inferers() + idx);
        table.combined(&actors, &line)
    };
    named(table.forecasters(), table.forecasters().iter().enumerate().map(with))
}
