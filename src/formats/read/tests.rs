mod foreign_files;
mod json_array;
mod selection;

use std::io::Write as _;
use std::path::PathBuf;

use model::dataset::Dtype;
use model::row::Value;
use model::timestamp::Timestamp;

use super::column_mapping::MappedColumn;
use super::sniff::{SniffedFields, sniff};
use super::time_text::TimeTexts;
use super::timestamps::TimeUnit;
use super::*;

/// Writes a file with `text` and returns its path and options to read it.
fn file(name: &str, text: &[u8]) -> (tempfile::TempDir, PathBuf, ReadOptions) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let format = Format::of_name(&path).unwrap();
    (folder, path, ReadOptions::new(format))
}

/// Writes a CSV file with `text` and returns its path and options to read it.
fn csv(text: &str) -> (tempfile::TempDir, PathBuf, ReadOptions) {
    file("a.csv", text.as_bytes())
}

/// Sniffs a CSV file with `text`.
fn sniff_csv(text: &str) -> Result<SniffedFields, FileError> {
    let (_folder, path, options) = csv(text);
    sniff(&path, options, &TimeTexts::default())
}

/// Sniffs the file and maps every field except the timestamp to a column.
fn try_sniffed_mapping(
    path: &Path,
    options: ReadOptions,
    texts: TimeTexts,
) -> Result<ColumnMapping, String> {
    let survey = sniff(path, options, &texts).map_err(|error| error.to_string())?;
    let time = survey.time(None, None).map_err(|error| error.to_string())?;
    let decimal = survey.decimal().map_err(|error| error.to_string())?;
    let mut mapping = ColumnMapping::with_time(&time, texts).with_numbers(decimal, Vec::new());
    for field in survey.fields.iter().filter(|field| !time.contains(&field.name)) {
        mapping.column(&field.name, MappedColumn::exact(&field.name, field.dtype));
    }
    Ok(mapping)
}

fn sniffed_mapping(path: &Path, options: ReadOptions) -> ColumnMapping {
    try_sniffed_mapping(path, options, TimeTexts::default()).unwrap()
}

/// Reads all of a file after `from`. Returns errors, and rows as timestamp, line and values.
fn all(path: &Path, options: ReadOptions, mapping: ColumnMapping, from: Place) -> Vec<String> {
    let mut rows = Rows::open(path, options, mapping, from).unwrap();
    let mut found = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        found.push(match row {
            Ok(PlacedRow { row, place, .. }) => {
                let values = row.values.iter().map(|value| match value {
                    None => "-".to_owned(),
                    Some(Value::Float(number)) => number.to_string(),
                    Some(Value::Integer(number)) => format!("{number}i"),
                    Some(Value::Boolean(truth)) => truth.to_string(),
                    Some(Value::String(text)) => format!("'{text}'"),
                });
                let values: Vec<_> = values.collect();
                format!("{}: {} {}", place.line, row.timestamp, values.join(" "))
            }
            Err(BadRow { line, reason }) => format!("{line}: bad: {reason}"),
        });
    }
    found
}

#[track_caller]
fn check(name: &str, text: &str, want: &[&str]) {
    let (_folder, path, options) = file(name, text.as_bytes());
    let mapping = sniffed_mapping(&path, options);
    assert_eq!(all(&path, options, mapping, Place::default()), want);
}

/// Checks that a CSV file has `want` as its rows.
#[track_caller]
fn check_csv(text: &str, want: &[&str]) {
    check("a.csv", text, want);
}

/// Checks which field of a CSV file is chosen as the timestamp, if the option names the field `named`.
#[track_caller]
fn check_named_time(text: &str, named: Option<&str>, want: &str) {
    let survey = sniff_csv(text).unwrap();
    let time = survey.time(named, None).map_or_else(|error| error.to_string(), |time| time.name);
    assert_eq!(time, want);
}

