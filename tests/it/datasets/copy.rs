//! `triptych datasets copy` from one store to another. The command is killed and restarted.

use std::path::Path;
use std::time::Duration;

use super::{create, insert, minute_row};
use crate::support::command::Home;
use crate::support::datasets::Service;

/// Number of rows of the dataset. A copy commits them in five parts.
const ROWS: u32 = 40_000;

/// Maximum time until a copy has begun, on a busy machine.
const BEGINS_WITHIN: Duration = Duration::from_mins(1);

/// Returns a stopped service with two datasets, and everything that it served about them.
async fn filled_service() -> (Service, Vec<String>) {
    let mut service = Service::start();
    let (http, home) = (service.http(), service.home());
    let dataset = create(&http, "long").await;
    create(&http, "empty").await;
    for part in 0..4 {
        let rows: Vec<_> = (part * ROWS / 4..(part + 1) * ROWS / 4).map(minute_row).collect();
        insert(&http, dataset, &rows).await;
    }
    // A late row that replaces an existing row.
    insert(&http, dataset, &[minute_row(17)]).await;
    home.run_ok(&["datasets", "tags", "long", "--add", "desk"]);
    let served = all_responses(&service).await;
    service.stop();
    (service, served)
}

/// Returns all responses of the service about its datasets: the catalog, all rows and all buckets.
async fn all_responses(service: &Service) -> Vec<String> {
    let mut bodies = Vec::new();
    for path in [
        "/api/datasets/",
        "/api/datasets/1/tags/",
        "/api/rows/bulk_download/?dataset=1&output=csv",
        "/api/rows/bulk_download/?dataset=1&output=csv&resolution=5m",
        "/api/rows/bulk_download/?dataset=1&output=csv&resolution=1d",
        "/api/rows/bulk_download/?dataset=2&output=csv",
    ] {
        let (status, body) = service.http().get(path).await;
        assert!(status.is_success(), "{path}: {body}");
        bodies.push(body);
    }
    bodies
}

/// Restores the store of the stopped service from `file`, which also verifies the store. Then starts the
/// service.
fn put_in_place(service: &mut Service, file: &str) {
    let data_dir = service.data_dir();
    Home::new().run_ok(&["datasets", "restore", file, "--yes", "--data-dir", &data_dir]);
    service.start_again();
}

/// Starts a copy and kills it once `has_begun` returns true.
async fn kill_a_copy(from: &str, to: &str, has_begun: impl Fn() -> bool + Send + Sync) {
    let copy = Home::new().start(&["datasets", "copy", from, to]);
    let begun = async || if has_begun() { Ok(()) } else { Err("it has not begun") };
    task::wait::until(BEGINS_WITHIN, begun).await.unwrap();
    copy.kill();
}

#[tokio::test]
async fn killed_copy_resumes_and_serves_the_same_bytes() {
    let (mut service, before) = filled_service().await;
    let (home, from) = (Home::new(), service.data_dir());
    let to = home.path("copy.db");
    kill_a_copy(&from, &to, || Path::new(&to).is_file()).await;
    let copied = home.run_ok(&["datasets", "copy", &from, &to]);
    let lines: Vec<_> = copied.lines().collect();
    assert!(lines[0].starts_with("1  long  40000 rows  "), "{copied}");
    assert!(lines[1] == "2  empty  0 rows  0 buckets  equal", "{copied}");
    assert_eq!(home.run_ok(&["datasets", "copy", &from, &to]), copied, "nothing is left to do");
    put_in_place(&mut service, &to);
    assert_eq!(all_responses(&service).await, before);

    let why = home.run_err(&["datasets", "copy", &from, &home.path("other.db")]);
    assert!(why.contains("is locked by another process"), "{why}");
    let why = home.run_err(&["datasets", "copy", &to, &from]);
    assert!(why.contains("is locked by another process"), "{why}");
    let why = home.run_err(&["datasets", "copy", &to, &to]);
    assert!(why.contains("the same store"), "{why}");
    let why = home.run_err(&["datasets", "copy", &home.path("missing"), &to]);
    assert!(why.contains("does not exist"), "{why}");
    let why = home.run_err(&["datasets", "copy", "postgres:/typo@host", &home.path("x.db")]);
    assert!(why.contains("does not exist"), "{why}");
    let why = home.run_err(&["datasets", "copy", &to, &home.path("y.db"), "--dataset", "nobody"]);
    assert!(why.contains("has number or name"), "{why}");
    let chosen = ["--dataset", "empty", "--dataset", "nobody"];
    let why = home.run_err(&[&["datasets", "copy", &to, &home.path("z.db")], &chosen[..]].concat());
    assert!(why.ends_with("has number or name nobody\n"), "{why}");
}

#[tokio::test]
async fn next_copy_adds_late_rows_and_reports_failed_datasets() {
    let mut service = Service::start();
    let (http, home, from) = (service.http(), Home::new(), service.data_dir());
    let to = home.path("copy.db");
    let even: Vec<_> = (0..1500).map(|row| minute_row(row * 2)).collect();
    for name in ["one", "two", "three"] {
        let dataset = create(&http, name).await;
        insert(&http, dataset, &even).await;
    }
    service.stop();
    let first = home.run_ok(&["datasets", "copy", &from, &to]);
    service.start_again();
    for dataset in [1, 2] {
        insert(&service.http(), dataset, &[minute_row(17), minute_row(20)]).await;
    }
    let before = all_responses(&service).await;
    service.stop();

    let output = home.run(&["datasets", "copy", &to, &from]);
    assert_eq!(output.code, 1, "{output:?}");
    for name in ["1 (one)", "2 (two)"] {
        let refused = format!("error: cannot copy dataset {name} to {from}");
        let line = output.err.lines().find(|line| line.starts_with(&refused));
        assert!(line.unwrap().contains("was changed after it was copied"), "{output:?}");
    }
    assert_eq!(output.out.lines().collect::<Vec<_>>(), [first.lines().last().unwrap()]);

    let second = home.run_ok(&["datasets", "copy", &from, &to]);
    let lines: Vec<_> = second.lines().collect();
    assert!(lines[0].starts_with("1  one  1501 rows  "), "{second}");
    assert!(lines[1].starts_with("2  two  1501 rows  "), "{second}");
    assert_eq!(lines[2], first.lines().last().unwrap(), "nothing is new in it");
    assert_eq!(home.run_ok(&["datasets", "copy", &to, &from]), second, "both are equal");
    put_in_place(&mut service, &to);
    assert_eq!(all_responses(&service).await, before);
}

#[tokio::test]
async fn copy_of_a_copy_in_a_database_serves_the_same_bytes() {
    let Some(there) = test_postgres::new_database() else { return };
    let (mut service, before) = filled_service().await;
    let (home, from) = (Home::new(), service.data_dir());
    let (back, began) = (home.path("back.db"), tokio::time::Instant::now());
    // The progress of a copy to a database is not visible from outside, so the copy is killed after
    // different times.
    for wait in [50, 150, 400] {
        let until = began.elapsed() + Duration::from_millis(wait);
        kill_a_copy(&from, &there, || began.elapsed() > until).await;
    }
    let copied = home.run_ok(&["datasets", "copy", &from, &there]);
    kill_a_copy(&there, &back, || Path::new(&back).is_file()).await;
    assert_eq!(home.run_ok(&["datasets", "copy", &there, &back]), copied);
    put_in_place(&mut service, &back);
    assert_eq!(all_responses(&service).await, before);
}
