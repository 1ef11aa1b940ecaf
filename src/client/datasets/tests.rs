use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Path, Query};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value as Json_, json};
use wire::paths::REVISION_HEADER;

use super::download::DownloadQuery;
use super::insert::{InsertBody, InsertMode};
use super::*;
use crate::tests::fake::Fake;

const AT: &str = "2026-07-30T21:57:00Z";

async fn service(router: Router) -> (Fake, Datasets) {
    let fake = Fake::serve(router).await;
    let base = format!("{}/api", fake.address);
    let datasets = Datasets::new(Transport::new(&base, None).unwrap());
    (fake, datasets)
}

fn id(number: i64) -> DatasetId {
    DatasetId::new(number).unwrap()
}

fn dataset(number: i64, name: &str) -> Json_ {
    json!({
        "id": number, "name": name, "description": "", "metadata": { "ticker": "btc" },
        "created_at": AT, "updated_at": AT
    })
}

/// Responds with a dataset that has the query string of the request as its description.
async fn echo(Query(query): Query<BTreeMap<String, String>>) -> Json<Json_> {
    let mut body = dataset(1, "echo");
    body["description"] = json!(format!("{query:?}"));
    Json(json!({ "count": -1, "next": "more", "previous": null, "results": [body] }))
}

#[tokio::test]
async fn listing_sends_the_search_as_query_parameters() {
    let (_fake, datasets) = service(Router::new().route(paths::DATASETS, get(echo))).await;
    let query = DatasetsQuery { search: "a&b".to_owned(), limit: Some(5), offset: 10 };
    let page = datasets.list(&query).await.unwrap();
    assert_eq!(page.datasets[0].description, r#"{"limit": "5", "offset": "10", "search": "a&b"}"#);
    assert!(page.has_more && page.n_datasets.is_none());
}

#[tokio::test]
async fn dataset_is_found_by_its_id_before_its_name() {
    let list = || async {
        let results = [dataset(1, "5"), dataset(5, "five"), dataset(2, "7")];
        Json(json!({ "count": 3, "next": null, "previous": null, "results": results }))
    };
    let by_id = |Path(number): Path<i64>| async move {
        let is_known = number == 5;
        let status = if is_known { StatusCode::OK } else { StatusCode::NOT_FOUND };
        (status, Json(if is_known { dataset(5, "five") } else { json!({ "error": "not found" }) }))
    };
    let router = Router::new().route(paths::DATASETS, get(list)).route(paths::DATASET, get(by_id));
    let (_fake, datasets) = service(router).await;
    for (name, number) in [("5", Some(5)), ("five", Some(5)), ("7", Some(2)), ("8", None)] {
        let found = datasets.find_by_id_or_name(name).await.unwrap();
        assert_eq!(found.map(|dataset| dataset.id), number.map(id), "{name}");
    }
}

#[tokio::test]
async fn shared_name_is_resolved_or_rejected_by_the_service() {
    static N_REQUESTS: AtomicUsize = AtomicUsize::new(0);
    let list = |Query(query): Query<BTreeMap<String, String>>| async move {
        N_REQUESTS.fetch_add(1, Ordering::SeqCst);
        let name = query["search"].as_str();
        let is_chosen = query.contains_key("dataset_name");
        let results = match name {
            "missing" => vec![],
            // Older services reject `dataset_name`.
            "only" if is_chosen => return (StatusCode::BAD_REQUEST, Json(json!({ "error": "" }))),
            "only" => vec![dataset(4, name), dataset(3, "only one")],
            "own" if is_chosen => vec![dataset(2, name)],
            "shared" if is_chosen => {
                return (StatusCode::CONFLICT, Json(json!({ "error": "use one of 1, 2" })));
            }
            _ => vec![dataset(1, name), dataset(2, name), dataset(3, "longer")],
        };
        let body = json!({ "count": 3, "next": null, "previous": null, "results": results });
        (StatusCode::OK, Json(body))
    };
    let (_fake, datasets) = service(Router::new().route(paths::DATASETS, get(list))).await;
    assert_eq!(datasets.find_by_name("own").await.unwrap().unwrap().id, id(2));
    assert_eq!(N_REQUESTS.load(Ordering::SeqCst), 1);
    assert_eq!(datasets.find_by_name("only").await.unwrap().unwrap().id, id(4));
    assert_eq!(datasets.find_by_name("missing").await.unwrap(), None);
    for (name, ids) in [("shared", "one of 1, 2"), ("ignored", "called ignored: 1, 2")] {
        let refused = datasets.find_by_id_or_name(name).await.unwrap_err();
        assert_eq!(refused.status(), Some(409));
        assert!(refused.to_string().contains(ids), "{refused}");
    }
}

#[tokio::test]
async fn raw_rows_and_buckets_are_parsed_as_different_types() {
    let rows = |Query(query): Query<BTreeMap<String, String>>| async move {
        let results = if query["resolution"] == "raw" {
            json!([{
                "id": 9, "dataset_id": 3, "timestamp": AT, "created_at": AT,
                "values": { "open": 1.5, "trades_done": 134 }
            }])
        } else {
            json!([{
                "dataset_id": 3, "timestamp": AT, "open": 1.0, "high": 2.0, "low": 0.5,
                "close": 1.5, "volume": 10.0, "count": 5
            }])
        };
        Json(json!({ "count": 1, "next": null, "previous": null, "results": results }))
    };
    let (_fake, datasets) = service(Router::new().route(paths::ROWS, get(rows))).await;

    let query = RowsQuery::newest(id(3), Resolution::Raw, Limit::clamp(1));
    let Rows::Raw(rows) = datasets.rows(&query).await.unwrap().rows else { panic!("buckets") };
    assert_eq!(rows[0].values["trades_done"], Value::Integer(134));
    assert_eq!(rows[0].values["open"], Value::Float(1.5));

    let query = RowsQuery { resolution: Resolution::Hour, ..query };
    let page = datasets.rows(&query).await.unwrap();
    let Rows::Buckets(buckets) = page.rows else { panic!("raw rows") };
    assert_eq!((buckets[0].high, buckets[0].count, page.next), (2.0, 5, None));
}

#[test]
fn query_contains_only_the_bounds_that_are_set() {
    let mut query = RowsQuery::newest(id(3), Resolution::FiveMinutes, Limit::clamp(10));
    let names = |query: &RowsQuery| -> Vec<_> { query.pairs().into_iter().map(|p| p.0).collect() };
    assert_eq!(names(&query), ["dataset", "resolution", "limit", "ordering"]);
    query.after = Some(AT.parse().unwrap());
    query.order = Order::Ascending;
    assert_eq!(query.pairs()[3..], [("ordering", "timestamp".into()), ("after", AT.into())]);
}

#[tokio::test]
async fn latest_rows_are_parsed_from_ndjson_lines() {
    let live = || async { format!("{{\"timestamp\":\"{AT}\",\"close\":2}}\n\n") };
    let (_fake, datasets) = service(Router::new().route(paths::ROWS_LIVE, get(live))).await;
    let rows = datasets.newest(id(3), Limit::clamp(1)).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].values["close"].as_f64(), Some(2.0));
}

