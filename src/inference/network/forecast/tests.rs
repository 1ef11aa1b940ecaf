use super::*;
use crate::math::loss::{LossMethod, LossParameters};
use crate::network::learned::Learned;

/// Rule without logarithms, so that the losses in the tests are easier to read.
fn plain() -> LossRule {
    LossRule {
        method: LossMethod::Mse,
        parameters: LossParameters::default(),
        allow_negative: true,
        floor: 0.01,
    }
}

/// Rule with logarithmic losses, as in the demo's topics.
fn logarithms() -> LossRule {
    LossRule { allow_negative: false, ..plain() }
}

fn built_in(
    inferences: &BTreeMap<Address, Values>,
    learned: &Learned,
    rule: LossRule,
) -> Vec<Forecast> {
    super::built_in(inferences, &learned.past, &learned.loss_averages, rule)
}

fn name(name: &str) -> Address {
    format!("allo1{name}").parse().unwrap()
}

fn inferences(values: [f64; 4]) -> BTreeMap<Address, Values> {
    ["a", "b", "c", "d"].map(name).into_iter().zip(values.map(|value| vec![value])).collect()
}

/// Returns the state learned from `n_epochs`. In a third of the epochs, the value of `d` is far above the
/// other values and right. In another third, it is far below the other values and wrong. In the rest, all
/// values are close.
fn learned(n_epochs: u32) -> Learned {
    let mut past = Past::default();
    for epoch in 0..n_epochs {
        let level = f64::from(epoch);
        let (apart, losses) = match epoch % 3 {
            0 => (9.0, [1.0, 1.0, 1.0, 0.0]),
            1 => (-5.0, [0.0, 0.0, 0.0, 2.0]),
            _ => (0.0, [0.0, 0.1, 0.0, 0.1]),
        };
        let said = inferences([level, level - 1.0, level + 1.0, level + apart]);
        past.remember(&said, &["a", "b", "c", "d"].map(name).into_iter().zip(losses).collect());
    }
    let loss_averages = ["a", "b", "c", "d"].map(|n| (name(n), 0.5)).into();
    Learned { loss_averages, past, ..Learned::default() }
}

#[track_caller]
fn forecast(forecaster: &str, learned: &Learned, said: [f64; 4]) -> ByActor<f64> {
    let forecasts = built_in(&inferences(said), learned, plain());
    forecasts.into_iter().find(|forecast| forecast.name == forecaster).unwrap().losses
}

#[test]
fn no_forecast_is_made_before_the_first_learned_epoch() {
    for rule in [plain(), logarithms()] {
        assert_eq!(built_in(&inferences([1.0; 4]), &Learned::default(), rule), vec![]);
    }
}

#[test]
fn inferer_without_losses_is_excluded() {
    let mut said = inferences([10.0, 9.0, 11.0, 10.0]);
    said.insert(name("new"), vec![10.0]);
    let forecasts = built_in(&said, &learned(30), logarithms());
    let names: Vec<_> = forecasts.iter().map(|f| f.name).collect();
    assert_eq!(names, [STEADY, MEAN, SIMILAR, WARY, RECENT]);
    for forecast in forecasts {
        assert_eq!(forecast.losses.len(), 4, "{forecast:?}");
    }
}

#[test]
fn forecaster_of_mean_losses_reflects_rare_large_errors() {
    // `a` is very close to the ground truth in nine of ten epochs and far from it in the tenth. `b`
    // always has a moderate error.
    let mut learned = Learned::default();
    for epoch in 0..200_u32 {
        let losses = [if epoch % 10 == 0 { 2.0 } else { -2.0 }, 0.0, 0.0, 0.0];
        let losses: ByActor<f64> = ["a", "b", "c", "d"].map(name).into_iter().zip(losses).collect();
        learned.past.remember(&inferences([0.0; 4]), &losses);
        for (name, loss) in losses {
            let average = learned.loss_averages.get(&name).copied();
            let average = moving_average(average, loss, LOSS_AVERAGE_ALPHA);
            learned.loss_averages.insert(name, average);
        }
    }
    let forecasts = built_in(&inferences([0.0; 4]), &learned, logarithms());
    let of = |forecaster: &str| &forecasts.iter().find(|f| f.name == forecaster).unwrap().losses;
    assert!(of(STEADY)[&name("a")] < of(STEADY)[&name("b")], "{forecasts:?}");
    for forecaster in [MEAN, SIMILAR, WARY] {
        let losses = of(forecaster);
        assert!(losses[&name("a")] > losses[&name("b")] + 0.5, "{forecaster}: {losses:?}");
    }
    let plain = built_in(&inferences([0.0; 4]), &learned, plain());
    assert!(plain.iter().all(|f| f.name != MEAN), "equals {STEADY}: {plain:?}");
}

