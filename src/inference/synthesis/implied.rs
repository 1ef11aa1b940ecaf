//! Forecast-implied values: what an epoch would infer if one forecaster's losses came true.

use std::collections::BTreeMap;

use model::topic::Address;

use super::{Epoch, Newcomers, Values, combine::mean, weights::weights};
use crate::statistics::median;

/// Where less than this part of all weight is left without an inferer, what is left is weighed
/// anew: against the best of the rest, since beside a much better one it has lost its digits.
const REST_MIN: f64 = 1e-3;

/// What every forecaster of an epoch implies, with all inferers and without each.
#[derive(Debug)]
pub struct Implied {
    inferers: Vec<Address>,
    forecasters: Vec<Forecaster>,
}

/// What one forecaster implies.
#[derive(Debug)]
struct Forecaster {
    name: Address,
    value: Values,
    /// By the inferer's position; none where nobody it forecast would be left.
    without: Vec<Option<Values>>,
}

/// One inferer that a forecaster forecast.
#[derive(Debug, Clone, Copy)]
struct Element<'a> {
    inferer_idx: usize,
    regret: f64,
    value: &'a [f64],
}

impl Implied {
    /// Computes what each forecaster of `epoch` implies. Without a loss to forecast against, there
    /// are no forecasters; one that forecasts nobody who is present is dropped.
    pub fn of(epoch: &Epoch<'_>) -> Self {
        let inferers = epoch.inferences.keys().cloned().collect();
        let Some(previous_loss) = epoch.previous_loss else {
            return Self { inferers, forecasters: Vec::new() };
        };
        let forecasters = epoch
            .forecasts
            .iter()
            .filter_map(|(name, forecast)| {
                let elements = elements(epoch, forecast, previous_loss);
                let value = value(epoch, &elements)?;
                let without = without_each(epoch, &elements, &value);
                Some(Forecaster { name: name.clone(), value, without })
            })
            .collect();
        Self { inferers, forecasters }
    }

    /// Who implies something, by address.
    pub fn forecasters(&self) -> impl Iterator<Item = &Address> {
        self.forecasters.iter().map(|forecaster| &forecaster.name)
    }

    /// What they imply, in the order of [`Self::forecasters`].
    pub fn values(&self) -> impl Iterator<Item = &[f64]> {
        self.forecasters.iter().map(|forecaster| forecaster.value.as_slice())
    }

    /// What the forecaster at `forecaster_idx` implies without the inferer at `inferer_idx`.
    pub fn without(&self, forecaster_idx: usize, inferer_idx: usize) -> Option<&[f64]> {
        self.forecasters.get(forecaster_idx)?.without.get(inferer_idx)?.as_deref()
    }

    /// What each implies, by name.
    pub fn by_forecaster(&self) -> BTreeMap<Address, Values> {
        let named = |forecaster: &Forecaster| (forecaster.name.clone(), forecaster.value.clone());
        self.forecasters.iter().map(named).collect()
    }

    /// What each implies without each inferer, by their names.
    pub fn by_withheld_inferer(&self) -> BTreeMap<Address, BTreeMap<Address, Values>> {
        let named = |forecaster: &Forecaster| {
            let values = self.inferers.iter().zip(&forecaster.without);
            let known = values.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
            (forecaster.name.clone(), known.collect())
        };
        self.forecasters.iter().map(named).collect()
    }
}

/// The inferers that are present and forecast, with the regret the forecast predicts for them.
fn elements<'a>(
    epoch: &Epoch<'a>,
    forecast: &BTreeMap<Address, f64>,
    previous_loss: f64,
) -> Vec<Element<'a>> {
    let present = epoch.inferences.iter().enumerate();
    present
        .filter_map(|(inferer_idx, (name, value))| {
            let regret = previous_loss - forecast.get(name)?;
            Some(Element { inferer_idx, regret, value })
        })
        .collect()
}

