//! Tests that each format is parsed and that invalid rows are rejected.

use flate2::Compression;
use flate2::write::GzEncoder;
use formats::read::cell::INEXACT_REASON;
use model::row::Row;
use model::timestamp::Timestamp;
use std::io::Write as _;

use super::*;
use crate::append::{REFUSALS_MAX, ROWS_MAX};

const T: &str = "2026-07-30T21:57:0";

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

fn all_kinds() -> Vec<Column> {
    columns(&[
        ("f", Dtype::Float),
        ("i", Dtype::Integer),
        ("s", Dtype::String),
        ("b", Dtype::Boolean),
    ])
}

type Taken = (Vec<(String, Dtype)>, Vec<Row>);

fn take(format: Format, columns: &[Column], text: &str) -> Result<Taken, OperationError> {
    let mut builder = ColumnBuilder::new(columns);
    match format {
        Format::Json => json::read_list(&mut builder, text)?,
        Format::Ndjson => json::read_lines(&mut builder, text)?,
        Format::Csv => csv::read_records(&mut builder, text)?,
        Format::Parquet => unreachable!("Parquet is no text"),
    }
    let (made, block) = builder.finish(AppendMode::Replace)?;
    Ok((made, block.rows()))
}

/// Formats rows as texts, in which a dash is a missing value.
fn row_texts(rows: &[Row]) -> Vec<String> {
    let value = |value: &Option<model::row::Value>| match value {
        None => "-".to_owned(),
        Some(model::row::Value::Float(number)) => format!("{number:?}"),
        Some(model::row::Value::Integer(number)) => number.to_string(),
        Some(model::row::Value::String(text)) => format!("{text:?}"),
        Some(model::row::Value::Boolean(truth)) => truth.to_string(),
    };
    let row = |row: &Row| {
        let values: Vec<_> = row.values.iter().map(value).collect();
        format!("{} {}", row.timestamp.seconds() % 10, values.join(" "))
    };
    rows.iter().map(row).collect()
}

#[track_caller]
fn check(format: Format, text: &str, want: &[&str]) {
    let text = text.replace("T0", T);
    assert_eq!(row_texts(&take(format, &all_kinds(), &text).unwrap().1), want);
}

#[track_caller]
fn check_refused(format: Format, text: &str, want: &[(usize, Option<&str>, &str)]) {
    let text = text.replace("T0", T);
    let refused = take(format, &all_kinds(), &text).unwrap_err();
    let OperationError::Rows(refusals) = refused else { panic!("{refused:?}") };
    let got = refusals.rows.iter();
    let got = got.map(|it| (it.row, it.column.as_deref(), it.reason.as_str()));
    assert_eq!(got.collect::<Vec<_>>(), want);
}

