//! Tests of `/api/rows/`.

use model::key::KeyId;
use tsdb::catalog::DatasetRef;

use super::*;

async fn page(service: &Service, query: &str) -> Value {
    let (status, body) = service.get(&service.reader, &format!("/api/rows/?{query}")).await;
    assert_eq!(status, 200, "{query}: {body}");
    body
}

fn page_timestamps(page: &Value) -> Vec<String> {
    let results = page["results"].as_array().unwrap();
    results.iter().map(|row| row["timestamp"].as_str().unwrap().to_owned()).collect()
}

fn minutes(minutes: impl IntoIterator<Item = usize>) -> Vec<String> {
    minutes.into_iter().map(timestamp_of).collect()
}

#[tokio::test]
async fn page_of_rows_has_the_expected_bytes() {
    let service = Service::with_bars(2).await;
    let (body, content_type) = service.text("/api/rows/?dataset_name=btc&limit=1").await;
    assert_eq!(content_type, "application/json");
    assert_eq!(
        body,
        concat!(
            r#"{"count":2,"next":"/api/rows/?dataset_name=btc&"#,
            r#"end=2026-07-29T00%3A01%3A00Z&limit=1&offset=1&start=2026-07-28T00%3A01%3A00.000001Z","previous":null,"#,
            r#""results":[{"id":1,"dataset_id":1,"timestamp":"2026-07-29T00:00:00Z","#,
            r#""created_at":"2026-07-30T22:00:00.376Z","#,
            r#""values":{"open":0,"high":1,"low":-1,"close":0.5,"volume":2}}]}"#
        )
    );
}

#[tokio::test]
async fn page_of_buckets_has_the_expected_bytes() {
    let service = Service::with_bars(130).await;
    let path = "/api/rows/?dataset_name=btc&resolution=1h&limit=1&ordering=-timestamp&offset=1";
    assert_eq!(
        service.text(path).await.0,
        concat!(
            r#"{"count":3,"next":"/api/rows/?dataset_name=btc&end=2026-07-29T02%3A09%3A00.000001Z&"#,
            r#"limit=1&offset=2&ordering=-timestamp&resolution=1h&start=2026-04-30T02%3A09%3A00.000001Z","#,
            r#""previous":"/api/rows/?dataset_name=btc&end=2026-07-29T02%3A09%3A00.000001Z&"#,
            r#"limit=1&offset=0&ordering=-timestamp&resolution=1h&start=2026-04-30T02%3A09%3A00.000001Z","#,
            r#""results":["#,
            r#"{"dataset_id":1,"timestamp":"2026-07-29T01:00:00Z","open":60,"high":120,"low":59,"#,
            r#""close":119.5,"volume":120,"count":60}]}"#
        )
    );
}

#[tokio::test]
async fn offset_pages_end_with_a_null_next() {
    let service = Service::with_bars(25).await;
    let path = "/api/rows/?dataset=1&ordering=timestamp&limit=10";
    let pages = service.pages(&service.reader, path).await;
    assert!(pages.iter().all(|page| page["count"] == 25), "{pages:?}");
    let seen: Vec<_> = pages.iter().flat_map(page_timestamps).collect();
    assert_eq!(seen, minutes(0..25));
    let exact = page(&service, "dataset=1&limit=25").await;
    assert_eq!(exact["next"], Value::Null, "a full page is the last if nothing follows");
    assert_eq!(page(&service, "dataset=1&offset=99").await["results"], json!([]));
}

