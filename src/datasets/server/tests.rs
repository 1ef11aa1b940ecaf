//! Tests of the service over HTTP, with a file for each file of `server`.

mod archive;
mod browsers;
mod buckets;
mod bulk_download;
mod bulk_insert;
mod columns;
mod datasets;
mod replicas;
mod retention;
mod roles;
mod rows;
mod status;
mod stream;
mod tags;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use accounts::Accounts;
use accounts::gate::GateOptions;
use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use model::timestamp::Timestamp;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tower::ServiceExt as _;

use tsdb::store::Store;

use super::*;
use crate::POLL_EVERY;

/// Timestamp of the first row. Further rows follow at intervals of a minute.
const FIRST: &str = "2026-07-29T00:00:00Z";

/// Maximum number of streams of all accounts together.
const N_STREAMS: usize = 8192;

/// Time that the manual clock shows.
const NOW: &str = "2026-07-30T22:00:00.376Z";

/// A service with two API keys.
pub(crate) struct Service {
    app: App,
    accounts: Accounts,
    router: Router,
    clock: Clock,
    group: Group,
    /// Key that creates the datasets and therefore owns them.
    owner: String,
    /// Key that holds the tag `public`.
    reader: String,
    folder: TempDir,
}

impl Service {
    async fn start() -> Self {
        let folder = tempdir().unwrap();
        let clock = Clock::manual(NOW.parse().unwrap());
        let accounts =
            Accounts::open(folder.path().join("accounts.sqlite"), clock.clone()).await.unwrap();
        let (_, owner) = accounts.create_key("owner").await.unwrap();
        let (_, reader) = accounts.create_key("reader").await.unwrap();
        let (owner, reader) = (owner.reveal().to_owned(), reader.reveal().to_owned());
        let (app, group) = open_app(folder.path(), &accounts, &clock);
        let router = router(Arc::clone(&app), None, &[]);
        Self { app, accounts, router, clock, group, owner, reader, folder }
    }

    /// Stops the service and starts it again.
    async fn restart(self) -> Self {
        let Self { app, accounts, router: old, clock, group, owner, reader, folder } = self;
        group.shutdown().await;
        drop((app, old));
        let (app, group) = open_app(folder.path(), &accounts, &clock);
        let router = router(Arc::clone(&app), None, &[]);
        Self { app, accounts, router, clock, group, owner, reader, folder }
    }

    /// Starts a service with dataset 1, called `btc`, which has bars of one minute and is visible to
    /// both keys.
    async fn with_bars(n_minutes: usize) -> Self {
        let service = Self::start().await;
        let columns = ["open", "high", "low", "close", "volume"]
            .map(|name| json!({"name": name, "dtype": "float"}));
        let body = json!({
            "name": "btc", "description": "Bars", "tags": ["public"],
            "metadata": {"ticker": "btcusd", "source": "test"},
            "columns": columns,
        });
        let owner = &service.owner;
        assert_eq!(service.post(owner, "/api/datasets/", &body).await.0, 201);
        for key in [owner, &service.reader] {
            let tag = json!({"tag_name": "public"});
            assert_eq!(service.post(key, "/api/tags/acquire/", &tag).await.0, 200);
        }
        if n_minutes > 0 {
            service.insert((0..n_minutes).map(bar).collect()).await;
        }
        service
    }

    /// Creates a dataset of the owner.
    async fn create(&self, name: &str, columns: &Value) {
        let new = json!({"name": name, "columns": columns});
        assert_eq!(self.post(&self.owner, "/api/datasets/", &new).await.0, 201);
    }

    /// Inserts rows into dataset 1.
    async fn insert(&self, rows: Vec<Value>) {
        let n_rows = rows.len();
        assert_eq!(self.try_insert(&json!(rows)).await, (201, json!({"inserted": n_rows})));
    }

    /// Sends rows to dataset 1. Returns the response.
    async fn try_insert(&self, rows: &Value) -> (u16, Value) {
        let body = json!({"dataset": 1, "rows": rows});
        self.post(&self.owner, "/api/rows/bulk_insert/", &body).await
    }

