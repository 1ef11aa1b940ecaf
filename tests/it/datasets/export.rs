//! `triptych datasets export`: writes a range of a dataset to a file.

use std::fs;

use serde_json::{Value, json};

use super::{create, insert, minute_row, timestamp};
use crate::support::datasets::Service;

#[tokio::test]
async fn export_writes_the_format_of_the_file_name() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "out").await;
    let rows: Vec<_> = (0..300).map(minute_row).collect();
    insert(&http, dataset, &rows).await;
    let flat = service.rows("out").await;

    let csv = home.run_ok(&["datasets", "export", "out"]);
    assert_eq!(csv.lines().count(), 301);
    assert!(csv.starts_with("timestamp,open,high,low,close,volume\n"), "{csv}");
    for (name, is_lines) in [("out.json", false), ("out.ndjson", true)] {
        let output = home.run(&["datasets", "export", "out", "-o", name]);
        assert_eq!(output.code, 0, "{output:?}");
        assert!(output.err.contains(&format!("exported out to {name}: 300 rows")), "{output:?}");
        let text = fs::read_to_string(home.path(name)).unwrap();
        let got: Vec<Value> = if is_lines {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        assert_eq!(got, flat, "{name}");
    }
    let (start, end) = (timestamp(10), timestamp(20));
    let range = ["datasets", "export", "out", "--start", &start, "--end", &end];
    let text = home.run_ok(&[&range[..], &["--format", "ndjson"]].concat());
    assert_eq!(text.lines().count(), 11, "both ends are included");
    let buckets = home.run_ok(&["datasets", "export", "out", "--resolution", "1h"]);
    assert!(buckets.starts_with("timestamp,open,high,low,close,volume,count\n"), "{buckets}");
    assert_eq!(buckets.lines().count(), 6);
}

#[tokio::test]
async fn commands_print_only_the_selected_columns() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "out").await;
    insert(&http, dataset, &[minute_row(0), minute_row(1)]).await;
    let row = |minute| json!({"close": 100 + minute, "timestamp": timestamp(minute)});
    let lines = |arguments: &[&str]| -> Vec<Value> {
        let out = home.run_ok(&[&["datasets"], arguments, &["out", "--columns", "close"]].concat());
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    assert_eq!(lines(&["export", "--format", "ndjson"]), [row(0), row(1)]);
    assert_eq!(lines(&["rows", "--json", "--ascending"]), [row(0), row(1)]);
    let hours = ["rows", "--json", "--resolution", "1h"];
    assert_eq!(lines(&hours), [json!({"close": 101, "timestamp": timestamp(0)})]);
    let days = ["rows", "--json", "--resolution", "1d", "--time-zone", "Asia/Kathmandu"];
    let day = json!({"close": 101, "timestamp": "2026-02-28T18:15:00Z"});
    assert_eq!(lines(&days), [day]);
    assert_eq!(lines(&["follow", "--json", "--limit", "2"]), [row(0), row(1)]);
    let since = ["follow", "--json", "--limit", "2", "--since", "2000-01-01"];
    assert_eq!(lines(&since), [row(0), row(1)]);
    let flags = ["rows", "--json", "--resolution", "5m", "--fill", "null", "--complete"];
    insert(&http, dataset, &[minute_row(12)]).await;
    let bucket = |minute, close: Option<i64>| {
        let mut bucket = json!({"complete": true, "timestamp": timestamp(minute)});
        bucket
            .as_object_mut()
            .unwrap()
            .extend(close.map(|close| ("close".to_owned(), json!(close))));
        bucket
    };
    assert_eq!(lines(&flags), [bucket(10, Some(105)), bucket(5, None), bucket(0, Some(101))]);
    let why = home.run_err(&["datasets", "export", "out", "--columns", "clsoe"]);
    assert!(why.contains("there is no column clsoe"), "{why}");
    let mars = ["datasets", "rows", "out", "--resolution", "1d", "--time-zone", "Mars"];
    let rejected = home.run(&mars);
    assert_eq!(rejected.code, 2, "{rejected:?}");
    assert!(rejected.err.contains("a time zone such as Europe/Berlin"), "{rejected:?}");
}

