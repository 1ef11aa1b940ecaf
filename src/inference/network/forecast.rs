//! The forecasters that every topic has built in.
//!
//! They expect losses of inferers from what is known when an epoch closes: the inferences, and the
//! inferences and losses of [past] epochs. They know neither the truth nor the rows: inferences show
//! the state of the source well enough. An inferer without a past loss is left out of a forecast.
//!
//! Where a topic counts losses as logarithms, [`STEADY`] averages those, as regrets do; the others
//! expect the logarithm of an average of the losses themselves. The first rates high who is often
//! very close, the others who is rarely far off.

pub mod past;
mod similar;
mod wary;

use std::collections::BTreeMap;

use model::topic::Address;

use crate::{
    math::{loss::LossRule, regret::ByActor, statistics::moving_average, synthesis::Values},
    network::{
        addresses,
        forecast::past::{Judged, offsets},
        learned::{LOSS_AVERAGE_ALPHA, Learned},
    },
};

/// Expects of each inferer the moving average of its past losses, as the topic counts them.
pub const STEADY: &str = "steady";

/// Expects of each inferer the moving average of its past losses before any logarithm.
pub const MEAN: &str = "mean";

/// Expects what each inferer lost in the past epochs whose inferences were most like today's.
pub const SIMILAR: &str = "similar";

/// Expects what each inferer lost in the past when it stood as far from the others as today.
pub const WARY: &str = "wary";

/// Expects of each inferer what it lost in the newest epochs: the state of the source lasts.
pub const RECENT: &str = "recent";

/// Weight of the newest loss in the average of [`RECENT`]. It forgets within two epochs, as states of
/// the demo last a dozen.
const RECENT_ALPHA: f64 = 0.9;

/// What one built-in forecaster expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The forecaster: [`STEADY`], [`MEAN`], [`SIMILAR`], [`WARY`] or [`RECENT`].
    pub name: &'static str,
    /// The forecaster's address on the chain.
    pub address: Address,
    /// The loss expected of each inferer that is present and was judged before.
    pub losses: ByActor<f64>,
}

/// Returns what each built-in forecaster expects of `inferences`, as losses by `rule`. A forecaster
/// that expects nothing is left out: all of them before the first lesson. So is [`MEAN`] where losses
/// are no logarithms, since it would equal [`STEADY`].
pub fn built_in(
    inferences: &BTreeMap<Address, Values>,
    learned: &Learned,
    rule: LossRule,
) -> Vec<Forecast> {
    let offsets = offsets(inferences);
    let judged = learned.past.judged(&offsets, rule);
    let known = |name: &Address| Some((name.clone(), *learned.loss_averages.get(name)?));
    let steady: ByActor<f64> = inferences.keys().filter_map(known).collect();
    let by_rule = |plain: ByActor<f64>| -> ByActor<f64> {
        plain.into_iter().map(|(name, loss)| (name, rule.of_plain(loss))).collect()
    };
    let average = |alpha| by_rule(expect_average(&judged, alpha));
    let mean = if rule.allow_negative { ByActor::new() } else { average(LOSS_AVERAGE_ALPHA) };
    let recent = average(RECENT_ALPHA);
    let similar = by_rule(similar::expect(&learned.past, &judged));
    let wary = by_rule(wary::expect(&learned.past, &offsets, &judged));
    let all = [(STEADY, steady), (MEAN, mean), (SIMILAR, similar), (WARY, wary), (RECENT, recent)];
    all.into_iter()
        .filter(|(_, losses)| !losses.is_empty())
        .map(|(name, losses)| Forecast { name, address: addresses::of_forecaster(name), losses })
        .collect()
}

/// Returns the moving average of the plain losses of each inferer, in which the newest has the weight
/// `alpha`.
fn expect_average(judged: &[Judged<'_>], alpha: f64) -> ByActor<f64> {
    let average = |judged: &Judged<'_>| {
        let losses = judged.samples.iter().map(|sample| sample.plain_loss);
        losses.fold(None, |mean, loss| Some(moving_average(mean, loss, alpha)))
    };
    judged.iter().filter_map(|one| Some((one.name.clone(), average(one)?))).collect()
}

#[cfg(test)]
mod tests;
