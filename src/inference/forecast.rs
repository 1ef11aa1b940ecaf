//! The forecasters that every topic has built in.
//!
//! They expect losses of inferers from what is known when an epoch closes: how each did before, and
//! what each says now. Nothing about the truth is known to them. An inferer that was never judged
//! is left out of a forecast.

use std::collections::BTreeMap;

use model::topic::Address;

use crate::{
    actor::{self, AddressError},
    learned::Learned,
    regret::Family,
    statistics::median,
    synthesis::Values,
    topic::Topic,
};

/// Expects of each inferer the average of its past losses.
pub const STEADY: &str = "steady";

/// Expects the same and, on top, what the inferer would lose if the crowd were right: who stands
/// apart is taken to lose more.
pub const WARY: &str = "wary";

/// What one built-in forecaster expects.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Who: [`STEADY`] or [`WARY`].
    pub name: &'static str,
    /// Its address.
    pub address: Address,
    /// The loss expected of each inferer that is present and was judged before.
    pub losses: Family,
}

/// Returns what each built-in forecaster expects of `inferences`. None where no one was judged.
///
/// # Errors
/// [`AddressError`], never in practice.
pub fn built_in(
    topic: &Topic,
    inferences: &BTreeMap<Address, Values>,
    learned: &Learned,
) -> Result<Vec<Forecast>, AddressError> {
    let crowd = crowd(inferences);
    let mut steady = Family::new();
    let mut wary = Family::new();
    for (name, values) in inferences {
        let Some(usual) = learned.loss_averages.get(name) else { continue };
        let apart = topic.judging.loss.loss(values, &crowd);
        steady.insert(name.clone(), *usual);
        wary.insert(name.clone(), topic.judging.loss.sum(*usual, apart));
    }
    if steady.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![
        Forecast { name: STEADY, address: actor::of_forecaster(STEADY)?, losses: steady },
        Forecast { name: WARY, address: actor::of_forecaster(WARY)?, losses: wary },
    ])
}

/// The median of all inferences, label by label.
fn crowd(inferences: &BTreeMap<Address, Values>) -> Values {
    let n_labels = inferences.values().map(Vec::len).max().unwrap_or_default();
    let of_label = |label_idx: usize| {
        let all: Vec<f64> =
            inferences.values().filter_map(|values| values.get(label_idx)).copied().collect();
        median(&all).unwrap_or_default()
    };
    (0..n_labels).map(of_label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::demo_topics;

    #[test]
    fn who_stands_apart_is_expected_to_lose_more() {
        let topic = &demo_topics().unwrap()[0];
        let name = |name: &str| -> Address { format!("allo1{name}").parse().unwrap() };
        let inferences: BTreeMap<Address, Values> =
            [("a", 10.0), ("b", 11.0), ("c", 40.0), ("new", 10.0)]
                .map(|(n, value)| (name(n), vec![value]))
                .into();
        assert_eq!(built_in(topic, &inferences, &Learned::default()), Ok(vec![]));
        let learned = Learned {
            loss_averages: ["a", "b", "c"].map(|n| (name(n), 1.0)).into(),
            ..Learned::default()
        };
        let forecasts = built_in(topic, &inferences, &learned).unwrap();
        let [steady, wary] = forecasts.as_slice() else { panic!("{forecasts:?}") };
        assert_eq!(steady.losses, learned.loss_averages);
        assert_eq!(wary.losses.len(), 3);
        assert!(wary.losses[&name("c")] > 2.5, "{wary:?}");
        assert!(wary.losses[&name("b")] < 1.1, "{wary:?}");
    }
}
