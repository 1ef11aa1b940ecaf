//! `POST /api/rows/bulk_insert/`

use super::*;

const PATH: &str = "/api/rows/bulk_insert/";

async fn bucket(service: &Service, resolution: &str) -> Value {
    let path = format!("/api/rows/?dataset=1&resolution={resolution}&limit=1");
    service.get(&service.reader, &path).await.1["results"][0].clone()
}

#[tokio::test]
async fn late_rows_and_corrections_are_in_the_buckets_at_once() {
    let service = Service::with_bars(0).await;
    service.insert(vec![bar(0), bar(2)]).await;
    service.insert(vec![bar(1)]).await;
    for resolution in ["5m", "1h", "1d"] {
        let want = json!({"dataset_id": 1, "timestamp": FIRST, "open": 0, "high": 3, "low": -1,
            "close": 2.5, "volume": 6, "count": 3});
        assert_eq!(bucket(&service, resolution).await, want);
    }
    let mut corrected = bar(2);
    corrected["values"]["high"] = json!(99);
    service.insert(vec![corrected]).await;
    for resolution in ["5m", "1h", "1d"] {
        let bucket = bucket(&service, resolution).await;
        assert_eq!((&bucket["high"], &bucket["count"]), (&json!(99), &json!(3)));
    }
    let (_, body) = service.get(&service.reader, "/api/rows/?dataset=1").await;
    assert_eq!((&body["count"], &body["results"][2]["values"]["high"]), (&json!(3), &json!(99)));
}

#[tokio::test]
async fn a_batch_is_stored_as_a_whole_or_not_at_all() {
    let service = Service::with_bars(1).await;
    let rows = json!([bar(1), {"timestamp": moment(2), "values": {"nothing": 1, "open": "high"}}]);
    let body = json!({"dataset": 1, "rows": rows});
    let answer = service.post(&service.owner, PATH, &body).await;
    let want = json!({"details": [{"row": 1, "reason": "there is no column nothing"}],
        "error": "rows do not fit the dataset: bad request"});
    assert_eq!(answer, (400, want));
    let body = json!({"dataset": 1, "rows": [bar(1), {"timestamp": "noon", "values": {}}]});
    let (status, answer) = service.post(&service.owner, PATH, &body).await;
    assert_eq!((status, &answer["details"][0]["row"]), (400, &json!(1)));
    assert_eq!(service.get(&service.reader, "/api/rows/?dataset=1").await.1["count"], 1);
}

#[tokio::test]
async fn only_the_owner_inserts() {
    let service = Service::with_bars(0).await;
    let body = json!({"dataset": 1, "rows": [bar(0)]});
    let refused = refusal("only the owner of the dataset may do that: forbidden");
    assert_eq!(service.post(&service.reader, PATH, &body).await, (403, refused));
    let body = json!({"dataset": 2, "rows": [bar(0)]});
    let answer = service.post(&service.owner, PATH, &body).await;
    assert_eq!(answer, (404, refusal("dataset not found")));
}

#[tokio::test]
async fn first_rows_that_are_refused_leave_no_columns() {
    let service = Service::start().await;
    service.post(&service.owner, "/api/datasets/", &json!({"name": "bare"})).await;
    let row = |minute, value| json!({"timestamp": moment(minute), "values": {"load": value}});
    let body = json!({"dataset": 1, "rows": [row(0, json!(3)), row(1, json!("high"))]});
    let (status, answer) = service.post(&service.owner, PATH, &body).await;
    assert_eq!((status, &answer["details"][0]["row"]), (400, &json!(1)));
    let columns = "/api/columns/?dataset=1";
    assert_eq!(service.get(&service.owner, columns).await.1["count"], 0);
    service.insert(vec![row(0, json!("low"))]).await;
    assert_eq!(service.get(&service.owner, columns).await.1["results"][0]["dtype"], "string");
}

#[tokio::test]
async fn a_value_that_is_none_is_told_what_it_should_be() {
    let service = Service::with_bars(0).await;
    let row = json!({"timestamp": moment(0), "values": {"open": null}});
    let body = json!({"dataset": 1, "rows": [row]});
    let (status, answer) = service.post(&service.owner, PATH, &body).await;
    let text = answer["error"].as_str().unwrap();
    assert_eq!(status, 400);
    assert!(text.contains("a value must be a number, a text, true or false"), "{text}");
}

#[tokio::test]
async fn an_insert_waits_until_there_is_room_for_its_body() {
    let service = Service::with_bars(0).await;
    let room = Arc::clone(&service.app.inserts).acquire_many_owned(128 * 1024).await.unwrap();
    let insert = service.insert(vec![bar(0)]);
    tokio::pin!(insert);
    assert!(futures::poll!(&mut insert).is_pending());
    assert_eq!(service.get(&service.reader, "/api/rows/?dataset=1").await.1["count"], 0);
    assert!(futures::poll!(&mut insert).is_pending());
    drop(room);
    insert.await;
}

#[tokio::test]
async fn the_first_rows_make_the_columns_of_a_dataset_without_any() {
    let service = Service::start().await;
    service.post(&service.owner, "/api/datasets/", &json!({"name": "bare"})).await;
    let row = json!({"timestamp": moment(0), "values": {"load": 3, "host": "a", "up": true}});
    service.insert(vec![row]).await;
    let (_, body) = service.get(&service.owner, "/api/rows/?dataset=1").await;
    assert_eq!(body["results"][0]["values"], json!({"host": "a", "load": 3, "up": true}));
    let (_, body) = service.get(&service.owner, "/api/rows/?dataset=1&resolution=5m").await;
    let bucket = &body["results"][0];
    assert_eq!((&bucket["close"], &bucket["volume"]), (&json!(3), &json!(0)));
}
