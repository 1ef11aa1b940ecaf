//! Tests with JSON arrays.

use std::fmt::Write as _;

use super::*;

/// Checks the error that ends the reading of a file with the columns `t` and `x`, after the rows `want`.
#[track_caller]
fn check_ends(text: &str, want: &[&str], why: &str) {
    let (_folder, path, options) = file("a.json", text.as_bytes());
    let mut mapping = ColumnMapping::new("t", Some(TimeUnit::Seconds));
    mapping.column("x", MappedColumn::exact("x", Dtype::Float));
    let mut rows = match Rows::open(&path, options, mapping, Place::default()) {
        Ok(rows) => rows,
        Err(error) => {
            assert_eq!((error.to_string().as_str(), want.len()), (why, 0), "{text}");
            return;
        }
    };
    let mut found = Vec::new();
    let error = loop {
        match rows.next_row() {
            Ok(Some(Ok(row))) => found.push(format!("{} {:?}", row.place.line, row.row.values)),
            Ok(Some(Err(bad))) => found.push(format!("{} bad: {}", bad.line, bad.reason)),
            Ok(None) => break String::new(),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(
        (found.iter().map(String::as_str).collect::<Vec<_>>(), error.as_str()),
        (want.to_vec(), why),
        "{text}"
    );
}

#[test]
fn array_of_objects_is_read() {
    let at = "\"timestamp\": \"2026-03-01T00:00:00Z\"";
    let text = format!(
        "\u{feff}\n [ {{{at}, \"x\": 1.5, \"note\": \"],}}\\\"\"}} ,\n\n\
         {{{at}, \"values\": {{\"x\": -2e-3}}}},{{{at}, \"x\": [1], \"note\": null}} , {{\"x\":1}}]\n\n"
    );
    check(
        "a.json",
        &text,
        &[
            "1: 2026-03-01T00:00:00Z 1.5 '],}\"'",
            "2: 2026-03-01T00:00:00Z -0.002 -",
            "3: bad: column x: value is a list, which columns do not support",
            "4: bad: timestamp is missing",
        ],
    );
}

#[test]
fn array_of_arrays_is_read_with_and_without_a_header() {
    let rows = r#"[1704153600000,"1.50",7,null],[1704153660000,"2",8,true]"#;
    let want = ["2024-01-02T00:00:00Z 1.5 7 -", "2024-01-02T00:01:00Z 2 8 true"];
    let (one, two) = (format!("1: {}", want[0]), format!("2: {}", want[1]));
    check("a.json", &format!("[{rows}]"), &[&one, &two]);
    let (one, two) = (format!("2: {}", want[0]), format!("3: {}", want[1]));
    let text = format!(r#"[["open time","px","n","ok"],{rows}]"#);
    check("a.json", &text, &[&one, &two]);
    let (_folder, path, options) = file("a.json", text.as_bytes());
    assert_eq!(sniffed_mapping(&path, options).names(), ["px", "n", "ok"]);
    check(
        "a.json",
        "[[\"2024-01-02\",1],[\"2024-01-03\"],[\"2024-01-04\",1,2]]",
        &[
            "1: 2024-01-02T00:00:00Z 1",
            "2: bad: expected 2 values, found 1",
            "3: bad: expected 2 values, found 3",
        ],
    );
    // Numbers can be names, too.
    let (_folder, path, options) = file("a.json", b"[[\"t\",0.5],[1704153600,2]]");
    let options = ReadOptions { has_header: Some(true), ..options };
    let error = sniff(&path, options, &TimeTexts::default()).map(|it| it.fields[0].name.clone());
    assert_eq!(error.unwrap(), "t");
}

#[test]
fn reading_of_an_array_resumes_after_any_row() {
    let object = "[{\"t\":1e9,\"x\":1},\n{\"t\":2e9,\"x\":2} , {\"t\"}, {\"t\":3e9}, {\"t\":4e9}]";
    let array = "[[1704153600,1],[1704153660,2],[1704153720],[1704153780,4]]";
    let named = "[[\"t\",\"x\"],[1704153600,1],[1704153660,2],[1704153720],[1704153780,4]]";
    for text in [object, array, named] {
        let (_folder, path, options) = file("a.json", text.as_bytes());
        check_resumes(&path, options);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        let (_folder, path, options) = file("a.json.gz", &gzip.finish().unwrap());
        check_resumes(&path, options);
    }
}

#[test]
fn malformed_array_ends_with_an_error_after_its_valid_rows() {
    let one = "1 [Some(Float(1.0))]";
    let row = r#"{"t":1,"x":1}"#;
    check_ends(&format!("[{row},]"), &[one], "row 2 is neither an object nor an array");
    check_ends(&format!("[{row} {row}]"), &[one], "no comma after row 1");
    check_ends(&format!("[{row}] {row}"), &[one], "text after the end of the JSON array");
    check_ends(&format!("[{row},{{\"t\":2"), &[one], "JSON array is truncated at row 2");
    check_ends(&format!("[{row}"), &[one], "JSON array is truncated at row 2");
    check_ends(&format!("[{row}, 5]"), &[one], "row 2 is neither an object nor an array");
    check_ends("[1, 2]", &[], "row 1 is neither an object nor an array");
    check_ends("[", &[], "JSON array is truncated at row 1");
    check_ends("[[\"t\",\"t\"]]", &[], "duplicate column `t`");
    check_ends("[]", &[], "");
    check_ends(
        &format!(
            "[{row}, [1,2], {{\"t\":1,\"t\":2}}, {{\"t\":1,}}, {{\"t\":1,\"x\":123456789012345678901}}]"
        ),
        &[
            one,
            "2 bad: invalid type: sequence, expected an object with the values of a row",
            "3 bad: duplicate column t",
            "4 bad: trailing comma",
            "5 bad: 123456789012345678901 is not exact as a float; write it as a text",
        ],
        "",
    );
    let long = format!("[{row},{{\"x\":\"{}\"}}]", "a".repeat(1024 * 1024));
    check_ends(&long, &[one], "row 2 exceeds 1048576 bytes");
    let deep = format!("[{row},{{\"x\":{}1{}}}]", "[".repeat(1_000), "]".repeat(1_000));
    check_ends(&deep, &[one, "2 bad: column x: value is a list, which columns do not support"], "");
    let (_folder, path, options) = file("a.json", b" [ ] ");
    let error = sniff(&path, options, &TimeTexts::default()).unwrap_err();
    assert!(matches!(error, FileError::Empty), "{error}");
}

#[test]
fn large_integers_in_array_rows_are_read_exactly_or_rejected() {
    let at = 1_704_153_600;
    let mut text = format!("[[{at},1,\"2\"]");
    for number in ["9007199254740993", "\"9007199254740993\"", "123456789012345678901"] {
        write!(text, ",[{at},0.5,{number}]").unwrap();
    }
    text.push(']');
    let (_folder, path, options) = file("a.json", text.as_bytes());
    let mut mapping = ColumnMapping::new("column_1", None);
    mapping.column("column_2", MappedColumn::exact("a", Dtype::Float));
    mapping.column("column_3", MappedColumn::exact("b", Dtype::Float));
    let rows = all(&path, options, mapping, Place::default());
    assert_eq!(rows[0], "1: 2024-01-02T00:00:00Z 1 2");
    assert!(rows[1..].iter().all(|row| row.contains("is not exact as a float")), "{rows:?}");
}
