use model::topic::decimal;

use super::*;
use crate::network::topic::demo_topics;
use crate::tests::test_topics;

fn payload(values: &[(&str, &str)]) -> Payload {
    Payload {
        values: values.iter().map(|(l, v)| ((*l).to_owned(), (*v).to_owned())).collect(),
        forecast: BTreeMap::new(),
    }
}

/// Validates a payload for the test topic at `topic_idx`, which is 0 for the price and 1 for the
/// direction of the price. Compares the resulting values or the error with `want`.
#[track_caller]
fn check(topic_idx: usize, values: &[(&str, &str)], want: Result<&[f64], &str>) {
    let topic = &demo_topics()[topic_idx];
    let worker: Address = "allo1worker".parse().unwrap();
    let got = Submission::checked(topic, worker, None, payload(values)).map(|submission| {
        assert!(submission.inference.iter().all(|v| topic.labels.contains(&v.label_name)));
        submission.inference.into_iter().map(|value| value.value).collect::<Vec<_>>()
    });
    let got = got.map_err(|error| error.to_string());
    assert_eq!(got, want.map(<[f64]>::to_vec).map_err(str::to_owned));
}

#[test]
fn values_written_as_decimal_texts_are_parsed() {
    check(0, &[("y", "31.40")], Ok(&[31.4]));
    check(0, &[("", " 3e1 ")], Ok(&[30.0]));
    check(0, &[("y", "0")], Ok(&[0.0]));
}

#[test]
fn invalid_numbers_are_rejected() {
    for text in ["", "x", "inf", "NaN", "--1"] {
        check(0, &[("y", text)], Err(&format!("`{text}` is not a decimal number")));
    }
    for text in ["1.1e40", "-1e41", "1e400"] {
        let fault = format!("`{text}` exceeds the maximum of 1e40, with either sign");
        check(0, &[("y", text)], Err(&fault));
    }
    let text = "1".repeat(65);
    check(0, &[("y", &text)], Err(&format!("`{text}` is longer than 64 characters")));
    check(0, &[], Err("submission has neither an inference nor a forecast"));
}

#[test]
fn value_outside_the_range_is_rejected() {
    check(0, &[("y", "1000000")], Ok(&[1_000_000.0]));
    for value in ["-1", "1000001"] {
        let text = format!("value {value} of label `y` is outside the range 0 to 1000000");
        check(0, &[("y", value)], Err(&text));
    }
    let text = "value 1.5 of label `up` is outside the range 0 to 1";
    check(1, &[("up", "1.5"), ("down", "-0.5")], Err(text));
}

#[test]
fn submitted_values_are_in_the_order_of_the_labels_without_default_values() {
    check(1, &[("flat", "0.27"), ("up", "0.42"), ("Down ", "0.31")], Ok(&[0.27, 0.42, 0.31]));
    check(1, &[("up", "1")], Ok(&[1.0]));
    check(1, &[("flat", "0"), ("up", "1")], Ok(&[1.0]));
}

#[test]
fn invalid_labels_and_sums_are_rejected() {
    check(1, &[("left", "1")], Err("unknown label `left`, expected up, down, flat"));
    let single = "a single value does not fit the topic, expected values by label: up, down, flat";
    check(1, &[("y", "1")], Err(single));
    let twice = Err("duplicate label `up`");
    check(1, &[("up", "0.5"), ("UP", "0.5")], twice);
    check(1, &[("up", "0")], Err("all values are the default"));
    let exact = Topic { unity_tolerance: Some(0.0), ..test_topics().remove(1) };
    let tenths = payload(&[("down", "0.7"), ("flat", "0.2"), ("up", "0.1")]);
    let worker = "allo1me".parse().unwrap();
    assert!(Submission::checked(&exact, worker, None, tenths).is_ok(), "rounding is tolerated");
    let off = "require_unity violated: sum=0.5 tol=0.000001";
    check(1, &[("up", "0.5")], Err(off));
}

#[test]
fn floats_formatted_as_decimals_round_trip() {
    for number in [0.1 + 0.2, 1e-300, -1e22, 1.0 / 3.0, 0.0] {
        assert_eq!(decimal(number).parse::<f64>().unwrap().to_bits(), number.to_bits());
    }
    assert_eq!(decimal(-0.0), "0");
}
