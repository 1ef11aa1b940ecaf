//! `GET /api/datasets/search/`

use super::*;

#[tokio::test]
async fn one_metadata_field_is_matched_exactly() {
    let service = Service::with_bars(0).await;
    let count = async |query: &str| {
        let path = format!("/api/datasets/search/?{query}");
        service.get(&service.reader, &path).await.1["count"].clone()
    };
    assert_eq!(count("ticker=btcusd").await, 1);
    assert_eq!(count("ticker=btcusd&limit=10").await, 1);
    assert_eq!(count("ticker=btc").await, 0);
    assert_eq!(count("provider=btcusd").await, 0);
}

#[tokio::test]
async fn two_filters_are_one_too_many() {
    let service = Service::with_bars(0).await;
    let path = "/api/datasets/search/?source=tiingo&ticker=btcusd";
    let text = "multiple metadata filters are temporarily unsupported: bad request";
    assert_eq!(service.get(&service.reader, path).await, (400, refusal(text)));
    assert_eq!(service.get(&service.reader, "/api/datasets/search/").await.0, 400);
}

#[tokio::test]
async fn several_filters_are_taken_where_the_operator_allows_it() {
    let mut service = Service::with_bars(0).await;
    Arc::make_mut(&mut service.app).metadata_filters = MetadataFilters::All;
    service.router = router(Arc::clone(&service.app), None, &[]);
    let path = "/api/datasets/search/?source=test&ticker=btcusd";
    assert_eq!(service.get(&service.reader, path).await.1["count"], 1);
    let path = "/api/datasets/search/?source=test&ticker=ethusd";
    assert_eq!(service.get(&service.reader, path).await.1["count"], 0);
    assert_eq!(service.get(&service.reader, "/api/datasets/search/").await.0, 400);
}

#[tokio::test]
async fn what_is_found_has_pages() {
    let service = Service::start().await;
    let all: Vec<_> =
        (0..7).map(|n| json!({"name": format!("d{n}"), "metadata": {"k": "v"}})).collect();
    assert_eq!(service.post(&service.owner, "/api/datasets/", &json!(all)).await.0, 201);
    let (_, body) = service.get(&service.owner, "/api/datasets/search/?limit=3&k=v&offset=3").await;
    assert_eq!(body["next"], "/api/datasets/search/?k=v&limit=3&offset=6");
    let names: Vec<_> =
        body["results"].as_array().unwrap().iter().map(|set| set["name"].clone()).collect();
    assert_eq!(names, ["d3", "d4", "d5"]);
    let (_, body) = service.get(&service.owner, body["next"].as_str().unwrap()).await;
    assert_eq!(
        (&body["count"], &body["next"], &body["previous"]),
        (&json!(7), &Value::Null, &json!("/api/datasets/search/?k=v&limit=3&offset=3"))
    );
}