#[test]
fn csv_is_read_with_quotes_delimiters_and_line_numbers() {
    check_csv(
        "\u{feff}Date;note;close\r\n2026-03-01;\"a;\nb\";1.5\r\n\n2026-03-02;c;\r\n",
        &["2: 2026-03-01T00:00:00Z 'a;\nb' 1.5", "5: 2026-03-02T00:00:00Z 'c' -"],
    );
    check("a.tsv", "t\tx\n1700000000000\t1\n", &["2: 2023-11-14T22:13:20Z 1"]);
    check_csv(",when,x\n0,2026-03-01,true", &["2: 2026-03-01T00:00:00Z 0 true"]);
}

#[test]
fn invalid_row_is_reported_with_its_line_and_reading_continues() {
    let text = "time,close\n2026-03-01,1\n2026-03-02,x\n2026-03-03\nnever,2\n,3\n2026-03-05,4\n";
    let (_folder, path, options) = csv(text);
    let mut mapping = ColumnMapping::new("time", None);
    mapping.column("close", MappedColumn::exact("close", Dtype::Float));
    let want = [
        "2: 2026-03-01T00:00:00Z 1",
        "3: bad: column close: `x` is not of type float",
        "4: bad: expected 2 fields, found 1",
        "5: bad: column time: `never` is not a timestamp",
        "6: bad: column time: `` is not a timestamp",
        "7: 2026-03-05T00:00:00Z 4",
    ];
    assert_eq!(all(&path, options, mapping, Place::default()), want);
}

#[test]
fn ndjson_is_read_with_flat_rows_and_values_objects() {
    let at = "2026-03-01T00:00:00Z";
    check(
        "a.ndjson",
        &format!(
            "{{\"timestamp\":\"{at}\",\"a\":1}}\n\n\u{feff}{{\"id\":4,\"timestamp\":\"{at}\",\"values\":{{\"a\":2.5,\"b\":\"x\"}}}}\n{{\"a\":1}}\n{{\"a\"\n"
        ),
        &[
            "1: 2026-03-01T00:00:00Z 1 -",
            "3: 2026-03-01T00:00:00Z 2.5 'x'",
            "4: bad: timestamp is missing",
            "5: bad: EOF while parsing an object",
        ],
    );
}

#[test]
fn unmapped_field_is_rejected_only_if_it_has_a_value() {
    let (_folder, path, options) =
        file("a.jsonl", b"{\"t\":1,\"a\":1,\"b\":null}\n{\"t\":2,\"b\":1}\n");
    let mut mapping = ColumnMapping::new("t", Some(TimeUnit::Seconds));
    mapping.column("a", MappedColumn::exact("a", Dtype::Integer));
    let want = [
        "1: 1970-01-01T00:00:01Z 1i",
        "2: bad: column b: the dataset has no such column, and the field is not mapped to another",
    ];
    assert_eq!(all(&path, options, mapping, Place::default()), want);
}

/// Reads a whole file. Then resumes after each of its rows and expects the rows that follow.
#[track_caller]
fn check_resumes(path: &Path, options: ReadOptions) {
    let mapping = sniffed_mapping(path, options);
    let whole = all(path, options, mapping.clone(), Place::default());
    assert!(whole.len() > 1);
    let mut rows = Rows::open(path, options, mapping.clone(), Place::default()).unwrap();
    let mut n_read = 0;
    while let Some(row) = rows.next_row().unwrap() {
        n_read += 1;
        let Ok(PlacedRow { place, .. }) = row else { continue };
        let kept = Place::of_numbers(place.to_numbers());
        assert_eq!(all(path, options, mapping.clone(), kept), whole[n_read..], "after {n_read}");
    }
}

#[test]
fn reading_a_file_resumes_after_any_row() {
    let text = "t,x\n2026-03-01,\"1\"\n\n2026-03-02,\"2\"\r\n2026-03-03,z\n2026-03-04,\"4\n\"\n2026-03-05,5";
    let (_folder, path, options) = csv(text);
    check_resumes(&path, options);
    let ndjson = "{\"t\":1e9,\"x\":1}\n\n{\"t\":2e9,\"x\":2}\n{\"t\"\n{\"t\":3e9}\n";
    let (_folder, path, options) = file("a.ndjson", ndjson.as_bytes());
    check_resumes(&path, options);

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let (_folder, path, options) = file("a.csv.gz", &gzip.finish().unwrap());
    check_resumes(&path, options);
    check_resumes(&parquet("gzip-groups"), PARQUET);
}

