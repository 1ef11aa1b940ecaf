//! Tests of `/api/datasets/` and `/api/datasets/{id}/`.

use std::collections::BTreeMap;

use model::dataset::Dtype;
use tsdb::catalog::NewDataset;

use super::*;

async fn create(service: &Service, name: &str) -> (u16, Value) {
    let body = json!({"name": name, "description": format!("About {name}"), "tags": ["public"]});
    service.post(&service.owner, "/api/datasets/", &body).await
}

#[tokio::test]
async fn created_dataset_is_returned_listed_and_found() {
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
async fn list_of_datasets_has_pages_and_begins_with_the_best_match() {
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
async fn invalid_dataset_is_rejected() {
    let service = Service::start().await;
    assert_eq!(create(&service, "a").await.0, 201);
    let taken = refusal("dataset name is already taken: a: conflict");
    assert_eq!(create(&service, "a").await, (409, taken));
    let float = |name: &str| json!({"name": name, "dtype": "float"});
    for body in [
        json!({"name": ""}),
        json!({"name": "b", "colums": []}),
        json!({"name": "b", "columns": [{"name": "x", "dtype": "decimal"}]}),
        json!({"name": "b", "columns": [float("timestamp")]}),
        json!({"name": "b", "columns": [float("x"), float("x")]}),
        json!({"name": "b", "metadata": {"x": "y".repeat(20_000)}}),
        json!({"description": "no name"}),
        json!({"name": "b\u{202e}"}),
        json!({"name": "b", "description": "\u{1b}]52;c;aGk=\u{7}"}),
        json!({"name": "b", "description": "of \u{200b}two"}),
        json!({"name": "b", "metadata": {"x": "\u{9b}2J"}}),
    ] {
        let (status, answer) = service.post(&service.owner, "/api/datasets/", &body).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["error"].as_str().unwrap().ends_with(": bad request"), "{answer}");
    }
}

#[tokio::test]
async fn owner_cannot_use_a_dataset_name_twice() {
    let service = Service::start().await;
    assert_eq!(create(&service, "a").await.0, 201);
    let body = json!({"name": "a"});
    let (status, mine) = service.post(&service.reader, "/api/datasets/", &body).await;
    assert_eq!((status, &mine["id"]), (201, &json!(2)), "it learns nothing of the other one");
    let tag = json!({"tag_name": "public"});
    assert_eq!(service.post(&service.reader, "/api/tags/acquire/", &tag).await.0, 200);
    let columns = async |key: &str, name: &str| {
        let path = format!("/api/columns/?dataset_name={name}");
        service.get(key, &path).await.0
    };
    let add = |id: i64| json!({"dataset": id, "name": "x", "dtype": "float"});
    assert_eq!(service.post(&service.reader, "/api/columns/", &add(2)).await.0, 201);
    let path = "/api/columns/?dataset_name=a";
    let (_, body) = service.get(&service.reader, path).await;
    assert_eq!(body["results"][0]["dataset_id"], 2, "its own first");
    assert_eq!(service.delete(&service.reader, "/api/datasets/2/").await.0, 200);
    assert_eq!(columns(&service.reader, "a").await, 200, "then what it sees");
    assert_eq!(service.delete(&service.owner, "/api/datasets/1/").await.0, 200);
    assert_eq!(columns(&service.reader, "a").await, 404);
}

#[tokio::test]
async fn name_of_a_public_dataset_cannot_be_taken_by_another_public_dataset() {
    let service = Service::start().await;
    let public = json!({"name": "btc", "tags": ["public"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &public).await.0, 201);
    let taken = refusal("another public dataset is called btc; choose another name: conflict");
    let refused = service.post(&service.reader, "/api/datasets/", &public).await;
    assert_eq!(refused, (409, taken.clone()));
    let private = service.post(&service.reader, "/api/datasets/", &json!({"name": "btc"})).await;
    assert_eq!(private.0, 201);
    let path = format!("/api/datasets/{}/", private.1["id"]);
    let (tags, tag) = (format!("{path}tags/"), json!({"tag_name": "public"}));
    assert_eq!(service.post(&service.reader, &tags, &tag).await, (409, taken.clone()));
    let rename = |name: &str| json!({"name": name});
    assert_eq!(service.call(&service.reader, "PATCH", &path, &rename("eth")).await.0, 200);
    assert_eq!(service.post(&service.reader, &tags, &tag).await.0, 201);
    assert_eq!(service.call(&service.reader, "PATCH", &path, &rename("btc")).await, (409, taken));
    assert_eq!(service.get(&service.owner, "/api/datasets/?search=btc").await.1["count"], 1);
}

#[tokio::test]
async fn name_refers_to_the_dataset_of_the_service_before_those_of_other_keys() {
    let service = Service::start().await;
    let other = json!({"name": "demo", "tags": ["public"]});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &other).await.0, 201);
    let own = NewDataset {
        name: "demo".to_owned(),
        description: String::new(),
        metadata: BTreeMap::new(),
        columns: vec![("x".to_owned(), Dtype::Float)],
        tags: vec!["public".to_owned()],
        owner: None,
    };
    let id = service.app.datasets.create(own).await.unwrap().id;
    let tag = json!({"tag_name": "public"});
    assert_eq!(service.post(&service.reader, "/api/tags/acquire/", &tag).await.0, 200);
    let (_, columns) = service.get(&service.reader, "/api/columns/?dataset_name=demo").await;
    assert_eq!(columns["results"][0]["dataset_id"], id.get(), "{columns}");
}

