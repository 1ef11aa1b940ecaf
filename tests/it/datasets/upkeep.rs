//! `triptych datasets verify`, `backup` and `restore`: looking after the file of a service.

use std::fs;

use serde_json::Value;

use super::{create, insert, minute_row};
use crate::support::datasets::Service;

#[tokio::test]
async fn a_copy_made_while_the_service_writes_is_put_back() {
    let mut service = Service::start();
    let home = service.home().with("TRIPTYCH_DATA_DIR", &service.data_dir());
    let dataset = create(&service.http(), "kept").await;
    let rows: Vec<_> = (0..2_000).map(minute_row).collect();
    insert(&service.http(), dataset, &rows).await;
    let verified: Value =
        serde_json::from_str(&home.done(&["datasets", "verify", "--json"])).unwrap();
    let [rows, faults] = ["rows", "total_faults"].map(|name| verified[name].as_u64().unwrap());
    assert_eq!((rows, faults), (2_000, 0), "{verified}");
    assert!(verified["buckets"].as_u64().unwrap() > 400, "{verified}");

    let copy = home.path("copy.db");
    home.done(&["datasets", "backup", &copy]);
    let why = home.fails(&["datasets", "backup", &copy]);
    assert!(why.contains("where there is a file already"), "{why}");
    let before = service.rows("kept").await;
    insert(&service.http(), dataset, &[minute_row(2_001)]).await;

    let why = home.fails(&["datasets", "restore", &copy]);
    assert!(why.contains("say so with --yes"), "{why}");
    let why = home.fails(&["datasets", "restore", &copy, "--yes"]);
    assert!(why.contains("which a service has open"), "{why}");
    assert_eq!(service.n_rows("kept").await, 2_001);
    service.stop();
    let said = home.run(&["datasets", "restore", &copy, "--yes"]);
    assert!(said.code == 0 && said.err.contains("1 datasets, 2000 rows"), "{said:?}");
    service.start_again();
    assert_eq!(service.rows("kept").await, before);
}

#[test]
fn what_is_no_store_is_told() {
    let home = Service::start().home();
    let junk = home.write("junk.db", &[7; 8192]);
    let why = home.fails(&["datasets", "verify", "--file", &home.path("none.db")]);
    assert!(why.contains("find a dataset store"), "{why}");
    let said = home.run(&["datasets", "verify", "--file", &junk]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(fs::read(junk).unwrap(), [7; 8192], "it is left as it is");
}
