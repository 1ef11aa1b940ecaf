//! Properties that hold for the synthesis of every epoch.

use proptest::prelude::*;

use super::*;
use crate::math::regret::PairwiseRegrets;

fn address(idx: usize, role: &str) -> Address {
    format!("allo1{role}{idx:03}").parse().unwrap()
}

/// Owned inputs of an [`Epoch`].
#[derive(Debug, Clone)]
struct OwnedEpoch {
    params: Params,
    inferences: BTreeMap<Address, Values>,
    forecasts: BTreeMap<Address, BTreeMap<Address, f64>>,
    previous_loss: Option<f64>,
    regrets: Regrets,
    newcomers: Newcomers,
}

impl OwnedEpoch {
    fn synthesize(&self) -> Synthesis {
        let Self { params, inferences, forecasts, previous_loss, regrets, newcomers } = self;
        synthesize(&Epoch {
            params,
            inferences,
            forecasts: &forecasts.iter().map(|(name, losses)| (name.clone(), losses)).collect(),
            previous_loss: *previous_loss,
            regrets,
            newcomers: *newcomers,
        })
        .unwrap()
    }

    /// Returns a copy in which each address is replaced by its result of `rename`.
    fn renamed(&self, rename: impl Fn(&Address) -> Address) -> Self {
        fn keys<T: Clone>(
            map: &BTreeMap<Address, T>,
            rename: &impl Fn(&Address) -> Address,
        ) -> BTreeMap<Address, T> {
            map.iter().map(|(name, value)| (rename(name), value.clone())).collect()
        }
        let roles = |roles: &RoleValues| RoleValues {
            inferer: keys(&roles.inferer, &rename),
            forecaster: keys(&roles.forecaster, &rename),
        };
        let pairwise_of = |pairwise: &PairwiseRegrets| {
            let of = pairwise.by_row();
            PairwiseRegrets::from_rows(
                &of.iter().map(|(name, of)| (rename(name), roles(of))).collect(),
            )
        };
        Self {
            inferences: keys(&self.inferences, &rename),
            forecasts: self
                .forecasts
                .iter()
                .map(|(name, forecast)| (rename(name), keys(forecast, &rename)))
                .collect(),
            regrets: Regrets {
                ordinary: roles(&self.regrets.ordinary),
                naive: keys(&self.regrets.naive, &rename),
                one_out_inferer: pairwise_of(&self.regrets.one_out_inferer),
                one_out_forecaster: pairwise_of(&self.regrets.one_out_forecaster),
                one_in_forecaster: pairwise_of(&self.regrets.one_in_forecaster),
            },
            ..self.clone()
        }
    }

    fn with_values(&self, change: impl Fn(&Values) -> Values) -> Self {
        let changed =
            self.inferences.iter().map(|(name, values)| (name.clone(), change(values))).collect();
        Self { inferences: changed, ..self.clone() }
    }
}

prop_compose! {
    fn owned(n_labels: usize)(
        n_inferers in 2..8_usize,
        n_forecasters in 0..4_usize,
    )(
        values in prop::collection::vec(
            prop::collection::vec(-50.0..50.0_f64, n_labels), n_inferers),
        losses in prop::collection::vec(
            prop::collection::vec(prop::option::weighted(0.9, -6.0..3.0_f64), n_inferers),
            n_forecasters),
        regrets in prop::collection::vec(-3.0..3.0_f64, n_inferers + n_forecasters),
        naive in prop::collection::vec(-3.0..3.0_f64, n_inferers),
        is_new in prop::bool::ANY,
        is_old_generation in prop::bool::ANY,
        regret_scale in prop::option::of(0.05..2.0_f64),
        previous_loss in prop::option::weighted(0.8, -6.0..3.0_f64),
    ) -> OwnedEpoch {
        let inferers: Vec<Address> = (0..values.len()).map(|idx| address(idx, "inferer")).collect();
        let forecasters: Vec<Address> =
            (0..losses.len()).map(|idx| address(idx, "forecaster")).collect();
        let ordinary = RoleValues {
            inferer: inferers.iter().cloned().zip(regrets.iter().copied()).collect(),
            forecaster: forecasters
                .iter()
                .cloned()
                .zip(regrets.iter().rev().copied())
                .collect(),
        };
        let each = |names: &[Address]| -> PairwiseRegrets {
            PairwiseRegrets::from_rows(&names.iter().map(|name| (name.clone(), ordinary.clone())).collect())
        };
        OwnedEpoch {
            params: Params {
                generation: if is_old_generation {
                    Generation::StdevOct2024
                } else {
                    Generation::MadV017
                },
                p_norm: 3.0,
                c_norm: 0.75,
                epsilon: 0.01,
                epsilon_safe_div: 1e-7,
                regret_scale,
            },
            forecasts: forecasters
                .iter()
                .zip(&losses)
                .map(|(name, losses)| {
                    let known = inferers.iter().zip(losses);
                    let known = known.filter_map(|(name, loss)| Some((name.clone(), (*loss)?)));
                    (name.clone(), known.collect())
                })
                .collect(),
            previous_loss,
            regrets: Regrets {
                one_out_inferer: each(&inferers),
                one_out_forecaster: each(&forecasters),
                one_in_forecaster: each(&forecasters),
                naive: inferers.iter().cloned().zip(naive).collect(),
                ordinary,
            },
            newcomers: if is_new { Newcomers::Everyone } else { Newcomers::WithRegret(-0.5) },
            inferences: inferers.into_iter().zip(values).collect(),
        }
    }
}

