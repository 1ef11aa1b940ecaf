//! Synthesis: the combination of submissions into the network's inference.
//!
//! The formulas of both generations of the chain, as plain functions. [`weights`] converts regrets to
//! weights. [`implied`] computes the values that forecasters imply. [`combine`] computes weighted means
//! of all actors, without one actor, and with a single forecaster. [`interval`] computes confidence
//! intervals.

pub mod combine;
pub mod implied;
pub mod interval;
pub mod weights;

use std::collections::BTreeMap;

use model::topic::Address;

use crate::math::pair_values::PairValues;
use crate::math::regret::{Regrets, RoleValues};
use crate::math::synthesis::combine::{EpochTable, named};
use crate::math::synthesis::implied::Implied;
use crate::math::synthesis::weights::{Generation, Params, normalized, scale};

/// One number per label, in the topic's order.
pub type Values = Vec<f64>;

/// Treatment of actors that have no regret yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Newcomers {
    /// No actor has a regret yet. All inferers have equal weights. Forecasters are ignored.
    Everyone,
    /// Actors without a regret in a family get this regret.
    WithRegret(f64),
}

/// Inputs for the synthesis of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// Settings of the weights.
    pub params: &'a Params,
    /// Inference of each inferer. All have the same number of values.
    pub inferences: &'a BTreeMap<Address, Values>,
    /// Loss that each forecaster (outer key) predicts for each inferer (inner key).
    pub forecasts: &'a BTreeMap<Address, &'a BTreeMap<Address, f64>>,
    /// Latest known loss of the combined value. If it is `None`, forecasts cannot be used.
    pub previous_loss: Option<f64>,
    /// Regrets from earlier epochs.
    pub regrets: &'a Regrets,
    /// Treatment of actors without a regret.
    pub newcomers: Newcomers,
}

/// Results of an epoch, before they are labeled and stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Synthesis {
    /// Value combined from inferers and forecasters.
    pub combined: Values,
    /// Value combined from inferers only.
    pub naive: Values,
    /// Value implied by each forecaster. Forecasters that predicted no loss for any of the epoch's
    /// inferers are missing.
    pub implied: BTreeMap<Address, Values>,
    /// Combined value with an inferer left out, by that inferer. Empty with fewer than two inferers.
    pub one_out_inferer: BTreeMap<Address, Values>,
    /// Combined value with a forecaster left out, by that forecaster. Empty with fewer than two
    /// forecasters.
    pub one_out_forecaster: BTreeMap<Address, Values>,
    /// Value combined from the inferers and only one forecaster, for each forecaster. Empty with fewer
    /// than two forecasters.
    pub one_in_forecaster: BTreeMap<Address, Values>,
    /// Value that a forecaster (row) implies with an inferer (column) left out.
    pub one_out_inferer_forecaster: PairValues,
    /// Weight of each inferer in the combined value. Weights of inferers and forecasters sum to 1.
    pub inferer_weights: BTreeMap<Address, f64>,
    /// Weight of each forecaster in the combined value.
    pub forecaster_weights: BTreeMap<Address, f64>,
    /// Values at the [`interval::PERCENTILES`]: one list per label. Empty if no weights are computed,
    /// as with a single inferer.
    pub confidence_interval: Vec<Values>,
    /// Scale of the regrets for the combined value, or `None` if no regrets were used.
    pub scale: Option<f64>,
}

/// Computes all values of `epoch` from its inputs.
///
/// With a single inferer, its value is the result, and no values with an actor left out are computed.
/// With a common scale, the cost is proportional to inferers × (inferers + forecasters), since the
/// weights of all other actors are computed again for each left-out inferer.
///
/// Returns `None` without inferences. All inferences have the same number of values.
pub fn synthesize(epoch: &Epoch<'_>) -> Option<Synthesis> {
    let (worker, values) = epoch.inferences.first_key_value()?;
    if epoch.inferences.len() == 1 {
        return Some(Synthesis {
            combined: values.clone(),
            naive: values.clone(),
            inferer_weights: BTreeMap::from([(worker.clone(), 1.0)]),
            ..Synthesis::default()
        });
    }
    let params = Params { regret_scale: common_scale(epoch), ..*epoch.params };
    let epoch = &Epoch { params: &params, ..*epoch };
    let implied = Implied::new(epoch);
    let table = EpochTable::new(epoch, &implied);
    let line = table.line(&epoch.regrets.ordinary);
    let mut weights = line.clone();
    table.weigh(&mut weights);
    let shares = normalized(&weights).unwrap_or_default();
    let (of_inferers, of_forecasters) =
        shares.split_at_checked(table.inferers().len()).unwrap_or_default();
    let own_scale = || params.common_scale().unwrap_or_else(|| scale(&line, &params));
    Some(Synthesis {
        confidence_interval: intervals(&table, &shares),
        scale: (epoch.newcomers != Newcomers::Everyone).then(own_scale),
        combined: table.combined(line),
        naive: table.combined(table.naive_line()),
        one_out_inferer: combine::one_out_inferer(&table, &implied),
        one_out_forecaster: combine::one_out_forecaster(&table),
        one_in_forecaster: combine::one_in_forecaster(&table),
        one_out_inferer_forecaster: implied.by_withheld_inferer(),
        implied: implied.by_forecaster(),
        inferer_weights: named(table.inferers(), of_inferers.iter().copied()),
        forecaster_weights: named(table.forecasters(), of_forecasters.iter().copied()),
    })
}

/// Returns the confidence interval of each label over the values of all actors, weighted by `shares`.
fn intervals(table: &EpochTable<'_>, shares: &[f64]) -> Vec<Values> {
    let of_label =
        |values: &Vec<f64>| interval::percentiles(values, shares, &interval::PERCENTILES);
    let intervals = table.values().iter().map(of_label);
    intervals.filter(|values| !values.is_empty()).collect()
}

/// Returns the scale of regrets that all values of `epoch` share. It is the stored scale, or computed
/// from the ordinary regrets of all actors if none is stored. Returns `None` if each value has its own
/// scale: in the generation of 2024, and as long as no actor of the epoch has a regret.
fn common_scale(epoch: &Epoch<'_>) -> Option<f64> {
    let Generation::MadV017 = epoch.params.generation else { return None };
    let Newcomers::WithRegret(newcomer) = epoch.newcomers else { return None };
    let RoleValues { inferer, forecaster } = &epoch.regrets.ordinary;
    let of_inferers = epoch.inferences.keys().map(|name| inferer.get(name));
    let of_forecasters = epoch.forecasts.keys().map(|name| forecaster.get(name));
    let own = || {
        let known: Vec<Option<&f64>> = of_inferers.chain(of_forecasters).collect();
        let regrets: Vec<f64> = known.iter().map(|regret| *regret.unwrap_or(&newcomer)).collect();
        known.iter().any(Option::is_some).then(|| scale(&regrets, epoch.params))
    };
    epoch.params.common_scale().or_else(own)
}

#[cfg(test)]
mod tests;