    /// Returns the page at `path` and all following pages.
    async fn pages(&self, key: &str, path: &str) -> Vec<Value> {
        let (mut next, mut pages) = (Some(path.to_owned()), Vec::new());
        while let Some(path) = next {
            let (status, page) = self.get(key, &path).await;
            assert_eq!(status, 200, "{path}: {page}");
            next = page["next"].as_str().map(str::to_owned);
            pages.push(page);
        }
        pages
    }

    /// Returns the first page of the rows of dataset 1.
    async fn rows(&self) -> Value {
        self.get(&self.owner, "/api/rows/?dataset=1").await.1
    }

    async fn send(&self, key: &str, method: &str, path: &str, body: Body) -> Response {
        let key = [("X-API-Key", key)];
        self.send_with(if key[0].1.is_empty() { &[] } else { &key }, method, path, body).await
    }

    /// Sends a request with these headers.
    async fn send_with(
        &self,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Body,
    ) -> Response {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.router.clone().oneshot(request.body(body).unwrap()).await.unwrap()
    }

    /// Sends a JSON body. Returns the status and the response as JSON.
    async fn call(&self, key: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        json_of(self.send(key, method, path, Body::from(body.to_string())).await).await
    }

    async fn delete(&self, key: &str, path: &str) -> (u16, Value) {
        json_of(self.send(key, "DELETE", path, Body::empty()).await).await
    }

    async fn post(&self, key: &str, path: &str, body: &Value) -> (u16, Value) {
        let response = self.send(key, "POST", path, Body::from(body.to_string())).await;
        json_of(response).await
    }

    async fn get(&self, key: &str, path: &str) -> (u16, Value) {
        json_of(self.send(key, "GET", path, Body::empty()).await).await
    }

    /// Returns the text and the content type of the response to the reader, which must be successful.
    async fn text(&self, path: &str) -> (String, String) {
        let response = self.send(&self.reader, "GET", path, Body::empty()).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        let content_type = response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (String::from_utf8(body.to_vec()).unwrap(), content_type)
    }
}

/// Opens the store in `folder` and creates the state of a service with this store.
fn open_app(folder: &Path, accounts: &Accounts, clock: &Clock) -> (App, Group) {
    let store = SqliteStore::open(&folder.join("datasets.sqlite")).unwrap();
    app_on(Arc::new(store), folder, accounts, clock)
}

/// Creates the state of a service with `store`. Its caches are in `folder`.
fn app_on(
    store: Arc<dyn Store>,
    folder: &Path,
    accounts: &Accounts,
    clock: &Clock,
) -> (App, Group) {
    let group = Group::default();
    let pieces = DownloadCache::open(&folder.join("pieces"), 1 << 20).unwrap();
    let app = App::from(Shared {
        datasets: Datasets {
            download_cache: pieces.into(),
            ..Datasets::new(store, clock.clone(), &group)
        },
        gate: Gate::new(accounts.clone(), GateOptions::unlimited(), clock.clone()),
        clock: clock.clone(),
        group: group.clone(),
        inserts: super::bulk_insert::new_limit(),
        streams: StreamLimit::new(N_STREAMS),
        health: Arc::default(),
    });
    (app, group)
}

