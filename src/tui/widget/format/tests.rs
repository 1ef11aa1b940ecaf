use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(got: impl AsRef<str>, want: &str) {
    assert_eq!(got.as_ref(), want);
}

#[test]
fn count_of_one_is_formatted_in_the_singular() {
    assert_eq!([0, 1, 2].map(|n| counted(n, "epoch")), ["0 epochs", "1 epoch", "2 epochs"]);
}

#[test]
fn thousands_are_separated() {
    check(grouped(67_431.224, 2), "67 431.22");
    check(grouped(-1_234_567.0, 0), "-1 234 567");
    check(grouped(999.999, 2), "1 000.00");
    check(grouped(0.0, 1), "0.0");
    check(grouped(-0.001, 2), "0.00");
    check(count(4_812_377), "4 812 377");
    check(count(12), "12");
}

#[test]
fn nan_and_infinity_are_formatted_as_symbols() {
    check(grouped(f64::NAN, 2), "—");
    check(grouped(f64::INFINITY, 2), "∞");
    check(signed(f64::NEG_INFINITY, 2), "-∞");
    check(grouped(1e300, 2), "1.000e300");
    check(compact(f64::NAN), "—");
}

#[test]
fn tiny_numbers_are_formatted_as_powers_of_ten() {
    let column = [6.9e-9, 1e-9, 0.0];
    let decimals = decimals_for(column);
    assert_eq!(column.map(|value| grouped(value, decimals)), ["6.90e-9", "1.00e-9", "0"]);
    check(signed(5.9e-9, decimals), "+5.90e-9");
    check(short(6.9e-9, decimals, 9), "6.90e-9");
    check(compact(6.9e-9), "6.9e-9");
    // A tiny number among larger numbers is written as a power of ten, too.
    let decimals = decimals_for([5.25, 6.9e-9]);
    check(telling(6.9e-9, decimals, grouped), "6.9e-9");
    check(telling(5.25, decimals, grouped), "5.2500");
    // A difference that is only a rounding error is shown as zero.
    check(signed(0.1 + 0.2 - 0.3, 2), "0.00");
}

#[test]
fn numbers_of_a_column_are_formatted_alike() {
    let column = [9_837_452.0, 10_180_000.0];
    check(short_in(column[0], &column, 0, 9), "9.837M");
    check(short_in(column[1], &column, 0, 9), "10.18M");
    check(short_in(column[0], &column[..1], 0, 9), "9 837 452");
}

#[test]
fn value_that_rounds_to_zero_is_formatted_without_sign() {
    check(signed(281.4, 2), "+281.40");
    check(signed(-281.4, 2), "-281.40");
    check(signed(0.001, 2), "0.00");
}

#[test]
fn volumes_are_formatted_with_four_digits() {
    check(compact(412.84), "412.8");
    check(compact(31.071), "31.07");
    check(compact(0.288), "0.288");
    check(compact(4_812_377.0), "4.812M");
    check(compact(9_999.0), "9 999");
    check(compact(12_345.0), "12.35k");
}

#[test]
fn byte_sizes_ages_and_durations_are_formatted_with_units() {
    check(bytes(512), "512 B");
    check(bytes(3_277), "3.2 KiB");
    check(bytes(38 * 1024 * 1024), "38 MiB");
    check(bytes(1024 * 1024 - 1), "1.0 MiB");
    check(bytes(u64::MAX), "16 EiB");
    check(age(Duration::from_millis(900)), "now");
    check(age(Duration::from_secs(41)), "41s");
    check(age(Duration::from_secs(6 * 60 + 59)), "6m");
    check(age(Duration::from_hours(3)), "3h");
    check(age(Duration::from_hours(5 * 24)), "5d");
    check(ago(Duration::from_secs(2)), "2s ago");
    check(elapsed(Duration::from_millis(412)), "412 ms");
    check(elapsed(Duration::from_millis(1_840)), "1.8 s");
    check(elapsed(Duration::from_secs(725)), "12 m 05 s");
    check(span(Duration::from_millis(31_400)), "31 s");
    check(span(Duration::from_mins(225)), "3 h 45 m");
    check(span(Duration::from_hours(123)), "5 d 3 h");
}

