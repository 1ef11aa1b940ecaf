//! Tests of the choice of folded columns, and of the resulting buckets.

use model::dataset::DatasetId;
use model::row::Value;

use super::*;

fn columns(names: &[(&str, Dtype)]) -> Vec<Column> {
    let column = |(idx, (name, dtype)): (usize, &(&str, Dtype))| Column {
        id: i64::try_from(idx).unwrap(),
        dataset_id: DatasetId::new(1).unwrap(),
        name: (*name).to_owned(),
        dtype: *dtype,
        created_at: Timestamp::default(),
    };
    names.iter().enumerate().map(column).collect()
}

fn block(rows: &[(i64, &[Option<f64>])]) -> Block {
    let n_columns = rows.first().map_or(0, |row| row.1.len());
    let mut block = Block::new(&vec![Dtype::Float; n_columns]);
    for (second, values) in rows {
        block.times.push(Timestamp::from_seconds(*second));
        for (series, value) in block.columns.iter_mut().zip(*values) {
            match value {
                Some(value) => series.push(Value::Float(*value)).unwrap(),
                None => series.push_missing(1),
            }
        }
    }
    block
}

#[track_caller]
fn check(fold: Fold, rows: &[(i64, &[Option<f64>])], want: &[(i64, [f64; 5], u64)]) {
    let bucket = |(second, [open, high, low, close, volume], count): &(i64, [f64; 5], u64)| {
        let (timestamp, count) = (Timestamp::from_seconds(*second), *count);
        Bucket {
            timestamp,
            open: *open,
            high: *high,
            low: *low,
            close: *close,
            volume: *volume,
            count,
        }
    };
    let want: Vec<Bucket> = want.iter().map(bucket).collect();
    assert_eq!(fold.buckets(&block(rows), Resolution::FiveMinutes, None), want);
}

#[test]
fn dataset_with_four_price_columns_has_bars_even_without_a_volume_column() {
    let float = Dtype::Float;
    let bars = columns(&[
        ("open", float),
        ("high", float),
        ("low", float),
        ("close", float),
        ("volume", float),
    ]);
    let none = BTreeMap::new();
    assert_eq!(
        Fold::for_dataset(&bars, &none),
        Some(Fold { prices: [0, 1, 2, 3], volume: Some(4) })
    );
    assert_eq!(
        Fold::for_dataset(&bars[..4], &none),
        Some(Fold { prices: [0, 1, 2, 3], volume: None })
    );
    assert_eq!(Fold::for_dataset(&bars[..3], &none), Some(Fold::of_value(0, None)));
}

#[test]
fn buckets_without_bars_use_the_value_column_or_the_first_float_column() {
    let mixed =
        columns(&[("name", Dtype::String), ("count", Dtype::Integer), ("load", Dtype::Float)]);
    let metadata = BTreeMap::from([(VALUE_COLUMN.to_owned(), "count".to_owned())]);
    assert_eq!(Fold::for_dataset(&mixed, &metadata), Some(Fold::of_value(1, None)));
    assert_eq!(Fold::for_dataset(&mixed, &BTreeMap::new()), Some(Fold::of_value(2, None)));
    assert_eq!(Fold::for_dataset(&mixed[..2], &BTreeMap::new()), None);
}

#[test]
fn buckets_of_bars_have_first_highest_lowest_and_last_price_and_the_volume() {
    let fold = Fold { prices: [0, 1, 2, 3], volume: Some(4) };
    let bar = |prices: [f64; 5]| prices.map(Some);
    check(
        fold,
        &[
            (0, &bar([10.0, 12.0, 9.0, 11.0, 1.5])),
            (60, &bar([11.0, 15.0, 11.0, 14.0, 2.0])),
            (300, &bar([14.0, 14.0, 13.0, 13.0, 1.0])),
        ],
        &[(0, [10.0, 15.0, 9.0, 14.0, 3.5], 2), (300, [14.0, 14.0, 13.0, 13.0, 1.0], 1)],
    );
}

#[test]
fn buckets_of_a_value_column_have_no_volume_and_skip_missing_values() {
    let fold = Fold::of_value(0, None);
    check(
        fold,
        &[(0, &[Some(3.0)]), (1, &[None]), (2, &[Some(1.0)]), (3, &[Some(2.0)])],
        &[(0, [3.0, 3.0, 1.0, 2.0, 0.0], 3)],
    );
    check(fold, &[(0, &[None])], &[]);
}

#[test]
fn missing_price_of_a_bar_is_replaced_by_its_nearest_price() {
    let fold = Fold { prices: [0, 1, 2, 3], volume: None };
    check(fold, &[(0, &[Some(5.0), None, None, Some(4.0)])], &[(0, [5.0, 5.0, 4.0, 4.0, 0.0], 1)]);
}

