//! `GET /metrics`.

use futures::StreamExt as _;

use super::*;

/// Returns the current metrics as Prometheus text.
pub(super) async fn counts(fixture: &Fixture) -> String {
    let response = fixture.request("GET", "/metrics", &[], String::new()).await;
    String::from_utf8(body_of(response).await).unwrap()
}

#[track_caller]
pub(super) fn check(text: &str, name: &str, want: &str) {
    let name = format!("triptych_inference_{name} ");
    let value = text.lines().find_map(|line| line.strip_prefix(&name));
    assert_eq!(value, Some(want), "{name} in\n{text}");
}

#[tokio::test]
async fn metrics_count_submissions_epochs_streams_and_requests() {
    let fixture = Fixture::new().await;
    fixture.epoch(1, [&[("y", "1")], &[("y", "3")]], 2.0).await;
    let path = "/api/v1/topics/1/submissions";
    let late = json!({"model": "a", "value": "1.5"});
    assert_eq!(fixture.put("POST", path, &late).await.0, 400);
    let response = fixture.respond("/api/v1/topics/1/stream", &fixture.key).await;
    let mut stream = response.into_body().into_data_stream();
    assert!(stream.next().await.is_some());
    let text = counts(&fixture).await;
    check(&text, "submissions_total{outcome=\"taken\"}", "2");
    check(&text, "close_seconds_count", "1");
    check(&text, "learn_seconds_count", "1");
    check(&text, "streams_open", "1");
    check(&text, "topics_failing", "0");
    let refused =
        "http_requests_total{method=\"POST\",path=\"/api/v1/topics/{topic_id}/submissions\"";
    check(&text, &format!("{refused},code=\"400\"}}"), "1");
    assert!(text.contains("process_resident_memory_bytes "), "{text}");
    drop(stream);
    check(&counts(&fixture).await, "streams_open", "0");
}

#[tokio::test]
async fn names_and_types_of_metrics_are_unchanged() {
    let text = counts(&Fixture::new().await).await;
    let is_own = |line: &&str| line.starts_with('#') && !line.contains(" process_");
    let want = include_str!("../../../../tests/data/inference/metrics.txt");
    assert_eq!(text.lines().filter(is_own).collect::<Vec<_>>(), want.lines().collect::<Vec<_>>());
}
