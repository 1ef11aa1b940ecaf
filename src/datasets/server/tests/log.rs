//! `GET /api/rows/log/`

use axum::body::Bytes;
use axum::http::header::CACHE_CONTROL;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use web::address::AddressSource;
use web::serve::serve_by;

use super::*;

const PATH: &str = "/api/rows/log/?dataset=1";

/// Number of concurrently waiting readers.
const READERS: usize = 1000;

/// Returns the status, `Cache-Control` and body of a response.
async fn answer(service: &Service, key: &str, query: &str) -> (u16, String, Bytes) {
    let response = service.send(key, "GET", &format!("{PATH}{query}"), Body::empty()).await;
    let (status, kept) = (response.status().as_u16(), response.headers()[CACHE_CONTROL].clone());
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, kept.to_str().unwrap().to_owned(), body)
}

/// Returns the end of the log and its era.
async fn end(service: &Service) -> (u64, String) {
    let (status, body) = service.get(&service.reader, PATH).await;
    assert_eq!((status, &body["commits"]), (200, &json!([])), "{body}");
    assert_eq!(body.get("after"), None, "{body}");
    (body["revision"].as_u64().unwrap(), body["era"].as_str().unwrap().to_owned())
}

/// Returns the commits in the response to `query`, each with its revision and the minutes of its
/// rows.
async fn commits(service: &Service, query: &str) -> Vec<(u64, Vec<u64>)> {
    let (status, _, body) = answer(service, &service.reader, query).await;
    let text = String::from_utf8_lossy(&body);
    assert_eq!(status, 200, "{query}: {text}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let open = |row: &Value| row["open"].as_u64().unwrap();
    let commit = |commit: &Value| {
        let rows = commit["rows"].as_array().unwrap().iter().map(open).collect();
        (commit["revision"].as_u64().unwrap(), rows)
    };
    body["commits"].as_array().unwrap().iter().map(commit).collect()
}

#[tokio::test]
async fn reader_starts_at_the_end_and_continues_by_commit() {
    let service = Service::with_bars(2).await;
    let (revision, era) = end(&service).await;
    assert_eq!(revision, 1);
    service.insert(vec![bar(2), bar(3)]).await;
    service.insert(vec![bar(4)]).await;
    assert_eq!(commits(&service, "&after=1").await, [(2, vec![2, 3])], "one alone");
    assert_eq!(commits(&service, "&after=2&wait=20").await, [(3, vec![4])]);
    let both = commits(&service, &format!("&after=1&until=3&era={era}")).await;
    assert_eq!(both, [(2, vec![2, 3]), (3, vec![4])]);
    let (status, kept, body) = answer(&service, &service.reader, "&after=3").await;
    assert_eq!((status, kept.as_str(), body.len()), (204, "public, max-age=1", 0));
    let (_, body) = service.get(&service.reader, &format!("{PATH}&after=2")).await;
    let want = json!({"dataset_id": 1, "era": era, "after": 2, "revision": 3, "commits": [
        {"revision": 3, "rows": [{"timestamp": timestamp_of(4),
            "open": 4, "high": 5, "low": 3, "close": 4.5, "volume": 2}]}]});
    assert_eq!(body, want);
}

#[tokio::test]
async fn log_response_never_changes() {
    let service = Service::with_bars(2).await;
    end(&service).await;
    service.insert(vec![bar(2), bar(3)]).await;
    let early = answer(&service, &service.reader, "&after=1").await;
    assert_eq!((early.0, early.1.as_str()), (200, "public, max-age=3600, immutable"));
    let mut corrected = bar(2);
    corrected["values"]["open"] = json!(77.0);
    service.insert(vec![corrected]).await;
    let span = format!("/api/rows/?dataset=1&start={}&end={}", timestamp_of(3), timestamp_of(3));
    assert_eq!(service.delete(&service.owner, &span).await.0, 200);
    assert_eq!(answer(&service, &service.reader, "&after=1").await, early);
    assert_eq!(commits(&service, "&after=2").await, [(3, vec![77])], "the correction");
    let (_, body) = service.get(&service.reader, &format!("{PATH}&after=3")).await;
    let deleted = json!({"start": timestamp_of(3), "end": timestamp_of(3)});
    assert_eq!(body["commits"], json!([{"revision": 4, "deleted": deleted, "rows": []}]));
    let all = commits(&service, "&after=1&until=4").await;
    assert_eq!(all, [(2, vec![2, 3]), (3, vec![77]), (4, vec![])]);
}

#[tokio::test]
async fn unknown_commits_are_gone() {
    let service = Service::with_bars(2).await;
    let (_, era) = end(&service).await;
    let gone = async |service: &Service, query: &str| {
        let (status, kept, body) = answer(service, &service.reader, query).await;
        assert_eq!((status, kept.as_str()), (410, "no-store"), "{query}");
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert!(body["error"].as_str().unwrap().contains("read the rows again"), "{body}");
        body["details"].clone()
    };
    let position = json!({"revision": 1, "era": era});
    assert_eq!(gone(&service, "&after=0").await, position, "from before anybody asked");
    assert_eq!(gone(&service, "&after=2").await, position, "of another life of the store");
    let other = if era == "00000000" { "00000001" } else { "00000000" };
    assert_eq!(gone(&service, &format!("&after=1&era={other}")).await, position);
    service.insert(vec![bar(2)]).await;
    assert_eq!(commits(&service, "&after=1").await, [(2, vec![2])]);
    let service = service.restart().await;
    assert_eq!(gone(&service, "&after=1").await, json!({"revision": 2, "era": era}));
    assert_eq!(answer(&service, &service.reader, "&after=2").await.0, 204);
}

#[tokio::test]
async fn pruned_rows_do_not_stop_a_log_reader() {
    let service = Service::with_bars(2000).await;
    end(&service).await;
    let before = timestamp_of(1900).parse().unwrap();
    let id = model::dataset::DatasetId::new(1).unwrap();
    assert!(service.app.datasets.prune(id, before, 9999).await.unwrap() > 0);
    let (_, body) = service.get(&service.reader, &format!("{PATH}&after=1")).await;
    assert_eq!(body["commits"], json!([{"revision": 2, "rows": []}]));
    assert_eq!(service.app.datasets.prune(id, before, 9999).await.unwrap(), 0);
    assert_eq!(answer(&service, &service.reader, "&after=2").await.0, 204, "no commit");
}

#[tokio::test]
async fn only_public_log_responses_are_cacheable() {
    let service = Service::with_bars(1).await;
    let new = json!({"name": "mine", "columns": [{"name": "x", "dtype": "float"}]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &new).await.0, 201);
    let send = async |key: &str, query: &str| {
        let path = format!("/api/rows/log/?{query}");
        let response = service.send(key, "GET", &path, Body::empty()).await;
        let kept = response.headers()[CACHE_CONTROL].to_str().unwrap().to_owned();
        (response.status().as_u16(), kept)
    };
    let no_store = |status| (status, "no-store".to_owned());
    assert_eq!(send(&service.owner, "dataset=2").await, no_store(200));
    assert_eq!(send(&service.owner, "dataset=2&after=0").await, no_store(204));
    assert_eq!(send(&service.reader, "dataset=2&after=0").await, no_store(404));
    let unknown = send(&service.owner, "dataset_name=btc").await;
    assert_eq!(unknown, (400, "private, no-cache".to_owned()));
    for query in [
        "dataset=1&after=x",
        "dataset=1&until=1",
        "dataset=1&after=0&until=0",
        "dataset=1&after=0&until=1001",
        "dataset=1&wait=31",
        "dataset=1&era=+0000000",
    ] {
        assert_eq!(send(&service.reader, query).await, no_store(400), "{query}");
    }
}

#[tokio::test]
async fn log_of_a_public_dataset_is_cacheable_for_its_owner_without_the_tag() {
    let service = Service::start().await;
    let columns = json!([{"name": "x", "dtype": "float"}]);
    let new = json!({"name": "btc", "columns": columns, "tags": ["public"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &new).await.0, 201);
    let (status, kept, _) = answer(&service, &service.owner, "&after=0").await;
    assert_eq!((status, kept.as_str()), (204, "public, max-age=1"));
}

/// Serves the service on a port.
async fn listen(service: &Service) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    serve_by(AddressSource::Connection, listener, service.router.clone(), &service.group);
    address
}

/// Requests the second commit and waits for it.
async fn ask(service: &Service, address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET {PATH}&after=1&wait=30 HTTP/1.1\r\nhost: {address}\r\nx-api-key: {}\r\n\
         connection: close\r\n\r\n",
        service.reader
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Waits until there are `n_readers` waiting readers.
async fn wait_for_readers(service: &Service, n_readers: usize) {
    let counted = async || match service.app.datasets.hub.n_all_readers() {
        n if n == n_readers => Ok(()),
        n => Err(n),
    };
    task::wait::until(Duration::from_mins(1), counted).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_is_sent_to_a_thousand_waiting_readers() {
    let service = Service::with_bars(1).await;
    let address = listen(&service).await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(ask(&service, &address).await);
    }
    wait_for_readers(&service, READERS).await;
    service.insert(vec![bar(1)]).await;
    let mut bodies = Vec::new();
    for mut reader in readers {
        let mut text = String::new();
        reader.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        bodies.push(body.to_owned());
    }
    assert!(bodies[0].contains("\"revision\":2"), "{}", bodies[0]);
    assert!(bodies.iter().all(|body| *body == bodies[0]), "the same bytes for all");
    wait_for_readers(&service, 0).await;
    service.group.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn disconnected_log_reader_releases_its_place() {
    let mut service = Service::with_bars(1).await;
    let datasets = Datasets {
        hub: crate::hub::Hub::new(1, crate::hub::Writers::One),
        ..service.app.datasets.clone()
    };
    service.app = App::from(Shared { datasets, ..Shared::clone(&service.app) });
    service.router = router(Arc::clone(&service.app), None, &[]);
    let address = listen(&service).await;
    let reader = ask(&service, &address).await;
    wait_for_readers(&service, 1).await;
    let (status, kept, _) = answer(&service, &service.reader, "&after=1&wait=30").await;
    assert_eq!((status, kept.as_str()), (503, "no-store"));
    drop(reader);
    wait_for_readers(&service, 0).await;
    assert_eq!(answer(&service, &service.reader, "&after=1").await.0, 204);
    service.group.shutdown().await;
}

#[tokio::test]
async fn waiting_reader_that_loses_access_gets_no_rows() {
    let service = Service::with_bars(1).await;
    let waiting = answer(&service, &service.reader, "&after=1&wait=30");
    let change = async {
        wait_for_readers(&service, 1).await;
        let path = "/api/datasets/1/tags/public/";
        assert_eq!(service.delete(&service.owner, path).await.0, 200);
        service.insert(vec![bar(1)]).await;
    };
    let ((status, kept, _), ()) = tokio::join!(waiting, change);
    assert_eq!((status, kept.as_str()), (404, "no-store"));
}