#[test]
fn long_peer_ids_cids_and_addresses_are_shortened_in_the_middle() {
    check(
        short_peer("12D3KooWRvApH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7Fo9GerdS"),
        "12D3KooWRvAp…9GerdS",
    );
    check(short_cid("bafybeia24v4czavtpjv2co3j54o4a5ztduqcpyyineq4mu"), "bafybe…q4mu");
    check(short_address("allo1v2xyzn8y"), "allo1v2…zn8y");
    check(shorten("short", 3, 2), "short");
}

#[test]
fn wide_characters_are_never_split() {
    check(fit("数据集", 6), "数据集");
    check(fit("数据集", 5), "数据…");
    check(fit("数据集", 4), "数…");
    check(left("数据集", 4), "数… ");
    check(right("ab", 4), "  ab");
    check(fit("ab", 0), "");
}

#[test]
fn timestamps_are_shown_in_utc() {
    let time: Timestamp = "2024-02-29T23:59:58Z".parse().unwrap();
    check(date(time), "2024-02-29");
    check(clock(time), "23:59:58");
    check(clock_as_of(time, time + Duration::from_secs(1)), "23:59:58");
    let dated = format!("{} 23:59:58", date(time));
    check(clock_as_of(time, time + Duration::from_secs(2)), &dated);
    check(hour_minute(time), "23:59");
    check(date(Timestamp::from_seconds(-1)), "1969-12-31");
}

proptest! {
    #[test]
    fn formatted_date_and_time_of_day_equal_the_text_of_the_timestamp(seconds in 0..253_402_207_200_i64) {
        let time = Timestamp::from_seconds(seconds);
        let shown = format!("{}T{}Z", date(time), clock(time));
        prop_assert_eq!(shown, time.to_string());
    }

    #[test]
    fn texts_are_truncated_and_padded_to_the_width(text in ".{0,40}", width in 0..50_usize) {
        prop_assert!(fit(&text, width).width() <= width);
        prop_assert_eq!(left(&text, width).width(), width);
        prop_assert_eq!(right(&text, width).width(), width);
    }

    #[test]
    fn every_number_is_formatted_without_panic(value in any::<f64>(), decimals in 0..40_usize) {
        for text in [grouped(value, decimals), signed(value, decimals), compact(value)] {
            prop_assert!((1..40).contains(&text.width()), "{}", text);
        }
        prop_assert!(decimals_of(value) <= DECIMALS_MAX || value.abs() < TINY);
    }
}

#[test]
fn values_are_formatted_with_just_enough_decimals_to_differ() {
    #[track_caller]
    fn check(values: &[f64], want: usize) {
        assert_eq!(decimals_for(values.iter().copied()), want, "{values:?}");
    }
    check(&[42.0; 5], 0);
    check(&[52_499.7, 52_520.01], 2);
    check(&[-0.000_000_06], POWERS);
    check(&[100.377_622_377_6, 99.928], 3);
    check(&[100.000_000_1, 100.000_000_3], 8);
    check(&[f64::NAN], 0);
    check(&[], 0);
}

#[test]
fn nonzero_value_is_not_formatted_as_zero() {
    check(telling(-6e-8, 3, grouped), "-6.0e-8");
    check(telling(6e-8, 3, signed), "+6.0e-8");
    check(telling(0.0, 3, signed), "0.000");
    check(percent(0.514), "+0.51");
    check(percent(-0.000_4), "-0.0004");
    check(percent(0.0), "0.00");
    check(plain(0.004_6, 2, fixed), "0.005");
    check(plain(12.3, 1, fixed), "12.3");
    check(telling(1_234.5, 1, signed), "+1 234.5");
    check(integer(-4_812_377), "-4 812 377");
}
