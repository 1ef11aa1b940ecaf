//! `triptych datasets list`, `show`, `rows`, `create`, `tags`, `delete`.

use serde_json::Value;

use super::{insert, minute_row, timestamp};
use crate::support::command::Home;
use crate::support::datasets::Service;

#[tokio::test]
async fn dataset_is_created_listed_shown_and_read() {
    let (service, home) = Service::with_home();
    let create = ["datasets", "create", "btc usd", "--column", "close", "--column", "n:integer"];
    let about = ["--description", "Bitcoin", "--metadata", "ticker=btc", "--tag", "public"];
    let id = home.run_ok(&[&create[..], &about].concat()).trim().to_owned();
    let rows: Vec<_> = (0..3)
        .map(|minute| {
            let mut row = minute_row(minute);
            row["values"] = serde_json::json!({"close": row["values"]["close"], "n": minute});
            row
        })
        .collect();
    insert(&service.http(), id.parse().unwrap(), &rows).await;

    let listed = home.run_ok(&["datasets", "list"]);
    assert!(listed.contains("btc usd  Bitcoin"), "{listed}");
    for arguments in [&["--search", "bitco"][..], &["--field", "ticker=btc"]] {
        let line = home.run_ok(&[&["datasets", "list", "--json"], arguments].concat());
        let dataset: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((dataset["name"].as_str(), &dataset["id"].to_string()), (Some("btc usd"), &id));
    }
    for name in ["btc usd", &id] {
        let shown = home.run_ok(&["datasets", "show", name]);
        for want in ["tags         public", "  ticker=btc", "integer  n  2", "owner: read, write"] {
            assert!(shown.contains(want), "`{want}`: {shown}");
        }
    }
    let rows = home.run_ok(&["datasets", "rows", "btc usd", "--limit", "2"]);
    let want = format!(
        "timestamp             close  n\n{}    102  2\n{}    101  1\n",
        timestamp(2),
        timestamp(1)
    );
    assert_eq!(rows, want);
    let lines = home.run_ok(&["datasets", "rows", "btc usd", "--json", "--ascending"]);
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(first, serde_json::json!({"close": 100, "n": 0, "timestamp": timestamp(0)}));
    let buckets = home.run_ok(&["datasets", "rows", "btc usd", "--resolution", "1h"]);
    assert!(buckets.contains("count") && buckets.lines().count() == 2, "{buckets}");

    let week = 7 * 24 * 60;
    let row = serde_json::json!({"timestamp": timestamp(week), "values": {"close": 1}});
    insert(&service.http(), id.parse().unwrap(), &[row]).await;
    let newest = home.run_ok(&["datasets", "rows", "btc usd", "--json", "--limit", "2"]);
    let newest: Vec<Value> =
        newest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(newest[0]["timestamp"], timestamp(week));
    assert_eq!(newest[1]["timestamp"], timestamp(2), "the rows are not limited to one day");
}

#[tokio::test]
async fn columns_are_added_renamed_and_deleted() {
    let (service, home) = Service::with_home();
    let columns =
        |arguments: &[&str]| home.run_ok(&[&["datasets", "columns", "btc"], arguments].concat());
    let create = ["datasets", "create", "btc", "--column", "close", "--column", "vol:integer"];
    let id = home.run_ok(&create).trim().parse().unwrap();
    let row = serde_json::json!({"timestamp": timestamp(0), "values": {"close": 1, "vol": 3}});
    insert(&service.http(), id, &[row]).await;
    assert_eq!(columns(&[]), "name   type\nclose  float\nvol    integer\n");
    let changed = columns(&["--rename", "vol=n", "--add", "note:string", "--json"]);
    let changed: Vec<Value> =
        changed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = changed.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["close", "n", "note"]);
    assert_eq!(service.rows("btc").await[0]["n"], 3);

    let why = home.run_err(&["datasets", "columns", "btc", "--delete", "note"]);
    assert!(why.contains("--yes"), "{why}");
    assert!(columns(&[]).contains("note"), "nothing is deleted without --yes");
    assert!(!columns(&["--delete", "note", "--yes"]).contains("note"));
    let why = home.run_err(&["datasets", "columns", "btc", "--rename", "vol=m"]);
    assert!(why.contains("rename column vol of dataset") && why.contains("404"), "{why}");
}

#[test]
fn retention_is_set_shown_and_removed() {
    let (_service, home) = Service::with_home();
    home.run_ok(&["datasets", "create", "btc", "--metadata", "ticker=btc"]);
    let retention =
        |arguments: &[&str]| home.run_ok(&[&["datasets", "retention", "btc"], arguments].concat());
    assert_eq!(retention(&[]), "days   no limit\nbytes  no limit\n");
    let set = retention(&["--keep-days", "90", "--keep-bytes", "2GB", "--json"]);
    let want = serde_json::json!({"dataset": 1, "keep_days": 90, "keep_bytes": 2_000_000_000_u32});
    assert_eq!(serde_json::from_str::<Value>(&set).unwrap(), want);
    assert_eq!(retention(&["--keep-all", "--keep-days", "7"]), "days   7\nbytes  no limit\n");
    assert_eq!(retention(&["--keep-all"]), "days   no limit\nbytes  no limit\n");
    assert!(home.run_ok(&["datasets", "show", "btc"]).contains("ticker=btc"), "other fields stay");
    let why = home.run_err(&["datasets", "retention", "btc", "--keep-days", "99999999"]);
    assert!(why.contains("keep_days must be 1 to"), "{why}");
}

#[test]
fn api_keys_are_not_printed_and_a_missing_key_is_reported() {
    let service = Service::start();
    let keyless = Home::new().with("TRIPTYCH_DATASETS", &service.address());
    let why = keyless.run_err(&["datasets", "list"]);
    assert!(why.contains("TRIPTYCH_API_KEY"), "{why}");
    let path = keyless.write("key", format!("{}\n", service.key()).as_bytes());
    let output = keyless.run(&["datasets", "list", "--key-file", &path]);
    assert_eq!((output.code, output.out.as_str()), (0, ""), "{output:?}");
    let wrong = "UP-000000000000000000000000";
    let stranger = keyless.with("TRIPTYCH_API_KEY", wrong);
    let why = stranger.run_err(&["datasets", "list"]);
    assert!(why.contains("401") && !why.contains(wrong), "{why}");
}
