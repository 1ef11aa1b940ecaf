use super::*;
use crate::harness::flat_candle;

/// Returns a row at second `second` with a single value.
fn row(second: i64, value: f64) -> Bucket {
    flat_candle(Timestamp::from_seconds(second), value)
}

/// Returns a five-minute bucket as sent by a service.
fn bucket(second: i64, [open, high, low, close]: [f64; 4], count: u64) -> Bucket {
    let time = Timestamp::from_seconds(second);
    Bucket { timestamp: time, open, high, low, close, volume: 9.0, count }
}

#[track_caller]
fn check(chart: &Chart, want: &[(i64, [f64; 4], u64)]) {
    let got: Vec<_> = chart
        .candles()
        .iter()
        .map(|c| (c.timestamp.seconds(), [c.open, c.high, c.low, c.close], c.count))
        .collect();
    assert_eq!(got, want);
}

#[test]
fn chart_scrolls_in_steps_when_its_columns_are_full() {
    let mut chart = Chart::new(Resolution::Raw);
    chart.add_service_candles((1..=9).map(|second| row(second, 1.0)));
    let mut free = vec![chart.n_free(3)];
    for second in 10..=14 {
        chart.add_live_rows([row(second, 1.0)]);
        // A correction adds no candle, so no slot is used.
        chart.add_live_rows([row(second, 1.0)]);
        free.push(chart.n_free(3));
    }
    assert_eq!(free, [0, 2, 1, 0, 2, 1]);
    assert_eq!((chart.n_free(1), chart.n_free(0)), (0, 0));
    chart.add_service_candles([row(14, 1.0)]);
    assert_eq!(chart.n_free(3), 0);
}

#[test]
fn live_rows_open_new_candles_and_update_the_last_candle() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_live_rows([row(300, 5.0), row(360, 7.0), row(420, 6.0)]);
    chart.add_live_rows([row(600, 4.0)]);
    check(&chart, &[(300, [5.0, 7.0, 5.0, 6.0], 3), (600, [4.0; 4], 1)]);
}

#[test]
fn replayed_row_is_not_counted_twice() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_service_candles([bucket(300, [1.0, 8.0, 1.0, 5.0], 4)]);
    // The service counted four rows. A replay repeats the last two of these rows, and then a fifth row
    // follows. The chart has only three rows of the bucket, so it keeps the service's count.
    chart.add_live_rows([row(420, 4.0), row(480, 5.0)]);
    check(&chart, &[(300, [1.0, 8.0, 1.0, 5.0], 4)]);
    chart.add_live_rows([row(540, 9.0)]);
    check(&chart, &[(300, [1.0, 9.0, 1.0, 9.0], 4)]);
}

#[test]
fn candle_computed_from_all_rows_of_its_interval_replaces_the_candle_of_the_service() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_service_candles([bucket(300, [3.0, 3.0, 3.0, 3.0], 1)]);
    chart.add_live_rows([row(300, 3.0), row(360, 2.0)]);
    check(&chart, &[(300, [3.0, 3.0, 2.0, 2.0], 2)]);
}

#[test]
fn rows_of_a_part_of_an_interval_do_not_replace_the_candle_of_the_service() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_service_candles([bucket(300, [1.0, 8.0, 1.0, 5.0], 2)]);
    chart.add_live_rows((400..500).map(|second| row(second, 4.0)));
    check(&chart, &[(300, [1.0, 8.0, 1.0, 4.0], 2)]);
    chart.add_live_rows([row(600, 7.0), row(610, 6.0)]);
    chart.note_gap();
    chart.add_service_candles([bucket(600, [7.0, 9.0, 6.0, 6.0], 3)]);
    chart.add_live_rows((700..720).map(|second| row(second, 6.0)));
    check(&chart, &[(300, [1.0, 8.0, 1.0, 5.0], 2), (600, [7.0, 9.0, 6.0, 6.0], 3)]);
}

#[test]
fn late_row_does_not_change_the_close_of_an_earlier_candle() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_service_candles([bucket(300, [1.0, 8.0, 1.0, 5.0], 3)]);
    chart.add_live_rows([row(700, 4.0)]);
    chart.add_live_rows([row(400, 2.0)]);
    check(&chart, &[(300, [1.0, 8.0, 1.0, 5.0], 3), (600, [4.0; 4], 1)]);
    assert!(chart.is_partial(), "rows before the first live row are unknown");
    chart.add_live_rows([row(900, 4.0)]);
    assert!(!chart.is_partial());
}

