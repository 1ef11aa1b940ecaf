//! The dataset service and its commands. Rows are written, read and followed, and survive the kill of
//! the service.

mod bulk_insert;
mod command;
mod copy;
mod export;
mod folder;
mod follow;
mod import;
mod mirror;
mod no_space;
mod open_files;
mod rows;
mod scenarios;
mod split;
mod stream;
mod upkeep;

use serde_json::{Value, json};

use crate::support::http::Http;

/// Columns of the datasets that these tests create.
const COLUMNS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Creates a dataset and returns its id.
async fn create(http: &Http, name: &str) -> i64 {
    let columns: Vec<_> =
        COLUMNS.iter().map(|name| json!({"name": name, "dtype": "float"})).collect();
    let request = json!({"name": name, "columns": columns});
    let (status, body) = http.post("/api/datasets/", &request).await;
    assert!(status.is_success(), "{status}: {body}");
    body["id"].as_i64().unwrap()
}

/// Returns a row for a minute. The values depend only on `minute`.
fn minute_row(minute: u32) -> Value {
    let close = 100.0 + f64::from(minute % 7);
    json!({
        "timestamp": timestamp(minute),
        "values": {
            "open": 100.5,
            "high": close + 0.5,
            "low": close - 1.25,
            "close": close,
            "volume": f64::from(minute) + 0.25,
        },
    })
}

/// Returns the timestamp `minute` minutes after the start of 2026-03-01.
fn timestamp(minute: u32) -> String {
    let (day, hour, minute) = (1 + minute / 1440, minute / 60 % 24, minute % 60);
    assert!(day <= 31, "within one month");
    format!("2026-03-{day:02}T{hour:02}:{minute:02}:00Z")
}

/// Inserts rows and checks that all rows were stored.
async fn insert(http: &Http, dataset: i64, rows: &[Value]) {
    let request = json!({"dataset": dataset, "rows": rows});
    let (status, body) = http.post("/api/rows/bulk_insert/", &request).await;
    assert!(status.is_success(), "{status}: {body}");
    assert_eq!(body["inserted"], rows.len(), "{body}");
}