/// Options for reading the files written by pyarrow.
const PARQUET: ReadOptions = ReadOptions::new(Format::Parquet);

/// Returns the path of a file that `make.py`, in the same directory, wrote with pyarrow.
fn parquet(name: &str) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/datasets/parquet");
    data.join(format!("{name}.parquet"))
}

/// Returns the rows that `make.py` writes, with these columns.
fn pyarrow_rows(columns: &[&str]) -> Vec<String> {
    let begin: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
    let row = |i: u32| {
        let timestamp = begin + std::time::Duration::from_secs(60 * u64::from(i));
        let values = columns.iter().map(|column| match *column {
            "open" if i % 7 == 3 => "-".to_owned(),
            "open" => (f64::from(i) * 0.25).to_string(),
            "n" => format!("{}i", i64::from(i * i) - 5),
            "small" if i > 40 => "-".to_owned(),
            "small" => format!("{i}i"),
            "flag" => i.is_multiple_of(3).to_string(),
            "name" if i % 5 == 4 => "-".to_owned(),
            "name" => format!("'{}'", ["a", "b", "ü"][i as usize % 3]),
            _ => "-".to_owned(),
        });
        format!("{}: {timestamp} {}", i + 1, values.collect::<Vec<_>>().join(" "))
    };
    (0..50).map(row).collect()
}

#[track_caller]
fn check_parquet(name: &str, columns: &[&str]) {
    let path = parquet(name);
    let mapping = sniffed_mapping(&path, PARQUET);
    assert_eq!(mapping.names(), columns, "{name}");
    assert_eq!(all(&path, PARQUET, mapping, Place::default()), pyarrow_rows(columns), "{name}");
}

#[test]
fn parquet_files_of_pyarrow_are_read_with_all_encodings() {
    let columns = ["open", "n", "small", "flag", "name", "none"];
    for name in ["default", "zstd-v2", "gzip-groups", "plain-pages", "snappy-v2", "int96", "millis"]
    {
        check_parquet(name, &columns);
    }
    check_parquet("required", &["n"]);
    check_parquet("delta", &["n"]);
}

#[test]
fn whole_decimals_of_parquet_are_read_exactly_or_rejected() {
    let path = parquet("decimal");
    let read = |dtype| {
        let mut mapping = ColumnMapping::new("open_time", None);
        mapping.column("x", MappedColumn::exact("x", dtype));
        let rows = all(&path, PARQUET, mapping, Place::default());
        let value = |row: String| row.rsplit("Z ").next().unwrap().to_owned();
        rows.into_iter().map(value).collect::<Vec<_>>()
    };
    let inexact = |line: usize, number: &str, hint: &str| {
        format!("{line}: bad: column x: {number} is not exact as a float: --type x={hint}")
    };
    let floats = [
        "1.5".to_owned(),
        "9007199254740992".to_owned(),
        inexact(3, "`9007199254740993.0`", "integer keeps it"),
        inexact(4, "`-9007199254740993.0`", "integer keeps it"),
        "9223372036854776000".to_owned(),
        "123456789012345.67".to_owned(),
    ];
    assert_eq!(read(Dtype::Float), floats);
    let integers = [
        "1: bad: column x: 1.5 is not of type integer",
        "9007199254740992i",
        "9007199254740993i",
        "-9007199254740993i",
        "5: bad: column x: 9223372036854775808 exceeds the range of 64-bit integers",
        "6: bad: column x: 123456789012345.67 is not of type integer",
    ];
    assert_eq!(read(Dtype::Integer), integers);
}

