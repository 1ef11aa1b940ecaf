use super::*;
use crate::harness::flat_candle;

/// Length of a bucket.
const EVERY: Duration = Duration::from_mins(5);

/// Returns candles with these starts, in buckets since the epoch, and these closing values.
fn candles(values: &[(i64, f64)]) -> Vec<Bucket> {
    values.iter().map(|(bucket, close)| flat_candle(time(*bucket), *close)).collect()
}

fn time(bucket: i64) -> Timestamp {
    Timestamp::from_seconds(bucket * 300)
}

/// Returns the comparison of datasets, the charted one first.
fn compared(datasets: &[&[(i64, f64)]], at: Option<i64>) -> Comparison {
    let datasets: Vec<_> = datasets.iter().map(|values| candles(values)).collect();
    let others: Vec<_> = datasets[1..].iter().map(Vec::as_slice).collect();
    Comparison::new(&datasets[0], &others, EVERY, at.map(time))
}

/// Returns the points of a line as bucket and percent.
fn points(line: &Rebased) -> Vec<(i64, i64)> {
    let whole = |value: f64| format!("{value:.0}").parse().unwrap();
    line.points.iter().map(|it| (it.time.seconds() / 300, whole(it.value))).collect()
}

fn values(comparison: &Comparison) -> Vec<Option<String>> {
    comparison.lines.iter().map(|it| it.value.map(|value| format!("{value:.1}"))).collect()
}

fn is_comparable(comparison: &Comparison) -> Vec<bool> {
    let is_nan = |line: &Rebased| line.points.iter().all(|point| point.value.is_nan());
    comparison.lines.iter().map(|line| !is_nan(line)).collect()
}

#[test]
fn datasets_start_at_zero_percent() {
    let both =
        compared(&[&[(1, 100.0), (2, 110.0), (3, 120.0)], &[(1, 4.0), (2, 4.0), (3, 2.0)]], None);
    assert_eq!(points(&both.lines[0]), [(1, 0), (2, 10), (3, 20)]);
    assert_eq!(points(&both.lines[1]), [(1, 0), (2, 0), (3, -50)]);
    assert_eq!(both.spread.map(|spread| format!("{spread:.1}")).as_deref(), Some("70.0"));
}

#[test]
fn lines_start_at_the_first_common_bucket_if_a_dataset_lacks_the_first_bucket() {
    let both = compared(&[&[(1, 50.0), (2, 100.0), (3, 120.0)], &[(2, 4.0), (3, 5.0)]], None);
    assert_eq!(points(&both.lines[0]), [(1, -50), (2, 0), (3, 20)]);
    assert_eq!(points(&both.lines[1]), [(2, 0), (3, 25)]);
}

#[test]
fn datasets_with_different_gaps_are_aligned_by_time() {
    let both = compared(
        &[&[(1, 10.0), (3, 20.0), (4, 30.0), (6, 40.0)], &[(2, 1.0), (3, 2.0), (5, 3.0), (6, 6.0)]],
        None,
    );
    assert_eq!(points(&both.lines[0]), [(1, -50), (3, 0), (4, 50), (6, 100)]);
    assert_eq!(points(&both.lines[1]), [(2, -50), (3, 0), (5, 50), (6, 200)]);
    assert_eq!(both.spread.map(f64::round), Some(-100.0));
}

#[test]
fn values_at_the_crosshair_are_the_latest_values_up_to_its_time() {
    let datasets: [&[_]; 2] = [&[(1, 10.0), (2, 11.0), (3, 12.0)], &[(1, 10.0), (3, 20.0)]];
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(values(&compared(&datasets, Some(2))), [text("10.0"), text("0.0")]);
    let both = compared(&datasets, Some(2));
    assert_eq!(both.spread, Some(0.0), "the spread is that of the last common bucket");
    assert_eq!(values(&compared(&datasets, Some(3))), [text("20.0"), text("100.0")]);
}

