//! Synthesis: from what actors submit, and how they did before, to what the network infers.
//!
//! The formulas are those of the public chain, in both of its generations; all of it is plain
//! functions of values. [`weights`] turns regrets into weights, [`implied`] a forecaster's expected
//! losses into the value they imply, [`combine`] weighs values, [`leave_out`] repeats it without
//! one actor or with one alone, [`interval`] says how far apart the values lie. Absent on purpose:
//! clocks, stores, and where submissions come from.

pub mod combine;
pub mod implied;
pub mod interval;
pub mod leave_out;
pub mod weights;

use std::collections::BTreeMap;

use model::topic::Address;

use crate::math::{
    pair_values::PairValues,
    regret::{Regrets, RoleValues},
    synthesis::{
        combine::{Table, named},
        implied::Implied,
        weights::{Generation, Params, normalized, scale},
    },
};

/// One number for each label, in the topic's order.
pub type Values = Vec<f64>;

/// What inferers without regrets are taken for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Newcomers {
    /// Nobody has a regret yet: every inferer counts the same, and forecasters do not count.
    Everyone,
    /// An actor without a regret of some family is given this one.
    WithRegret(f64),
}

/// All that the values of one epoch follow from.
#[derive(Debug, Clone, Copy)]
pub struct Epoch<'a> {
    /// The settings of the weights.
    pub params: &'a Params,
    /// What each inferer submitted. All have the same number of values.
    pub inferences: &'a BTreeMap<Address, Values>,
    /// The loss that each forecaster expects of each inferer.
    pub forecasts: &'a BTreeMap<Address, &'a BTreeMap<Address, f64>>,
    /// The newest loss of the combined value; without one there is nothing to forecast against.
    pub previous_loss: Option<f64>,
    /// How actors did in the epochs before.
    pub regrets: &'a Regrets,
    /// The regret of actors without one of their own.
    pub newcomers: Newcomers,
}

/// Everything that is computed for one epoch, before it is rounded, labelled and stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Synthesis {
    /// Inferers and forecasters.
    pub combined: Values,
    /// Combined of the inferers without forecasters.
    pub naive: Values,
    /// What each forecaster implies. One that forecasts nobody who is present is missing.
    pub implied: BTreeMap<Address, Values>,
    /// Combined without each inferer in turn. Empty with fewer than two.
    pub one_out_inferer: BTreeMap<Address, Values>,
    /// Combined without each forecaster in turn. Empty with fewer than two.
    pub one_out_forecaster: BTreeMap<Address, Values>,
    /// The inferers with each forecaster alone. Empty with fewer than two.
    pub one_in_forecaster: BTreeMap<Address, Values>,
    /// What each forecaster (row) implies without each inferer (column) in turn.
    pub one_out_inferer_forecaster: PairValues,
    /// Each inferer's share in the combined value. All shares sum to 1 with the forecasters'.
    pub inferer_weights: BTreeMap<Address, f64>,
    /// Each forecaster's share in the combined value.
    pub forecaster_weights: BTreeMap<Address, f64>,
    /// Where the values lie at each of [`interval::PERCENTILES`], counted by their shares: one list
    /// for each label. Empty where there are no weights, as for one inferer alone.
    pub confidence_interval: Vec<Values>,
    /// What regrets were divided by for the combined value; none where they did not count.
    pub scale: Option<f64>,
}

/// Why nothing can be inferred.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthesisError {
    /// The epoch has no inferences.
    #[error("combine: no inferences found")]
    NoInferences,
    /// Somebody submitted more or fewer values than the first.
    #[error("combine: {worker} has {n_values} values where others have {n_labels}")]
    Uneven {
        /// The inferer whose values differ in number.
        worker: Address,
        /// How many values it has.
        n_values: usize,
        /// How many there should be.
        n_labels: usize,
    },
}

/// Computes every quantity of `epoch`.
///
/// One inferer alone is the answer itself: then nothing is left out or weighed against it. The cost
/// grows with inferers × forecasters, where inferers are regular: with each pair of which one stayed
/// away while the other did not, it grows by one more weight.
///
/// # Errors
/// [`SynthesisError::NoInferences`] without any, [`SynthesisError::Uneven`] where the values of one
/// do not line up with those of the others.
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
    let table = Table::new(epoch, &implied);
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
        one_out_inferer: leave_out::one_out_inferer(&table, &implied),
        one_out_forecaster: leave_out::one_out_forecaster(&table),
        one_in_forecaster: leave_out::one_in_forecaster(&table),
        one_out_inferer_forecaster: implied.by_withheld_inferer(),
        implied: implied.by_forecaster(),
        inferer_weights: named(table.inferers(), of_inferers.iter().copied()),
        forecaster_weights: named(table.forecasters(), of_forecasters.iter().copied()),
    })
}

/// The confidence interval of each label, over all actors by their `shares`.
fn intervals(table: &Table<'_>, shares: &[f64]) -> Vec<Values> {
    let of_label =
        |values: &Vec<f64>| interval::percentiles(values, shares, &interval::PERCENTILES);
    let intervals = table.values().iter().map(of_label);
    intervals.filter(|values| !values.is_empty()).collect()
}

/// The one scale of everything in `epoch`: the stored one, or, where regrets are given without it, the
/// one that is stored with such regrets: that of the ordinary regrets of all actors. `None` where each
/// quantity takes its own: before the first regret nothing can have been stored.
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