#[tokio::test]
async fn request_with_an_ambiguous_name_returns_409_with_the_ids() {
    let service = Service::start().await;
    let (_, third) = service.accounts.create_key("third").await.unwrap();
    let third = third.reveal();
    let body = json!({"name": "btc", "tags": ["shared"]});
    for key in [&service.owner, &service.reader] {
        assert_eq!(service.post(key, "/api/datasets/", &body).await.0, 201);
        let holder = json!({"key": 3});
        assert_eq!(service.post(key, "/api/tags/shared/holders/", &holder).await.0, 201);
    }
    let want = json!({
        "details": {"dataset_ids": [1, 2]},
        "error": "2 visible datasets are called btc; specify one by its id: 1, 2: conflict",
    });
    for path in [
        "/api/datasets/",
        "/api/columns/",
        "/api/rows/",
        "/api/rows/live/",
        "/api/rows/stream/",
        "/api/rows/bulk_download/",
    ] {
        let path = format!("{path}?dataset_name=btc");
        assert_eq!(service.get(third, &path).await, (409, want.clone()), "{path}");
        assert_eq!(service.send(&service.reader, "GET", &path, Body::empty()).await.status(), 200);
    }
    let insert = "/api/rows/bulk_insert/?dataset_name=btc";
    assert_eq!(service.post(third, insert, &json!({"rows": []})).await, (409, want));
    assert_eq!(service.get(third, "/api/columns/?dataset=2").await.0, 200);
    // If several visible datasets have the name, the key's own dataset is chosen.
    assert_eq!(service.post(third, "/api/datasets/", &json!({"name": "btc"})).await.0, 201);
    assert_eq!(service.get(third, "/api/columns/?dataset_name=btc").await.0, 200);
    let own = service.get(third, "/api/datasets/?dataset_name=btc").await.1;
    assert_eq!((&own["count"], &own["results"][0]["id"]), (&json!(1), &json!(3)));
    let none = service.get(third, "/api/datasets/?dataset_name=missing").await;
    assert_eq!((none.0, &none.1["results"]), (200, &json!([])));
}

