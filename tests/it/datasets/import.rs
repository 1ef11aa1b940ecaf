//! `triptych datasets import`: files become datasets that have each row once, however often the import
//! is stopped.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::timestamp;
use crate::support::datasets::Service;
use crate::support::{ROOT, wait};

/// Returns a flat row for a minute, with one price.
fn flat(minute: u32, close: f64) -> Value {
    json!({"timestamp": timestamp(minute), "close": close})
}

#[tokio::test]
async fn csv_file_is_imported_as_a_dataset_once() {
    let (service, home) = Service::with_home();
    let text = "Open Time;px;note;ok\n1772323200000;1.5;\"a;b\";true\n1772323260000;2;;false\n";
    home.write("btc.csv", text.as_bytes());
    let arguments =
        ["datasets", "import", "btc.csv", "--map", "px=price", "--metadata", "ticker=btc"];
    for _ in 0..2 {
        let output = home.run(&arguments);
        assert_eq!((output.code, output.out.as_str()), (0, ""), "{output:?}");
        for want in ["time     Open Time", "float    price, from px: `1.5`", "imported btc.csv"] {
            assert!(output.err.contains(want), "`{want}`: {}", output.err);
        }
        let want = [
            json!({"timestamp": timestamp(0), "price": 1.5, "note": "a;b", "ok": true}),
            json!({"timestamp": timestamp(1), "price": 2, "ok": false}),
        ];
        assert_eq!(service.rows("btc").await, want);
    }
    let shown: Value =
        serde_json::from_str(&home.run_ok(&["datasets", "show", "btc", "--json"])).unwrap();
    assert_eq!(shown["metadata"], json!({"ticker": "btc"}));
    let columns: Vec<_> = shown["columns"].as_array().unwrap().iter().collect();
    let dtypes: Vec<_> = columns.iter().map(|column| column["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, ["float", "string", "boolean"]);
}

#[tokio::test]
async fn importing_in_merge_mode_changes_only_columns_with_a_value() {
    let (service, home) = Service::with_home();
    let text = |rows: [&str; 2]| {
        format!("timestamp,{}\n{},{}\n", rows[0], timestamp(0), rows[1]).into_bytes()
    };
    home.write("a.csv", &text(["close,volume", "1.5,7"]));
    home.write("b.csv", &text(["close,volume", "2.5,"]));
    home.write("c.csv", &text(["volume", "9"]));
    home.run_ok(&["datasets", "import", "a.csv"]);
    let merge = ["datasets", "import", "b.csv", "--dataset", "a", "--merge", "--batch", "20000"];
    home.run_ok(&merge);
    let row = |close: f64, volume: u8| json!({"timestamp": timestamp(0), "close": close, "volume": volume});
    assert_eq!(service.rows("a").await, [row(2.5, 7)]);
    home.run_ok(&["datasets", "import", "c.csv", "--dataset", "a", "--merge"]);
    assert_eq!(service.rows("a").await, [row(2.5, 9)]);
    home.run_ok(&["datasets", "import", "c.csv", "--dataset", "a", "--again"]);
    let want = json!({"timestamp": timestamp(0), "volume": 9});
    assert_eq!(service.rows("a").await, [want], "without --merge the whole row is replaced");
}

#[tokio::test]
async fn import_reads_timestamps_from_two_columns_or_in_a_given_date_format() {
    let (service, home) = Service::with_home();
    home.write("stooq.csv", b"Date,Time,Close\n20260301,000000,1\n20260301,000100,2\n");
    let output = home.run(&["datasets", "import", "stooq.csv"]);
    assert!(output.code == 0 && output.err.contains("time     Date and Time"), "{output:?}");
    let want = |minute| json!({"timestamp": timestamp(minute), "close": minute + 1});
    assert_eq!(service.rows("stooq").await, [want(0), want(1)]);

    home.write("us.csv", b"02/28/2026 19:00,1\n02/28/2026 19:01,2\n");
    let why = home.run_err(&["datasets", "import", "us.csv"]);
    assert!(why.contains("pass --time-format '%m/%d/%Y %H:%M'"), "{why}");
    let flags = ["--time-format", "%m/%d/%Y %H:%M", "--time-zone", "-05:00", "--map"];
    let arguments = [&["datasets", "import", "us.csv"][..], &flags, &["column_2=close"]].concat();
    let output = home.run(&arguments);
    assert!(output.code == 0 && output.err.contains("the first line is data"), "{output:?}");
    assert_eq!(service.rows("us").await, [want(0), want(1)]);
}

#[tokio::test]
async fn import_options_for_type_and_null_convert_texts_to_numbers() {
    let (service, home) = Service::with_home();
    let line = |minute, open| format!("{{\"t\":\"{}\",\"open\":\"{open}\"}}\n", timestamp(minute));
    home.write("a.ndjson", (line(0, "1.5") + &line(1, "inf")).as_bytes());
    let output = home.run(&["datasets", "import", "a.ndjson", "--dry-run"]);
    assert!(output.err.contains("--type open=float stores a number"), "{output:?}");
    let arguments = ["datasets", "import", "a.ndjson", "--type", "open=float"];
    let output = home.run(&arguments);
    let want = "a.ndjson:2: column open: `inf` is not of type float";
    assert!(
        output.code == 1 && output.err.contains(want) && output.err.contains("--null"),
        "{output:?}"
    );
    let output = home.run(&[&arguments[..], &["--null", "inf"]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    let want =
        [json!({"timestamp": timestamp(0), "open": 1.5}), json!({"timestamp": timestamp(1)})];
    assert_eq!(service.rows("a").await, want);
}

#[tokio::test]
async fn replaced_skipped_or_truncated_rows_are_counted_with_examples() {
    let (service, home) = Service::with_home();
    let nanos = |minute: u32| format!("{}.123456789Z", timestamp(minute).trim_end_matches('Z'));
    let mut text = "time,close\n".to_owned();
    for at in [timestamp(0), timestamp(0), timestamp(2), nanos(3), timestamp(2), "x".to_owned()] {
        writeln!(text, "{at},1").unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let output = home.run(&["datasets", "import", "a.csv", "--skip-bad", "--json", "--batch", "2"]);
    assert_eq!((output.code, service.n_rows("a").await), (0, 3), "{output:?}");
    for want in [
        "imported a.csv: 3 rows",
        "a.csv: 6 rows read, 3 stored, 2 replaced by a later row with the same timestamp, 1 skipped",
        "1 with a timestamp truncated to microseconds: line 5",
    ] {
        assert!(output.err.contains(want), "`{want}`: {}", output.err);
    }
    let report: Value = serde_json::from_str(&output.out).unwrap();
    let counts = ["read", "stored", "replaced", "skipped", "cut_to_microseconds"];
    assert_eq!(counts.map(|name| report[name].as_u64().unwrap()), [6, 3, 2, 1, 1]);
    let replaced = json!([
        {"line": 3, "timestamp": timestamp(0)},
        {"line": 6, "timestamp": timestamp(2)},
    ]);
    assert_eq!(report["examples"]["replaced"], replaced);
    assert_eq!(report["examples"]["skipped"][0]["line"], 7);
}

#[tokio::test]
async fn capitalized_price_columns_are_imported_in_lowercase() {
    let (service, home) = Service::with_home();
    let row = format!("{},1,3,0.5,2,7,9\n", timestamp(0));
    home.write("bars.csv", format!("Date,Open,High,Low,Close,Volume,Trades\n{row}").as_bytes());
    let output = home.run(&["datasets", "import", "bars.csv"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.err.contains("float    open, from Open: `1`"), "{}", output.err);
    let bucket = home.run_ok(&["datasets", "rows", "bars", "--resolution", "1d", "--json"]);
    let bucket: Value = serde_json::from_str(&bucket).unwrap();
    let figures = ["open", "high", "low", "close", "volume"].map(|name| bucket[name].as_f64());
    assert_eq!(figures, [1.0, 3.0, 0.5, 2.0, 7.0].map(Some), "{bucket}");
    // Names that differ only in case are not converted to lowercase.
    home.write("both.csv", format!("Date,Open,open\n{},1,2\n", timestamp(0)).as_bytes());
    home.run_ok(&["datasets", "import", "both.csv"]);
    let want = json!({"timestamp": timestamp(0), "Open": 1, "open": 2});
    assert_eq!(service.rows("both").await, [want]);

    let row = format!("{},1,3,0.5,2,7\n", timestamp(0));
    home.write("stooq.csv", format!("<DATE>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>\n{row}").as_bytes());
    home.run_ok(&["datasets", "import", "stooq.csv"]);
    assert_eq!(service.rows("stooq").await[0]["volume"], 7);
    home.write("options.csv", format!("date,close,vol\n{},2,0.3\n", timestamp(0)).as_bytes());
    home.run_ok(&["datasets", "import", "options.csv"]);
    assert_eq!(service.rows("options").await[0]["vol"], 0.3);
}

#[tokio::test]
async fn invalid_row_stops_the_import_which_resumes_after_the_last_valid_row() {
    let (service, home) = Service::with_home();
    let mut text = "time,close\n".to_owned();
    for minute in 0..12 {
        let close = if minute == 7 { "x".to_owned() } else { minute.to_string() };
        writeln!(text, "{},{close}", timestamp(minute)).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let arguments = ["datasets", "import", "a.csv", "--batch", "3", "--type", "close=float"];
    let output = home.run(&arguments);
    assert_eq!(output.code, 1, "{output:?}");
    for want in ["import stopped after 7 rows", "a.csv:9: column close: `x` is not of type float"] {
        assert!(output.err.contains(want), "`{want}`: {}", output.err);
    }
    assert_eq!(service.n_rows("a").await, 7);

    let output = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    for want in
        ["a.csv resumes after row 7", "skipped a.csv:9: column close", "skipped 1 invalid row"]
    {
        assert!(output.err.contains(want), "`{want}`: {}", output.err);
    }
    let want: Vec<_> = (0..12).filter(|minute| *minute != 7).collect();
    let want: Vec<_> = want.iter().map(|minute| flat(*minute, f64::from(*minute))).collect();
    assert_eq!(service.rows("a").await.len(), want.len());
    // A completed import leaves no state, so the next import starts at the beginning.
    let output = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert!(output.code == 0 && !output.err.contains("resumes after"), "{output:?}");
    assert_eq!(service.n_rows("a").await, want.len());
}

#[tokio::test]
async fn stopped_import_starts_over_if_its_options_change() {
    let (service, home) = Service::with_home();
    let mut text = "time,bid,ask\n".to_owned();
    for minute in 0..6 {
        let ask = if minute == 4 { "x".to_owned() } else { (minute + 100).to_string() };
        writeln!(text, "{},{minute},{ask}", timestamp(minute)).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let import = |more: &[&str]| {
        let arguments = ["datasets", "import", "a.csv", "--batch", "2", "--type", "close=float"];
        home.run(&[&arguments[..], more].concat())
    };
    let output = import(&["--map", "ask=close", "--leave-out", "bid"]);
    assert!(
        output.code == 1 && output.err.contains("skip invalid rows with --skip-bad"),
        "{output:?}"
    );
    assert_eq!(service.n_rows("a").await, 4);
    let output = import(&["--map", "bid=close", "--leave-out", "ask"]);
    assert!(output.code == 0 && !output.err.contains("resumes after"), "{output:?}");
    let want: Vec<_> =
        (0..6).map(|minute| json!({"timestamp": timestamp(minute), "close": minute})).collect();
    assert_eq!(service.rows("a").await, want);
}

#[tokio::test]
async fn empty_file_of_a_directory_is_skipped_with_a_notice() {
    let (service, home) = Service::with_home();
    home.write("kit/a.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    home.write("kit/b.csv", b"");
    home.write("kit/c.csv", b"time,close\n");
    home.write("kit/d.ndjson", b"\n");
    home.write("kit/e.csv", format!("time,close\n{},2\n", timestamp(1)).as_bytes());
    let output = home.run(&["datasets", "import", "kit", "--dataset", "one"]);
    assert_eq!((output.code, service.n_rows("one").await), (0, 2), "{output:?}");
    for name in ["b.csv", "c.csv", "d.ndjson"] {
        let want = format!("kit/{name} has no rows, and is skipped");
        assert!(output.err.contains(&want), "{want}: {output:?}");
    }
    assert!(output.err.contains("imported 2 files: 2 rows"), "{output:?}");
    assert!(home.run_err(&["datasets", "import", "kit/b.csv"]).contains("file has no rows"));
    let output = home.run(&["datasets", "import", "kit/b.csv", "kit/c.csv"]);
    assert!(output.code == 1 && output.err.contains("none of 2 files has rows"), "{output:?}");
}

#[tokio::test]
async fn invalid_timestamp_of_a_file_is_reported_with_its_line() {
    let (service, home) = Service::with_home();
    let (first, third) = (timestamp(0), timestamp(2));
    let text = format!("time,close,seen\n{first},1,{first}\nnever,2,{first}\n{third},3,{third}\n");
    home.write("a.csv", text.as_bytes());
    let output = home.run(&["datasets", "import", "a.csv"]);
    let want = "a.csv:3: column time: `never` is not a timestamp";
    assert!(output.code == 1 && output.err.contains(want), "{output:?}");
    let output = home.run(&["datasets", "import", "a.csv", "--skip-bad"]);
    assert_eq!((output.code, service.n_rows("a").await), (0, 2), "{output:?}");
}

#[tokio::test]
async fn file_named_like_a_number_is_imported_under_that_name() {
    let (service, home) = Service::with_home();
    home.run_ok(&["datasets", "create", "first"]);
    home.write("1.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    assert_eq!(home.run(&["datasets", "import", "1.csv"]).code, 0);
    assert_eq!((service.n_rows("first").await, service.n_rows("1").await), (0, 1));
    let refused = home.run_err(&["datasets", "export", "1", "-o", "1.csv.gz"]);
    assert!(refused.contains("not compressed"), "{refused}");
}

#[tokio::test]
async fn state_of_an_earlier_import_does_not_affect_a_new_dataset() {
    let (service, home) = Service::with_home();
    home.write("one.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    home.write("two.csv", format!("time,close\n{},x\n", timestamp(1)).as_bytes());
    let arguments =
        ["datasets", "import", "one.csv", "two.csv", "--dataset", "both", "--type", "close=float"];
    let output = home.run(&arguments);
    assert_eq!((output.code, service.n_rows("both").await), (1, 1), "{output:?}");
    home.run_ok(&["datasets", "delete", "both", "--yes"]);
    let output = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert_eq!((output.code, service.n_rows("both").await), (0, 1), "{output:?}");
}

/// Checks that the dataset has each of the `n_rows` generated rows once, and in order.
async fn check_rows(service: &Service, n_rows: u32) {
    let rows = service.rows("a").await;
    assert_eq!(rows.len(), n_rows as usize);
    for (minute, row) in (0..).zip(&rows) {
        let (at, close) = (row["timestamp"].as_str().unwrap(), row["close"].as_f64().unwrap());
        assert_eq!((at, close), (timestamp(minute).as_str(), f64::from(minute) * 0.25));
    }
}

#[tokio::test]
async fn killed_import_resumes_without_missing_or_repeating_rows() {
    /// Number of rows. The service cannot store all rows before the kill, but a debug build can store
    /// them within the test.
    const ROWS: u32 = 40_000;
    let (service, home) = Service::with_home();
    let mut text = "time,close\n".to_owned();
    for minute in 0..ROWS {
        writeln!(text, "{},{}", timestamp(minute), f64::from(minute) * 0.25).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let arguments = ["datasets", "import", "a.csv", "--batch", "500", "--in-flight", "3"];
    let mut n_before = 0;
    for _ in 0..3 {
        let running = home.start(&arguments);
        // If the import was faster than the kill, it is complete.
        while service.n_rows("a").await <= n_before && n_before < ROWS as usize {}
        running.kill();
        n_before = service.n_rows("a").await;
    }
    let output = home.run(&arguments);
    assert_eq!(output.code, 0, "{output:?}");
    check_rows(&service, ROWS).await;
}

#[tokio::test]
async fn import_report_contains_time_column_time_range_and_replaced_rows() {
    let (service, home) = Service::with_home();
    let seconds = |minute: u32| 1_772_323_200 + u64::from(minute) * 60;
    let rows = |minutes: [u32; 3]| {
        let lines = minutes.map(|minute| format!("{},{minute}\n", seconds(minute)));
        format!("unix,close\n{}", lines.concat()).into_bytes()
    };
    home.write("a.csv", &rows([0, 1, 2]));
    home.write("b.csv", &rows([2, 3, 3]));
    let import = |more: &[&str]| {
        let output =
            home.run(&[&["datasets", "import", "--dataset", "a", "--json"], more].concat());
        assert_eq!(output.code, 0, "{output:?}");
        (serde_json::from_str::<Value>(&output.out).unwrap(), output.err)
    };
    let check = |(report, text): (Value, String), counts: [u64; 4], span: [u32; 2]| {
        let names = ["read", "stored", "replaced", "replaced_earlier"];
        assert_eq!(names.map(|name| report[name].as_u64().unwrap()), counts, "{text}");
        let (first, last) = (timestamp(span[0]), timestamp(span[1]));
        assert_eq!((&report["first"], &report["last"]), (&json!(first), &json!(last)));
        let example = json!({"text": seconds(span[0]).to_string(), "timestamp": first});
        assert_eq!(report["examples"]["time"], example);
        for want in [
            format!("time column unix: {first} to {last}"),
            format!("{} is read as {first}", seconds(span[0])),
        ] {
            assert!(text.contains(&want), "`{want}`: {text}");
        }
    };
    check(import(&["a.csv", "--dry-run"]), [3, 3, 0, 0], [0, 2]);
    assert_eq!(home.run_ok(&["datasets", "list"]), "", "nothing is left of a dry run");
    check(import(&["a.csv"]), [3, 3, 0, 0], [0, 2]);
    check(import(&["b.csv", "--dry-run"]), [3, 2, 1, 1], [2, 3]);
    assert_eq!(service.n_rows("a").await, 3);
    let (report, text) = import(&["b.csv"]);
    assert_eq!(report["examples"]["replaced_earlier"][0]["timestamp"], timestamp(2));
    assert!(text.contains("replacing 1 of the dataset: line 2"), "{text}");
    check((report, text), [3, 2, 1, 1], [2, 3]);
    assert_eq!(service.n_rows("a").await, 4);
    check(import(&["b.csv", "--again"]), [3, 2, 1, 2], [2, 3]);
}

#[tokio::test]
async fn file_out_of_order_is_sorted_and_resumed_after_a_kill() {
    /// Number of rows. The service cannot store all rows before the kill.
    const ROWS: u32 = 20_000;
    let (service, home) = Service::with_home();
    // Latest row first, and every tenth row far from its position. If a timestamp is repeated, the last
    // line counts.
    let mut text = "time,close\n".to_owned();
    for row in (0..ROWS).rev() {
        let minute = if row % 10 == 0 { row * 7919 % ROWS } else { row };
        writeln!(text, "{},{minute}", timestamp(minute)).unwrap();
    }
    for minute in 0..ROWS {
        writeln!(text, "{},{}", timestamp(minute), f64::from(minute) * 0.25).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let arguments = ["datasets", "import", "a.csv", "--batch", "500", "--json"];
    let running = home.start(&arguments);
    while service.n_rows("a").await < 1_000 {}
    running.kill();
    let output = home.run(&arguments);
    assert_eq!(output.code, 0, "{output:?}");
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert!(report["sorted"] == true && output.err.contains("resumes after row"), "{output:?}");
    let n_all = report["resumed_after"].as_u64().unwrap() + report["read"].as_u64().unwrap();
    assert_eq!(n_all, u64::from(ROWS) * 2, "each row is sent once, or again after a kill");
    check_rows(&service, ROWS).await;
}

#[tokio::test]
async fn import_rejects_files_with_an_ambiguous_layout_unless_an_option_decides() {
    let (service, home) = Service::with_home();
    home.write("zone.csv", b"time,x\n2024-11-03 00:00,0\n2024-11-03 01:00,1\n");
    home.write("two.csv", b"event_time,seen_at,x\n2026-03-01 00:00,2026-03-01 00:07,1\n");
    home.write("month.csv", b"Date,x\n202603,1\n202604,2\n");
    home.write("banner.csv", b"Prices, of today, by us\ntime,x\n2026-03-01,1\n2026-03-02,2\n");
    home.write("hours.csv", b"date,hour,x\n2026-03-01,1,0\n2026-03-01,2,1\n");
    home.write("boot.csv", b"timestamp,datetime\n0,2026-03-01 00:00\n1000,2026-03-01 00:01\n");
    home.write("id.csv", b"time,id\n2026-03-01,1.5\n2026-03-02,9007199254740993\n");
    let zone = ["--time-zone", "America/New_York"];
    for (name, flags, why, decision, first) in [
        ("zone", &zone[..], "--ambiguous", &["--ambiguous", "later"][..], "2024-11-03T04:00:00Z"),
        ("two", &[], "--time-column", &["--time-column", "seen_at"], "2026-03-01T00:07:00Z"),
        ("month", &[], "--time-unit month", &["--time-unit", "month"], "2026-03-01T00:00:00Z"),
        ("banner", &[], "--skip-lines 1", &["--skip-lines", "1"], "2026-03-01T00:00:00Z"),
        ("hours", &[], "--first-hour", &["--first-hour", "1"], "2026-03-01T00:00:00Z"),
        (
            "boot",
            &[],
            "--leave-out timestamp",
            &["--map", "timestamp=millis"],
            "2026-03-01T00:00:00Z",
        ),
        ("id", &[], "--type id=integer", &["--type", "id=float"], "2026-03-01T00:00:00Z"),
    ] {
        let file = format!("{name}.csv");
        let arguments = [&["datasets", "import", &file][..], flags].concat();
        let output = home.run(&arguments);
        assert!(output.code == 1 && output.err.contains(why), "{name}: {output:?}");
        let output = home.run(&[&arguments[..], decision].concat());
        assert_eq!(output.code, 0, "{name}: {output:?}");
        assert_eq!(service.rows(name).await[0]["timestamp"], first, "{name}");
    }
}

#[tokio::test]
async fn table_with_the_maximum_number_of_columns_is_imported() {
    let (service, home) = Service::with_home();
    let names: Vec<_> = (0..1_024).map(|idx| format!("c{idx}")).collect();
    let values: Vec<_> = (0..1_024).map(|idx| idx.to_string()).collect();
    let row = format!("{},{}\n", timestamp(0), values.join(","));
    home.write("wide.csv", format!("timestamp,{}\n{row}", names.join(",")).as_bytes());
    home.run_ok(&["datasets", "import", "wide.csv"]);
    let rows = service.rows("wide").await;
    assert_eq!((rows[0]["c0"].as_f64(), rows[0]["c1023"].as_f64()), (Some(0.0), Some(1023.0)));
    let text =
        format!("timestamp,{},more\n{},{},1\n", names.join(","), timestamp(0), values.join(","));
    home.write("wider.csv", text.as_bytes());
    let output = home.run(&["datasets", "import", "wider.csv"]);
    let want = "a dataset has at most 1024 columns";
    assert!(output.code == 1 && output.err.contains(want), "{output:?}");
}

#[tokio::test]
async fn ndjson_is_read_from_a_file_and_from_standard_input() {
    let (service, home) = Service::with_home();
    let line = |minute: u32| {
        format!("{{\"timestamp\":\"{}\",\"values\":{{\"close\":{minute}}}}}\n", timestamp(minute))
    };
    home.write("n.ndjson", (line(1) + &line(2)).as_bytes());
    home.run_ok(&["datasets", "import", "n.ndjson"]);
    let arguments = [
        "datasets",
        "import",
        "-",
        "--format",
        "ndjson",
        "--dataset",
        "n",
        "--time",
        "timestamp",
        "--type",
        "close=float",
    ];
    let output = home.run_with(&arguments, (line(2) + &line(3)).as_bytes());
    assert_eq!(output.code, 0, "{output:?}");
    let whole = |minute: u32| json!({"timestamp": timestamp(minute), "close": minute});
    assert_eq!(service.rows("n").await, [whole(1), whole(2), whole(3)]);
}

#[tokio::test]
async fn json_arrays_and_times_in_several_columns_are_imported() {
    let (service, home) = Service::with_home();
    let rows = [flat(0, 1.5), flat(1, 2.25)];
    home.write("objects.json", serde_json::to_string_pretty(&rows).unwrap().as_bytes());
    let klines = r#"[[1772323200000,"1.50",1772323259999],[1772323260000,"2.25",1772323319999]]"#;
    home.write("klines.json", klines.as_bytes());
    let dates = "year,month,day,hour,minute,close\n2026,3,1,0,0,1.5\n2026,3,1,0,1,2.25\n";
    home.write("parts.csv", dates.as_bytes());
    let map = ["--map", "column_2=close", "--leave-out", "column_3"];
    for (name, file, flags, time) in [
        ("objects", "objects.json", &[][..], "timestamp"),
        ("klines", "klines.json", &map, "column_1"),
        ("parts", "parts.csv", &[], "year, month, day, hour and minute"),
    ] {
        let output = home.run(&[&["datasets", "import", file], flags].concat());
        let want = format!("time     {time}\n");
        assert!(output.code == 0 && output.err.contains(&want), "{output:?}");
        assert_eq!(service.rows(name).await, rows, "{name}");
    }
    let output = home.run(&["datasets", "import", "parts.csv", "--time-format", "%Y"]);
    assert!(output.code == 1 && output.err.contains("--time-format does not apply"), "{output:?}");
    let arguments = ["-", "--format", "json", "--dataset", "objects", "--time", "timestamp"];
    let arguments = [&["datasets", "import", "--type", "close=float"], &arguments[..]].concat();
    let output = home.run_with(&arguments, json!([flat(2, 3.0)]).to_string().as_bytes());
    assert_eq!((output.code, service.n_rows("objects").await), (0, 3), "{output:?}");
    home.write("cut.json", br#"[{"timestamp":"2026-03-01","close":1},{"timest"#);
    let output = home.run(&["datasets", "import", "cut.json"]);
    assert!(output.code == 1 && output.err.contains("truncated at row 2"), "{output:?}");
}

#[tokio::test]
async fn directories_of_parquet_files_are_imported_as_a_dataset_for_each_symbol() {
    let (service, home) = Service::with_home();
    let made = |name: &str| {
        std::fs::read(format!("{ROOT}/tests/data/datasets/parquet/{name}.parquet")).unwrap()
    };
    home.write("kit/symbol=btcusd/dt=2026-03-01.parquet", &made("default"));
    home.write("kit/symbol=ethusd/dt=2026-03-01.parquet", &made("zstd-v2"));
    let output = home.run(&["datasets", "import", "kit", "--dataset", "kit_{symbol}"]);
    assert_eq!(output.code, 0, "{output:?}");
    let btc = service.rows("kit_btcusd").await;
    assert_eq!((btc.len(), btc.clone()), (50, service.rows("kit_ethusd").await));
    let want = json!({
        "timestamp": timestamp(6), "open": 1.5, "n": 31, "small": 6, "flag": true, "name": "a",
    });
    assert_eq!(btc[6], want);
    let shown: Value =
        serde_json::from_str(&home.run_ok(&["datasets", "show", "kit_btcusd", "--json"])).unwrap();
    assert_eq!(shown["metadata"], json!({"symbol": "btcusd"}));
}

#[tokio::test]
async fn buckets_are_computed_from_a_column_with_values() {
    let (_service, home) = Service::with_home();
    home.write("ticks.csv", b"time,bid,ask,last\n2026-03-01 00:00:00,1.5,1.6,\n");
    home.run_ok(&["datasets", "import", "ticks.csv"]);
    let days = home.run_ok(&["datasets", "export", "ticks", "--resolution", "1d"]);
    assert!(days.ends_with("2026-03-01T00:00:00Z,1.5,1.5,1.5,1.5,0,1\n"), "{days}");
}

#[tokio::test]
async fn file_whose_rows_would_replace_each_other_is_rejected() {
    let (service, home) = Service::with_home();
    let mut text = "SettlementDate,SettlementPeriod,price\n".to_owned();
    for period in 1..=48 {
        writeln!(text, "2026-03-01,{period},{period}.5").unwrap();
    }
    home.write("power.csv", text.as_bytes());
    let error = home.run_err(&["datasets", "import", "power.csv"]);
    let want = "the first 48 rows have 1 different timestamp in SettlementDate";
    assert!(error.contains(want) && error.contains("--split-by FIELD"), "{error}");
    assert_eq!(home.run_ok(&["datasets", "list"]), "");
    home.run_ok(&["datasets", "import", "power.csv", "--time-column", "SettlementDate"]);
    assert_eq!(service.rows("power").await.len(), 1);
}

#[test]
fn unsupported_imports_are_reported() {
    let (_service, home) = Service::with_home();
    home.write("a.csv", b"x,y\n1,2\n");
    home.write("b.csv", b"time,close\n2026-03-01,1\n");
    home.write("notes", b"");
    for (arguments, want) in [
        (&["a.csv"][..], "name it with --time"),
        (&["b.csv", "--leave-out", "z"], "there is no field z, only time, close"),
        (&["b.csv", "--leave-out", "close"], "file has no columns except time"),
        (&["b.csv", "--map", "time=ts"], "field time is the timestamp and cannot be mapped"),
        (&["b.csv", "--type", "clsoe=integer"], "there is no column clsoe, only close"),
        (&["b.csv", "--time", "when"], "no column when among time, close"),
        (&["notes"], "pass --format"),
        (&["nowhere.csv"], "nowhere.csv"),
        (&["-", "--format", "csv", "--dataset", "x"], "--time"),
    ] {
        let why = home.run_err(&[&["datasets", "import"], arguments].concat());
        assert!(why.contains(want), "{arguments:?}: {why}");
    }
    let output = home.run(&["datasets", "import", "b.csv", "--batch", "0"]);
    assert!(output.code == 2 && output.err.contains("invalid value '0'"), "{output:?}");
    let output = home.run(&["datasets", "import", "b.csv", "--dry-run"]);
    assert!(output.code == 0 && output.err.contains("a new dataset b"), "{output:?}");
    assert_eq!(home.run_ok(&["datasets", "list"]), "");
    wait::until("nothing is left of a dry run", std::time::Duration::ZERO, || {
        let listed = home.run_ok(&["datasets", "list", "--json"]);
        if listed.is_empty() { Ok(()) } else { Err(listed) }
    });
}
