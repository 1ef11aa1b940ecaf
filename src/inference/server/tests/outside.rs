//! API description, rate limits, quotas and streams.

use std::fmt;

use accounts::Scope;
use accounts::gate::{Limits, Loopback};
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use futures::StreamExt as _;

use super::*;

const STREAM: &str = "/api/v1/topics/1/stream";

#[tokio::test]
async fn api_description_is_served_without_a_key() {
    let fixture = Fixture::new().await;
    let (status, document) = fixture.send("GET", "/api/openapi.json", None).await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    assert_eq!(
        document["components"]["securitySchemes"],
        json!({"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}})
    );
    // In versions up to v9, a topic has no fields about labels.
    let labeling = &document["components"]["schemas"]["TopicBody"]["allOf"][0]["anyOf"];
    assert_eq!(labeling[1], json!({"type": "object"}));
    let response = fixture.request("GET", "/api/docs/", &[], String::new()).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = String::from_utf8(body_of(response).await).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(page.contains(path), "{path} is on the page");
    }
}

#[tokio::test(start_paused = true)]
async fn response_to_a_limited_client_has_retry_after() {
    let limits = Limits { rate: 1, burst: 2, requests_per_day: 0, bytes_per_day: 0 };
    let gate = GateOptions { limits, loopback: Loopback::Limited, ..GateOptions::unlimited() };
    let fixture = Fixture::behind(gate).await;
    let ask = || fixture.respond("/api/v1/topics", &fixture.key);
    for _ in 0..2 {
        assert_eq!(ask().await.status(), StatusCode::OK);
    }
    let refused = ask().await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    let (_, body) = read(refused).await;
    assert_eq!((&body["code"], &body["details"]), (&json!(8), &json!([])));
    assert!(body["message"].as_str().unwrap().starts_with("rate limit exceeded"), "{body}");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ask().await.status(), StatusCode::OK);
}

#[tokio::test]
async fn workers_per_key_and_epoch_are_limited() {
    let mut fixture = Fixture::new().await;
    let topic = "1".parse().unwrap();
    fixture.inference.open_epoch(topic, 1).await.unwrap();
    let path = "/api/v1/topics/1/submissions";
    let submit = |model: &str| json!({"model": model, "value": "1"});
    for model in ["a", "b", "c"] {
        assert_eq!(fixture.put("POST", path, &submit(model)).await.0, 200);
    }
    let message = "model must have 1 to 64 printable characters, and no spaces at its ends";
    Fixture::check(fixture.put("POST", path, &submit(" a")).await, 400, 3, message);
    let message = "epoch 1 is full: maximum of 3 workers per account reached";
    Fixture::check(fixture.put("POST", path, &submit("d")).await, 409, 10, message);
    assert_eq!(fixture.put("POST", path, &submit("c")).await.0, 200, "already stored");
    let other = "worker already submitted another payload for nonce 1";
    let changed = json!({"model": "c", "value": "2"});
    Fixture::check(fixture.put("POST", path, &changed).await, 409, 6, other);
    // Another key, another topic and another epoch have their own limits.
    let first = fixture.key.clone();
    (_, fixture.key) = fixture.accounts.create_key("other").await.unwrap();
    assert_eq!(fixture.put("POST", path, &submit("d")).await.0, 200);
    fixture.key = first;
    assert!(fixture.inference.close(topic, 1).await.unwrap());
    let (_, epoch) = fixture.get("/api/v1/topics/1/epochs/1").await;
    assert_eq!(epoch["network_inferences"]["inferer_values"].as_array().unwrap().len(), 4);
    fixture.clock.advance(Duration::from_secs(12));
    fixture.inference.open_epoch(topic, 13).await.unwrap();
    assert_eq!(fixture.put("POST", path, &submit("d")).await.0, 200);
}