#[tokio::test]
async fn list_of_datasets_is_created_completely_or_not_at_all() {
    let service = Service::start().await;
    let path = "/api/datasets/";
    let twice = json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]);
    let taken = refusal("dataset name is already taken: a: conflict");
    assert_eq!(service.post(&service.owner, path, &twice).await, (409, taken));
    assert_eq!(service.get(&service.owner, path).await.1["count"], 0);
    let both = json!([{"name": "a", "tags": ["x"]}, {"name": "b", "metadata": {"k": "v"}}]);
    let (status, body) = service.post(&service.owner, path, &both).await;
    assert_eq!(
        (status, &body["count"], &body["results"][1]["name"]),
        (201, &json!(2), &json!("b"))
    );
    assert_eq!(service.get(&service.owner, "/api/datasets/search/?k=v").await.1["count"], 1);
    let many: Vec<_> = (0..1001).map(|n| json!({"name": n.to_string()})).collect();
    assert_eq!(service.post(&service.owner, path, &json!(many)).await.0, 400);
    assert_eq!(service.post(&service.owner, path, &json!([])).await.0, 201);
}

#[tokio::test]
async fn dataset_can_be_patched_or_replaced() {
    let service = Service::with_bars(1).await;
    let path = "/api/datasets/1/";
    let body = json!({"description": "Candles", "metadata": {"source": null, "frequency": "1min"}});
    let (status, got) = service.call(&service.owner, "PATCH", path, &body).await;
    let metadata = json!({"ticker": "btcusd", "frequency": "1min"});
    assert_eq!(status, 200, "{got}");
    assert_eq!((&got["name"], &got["metadata"]), (&json!("btc"), &metadata));
    assert_eq!(service.get(&service.reader, path).await, (200, got));
    let found = async |query: &str| {
        service.get(&service.reader, &format!("/api/datasets/{query}")).await.1["count"].clone()
    };
    assert_eq!(found("?search=bars").await, 0);
    assert_eq!(found("?search=candles").await, 1);
    assert_eq!(found("search/?source=test").await, 0);
    assert_eq!(found("search/?frequency=1min").await, 1);
    let (status, got) = service.call(&service.owner, "PUT", path, &json!({"name": "B"})).await;
    assert_eq!((status, &got["name"], &got["description"]), (200, &json!("B"), &json!("")));
    assert_eq!(got["metadata"], json!({}));
    assert_eq!((found("?search=btc").await, found("?search=b").await), (json!(0), json!(1)));
    assert_eq!(found("search/?frequency=1min").await, 0);
    assert_eq!(create(&service, "other").await.0, 201);
    for (body, want) in [
        (json!({"name": "other"}), 409),
        (json!({"name": "B"}), 200),
        (json!({"name": ""}), 400),
        (json!({"name": 7}), 400),
        (json!({"metadata": {"": "x"}}), 400),
        (json!({"metadata": {"value_column": "volume"}}), 200),
    ] {
        let (status, answer) = service.call(&service.owner, "PATCH", path, &body).await;
        assert_eq!(status, want, "{body} {answer}");
    }
    assert_eq!(service.call(&service.owner, "PUT", path, &json!({})).await.0, 400);
}

#[tokio::test]
async fn dataset_change_that_would_affect_existing_buckets_is_rejected() {
    let service = Service::start().await;
    let float = |name: &str| json!({"name": name, "dtype": "float"});
    service.create("a", &json!([float("x"), float("y")])).await;
    let value_column = json!({"metadata": {"value_column": "y"}});
    let patch =
        async |body: &Value| service.call(&service.owner, "PATCH", "/api/datasets/1/", body).await;
    assert_eq!(patch(&value_column).await.0, 200, "no rows, no buckets");
    service.insert(vec![json!({"timestamp": timestamp_of(0), "values": {"x": 1, "y": 2}})]).await;
    let text = "the stored buckets of the dataset would not match its columns after this change; only a dataset without rows can be changed in this way: conflict";
    let refused = (409, refusal(text));
    assert_eq!(patch(&json!({"metadata": {"value_column": "x"}})).await, refused);
    assert_eq!(patch(&json!({"metadata": {"other": "x"}})).await.0, 200);
    let add = async |name: &str| {
        let body = json!({"dataset_name": "a", "name": name, "dtype": "float"});
        service.post(&service.owner, "/api/columns/", &body).await
    };
    for name in ["open", "high", "low", "volume"] {
        assert_eq!(add(name).await.0, 201, "{name}");
    }
    assert_eq!(add("close").await, refused, "rows would be bars");
    let values = json!({"y": 3, "open": 9, "volume": 1});
    service.insert(vec![json!({"timestamp": timestamp_of(1), "values": values})]).await;
    let (_, body) = service.get(&service.owner, "/api/rows/?dataset=1&resolution=1h").await;
    let bucket = &body["results"][0];
    assert_eq!(json!([bucket["close"], bucket["volume"], bucket["count"]]), json!([3, 1, 2]));
}

