//! Which rows fit, in which order they end up, and which columns they make.

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

fn named(second: i64, values: &[(&str, Value)]) -> NamedRow {
    let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    NamedRow { timestamp: Timestamp::from_seconds(second), values }
}

#[track_caller]
fn check(dtype: Dtype, value: Value, want: Result<Value, &str>) {
    let columns = columns(&[("x", dtype)]);
    let got = placed(&columns, vec![named(1, &[("x", value)])])
        .and_then(|rows| block_of(&columns, rows))
        .map(|block| block.row(0).unwrap().values[0].clone().unwrap())
        .map_err(|refusals| refusals[0].reason.clone());
    assert_eq!(got, want.map_err(str::to_owned));
}

#[test]
fn a_value_has_the_type_of_its_column() {
    check(Dtype::Float, Value::Float(1.5), Ok(Value::Float(1.5)));
    check(Dtype::Float, Value::Integer(2), Ok(Value::Float(2.0)));
    check(Dtype::Float, Value::Float(f64::NAN), Err("x must be a float"));
    check(Dtype::Float, Value::String("1".to_owned()), Err("x must be a float"));
    check(Dtype::Integer, Value::Integer(2), Ok(Value::Integer(2)));
    check(Dtype::Integer, Value::Float(2.5), Err("x must be a integer"));
    check(Dtype::Boolean, Value::Boolean(true), Ok(Value::Boolean(true)));
    check(Dtype::String, Value::String("a".to_owned()), Ok(Value::String("a".to_owned())));
    check(Dtype::String, Value::String("a".repeat(10_001)), Err("x must be a string"));
}

#[test]
fn rows_are_sorted_and_the_last_at_a_moment_is_kept() {
    let columns = columns(&[("x", Dtype::Integer)]);
    let row = |second, number| named(second, &[("x", Value::Integer(number))]);
    let rows = placed(&columns, vec![row(3, 1), row(1, 2), row(3, 3), named(2, &[])]).unwrap();
    let block = block_of(&columns, rows).unwrap();
    let numbers: Vec<_> = (0..block.len()).map(|idx| block.columns[0].number(idx)).collect();
    assert_eq!(block.times, [1, 2, 3].map(Timestamp::from_seconds));
    assert_eq!(numbers, [Some(2.0), None, Some(3.0)]);
}

#[test]
fn a_row_that_names_no_column_or_no_time_is_refused_by_its_place() {
    let columns = columns(&[("x", Dtype::Float)]);
    let refused = placed(&columns, vec![named(1, &[]), named(2, &[("y", Value::Integer(1))])]);
    let reason = "there is no column y".to_owned();
    assert_eq!(refused.unwrap_err(), [Refusal { row_idx: 1, reason }]);
    let early = Row { timestamp: Timestamp::MIN, values: vec![None] };
    assert_eq!(block_of(&columns, vec![early]).unwrap_err()[0].row_idx, 0);
    let many = (0..99).map(|second| named(second, &[("y", Value::Integer(1))])).collect();
    assert_eq!(placed(&columns, many).unwrap_err().len(), REFUSALS_MAX);
}

#[test]
fn first_rows_make_columns_of_all_they_name() {
    let rows = [
        named(1, &[("b", Value::Integer(1)), ("c", Value::Boolean(true))]),
        named(2, &[("a", Value::String(String::new()))]),
    ];
    let want = [("a", Dtype::String), ("b", Dtype::Float), ("c", Dtype::Boolean)];
    assert_eq!(columns_of(&rows), want.map(|(name, dtype)| (name.to_owned(), dtype)));
}