#[test]
fn unsupported_parquet_is_rejected_with_a_reason() {
    let nested = sniff(&parquet("nested"), PARQUET, &TimeTexts::default()).unwrap();
    let unfit = nested.fields[0].unfit.as_deref();
    assert_eq!(unfit, Some("values are lists, which datasets do not support"));
    let whole = std::fs::read(parquet("default")).unwrap();
    for end in [0, 3, 8, whole.len() - 1] {
        let (_folder, path, _) = file("cut.parquet", &whole[..end]);
        let error = sniff(&path, PARQUET, &TimeTexts::default()).unwrap_err();
        assert!(matches!(error, FileError::Invalid(_)), "{error}");
    }
}

/// A wrong value is found before any row is stored. An ignored column is not read.
#[test]
fn parquet_file_is_checked_completely_except_for_ignored_columns() {
    let path = parquet("default");
    let mapping = sniffed_mapping(&path, PARQUET);
    assert_eq!(judge(&path, PARQUET, &mapping, Place::default()).unwrap(), None);
    let mut mapping = ColumnMapping::new("open_time", None);
    mapping.column("name", MappedColumn::exact("name", Dtype::Integer));
    mapping.leave_out("n");
    for field in ["open", "small", "flag", "none"] {
        mapping.leave_out(field);
    }
    let bad = judge(&path, PARQUET, &mapping, Place::default()).unwrap().unwrap();
    assert_eq!((bad.line, bad.reason.as_str()), (1, "column name: `a` is not of type integer"));
    // Overwrites all of the column `n`, which does not matter if the column is ignored.
    let whole = std::fs::read(&path).unwrap();
    let metadata = ::parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::from(whole.clone()))
        .unwrap();
    let (begin, length) = metadata.row_group(0).column(2).byte_range();
    let (begin, length) = (usize::try_from(begin).unwrap(), usize::try_from(length).unwrap());
    let mut damaged = whole;
    damaged[begin..begin + length].fill(0);
    let (_folder, path, options) = file("damaged.parquet", &damaged);
    let mut mapping = mapping.clone();
    mapping.leave_out("name");
    mapping.column("flag", MappedColumn::exact("flag", Dtype::Boolean));
    assert_eq!(judge(&path, options, &mapping, Place::default()).unwrap(), None);
    mapping.column("n", MappedColumn::exact("n", Dtype::Integer));
    let error = judge(&path, options, &mapping, Place::default()).unwrap_err().to_string();
    assert_eq!(error, "column n: file is damaged");
}

/// The crate descends into groups recursively and allocates memory for declared numbers.
#[test]
fn parquet_footer_that_declares_more_than_it_has_is_damaged() {
    // An element of the schema has a repetition, a name and a number of children of type `code`.
    let typed = |code: u8, n_children: &[u8]| {
        [&[0x35, 0, 0x18, 1, b'x', 0x10 | code], n_children, &[0]].concat()
    };
    let element = |n_children: &[u8]| typed(5, n_children);
    let schema = |elements: &[u8], n: &[u8]| [&[0x15, 4, 0x19, 0xfc], n, elements, &[0]].concat();
    let too_many = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    let deep = [element(&[2]).repeat(1_000), element(&[0])].concat();
    let as_set = [&[0x15, 4, 0x1a, 0x1c], &element(&too_many)[..], &[0]].concat();
    for footer in [
        schema(&deep, &[0xe9, 7]),             // 1 000 groups in each other
        schema(&element(&too_many), &[1]),     // 2^31 - 1 children
        schema(&typed(6, &too_many), &[1]),    // as a number of 64 bits
        as_set,                                // the schema as a set
        vec![0x15, 4, 0x09, 0x64, 0x12, 0, 0], // a list of booleans in an unknown field
        schema(&element(&[0]), &too_many),     // 2^31 - 1 elements
        [&[0x15, 4, 0x39, 0xfc], &too_many[..]].concat(), // 2^31 - 1 row groups
    ] {
        let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
        let whole = [b"PAR1", &footer[..], &length, b"PAR1"].concat();
        let (_folder, path, options) = file("declared.parquet", &whole);
        let error = sniff(&path, options, &TimeTexts::default()).unwrap_err();
        assert_eq!(error.to_string(), "file is damaged");
    }
}