#[tokio::test]
async fn deleted_dataset_is_not_listed_or_found() {
    let service = Service::with_bars(3).await;
    assert_eq!(create(&service, "btc_other").await.0, 201);
    assert_eq!(service.delete(&service.owner, "/api/datasets/1/").await.0, 200);
    let nothing = (404, refusal("dataset not found"));
    assert_eq!(service.delete(&service.owner, "/api/datasets/1/").await, nothing);
    for path in
        ["datasets/1/", "rows/?dataset=1", "rows/live/?dataset_name=btc", "columns/?dataset=1"]
    {
        let path = format!("/api/{path}");
        assert_eq!(service.get(&service.owner, &path).await, nothing, "{path}");
    }
    for (query, want) in
        [("", 1), ("?search=btc", 1), ("?search=b", 1), ("search/?ticker=btcusd", 0)]
    {
        let path = format!("/api/datasets/{query}");
        assert_eq!(service.get(&service.reader, &path).await.1["count"], want, "{path}");
    }
    assert_eq!(create(&service, "btc").await.1["id"], 3, "a number is never used again");
}

#[tokio::test]
async fn search_ignores_case_in_all_languages() {
    let service = Service::with_bars(0).await;
    for name in ["Köln_1min", "ÉTÉ", "a_b", "axb"] {
        create(&service, name).await;
    }
    let found = async |text: &str| {
        let path = format!("/api/datasets/?search={text}");
        let (_, body) = service.get(&service.reader, &path).await;
        let found = body["results"].as_array().unwrap();
        found.iter().map(|dataset| dataset["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("K%C3%96LN").await, ["Köln_1min"]);
    assert_eq!(found("%C3%A9t%C3%A9").await, ["ÉTÉ"]);
    assert_eq!(found("a_b").await, ["a_b"], "an underscore is an underscore");
    assert_eq!(found("%22").await, [] as [Value; 0]);
}

#[tokio::test]
async fn metadata_search_matches_one_field_exactly() {
    let service = Service::with_bars(0).await;
    let count = async |query: &str| {
        let path = format!("/api/datasets/search/?{query}");
        service.get(&service.reader, &path).await.1["count"].clone()
    };
    assert_eq!(count("ticker=btcusd").await, 1);
    assert_eq!(count("ticker=btcusd&limit=10").await, 1);
    assert_eq!(count("ticker=btc").await, 0);
    assert_eq!(count("provider=btcusd").await, 0);
    let path = "/api/datasets/search/?source=tiingo&ticker=btcusd";
    let text = "multiple metadata filters are temporarily unsupported: bad request";
    assert_eq!(service.get(&service.reader, path).await, (400, refusal(text)));
    assert_eq!(service.get(&service.reader, "/api/datasets/search/").await.0, 400);
}

#[tokio::test]
async fn search_results_have_pages() {
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

#[track_caller]
fn check_access(got: &(u16, Value), has_access: bool, is_owner: bool, matching_tags: &[&str]) {
    let body =
        json!({"has_access": has_access, "is_owner": is_owner, "matching_tags": matching_tags});
    assert_eq!(got, &(200, body));
}

#[tokio::test]
async fn owner_can_write_and_tag_holder_can_read_and_other_keys_see_nothing() {
    let service = Service::with_bars(0).await;
    let ask = async |key: &str, dataset_id: i64, require_write: bool| {
        let body = json!({"dataset_id": dataset_id, "require_write": require_write});
        service.post(key, "/api/access/check/", &body).await
    };
    check_access(&ask(&service.owner, 1, true).await, true, true, &["public"]);
    check_access(&ask(&service.reader, 1, false).await, true, false, &["public"]);
    check_access(&ask(&service.reader, 1, true).await, false, false, &["public"]);
    check_access(&ask(&service.reader, 2, false).await, false, false, &[]);
    check_access(&ask(&service.reader, -5, false).await, false, false, &[]);
}

#[tokio::test]
async fn coverage_counts_the_rows_of_each_day() {
    let service = Service::with_bars(3000).await;
    let minutes = [3000 + 1440, 3000 + 2880];
    service.insert(minutes.map(bar).to_vec()).await;
    let read = async |query: &str| {
        service.get(&service.reader, &format!("/api/datasets/1/coverage/{query}")).await
    };
    let day = |day: &str, rows: u64| json!({"day": day, "rows": rows});
    let days = [
        day("2026-07-29", 1440),
        day("2026-07-30", 1440),
        day("2026-07-31", 120),
        day("2026-08-01", 1),
        day("2026-08-02", 1),
    ];
    let (status, body) = read("").await;
    assert_eq!((status, &body["days"], &body["next"]), (200, &json!(days), &Value::Null));
    assert_eq!((&body["rows"], &body["first"]), (&json!(3002), &json!(FIRST)));
    assert_eq!(body["last"], timestamp_of(minutes[1]));
    for output in ["csv", "json", "ndjson", "parquet"] {
        let path = format!("/api/rows/bulk_download/?dataset=1&output={output}");
        let response = service.send(&service.reader, "GET", &path, Body::empty()).await;
        let length = to_bytes(response.into_body(), usize::MAX).await.unwrap().len() as u64;
        let estimate = read(&format!("?output={output}")).await.1["download_bytes"].as_u64();
        let percent = estimate.unwrap() * 100 / length;
        assert!((80..120).contains(&percent), "{output}: {percent} % of {length}");
    }
    let pages = service.pages(&service.reader, "/api/datasets/1/coverage/?limit=2").await;
    let seen: Vec<_> = pages.iter().flat_map(|page| page["days"].as_array().unwrap()).collect();
    assert_eq!(seen, days.iter().collect::<Vec<_>>());
    let bounds = format!("?start={}&end={}", timestamp_of(10), timestamp_of(1440));
    let (_, part) = read(&bounds).await;
    assert_eq!(part["days"], json!([day("2026-07-29", 1430), day("2026-07-30", 1)]));
    let (_, none) = read("?start=2027-01-01T00:00:00Z").await;
    assert_eq!((&none["rows"], &none["first"]), (&json!(0), &Value::Null));
    let answer = service.get(&service.reader, "/api/datasets/9/coverage/").await;
    assert_eq!(answer, (404, refusal("dataset not found")));
}

#[tokio::test]
async fn page_of_datasets_with_long_texts_ends_early() {
    let service = Service::start().await;
    let metadata = |n_bytes: usize| {
        let value =
            |n: usize| (n.to_string(), "x".repeat(n_bytes.saturating_sub(n * 9_000).min(9_000)));
        (0..8).map(value).collect::<BTreeMap<_, _>>()
    };
    for batch in 0..6 {
        let new = |n| json!({"name": format!("{batch}-{n}"), "metadata": metadata(60_000)});
        let body = Value::Array((0..60).map(new).collect());
        assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
    }
    let pages = service.pages(&service.owner, "/api/datasets/?limit=10000").await;
    let lengths = pages.iter().map(|page| page["results"].as_array().unwrap().len());
    assert_eq!(lengths.collect::<Vec<_>>(), [280, 80]);
    let long = json!({"name": "long", "metadata": metadata(70_000)});
    let (status, body) = service.post(&service.owner, "/api/datasets/", &long).await;
    assert_eq!(status, 400, "{body}");
    assert!(body["error"].as_str().unwrap().contains("at most 65536 bytes"), "{body}");
}