#[test]
fn rows_before_and_after_the_visible_range_are_not_compared() {
    let both = compared(
        &[&[(3, 10.0), (4, 11.0)], &[(1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (5, 16.0)]],
        None,
    );
    assert_eq!(points(&both.lines[1]), [(3, 0), (4, 100)]);
}

#[test]
fn dataset_with_a_base_that_is_not_positive_is_not_comparable() {
    for base in [0.0, -0.0, -4.0] {
        let both = compared(&[&[(1, 10.0), (2, 11.0)], &[(1, base), (2, 5.0)]], None);
        assert_eq!(is_comparable(&both), [true, false]);
        assert_eq!((both.lines[1].value, both.spread, both.correlation), (None, None, None));
    }
    let both = compared(&[&[(1, 0.0), (2, 11.0)], &[(1, 2.0), (2, 5.0)]], None);
    assert_eq!(is_comparable(&both), [false, true]);
}

#[test]
fn value_that_is_not_finite_is_not_a_base() {
    let first = [f64::NAN, f64::INFINITY];
    for first in first {
        let both = compared(&[&[(1, first), (2, 10.0)], &[(1, 1.0), (2, 2.0)]], None);
        assert_eq!(points(&both.lines[1]), [(1, -50), (2, 0)]);
        assert_eq!(is_comparable(&both), [true, true]);
    }
}

#[test]
fn infinite_percentages_have_no_value() {
    let both = compared(&[&[(1, 1e-300), (2, 1e300)], &[(1, 1.0), (2, 2.0)]], None);
    assert_eq!(both.lines[0].value, Some(0.0));
    assert_eq!(both.spread, None);
}

#[test]
fn dataset_without_common_buckets_does_not_affect_lines_of_other_datasets() {
    let three = compared(&[&[(1, 10.0), (3, 20.0)], &[(2, 5.0)], &[(1, 2.0), (3, 3.0)]], None);
    assert_eq!(is_comparable(&three), [true, false, true]);
    assert_eq!(points(&three.lines[2]), [(1, 0), (3, 50)]);
    assert_eq!(three.spread, None, "only two datasets have a spread");
    let none = compared(&[&[], &[(1, 1.0)]], None);
    assert_eq!(none.lines, []);
}

#[test]
fn rows_within_the_same_interval_are_compared_even_if_their_times_differ() {
    let mut other = candles(&[(1, 4.0), (2, 5.0)]);
    for candle in &mut other {
        candle.timestamp = candle.timestamp + Duration::from_secs(7);
    }
    let both = Comparison::new(&candles(&[(1, 1.0), (2, 2.0)]), &[&other], EVERY, None);
    assert_eq!(is_comparable(&both), [true, true]);
    assert_eq!(both.spread.map(f64::round), Some(75.0));
}

/// Returns the correlation of `n` buckets. `close` returns both values of a bucket.
fn correlation_of(n: i64, close: impl Fn(i64) -> (f64, f64)) -> Option<f64> {
    let values = |of: &dyn Fn(i64) -> f64| (0..n).map(|bucket| (bucket, of(bucket))).collect();
    let one: Vec<_> = values(&|bucket| close(bucket).0);
    let other: Vec<_> = values(&|bucket| close(bucket).1);
    compared(&[&one, &other], None).correlation
}

/// Returns a value that changes irregularly.
fn wave(bucket: i64) -> f64 {
    let angle = f64::from(i32::try_from(bucket * bucket).unwrap());
    100.0 + 10.0 * angle.sin()
}

#[test]
fn correlation_is_one_for_equal_and_negative_for_opposite_returns() {
    let equal = correlation_of(40, |bucket| (wave(bucket), wave(bucket) * 7.0)).unwrap();
    assert!((equal - 1.0).abs() < 1e-9, "{equal}");
    let opposite = correlation_of(40, |bucket| (wave(bucket), 1.0 / wave(bucket))).unwrap();
    assert!(opposite < -0.98, "{opposite}");
    let both = correlation_of(40, |bucket| (wave(bucket), wave(bucket + 100))).unwrap();
    assert!(both.abs() < 0.9, "{both}");
}

#[test]
fn correlation_covers_only_the_last_30_buckets() {
    let changed = |bucket: i64| if bucket < 10 { wave(bucket + 100) } else { wave(bucket) };
    let one = correlation_of(40, |bucket| (wave(bucket), changed(bucket))).unwrap();
    assert!((one - 1.0).abs() < 1e-9, "{one}");
    assert!(correlation_of(39, |bucket| (wave(bucket), changed(bucket))).unwrap() < 0.999_999);
}

#[test]
fn constant_values_or_constant_returns_have_no_correlation() {
    assert_eq!(correlation_of(40, |bucket| (wave(bucket), 5.0)), None);
    let growth = |bucket| 1.1_f64.powi(i32::try_from(bucket).unwrap());
    assert_eq!(correlation_of(40, |bucket| (wave(bucket), growth(bucket))), None);
}

#[test]
fn fewer_than_ten_common_buckets_have_no_correlation() {
    assert_eq!(correlation_of(9, |bucket| (wave(bucket), wave(bucket))), None);
    assert!(correlation_of(10, |bucket| (wave(bucket), wave(bucket))).is_some());
}