#[tokio::test]
async fn offset_pages_neither_skip_nor_repeat_rows_if_new_rows_arrive() {
    for (limit, query) in [
        (500, ""),
        (500, "&ordering=-timestamp"),
        (9, "&resolution=1h"),
        (9, "&resolution=1h&ordering=-timestamp"),
        (9, "&resolution=1h&fill=null"),
    ] {
        let service = Service::with_bars(1440).await;
        let all = page(&service, &format!("dataset=1&limit=2000{query}")).await;
        let mut path = format!("/api/rows/?dataset=1&limit={limit}{query}");
        let (mut seen, mut pages) = (Vec::new(), Vec::new());
        loop {
            let (_, body) = service.get(&service.reader, &path).await;
            seen.extend(page_timestamps(&body));
            pages.push(body["results"].clone());
            if let Some(previous) = body["previous"].as_str() {
                let (_, before) = service.get(&service.reader, previous).await;
                assert_eq!(before["results"], pages[pages.len() - 2], "{query}");
            }
            let Some(next) = body["next"].as_str() else { break };
            path = next.to_owned();
            // The default time range moves with the latest row.
            let newest = 1440 + 100 * pages.len();
            service.insert((newest..newest + 100).map(bar).collect()).await;
        }
        assert_eq!((pages.len(), seen), (3, page_timestamps(&all)), "{query}");
    }
}

#[tokio::test]
async fn cursor_pages_are_read_in_both_orders_without_a_count() {
    let service = Service::with_bars(10).await;
    let query = format!("dataset=1&limit=4&ordering=timestamp&after={}", timestamp_of(3));
    let first = page(&service, &query).await;
    assert_eq!((page_timestamps(&first), &first["count"]), (minutes(4..8), &json!(0)));
    let next = first["next"].as_str().unwrap();
    let want = "/api/rows/?after=2026-07-29T00%3A07%3A00Z&dataset=1&limit=4&ordering=timestamp";
    assert_eq!(next, want);
    let (_, last) = service.get(&service.reader, next).await;
    assert_eq!((page_timestamps(&last), &last["next"]), (minutes(8..10), &Value::Null));
    let query = format!("dataset=1&limit=2&ordering=-timestamp&after={}", timestamp_of(3));
    let back = page(&service, &query).await;
    assert_eq!(page_timestamps(&back), minutes([2, 1]));
    assert!(back["next"].as_str().unwrap().contains("after=2026-07-29T00%3A01%3A00Z"));
    let query = format!("dataset=1&resolution=5m&after={}", timestamp_of(0));
    assert_eq!(page_timestamps(&page(&service, &query).await), minutes([5]));
}

#[tokio::test]
async fn default_time_range_is_the_day_of_the_newest_row_unless_a_start_is_given() {
    let service = Service::with_bars(1500).await;
    service.clock.advance(Duration::from_hours(24 * 365));
    let newest = page(&service, "dataset=1&limit=1&ordering=-timestamp").await;
    assert_eq!(page_timestamps(&newest), minutes([1499]));
    assert_eq!(page(&service, "dataset=1&limit=1").await["count"], 1440);
    let query = format!("dataset=1&limit=1&start={FIRST}");
    assert_eq!(page(&service, &query).await["count"], 1500);
}

#[tokio::test]
async fn end_parameter_is_inclusive_for_rows_and_exclusive_for_buckets() {
    let service = Service::with_bars(20).await;
    let bounds = format!("dataset=1&start={}&end={}", timestamp_of(5), timestamp_of(10));
    assert_eq!(page_timestamps(&page(&service, &bounds).await), minutes(5..11));
    let buckets = page(&service, &format!("{bounds}&resolution=5m")).await;
    assert_eq!(page_timestamps(&buckets), minutes([5]));
}

#[tokio::test]
async fn time_range_beyond_the_maximum_is_rejected_with_the_documented_body() {
    let service = Service::with_bars(1).await;
    let path = "/api/rows/?dataset=1&start=2026-07-01T00:00:00Z&end=2026-07-03T00:00:00Z";
    let text = "time range exceeds maximum of 24h0m0s for resolution=raw; \
        use a coarser resolution: bad request";
    assert_eq!(service.get(&service.reader, path).await, (400, refusal(text)));
    assert_eq!(service.get(&service.reader, &format!("{path}&resolution=1d")).await.0, 200);
}

