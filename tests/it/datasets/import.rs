//! `triptych datasets import`: files become datasets, once, however often it is stopped.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::timestamp;
use crate::support::{ROOT, datasets::Service, wait};

/// A row of a flat download: a minute with one price.
fn flat(minute: u32, close: f64) -> Value {
    json!({"timestamp": timestamp(minute), "close": close})
}

#[tokio::test]
async fn a_csv_file_becomes_a_dataset() {
    let service = Service::start();
    let home = service.home();
    let text = "Open Time;px;note;ok\n1772323200000;1.5;\"a;b\";true\n1772323260000;2;;false\n";
    home.write("btc.csv", text.as_bytes());
    let arguments =
        ["datasets", "import", "btc.csv", "--map", "px=price", "--metadata", "ticker=btc"];
    for _ in 0..2 {
        let said = home.run(&arguments);
        assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
        for want in ["time     Open Time", "float    price, from px: `1.5`", "imported btc.csv"] {
            assert!(said.err.contains(want), "`{want}`: {}", said.err);
        }
        let want = [
            json!({"timestamp": timestamp(0), "price": 1.5, "note": "a;b", "ok": true}),
            json!({"timestamp": timestamp(1), "price": 2, "ok": false}),
        ];
        assert_eq!(service.rows("btc").await, want);
    }
    let shown: Value =
        serde_json::from_str(&home.done(&["datasets", "show", "btc", "--json"])).unwrap();
    assert_eq!(shown["metadata"], json!({"ticker": "btc"}));
    let columns: Vec<_> = shown["columns"].as_array().unwrap().iter().collect();
    let dtypes: Vec<_> = columns.iter().map(|column| column["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, ["float", "string", "boolean"]);
}

#[tokio::test]
async fn merged_rows_change_the_columns_they_have_a_value_in() {
    let service = Service::start();
    let home = service.home();
    let text = |rows: [&str; 2]| {
        format!("timestamp,{}\n{},{}\n", rows[0], timestamp(0), rows[1]).into_bytes()
    };
    home.write("a.csv", &text(["close,volume", "1.5,7"]));
    home.write("b.csv", &text(["close,volume", "2.5,"]));
    home.write("c.csv", &text(["volume", "9"]));
    home.done(&["datasets", "import", "a.csv"]);
    let merge = ["datasets", "import", "b.csv", "--dataset", "a", "--merge", "--batch", "20000"];
    home.done(&merge);
    let row = |close: f64, volume: u8| json!({"timestamp": timestamp(0), "close": close, "volume": volume});
    assert_eq!(service.rows("a").await, [row(2.5, 7)]);
    home.done(&["datasets", "import", "c.csv", "--dataset", "a", "--merge"]);
    assert_eq!(service.rows("a").await, [row(2.5, 9)]);
    home.done(&["datasets", "import", "c.csv", "--dataset", "a", "--again"]);
    let want = json!({"timestamp": timestamp(0), "volume": 9});
    assert_eq!(service.rows("a").await, [want], "without --merge the whole row is replaced");
}

#[tokio::test]
async fn dates_and_times_in_two_fields_or_another_order_are_timestamps() {
    let service = Service::start();
    let home = service.home();
    home.write("stooq.csv", b"Date,Time,Close\n20260301,000000,1\n20260301,000100,2\n");
    let said = home.run(&["datasets", "import", "stooq.csv"]);
    assert!(said.code == 0 && said.err.contains("time     Date and Time"), "{said:?}");
    let want = |minute| json!({"timestamp": timestamp(minute), "close": minute + 1});
    assert_eq!(service.rows("stooq").await, [want(0), want(1)]);

    home.write("us.csv", b"02/28/2026 19:00,1\n02/28/2026 19:01,2\n");
    let why = home.fails(&["datasets", "import", "us.csv"]);
    assert!(why.contains("pass --time-format '%m/%d/%Y %H:%M'"), "{why}");
    let flags = ["--time-format", "%m/%d/%Y %H:%M", "--time-zone", "-05:00", "--map"];
    let arguments = [&["datasets", "import", "us.csv"][..], &flags, &["column_2=close"]].concat();
    let said = home.run(&arguments);
    assert!(said.code == 0 && said.err.contains("the first line is data"), "{said:?}");
    assert_eq!(service.rows("us").await, [want(0), want(1)]);
}

#[tokio::test]
async fn texts_of_numbers_become_numbers_where_a_type_or_a_null_says_so() {
    let service = Service::start();
    let home = service.home();
    let line = |minute, open| format!("{{\"t\":\"{}\",\"open\":\"{open}\"}}\n", timestamp(minute));
    home.write("a.ndjson", (line(0, "1.5") + &line(1, "inf")).as_bytes());
    let said = home.run(&["datasets", "import", "a.ndjson", "--dry-run"]);
    assert!(said.err.contains("--type open=float stores a number"), "{said:?}");
    let arguments = ["datasets", "import", "a.ndjson", "--type", "open=float"];
    let said = home.run(&arguments);
    let want = "a.ndjson:2: column open: `inf` is no float";
    assert!(said.code == 1 && said.err.contains(want) && said.err.contains("--null"), "{said:?}");
    let said = home.run(&[&arguments[..], &["--null", "inf"]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    let want =
        [json!({"timestamp": timestamp(0), "open": 1.5}), json!({"timestamp": timestamp(1)})];
    assert_eq!(service.rows("a").await, want);
}

#[tokio::test]
async fn rows_that_are_replaced_skipped_or_cut_are_counted_with_examples() {
    let service = Service::start();
    let home = service.home();
    let nanos = |minute: u32| format!("{}.123456789Z", timestamp(minute).trim_end_matches('Z'));
    let mut text = "time,close\n".to_owned();
    for at in [timestamp(0), timestamp(0), timestamp(2), nanos(3), timestamp(2), "x".to_owned()] {
        writeln!(text, "{at},1").unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let said = home.run(&["datasets", "import", "a.csv", "--skip-bad", "--json", "--batch", "2"]);
    assert_eq!((said.code, service.n_rows("a").await), (0, 3), "{said:?}");
    for want in [
        "imported a.csv: 3 rows",
        "a.csv: 6 rows read, 3 stored, 2 replaced by a later one of the same timestamp, 1 skipped",
        "1 with a timestamp cut to microseconds: line 5",
    ] {
        assert!(said.err.contains(want), "`{want}`: {}", said.err);
    }
    let report: Value = serde_json::from_str(&said.out).unwrap();
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
async fn capitalized_bars_become_the_columns_that_buckets_are_made_of() {
    let service = Service::start();
    let home = service.home();
    let row = format!("{},1,3,0.5,2,7,9\n", timestamp(0));
    home.write("bars.csv", format!("Date,Open,High,Low,Close,Volume,Trades\n{row}").as_bytes());
    let said = home.run(&["datasets", "import", "bars.csv"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("float    open, from Open: `1`"), "{}", said.err);
    let bucket = home.done(&["datasets", "rows", "bars", "--resolution", "1d", "--json"]);
    let bucket: Value = serde_json::from_str(&bucket).unwrap();
    let figures = ["open", "high", "low", "close", "volume"].map(|name| bucket[name].as_f64());
    assert_eq!(figures, [1.0, 3.0, 0.5, 2.0, 7.0].map(Some), "{bucket}");
    // Two that are called alike are left as they are.
    home.write("both.csv", format!("Date,Open,open\n{},1,2\n", timestamp(0)).as_bytes());
    home.done(&["datasets", "import", "both.csv"]);
    let want = json!({"timestamp": timestamp(0), "Open": 1, "open": 2});
    assert_eq!(service.rows("both").await, [want]);
}

#[tokio::test]
async fn a_bad_row_stops_it_with_its_place_and_it_goes_on_after_the_last_good_one() {
    let service = Service::start();
    let home = service.home();
    let mut text = "time,close\n".to_owned();
    for minute in 0..12 {
        let close = if minute == 7 { "x".to_owned() } else { minute.to_string() };
        writeln!(text, "{},{close}", timestamp(minute)).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let arguments = ["datasets", "import", "a.csv", "--batch", "3", "--type", "close=float"];
    let said = home.run(&arguments);
    assert_eq!(said.code, 1, "{said:?}");
    for want in ["go on after 7 rows", "a.csv:9: column close: `x` is no float"] {
        assert!(said.err.contains(want), "`{want}`: {}", said.err);
    }
    assert_eq!(service.n_rows("a").await, 7);

    let said = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert_eq!(said.code, 0, "{said:?}");
    for want in ["a.csv goes on after row 7", "left out a.csv:9: column close", "left out 1 row "] {
        assert!(said.err.contains(want), "`{want}`: {}", said.err);
    }
    let want: Vec<_> = (0..12).filter(|minute| *minute != 7).collect();
    let want: Vec<_> = want.iter().map(|minute| flat(*minute, f64::from(*minute))).collect();
    assert_eq!(service.rows("a").await.len(), want.len());
    // Done, it is forgotten: the next import begins at the beginning.
    let said = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert!(said.code == 0 && !said.err.contains("goes on after"), "{said:?}");
    assert_eq!(service.n_rows("a").await, want.len());
}

#[tokio::test]
async fn a_stopped_import_that_reads_the_file_in_another_way_begins_again() {
    let service = Service::start();
    let home = service.home();
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
    let said = import(&["--map", "ask=close", "--leave-out", "bid"]);
    assert!(said.code == 1 && said.err.contains("leave such rows out with --skip-bad"), "{said:?}");
    assert_eq!(service.n_rows("a").await, 4);
    let said = import(&["--map", "bid=close", "--leave-out", "ask"]);
    assert!(said.code == 0 && !said.err.contains("goes on after"), "{said:?}");
    let want: Vec<_> =
        (0..6).map(|minute| json!({"timestamp": timestamp(minute), "close": minute})).collect();
    assert_eq!(service.rows("a").await, want);
}

#[tokio::test]
async fn an_empty_file_of_a_folder_is_passed_over_with_a_word() {
    let service = Service::start();
    let home = service.home();
    home.write("kit/a.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    home.write("kit/b.csv", b"");
    home.write("kit/c.csv", b"time,close\n");
    home.write("kit/d.ndjson", b"\n");
    home.write("kit/e.csv", format!("time,close\n{},2\n", timestamp(1)).as_bytes());
    let said = home.run(&["datasets", "import", "kit", "--dataset", "one"]);
    assert_eq!((said.code, service.n_rows("one").await), (0, 2), "{said:?}");
    for name in ["b.csv", "c.csv", "d.ndjson"] {
        let want = format!("kit/{name} has no rows, and is left out");
        assert!(said.err.contains(&want), "{want}: {said:?}");
    }
    assert!(said.err.contains("imported 2 files: 2 rows"), "{said:?}");
    assert!(home.fails(&["datasets", "import", "kit/b.csv"]).contains("find a row in it"));
    let said = home.run(&["datasets", "import", "kit/b.csv", "kit/c.csv"]);
    assert!(said.code == 1 && said.err.contains("find a row in any of 2 files"), "{said:?}");
}

#[tokio::test]
async fn one_bad_moment_is_told_with_its_line() {
    let service = Service::start();
    let home = service.home();
    let (first, third) = (timestamp(0), timestamp(2));
    let text = format!("time,close,seen\n{first},1,{first}\nnever,2,{first}\n{third},3,{third}\n");
    home.write("a.csv", text.as_bytes());
    let said = home.run(&["datasets", "import", "a.csv"]);
    let want = "a.csv:3: column time: `never` is no timestamp";
    assert!(said.code == 1 && said.err.contains(want), "{said:?}");
    let said = home.run(&["datasets", "import", "a.csv", "--skip-bad"]);
    assert_eq!((said.code, service.n_rows("a").await), (0, 2), "{said:?}");
}

#[tokio::test]
async fn a_file_called_like_a_number_is_a_dataset_of_that_name() {
    let service = Service::start();
    let home = service.home();
    home.done(&["datasets", "create", "first"]);
    home.write("1.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    assert_eq!(home.run(&["datasets", "import", "1.csv"]).code, 0);
    assert_eq!((service.n_rows("first").await, service.n_rows("1").await), (0, 1));
    let refused = home.fails(&["datasets", "export", "1", "-o", "1.csv.gz"]);
    assert!(refused.contains("not compressed"), "{refused}");
}

#[tokio::test]
async fn what_an_earlier_import_left_is_nothing_to_a_new_dataset() {
    let service = Service::start();
    let home = service.home();
    home.write("one.csv", format!("time,close\n{},1\n", timestamp(0)).as_bytes());
    home.write("two.csv", format!("time,close\n{},x\n", timestamp(1)).as_bytes());
    let arguments =
        ["datasets", "import", "one.csv", "two.csv", "--dataset", "both", "--type", "close=float"];
    let said = home.run(&arguments);
    assert_eq!((said.code, service.n_rows("both").await), (1, 1), "{said:?}");
    home.done(&["datasets", "delete", "both", "--yes"]);
    let said = home.run(&[&arguments[..], &["--skip-bad"]].concat());
    assert_eq!((said.code, service.n_rows("both").await), (0, 1), "{said:?}");
}

#[tokio::test]
async fn a_killed_import_goes_on_without_gap_or_repeat() {
    /// More than a service takes in the time of a kill, few enough for a debug build.
    const ROWS: u32 = 40_000;
    let service = Service::start();
    let home = service.home();
    let mut text = "time,close\n".to_owned();
    for minute in 0..ROWS {
        writeln!(text, "{},{}", timestamp(minute), f64::from(minute) * 0.25).unwrap();
    }
    home.write("a.csv", text.as_bytes());
    let arguments = ["datasets", "import", "a.csv", "--batch", "500", "--in-flight", "3"];
    let mut n_before = 0;
    for _ in 0..3 {
        let running = home.start(&arguments);
        // One that was faster than the kill has nothing more to do.
        while service.n_rows("a").await <= n_before && n_before < ROWS as usize {}
        running.kill();
        n_before = service.n_rows("a").await;
    }
    let said = home.run(&arguments);
    assert_eq!(said.code, 0, "{said:?}");
    let rows = service.rows("a").await;
    assert_eq!(rows.len(), ROWS as usize);
    for (minute, row) in (0..).zip(&rows) {
        let (at, close) = (row["timestamp"].as_str().unwrap(), row["close"].as_f64().unwrap());
        assert_eq!((at, close), (timestamp(minute).as_str(), f64::from(minute) * 0.25));
    }
}

#[tokio::test]
async fn ndjson_comes_from_a_file_and_from_standard_input() {
    let service = Service::start();
    let home = service.home();
    let line = |minute: u32| {
        format!("{{\"timestamp\":\"{}\",\"values\":{{\"close\":{minute}}}}}\n", timestamp(minute))
    };
    home.write("n.ndjson", (line(1) + &line(2)).as_bytes());
    home.done(&["datasets", "import", "n.ndjson"]);
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
    let said = home.run_with(&arguments, (line(2) + &line(3)).as_bytes());
    assert_eq!(said.code, 0, "{said:?}");
    let whole = |minute: u32| json!({"timestamp": timestamp(minute), "close": minute});
    assert_eq!(service.rows("n").await, [whole(1), whole(2), whole(3)]);
}

#[tokio::test]
async fn folders_of_parquet_become_a_dataset_for_each_symbol() {
    let service = Service::start();
    let home = service.home();
    let made = |name: &str| {
        std::fs::read(format!("{ROOT}/tests/data/datasets/parquet/{name}.parquet")).unwrap()
    };
    home.write("kit/symbol=btcusd/dt=2026-03-01.parquet", &made("default"));
    home.write("kit/symbol=ethusd/dt=2026-03-01.parquet", &made("zstd-v2"));
    let said = home.run(&["datasets", "import", "kit", "--dataset", "kit_{symbol}"]);
    assert_eq!(said.code, 0, "{said:?}");
    let btc = service.rows("kit_btcusd").await;
    assert_eq!((btc.len(), btc.clone()), (50, service.rows("kit_ethusd").await));
    let want = json!({
        "timestamp": timestamp(6), "open": 1.5, "n": 31, "small": 6, "flag": true, "name": "a",
    });
    assert_eq!(btc[6], want);
    let shown: Value =
        serde_json::from_str(&home.done(&["datasets", "show", "kit_btcusd", "--json"])).unwrap();
    assert_eq!(shown["metadata"], json!({"symbol": "btcusd"}));
}

#[test]
fn what_cannot_be_imported_is_told() {
    let service = Service::start();
    let home = service.home();
    home.write("a.csv", b"x,y\n1,2\n");
    home.write("b.csv", b"time,close\n2026-03-01,1\n");
    home.write("notes", b"");
    for (arguments, want) in [
        (&["a.csv"][..], "name it with --time"),
        (&["b.csv", "--leave-out", "z"], "find field z among time, close"),
        (&["b.csv", "--leave-out", "close"], "find a column beside time"),
        (
            &["b.csv", "--type", "clsoe=integer"],
            "make column clsoe of that type: the columns are close",
        ),
        (
            &["b.csv", "--time", "when"],
            "find the column when with the timestamps among time, close",
        ),
        (&["notes"], "name it with --format"),
        (&["nowhere.csv"], "nowhere.csv"),
        (&["-", "--format", "csv", "--dataset", "x"], "--time"),
    ] {
        let why = home.fails(&[&["datasets", "import"], arguments].concat());
        assert!(why.contains(want), "{arguments:?}: {why}");
    }
    let said = home.run(&["datasets", "import", "b.csv", "--dry-run"]);
    assert!(said.code == 0 && said.err.contains("a new dataset b"), "{said:?}");
    assert_eq!(home.done(&["datasets", "list"]), "");
    wait::until("nothing is left of a dry run", std::time::Duration::ZERO, || {
        let listed = home.done(&["datasets", "list", "--json"]);
        if listed.is_empty() { Ok(()) } else { Err(listed) }
    });
}
