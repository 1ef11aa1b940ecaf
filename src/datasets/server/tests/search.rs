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