#[tokio::test]
async fn query_for_an_unknown_dataset_is_rejected() {
    let service = Service::with_bars(1).await;
    let required = refusal("one of dataset or dataset_name is required: bad request");
    assert_eq!(service.get(&service.reader, "/api/rows/").await, (400, required));
    let nothing = (404, refusal("dataset not found"));
    assert_eq!(service.get(&service.reader, "/api/rows/?dataset_name=x").await, nothing);
    assert_eq!(service.get(&service.reader, "/api/rows/?dataset=9").await, nothing);
    let answer = service.get(&service.reader, "/api/rows/?dataset=1&ordering=open").await;
    assert_eq!(answer, (400, refusal("ordering must be timestamp or -timestamp: bad request")));
}

#[tokio::test]
async fn deleting_rows_of_a_range_updates_its_buckets() {
    let service = Service::with_bars(10).await;
    let range = |start: usize, end: usize| {
        format!("/api/rows/?dataset=1&start={}&end={}", timestamp_of(start), timestamp_of(end))
    };
    let deleted = |n: u64, n_buckets: u64| (200, json!({"deleted": n, "buckets": n_buckets}));
    assert_eq!(service.delete(&service.owner, &range(2, 3)).await, deleted(2, 0));
    assert_eq!(service.delete(&service.owner, &range(2, 3)).await, deleted(0, 0));
    assert_eq!(service.rows().await["count"], 8);
    let (_, body) = service.get(&service.reader, "/api/rows/?dataset=1&resolution=5m").await;
    assert_eq!(
        (&body["results"][0]["count"], &body["results"][0]["volume"]),
        (&json!(3), &json!(6))
    );
    assert_eq!(service.delete(&service.owner, &range(5, 9)).await, deleted(5, 1));
    let (_, body) = service.get(&service.reader, "/api/rows/?dataset=1&resolution=5m").await;
    assert_eq!(body["count"], 1, "a bucket without rows is gone");
    let required = refusal("start and end are required: bad request");
    for path in ["/api/rows/?dataset=1", "/api/rows/?dataset=1&start=2026-07-29T00:00:00Z"] {
        assert_eq!(service.delete(&service.owner, path).await, (400, required.clone()));
    }
    let turned = refusal("start must not be after end: bad request");
    assert_eq!(service.delete(&service.owner, &range(3, 2)).await, (400, turned));
    assert_eq!(service.rows().await["count"], 3);
}

#[tokio::test]
async fn deleting_a_range_of_pruned_rows_returns_the_number_of_deleted_buckets() {
    let service = Service::with_bars(3000).await;
    let id = model::dataset::DatasetId::new(1).unwrap();
    let before = timestamp_of(2500).parse().unwrap();
    assert!(service.app.datasets.prune(id, before).await.unwrap() > 0);
    let path = format!("/api/rows/?dataset=1&start={}&end={}", timestamp_of(0), timestamp_of(100));
    let (status, body) = service.delete(&service.owner, &path).await;
    assert_eq!((status, body), (200, json!({"deleted": 0, "buckets": 20})));
}

#[tokio::test]
async fn cached_page_reflects_the_last_commit() {
    let service = Service::with_bars(3).await;
    let open = "/api/rows/?dataset=1";
    let closed = format!("{open}&start={}&end={}", timestamp_of(0), timestamp_of(9));
    let cursor = format!("{open}&after={}", timestamp_of(0));
    let buckets = format!("{open}&resolution=5m");
    let all = [open, closed.as_str(), cursor.as_str(), buckets.as_str()];
    let read = async || {
        let mut pages = Vec::new();
        for path in all {
            pages.push(service.text(path).await.0);
        }
        pages
    };
    let before = read().await;
    assert_eq!(read().await, before);
    let mut corrected = bar(1);
    corrected["values"]["high"] = json!(99);
    service.insert(vec![corrected]).await;
    let after = read().await;
    assert!(after.iter().all(|page| page.contains("99")), "{after:?}");
    let path = format!("{open}&start={0}&end={0}", timestamp_of(1));
    assert_eq!(service.delete(&service.owner, &path).await.0, 200);
    assert!(read().await.iter().all(|page| !page.contains("99")));
    let column = json!({"dataset": 1, "name": "trades", "dtype": "integer"});
    assert_eq!(service.post(&service.owner, "/api/columns/", &column).await.0, 201);
    let mut counted = bar(1);
    counted["values"]["trades"] = json!(7);
    service.insert(vec![counted]).await;
    let pages = read().await;
    assert!(pages[..3].iter().all(|page| page.contains("\"trades\":7")), "{pages:?}");
}

