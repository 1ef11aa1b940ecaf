//! Synthesis: combining submissions into the network's inference.
//!
//! Both generations of the public chain's formulas, as plain functions. [`weights`] converts regrets to
//! weights, [`implied`] computes the value implied by a forecaster's losses, [`combine`] computes
//! weighted means, it repeats this without an actor or with only a single actor, and
//! [`interval`] computes confidence intervals.

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

/// Treatment of actors without regrets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Newcomers {
    /// No actor has a regret yet. All inferers have equal weights. Forecasters are ignored.
    Everyone,
    /// Actors without a regret in a family get this regret.
    WithRegret(f64),
}

/// Inputs of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// Settings of the weights.
    pub params: &'a Params,
    /// Inference of each inferer. All have the same number of values.
    pub inferences: &'a BTreeMap<Address, Values>,
    /// Loss that each forecaster expects of each inferer.
    pub forecasts: &'a BTreeMap<Address, &'a BTreeMap<Address, f64>>,
    /// Latest loss of the combined value. Forecasts cannot be used without it.
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
    /// Value implied by each forecaster. Forecasters that expect no loss of a present inferer are
    /// missing.
    pub implied: BTreeMap<Address, Values>,
    /// Combined value without each inferer. Empty with fewer than two inferers.
    pub one_out_inferer: BTreeMap<Address, Values>,
    /// Combined value without each forecaster. Empty with fewer than two forecasters.
    pub one_out_forecaster: BTreeMap<Address, Values>,
    /// Value combined from the inferers with each single forecaster. Empty with fewer than two
    /// forecasters.
    pub one_in_forecaster: BTreeMap<Address, Values>,
    /// Value implied by each forecaster (row) without each inferer (column).
    pub one_out_inferer_forecaster: PairValues,
    /// Weight of each inferer in the combined value. Weights of inferers and forecasters sum to 1.
    pub inferer_weights: BTreeMap<Address, f64>,
    /// Weight of each forecaster in the combined value.
    pub forecaster_weights: BTreeMap<Address, f64>,
    /// Values at the [`interval::PERCENTILES`]: one list per label. Empty without weights, as for a
    /// single inferer.
    pub confidence_interval: Vec<Values>,
    /// Scale of the regrets for the combined value, or `None` if they were not used.
    pub scale: Option<f64>,
}

/// Error of an epoch that cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthesisError {
    /// The epoch has no inferences.
    #[error("no inferences found")]
    NoInferences,
    /// The number of an inferer's values differs from that of the first inferer.
    #[error("{worker} has {n_values} values, expected {n_labels}")]
    Uneven {
        /// Address of the inferer.
        worker: Address,
        /// Number of its values.
        n_values: usize,
        /// Expected number of values.
        n_labels: usize,
    },
}

/// Computes all values of `epoch`.
///
/// With a single inferer, its value is the result, and no actor is left out. With a common scale, the
/// cost is proportional to inferers × (inferers + forecasters), since each left-out inferer requires new
/// weights of all others.
///
/// # Errors
/// [`SynthesisError::NoInferences`] without inferences, [`SynthesisError::Uneven`] if their numbers of
/// values differ.
pub fn synthesize(epoch: &Epoch<'_>) -> Result<Synthesis, SynthesisError> {
    check_even(epoch)?;
    if let (1, Some((worker, values))) =
        (epoch.inferences.len(), epoch.inferences.first_key_value())
    {
        return Ok(Synthesis {
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
    Ok(Synthesis {
        confidence_interval: intervals(&table, &shares),
        scale: (epoch.newcomers != Newcomers::Everyone).then(own_scale),
        combined: table.combined(line.clone()),
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

/// Returns the confidence interval of each label over all actors by `shares`.
fn intervals(table: &EpochTable<'_>, shares: &[f64]) -> Vec<Values> {
    let of_label =
        |values: &Vec<f64>| interval::percentiles(values, shares, &interval::PERCENTILES);
    let intervals = table.values().iter().map(of_label);
    intervals.filter(|values| !values.is_empty()).collect()
}

/// Returns the common scale of `epoch`: the stored scale, or, if regrets are given without a scale,
/// the scale of the ordinary regrets of all actors. Returns `None` if each value has its own scale,
/// since nothing is stored before the first regret.
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

fn check_even(epoch: &Epoch<'_>) -> Result<(), SynthesisError> {
    let n_labels = epoch.inferences.values().next().ok_or(SynthesisError::NoInferences)?.len();
    match epoch.inferences.iter().find(|(_, values)| values.len() != n_labels) {
        None => Ok(()),
        Some((worker, values)) => {
            Err(SynthesisError::Uneven { worker: worker.clone(), n_values: values.len(), n_labels })
        }
    }
}

#[cfg(test)]
mod tests;
