//! `triptych datasets replay`: history as if it were live.

use serde_json::Value;

use super::{create, insert, minute_row, timestamp};
use crate::support::datasets::Service;

#[tokio::test]
async fn dataset_is_replayed_with_its_timestamps_or_new_ones() {
    let service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "past").await;
    let rows: Vec<_> = (0..2500).map(minute_row).collect();
    insert(&http, dataset, &rows).await;

    let replay = ["datasets", "replay", "past", "--speed", "max", "--to"];
    home.run_ok(&[&replay[..], &["kept", "--times", "keep"]].concat());
    assert_eq!(service.rows("kept").await, service.rows("past").await);

    let (start, end) = (timestamp(60), timestamp(89));
    home.run_ok(&[&replay[..], &["moved", "--start", &start, "--end", &end]].concat());
    let moved = service.rows("moved").await;
    let seconds = |row: &Value| {
        let timestamp: model::timestamp::Timestamp =
            row["timestamp"].as_str().unwrap().parse().unwrap();
        timestamp.seconds()
    };
    assert_eq!(moved.len(), 30);
    assert_eq!(moved[29]["close"].as_f64(), minute_row(89)["values"]["close"].as_f64());
    assert_eq!(seconds(&moved[29]) - seconds(&moved[0]), 29 * 60, "the time between rows stays");
    let began = task::clock::Clock::system().now().seconds();
    assert!((began - 600..=began).contains(&seconds(&moved[0])), "they begin now");
}

#[test]
fn file_is_replayed_to_standard_output_at_its_pace() {
    let service = Service::start();
    let home = service.home();
    // Ten hours of history take a fifth of a second.
    let rows = (0..10).map(|hour| format!("{},{hour}", timestamp(60 * hour)));
    let rows = rows.collect::<Vec<_>>().join("\n");
    let path = home.write("h.csv", format!("time,close\n{rows}").as_bytes());
    let out = home.run_ok(&["datasets", "replay", &path, "--speed", "180000x", "--times", "keep"]);
    let want = (0..10)
        .map(|hour| format!("{{\"close\":{hour},\"timestamp\":\"{}\"}}", timestamp(60 * hour)));
    assert_eq!(out.lines().collect::<Vec<_>>(), want.collect::<Vec<_>>());
    let why = home.run_err(&["datasets", "replay", "no-such"]);
    assert!(why.contains("no dataset no-such"), "{why}");
}