/// A damaged file results in an error or in other rows, but never in a panic.
#[test]
fn reading_a_damaged_parquet_file_does_not_panic() {
    let whole = std::fs::read(parquet("zstd-v2")).unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let (_folder, path, options) = file("damaged.parquet", &damaged);
        let Ok(survey) = sniff(&path, options, &TimeTexts::default()) else { continue };
        let Ok(time) = survey.time(None, None) else { continue };
        let mapping = ColumnMapping::with_time(&time, TimeTexts::default());
        let Ok(mut rows) = Rows::open(&path, options, mapping, Place::default()) else { continue };
        while let Ok(Some(_)) = rows.next_row() {}
    }
}

#[test]
fn timestamp_column_is_detected_by_name_or_values() {
    let check = check_named_time;
    check("a,Open Time\n1,1700000000\n", None, "Open Time");
    check("a,b\n1,2026-03-01\n", None, "b");
    check("price,when\n7,1700000000000\n", None, "when");
    check("date,ts\nx,1700000000\n", None, "ts");
    check("a,b\n1,2\n", Some("B"), "b");
    let none = "no column with timestamps among a, b: name it with --time-column, and its format with \
                --time-format";
    check("a,b\n1,2\n", None, none);
    let far = "no column with timestamps among t, b: name it with --time-column, and its format with \
               --time-format; t: 0001-01-01T00:00:00Z is outside the years 1900 to 2100";
    check("t,b\n0001-01-01,x\n9999-12-01,y\n", None, far);
    check("a,b\n1,2\n", Some("c"), "no column c among a, b");
    // A few invalid values do not change the choice of the column. Their rows are reported when the file
    // is read.
    check("time,close,when\n2026-03-01,1,2026-03-01\nnever,2,2026-03-02\n", None, "time");
    let day = |day: u32| if day == 15 { "x".to_owned() } else { format!("2026-03-{day}") };
    let lines: Vec<_> = (10..30).map(|row| format!("{row},{}\n", day(row))).collect();
    let text = format!("a,b\n{}", lines.concat());
    check(&text, None, "b");
    check("a,b\n1,2026-03-01\n2,x\n", None, none);
}

#[test]
fn row_with_an_invalid_timestamp_is_reported_and_other_rows_are_read() {
    check_csv(
        "time,close\n1700000000,1\n1700000060,2\n9999999999999999999,3\n1700000180,4\n",
        &[
            "2: 2023-11-14T22:13:20Z 1",
            "3: 2023-11-14T22:14:20Z 2",
            "4: bad: column time: `9999999999999999999` is not a timestamp",
            "5: 2023-11-14T22:16:20Z 4",
        ],
    );
}

#[test]
fn number_that_json_does_not_support_is_reported_with_a_remedy() {
    let line =
        |close: &str| format!("{{\"time\":\"2026-03-01\",\"note\":\"a NaN\",\"close\":{close}}}\n");
    for close in ["NaN", "Infinity", "-Infinity"] {
        let want = format!("{close} is not valid JSON: write null");
        let first = "1: 2026-03-01T00:00:00Z 'a NaN' 1".to_owned();
        let bad = format!("2: bad: {want}");
        check("a.ndjson", &(line("1") + &line(close)), &[&first, &bad]);
    }
}

#[test]
fn file_without_valid_rows_is_rejected() {
    #[track_caller]
    fn check(name: &str, text: &str, want: &str) {
        let (_folder, path, options) = file(name, text.as_bytes());
        assert_eq!(
            sniff(&path, options, &TimeTexts::default()).unwrap_err().to_string(),
            want,
            "{text:?}"
        );
    }
    for text in ["", "\n\n", "time,close\n", "time,close"] {
        check("a.csv", text, "file has no rows");
    }
    check("a.ndjson", "\n", "file has no rows");
    let want = "lines end in CR only: convert them, for example with `tr '\\r' '\\n'`";
    check("a.csv", "time,close\r2026-03-01,1\r2026-03-02,2\r", want);
    let line = r#"{"time":"2026-03-01","close":1}"#;
    check("a.ndjson", &format!("{line}\r{line}\r"), want);
    let want = "line 2: expected 2 fields, found 1";
    check("a.csv", "time,close\n2026-03-01\n", want);
}