/// Returns all computed values of `synthesis`, in a fixed order.
fn all(synthesis: &Synthesis) -> Vec<&[f64]> {
    let families = [
        &synthesis.implied,
        &synthesis.one_out_inferer,
        &synthesis.one_out_forecaster,
        &synthesis.one_in_forecaster,
    ];
    let without = (0..synthesis.one_out_inferer_forecaster.rows().len())
        .flat_map(|row_idx| synthesis.one_out_inferer_forecaster.row(row_idx).map(|(_, v)| v));
    [&synthesis.combined, &synthesis.naive]
        .into_iter()
        .chain(families.into_iter().flat_map(BTreeMap::values))
        .map(Vec::as_slice)
        .chain(without)
        .collect()
}

fn are_close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + a.abs()))
}

proptest! {
    #[test]
    fn synthesis_does_not_depend_on_the_order_of_actors(epoch in owned(2)) {
        // Reverses the order of names within each role.
        let mirror = |name: &Address| -> Address {
            let (role, idx) = name.as_str().split_at(name.as_str().len() - 3);
            format!("{role}{:03}", 999 - idx.parse::<u32>().unwrap()).parse().unwrap()
        };
        let (straight, mirrored) = (epoch.synthesize(), epoch.renamed(mirror).synthesize());
        prop_assert!(are_close(&straight.combined, &mirrored.combined));
        prop_assert!(are_close(&straight.naive, &mirrored.naive));
        for (name, value) in &straight.one_out_inferer {
            prop_assert!(are_close(value, &mirrored.one_out_inferer[&mirror(name)]));
        }
        for (name, value) in &straight.one_in_forecaster {
            prop_assert!(are_close(value, &mirrored.one_in_forecaster[&mirror(name)]));
        }
    }

    #[test]
    fn synthesis_of_equal_inferences_returns_their_value(epoch in owned(1)) {
        let params = Params { generation: Generation::MadV017, ..epoch.params };
        let epoch = OwnedEpoch { params, ..epoch.with_values(|_| vec![5.1]) };
        for value in all(&epoch.synthesize()) {
            prop_assert_eq!(value, [5.1]);
        }
    }

    #[test]
    fn synthesized_values_are_within_the_range_of_the_inferences(epoch in owned(1)) {
        let slack = if epoch.params.generation == Generation::MadV017 { 0.0 } else { 1e-9 };
        let submitted: Vec<f64> = epoch.inferences.values().flatten().copied().collect();
        let min = submitted.iter().copied().fold(f64::INFINITY, f64::min) - slack;
        let max = submitted.iter().copied().fold(f64::NEG_INFINITY, f64::max) + slack;
        for value in all(&epoch.synthesize()) {
            prop_assert!(value[0] >= min && value[0] <= max, "{} not in {min}..{max}", value[0]);
        }
    }

    #[test]
    fn synthesis_of_probability_distributions_returns_probability_distributions(epoch in owned(3)) {
        // As long as all actors are new, an implied value is a median of each label, and its labels
        // need not sum to 1. So the actors here have regrets.
        let epoch = OwnedEpoch { newcomers: Newcomers::WithRegret(-0.5), ..epoch };
        let epoch = epoch.with_values(|values| {
            let sum: f64 = values.iter().map(|value| value.abs()).sum::<f64>() + 1e-9;
            let parts: Vec<f64> = values.iter().map(|value| value.abs() / sum).collect();
            let rest = 1.0 - parts.iter().sum::<f64>();
            vec![parts[0] + rest, parts[1], parts[2]]
        });
        for value in all(&epoch.synthesize()) {
            prop_assert!((value.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn adding_a_constant_to_all_inferences_adds_it_to_all_results(
        epoch in owned(1), shift in -10.0..10.0_f64,
    ) {
        let shifted = epoch.with_values(|values| values.iter().map(|value| value + shift).collect());
        let (before, after) = (epoch.synthesize(), shifted.synthesize());
        for (before, after) in all(&before).into_iter().zip(all(&after)) {
            prop_assert!((before[0] + shift - after[0]).abs() < 1e-9);
        }
    }

    #[test]
    fn label_is_synthesized_independently_of_other_labels(epoch in owned(3)) {
        let alone = epoch.with_values(|values| vec![values[1]]).synthesize();
        let beside = epoch.synthesize();
        for (alone, beside) in all(&alone).into_iter().zip(all(&beside)) {
            prop_assert!((alone[0] - beside[1]).abs() < 1e-12);
        }
    }

    #[test]
    fn synthesis_with_equal_regrets_returns_the_mean(epoch in owned(1), regret in -2.0..2.0_f64) {
        let epoch = OwnedEpoch {
            regrets: Regrets::default(),
            newcomers: Newcomers::WithRegret(regret),
            previous_loss: None,
            ..epoch
        };
        let submitted: Vec<f64> = epoch.inferences.values().flatten().copied().collect();
        let mean = submitted.iter().sum::<f64>() / crate::math::statistics::count(submitted.len());
        let got = epoch.synthesize();
        prop_assert!((got.naive[0] - mean).abs() < 1e-9);
        prop_assert!((got.combined[0] - mean).abs() < 1e-9);
    }

    #[test]
    fn confidence_interval_is_sorted_and_within_the_inferences(epoch in owned(2)) {
        let synthesis = epoch.synthesize();
        for (label_idx, interval) in synthesis.confidence_interval.iter().enumerate() {
            prop_assert_eq!(interval.len(), interval::PERCENTILES.len());
            // Tolerates differences in the last digits, since values that close to each other are
            // ordered by weight.
            let in_order = interval.is_sorted_by(|a, b| *a <= b + 1e-12 * b.abs());
            prop_assert!(in_order, "{:?}", interval);
            let values: Vec<f64> = epoch.inferences.values().map(|v| v[label_idx]).collect();
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let slack = 1e-9 * (1.0 + low.abs().max(high.abs()));
            prop_assert!(interval.iter().all(|v| (low - slack..=high + slack).contains(v)));
        }
    }

    #[test]
    fn forecasters_are_excluded_without_a_previous_loss(epoch in owned(1)) {
        // Implied values are computed from the previous loss, so there are none without it.
        let without = OwnedEpoch { previous_loss: None, ..epoch.clone() };
        let synthesis = without.synthesize();
        prop_assert!(synthesis.implied.is_empty() && synthesis.one_out_forecaster.is_empty());
        prop_assert!(synthesis.one_out_inferer.len() == epoch.inferences.len());
    }

    #[test]
    fn synthesis_weights_sum_to_one(epoch in owned(1)) {
        let got = epoch.synthesize();
        let shares = got.inferer_weights.values().chain(got.forecaster_weights.values());
        prop_assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn epoch_without_inferences_is_rejected() {
    let epoch = Epoch {
        params: &Params {
            generation: Generation::MadV017,
            p_norm: 3.0,
            c_norm: 0.75,
            epsilon: 0.01,
            epsilon_safe_div: 1e-7,
            regret_scale: None,
        },
        inferences: &BTreeMap::new(),
        forecasts: &BTreeMap::new(),
        previous_loss: None,
        regrets: &Regrets::default(),
        newcomers: Newcomers::Everyone,
    };
    assert_eq!(synthesize(&epoch), None);
}
