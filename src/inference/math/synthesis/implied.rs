//! Forecast-implied values: the combination of the inferers of an epoch that would result if the losses
//! predicted by one forecaster were true.

use std::collections::BTreeMap;

use model::topic::Address;

use super::weights::{dot, mean_within, range, weights};
use super::{Epoch, Newcomers, Values};
use crate::math::pair_values::PairValues;
use crate::math::statistics::median;

/// Values that each forecaster of an epoch implies: one from all inferers, and for each inferer one
/// with that inferer left out.
#[derive(Debug)]
pub struct Implied {
    inferers: Vec<Address>,
    forecasters: Vec<Forecaster>,
}

/// Values implied by one forecaster.
#[derive(Debug)]
struct Forecaster {
    name: Address,
    value: Values,
    /// Value with an inferer left out, by the inferer's position and label. NaN if the forecaster
    /// predicted losses for none of the other inferers.
    without: Vec<f64>,
}

/// Inferers of the epoch for which a forecaster predicted a loss.
#[derive(Debug, Clone, Default)]
struct Elements<'a> {
    positions: Vec<usize>,
    /// Regrets that follow from the predicted losses.
    regrets: Vec<f64>,
    values: Vec<&'a [f64]>,
}

impl Implied {
    /// Computes the values implied by each forecaster of `epoch`. There are none without a previous
    /// loss. Drops each forecaster that predicted no loss for any of the epoch's inferers.
    pub fn new(epoch: &Epoch<'_>) -> Self {
        let inferers = epoch.inferences.keys().cloned().collect();
        let Some(previous_loss) = epoch.previous_loss else {
            return Self { inferers, forecasters: Vec::new() };
        };
        let forecasters = epoch
            .forecasts
            .iter()
            .filter_map(|(name, forecast)| {
                let elements = Elements::new(epoch, forecast, previous_loss);
                let value = value(epoch, &elements)?;
                let without = without_each(epoch, &elements, &value);
                Some(Forecaster { name: name.clone(), value, without })
            })
            .collect();
        Self { inferers, forecasters }
    }

    /// Returns the forecasters with an implied value, by address.
    pub fn forecasters(&self) -> impl Iterator<Item = &Address> {
        self.forecasters.iter().map(|forecaster| &forecaster.name)
    }

    /// Returns the implied values in the order of [`Self::forecasters`].
    pub fn values(&self) -> impl Iterator<Item = &[f64]> {
        self.forecasters.iter().map(|forecaster| forecaster.value.as_slice())
    }

    /// Returns the value that the forecaster at `forecaster_idx` implies without the inferer at
    /// `inferer_idx`, or `None` if it implies none.
    pub fn without(&self, forecaster_idx: usize, inferer_idx: usize) -> Option<&[f64]> {
        self.forecasters.get(forecaster_idx)?.without(inferer_idx)
    }

    /// Returns the implied values by forecaster.
    pub fn by_forecaster(&self) -> BTreeMap<Address, Values> {
        let named = |forecaster: &Forecaster| (forecaster.name.clone(), forecaster.value.clone());
        self.forecasters.iter().map(named).collect()
    }

    /// Returns the value that a forecaster (row) implies with an inferer (column) left out.
    pub fn by_withheld_inferer(&self) -> PairValues {
        let Some(first) = self.forecasters.first() else { return PairValues::default() };
        let rows = self.forecasters.iter().map(|forecaster| forecaster.name.clone()).collect();
        let numbers = self.forecasters.iter().flat_map(|forecaster| &forecaster.without).copied();
        let pairs =
            PairValues::new(rows, self.inferers.clone(), first.value.len(), numbers.collect());
        pairs.unwrap_or_default()
    }
}

impl Forecaster {
    fn without(&self, inferer_idx: usize) -> Option<&[f64]> {
        let n_labels = self.value.len();
        let start = inferer_idx.checked_mul(n_labels)?;
        let value = self.without.get(start..start.checked_add(n_labels)?)?;
        value.first().is_some_and(|number| !number.is_nan()).then_some(value)
    }
}

impl<'a> Elements<'a> {
    fn new(epoch: &Epoch<'a>, forecast: &BTreeMap<Address, f64>, previous_loss: f64) -> Self {
        let mut elements = Self::default();
        let losses = walk(epoch.inferences.keys(), forecast);
        for ((position, value), loss) in epoch.inferences.values().enumerate().zip(losses) {
            let Some(loss) = loss else { continue };
            elements.positions.push(position);
            elements.regrets.push(previous_loss - loss);
            elements.values.push(value);
        }
        elements
    }

    /// Returns all elements except the element at `idx`, which must exist.
    fn without(&self, idx: usize) -> Self {
        let mut others = self.clone();
        others.positions.remove(idx);
        others.regrets.remove(idx);
        others.values.remove(idx);
        others
    }