#[tokio::test]
async fn page_of_old_rows_has_the_same_etag_after_new_rows_arrive() {
    let service = Service::with_bars(60).await;
    let path = format!(
        "/api/rows/?dataset=1&after={}&limit=10&start={}&end={}&ordering=timestamp",
        timestamp_of(9),
        timestamp_of(0),
        timestamp_of(100)
    );
    let tag = async || {
        let response = service.send(&service.reader, "GET", &path, Body::empty()).await;
        response.headers()["etag"].to_str().unwrap().to_owned()
    };
    let first = tag().await;
    for minute in [60, 61, 5, 59] {
        service.insert(vec![bar(minute)]).await;
        assert_eq!(tag().await, first, "minute {minute} is not on the page");
    }
    let mut tags = vec![first];
    // Changes each row that the page depends on: its first row, its last row, and the row after the
    // page, which only shows that there is a next page.
    for minute in [10, 19, 20] {
        service.insert(vec![bar(minute)]).await;
        tags.push(tag().await);
        assert_eq!(tag().await, tags[tags.len() - 1]);
    }
    // The deletion of a row elsewhere invalidates the page, too, since the cache does not record which
    // rows a deletion removed.
    let path = format!("/api/rows/?dataset=1&start={0}&end={0}", timestamp_of(50));
    assert_eq!(service.delete(&service.owner, &path).await.0, 200);
    tags.push(tag().await);
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 5);
}

/// Requests each page after each change, first from the cache and then under a query that is not cached.
#[tokio::test]
async fn cached_page_equals_an_uncached_page_after_any_change() {
    let service = Service::with_bars(0).await;
    let paths: Vec<String> = [
        String::new(),
        format!("&limit=7&start={}", timestamp_of(0)),
        format!("&limit=7&after={}", timestamp_of(10)),
        format!("&limit=7&after={}&ordering=timestamp&start={}", timestamp_of(10), timestamp_of(0)),
        format!("&limit=7&start={}&end={}", timestamp_of(4), timestamp_of(40)),
        format!("&limit=3&resolution=5m&after={}&ordering=timestamp", timestamp_of(4)),
        format!("&limit=3&resolution=5m&after={}", timestamp_of(45)),
        format!("&resolution=15m&start={}&end={}", timestamp_of(0), timestamp_of(40)),
        format!("&limit=3&resolution=5m&fill=linear&complete=true&after={}", timestamp_of(4)),
        "&limit=3&resolution=5m&fill=previous&ordering=-timestamp".to_owned(),
    ]
    .map(|query| format!("/api/rows/?dataset=1{query}"))
    .into();
    let mut deed: usize = 1;
    for round in 0..40 {
        deed = deed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let minute = (deed >> 33) % 60;
        if round % 11 == 10 {
            let query = format!("start={}&end={}", timestamp_of(minute), timestamp_of(minute + 3));
            let path = format!("/api/rows/?dataset=1&{query}");
            assert_eq!(service.delete(&service.owner, &path).await.0, 200);
        } else {
            let n_rows = if round % 17 == 0 { 30 } else { 1 };
            let mut rows: Vec<Value> = (minute..minute + n_rows).map(bar).collect();
            rows[0]["values"]["high"] = json!(1000 + round);
            service.insert(rows).await;
        }
        for path in &paths {
            let kept = service.text(path).await.0;
            let read = service.text(&format!("{path}&_round={round}")).await.0;
            let read = read.replace(&format!("_round={round}\\u0026"), "");
            assert_eq!(kept, read.replace(&format!("_round={round}&"), ""), "{round}: {path}");
        }
    }
}