#[test]
fn adding_rows_to_a_bucket_equals_computing_it_from_all_rows() {
    let fold = Fold::of_value(0, Some(1));
    let rows: Vec<[Option<f64>; 2]> =
        (0..10).map(|i| [Some(0.1 * f64::from(i)), Some(0.3)]).collect();
    let rows: Vec<(i64, &[Option<f64>])> =
        rows.iter().zip(0..).map(|(row, i)| (i * 60, row.as_slice())).collect();
    let whole = fold.buckets(&block(&rows), Resolution::FiveMinutes, None);
    let mut begun = fold.buckets(&block(&rows[..7]), Resolution::FiveMinutes, None);
    let last = begun.pop();
    begun.extend(fold.buckets(&block(&rows[7..]), Resolution::FiveMinutes, last));
    assert_eq!(begun, whole);
}

#[test]
fn replaced_rows_are_not_included_in_buckets() {
    let fold = Fold::of_value(0, Some(1));
    let row = |value: f64| [Some(value), Some(0.1 * value)];
    let values: Vec<[Option<f64>; 2]> = (0..24).map(|i| row(f64::from(i * 7 % 11))).collect();
    // Every other row is already stored. A new row either replaces a stored row or lies between two of
    // them.
    let rows = |is_in: fn(i64) -> bool| -> Vec<(i64, &[Option<f64>])> {
        let all = values.iter().zip(0..).filter(|(_, i)| is_in(*i));
        all.map(|(row, i)| (i * 40, row.as_slice())).collect()
    };
    let under = block(&rows(|i| i % 2 == 0));
    let overs: [fn(i64) -> bool; 6] =
        [|i| i % 3 == 0, |i| i > 20, |i| i < 3, |i| i == 8, |_| true, |i| i == 23];
    for is_over in overs {
        let over = block(&rows(is_over));
        for part in [0..over.len(), 1.min(over.len())..over.len(), 0..over.len() / 2] {
            let mut folding = Folding::new(fold, Resolution::FiveMinutes, None);
            folding.add(&under, Some((&over, part.clone())));
            let merged = under.clone().merge(&over.part(part.clone()));
            let want = fold.buckets(&merged, Resolution::FiveMinutes, None);
            assert_eq!(folding.finish(), want, "{part:?} of {over:?}");
        }
    }
}

#[test]
fn hourly_bucket_is_computed_from_shorter_buckets() {
    let fold = Fold::of_value(0, None);
    let five = fold.buckets(
        &block(&[(0, &[Some(1.0)]), (300, &[Some(3.0)])]),
        Resolution::FiveMinutes,
        None,
    );
    let hour = coarser(Timestamp::from_seconds(0), five).unwrap();
    assert_eq!((hour.open, hour.high, hour.low, hour.close, hour.count), (1.0, 3.0, 1.0, 3.0, 2));
    assert_eq!(coarser(Timestamp::from_seconds(0), []), None);
}

#[test]
fn sum_of_volumes_that_overflow_in_both_directions_is_a_number() {
    let bucket = |minute: i64, volume| Bucket {
        timestamp: Timestamp::from_seconds(minute * 60),
        open: 1.0,
        high: 1.0,
        low: 1.0,
        close: 1.0,
        volume,
        count: 1,
    };
    let finest = [bucket(0, f64::INFINITY), bucket(10, f64::NEG_INFINITY), bucket(120, -1e308)];
    let hours = coarsen(&finest, Resolution::Hour);
    let volumes: Vec<f64> = hours.iter().map(|hour| hour.volume).collect();
    assert_eq!(volumes, [0.0, -1e308]);
    for finer in [&finest[..], &hours] {
        let [day] = *coarsen(finer, Resolution::Day) else { panic!("one day") };
        assert_eq!(day.volume.to_bits(), (-1e308_f64).to_bits());
    }
    let rows = |volumes: &[f64]| {
        let rows =
            volumes.iter().zip(0..).map(|(volume, second)| (second, [Some(1.0), Some(*volume)]));
        let rows: Vec<_> = rows.collect();
        let rows: Vec<(i64, &[Option<f64>])> =
            rows.iter().map(|(at, row)| (*at, &row[..])).collect();
        block(&rows)
    };
    let fold = Fold { prices: [0; 4], volume: Some(1) };
    let volumes = [f64::INFINITY, f64::NEG_INFINITY, 5.0];
    let [whole] = *fold.buckets(&rows(&volumes), Resolution::FiveMinutes, None) else {
        panic!("one")
    };
    assert_eq!(whole.volume.to_bits(), 5.0_f64.to_bits());
}
