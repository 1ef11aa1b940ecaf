//! A dataset service with datasets, rows that keep coming, and a screen that follows them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use task::clock::Clock;
use tokio::{
    runtime::Runtime,
    task::JoinHandle,
    time::{Instant, interval, sleep},
};

use crate::{
    SIZE,
    support::{TRIPTYCH, datasets::Service, http::Http, pty::Session},
};

/// How long anything may take to be shown.
pub(crate) const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// What the service of a figure is started with: a bench is one caller, and no flood.
const UNLIMITED: &str = "--unlimited-loopback";

/// Inserts a second, however many rows each brings.
const INSERTS_HZ: u32 = 20;

/// A service with `n` datasets of one column, each with `n_rows` rows up to now, a second apart.
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

/// Rows that keep coming, until it is dropped.
pub(crate) struct Rows {
    is_over: Arc<AtomicBool>,
    _inserting: JoinHandle<()>,
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Has a dataset get rows, `rate` in each second: one at a time, or 20 inserts of many.
pub(crate) fn rows(runtime: &Runtime, http: Http, dataset: Value, rate: u32) -> Rows {
    let is_over = Arc::new(AtomicBool::new(false));
    let is_told = Arc::clone(&is_over);
    let n_inserts = rate.min(INSERTS_HZ);
    let n_rows = rate / n_inserts;
    let inserting = runtime.spawn(async move {
        let mut turns = interval(Duration::from_secs(1) / n_inserts);
        while !is_told.load(Ordering::Relaxed) {
            turns.tick().await;
            let now = Clock::system().now();
            let apart = Duration::from_secs(1) / rate;
            let times: Vec<_> =
                (0..n_rows).rev().map(|age| (now - apart * age).to_string()).collect();
            insert(&http, &dataset, &times).await;
        }
    });
    Rows { is_over, _inserting: inserting }
}

/// The screen on `service` alone, with its Data screen open and a dataset followed.
pub(crate) fn follow(service: &Service) -> Session {
    let session = open(service);
    session.wait_text("1 Cluster", SHOWN_WITHIN);
    session.press("3");
    session.wait_text("live · ", SHOWN_WITHIN);
    session
}

/// The screen on `service` alone.
pub(crate) fn open(service: &Service) -> Session {
    let arguments = ["--datasets", &service.address()];
    Session::start_with(TRIPTYCH, &arguments, SIZE, &[("TRIPTYCH_API_KEY", service.key())])
}

/// Waits until nothing was written for `quiet`, but not past `within`.
pub(crate) fn settle(session: &Session, quiet: Duration, within: Duration) {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline && session.wrote_past(session.n_written(), quiet).is_some() {}
}

/// Lets time pass.
pub(crate) fn pass(runtime: &Runtime, time: Duration) {
    runtime.block_on(async { sleep(time).await });
}