#[test]
fn forecaster_called_similar_uses_losses_of_epochs_with_similar_inferences() {
    let learned = learned(90);
    let above = forecast(SIMILAR, &learned, [500.0, 499.0, 501.0, 509.0]);
    assert!(above[&name("d")] < 0.2 && above[&name("a")] > 0.8, "{above:?}");
    let below = forecast(SIMILAR, &learned, [500.0, 499.0, 501.0, 495.0]);
    assert!(below[&name("d")] > 1.6 && below[&name("a")] < 0.2, "{below:?}");
    assert_eq!(forecast(STEADY, &learned, [1.0; 4]), learned.loss_averages);
}

#[test]
fn forecaster_called_wary_predicts_losses_from_the_distance_to_other_inferences() {
    let mut past = Past::default();
    for epoch in 0..40_u32 {
        let apart = f64::from(epoch % 5);
        let losses = [1.0, 1.0, 1.0 - apart / 4.0, apart];
        let said = inferences([0.0, 0.0, -apart, apart]);
        past.remember(&said, &["a", "b", "c", "d"].map(name).into_iter().zip(losses).collect());
    }
    let loss_averages = learned(1).loss_averages;
    let learned = Learned { loss_averages, past, ..Learned::default() };
    let near = forecast(WARY, &learned, [0.0, 0.0, 0.0, 0.0]);
    let far = forecast(WARY, &learned, [0.0, 0.0, -4.0, 4.0]);
    assert!(far[&name("d")] > near[&name("d")] + 2.0, "{near:?} {far:?}");
    assert!(far[&name("c")] < near[&name("c")] - 0.5, "{near:?} {far:?}");
}

#[test]
fn forecasts_are_finite_for_all_inferences() {
    let mut learned = learned(12);
    let said = [f64::MAX, f64::MIN, 1e300, 0.0];
    let losses = ["a", "b", "c", "d"].map(|n| (name(n), 308.0)).into();
    learned.past.remember(&inferences(said), &losses);
    for said in [said, [0.0; 4]] {
        for rule in [plain(), logarithms()] {
            for forecast in built_in(&inferences(said), &learned, rule) {
                assert!(forecast.losses.values().all(|loss| loss.is_finite()), "{forecast:?}");
            }
        }
    }
}

#[test]
fn past_epochs_are_limited_in_number_and_bytes() {
    assert_eq!(learned(1000).past.epochs().len(), 256);
    let mut past = Past::default();
    let many: Vec<Address> = (0..1000).map(|n| name(&format!("{n:038}"))).collect();
    let losses: ByActor<f64> = many.iter().map(|name| (name.clone(), 1.0)).collect();
    let said: BTreeMap<_, _> = many.into_iter().map(|name| (name, vec![1.0])).collect();
    for _ in 0..100 {
        past.remember(&said, &losses);
    }
    // The names need 43 KB once, and the numbers 16 KB per epoch, so that the maximum of 128 KiB is
    // reached with five epochs.
    assert_eq!(past.epochs().len(), 5);
}

#[test]
fn forecaster_called_recent_predicts_the_losses_of_the_latest_epoch() {
    let mut learned = learned(30);
    let losses = [3.0, 0.0, 0.0, 0.0];
    let losses = ["a", "b", "c", "d"].map(name).into_iter().zip(losses).collect();
    learned.past.remember(&inferences([1.0; 4]), &losses);
    let expected = forecast(RECENT, &learned, [1.0; 4]);
    assert!((2.7..3.0).contains(&expected[&name("a")]), "{expected:?}");
    assert!(expected[&name("b")] < 0.1, "{expected:?}");
}