#[tokio::test]
async fn acquiring_tag_twice_succeeds() {
    let acquire = |Json(body): Json<TagName>| async move {
        match body.tag_name.as_str() {
            "public" => (StatusCode::OK, Json(json!({ "message": "done" }))),
            "held" => (StatusCode::CONFLICT, Json(json!({ "error": "held: conflict" }))),
            _ => (StatusCode::FORBIDDEN, Json(json!({ "error": "private: forbidden" }))),
        }
    };
    let (_fake, datasets) = service(Router::new().route(paths::TAGS_ACQUIRE, post(acquire))).await;
    assert_eq!(datasets.acquire_tag("public").await.unwrap(), Acquired::Now);
    assert_eq!(datasets.acquire_tag("held").await.unwrap(), Acquired::Already);
    assert_eq!(datasets.acquire_tag("tiingo").await.unwrap_err().status(), Some(403));
}

#[tokio::test]
async fn dataset_is_created() {
    let create = |Json(body): Json<CreateDataset>| async move { Json(dataset(7, &body.name)) };
    let router = Router::new().route(paths::DATASETS, post(create));
    let (_fake, datasets) = service(router).await;
    let body = CreateDataset { name: "cpu".to_owned(), ..CreateDataset::default() };
    let created = datasets.create(&body).await.unwrap();
    assert_eq!((created.id, created.name.as_str()), (id(7), "cpu"));
}

#[tokio::test]
async fn read_includes_all_commits_of_earlier_responses() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    // The second response comes from a replica with older data.
    let revisions = Arc::new(Mutex::new(vec![12, 11, 1, 5, 9, 7]));
    let serve = move |headers: HeaderMap| {
        let seen = headers.get(REVISION_HEADER).map(|seen| seen.to_str().unwrap().to_owned());
        noted.lock().push(seen);
        let body = json!({
            "count": 0, "next": null, "previous": null, "results": [], "inserted": 0, "deleted": 0
        });
        let revision = revisions.lock().pop().unwrap_or(1_u64);
        ready(([(REVISION_HEADER, revision.to_string())], Json(body)))
    };
    let router = Router::new().fallback(serve);
    let (_fake, datasets) = service(router).await;
    let read = async |dataset| {
        let query = RowsQuery::newest(id(dataset), Resolution::Raw, Limit::clamp(1));
        datasets.clone().rows(&query).await.unwrap();
    };
    read(1).await;
    datasets.insert_body(&InsertBody::new(id(1), &[], &[]), InsertMode::Replace).await.unwrap();
    read(2).await;
    read(1).await;
    let (start, end) = (AT.parse().unwrap(), AT.parse().unwrap());
    datasets.delete_rows(id(3), start, end).await.unwrap();
    let query = DownloadQuery {
        dataset: id(3),
        resolution: Resolution::Raw,
        start: None,
        end: None,
        output: "csv",
        columns: Vec::new(),
        extras: BucketExtras::default(),
    };
    datasets.download(&query).await.unwrap();
    read(3).await;
    let want = [None, Some("7"), None, Some("9"), None, Some("11"), Some("12")];
    assert_eq!(asked.lock().iter().map(Option::as_deref).collect::<Vec<_>>(), want);
}
