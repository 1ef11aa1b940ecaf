//! A dataset service, inserts at a constant rate and a screen that follows a dataset.

use std::time::Duration;

use serde_json::{Value, json};
use task::clock::Clock;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval};

use crate::SIZE;
use crate::support::TRIPTYCH;
use crate::support::datasets::Service;
use crate::support::http::Http;
use crate::support::pty::Session;

/// Longest wait for a change of the screen.
pub(crate) const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// Option that disables the limits of the service, since a benchmark is a single fast client.
const UNLIMITED: &str = "--unlimited-loopback";

/// Maximum number of inserts per second.
const INSERTS_HZ: u32 = 20;

/// Starts a service with `n` datasets of a single column, each with `n_rows` rows up to now, a second
/// apart.
pub(crate) fn with_datasets(runtime: &Runtime, n: usize, n_rows: u32) -> (Service, Vec<Value>) {
    let mut service = Service::start();
    service.stop();
    service.start_again_with(&[UNLIMITED]);
    let http = service.http();
    let datasets = runtime.block_on(async {
        let mut datasets = Vec::new();
        for number in 0..n {
            let dataset = create(&http, &format!("load-{number:02}")).await;
            let end = Clock::system().now();
            let times = (0..n_rows).rev().map(|age| end - Duration::from_secs(age.into()));
            let times: Vec<_> = times.map(|time| time.to_string()).collect();
            for times in times.chunks(1_000) {
                insert(&http, &dataset, times).await;
            }
            datasets.push(dataset);
        }
        datasets
    });
    (service, datasets)
}

async fn create(http: &Http, name: &str) -> Value {
    let columns = json!([{"name": "load", "dtype": "float"}]);
    let body = json!({"name": name, "description": "a load", "columns": columns});
    let (status, body) = http.post("/api/datasets/", &body).await;
    assert!(status.is_success(), "{status}: {body}");
    body["id"].clone()
}

async fn insert(http: &Http, dataset: &Value, times: &[String]) {
    let row = |(number, time): (usize, &String)| {
        let load = u32::try_from(number * 7 % 1_000).map_or(0.0, |part| 50.0 + f64::from(part));
        json!({"timestamp": time, "values": {"load": load}})
    };
    let rows: Vec<_> = times.iter().enumerate().map(row).collect();
    let body = json!({"dataset": dataset, "rows": rows});
    let (status, body) = http.post("/api/rows/bulk_insert/", &body).await;
    assert!(status.is_success(), "{status}: {body}");
}

/// Inserts `rate` rows per second, in at most 20 inserts, until the returned task is dropped.
pub(crate) fn insert_rows(runtime: &Runtime, http: Http, dataset: Value, rate: u32) -> JoinSet<()> {
    let n_inserts = rate.min(INSERTS_HZ);
    let n_rows = rate / n_inserts;
    let mut task = JoinSet::new();
    let inserting = async move {
        let mut interval = interval(Duration::from_secs(1) / n_inserts);
        loop {
            interval.tick().await;
            let now = Clock::system().now();
            let step = Duration::from_secs(1) / rate;
            let times: Vec<_> =
                (0..n_rows).rev().map(|age| (now - step * age).to_string()).collect();
            insert(&http, &dataset, &times).await;
        }
    };
    task.spawn_on(inserting, runtime.handle());
    task
}

/// Starts the screen with only `service` and follows a dataset on the Data screen.
pub(crate) fn follow(service: &Service) -> Session {
    let session = open(service);
    session.wait_text("1 Cluster", SHOWN_WITHIN);
    session.press("3");
    session.wait_text("live · ", SHOWN_WITHIN);
    session
}

/// Starts the screen with `service` only.
pub(crate) fn open(service: &Service) -> Session {
    let arguments = ["--datasets", &service.address()];
    Session::start_with(TRIPTYCH, &arguments, SIZE, &[("TRIPTYCH_API_KEY", service.key())])
}

/// Waits until the screen has written nothing for `quiet`, at most for `within`.
pub(crate) fn settle(session: &Session, quiet: Duration, within: Duration) {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline && session.wrote_past(session.n_written(), quiet).is_some() {}
}

/// Sleeps while the tasks of `runtime` run.
pub(crate) fn sleep(runtime: &Runtime, time: Duration) {
    runtime.block_on(async { tokio::time::sleep(time).await });
}