/// Returns the lines of the next event of `stream`.
async fn event<E: fmt::Debug>(
    stream: &mut (impl futures::Stream<Item = Result<axum::body::Bytes, E>> + Unpin),
) -> Vec<String> {
    let bytes = stream.next().await.unwrap().unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.trim_end().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn stream_sends_the_newest_bundle_and_then_each_new_bundle() {
    let fixture = Fixture::new().await;
    let values: [&[(&str, &str)]; 2] = [&[("y", "51.20")], &[("y", "55")]];
    fixture.epoch(1, values, 50.0).await;
    let response = fixture.respond(STREAM, &fixture.key).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
    let mut stream = response.into_body().into_data_stream();
    let first = event(&mut stream).await;
    assert_eq!(first[..2], ["event: bundle", "id: 1"]);
    let body: Value = serde_json::from_str(first[2].strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(body["inference_block_height"], "1");
    assert_eq!(body["network_inferences"]["inferer_values"].as_array().unwrap().len(), 2);
    // The stream has no events of another topic. A slow client gets only the later of two bundles.
    fixture.epoch(2, [&[("up", "1")], &[("flat", "1")]], 51.0).await;
    fixture.epoch(1, values, 50.0).await;
    fixture.epoch(1, values, 50.0).await;
    assert_eq!(event(&mut stream).await[..2], ["event: bundle", "id: 37"]);
    fixture.epoch(1, values, 50.0).await;
    assert_eq!(event(&mut stream).await[..2], ["event: bundle", "id: 49"]);
    fixture.group.shutdown().await;
    assert!(stream.next().await.is_none(), "ends with the service");
    let (status, body) = fixture.get("/api/v1/topics/9/stream").await;
    Fixture::check((status, body), 404, 5, "topic 9 not found");
}

#[tokio::test]
async fn stream_ends_once_its_topic_is_deleted() {
    let fixture = Fixture::new().await;
    assert_eq!(create(&fixture, &json!({})).await.0, 200);
    let response = fixture.respond("/api/v1/topics/3/stream", &fixture.key).await;
    let mut stream = response.into_body().into_data_stream();
    let key = [("x-api-key", fixture.key.reveal())];
    let deleted = fixture.request("DELETE", "/api/v1/topics/3", &key, String::new()).await;
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn stream_ends_once_its_key_is_revoked_or_renewed() {
    let fixture = Fixture::new().await;
    let follow =
        async |key: &ApiKey| fixture.respond(STREAM, key).await.into_body().into_data_stream();
    let (id, revoked) = fixture.accounts.create_key("other").await.unwrap();
    let (mut of_revoked, mut of_renewed) = (follow(&revoked).await, follow(&fixture.key).await);
    assert_eq!(event(&mut of_revoked).await, [":"]);
    assert_eq!(event(&mut of_renewed).await, [":"]);
    assert!(fixture.accounts.revoke_key(Scope::All, id).await.unwrap());
    assert!(of_revoked.next().await.is_none(), "ends with the next comment");
    fixture.accounts.renew_key("test").await.unwrap();
    fixture.epoch(1, [&[("y", "51")], &[("y", "55")]], 50.0).await;
    assert!(of_renewed.next().await.is_none(), "ends before the next event");
}

#[tokio::test]
async fn stream_resumes_after_the_last_event_id() {
    let fixture = Fixture::new().await;
    let values: [&[(&str, &str)]; 2] = [&[("y", "51.20")], &[("y", "55")]];
    for _ in 0..4 {
        fixture.epoch(1, values, 50.0).await;
    }
    let follow = async |last: &str| {
        let headers = [("x-api-key", fixture.key.reveal()), ("Last-Event-ID", last)];
        let response = fixture.request("GET", STREAM, &headers, String::new()).await;
        response.into_body().into_data_stream()
    };
    let mut away = follow("1").await;
    for id in ["id: 13", "id: 25", "id: 37"] {
        assert_eq!(event(&mut away).await[1], id);
    }
    let mut current = follow("37").await;
    for unknown in ["38", "some", ""] {
        assert_eq!(event(&mut follow(unknown).await).await[1], "id: 37", "{unknown}");
    }
    fixture.epoch(1, values, 50.0).await;
    assert_eq!(event(&mut away).await[1], "id: 49");
    assert_eq!(event(&mut current).await[1], "id: 49");
}

#[tokio::test]
async fn unknown_and_repeated_parameters_are_rejected_by_name() {
    let fixture = Fixture::new().await;
    let unknown = "unknown parameter form; did you mean from?";
    for (path, message) in [
        ("/api/v1/topics/1/history?form=1", unknown),
        ("/api/v1/topics/1/epochs/?form=1", unknown),
        ("/api/v1/topics?limit=1", "unknown parameter limit; there are none here"),
        ("/emissions/v10/topics/1?height=1", "unknown parameter height; there are none here"),
        ("/api/v1/topics/1/history?to=1&to=2", "parameter to is given more than once"),
        ("/api/v1/topics/1/leaderboard?epoch=1", "unknown parameter epoch; did you mean epochs?"),
    ] {
        Fixture::check(fixture.get(path).await, 400, 3, message);
    }
    let post = fixture.put("POST", "/api/v1/topics/1/submissions?dry_run=1", &json!({})).await;
    Fixture::check(post, 400, 3, "unknown parameter dry_run; there are none here");
    let consumer = "/v2/allora/consumer/ethereum-11155111?allora_topic_id=1&topic=2";
    let (status, body) = fixture.get(consumer).await;
    assert_eq!((status, &body["status"]), (400, &json!(false)), "{body}");
    let message = body["apiResponseMessage"].as_str().unwrap();
    assert!(message.contains("unknown parameter topic"), "{message}");
    assert_eq!(fixture.get("/api/v1/topics/1/history?_=17&limit=1").await.0, 200);
}