#[test]
fn first_rows_with_a_late_row_do_not_complete_the_earlier_candles() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_service_candles([bucket(600, [1.0, 8.0, 1.0, 5.0], 2)]);
    chart.add_live_rows([row(700, 4.0), row(400, 2.0), row(710, 4.0), row(720, 4.0)]);
    assert!(chart.is_partial());
    check(&chart, &[(600, [1.0, 8.0, 1.0, 4.0], 2)]);
}

#[test]
fn candle_with_more_rows_than_are_stored_is_loaded_again_and_not_changed_by_corrections() {
    let n_rows = i64::try_from(ROWS_MAX).unwrap() + 500;
    let mut chart = Chart::new(Resolution::Hour);
    chart.add_live_rows([row(3_599, 1.0), row(3_600, 9.0)]);
    assert!(!chart.is_partial());
    chart.add_live_rows((3_601..3_600 + n_rows).map(|second| row(second, 2.0)));
    assert!(chart.is_partial() && chart.rows.len() <= ROWS_MAX);
    chart.add_service_candles([bucket(3_600, [9.0, 9.0, 2.0, 2.0], 2_500)]);
    chart.add_live_rows([row(3_600, 7.0), row(3_700, 7.0), row(6_000, 3.0)]);
    check(&chart, &[(3_600, [9.0, 9.0, 2.0, 2.0], 2_500)]);
}

#[test]
fn live_rows_of_a_raw_chart_remain_when_older_rows_are_loaded() {
    let mut chart = Chart::new(Resolution::Raw);
    chart.add_live_rows((100..5_100).map(|second| row(second, 1.0)));
    chart.add_service_candles((0..100).map(|second| row(second, 1.0)));
    assert_eq!(chart.candles().len(), 5_100);
}

#[test]
fn corrected_row_changes_its_bucket() {
    let mut chart = Chart::new(Resolution::FiveMinutes);
    chart.add_live_rows([row(300, 5.0), row(360, 99.0), row(420, 6.0)]);
    chart.add_live_rows([row(360, 7.0)]);
    check(&chart, &[(300, [5.0, 7.0, 5.0, 6.0], 3)]);
}

#[test]
fn late_row_is_inserted_in_order() {
    let mut chart = Chart::new(Resolution::Raw);
    chart.add_service_candles([row(1, 1.0), row(3, 3.0)]);
    chart.add_live_rows([row(4, 4.0), row(2, 2.0)]);
    check(&chart, &[(1, [1.0; 4], 1), (2, [2.0; 4], 1), (3, [3.0; 4], 1), (4, [4.0; 4], 1)]);
    assert_eq!(chart.index_from_newest(Timestamp::from_seconds(3)), Some(1));
    assert_eq!(chart.nth_newest(9).map(|candle| candle.timestamp.seconds()), Some(1));
}

#[test]
fn live_rows_are_combined_to_candles_when_the_resolution_changes() {
    let mut chart = Chart::new(Resolution::Raw);
    chart.add_live_rows([row(0, 1.0), row(10, 2.0), row(300, 3.0)]);
    chart.change_resolution(Resolution::FiveMinutes);
    check(&chart, &[(0, [1.0, 2.0, 1.0, 2.0], 2), (300, [3.0; 4], 1)]);
}

#[test]
fn numbers_of_rows_and_candles_are_bounded() {
    let mut chart = Chart::new(Resolution::Raw);
    chart.add_live_rows((0..30_000).map(|second| row(second, 1.0)));
    assert!(chart.rows.len() <= ROWS_MAX);
    chart.add_service_candles((0..30_000).map(|second| row(second, 1.0)));
    assert!(chart.candles().len() <= CANDLES_MAX);
    assert_eq!(chart.nth_newest(0).map(|candle| candle.timestamp.seconds()), Some(29_999));
}

#[test]
fn smoothed_candle_opens_in_the_middle_of_the_previous_candle() {
    let smooth =
        heikin(&[bucket(0, [1.0, 4.0, 0.0, 3.0], 1), bucket(300, [3.0, 6.0, 2.0, 5.0], 1)]);
    let values: Vec<_> = smooth.iter().map(|c| [c.open, c.high, c.low, c.close]).collect();
    assert_eq!(values, [[2.0, 4.0, 0.0, 2.0], [2.0, 6.0, 2.0, 4.0]]);
}
