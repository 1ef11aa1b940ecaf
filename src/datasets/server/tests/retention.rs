//! Tests of the retention that the metadata of a dataset define.

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::retention::{delete_old, run};

/// Number of one-minute rows, enough for two chunks.
const MINUTES: usize = 2_400;

async fn first_minute(service: &Service) -> Value {
    let (_, page) = service
        .get(
            &service.owner,
            "/api/rows/?dataset=1&limit=1&ordering=timestamp&start=2026-07-01T00:00:00Z",
        )
        .await;
    page["results"][0]["timestamp"].clone()
}

async fn service_with(metadata: &Value) -> Service {
    let service = Service::with_bars(0).await;
    service.insert((0..MINUTES).map(bar).collect()).await;
    let change = json!({"metadata": metadata});
    let (status, body) = service.call(&service.owner, "PATCH", "/api/datasets/1/", &change).await;
    assert_eq!(status, 200, "{body}");
    service
}

#[tokio::test]
async fn rows_older_than_keep_days_are_deleted_but_their_buckets_stay() {
    let service = service_with(&json!({"keep_days": "1"})).await;
    let (_, buckets) = service.get(&service.owner, "/api/rows/?dataset=1&resolution=1h").await;
    let date = service.clock.now();
    assert_eq!(delete_old(&service.app.datasets, date).await.unwrap(), 1_200, "a whole chunk");
    assert_eq!(first_minute(&service).await, json!(timestamp_of(1_200)));
    assert_eq!(delete_old(&service.app.datasets, date).await.unwrap(), 0);
    let (_, after) = service.get(&service.owner, "/api/rows/?dataset=1&resolution=1h").await;
    assert_eq!(after["results"], buckets["results"]);
    let old = json!({"dataset": 1, "rows": [bar(3)]});
    let (status, refused) = service.post(&service.owner, "/api/rows/bulk_insert/", &old).await;
    assert_eq!(status, 400, "{refused}");
}

#[tokio::test]
async fn rows_are_not_deleted_by_the_date_of_a_clock_that_is_ahead_at_the_start() {
    let service = service_with(&json!({"keep_days": "1"})).await;
    // The wrong date is also the date of the latest row and change.
    service.clock.set(service.clock.now() + Duration::from_hours(24 * 365));
    service.insert(vec![bar(MINUTES)]).await;
    let running = run(service.app.datasets.clone(), service.clock.clone());
    assert!(timeout(Duration::from_secs(2), running).await.is_err());
    assert_eq!(first_minute(&service).await, json!(timestamp_of(0)));
}

#[tokio::test]
async fn oldest_rows_are_deleted_if_the_dataset_exceeds_keep_bytes() {
    let service = service_with(&json!({"keep_bytes": "1"})).await;
    let n_gone = delete_old(&service.app.datasets, service.clock.now()).await.unwrap();
    assert!((1_024..2_400).contains(&n_gone), "{n_gone}");
    assert_eq!(first_minute(&service).await, json!(timestamp_of(n_gone.try_into().unwrap())));
    let service = service_with(&json!({"keep_bytes": "1000000"})).await;
    let date = service.clock.now();
    assert_eq!(delete_old(&service.app.datasets, date).await.unwrap(), 0);
}

#[tokio::test]
async fn invalid_retention_is_rejected() {
    let service = Service::with_bars(1).await;
    for (field, value) in
        [("keep_days", "0"), ("keep_days", "a week"), ("keep_bytes", "-1"), ("keep_bytes", "1 GB")]
    {
        let change = json!({"metadata": {field: value}});
        let (status, body) =
            service.call(&service.owner, "PATCH", "/api/datasets/1/", &change).await;
        assert_eq!(status, 400, "{field}={value}");
        assert!(body["error"].as_str().unwrap().starts_with(field), "{body}");
    }
}
