//! `triptych datasets verify`, `backup` and `restore`: maintenance of a service's file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::Value;

use super::{create, insert, minute_row, timestamp};
use crate::support::command::Home;
use crate::support::datasets::Service;
use crate::support::http::Http;

#[tokio::test]
async fn backup_of_a_running_service_can_be_restored() {
    let mut service = Service::start();
    let home = service.home().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let dataset = create(&service.http(), "kept").await;
    let rows: Vec<_> = (0..2_000).map(minute_row).collect();
    insert(&service.http(), dataset, &rows).await;
    let verified: Value =
        serde_json::from_str(&home.run_ok(&["datasets", "verify", "--json"])).unwrap();
    let [rows, faults] = ["rows", "total_faults"].map(|name| verified[name].as_u64().unwrap());
    assert_eq!((rows, faults), (2_000, 0), "{verified}");
    assert!(verified["buckets"].as_u64().unwrap() > 400, "{verified}");

    let copy = home.path("copy.db");
    home.run_ok(&["datasets", "backup", &copy]);
    let why = home.run_err(&["datasets", "backup", &copy]);
    assert!(why.contains("already exists"), "{why}");
    let before = service.rows("kept").await;
    insert(&service.http(), dataset, &[minute_row(2_001)]).await;

    let why = home.run_err(&["datasets", "restore", &copy]);
    assert!(why.contains("hint: pass --yes"), "{why}");
    let why = home.run_err(&["datasets", "restore", &copy, "--yes"]);
    assert!(why.contains("is in use by a service"), "{why}");
    assert_eq!(service.n_rows("kept").await, 2_001);
    service.stop();
    let output = home.run(&["datasets", "restore", &copy, "--yes"]);
    assert!(output.code == 0 && output.err.contains("1 dataset, 2000 rows"), "{output:?}");
    service.start_again();
    assert_eq!(service.rows("kept").await, before);
}

/// The store of the services might be lost, so a restore does not replace the store of a local stack
/// unless its directory is named.
#[test]
fn restore_replaces_the_only_store_of_a_local_stack_only_if_it_is_named() {
    let home = Home::new();
    let stack = home.path(".local/share/triptych/stack");
    let running =
        home.start(&["datasets", "serve", "--listen", "127.0.0.1:0", "--data-dir", &stack]);
    running.wait_log_field("dataset service listening", "address");
    running.kill();
    let copy = home.path("copy.db");
    home.run_ok(&["datasets", "backup", &copy]);
    let why = home.run_err(&["datasets", "restore", &copy, "--yes"]);
    assert!(
        why.contains("share/triptych/stack/datasets.db\n") && why.contains("pass --data-dir"),
        "{why}"
    );
    home.run_ok(&["datasets", "restore", &copy, "--yes", "--data-dir", &stack]);
    let services = home.path(".local/share/triptych/services");
    assert!(!fs::exists(&services).unwrap());
    home.run_ok(&["datasets", "restore", &copy, "--data-dir", &services]);
    for command in [&["restore", &copy, "--yes"][..], &["backup", "other.db"], &["verify"]] {
        let why = home.run_err(&[&["datasets"], command].concat());
        assert!(
            why.contains("triptych/services, ") && why.contains("hint: pass --data-dir"),
            "{why}"
        );
    }
}

/// After a restore, entity tags that a reader received before are invalid.
#[tokio::test]
async fn etag_is_invalid_after_a_restore() {
    let mut service = Service::start();
    let home = service.home().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let dataset = create(&service.http(), "kept").await;
    let rows: Vec<_> = (0..2_000).map(minute_row).collect();
    insert(&service.http(), dataset, &rows).await;
    let copy = home.path("copy.db");
    home.run_ok(&["datasets", "backup", &copy]);
    let (start, end) = (timestamp(0), timestamp(1_999));
    let path = format!("/api/rows/bulk_download/?dataset={dataset}&start={start}&end={end}");
    // Responses have no entity tag while the store is being compacted.
    let tagged = async |http: Http, known: Option<&str>| {
        let look = || async {
            let (status, tag, body) = http.get_if_none_match(&path, known).await;
            tag.map(|tag| (status, tag, body.clone())).ok_or((status, body))
        };
        task::wait::until(Duration::from_secs(20), look).await.unwrap()
    };
    let (status, first, body) = tagged(service.http(), None).await;
    assert_eq!((status, body.is_empty()), (200, false));
    assert_eq!(tagged(service.http(), Some(&first)).await.0, 304);

    service.stop();
    home.run_ok(&["datasets", "restore", &copy, "--yes"]);
    service.start_again();
    let (status, second, again) = tagged(service.http(), Some(&first)).await;
    assert_eq!((status, again), (200, body), "the same rows, told anew");
    assert_ne!(second, first);
}

#[tokio::test]
async fn files_of_a_service_are_private_to_its_user() {
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let service = Service::start();
    let home = service.home().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    create(&service.http(), "kept").await;
    for name in ["accounts.db", "datasets.db", "datasets.db-wal"] {
        assert_eq!(mode(&format!("{}/{name}", service.data_dir())), 0o600, "{name}");
    }
    let copy = home.path("copy.db");
    home.run_ok(&["datasets", "backup", &copy]);
    let folder = home.path("new");
    home.run_ok(&["datasets", "restore", &copy, "--data-dir", &folder]);
    assert_eq!([mode(&copy), mode(&format!("{folder}/datasets.db"))], [0o600; 2]);
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn verify_command_rejects_a_file_that_is_no_store() {
    let home = Service::start().home();
    let junk = home.write("junk.db", &[7; 8192]);
    let why = home.run_err(&["datasets", "verify", "--file", &home.path("none.db")]);
    assert!(why.contains("no dataset store"), "{why}");
    let output = home.run(&["datasets", "verify", "--file", &junk]);
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(fs::read(junk).unwrap(), [7; 8192], "it is left as it is");
}
