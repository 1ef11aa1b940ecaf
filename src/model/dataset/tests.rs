use super::*;

#[test]
fn a_dataset_number_is_positive() {
    assert_eq!("3".parse(), Ok(DatasetId(3)));
    for text in ["0", "-1", "", "x", "9223372036854775808"] {
        assert!(text.parse::<DatasetId>().is_err(), "{text}");
    }
}

#[test]
fn column_types_are_read_back() {
    for dtype in [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean] {
        assert_eq!(dtype.to_string().parse(), Ok(dtype));
    }
    assert!("double".parse::<Dtype>().is_err());
}
