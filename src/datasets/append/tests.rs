//! Which rows fit, and in which order they end up.

use model::{
    dataset::Dtype,
    row::{VALUE_BYTES_MAX, Value},
};

use super::*;

fn columns(dtypes: &[(&str, Dtype)]) -> Vec<Column> {
    let column = |(name, dtype): &(&str, Dtype)| Column {
        id: 1,
        dataset_id: DatasetId::new(1).unwrap(),
        name: (*name).to_owned(),
        dtype: *dtype,
        created_at: Timestamp::default(),
    };
    dtypes.iter().map(column).collect()
}

fn row(second: i64, value: Value) -> Row {
    Row { timestamp: Timestamp::from_seconds(second), values: vec![Some(value)] }
}

#[track_caller]
fn check(dtype: Dtype, value: Value, want: Result<Value, &str>) {
    let got = block_of(&columns(&[("x", dtype)]), vec![row(1, value)])
        .map(|block| block.row(0).unwrap().values[0].clone().unwrap())
        .map_err(|refusals| refusals.first[0].reason.clone());
    assert_eq!(got, want.map_err(str::to_owned));
}

#[test]
fn a_value_has_the_type_of_its_column() {
    check(Dtype::Float, Value::Float(1.5), Ok(Value::Float(1.5)));
    check(Dtype::Float, Value::Integer(2), Ok(Value::Float(2.0)));
    check(Dtype::Float, Value::Float(f64::NAN), Err("x must be a number"));
    check(Dtype::Float, Value::String("1".to_owned()), Err("x must be a number"));
    check(Dtype::Integer, Value::Integer(2), Ok(Value::Integer(2)));
    check(Dtype::Integer, Value::Float(2.5), Err("x must be a whole number of 64 bits"));
    check(Dtype::Boolean, Value::Boolean(true), Ok(Value::Boolean(true)));
    check(Dtype::String, Value::String("a".to_owned()), Ok(Value::String("a".to_owned())));
    let long = Value::String("a".repeat(VALUE_BYTES_MAX + 1));
    check(Dtype::String, long, Err("x must be a text of at most 10000 bytes"));
}

#[test]
fn rows_are_sorted_and_the_last_of_a_timestamp_is_kept() {
    let columns = columns(&[("x", Dtype::Integer)]);
    let row = |second, number| row(second, Value::Integer(number));
    let rows = vec![row(3, 1), row(1, 2), row(3, 3), Row { values: vec![None], ..row(2, 0) }];
    let block = block_of(&columns, rows).unwrap();
    let numbers: Vec<_> = (0..block.len()).map(|idx| block.columns[0].number(idx)).collect();
    assert_eq!(block.times, [1, 2, 3].map(Timestamp::from_seconds));
    assert_eq!(numbers, [Some(2.0), None, Some(3.0)]);
}

#[test]
fn refused_rows_are_counted_and_the_first_are_named() {
    let columns = columns(&[("x", Dtype::Float)]);
    let early = Row { timestamp: Timestamp::MIN, values: vec![None] };
    let refusals = block_of(&columns, vec![row(1, Value::Float(1.0)), early]).unwrap_err();
    assert_eq!((refusals.n_rows, refusals.first[0].row_idx), (1, 1));
    let many = (0..99).map(|second| row(second, Value::Boolean(true))).collect();
    let refusals = block_of(&columns, many).unwrap_err();
    assert_eq!((refusals.n_rows, refusals.first.len()), (99, REFUSALS_MAX));
}