#[tokio::test]
async fn coverage_command_lists_days_and_the_size_of_an_export() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "out").await;
    insert(&http, dataset, &(0..300).map(minute_row).collect::<Vec<_>>()).await;
    let told = home.run_ok(&["datasets", "coverage", "out"]);
    assert!(
        told.starts_with("day         rows\n2026-03-01   300\n300 rows from 2026-03-01T00:00:00Z"),
        "{told}"
    );
    assert!(told.trim_end().ends_with("kB as csv"), "{told}");
    let json = home.run_ok(&["datasets", "coverage", "out", "--end", &timestamp(9), "--json"]);
    let body: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&body["rows"], &body["days"][0]["rows"]), (&json!(10), &json!(10)));
}

#[tokio::test]
async fn line_breaks_in_texts_are_not_counted_as_exported_rows() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let body = json!({"name": "notes", "columns": [{"name": "note", "dtype": "string"}]});
    let (_, created) = http.post("/api/datasets/", &body).await;
    let row =
        |minute: u32, note: &str| json!({"timestamp": timestamp(minute), "values": {"note": note}});
    let rows = [row(0, "a\nb \"c\"\n"), row(1, "}{\\"), row(2, "plain")];
    insert(&http, created["id"].as_i64().unwrap(), &rows).await;
    for name in ["notes.csv", "notes.json", "notes.ndjson"] {
        let output = home.run(&["datasets", "export", "notes", "-o", name]);
        assert!(output.err.contains(&format!("to {name}: 3 rows")), "{output:?}");
    }
}

#[tokio::test]
async fn exported_file_appears_only_when_it_is_complete() {
    let (service, home) = Service::with_home();
    home.write("old.csv", b"as it was");
    let why = home.run_err(&["datasets", "export", "none", "-o", "old.csv"]);
    assert!(why.contains("no dataset none"), "{why}");
    create(&service.http(), "some").await;
    let why = home.run_err(&[
        "datasets",
        "export",
        "some",
        "-o",
        "old.csv",
        "--format",
        "csv",
        "--start",
        "2026-03-02",
        "--end",
        "2026-03-01",
    ]);
    assert!(why.contains("start must not be after end"), "{why}");
    assert_eq!(fs::read(home.path("old.csv")).unwrap(), b"as it was");
    let left: Vec<_> =
        fs::read_dir(home.path("")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["old.csv"], "nothing unfinished is left");
    home.run_ok(&["datasets", "export", "some", "-o", "old.csv"]);
    assert_eq!(fs::read(home.path("old.csv")).unwrap(), b"timestamp,open,high,low,close,volume\n");
}

#[tokio::test]
async fn exported_file_is_imported_unchanged() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "one").await;
    let mut rows: Vec<_> = (0..50).map(minute_row).collect();
    rows[7] = json!({"timestamp": timestamp(7), "values": {"close": 0.1}});
    insert(&http, dataset, &rows).await;
    for name in ["two.csv", "two.ndjson"] {
        home.run_ok(&["datasets", "export", "one", "-o", name]);
        home.run_ok(&["datasets", "import", name]);
        assert_eq!(service.rows("two").await, service.rows("one").await, "{name}");
    }
}

#[tokio::test]
async fn texts_that_look_like_missing_values_are_exported_and_imported_unchanged() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let body = json!({"name": "notes", "columns": [{"name": "note", "dtype": "string"}]});
    let (_, created) = http.post("/api/datasets/", &body).await;
    let texts = ["NA", "", "null", "None", " nan ", "#N/A", "-", "n/a", "plain"];
    let mut rows: Vec<_> = (0..)
        .zip(texts)
        .map(|(minute, note)| json!({"timestamp": timestamp(minute), "values": {"note": note}}))
        .collect();
    rows.push(json!({"timestamp": timestamp(20), "values": {"note": null}}));
    insert(&http, created["id"].as_i64().unwrap(), &rows).await;
    home.run_ok(&["datasets", "export", "notes", "-o", "back.csv"]);
    home.run_ok(&["datasets", "import", "back.csv"]);
    assert_eq!(service.rows("back").await, service.rows("notes").await);
}