#[test]
fn columns_of_date_and_time_of_day_are_combined_to_a_timestamp() {
    let want = ["2: 2026-01-02T09:30:00Z 1.5", "3: 2026-01-02T09:31:00Z 2"];
    // Layouts of Stooq, of MetaTrader (with angle brackets), and of bulk files from Stooq.
    check_csv("Date,Time,Open\n2026-01-02,09:30:00,1.5\n2026-01-02,09:31:00,2\n", &want);
    check("a.tsv", "<DATE>\t<TIME>\t<OPEN>\n2026.01.02\t09:30\t1.5\n2026.01.02\t09:31\t2\n", &want);
    check_csv("DATE,TIME,OPEN\n20260102,093000,1.5\n20260102,093100,2\n", &want);
    // A field with both date and time is preferred to separate fields.
    check_csv(
        "timestamp,Date,Time\n1700000000,2026-01-02,09:30\n",
        &["2: 2023-11-14T22:13:20Z '2026-01-02' '09:30'"],
    );
}

#[test]
fn first_record_with_numbers_is_not_a_header() {
    // Two layouts of HistData and the layout of Binance's klines, all of them without a header.
    check_csv(
        "20120201 000000;1.5;7\n20120201 000100;2;8\n",
        &["1: 2012-02-01T00:00:00Z 1.5 7", "2: 2012-02-01T00:01:00Z 2 8"],
    );
    check_csv(
        "\u{feff}2012.02.01,00:00,1.5\n2012.02.01,00:01,2\n",
        &["1: 2012-02-01T00:00:00Z 1.5", "2: 2012-02-01T00:01:00Z 2"],
    );
    check_csv("1700000000000,1.5,0\n", &["1: 2023-11-14T22:13:20Z 1.5 0"]);
    let (_folder, path, options) = csv("x,1\n1700000000000,2\n");
    let survey_as = |has_header| {
        let options = ReadOptions { has_header, ..options };
        let survey = sniff(&path, options, &TimeTexts::default()).unwrap();
        survey.fields.iter().map(|field| field.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(survey_as(None), "x 1");
    assert_eq!(survey_as(Some(false)), "column_1 column_2");
    let (_folder, path, options) =
        csv("1700000000000,1.5\n1700000060000,2\n1700000120000,3\n1700000180000,4\n");
    check_resumes(&path, options);
}

#[test]
fn number_with_the_digits_of_a_date_is_read_as_a_date() {
    check_csv("date,x\n20260101,1\n", &["2: 2026-01-01T00:00:00Z 1"]);
    check("a.ndjson", "{\"t\":20260101153000,\"x\":1}\n", &["1: 2026-01-01T15:30:00Z 1"]);
}

#[test]
fn ambiguous_dates_are_rejected_with_their_formats() {
    #[track_caller]
    fn check(text: &str, want: &str) {
        let error = sniff_csv(text).unwrap().time(None, None).unwrap_err().to_string();
        assert!(error.starts_with("ambiguous dates in column") && error.contains(want), "{error}");
    }
    check("Date,Open\n01/02/2026,1\n", "--time-format '%d/%m/%Y' or '%m/%d/%Y'");
    check("Day,Time,Open\n1.2.2026,9:30,1\n", "--time-format '%d.%m.%Y %H:%M' or");
    let texts = TimeTexts { format: Some("%d/%m/%Y %H:%M".parse().unwrap()), ..Default::default() };
    let (_folder, path, options) = csv("Date,Time,Open\n01/02/2026,09:30,1\n");
    let survey = sniff(&path, options, &texts).unwrap();
    let mut mapping = ColumnMapping::with_time(&survey.time(None, None).unwrap(), texts);
    mapping.column("Open", MappedColumn::exact("open", Dtype::Float));
    assert_eq!(all(&path, options, mapping, Place::default()), ["2: 2026-02-01T09:30:00Z 1"]);
}

#[test]
fn numeric_column_is_detected_despite_a_few_texts_and_missing_values() {
    check_csv(
        "t,px\n2026-03-01,1.5\n2026-03-02,-\n2026-03-03,#N/A\n2026-03-04,inf\n\
         2026-03-05,\"1,234.5\"\n2026-03-06,7\n",
        &[
            "2: 2026-03-01T00:00:00Z 1.5",
            "3: 2026-03-02T00:00:00Z -",
            "4: 2026-03-03T00:00:00Z -",
            "5: bad: column px: `inf` is not of type float",
            "6: 2026-03-05T00:00:00Z 1234.5",
            "7: 2026-03-06T00:00:00Z 7",
        ],
    );
    check_csv(
        "t;px;n\n2026-03-01;1,5;1.234\n2026-03-02;2;-\n",
        &["2: 2026-03-01T00:00:00Z 1.5 1234", "3: 2026-03-02T00:00:00Z 2 -"],
    );
    // A dash among texts is a value.
    check_csv(
        "t,note\n2026-03-01,-\n2026-03-02,a\n",
        &["2: 2026-03-01T00:00:00Z '-'", "3: 2026-03-02T00:00:00Z 'a'"],
    );
}

#[test]
fn ambiguous_decimal_mark_is_rejected() {
    #[track_caller]
    fn check(text: &str, example: Option<&str>) {
        let error = sniff_csv(text).unwrap().decimal().err().map(|error| error.to_string());
        let is_right = match (&error, example) {
            (Some(error), Some(example)) => {
                error.contains(&format!("px: `{example}`")) && error.contains("--decimal")
            }
            (error, _) => error.is_none() && example.is_none(),
        };
        assert!(is_right, "{text}: {error:?}");
    }
    check("t,px\n2026-03-01,\"1,234\"\n", Some("1,234"));
    // A pair of numbers is no evidence for the numbers of another column.
    check("t,px,pair\n2026-03-01,3.459,\"1,5\"\n", Some("3.459"));
    check("t;px;open\n2026-03-01;3.459;1,5\n", None);
    check("\"t\";\"px\";\"open\"\n\"2026-03-01\";\"3.459\";\"1,5\"\n", None);
    // One of these numbers is more likely 1001 than 1.001.
    check("t;px\n2026-03-01;980\n2026-03-02;1.001\n", Some("1.001"));
    check("t;px\n2026-03-01;980\n2026-03-02;1.001\n2026-03-03;1.5\n", None);
    check("t;px\n2026-03-01;0\n2026-03-02;1.001\n", None);
}

/// The same CSV compressed by `gzip`, `zstd`, `bzip2`, `xz` and `zip`.
#[test]
fn compressed_files_are_read_and_resumed() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/datasets/compressed");
    let want = [
        "2: 2026-03-01T00:00:00Z 1",
        "3: 2026-03-02T00:00:00Z 2",
        "4: 2026-03-03T00:00:00Z 3",
        "5: 2026-03-04T00:00:00Z 4",
    ];
    for name in ["a.csv.gz", "a.csv.zst", "a.csv.bz2", "a.csv.xz", "a.zip", "stored.zip"] {
        let path = data.join(name);
        let format = Format::of_file(&path).unwrap().unwrap();
        let options = ReadOptions::new(format);
        assert_eq!(
            all(&path, options, sniffed_mapping(&path, options), Place::default()),
            want,
            "{name}"
        );
        check_resumes(&path, options);
    }
    let error = |name: &str| {
        let options = ReadOptions::new(Format::Csv);
        let error = sniff(&data.join(name), options, &TimeTexts::default()).unwrap_err();
        std::error::Error::source(&error).unwrap().to_string()
    };
    assert!(
        error("two.zip").contains("several files, extract one: a.csv, b.csv"),
        "{}",
        error("two.zip")
    );
    assert!(error("damaged.zip").contains("damaged"), "{}", error("damaged.zip"));
}