async fn json_of(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&body);
    (status, serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

fn timestamp_of(minute: usize) -> String {
    let first: Timestamp = FIRST.parse().unwrap();
    (first + Duration::from_mins(minute.try_into().unwrap())).to_string()
}

/// Returns the bar of a minute. It opens at the number of the minute and closes 0.5 higher.
fn bar(minute: usize) -> Value {
    let open = f64::from(u32::try_from(minute).unwrap());
    json!({"timestamp": timestamp_of(minute), "values": {
        "open": open, "high": open + 1.0, "low": open - 1.0, "close": open + 0.5, "volume": 2.0,
    }})
}

fn refusal(error: &str) -> Value {
    json!({"details": null, "error": error})
}

#[tokio::test]
async fn service_on_a_full_disk_returns_507_and_is_unhealthy_until_there_is_space() {
    let service = Service::with_bars(1).await;
    let store = &service.app.datasets.store;
    store.limit_pages(1).await.unwrap();
    let rows: Value = (0..20_000).map(bar).collect();
    let (status, answer) = service.try_insert(&rows).await;
    assert_eq!(status, 507, "{answer}");
    let text = answer["error"].as_str().unwrap();
    assert!(text.contains("disk is full") && text.ends_with(": insufficient storage"), "{text}");
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await.0, 200, "reads work");
    // Now there is space for a small insert, but not for an insert as large as the rejected one. Until
    // there is, the service remains unhealthy.
    store.limit_pages(150).await.unwrap();
    service.insert(vec![bar(20_000)]).await;
    for _ in 0..3 {
        let (status, health) = service.get("", "/health").await;
        assert_eq!((status, &health["database"]), (507, &json!("full")), "{health}");
    }
    store.limit_pages(1_000_000).await.unwrap();
    let healthy = async || match service.get("", "/health").await {
        (200, _) => Ok(()),
        answer => Err(answer),
    };
    task::wait::until(Duration::from_mins(1), healthy).await.unwrap();
    assert_eq!(service.try_insert(&rows).await.0, 201);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_rejected_with_the_common_error_body() {
    let service = Service::start().await;
    assert_eq!(
        service.get(&service.owner, "/api/nothing/").await,
        (404, refusal("path not found"))
    );
    let want = refusal("path not found; a path of the API ends in a slash");
    assert_eq!(service.get(&service.owner, "/api/datasets").await, (404, want));
    let answer = service.post(&service.owner, "/api/tags/", &json!({})).await;
    assert_eq!(answer, (405, refusal("method not allowed")));
    let answer = service.post("", "/health", &json!({})).await;
    assert_eq!(answer, (405, refusal("method not allowed")));
    for path in ["datasets/%ff/", "datasets/%ff/tags/", "datasets/1/tags/%ff/", "tags/%ff/holders/"]
    {
        let path = format!("/api/{path}");
        let method = if path.contains("1/tags") { "DELETE" } else { "GET" };
        let answer = service.call(&service.owner, method, &path, &json!({})).await;
        assert_eq!(answer, (400, refusal("path is not valid UTF-8: bad request")), "{path}");
    }
    let long = json!({"name": "a", "description": "x".repeat(SMALL_BODY_BYTES_MAX)});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &long).await.0, 413);
    let list = json!([1, [{"timestamp": "2026-01-01T00:00:00Z", "open": 5}]]);
    assert_eq!(service.post(&service.owner, "/api/rows/bulk_insert/", &list).await.0, 400);
    let (status, body) = service.post(&service.owner, "/api/tags/acquire/", &json!({})).await;
    assert_eq!(status, 400);
    assert!(body["error"].as_str().unwrap().ends_with(": bad request"), "{body}");
}

#[tokio::test]
async fn health_check_is_served_without_a_key() {
    let service = Service::start().await;
    let want = json!({"status": "healthy", "time": NOW, "database": "connected"});
    assert_eq!(service.get("", "/health").await, (200, want));
}

#[tokio::test]
async fn service_listens_on_the_reported_port() {
    let folder = tempdir().unwrap();
    let accounts = Accounts::open(folder.path().join("a.sqlite"), Clock::system()).await.unwrap();
    let options = DatasetsOptions {
        listen: "127.0.0.1:0".to_owned(),
        store_path: folder.path().join("d.sqlite"),
        database: None,
        is_read_only: false,
        archive: None,
        poll_every: POLL_EVERY,
        gate: Gate::new(accounts, GateOptions::unlimited(), Clock::system()),
        portal: None,
        load: None,
        market: None,
        reads: ReadOptions::USUAL,
        reader_sites: Vec::new(),
    };
    let group = Group::default();
    let service = DatasetsService::start(options, &group, Clock::system()).await.unwrap();
    tokio::net::TcpStream::connect(service.address()).await.unwrap();
    group.shutdown().await;
}