#[tokio::test]
async fn pages_are_read_ahead_for_a_caller_that_follows_links() {
    let service = Service::with_bars(100).await;
    let query = format!("dataset=1&limit=5&ordering=-timestamp&start={}", timestamp_of(0));
    let mut path = format!("/api/rows/?after={}&{query}", timestamp_of(99));
    let mut kept = Vec::new();
    while let Some(next) = service.get(&service.reader, &path).await.1["next"].as_str() {
        kept.push(service.app.datasets.page_cache.n_pages());
        path = next.to_owned();
    }
    // The first page is read by itself. The second page is requested by a link, so it is read together
    // with the next seven pages. The page after these is again read together with seven more.
    assert_eq!(kept, [[1].as_slice(), &[9; 8], &[17; 8], &[20; 2]].concat());
    service.text(&format!("/api/rows/?after={}&{query}", timestamp_of(95))).await;
    assert_eq!(service.app.datasets.page_cache.n_pages(), 21, "nobody linked to it");
}

#[tokio::test]
async fn page_read_ahead_equals_an_uncached_page_after_any_change() {
    let service = Service::with_bars(60).await;
    let mut deed: usize = 1;
    for (round, query) in [
        format!("limit=3&ordering=timestamp&start={}", timestamp_of(0)),
        format!("limit=4&start={}&end={}", timestamp_of(0), timestamp_of(57)),
        "limit=2&ordering=timestamp&resolution=5m".to_owned(),
        "limit=2&resolution=5m".to_owned(),
        "limit=5".to_owned(),
    ]
    .iter()
    .cycle()
    .take(20)
    .enumerate()
    {
        let cursor = if query.contains("ordering") { "2026-07-01T00:00:00Z" } else { NOW };
        let mut next = Some(format!("/api/rows/?after={cursor}&dataset=1&{query}"));
        while let Some(path) = next {
            deed = deed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if (deed >> 33).is_multiple_of(4) {
                let mut row = bar((deed >> 40) % 60);
                row["values"]["high"] = json!(deed >> 44);
                service.insert(vec![row]).await;
            }
            let page = service.get(&service.reader, &path).await.1;
            let alone = service.get(&service.reader, &format!("{path}&_={deed}")).await.1;
            assert_eq!(page["results"], alone["results"], "{round}: {path}");
            assert_eq!(page["next"].is_null(), alone["next"].is_null(), "{round}: {path}");
            next = page["next"].as_str().map(str::to_owned);
        }
    }
}

#[tokio::test]
async fn page_includes_rows_that_another_process_stored() {
    let service = Service::with_bars(2).await;
    let path = "/api/rows/?dataset=1";
    for _ in 0..2 {
        assert_eq!(service.get(&service.reader, path).await.1["count"], 2);
    }
    // Opens the store a second time to simulate another process. Removes the lock file first, as if that
    // process did not use it.
    std::fs::remove_file(service.folder.path().join("datasets.sqlite.lock")).unwrap();
    let other = SqliteStore::open(&service.folder.path().join("datasets.sqlite")).unwrap();
    let other = Datasets::new(Arc::new(other), service.clock.clone(), &service.group);
    let first: Timestamp = timestamp_of(0).parse().unwrap();
    let range = tsdb::span::Span { first, last: first };
    let (owner, dataset) = (KeyId::new(1), "1".parse().unwrap());
    assert_eq!(other.delete_rows(owner, DatasetRef::Id(dataset), range).await.unwrap().0.n_rows, 1);
    assert_eq!(service.get(&service.reader, path).await.1["count"], 1);
    other.remove_tag(owner, dataset, "public").await.unwrap();
    assert_eq!(service.get(&service.reader, path).await.0, 404, "nor is what a key sees");
}

#[tokio::test]
async fn cached_page_is_not_shown_to_a_key_without_access() {
    let service = Service::start().await;
    service.create("own", &json!([{"name": "open", "dtype": "float"}])).await;
    for _ in 0..2 {
        let path = "/api/rows/?dataset=1";
        assert_eq!(service.get(&service.owner, path).await.0, 200);
        assert_eq!(service.get(&service.reader, path).await, (404, refusal("dataset not found")));
    }
}

/// Returns the texts of all members with this name in a JSON document.
fn texts_of(json: &str, name: &str) -> Vec<String> {
    let before = format!("\"{name}\":\"");
    let texts = json.split(&before).skip(1);
    let text = |rest: &str| rest.split('"').next().unwrap().replace("\\u0026", "&");
    texts.map(text).collect()
}

