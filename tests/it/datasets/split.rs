//! `triptych datasets import --split-by`: a file becomes a dataset for each value of a field.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::timestamp;
use crate::support::datasets::Service;

/// Returns a CSV file of `n_rows` minutes of three symbols, ordered by symbol or by time.
fn prices(n_rows: u32, is_by_symbol: bool) -> String {
    let mut rows: Vec<_> = (0..n_rows)
        .flat_map(|minute| [("AAPL", 1), ("BRK/B", 2), ("MSFT", 3)].map(|it| (minute, it)))
        .collect();
    if is_by_symbol {
        rows.sort_by_key(|(_, (symbol, _))| *symbol);
    }
    let mut text = "date,symbol,close\n".to_owned();
    for (minute, (symbol, number)) in rows {
        writeln!(text, "{},{symbol},{}", timestamp(minute), minute * 10 + number).unwrap();
    }
    text
}

/// Returns the rows of the dataset of symbol number `number`.
fn rows_of(number: u32, n_rows: u32) -> Vec<Value> {
    let row = |minute: u32| json!({"timestamp": timestamp(minute), "close": minute * 10 + number});
    (0..n_rows).map(row).collect()
}

#[tokio::test]
async fn each_symbol_of_a_file_becomes_a_dataset() {
    let (service, home) = Service::with_home();
    for (name, is_by_symbol) in [("sorted", true), ("mixed", false)] {
        let file = format!("{name}.csv");
        home.write(&file, prices(12, is_by_symbol).as_bytes());
        let arguments =
            ["datasets", "import", &file, "--split-by", "symbol", "--batch", "5", "--json"];
        let checked = home.run(&[&arguments[..], &["--dry-run"]].concat());
        assert_eq!(
            (checked.code, home.run_ok(&["datasets", "list"]).as_str()),
            (0, ""),
            "{checked:?}"
        );
        let output = home.run(&arguments);
        assert_eq!(output.code, 0, "{output:?}");
        for output in [&checked, &output] {
            let report = |line: &str| serde_json::from_str::<Value>(line).unwrap();
            let reports: Vec<_> = output.out.lines().map(report).collect();
            let datasets: Vec<_> =
                reports.iter().map(|report| report["dataset_name"].as_str().unwrap()).collect();
            assert_eq!(datasets, ["AAPL", "BRK/B", "MSFT"].map(|it| format!("{name}_{it}")));
            assert!(reports.iter().all(|it| it["stored"] == 12 && it["skipped"] == 0));
        }
        for want in [
            &format!("{file} (symbol AAPL) is imported into a new dataset {name}_AAPL"),
            &format!("{file} (symbol MSFT): 12 rows read, 12 stored"),
            "imported 3 datasets: 36 rows",
        ] {
            assert!(output.err.contains(want), "`{want}`: {}", output.err);
        }
        for (number, symbol) in (1..).zip(["AAPL", "BRK/B", "MSFT"]) {
            let dataset = format!("{name}_{symbol}");
            assert_eq!(service.rows(&dataset).await, rows_of(number, 12), "{dataset}");
            let shown = home.run_ok(&["datasets", "show", &dataset, "--json"]);
            let shown: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(shown["metadata"], json!({"symbol": symbol}));
            home.run_ok(&["datasets", "delete", &dataset, "--yes"]);
        }
    }
}

#[tokio::test]
async fn stopped_split_resumes_and_a_template_names_the_datasets() {
    let (service, home) = Service::with_home();
    let text = prices(6, true).replace(&format!("{},MSFT,33", timestamp(3)), "x,MSFT,33");
    home.write("all.csv", format!("{text}{},,7\n", timestamp(0)).as_bytes());
    let arguments =
        ["datasets", "import", "all.csv", "--split-by", "symbol", "--dataset", "us_{symbol}_1min"];
    let why = home.run_err(&arguments);
    assert!(why.contains("all.csv:20: column symbol: no value"), "{why}");
    assert_eq!(home.run_ok(&["datasets", "list"]), "", "the whole file is read first");
    home.write("all.csv", text.as_bytes());
    let arguments = [&arguments[..], &["--batch", "2"]].concat();
    let output = home.run(&arguments);
    let want = "cannot import all.csv (symbol MSFT): import stopped after 3 rows: all.csv:17: ";
    assert!(output.code == 1 && output.err.contains(want), "{output:?}");
    let output = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    for want in [
        "all.csv (symbol AAPL) is stored already",
        "all.csv (symbol MSFT) resumes after row 3",
        "skipped all.csv:17: column date",
    ] {
        assert!(output.err.contains(want), "`{want}`: {}", output.err);
    }
    assert_eq!(service.rows("us_AAPL_1min").await, rows_of(1, 6));
    let mut want = rows_of(3, 6);
    want.remove(3);
    assert_eq!(service.rows("us_MSFT_1min").await, want);
    // The datasets exist now, and get the rows again.
    home.write("all.csv", prices(7, false).as_bytes());
    home.run_ok(&arguments);
    assert_eq!(service.rows("us_MSFT_1min").await, rows_of(3, 7));
}

#[tokio::test]
async fn split_by_a_missing_field_or_a_field_with_too_many_values_is_rejected() {
    let (_service, home) = Service::with_home();
    let mut text = "time,id,close\n".to_owned();
    for id in 0..1_001 {
        writeln!(text, "{},{id},1", timestamp(id)).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let control = format!("time,id,close\n{0},\u{1},1\n{0},\u{2},1\n", timestamp(0));
    home.write("b.csv", control.as_bytes());
    for (arguments, want) in [
        (&["a.csv", "--split-by", "id"][..], "more than 1000 different values"),
        (&["a.csv", "--split-by", "name"], "there is no field name, only time, id, close"),
        (&["b.csv", "--split-by", "time"], "column time is the time"),
        (&["b.csv", "--split-by", "id"], "have the same dataset b__"),
        (&["-", "--format", "csv", "--split-by", "id", "--dataset", "x"], "cannot be split"),
    ] {
        let why = home.run_err(&[&["datasets", "import"], arguments].concat());
        assert!(why.contains(want), "{arguments:?}: {why}");
    }
    assert_eq!(home.run_ok(&["datasets", "list"]), "");
}

#[tokio::test]
async fn import_that_stores_no_row_leaves_no_dataset() {
    let (service, home) = Service::with_home();
    let text = format!("time,k\n{},0x10\n{},1\n", timestamp(0), timestamp(1));
    home.write("hex.csv", text.as_bytes());
    let why = home.run_err(&["datasets", "import", "hex.csv"]);
    assert!(why.contains("import stopped after 0 rows") && why.contains("--type"), "{why}");
    assert_eq!(home.run_ok(&["datasets", "list", "--json"]), "");
    home.run_ok(&["datasets", "import", "hex.csv", "--type", "k=string"]);
    assert_eq!(service.rows("hex").await[0]["k"], "0x10");
    let why = home.run_err(&["datasets", "import", "hex.csv", "--type", "k=float"]);
    assert!(why.contains("column k is string") && why.contains("hint: choose another"), "{why}");
}
