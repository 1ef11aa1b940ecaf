use super::*;

const MAD: Params = Params {
    generation: Generation::MadV017,
    p_norm: 3.0,
    c_norm: 0.75,
    epsilon: 0.01,
    epsilon_safe_div: 1e-7,
    regret_scale: Some(1.0),
};

const STDEV: Params = Params { generation: Generation::StdevOct2024, ..MAD };

#[track_caller]
fn check(got: f64, want: f64) {
    assert!((got - want).abs() <= 1e-5 * want.abs(), "{got} is not {want}");
}

#[test]
fn actor_with_the_highest_regret_has_weight_one() {
    for regrets in [[-5.0, 0.0, 3.0], [-700.0, -900.0, -800.0], [0.0, 0.0, 0.0]] {
        let best = weights(&regrets, &MAD).into_iter().fold(0.0, f64::max);
        assert!((best - 1.0).abs() < f64::EPSILON, "{best}");
    }
}

#[test]
fn weights_of_the_2024_method_equal_the_weights_of_upstream() {
    check(weight_function(-24.5, 1.0, &STDEV)(-24.5), 0.000_783_570_957_287_158_2);
    check(weight_function(-14.0, 1.0, &STDEV)(-15.0), 0.000_039_021_395_379_428_1);
    check(weight_function(0.0, 1.0, &STDEV)(-0.25), 0.142_277_619_532_700_35);
}

#[test]
fn weights_of_the_2024_method_are_clamped() {
    let ceiling = weight_function(100.0, 1.0, &STDEV)(0.75 + CEILING_2024 / 3.0);
    check(weight_function(100.0, 1.0, &STDEV)(100.0), ceiling);
    check(
        weight_function(0.0, 1.0, &STDEV)(0.75 - FLOOR_2024 / 3.0 + 1e-9),
        3.0 * (-FLOOR_2024).exp(),
    );
    assert_eq!(weight_function(0.0, 1.0, &STDEV)(0.75 - FLOOR_2024 / 3.0 - 1e-9).to_bits(), 0);
}

#[test]
fn stored_regret_scale_is_used_instead_of_the_computed_scale() {
    let own = Params { regret_scale: None, ..MAD };
    check(scale(&[0.1, 0.2, 0.3], &own), 0.15826);
    let by_own = weights(&[0.1, 0.2, 0.3], &own);
    let stored = Params { regret_scale: Some(0.15826), ..MAD };
    for (a, b) in by_own.iter().zip(weights(&[0.1, 0.2, 0.3], &stored)) {
        check(*a, b);
    }
    let unset = Params { regret_scale: Some(0.0), ..MAD };
    assert_eq!(weights(&[0.1, 0.2, 0.3], &unset), by_own);
}

#[test]
fn weights_with_a_sum_of_zero_are_rejected() {
    assert_eq!(normalized(&[]), None);
    assert_eq!(normalized(&[0.0, 0.0]), None);
    assert_eq!(normalized(&[2.0, 3.0, 5.0]), Some(vec![0.2, 0.3, 0.5]));
}

#[test]
fn actor_with_infinite_regret_has_no_weight_and_no_effect_on_the_scale() {
    for params in [&STDEV, &Params { regret_scale: None, ..MAD }, &MAD] {
        let mut line = [0.1, f64::NEG_INFINITY, 0.3];
        weigh(&mut line, params);
        assert_eq!(line[1].to_bits(), 0);
        assert_eq!(vec![line[0], line[2]], weights(&[0.1, 0.3], params));
        let mut nobody = [f64::NEG_INFINITY; 2];
        weigh(&mut nobody, params);
        assert_eq!(nobody.to_vec(), [0.0; 2]);
    }
}

#[test]
fn weights_of_extreme_regrets_do_not_overflow() {
    assert_eq!(weights(&[-1e6, -1e6 + 1.0], &MAD), [(-3.0_f64).exp(), 1.0]);
    assert_eq!(weights(&[1e6, -1e6], &MAD), [1.0, 0.0]);
}
