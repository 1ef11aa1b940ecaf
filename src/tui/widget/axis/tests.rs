use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(low: f64, high: f64, n_max: u16, want: &[f64], decimals: usize) {
    let ticks = Scale::between(low, high).unwrap().ticks(n_max);
    assert_eq!(ticks, Ticks { values: want.to_vec(), decimals });
}

#[test]
fn axis_ticks_are_round_numbers() {
    check(67_572.0, 67_860.0, 7, &[67_600.0, 67_650.0, 67_700.0, 67_750.0, 67_800.0, 67_850.0], 0);
    check(0.0, 1.0, 5, &[0.0, 0.25, 0.5, 0.75, 1.0], 2);
    check(-3.0, 3.0, 4, &[-2.0, 0.0, 2.0], 0);
    check(0.011, 0.019, 3, &[0.0125, 0.015, 0.0175], 4);
}

#[test]
fn axis_of_equal_values_has_a_range_around_them() {
    let scale = Scale::over([5.0, 5.0, f64::NAN], 0.1).unwrap();
    assert!(scale.low() < 5.0 && 5.0 < scale.high());
    assert!((scale.position(5.0) - 0.5).abs() < 1e-9);
    assert_eq!(Scale::over([f64::NAN, f64::INFINITY], 0.1), None);
    assert_eq!(Scale::over([], 0.1), None);
}

#[track_caller]
fn check_label(time: &str, before: Option<&str>, step_seconds: u64, want: &str) {
    let read = |text: &str| text.parse().unwrap();
    let step = Duration::from_secs(step_seconds);
    let label = time_label(read(time), before.map(read), step, read("2026-07-30T12:00:00Z"));
    assert_eq!(label, want);
}

#[test]
fn label_of_an_axis_time_shows_only_the_parts_that_differ_from_the_previous_label() {
    check_label("2026-07-30T09:35:00Z", None, 3_600, "09:35");
    check_label("2026-07-30T09:35:10Z", None, 10, "09:35:10");
    check_label("2026-07-31T00:00:00Z", Some("2026-07-30T23:00:00Z"), 3_600, "Jul 31");
    check_label("2026-07-31T00:00:00Z", Some("2026-07-30T00:00:00Z"), 86_400, "Jul 31");
    check_label("2026-07-31T00:00:00Z", None, 91 * 86_400, "2026-07");
    check_label("2026-07-29T09:35:00Z", None, 3_600, "Jul 29 09:35");
    check_label("2025-07-30T09:35:00Z", None, 3_600, "2025-07-30 09:35");
    check_label("2025-07-30T00:00:00Z", None, 86_400, "2025-07-30");
    check_label("2025-07-30T10:00:00Z", Some("2025-07-30T09:00:00Z"), 3_600, "10:00");
}

#[test]
fn weekly_axis_ticks_are_on_mondays() {
    let monday: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
    let week = Duration::from_hours(7 * 24);
    let sunday = monday - Duration::from_secs(1);
    assert_eq!(step_number(monday, week), step_number(sunday, week) + 1);
    assert_eq!(time_step(Duration::from_hours(3 * 24)), week);
}

proptest! {
    #[test]
    fn axis_ticks_are_within_the_scale_and_limited_in_number(
        a in any::<f64>(), b in any::<f64>(), n_max in 0..200_u16,
    ) {
        let Some(scale) = Scale::over([a, b], 0.05) else { return Ok(()) };
        let ticks = scale.ticks(n_max);
        prop_assert!(ticks.values.len() <= usize::from(n_max));
        for value in ticks.values {
            let at = scale.position(value);
            prop_assert!((-0.001..=1.001).contains(&at), "{} at {}", value, at);
        }
    }
}

#[test]
fn ticks_of_very_small_numbers_differ() {
    let ticks = Scale::between(1.0e-12, 1.98e-12).unwrap().ticks(3);
    let texts: Vec<_> = ticks.values.iter().map(|value| ticks.text(*value)).collect();
    assert_eq!(texts, ["1.0e-12", "1.5e-12"]);
    let ticks = Scale::between(-2e-12, 2e-12).unwrap().ticks(3);
    let texts: Vec<_> = ticks.values.iter().map(|value| ticks.text(*value)).collect();
    assert_eq!(texts, ["-2e-12", "0", "2e-12"]);
}
