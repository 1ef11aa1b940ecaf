//! Tests of rows rendered as text, byte by byte.

use model::block::Rows;
use model::dataset::Dtype;
use model::resolution::Resolution;
use model::row::Value;
use proptest::prelude::*;

use super::document::{BucketFile, Document};
use super::number::*;
use super::*;

fn text(put: impl FnOnce(&mut Vec<u8>) -> usize) -> String {
    let mut to = Vec::new();
    let at = put(&mut to);
    to.truncate(at);
    String::from_utf8(to).unwrap()
}

fn float(number: f64) -> String {
    text(|to| put_float(to, 0, number))
}

#[test]
fn numbers_are_formatted_as_by_go() {
    for (number, want) in [
        (134.0, "134"),
        (0.0, "0"),
        (-2.5, "-2.5"),
        (118_294.123_456_78, "118294.12345678"),
        (0.1 + 0.2, "0.30000000000000004"),
        (0.000_01, "0.00001"),
        (0.000_001, "0.000001"),
        (0.000_001_5, "0.0000015"),
        (0.000_000_1, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (1e15, "1000000000000000"),
        (123_456_789_012_345_680_000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.25e300, "1.25e+300"),
        (f64::INFINITY, "1.7976931348623157e+308"),
    ] {
        assert_eq!(float(number), want);
    }
}

#[test]
fn unicode_line_separators_are_escaped_in_json() {
    let mut to = b"x".to_vec();
    push_text(&mut to, "a\u{2028}b\u{2029}\u{85}\n\u{e9}");
    assert_eq!(
        String::from_utf8(to).unwrap(),
        r#"x"a\u2028b\u2029\u0085\n"#.to_owned() + "\u{e9}\""
    );
}

/// Formats a decimal that has at most fifteen digits.
fn decimal(number: i64, n_decimals: usize) -> String {
    let digits = format!("{:0>1$}", number.abs(), n_decimals + 1);
    let (whole, rest) = digits.split_at(digits.len() - n_decimals);
    let text = format!("{whole}.{rest}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if number < 0 { format!("-{text}") } else { text.to_owned() }
}

#[test]
fn numbers_with_eight_decimals_are_written_exactly() {
    for number in 0..100_000 {
        for scaled in [number * 1000, 99_900_000 + number] {
            let whole = text(|to| put_integer(to, 0, scaled));
            assert_eq!(whole, scaled.to_string());
            if scaled == 0 || scaled >= 100 {
                #[expect(clippy::cast_precision_loss, reason = "it is below 2^53")]
                let number = scaled as f64 / 1e8;
                assert_eq!(float(number), decimal(scaled, 8));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn decimal_of_at_most_fifteen_digits_is_written_unchanged(
        number in -999_999_999_999_999..=999_999_999_999_999_i64,
        n_cut in 0..15_u32,
        n_decimals in 0..=8_usize,
    ) {
        let number = number / 10_i64.pow(n_cut);
        let text = decimal(number, n_decimals);
        let read = text.parse::<f64>().unwrap();
        if read == 0.0 || read.abs() >= 1e-6 {
            prop_assert_eq!(float(read), if read == 0.0 { "0".to_owned() } else { text });
        }
    }

    #[test]
    fn float_is_written_with_the_fewest_digits_that_identify_it(
        number in prop::num::f64::NORMAL,
        near in -1e8..1e8_f64,
        n_decimals in 0..12_i32,
    ) {
        let scale = 10_f64.powi(n_decimals);
        for number in [number, near, (near * scale).round() / scale] {
            let want = format!("{number:e}");
            let got = float(number);
            let n_digits = |text: &str| {
                let text = text.split('e').next().unwrap_or_default().replace(['.', '-'], "");
                text.trim_start_matches('0').trim_end_matches('0').len()
            };
            prop_assert!(got.parse::<f64>().unwrap() - number == 0.0, "{got}");
            prop_assert_eq!(n_digits(&got), n_digits(&want), "{}", got);
        }
    }

    #[test]
    fn every_integer_is_written_in_decimal(number: i64, n_bits in 0..64_u32) {
        let number = number >> n_bits;
        prop_assert_eq!(text(|to| put_integer(to, 0, number)), number.to_string());
    }
}

proptest! {
    #[test]
    fn texts_of_phrases_of_any_length_are_concatenated(
        parts in prop::collection::vec("[a-z]{0,100}", 0..9),
    ) {
        let got = text(|to| {
            let put = |at, part: &String| Phrase::new(part.as_bytes()).put(to, at);
            parts.iter().fold(0, put)
        });
        prop_assert_eq!(got, parts.concat());
    }

    #[test]
    fn every_finite_float_round_trips(number in prop::num::f64::NORMAL) {
        prop_assert_eq!(float(number).parse::<f64>().unwrap().to_bits(), number.to_bits());
    }

    #[test]
    fn every_timestamp_round_trips(micros in -62_000_000_000_000_000..253_402_207_200_000_000_i64) {
        let timestamp = Timestamp::from_micros(micros);
        let text = text(|to| TimestampWriter::default().put_bare(to, 0, timestamp));
        prop_assert_eq!(text.parse::<Timestamp>().unwrap(), timestamp, "{}", text);
    }
}

fn columns() -> Vec<Column> {
    let names = [
        ("open", Dtype::Float),
        ("trades_done", Dtype::Integer),
        ("note", Dtype::String),
        ("up", Dtype::Boolean),
    ];
    let column = |(name, dtype): (&str, Dtype)| Column {
        id: 1,
        dataset_id: DatasetId::new(3).unwrap(),
        name: name.to_owned(),
        dtype,
        created_at: Timestamp::default(),
    };
    names.into_iter().map(column).collect()
}

fn block() -> Block {
    let mut block = Block::new(&columns().iter().map(|column| column.dtype).collect::<Vec<_>>());
    block.times =
        vec!["2026-07-30T21:57:00Z".parse().unwrap(), "2026-07-30T21:58:00.5Z".parse().unwrap()];
    block.created = vec!["2026-07-30T21:58:00.376001Z".parse().unwrap(); 2];
    block.ids = vec![910_254_487, 910_254_488];
    let full = [
        Value::Float(1.5),
        Value::Integer(134),
        Value::String("a \"b\", c".into()),
        Value::Boolean(true),
    ];
    for (series, value) in block.columns.iter_mut().zip(full) {
        series.push(value).unwrap();
        series.push_missing(1);
    }
    block
}

fn page(rows: &Rows) -> String {
    let mut to = Vec::new();
    let dataset = DatasetId::new(3).unwrap();
    let columns = match rows {
        Rows::Raw(_) => columns(),
        Rows::Buckets(_) => bucket_columns(dataset, false),
    };
    Writer::new(dataset, &columns).page(&mut to, rows);
    String::from_utf8(to).unwrap()
}

fn document(output: Output, resolution: Resolution, rows: &[Rows]) -> Vec<u8> {
    let id = DatasetId::new(3).unwrap();
    let columns = match resolution {
        Resolution::Raw => columns(),
        _ => bucket_columns(id, false),
    };
    let buckets = resolution.bucket().map(|_| BucketFile::default());
    let mut document = Document::new(output, id, &columns, buckets);
    let mut to = Vec::new();
    document.begin(&mut to);
    for rows in rows {
        document.rows(&mut to, rows);
    }
    document.end(&mut to);
    to
}

#[track_caller]
fn check_document(output: Output, rows: &[Rows], want: &str) {
    let got = document(output, Resolution::Raw, rows);
    assert_eq!(String::from_utf8(got).unwrap(), want);
}

#[test]
fn flat_rows_have_sorted_keys_without_missing_values() {
    let rows = [
        r#"{"note":"a \"b\", c","open":1.5,"timestamp":"2026-07-30T21:57:00Z","trades_done":134,"up":true}"#,
        r#"{"timestamp":"2026-07-30T21:58:00.5Z"}"#,
    ];
    let [first, second] = rows;
    let json = format!("[{first},{second}]");
    check_document(Output::Json, &[Rows::Raw(block())], &json);
    let one = |row_idx: usize| Rows::Raw(block().part(row_idx..row_idx + 1));
    let none = || Rows::Raw(block().part(0..0));
    check_document(Output::Json, &[none(), one(0), none(), one(1)], &json);
    check_document(Output::Json, &[none()], "[]");
    check_document(Output::Ndjson, &[one(0), one(1)], &format!("{first}\n{second}\n"));
}

#[test]
fn values_of_a_page_row_are_in_the_order_of_the_columns() {
    assert_eq!(
        page(&Rows::Raw(block())),
        concat!(
            r#"{"id":910254487,"dataset_id":3,"timestamp":"2026-07-30T21:57:00.0Z","created_at":"2026-07-30T21:58:00.376001Z","values":{"open":1.5,"trades_done":134,"note":"a \"b\", c","up":true}},"#,
            r#"{"id":910254488,"dataset_id":3,"timestamp":"2026-07-30T21:58:00.5Z","created_at":"2026-07-30T21:58:00.376001Z","values":{}}"#,
        )
    );
}

#[test]
fn timestamps_of_a_page_have_fractions_only_if_one_needs_it() {
    let mut writer = Writer::new(DatasetId::new(3).unwrap(), &columns());
    let mut texts = |block: Block| {
        let mut to = Vec::new();
        writer.page(&mut to, &Rows::Raw(block));
        let text = String::from_utf8(to).unwrap();
        ["21:57:00.0Z", "21:57:00Z", "21:58:00.5Z"].map(|time| text.contains(time))
    };
    assert_eq!(texts(block()), [true, false, true]);
    assert_eq!(texts(block().part(0..1)), [false, true, false]);
}

#[test]
fn csv_output_has_a_header_quoted_texts_and_empty_fields() {
    check_document(
        Output::Csv,
        &[Rows::Raw(block())],
        "timestamp,open,trades_done,note,up\n\
         2026-07-30T21:57:00Z,1.5,134,\"a \"\"b\"\", c\",true\n\
         2026-07-30T21:58:00.5Z,,,,\n",
    );
}

#[test]
fn buckets_are_written_as_a_json_page_or_as_ndjson_or_as_csv() {
    let timestamp = "2026-07-29T00:00:00Z".parse().unwrap();
    let bucket =
        Bucket { timestamp, open: 1.0, high: 2.5, low: 0.5, close: 2.0, volume: 10.0, count: 60 };
    assert_eq!(
        page(&Rows::Buckets(vec![bucket])),
        r#"{"dataset_id":3,"timestamp":"2026-07-29T00:00:00Z","open":1,"high":2.5,"low":0.5,"close":2,"volume":10,"count":60}"#
    );
    let flat = document(Output::Ndjson, Resolution::Hour, &[Rows::Buckets(vec![bucket])]);
    assert_eq!(
        String::from_utf8(flat).unwrap(),
        "{\"close\":2,\"count\":60,\"high\":2.5,\"low\":0.5,\"open\":1,\
         \"timestamp\":\"2026-07-29T00:00:00Z\",\"volume\":10}\n"
    );
    let csv = document(Output::Csv, Resolution::Hour, &[Rows::Buckets(vec![bucket])]);
    assert_eq!(
        String::from_utf8(csv).unwrap(),
        "timestamp,open,high,low,close,volume,count\n2026-07-29T00:00:00Z,1,2.5,0.5,2,10,60\n"
    );
}