#[tokio::test]
async fn page_of_long_rows_ends_early_and_its_next_link_continues() {
    /// Number of rows, each of 96 kB. A page has at most 16 MiB.
    const ROWS: usize = 200;
    let service = Service::start().await;
    let columns = ["a", "b"].map(|name| json!({"name": name, "dtype": "string"}));
    let body = json!({"name": "texts", "columns": columns, "tags": ["public"]});
    service.post(&service.owner, "/api/datasets/", &body).await;
    service.post(&service.reader, "/api/tags/acquire/", &json!({"tag_name": "public"})).await;
    // Control characters take six bytes each in JSON.
    let text = "\u{1}".repeat(8000);
    let row = |minute| json!({"timestamp": timestamp_of(minute), "values": {"a": text, "b": text}});
    service.insert((0..ROWS).map(row).collect()).await;
    for order in ["timestamp&offset=0", &format!("-timestamp&after={}", timestamp_of(ROWS))] {
        let path = format!("/api/rows/?dataset=1&limit=10000&start={FIRST}&ordering={order}");
        let (mut path, mut seen, mut n_pages) = (Some(path), Vec::new(), 0);
        while let Some(asked) = path {
            let (body, _) = service.text(&asked).await;
            assert!(body.len() < 17 * 1024 * 1024, "{}", body.len());
            // Parsing 16 MiB of JSON takes longer than the rest of the test.
            seen.extend(texts_of(&body, "timestamp"));
            path = texts_of(&body, "next").pop();
            n_pages += 1;
        }
        seen.sort_unstable();
        assert_eq!((n_pages, seen), (2, minutes(0..ROWS)), "each row once");
    }
    let live = service.text("/api/rows/live/?dataset=1&limit=10000").await.0;
    assert!(live.len() < 17 * 1024 * 1024, "{}", live.len());
    assert!(live.lines().next().unwrap().contains(&timestamp_of(ROWS - 1)), "the newest");
}

#[tokio::test]
async fn page_of_a_dataset_with_many_columns_has_fewer_rows_than_requested() {
    let service = Service::start().await;
    let column = |n| json!({"name": format!("{n}{}", "x".repeat(190)), "dtype": "float"});
    service.create("wide", &(0..256).map(column).collect()).await;
    let rows = (0..400).map(|minute| json!({"timestamp": timestamp_of(minute), "values": {}}));
    service.insert(rows.collect()).await;
    let path = format!("/api/rows/?dataset=1&limit=10000&start={FIRST}");
    let (_, body) = service.get(&service.owner, &path).await;
    let n_rows = body["results"].as_array().unwrap().len();
    assert!((200..400).contains(&n_rows), "{n_rows}");
    let (_, rest) = service.get(&service.owner, body["next"].as_str().unwrap()).await;
    assert_eq!(
        (rest["results"].as_array().unwrap().len(), &rest["next"]),
        (400 - n_rows, &Value::Null)
    );
}

#[tokio::test]
async fn rows_in_the_future_are_returned_only_if_there_are_no_other_rows() {
    let service = Service::with_bars(0).await;
    let row = json!({"timestamp": "2027-07-30T00:00:00Z", "values": {"close": 7}});
    service.insert(vec![row]).await;
    let newest = "dataset=1&limit=2&ordering=-timestamp";
    assert_eq!(page_timestamps(&page(&service, newest).await), ["2027-07-30T00:00:00Z"]);
    service.insert((0..3).map(bar).collect()).await;
    let page = page(&service, newest).await;
    assert_eq!((page_timestamps(&page), &page["count"]), (minutes([2, 1]), &json!(3)));
}

