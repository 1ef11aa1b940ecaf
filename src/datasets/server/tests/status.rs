//! Tests of the metrics, of the API description and of its page.

use axum::body::Bytes;
use futures::StreamExt as _;

use super::*;

#[tokio::test]
async fn api_description_is_served_without_a_key() {
    let service = Service::start().await;
    let (status, document) = service.get("", "/api/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    // The header has the spelling of the upstream's documentation.
    let key = &document["components"]["securitySchemes"]["key"];
    assert_eq!(key["name"], "X-API-Key");
    // `anyOf` allows an empty page, which matches both the schema of rows and the schema of buckets.
    assert!(document["components"]["schemas"]["RowsPage"]["anyOf"].is_array());
    let response = service.send("", "GET", "/api/docs/", Body::empty()).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(page.contains(path), "{path} is on the page");
    }
}

/// Returns a piece of a stream as text.
fn text_of(piece: Option<Result<Bytes, axum::Error>>) -> String {
    String::from_utf8(piece.unwrap().unwrap().to_vec()).unwrap()
}

/// Returns the current metrics.
pub(super) async fn counts(service: &Service) -> String {
    let response = service.send("", "GET", "/metrics", Body::empty()).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[track_caller]
pub(super) fn check(text: &str, name: &str, want: &str) {
    let name = format!("triptych_datasets_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    assert_eq!(value, Some(want), "{name} in\n{text}");
}

#[tokio::test]
async fn metrics_count_rows_commits_and_requests() {
    let service = Service::with_bars(5).await;
    service.get(&service.reader, "/api/datasets/7/").await;
    service.get("", "/api/datasets/1/").await;
    service.get(&service.reader, "/api/rows/?dataset=1&limit=3").await;
    service.text("/api/rows/live/?dataset=1&limit=2").await;
    service.text("/api/rows/bulk_download/?dataset=1").await;
    let text = counts(&service).await;
    check(&text, "rows_inserted_total", "5");
    check(&text, "commit_seconds_count", "1");
    for (by, n_rows) in [("rows", "3"), ("live", "2"), ("bulk_download", "5")] {
        check(&text, &format!("rows_read_total{{by=\"{by}\"}}"), n_rows);
    }
    let requests = "http_requests_total{method=\"GET\",path=\"/api/datasets/{id}/\",code=";
    check(&text, &format!("{requests}\"404\"}}"), "1");
    check(&text, &format!("{requests}\"401\"}}"), "1");
    check(&text, "streams_open", "0");
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
}

#[tokio::test]
async fn names_and_help_of_metrics_are_unchanged() {
    let text = counts(&Service::with_bars(0).await).await;
    let is_own = |line: &&str| line.starts_with('#') && !line.contains(" process_");
    let want = include_str!("../../../../tests/data/datasets/metrics.txt");
    assert_eq!(text.lines().filter(is_own).collect::<Vec<_>>(), want.lines().collect::<Vec<_>>());
}

#[tokio::test]
async fn open_stream_is_included_in_the_metrics() {
    let service = Service::with_bars(1).await;
    let path = "/api/rows/stream/?dataset=1";
    let stream = service.send(&service.reader, "GET", path, Body::empty()).await;
    let mut stream = stream.into_body().into_data_stream();
    // Waits for the replay, before which the stream does not count as open.
    while !text_of(stream.next().await).contains("event: data") {}
    let following = stream.next();
    assert!(futures::poll!(std::pin::pin!(following)).is_pending());
    let text = counts(&service).await;
    check(&text, "streams_open", "1");
    check(&text, "http_requests_under_way", "2");
    drop(stream);
    check(&counts(&service).await, "streams_open", "0");
}