/// What `elements` imply; none of none.
fn value(epoch: &Epoch<'_>, elements: &[Element<'_>]) -> Option<Values> {
    match elements {
        [] => None,
        [only] => Some(only.value.to_vec()),
        [first, ..] if epoch.newcomers == Newcomers::Everyone => {
            let of_label = |label_idx: usize| {
                let of_all: Vec<f64> = elements
                    .iter()
                    .filter_map(|element| element.value.get(label_idx))
                    .copied()
                    .collect();
                median(&of_all)
            };
            (0..first.value.len()).map(of_label).collect()
        }
        [first, ..] => {
            let weights = weigh(epoch, elements);
            let values = elements.iter().map(|element| element.value).zip(weights);
            Some(mean(values, first.value.len(), epoch.params.epsilon_safe_div))
        }
    }
}

fn weigh(epoch: &Epoch<'_>, elements: &[Element<'_>]) -> Vec<f64> {
    let regrets: Vec<f64> = elements.iter().map(|element| element.regret).collect();
    weights(&regrets, epoch.params)
}

/// What `elements` imply without each inferer of the epoch in turn, by the inferer's position. One
/// that was not forecast changes nothing: without it they imply `whole`.
fn without_each(epoch: &Epoch<'_>, elements: &[Element<'_>], whole: &[f64]) -> Vec<Option<Values>> {
    let mut without = vec![Some(whole.to_vec()); epoch.inferences.len()];
    let shared = shared_without(epoch, elements);
    for (idx, element) in elements.iter().enumerate() {
        let rest = || -> Vec<Element<'_>> {
            let others = elements.iter().enumerate().filter(|(other_idx, _)| *other_idx != idx);
            others.map(|(_, other)| *other).collect()
        };
        let shared = shared.as_ref().and_then(|shared| shared.get(idx).cloned().flatten());
        if let Some(place) = without.get_mut(element.inferer_idx) {
            *place = shared.or_else(|| value(epoch, &rest()));
        }
    }
    without
}

/// What `elements` imply without each of them, from sums that all share; so the cost grows with
/// their number, not with its square.
///
/// That needs one scale for all, so it is none where each call takes its own. The sums come from
/// both ends and are only ever added: leaving one out loses no digits. A place is none where the
/// one left out holds nearly all weight.
fn shared_without(epoch: &Epoch<'_>, elements: &[Element<'_>]) -> Option<Vec<Option<Values>>> {
    epoch.params.common_scale()?;
    if epoch.newcomers == Newcomers::Everyone || elements.len() < 3 {
        return None;
    }
    let n_labels = elements.first()?.value.len();
    let weights = weigh(epoch, elements);
    let total: f64 = weights.iter().sum();
    let weighted: Vec<_> = elements.iter().map(|element| element.value).zip(weights).collect();
    let before = running_sums(weighted.iter(), n_labels);
    let mut after = running_sums(weighted.iter().rev(), n_labels);
    after.reverse();
    let rest = |(before, after): (&(f64, Values), &(f64, Values))| {
        let weight = before.0 + after.0;
        let sums = before.1.iter().zip(&after.1);
        (weight > REST_MIN * total).then(|| sums.map(|(a, b)| (a + b) / weight).collect())
    };
    Some(before.iter().zip(after.iter()).map(rest).collect())
}

/// The sums of weights and of weighted values before each of `weighted`.
fn running_sums<'a>(
    weighted: impl Iterator<Item = &'a (&'a [f64], f64)>,
    n_labels: usize,
) -> Vec<(f64, Values)> {
    let start = (0.0, vec![0.0; n_labels]);
    weighted
        .scan(start, |(sum, sums), (value, weight)| {
            let before = (*sum, sums.clone());
            *sum += weight;
            for (sum, number) in sums.iter_mut().zip(*value) {
                *sum += weight * number;
            }
            Some(before)
        })
        .collect()
}