#[tokio::test]
async fn misspelt_parameter_is_rejected_with_a_suggestion() {
    let service = Service::with_bars(1).await;
    for (path, want) in [
        (
            "rows/?dataset=1&strat=2026-07-29T00:00:00Z",
            "unknown parameter strat; did you mean start?: bad request",
        ),
        (
            "rows/?dataset=1&Resolution=1h",
            "unknown parameter Resolution; did you mean resolution?: bad request",
        ),
        (
            "rows/?dataset_nam=btc",
            "unknown parameter dataset_nam; did you mean dataset_name?: bad request",
        ),
        ("rows/live/?dataset=1&limt=3", "unknown parameter limt; did you mean limit?: bad request"),
        (
            "rows/bulk_download/?dataset=1&ouput=csv",
            "unknown parameter ouput; did you mean output?: bad request",
        ),
        (
            "columns/?dataset=1&x=2",
            "unknown parameter x; known are dataset, dataset_name: bad request",
        ),
        ("datasets/?serch=btc", "unknown parameter serch; did you mean search?: bad request"),
        ("datasets/1/?x=2", "unknown parameter x; there are none here: bad request"),
        ("tags/?x=2", "unknown parameter x; there are none here: bad request"),
        ("rows/?dataset=1&dataset=2", "parameter dataset is given more than once: bad request"),
        ("datasets/search/?a=1&a=2", "parameter a is given more than once: bad request"),
    ] {
        let answer = service.get(&service.reader, &format!("/api/{path}")).await;
        assert_eq!(answer, (400, refusal(want)), "{path}");
    }
    let (status, body) = service.get(&service.reader, "/api/rows/?dataset=1&_=1690000000").await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn negative_zero_is_returned_with_its_sign() {
    let service = Service::with_bars(0).await;
    service.insert(vec![json!({"timestamp": FIRST, "values": {"close": -0.0}})]).await;
    let (text, _) = service.text("/api/rows/?dataset=1").await;
    assert!(text.contains(r#""close":-0}"#), "{text}");
}

/// Every path that reads rows or buckets accepts a selection of columns.
#[tokio::test]
async fn only_selected_columns_are_returned() {
    let service = Service::with_bars(130).await;
    let text = async |path: &str| service.text(&format!("/api/rows/{path}")).await.0;
    let page = page(&service, "dataset=1&limit=1&columns=volume,close").await;
    assert_eq!(page["results"][0]["values"], json!({"close": 0.5, "volume": 2}));
    let next = page["next"].as_str().unwrap();
    assert!(next.contains("columns=volume%2Cclose"), "{next}");
    let body = text("?dataset=1&limit=1&resolution=1h&columns=close,count").await;
    let bucket = r#"{"dataset_id":1,"timestamp":"2026-07-29T00:00:00Z","close":59.5,"count":60}"#;
    assert!(body.ends_with(&format!("[{bucket}]}}")), "{body}");
    for (path, want) in [
        ("live/?dataset=1&limit=1", "{\"close\":129.5,\"timestamp\":\"2026-07-29T02:09:00Z\"}\n"),
        (
            "bulk_download/?dataset=1&output=csv&end=2026-07-29T00:00:00Z",
            "timestamp,close\n2026-07-29T00:00:00Z,0.5\n",
        ),
        (
            "bulk_download/?dataset=1&output=csv&resolution=1d",
            "timestamp,close\n2026-07-29T00:00:00Z,129.5\n",
        ),
    ] {
        assert_eq!(text(&format!("{path}&columns=close")).await, want);
        assert_ne!(text(path).await, want, "the same range with all columns");
    }
    for (path, want) in [
        ("?dataset=1&columns=close,vwap", "there is no column vwap"),
        ("?dataset=1&columns=vwap&resolution=1h", "there is no column vwap of buckets"),
        ("?dataset=1&columns=close,,open", "columns must be names separated by commas"),
        ("live/?dataset=1&columns=vwap", "there is no column vwap"),
        ("bulk_download/?dataset=1&columns=vwap", "there is no column vwap"),
        ("stream/?dataset=1&columns=vwap", "there is no column vwap"),
    ] {
        let (status, body) = service.get(&service.reader, &format!("/api/rows/{path}")).await;
        assert_eq!(status, 400, "{path}");
        assert!(body["error"].as_str().unwrap().starts_with(want), "{path}: {body}");
    }
}