    /// Returns the value of each element for one label.
    fn of_label(&self, label_idx: usize) -> Vec<f64> {
        self.values.iter().filter_map(|value| value.get(label_idx)).copied().collect()
    }
}

/// Returns the value implied by `elements`, or `None` without elements.
fn value(epoch: &Epoch<'_>, elements: &Elements<'_>) -> Option<Values> {
    let labels = 0..elements.values.first()?.len();
    if let [only] = elements.values.as_slice() {
        return Some(only.to_vec());
    }
    if epoch.newcomers == Newcomers::Everyone {
        return labels.map(|label_idx| median(&elements.of_label(label_idx))).collect();
    }
    let weights = weights(&elements.regrets, epoch.params);
    let (weight, weight_min) = (weights.iter().sum(), epoch.params.epsilon_safe_div);
    let mean = |label_idx| {
        let values = elements.of_label(label_idx);
        mean_within(&range(&values), dot(&values, &weights), weight, weight_min)
    };
    Some(labels.map(mean).collect())
}

/// Returns the value implied by `elements` with an inferer of the epoch left out, by the inferer's
/// position and the label. The value is NaN if no elements remain. If the forecaster predicted no loss
/// for the inferer, the value is `whole`, the value with all elements.
fn without_each(epoch: &Epoch<'_>, elements: &Elements<'_>, whole: &[f64]) -> Vec<f64> {
    let n_labels = whole.len();
    let mut without = whole.repeat(epoch.inferences.len());
    let shared = shared_without(epoch, elements, n_labels);
    for (idx, position) in elements.positions.iter().enumerate() {
        let start = position * n_labels;
        let Some(places) = without.get_mut(start..start + n_labels) else { continue };
        let known = shared.get(idx * n_labels..(idx + 1) * n_labels);
        if let Some(known) = known.filter(|known| known.iter().all(|number| !number.is_nan())) {
            places.copy_from_slice(known);
        } else if let Some(rest) = value(epoch, &elements.without(idx)) {
            places.copy_from_slice(&rest);
        } else {
            places.fill(f64::NAN);
        }
    }
    without
}

/// Returns the value implied by `elements` with one element left out, by that element and label. All
/// values are derived from the same running sums, so that the cost is linear.
///
/// The result is empty without a common scale, since the weights then depend on the left-out element.
/// The sums are accumulated from both ends instead of subtracting each element from the total, so that
/// no precision is lost. An entry is NaN if the left-out element has nearly all of the weight.
fn shared_without(epoch: &Epoch<'_>, elements: &Elements<'_>, n_labels: usize) -> Vec<f64> {
    let is_shared = epoch.params.common_scale().is_some();
    if !is_shared || epoch.newcomers == Newcomers::Everyone || elements.values.len() < 3 {
        return Vec::new();
    }
    let weights = weights(&elements.regrets, epoch.params);
    let total: f64 = weights.iter().sum();
    let rests = without_one(weights.iter().copied());
    let mut without = vec![f64::NAN; weights.len() * n_labels];
    for label_idx in 0..n_labels {
        let values = elements.of_label(label_idx);
        let range = range(&values);
        let sums = without_one(values.iter().zip(&weights).map(|(value, weight)| value * weight));
        let places = without.iter_mut().skip(label_idx).step_by(n_labels);
        for ((place, sum), rest) in places.zip(sums).zip(&rests) {
            // If the left-out inferer is much better than all other inferers, the weights of the other
            // inferers have lost their precision. The entry stays NaN, so that the caller computes it
            // separately.
            if *rest > 1e-3 * total {
                *place = mean_within(&range, sum, *rest, 0.0);
            }
        }
    }
    without
}

/// Returns the sum of all other numbers for each of `numbers`.
fn without_one(numbers: impl DoubleEndedIterator<Item = f64> + Clone) -> Vec<f64> {
    let before = |sum: &mut f64, number: f64| {
        let before = *sum;
        *sum += number;
        Some(before)
    };
    let mut sums: Vec<f64> = numbers.clone().scan(0.0, before).collect();
    for (sum, after) in sums.iter_mut().rev().zip(numbers.rev().scan(0.0, before)) {
        *sum += after;
    }
    sums
}

/// Returns the value in `map` for each of `names`, which must be sorted.
pub fn walk<'n, 'm, T>(
    names: impl Iterator<Item = &'n Address>,
    map: &'m BTreeMap<Address, T>,
) -> impl Iterator<Item = Option<&'m T>> {
    let mut known = map.iter().peekable();
    names.map(move |name| {
        loop {
            // Tests for equality first: the next address is usually the wanted one, and shared addresses
            // are equal by pointer.
            if let Some((_, value)) = known.next_if(|(other, _)| *other == name) {
                return Some(value);
            }
            known.next_if(|(other, _)| *other < name)?;
        }
    })
}
