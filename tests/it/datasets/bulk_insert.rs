//! `POST /api/rows/bulk_insert/`: acknowledged rows are durable.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use super::{create, minute_row, timestamp};
use crate::support::TRIPTYCH;
use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::running::Running;
use crate::support::server::LossyProxy;

/// Number of rows per insert.
const BATCH: u32 = 20;

/// Number of acknowledged inserts before the service is killed.
const N_ACKNOWLEDGED: u32 = 15;

/// Maximum number of inserts that are tried. Together they contain the rows of two weeks.
const N_TRIED_MAX: u32 = 1000;

/// Starts only the dataset service, with the directory `data_dir`.
pub(super) fn serve(data_dir: &str, key: &str) -> (Running, Http) {
    serve_with(data_dir, key, &[])
}

/// Like [`serve`], with additional environment variables.
pub(super) fn serve_with(
    data_dir: &str,
    key: &str,
    environment: &[(&str, &str)],
) -> (Running, Http) {
    let arguments = ["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir];
    let service = Running::start_with(&arguments, environment);
    let address = service.wait_log_field("dataset service listening", "address");
    (service, Http::new(&format!("http://{address}"), Some(key)))
}

/// Creates a key for a service that has not been started yet.
pub(super) fn new_key(data_dir: &str, name: &str) -> String {
    new_key_with(data_dir, name, &[])
}

/// Like [`new_key`], with additional environment variables.
pub(super) fn new_key_with(data_dir: &str, name: &str, environment: &[(&str, &str)]) -> String {
    let made = Command::new(TRIPTYCH)
        .args(["keys", "create", name, "--data-dir", data_dir])
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_rows_survive_a_kill() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let key = new_key(&data_dir, "it");
    assert!(key.starts_with("UP-"), "{key}");
    let (service, http) = serve(&data_dir, &key);
    let dataset = create(&http, "it durable").await;

    // The service is killed while rows are inserted, so the last insert may or may not be stored.
    let (tell, mut acknowledged) = watch::channel(0_u32);
    let inserts = async {
        for batch in 0..N_TRIED_MAX {
            let rows: Vec<_> = (batch * BATCH..(batch + 1) * BATCH).map(minute_row).collect();
            let request = json!({"dataset": dataset, "rows": rows});
            match http.try_post("/api/rows/bulk_insert/", &request).await {
                Ok(status) => assert!(status.is_success(), "{status}"),
                Err(_gone) => return,
            }
            tell.send_replace(batch + 1);
        }
        panic!("the service is gone before a month has passed");
    };
    let kill = async {
        acknowledged.wait_for(|n| *n >= N_ACKNOWLEDGED).await.unwrap();
        tokio::task::spawn_blocking(|| service.kill()).await.unwrap();
    };
    tokio::join!(inserts, kill);
    let n_acknowledged = *tell.borrow() * BATCH;

    let (_service, http) = serve(&data_dir, &key);
    let (start, end) = (timestamp(0), timestamp(30 * 1440));
    let path = format!("/api/rows/bulk_download/?dataset={dataset}&start={start}&end={end}");
    let rows = http.get_ok(&path).await;
    let rows = rows.as_array().unwrap();
    let wanted = usize::try_from(n_acknowledged).unwrap();
    assert!(rows.len() >= wanted, "{} of {wanted} acknowledged rows are there", rows.len());
    for (minute, row) in (0..n_acknowledged).zip(rows) {
        let sent = minute_row(minute);
        assert_eq!(row["timestamp"], sent["timestamp"]);
        assert_eq!(row["close"].as_f64(), sent["values"]["close"].as_f64());
    }

    // The buckets must contain exactly the stored rows, since they are written in the same commits.
    let path = format!("{path}&resolution=5m");
    let buckets = http.get_ok(&path).await;
    let counts = buckets.as_array().unwrap().iter().map(|bucket: &Value| bucket["count"].as_u64());
    assert_eq!(counts.sum::<Option<u64>>(), u64::try_from(rows.len()).ok());
}

/// Inserts two rows with the idempotency key `name`. Returns the status and body of the response, or the
/// error if there is no response.
async fn insert_named(http: &Http, dataset: i64, name: &str) -> Result<(u16, Value), String> {
    let body = json!({"dataset": dataset, "rows": [minute_row(0), minute_row(1)]});
    http.post_idempotent("/api/rows/bulk_insert/", &body, name)
        .await
        .map_err(|error| error.to_string())
}

/// Checks that a request through `proxied` is stored once although the proxy `lose` drops the response.
/// `http` accesses the service directly.
async fn check_lost_response(proxied: &Http, http: &Http, lose: &LossyProxy) {
    let dataset = create(http, "it lost").await;
    let stored = |revision: u64| Ok((201, json!({"inserted": 2, "revision": revision})));
    let lost = insert_named(proxied, dataset, "a").await;
    assert!(lose.has_lost() && lost.as_ref().map_or(503, |(status, _)| *status) == 503, "{lost:?}");
    for _ in 0..2 {
        assert_eq!(insert_named(proxied, dataset, "a").await, stored(1));
    }
    assert_eq!(insert_named(http, dataset, "b").await, stored(2), "there was one commit before");
    let path = format!("/api/rows/?dataset={dataset}");
    assert_eq!(http.get_ok(&path).await["count"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insert_with_a_lost_response_is_stored_once() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let key = new_key(&data_dir, "it");
    let (_service, http) = serve(&data_dir, &key);
    let service = http.base().strip_prefix("http://").unwrap();
    let cut = LossyProxy::start(service, &["POST /api/rows/bulk_insert/"]);
    let proxied = Http::new(&format!("http://{}", cut.address), Some(&key));
    check_lost_response(&proxied, &http, &cut).await;

    // Here a command sends the request, and retries it automatically.
    let cut = LossyProxy::start(service, &["POST /api/rows/bulk_insert/"]);
    let address = format!("http://{}/api", cut.address);
    let home = Home::new().with("TRIPTYCH_DATASETS", &address).with("TRIPTYCH_API_KEY", &key);
    home.write("lost.csv", format!("timestamp,close\n{},1.5\n", timestamp(0)).as_bytes());
    home.run_ok(&["datasets", "import", "lost.csv"]);
    assert!(cut.has_lost());
    let path = "/api/rows/bulk_insert/?dataset_name=lost";
    let row = json!({"rows": [{"timestamp": timestamp(1), "values": {"close": 2.5}}]});
    let (_, answer) = http.post_idempotent(path, &row, "next").await.unwrap();
    assert_eq!(answer, json!({"inserted": 1, "revision": 2}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insert_with_a_lost_database_response_is_stored_once() {
    let Some(url) = test_postgres::new_database() else { return };
    let (user, host) = url.rsplit_once('@').expect("an address with a user");
    let (host, name) = host.split_once('/').expect("an address with a name");
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    // The proxy is between the service and the database, which has committed the insert.
    let cut = LossyProxy::start(host, &["INTO datasets.batches", "COMMIT"]);
    let store = format!("{user}@{}/{name}", cut.address);
    let environment = [("TRIPTYCH_STORE", store.as_str())];
    let key = new_key_with(&data_dir, "it", &environment);
    let (_service, http) = serve_with(&data_dir, &key, &environment);
    check_lost_response(&http, &http, &cut).await;

    let service = http.base().strip_prefix("http://").unwrap();
    let cut = LossyProxy::start(service, &["POST /api/rows/bulk_insert/"]);
    let proxied = Http::new(&format!("http://{}", cut.address), Some(&key));
    let dataset = create(&http, "it lost again").await;
    assert!(insert_named(&proxied, dataset, "c").await.is_err() && cut.has_lost());
    let want = Ok((201, json!({"inserted": 2, "revision": 1})));
    assert_eq!(insert_named(&proxied, dataset, "c").await, want);
}
