//! A data directory that is deleted or replaced while a service uses it, or used by two services.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{create, insert, minute_row};
use crate::support::command::Home;
use crate::support::datasets::Service;
use crate::support::http::Http;
use crate::support::running::Running;

/// Number of concurrent clients that insert.
const N_WRITERS: u32 = 4;

/// Inserts single rows, beginning with minute `first`, until a row is rejected. Returns the error.
/// Checks that no insert that began after `is_over` became true is acknowledged.
async fn write_until_refused(
    http: Http,
    dataset: i64,
    first: u32,
    is_over: Arc<AtomicBool>,
) -> (StatusCode, Value) {
    for minute in first.. {
        let was_over = is_over.load(Ordering::SeqCst);
        let request = json!({"dataset": dataset, "rows": [minute_row(minute)]});
        let (status, body) = http.post("/api/rows/bulk_insert/", &request).await;
        if status != StatusCode::CREATED {
            return (status, body);
        }
        assert!(!was_over, "a row was acknowledged that nobody will find");
    }
    unreachable!("a number ends")
}

/// Runs `harm`, which damages the directory, while rows are inserted. Checks that rows are rejected
/// afterwards.
async fn check_refused_after(service: &Service, dataset: i64, harm: impl FnOnce()) {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for number in 1..=N_WRITERS {
        let (http, is_over) = (service.http(), Arc::clone(&is_over));
        writers.spawn(write_until_refused(http, dataset, 10_000 * number, is_over));
    }
    insert(&service.http(), dataset, &[minute_row(1)]).await;
    harm();
    is_over.store(true, Ordering::SeqCst);
    while let Some(refusal) = writers.join_next().await {
        let (status, body) = refusal.unwrap();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    }
    let (status, health) = service.http().get_json("/health").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{health}");
    assert_eq!(health["status"], "unhealthy", "{health}");
}

#[tokio::test]
async fn rows_are_rejected_after_the_data_directory_is_deleted() {
    let service = Service::start();
    let dataset = create(&service.http(), "gone").await;
    let folder = service.data_dir();
    check_refused_after(&service, dataset, || fs::remove_dir_all(folder).unwrap()).await;
}

#[tokio::test]
async fn backup_moved_over_a_store_in_use_is_served_after_a_restart() {
    let mut service = Service::start();
    let home = service.home().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let dataset = create(&service.http(), "kept").await;
    insert(&service.http(), dataset, &(0..500).map(minute_row).collect::<Vec<_>>()).await;
    let copy = format!("{}/copy", service.data_dir());
    home.run_ok(&["datasets", "backup", &copy]);
    insert(&service.http(), dataset, &(500..5_000).map(minute_row).collect::<Vec<_>>()).await;
    let store = format!("{}/datasets.db", service.data_dir());
    check_refused_after(&service, dataset, || fs::rename(copy, store).unwrap()).await;
    service.stop();
    service.start_again();
    assert_eq!(service.n_rows("kept").await, 500);
    insert(&service.http(), dataset, &[minute_row(600)]).await;
    let verified: Value =
        serde_json::from_str(&home.run_ok(&["datasets", "verify", "--json"])).unwrap();
    assert_eq!((&verified["rows"], &verified["total_faults"]), (&json!(501), &json!(0)));
}

#[tokio::test]
async fn data_directory_in_use_by_a_service_is_rejected() {
    let mut service = Service::start();
    let home = Home::new().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let datasets = ["datasets", "serve", "--listen", "127.0.0.1:0"].as_slice();
    let inference = ["inference", "serve", "--listen", "127.0.0.1:0"];
    let nobody = ["--head", "http://127.0.0.1:1", "--datasets", "http://127.0.0.1:1/api"];
    let inference = [inference, nobody].concat();
    let data_dir = service.data_dir();
    let first = Running::start(&[&inference[..], &["--data-dir", &data_dir]].concat());
    first.wait_log_field("inference service listening", "address");
    for arguments in [datasets, &inference] {
        let why = home.run_err(arguments);
        assert!(why.contains("another process"), "{why}");
    }
    first.kill();
    let dataset = create(&service.http(), "kept").await;
    insert(&service.http(), dataset, &[minute_row(1)]).await;
    // The system releases the lock of a killed service.
    service.restart();
    assert_eq!(service.n_rows("kept").await, 1);
}

/// A command that exits must not remove the write-ahead log, since the running service still uses it.
#[tokio::test]
async fn keys_created_next_to_a_running_service_are_valid() {
    let service = Service::start();
    let home = Home::new().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let log = format!("{}/accounts.db-wal", service.data_dir());
    let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&log).unwrap());
    let before = inode();
    for name in ["a", "b"] {
        let key = home.run_ok(&["keys", "create", name]).trim().to_owned();
        assert_eq!(inode(), before);
        let base = service.http().base().to_owned();
        let (status, body) = Http::new(&base, Some(&key)).get("/api/datasets/").await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    assert_eq!(service.http().get("/health").await.0, StatusCode::OK);
}
