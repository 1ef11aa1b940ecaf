//! `GET /api/rows/live/`: returns the latest rows, one per line.

use serde_json::Value;

use super::{COLUMNS, create, insert, members, minute_row, timestamp};
use crate::support::up::Up;

#[tokio::test]
async fn live_lines_are_flat_rows_newest_first() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it live").await;
    let rows: Vec<_> = (0..8).map(minute_row).collect();
    insert(&http, dataset, &rows).await;

    let (status, text) = http.get(&format!("/api/rows/live/?dataset={dataset}&limit=5")).await;
    assert_eq!(status, 200, "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let times: Vec<_> = lines.iter().map(|line| line["timestamp"].as_str().unwrap()).collect();
    assert_eq!(times, [7, 6, 5, 4, 3].map(timestamp));
    for (line, sent) in lines.iter().zip(rows.iter().rev()) {
        assert_eq!(members(line).len(), 1 + COLUMNS.len(), "{line}");
        for column in COLUMNS {
            assert_eq!(line[column].as_f64(), sent["values"][column].as_f64(), "{column}");
        }
    }
}
