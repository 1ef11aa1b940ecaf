//! The forecasters that every topic has built in.
//!
//! They expect losses of inferers from what is known when an epoch closes: what each says now, and
//! what each said and lost in [past] epochs. Nothing about the truth is known to them, nor do they
//! read rows: what inferers say tells enough of the state that the source is in. An inferer that
//! was never judged is left out of a forecast.

pub mod past;
mod similar;
mod wary;

use std::collections::BTreeMap;

use model::topic::Address;

use crate::{
    actor::{self, AddressError},
    forecast::past::offsets,
    learned::Learned,
    regret::Family,
    synthesis::Values,
};

/// Expects of each inferer the moving average of its past losses.
pub const STEADY: &str = "steady";

/// Expects what each inferer lost in the past epochs whose inferences were most like today's.
pub const SIMILAR: &str = "similar";

/// Expects what each inferer lost in the past when it stood as far from the others as today.
pub const WARY: &str = "wary";

/// What one built-in forecaster expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The forecaster: [`STEADY`], [`SIMILAR`] or [`WARY`].
    pub name: &'static str,
    /// Its address.
    pub address: Address,
    /// The loss expected of each inferer that is present and was judged before.
    pub losses: Family,
}

/// Returns what each built-in forecaster expects of `inferences`. A forecaster that expects nothing
/// is left out: all of them before the first lesson.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn built_in(
    inferences: &BTreeMap<Address, Values>,
    learned: &Learned,
) -> Result<Vec<Forecast>, AddressError> {
    let offsets = offsets(inferences);
    let average = |name: &Address| Some((name.clone(), *learned.loss_averages.get(name)?));
    let steady = inferences.keys().filter_map(average).collect();
    let all = [
        (STEADY, steady),
        (SIMILAR, similar::expect(&learned.past, &offsets)),
        (WARY, wary::expect(&learned.past, &offsets)),
    ];
    let some = all.into_iter().filter(|(_, losses): &(_, Family)| !losses.is_empty());
    some.map(|(name, losses)| Ok(Forecast { name, address: actor::of_forecaster(name)?, losses }))
        .collect()
}

#[cfg(test)]
mod tests;
