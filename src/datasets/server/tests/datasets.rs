//! `/api/datasets/` and `/api/datasets/{id}/`

use super::*;

async fn create(service: &Service, name: &str) -> (u16, Value) {
    let body = json!({"name": name, "description": format!("About {name}"), "tags": ["public"]});
    service.post(&service.owner, "/api/datasets/", &body).await
}

#[tokio::test]
async fn a_created_dataset_is_returned_listed_and_found() {
    let service = Service::with_bars(0).await;
    let want = json!({
        "id": 1, "name": "btc", "description": "Bars",
        "metadata": {"source": "test", "ticker": "btcusd"},
        "created_at": NOW, "updated_at": NOW,
    });
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await, (200, want.clone()));
    let list = json!({"count": 1, "next": null, "previous": null, "results": [want]});
    assert_eq!(service.get(&service.reader, "/api/datasets/?limit=1").await, (200, list));
}

#[tokio::test]
async fn without_a_tag_a_dataset_is_as_good_as_missing() {
    let service = Service::start().await;
    assert_eq!(create(&service, "a").await.0, 201);
    let nothing = (404, refusal("dataset not found"));
    assert_eq!(service.get(&service.reader, "/api/datasets/1/").await, nothing);
    assert_eq!(service.get(&service.reader, "/api/datasets/2/").await, nothing);
    assert_eq!(service.get(&service.reader, "/api/datasets/").await.1["count"], 0);
    assert_eq!(service.get(&service.owner, "/api/datasets/1/").await.0, 200);
    for path in ["rows/", "rows/live/", "rows/stream/", "rows/bulk_download/", "columns/"] {
        let path = format!("/api/{path}?dataset=1");
        assert_eq!(service.get(&service.reader, &path).await, nothing, "{path}");
    }
}

#[tokio::test]
async fn lists_have_pages_and_the_best_match_first() {
    let service = Service::with_bars(0).await;
    for name in ["tiingo_ethusd_1min", "tiingo_btcusd_1min", "old_tiingo_btcusd_1min"] {
        create(&service, name).await;
    }
    let names = async |path: &str| {
        let (status, body) = service.get(&service.reader, path).await;
        assert_eq!(status, 200);
        let results = body["results"].as_array().unwrap().clone();
        let names = results.iter().map(|dataset| dataset["name"].as_str().unwrap().to_owned());
        (body["count"].clone(), body["next"].clone(), names.collect::<Vec<_>>())
    };
    let (count, next, page) = names("/api/datasets/?search=tiingo&limit=2").await;
    assert_eq!((count, page.len()), (json!(3), 2));
    assert_eq!(next, "/api/datasets/?limit=2&offset=2&search=tiingo");
    let (_, next, page) = names(next.as_str().unwrap()).await;
    assert_eq!((next, page), (Value::Null, vec!["old_tiingo_btcusd_1min".to_owned()]));
    let (_, _, exact) = names("/api/datasets/?search=TIINGO_btcusd_1min&limit=10").await;
    assert_eq!(exact, ["tiingo_btcusd_1min", "old_tiingo_btcusd_1min"]);
    let (count, ..) = names("/api/datasets/?search=%25&limit=10").await;
    assert_eq!(count, 0, "a percent sign is a percent sign");
}

#[tokio::test]
async fn an_unfit_dataset_is_refused() {
    let service = Service::start().await;
    assert_eq!(create(&service, "a").await.0, 201);
    let taken = refusal("dataset name is already taken: conflict");
    assert_eq!(create(&service, "a").await, (409, taken));
    let float = |name: &str| json!({"name": name, "dtype": "float"});
    for body in [
        json!({"name": ""}),
        json!({"name": "b", "columns": [{"name": "x", "dtype": "decimal"}]}),
        json!({"name": "b", "columns": [float("timestamp")]}),
        json!({"name": "b", "columns": [float("x"), float("x")]}),
        json!({"name": "b", "metadata": {"x": "y".repeat(20_000)}}),
        json!({"description": "no name"}),
    ] {
        let (status, answer) = service.post(&service.owner, "/api/datasets/", &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["error"].as_str().unwrap().ends_with(": bad request"), "{answer}");
    }
}
