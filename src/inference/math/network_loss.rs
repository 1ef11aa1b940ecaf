//! Reputers: what several of them say an epoch's losses were, as one.

use std::collections::BTreeMap;

use model::topic::Address;

use crate::math::{
    pair_values::PairValues,
    regret::{ByActor, Losses},
};

/// The losses that one reputer reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How much its word counts.
    pub stake: f64,
    /// What it reports.
    pub losses: Losses,
}

/// Returns the mean of `reports`, each counted by its stake: of base-10 logarithms, where losses
/// are that. A reputer that lacks an actor is left out of that actor's mean alone. None where
/// nobody with a stake reports.
pub fn network_losses(reports: &[Report]) -> Option<Losses> {
    let mean = |pick: &dyn Fn(&Losses) -> f64| {
        weighted(reports.iter().map(|report| (report.stake, pick(&report.losses))))
    };
    let mean_by_actor = |pick: fn(&Losses) -> &ByActor<f64>| {
        let mut all: BTreeMap<Address, Vec<(f64, f64)>> = BTreeMap::new();
        for report in reports {
            for (name, loss) in pick(&report.losses) {
                all.entry(name.clone()).or_default().push((report.stake, *loss));
            }
        }
        let means = all.into_iter().filter_map(|(name, all)| Some((name, weighted(all)?)));
        means.collect::<ByActor<f64>>()
    };
    let mut by_pair: BTreeMap<Address, BTreeMap<Address, Vec<(f64, f64)>>> = BTreeMap::new();
    for Report { stake, losses } in reports {
        for (forecaster, of_each) in losses.one_out_inferer_forecaster.by_row() {
            let means = by_pair.entry(forecaster).or_default();
            for (inferer, loss) in of_each {
                means.entry(inferer).or_default().push((*stake, loss));
            }
        }
    }
    let mean_row = |(forecaster, of_each): (Address, BTreeMap<Address, Vec<(f64, f64)>>)| {
        let means = of_each.into_iter().filter_map(|(name, all)| Some((name, weighted(all)?)));
        (forecaster, means.collect())
    };
    let by_pair: ByActor<ByActor<f64>> = by_pair.into_iter().map(mean_row).collect();
    Some(Losses {
        combined: mean(&|losses| losses.combined)?,
        naive: mean(&|losses| losses.naive)?,
        inferer: mean_by_actor(|losses| &losses.inferer),
        forecaster: mean_by_actor(|losses| &losses.forecaster),
        one_out_inferer: mean_by_actor(|losses| &losses.one_out_inferer),
        one_out_forecaster: mean_by_actor(|losses| &losses.one_out_forecaster),
        one_in_forecaster: mean_by_actor(|losses| &losses.one_in_forecaster),
        one_out_inferer_forecaster: PairValues::from_rows(&by_pair),
    })
}

/// The mean of the second numbers, weighted by the first; none without weight.
fn weighted(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut sum_stake, mut sum) = (0.0, 0.0);
    for (stake, loss) in pairs {
        if stake > 0.0 && stake.is_finite() {
            sum_stake += stake;
            sum += stake * loss;
        }
    }
    (sum_stake > 0.0).then(|| sum / sum_stake)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(stake: f64, combined: f64, inferers: &[(&str, f64)]) -> Report {
        let named = |(name, loss): &(&str, f64)| (format!("allo1{name}").parse().unwrap(), *loss);
        let inferer = inferers.iter().map(named).collect();
        Report { stake, losses: Losses { combined, inferer, ..Losses::default() } }
    }

    #[test]
    fn who_lacks_an_actor_is_left_out_of_its_mean() {
        let reports =
            [report(1e18, 0.1, &[("a", 1.0)]), report(2e18, 0.2, &[("a", 4.0), ("b", 7.0)])];
        let losses = network_losses(&reports).unwrap();
        assert!((losses.combined - 0.5 / 3.0).abs() < 1e-12);
        let of = |name: &str| losses.inferer[&format!("allo1{name}").parse::<Address>().unwrap()];
        assert!((of("a") - 3.0).abs() < 1e-12 && (of("b") - 7.0).abs() < 1e-12);
    }

    #[test]
    fn nobody_with_a_stake_says_nothing() {
        assert_eq!(network_losses(&[]), None);
        assert_eq!(network_losses(&[report(0.0, 1.0, &[])]), None);
    }
}