#[test]
fn json_rows_can_be_flat_or_have_a_values_object() {
    let text = r#"{"timestamp":"T01Z","values":{"f":1.5,"i":2,"s":"a\u00e9\"","b":true}}
        {"i":-3,"timestamp":"T02+00:00","f":1e3}

        { "timestamp" : "T03Z" , "values" : { } }
        {"timestamp":"T04Z","s":null,"b":false,"f":-0.1}"#;
    let want = [r#"1 1.5 2 "aé\"" true"#, "2 1000.0 -3 - -", "3 - - - -", "4 -0.1 - - false"];
    check(Format::Ndjson, text, &want);
    let list: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    check(Format::Json, &format!(" [ {} ] ", list.join(" ,\n")), &want);
    check(Format::Json, "[]", &[]);
    check(Format::Ndjson, "\r\n\n", &[]);
}

#[test]
fn numbers_are_parsed_exactly_as_the_type_of_their_column() {
    for (text, want) in [
        ("0.1", "0.1"),
        ("64001.23999999999", "64001.23999999999"),
        ("5e-324", "5e-324"),
        ("1.7976931348623157e308", "1.7976931348623157e308"),
        ("9007199254740993", "9007199254740992.0"),
        ("123456789012345678901234567890", "1.2345678901234568e29"),
    ] {
        let text = format!(r#"{{"timestamp":"T01Z","f":{text}}}"#);
        check(Format::Ndjson, &text, &[&format!("1 {want} - - -")]);
    }
    for (text, want) in
        [("134.0", "134"), ("1e3", "1000"), ("9223372036854775807", "9223372036854775807")]
    {
        let text = format!(r#"{{"timestamp":"T01Z","i":{text}}}"#);
        check(Format::Ndjson, &text, &[&format!("1 - {want} - -")]);
    }
    let whole = "must be a whole number of 64 bits";
    for text in ["1.5", "9223372036854775808", "1e300", "\"1\"", "true"] {
        let text = format!(r#"{{"timestamp":"T01Z","i":{text}}}"#);
        check_refused(Format::Ndjson, &text, &[(0, Some("i"), whole)]);
    }
    let text = r#"{"timestamp":"T01Z","i":9007199254740993.0}"#;
    check_refused(Format::Ndjson, text, &[(0, Some("i"), INEXACT_REASON)]);
    let text = "timestamp,i\nT01Z,9007199254740993.0\nT02Z,-9007199254740995e0\n";
    check(Format::Csv, text, &["1 - 9007199254740993 - -", "2 - -9007199254740995 - -"]);
    let text = r#"{"timestamp":"T01Z","f":1e999}"#;
    check_refused(Format::Ndjson, text, &[(0, None, "number out of range")]);
    for text in ["\"1\"", "false"] {
        let text = format!(r#"{{"timestamp":"T01Z","f":{text}}}"#);
        check_refused(Format::Ndjson, &text, &[(0, Some("f"), "must be a number")]);
    }
}

#[test]
fn each_rejected_row_has_a_reason() {
    let text = r#"{"timestamp":"T01Z","f":"x","s":1}
        {"f":1}
        {"timestamp":7}
        {"timestamp":"noon"}
        {"timestamp":"-009000-01-01T12:00:00Z"}
        {"timestamp":"T01Z","nothing":1}
        {"timestamp":"T01Z","f":1,"f":2}
        {"timestamp":"T01Z"
        {"timestamp":"T01Z","f":01}
        {"timestamp":"T01Z"} {}
        [1]
        {"timestamp":"T01Z","b":"true"}"#;
    check_refused(
        Format::Ndjson,
        text,
        &[
            (0, Some("f"), "must be a number"),
            (0, Some("s"), "must be a text of at most 10000 bytes"),
            (1, Some("timestamp"), "is missing"),
            (2, Some("timestamp"), "must be a text, RFC 3339"),
            (3, Some("timestamp"), "must be RFC 3339"),
            (4, Some("timestamp"), "must not be before the year 0"),
            (5, Some("nothing"), "there is no such column"),
            (6, Some("f"), "appears twice"),
            (7, None, "EOF while parsing an object"),
            (8, None, "invalid number"),
            (9, None, "trailing characters"),
            (10, None, "a row must be an object"),
            (11, Some("b"), "must be true or false"),
        ],
    );
    let list = r#"[1, {"timestamp":"T01Z","values":{}}, {"timestamp":"T02Z","i":[{"a":"]"}]}, null,
        {"timestamp":"T01Z"}, {"timestamp":"T01Z","values":[1]}, {}]"#;
    check_refused(
        Format::Json,
        list,
        &[
            (0, None, "a row must be an object"),
            (2, Some("i"), "value is a list, which columns do not support"),
            (3, None, "a row must be an object"),
            (4, None, "values are missing; a row without any needs \"values\":{}"),
            (5, None, "values must be an object"),
            (6, Some("timestamp"), "is missing"),
            (6, None, "values are missing; a row without any needs \"values\":{}"),
        ],
    );
    let many = r#"{"timestamp":"T01Z","f":"x","i":"x"}
    "#
    .repeat(50);
    let refused = take(Format::Ndjson, &all_kinds(), &many.replace("T0", T)).unwrap_err();
    let OperationError::Rows(refusals) = refused else { panic!("{refused:?}") };
    assert_eq!((refusals.total, refusals.rows.len()), (50, REFUSALS_MAX));
}

#[test]
fn csv_fields_can_be_quoted() {
    let text = "\u{feff}s,timestamp,f,b,i\r\n\
        plain,T01Z,1.5,true,2\r\n\
        \"a, \"\"b\"\"\nc\",T02Z,,FALSE,3.0\r\n\
        \r\n\
        \"\",T03Z,-1e-7,,\n\
        ,T04Z,,,7";
    let want = [
        r#"1 1.5 2 "plain" true"#,
        r#"2 - 3 "a, \"b\"\nc" false"#,
        r#"3 -1e-7 - "" -"#,
        "4 - 7 - -",
    ];
    check(Format::Csv, text, &want);
    check_refused(
        Format::Csv,
        "timestamp,f,b\nT01Z,nan,1\nT02Z,1\nnoon,inf,true\n",
        &[
            (0, Some("f"), "must be a number"),
            (0, Some("b"), "must be true or false"),
            (1, None, "2 fields for 3 of the header"),
            (2, Some("timestamp"), "must be RFC 3339"),
            (2, Some("f"), "must be a number"),
        ],
    );
    for (text, want) in [
        ("", "invalid body: invalid CSV: missing header"),
        ("f\n1\n", "the header has no timestamp"),
        ("timestamp,f,f\n", "the header names f twice"),
        ("timestamp,x\n", "there is no column x"),
        ("timestamp,s\nT01Z,\"a\n", "invalid body: invalid CSV: quoted field is not closed"),
        (
            "timestamp,s\nT01Z,\"a\"b\n",
            "invalid body: invalid CSV: quoted field is followed by text",
        ),
    ] {
        let refused = take(Format::Csv, &all_kinds(), text).unwrap_err();
        assert_eq!(refused.to_string(), want);
    }
}

#[test]
fn first_rows_determine_the_columns() {
    let text = r#"{"timestamp":"T01Z","values":{"host":"a","load":3,"gone":null}}
        {"timestamp":"T02Z","values":{"up":true,"load":1.5}}"#;
    let (made, rows) = take(Format::Ndjson, &[], &text.replace("T0", T)).unwrap();
    let want = [("host", Dtype::String), ("load", Dtype::Float), ("up", Dtype::Boolean)];
    assert_eq!(made, want.map(|(name, dtype)| (name.to_owned(), dtype)));
    assert_eq!(row_texts(&rows), [r#"1 "a" 3.0 -"#, "2 - 1.5 true"]);
    let text = "open,timestamp,empty,note,up\n1,T01Z,,x,true\n2,T02Z,,7,false\n";
    let (made, rows) = take(Format::Csv, &[], &text.replace("T0", T)).unwrap();
    let want = [("open", Dtype::Float), ("note", Dtype::String), ("up", Dtype::Boolean)];
    assert_eq!(made, want.map(|(name, dtype)| (name.to_owned(), dtype)));
    assert_eq!(row_texts(&rows), [r#"1 1.0 "x" true"#, r#"2 2.0 "7" false"#]);
}

#[test]
fn rows_can_name_columns_in_any_order() {
    let names: Vec<String> = (0..9).map(|n| format!("c{n}")).collect();
    let dtypes: Vec<_> = names.iter().map(|name| (name.as_str(), Dtype::Integer)).collect();
    let columns = columns(&dtypes);
    let line = |row: usize| {
        let order = (0..9).map(|n| (n * (1 + row % 2) * 4 + row / 7) % 9);
        let members: Vec<_> = order.map(|n| format!("\"c{n}\":{n}")).collect();
        let members = members.join(",");
        format!("{{\"timestamp\":\"2026-07-30T21:57:{row:02}Z\",{members}}}\n")
    };
    let text: String = (0..40).map(line).collect();
    let (_, rows) = take(Format::Ndjson, &columns, &text).unwrap();
    let want: Vec<_> = (0..9).map(|n| Some(model::row::Value::Integer(n))).collect();
    assert!(rows.len() == 40 && rows.iter().all(|row| row.values == want));
}

#[test]
fn batch_of_more_than_the_maximum_of_rows_is_rejected() {
    let text = format!("{{\"timestamp\":\"{T}1Z\"}}\n").repeat(ROWS_MAX + 1);
    let refused = take(Format::Ndjson, &all_kinds(), &text).unwrap_err();
    assert!(matches!(refused, OperationError::TooMany { .. }), "{refused:?}");
}

#[test]
fn last_row_cannot_exceed_the_cells_by_creating_columns() {
    let wide = format!("{{\"timestamp\":\"{T}3Z\",\"a\":1,\"b\":2,\"c\":3}}");
    let text = format!("{{\"timestamp\":\"{T}1Z\"}}\n{{\"timestamp\":\"{T}2Z\",\"a\":1}}\n{wide}");
    for (cells_max, is_taken) in [(9, true), (8, false)] {
        let mut builder = ColumnBuilder::new(&[]).with_cells_max(cells_max);
        json::read_lines(&mut builder, &text).unwrap();
        let built = builder.finish(AppendMode::Replace);
        assert_eq!(built.is_ok(), is_taken, "{built:?}");
        assert!(is_taken || matches!(built, Err(OperationError::TooManyCells)));
    }
    // The columns of a Parquet file arrive one after the other, each with values for all rows.
    let mut builder = ColumnBuilder::new(&[]).with_cells_max(120);
    read_parquet(&mut builder, pyarrow("zstd-v2"), 1 << 20).unwrap();
    let built = builder.finish(AppendMode::Replace);
    assert!(matches!(built, Err(OperationError::TooManyCells)), "{built:?}");
}

#[test]
fn oversized_csv_header_is_rejected_early() {
    let beginning = |fields: &str, n: usize| format!("\u{feff}\n\ntimestamp{}", fields.repeat(n));
    for (text, want) in [
        (beginning(",a", 1 << 20), "the header has more than 1025 fields"),
        (beginning("a", 1 << 20), "the header exceeds 208075 bytes"),
    ] {
        let rejected = csv::check_header_length(text.as_bytes()).unwrap_err();
        assert_eq!(rejected.to_string(), want);
        let rejected = take(Format::Csv, &[], &text).unwrap_err();
        assert_eq!(rejected.to_string(), want);
    }
    let names: Vec<String> = (0..256).map(|idx| format!("\"{idx:0200}\"")).collect();
    let longest =
        format!("timestamp,{}\r\n2026-01-01T00:00:00Z{}", names.join(","), ",1".repeat(256));
    assert_eq!(take(Format::Csv, &[], &longest).unwrap().0.len(), 256);
    let wide = format!("timestamp,f\nT01Z{}\n", ",1".repeat(1 << 20));
    check_refused(Format::Csv, &wide, &[(0, None, "more than 1025 fields for 2 of the header")]);
}

#[test]
fn oversized_parquet_footer_is_rejected() {
    let footer = vec![0; 3 << 20];
    let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
    let file = [PARQUET_MAGIC, &footer, &length, PARQUET_MAGIC].concat();
    let rejected = read_parquet(&mut ColumnBuilder::new(&[]), file.into(), 1 << 26);
    let text = rejected.unwrap_err().to_string();
    assert!(text.contains("footer exceeds 2 MiB"), "{text}");
}

#[test]
fn decompressed_bodies_are_limited() {
    let text = "timestamp\n".repeat(1000);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let zstd = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (coding, body) in [
        (Coding::Identity, text.as_bytes()),
        (Coding::Gzip, gzip.as_slice()),
        (Coding::Gzip, [gzip.as_slice(), &gzip].concat().as_slice()),
        (Coding::Zstd, zstd.as_slice()),
    ] {
        let body = Bytes::copy_from_slice(body);
        let plain = decompress(coding, &body, 1 << 20).unwrap();
        assert!(plain.starts_with(text.as_bytes()) && plain.len().is_multiple_of(text.len()));
        if coding != Coding::Identity {
            let beginning = decompress(coding, &body, text.len() - 1).unwrap();
            assert_eq!(beginning.len(), text.len());
            let broken = decompress(coding, &body.slice(..body.len() - 5), 1 << 20);
            let is_malformed = matches!(broken, Err(OperationError::Invalid(_)));
            assert!(is_malformed, "{coding:?} {:?}", broken.map(|plain| plain.len()));
        }
    }
}

/// Reads a file that pyarrow wrote, from the test data of the crate `formats`.
fn pyarrow(name: &str) -> Bytes {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/datasets/parquet");
    std::fs::read(format!("{folder}/{name}.parquet")).unwrap().into()
}

#[test]
fn parquet_without_a_timestamp_or_with_unknown_columns_is_rejected() {
    let take = |columns: &[Column], bytes_max| {
        let mut builder = ColumnBuilder::new(columns);
        read_parquet(&mut builder, pyarrow("zstd-v2"), bytes_max)?;
        builder.finish(AppendMode::Replace)
    };
    let Err(OperationError::Rows(refusals)) = take(&all_kinds(), 1 << 20) else { panic!("taken") };
    assert_eq!(refusals.total, 50);
    let reasons: Vec<_> = refusals.rows.iter().filter_map(|one| one.column.as_deref()).collect();
    assert_eq!(reasons[..3], ["open_time", "open", "n"]);
    assert!(matches!(take(&[], 1 << 10), Err(OperationError::TooLarge)));
    // Pages compressed with gzip are rejected, since the library does not limit their decompressed
    // length.
    let mut builder = ColumnBuilder::new(&[]);
    read_parquet(&mut builder, pyarrow("gzip-groups"), 1 << 20).unwrap();
    let Err(OperationError::Rows(refusals)) = builder.finish(AppendMode::Replace) else {
        panic!("taken")
    };
    let reason = &refusals.rows[0].reason;
    assert_eq!(reason, "compressed with gzip; write it with snappy, zstd or none");
}

#[test]
fn damaged_parquet_is_rejected() {
    for name in ["zstd-v2", "plain-pages", "snappy-v2"] {
        let whole = pyarrow(name);
        // An odd step, so that all positions within aligned numbers are damaged.
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 0xff;
            drop(read_parquet(&mut ColumnBuilder::new(&[]), damaged.into(), 1 << 20));
        }
    }
}

#[test]
fn timestamps_within_the_same_microsecond_are_rejected() {
    let line =
        |fraction: &str| format!(r#"{{"timestamp":"2024-01-03T10:00:00.{fraction}Z","f":1}}"#);
    let lines = |fractions: &[&str]| {
        fractions.iter().map(|fraction| line(fraction)).collect::<Vec<_>>().join("\n")
    };
    let reason = "is in the same microsecond as that of another row";
    let two = lines(&["000000001", "000000002"]);
    check_refused(
        Format::Ndjson,
        &two,
        &[(0, Some("timestamp"), reason), (1, Some("timestamp"), reason)],
    );
    let one = lines(&["000001", "000001002"]);
    check_refused(Format::Ndjson, &one, &[(1, Some("timestamp"), reason)]);
    let apart = lines(&["000001", "000002002", "000003000", "000003"]);
    assert_eq!(take(Format::Ndjson, &all_kinds(), &apart).unwrap().1.len(), 3);
    check_refused(
        Format::Csv,
        "timestamp,f\n2016-12-31T23:59:60Z,1\n2024-01-01T10:00:00+25:00,1\n",
        &[(0, Some("timestamp"), "must be RFC 3339"), (1, Some("timestamp"), "must be RFC 3339")],
    );
}
