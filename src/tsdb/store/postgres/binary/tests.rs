use super::*;

/// Returns one array of row `row_idx` as a field of a row: its length in four bytes, then its content.
fn array_of(columns: &[Series], array: Array, row_idx: usize) -> Vec<u8> {
    let columns: Vec<&Series> =
        array.places(columns).into_iter().filter_map(|place| columns.get(place)).collect();
    let mut buffer = Vec::new();
    put_array(&mut buffer, array, &columns, row_idx);
    buffer
}

#[test]
fn arrays_with_missing_values_round_trip() {
    let columns = vec![
        Series::Float(vec![None, Some(-0.5), None, Some(f64::MAX)]),
        Series::Integer(vec![Some(i64::MIN), None, None, Some(1)]),
        Series::Boolean(vec![None, Some(true), None, Some(false)]),
        Series::String(vec![Some("ä \"".into()), None, None, Some("".into())]),
        Series::Float(vec![None, Some(f64::INFINITY), None, None]),
        Series::Float(vec![Some(1.0), None, None, None]),
    ];
    let dtypes: Vec<Dtype> = columns.iter().map(Series::dtype).collect();
    let reader = RowReader::new(&dtypes);
    let mut read = reader.empty.columns.clone();
    for row_idx in 0..4 {
        for (array, places) in ARRAYS.into_iter().zip(&reader.places) {
            let written = array_of(&columns, array, row_idx);
            let (length, bytes) = written.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            assert_eq!(usize::try_from(length.max(0)), Ok(bytes.len()));
            read_array(bytes, places, &mut read).unwrap();
        }
    }
    assert_eq!(read, columns);
}

#[test]
fn missing_values_at_the_ends_of_an_array_need_no_space() {
    let mut columns = vec![Series::Float(vec![None]); 1000];
    assert_eq!(array_of(&columns, Array::Numbers, 0), NULL);
    columns[500] = Series::Float(vec![Some(1.0)]);
    assert_eq!(array_of(&columns, Array::Numbers, 0).len(), 4 + 20 + 12);
}
