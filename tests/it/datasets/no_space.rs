//! A service whose files cannot grow, as on a full disk.

use std::time::Duration;

use model::timestamp::Timestamp;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{COLUMNS, create};
use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;

/// Time limit of each wait, on a busy machine.
const WITHIN: Duration = Duration::from_mins(1);

/// Number of rows in one request, which add a few hundred kilobytes to the file.
const ROWS: u32 = 5_000;

fn row(second: u32) -> Value {
    let value = f64::from(second).sin();
    let values = COLUMNS.map(|column| (column.to_owned(), json!(value)));
    let timestamp = Timestamp::from_seconds(1_770_000_000 + i64::from(second));
    json!({"timestamp": timestamp.to_string(), "values": serde_json::Map::from_iter(values)})
}

/// Returns the rows of the request with this index.
fn rows(dataset: i64, request_idx: u32) -> Value {
    let seconds = request_idx * ROWS..(request_idx + 1) * ROWS;
    json!({"dataset": dataset, "rows": seconds.map(row).collect::<Vec<_>>()})
}

#[tokio::test]
async fn service_on_a_full_disk_is_unhealthy_until_a_rejected_insert_succeeds() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let key = Home::new().run_ok(&["keys", "create", "it", "--data-dir", &data_dir]);
    let arguments = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &data_dir];
    // Each file is limited to some megabytes. A write beyond the limit fails, since the signal that
    // would kill the process is ignored.
    let service = Running::start_after("trap '' XFSZ; ulimit -S -f 6000", &arguments);
    let address = service.wait_log_field("dataset service listening", "address");
    let http = Http::new(&format!("http://{address}"), Some(key.trim()));
    let dataset = create(&http, "btc").await;
    let mut n_stored = 0;
    let (status, refused) = loop {
        let answer = http.post("/api/rows/bulk_insert/", &rows(dataset, n_stored)).await;
        if !answer.0.is_success() || n_stored > 200 {
            break answer;
        }
        n_stored += 1;
    };
    assert_eq!(status, 507, "{refused}");
    // A single row may still fit by chance.
    let row = json!({"dataset": dataset, "rows": [row(0)]});
    http.post("/api/rows/bulk_insert/", &row).await;
    for _ in 0..3 {
        let (status, health) = http.get_json("/health").await;
        assert_eq!((status.as_u16(), &health["database"]), (507, &json!("full")), "{health}");
    }
    let pid = Pid::from_raw(service.pid().try_into().unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    let healthy = async || match http.get_json("/health").await {
        (status, _) if status.is_success() => Ok(()),
        answer => Err(answer),
    };
    task::wait::until(WITHIN, healthy).await.unwrap();
    let (status, _) = http.post("/api/rows/bulk_insert/", &rows(dataset, n_stored)).await;
    assert_eq!(status, 201);
    let path = format!("/api/rows/bulk_download/?dataset={dataset}&output=csv");
    let (_, csv) = http.get(&path).await;
    assert_eq!(csv.lines().count() - 1, usize::try_from((n_stored + 1) * ROWS).unwrap());
}
