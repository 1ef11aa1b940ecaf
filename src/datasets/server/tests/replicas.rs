//! Tests of two services with one database, each of which also serves the commits of the other service.

mod lost_responses;

use axum::http::header::{ETAG, RETRY_AFTER};
use model::dataset::DatasetId;

use super::stream::{Reader, brief};
use super::*;
use crate::replicas::{POLL_EVERY, run};
use crate::retention::delete_old;
use crate::server::stream::NO_ACCESS;

/// Number of rows that each service inserts in a test.
const ROWS_EACH: usize = 20;

/// Two services with one database, and a dataset of this test.
struct Pair {
    one: Service,
    two: Service,
    dataset: i64,
    /// Name of the dataset, and of the tag that makes it visible to the reader.
    name: String,
    /// Service with the accounts that both services use.
    base: Service,
    url: String,
}

impl Pair {
    async fn start(name: &str) -> Option<Self> {
        let url = test_postgres::new_database()?;
        let base = Service::start().await;
        let (one, two) = (replica_at(&base, &url).await, replica_at(&base, &url).await);
        let name = name.to_owned();
        let columns = json!([{"name": "close", "dtype": "float"}]);
        let body = json!({"name": name, "columns": columns, "tags": [name]});
        let (status, created) = one.post(&one.owner, "/api/datasets/", &body).await;
        assert_eq!(status, 201, "{created}");
        let holders = format!("/api/tags/{name}/holders/");
        assert_eq!(two.post(&two.owner, &holders, &json!({"key": 2})).await.0, 201);
        Some(Self { one, two, dataset: created["id"].as_i64().unwrap(), name, base, url })
    }

    /// Inserts a row at `minute` through the service `by`.
    async fn insert(&self, by: &Service, minute: usize, close: f64) {
        let row = json!({"timestamp": timestamp_of(minute), "values": {"close": close}});
        let body = json!({"dataset": self.dataset, "rows": [row]});
        let answer = by.post(&by.owner, "/api/rows/bulk_insert/", &body).await;
        assert_eq!(answer, (201, json!({"inserted": 1})));
    }

    async fn follow(&self, at: &Service, last_id: Option<&str>) -> Reader {
        let path = format!("/api/rows/stream/?dataset={}", self.dataset);
        let mut reader = Reader::of(&at.router, &at.reader, &path, last_id).await;
        assert_eq!(reader.next().await.unwrap().0, "connected");
        reader
    }

    /// Requests the page of all rows from the service `at`. Returns the status, the text and the entity
    /// tag. If `known` is the current entity tag, the status is 304 and the text is empty.
    async fn page(&self, at: &Service, known: &str) -> (u16, String, String) {
        let path = format!(
            "/api/rows/?dataset={}&start={FIRST}&end={}&resolution=raw",
            self.dataset,
            timestamp_of(600)
        );
        let headers = [("X-API-Key", at.reader.as_str()), ("If-None-Match", known)];
        let response = at.send_with(&headers, "GET", &path, Body::empty()).await;
        let tag = response.headers()[ETAG].to_str().unwrap().to_owned();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap(), tag)
    }
}

/// Starts a service with the database at `url` and the keys of `base`.
async fn replica_at(base: &Service, url: &str) -> Service {
    let url: DatabaseUrl = url.parse().unwrap();
    let store = run_blocking(move || PostgresStore::open(&url)).await.unwrap().unwrap();
    service_on(base, store)
}

/// Starts a service with `store` and the keys of `base`.
fn service_on(base: &Service, store: PostgresStore) -> Service {
    let folder = tempdir().unwrap();
    let (accounts, clock) = (base.accounts.clone(), base.clock.clone());
    let (app, group) = app_on(Arc::new(store), folder.path(), &accounts, &clock);
    group.spawn("replicas", run(app.datasets.clone(), POLL_EVERY));
    let router = router(Arc::clone(&app), None, &[]);
    let (owner, reader) = (base.owner.clone(), base.reader.clone());
    Service { app, accounts, router, clock, group, owner, reader, folder }
}

/// Reads the next rows of a stream. Returns the value of each row, and the row number in the id of its
/// event.
async fn read_rows(reader: &mut Reader, n_rows: usize) -> Vec<(f64, i64)> {
    let mut rows = Vec::new();
    while rows.len() < n_rows {
        let (name, data) = reader.next().await.unwrap();
        if name == "heartbeat" {
            continue;
        }
        assert_eq!(name, "data", "{data}");
        let last_id = reader.last_id.as_deref().unwrap();
        let (_, number) = last_id.rsplit_once('-').unwrap();
        rows.push((data["close"].as_f64().unwrap(), number.parse().unwrap()));
    }
    rows
}

#[tokio::test]
async fn readers_of_both_services_get_all_rows_once_in_the_same_order() {
    let Some(pair) = Pair::start("both").await else { return };
    let mut readers = [pair.follow(&pair.one, None).await, pair.follow(&pair.two, None).await];
    let insert = async |by: &Service, place: usize| {
        for n in 0..ROWS_EACH {
            pair.insert(by, 2 * n + place, 1.0).await;
        }
    };
    // Ids of replayed rows can be lower than their numbers, so the replays end before the other inserts.
    pair.insert(&pair.one, 899, 5.0).await;
    for reader in &mut readers {
        assert_eq!(read_rows(reader, 1).await, [(5.0, 1)]);
    }
    let [one, two] = &mut readers;
    let ((), (), got_one, got_two) = tokio::join!(
        insert(&pair.one, 0),
        insert(&pair.two, 1),
        read_rows(one, 2 * ROWS_EACH),
        read_rows(two, 2 * ROWS_EACH),
    );
    let numbers: Vec<i64> = got_one.iter().map(|(_, number)| *number).collect();
    let n_rows = i64::try_from(2 * ROWS_EACH).unwrap();
    assert_eq!(numbers, (2..=n_rows + 1).collect::<Vec<_>>(), "rows are numbered as committed");
    assert_eq!(got_one, got_two);
    // A reader of the first service resumes at the other service with the id of its last row.
    let last_id = readers[0].last_id.clone();
    pair.insert(&pair.one, 900, 7.0).await;
    let mut resumed = pair.follow(&pair.two, last_id.as_deref()).await;
    assert_eq!(read_rows(&mut resumed, 1).await, [(7.0, n_rows + 2)]);
}

#[tokio::test]
async fn stream_reflects_deletions_and_corrections_of_the_other_service() {
    let Some(pair) = Pair::start("deleted").await else { return };
    let mut reader = pair.follow(&pair.two, None).await;
    pair.insert(&pair.one, 1, 1.0).await;
    assert_eq!(read_rows(&mut reader, 1).await, [(1.0, 1)]);
    let range =
        format!("dataset={}&start={}&end={}", pair.dataset, timestamp_of(0), timestamp_of(9));
    let deleted = pair.one.delete(&pair.one.owner, &format!("/api/rows/?{range}")).await;
    assert_eq!(deleted, (200, json!({"deleted": 1, "buckets": 1})));
    pair.insert(&pair.two, 1, 2.0).await;
    pair.insert(&pair.one, 1, 3.0).await;
    let rows = read_rows(&mut reader, 1).await;
    // The row with value 3 replaces the row with value 2, possibly before the stream reads the latter.
    let last = if rows == [(2.0, 2)] { read_rows(&mut reader, 1).await } else { rows };
    assert_eq!(last, [(3.0, 3)]);
}

#[tokio::test]
async fn change_streams_of_both_services_contain_all_changes_in_the_same_order() {
    let Some(pair) = Pair::start("changes").await else { return };
    let path = format!("/api/rows/stream/?dataset={}&changes=true", pair.dataset);
    let follow = async |at: &Service, last_id: Option<&str>| {
        let mut reader = Reader::of(&at.router, &at.reader, &path, last_id).await;
        assert_eq!(reader.next().await.unwrap().0, "connected");
        reader
    };
    pair.insert(&pair.one, 0, 0.0).await;
    let mut readers = [follow(&pair.one, None).await, follow(&pair.two, None).await];
    let mut ids: Vec<[Option<String>; 2]> = Vec::new();
    for (n, by) in [&pair.one, &pair.two, &pair.two, &pair.one].into_iter().enumerate() {
        let mut get = async |want: String| {
            for reader in &mut readers {
                assert_eq!(brief(reader.next().await.unwrap()), want);
            }
            ids.push([0, 1].map(|at| readers[at].last_id.clone()));
        };
        if n == 0 {
            get("+0".to_owned()).await;
        }
        pair.insert(by, 0, 1.5).await;
        get("~1.5".to_owned()).await;
        let at = timestamp_of(0);
        let range = format!("dataset={}&start={at}&end={at}", pair.dataset);
        assert_eq!(by.delete(&by.owner, &format!("/api/rows/?{range}")).await.0, 200);
        let deletion = format!("-{0}..{0} @{1}", json!(at), 3 * n + 3);
        get(deletion).await;
        pair.insert(by, 0, 2.5).await;
        get("+2.5".to_owned()).await;
    }
    assert!(ids.iter().all(|[one, two]| one == two), "{ids:?}");
    // A reader of the first service resumes at the other service. It gets all deletions, but only the
    // row that was not deleted.
    let mut resumed = follow(&pair.two, ids[1][0].as_deref()).await;
    for n in 0..4 {
        let deletion = brief(resumed.next().await.unwrap());
        assert!(deletion.ends_with(&format!(" @{}", 3 * n + 3)), "{deletion}");
    }
    assert_eq!(brief(resumed.next().await.unwrap()), "+2.5");
}

#[tokio::test]
async fn streams_end_when_the_other_service_revokes_access() {
    let Some(pair) = Pair::start("taken").await else { return };
    let holder = format!("/api/tags/{}/holders/", pair.name);
    let mut reader = pair.follow(&pair.two, None).await;
    assert_eq!(pair.one.delete(&pair.one.owner, &format!("{holder}2/")).await.0, 200);
    assert_eq!(reader.read_end().await, NO_ACCESS);
    assert_eq!(pair.one.post(&pair.one.owner, &holder, &json!({"key": 2})).await.0, 201);
    let mut reader = pair.follow(&pair.two, None).await;
    let tag = format!("/api/datasets/{}/tags/{}/", pair.dataset, pair.name);
    assert_eq!(pair.one.delete(&pair.one.owner, &tag).await.0, 200);
    assert_eq!(reader.read_end().await, NO_ACCESS);
    let tag = json!({"tag_name": pair.name});
    let tags = format!("/api/datasets/{}/tags/", pair.dataset);
    assert_eq!(pair.one.post(&pair.one.owner, &tags, &tag).await.0, 201);
    let mut reader = pair.follow(&pair.two, None).await;
    let dataset = format!("/api/datasets/{}/", pair.dataset);
    assert_eq!(pair.one.delete(&pair.one.owner, &dataset).await.0, 200);
    assert_eq!(reader.read_end().await, NO_ACCESS);
}

#[tokio::test]
async fn cached_pages_and_etags_reflect_commits_of_the_other_service() {
    let Some(pair) = Pair::start("cached").await else { return };
    for minute in 0..3 {
        pair.insert(&pair.one, minute, 1.0).await;
    }
    let (status, page, tag) = pair.page(&pair.one, "").await;
    assert_eq!((status, page.matches("\"close\":1").count()), (200, 3), "{page}");
    assert_eq!(pair.page(&pair.two, &tag).await.0, 304, "the tag is the same at each service");
    assert_eq!(pair.page(&pair.one, "").await, (200, page, tag.clone()), "out of the cache");
    // The other service replaces a row of the page, then this service adds a row after the page.
    pair.insert(&pair.two, 1, 5.0).await;
    let (status, page, tag) = pair.page(&pair.one, &tag).await;
    assert_eq!((status, page.matches("\"close\":5").count()), (200, 1), "{page}");
    pair.insert(&pair.one, 900, 9.0).await;
    assert_eq!(pair.page(&pair.one, &tag).await.0, 304, "this page is the same");
    pair.insert(&pair.two, 2, 6.0).await;
    pair.insert(&pair.one, 901, 9.0).await;
    let (status, page, _) = pair.page(&pair.one, &tag).await;
    assert_eq!((status, page.matches("\"close\":6").count()), (200, 1), "{page}");
    let download = format!("/api/rows/bulk_download/?dataset={}&output=csv", pair.dataset);
    let (csv, _) = pair.one.text(&download).await;
    assert!(csv.contains(",6\n"), "{csv}");
    pair.insert(&pair.two, 2, 8.0).await;
    let (csv, _) = pair.one.text(&download).await;
    assert!(csv.contains(",8\n") && !csv.contains(",6\n"), "{csv}");
    // A column that the other service adds changes the entity tag.
    let (_, _, tag) = pair.page(&pair.one, "").await;
    let column = json!({"dataset": pair.dataset, "name": "open", "dtype": "float"});
    let (status, added) = pair.two.post(&pair.two.owner, "/api/columns/", &column).await;
    assert_eq!(status, 201, "{added}");
    assert_eq!(pair.page(&pair.one, &tag).await.0, 200);
}

#[tokio::test]
async fn empty_prune_does_not_hide_a_commit_of_the_other_service() {
    let Some(pair) = Pair::start("kept").await else { return };
    let id = DatasetId::new(pair.dataset).unwrap();
    let mut reader = pair.follow(&pair.one, None).await;
    for minute in 0..5 {
        pair.insert(&pair.two, minute, 1.0).await;
        let before = timestamp_of(0).parse().unwrap();
        assert_eq!(pair.one.app.datasets.prune(id, before).await.unwrap(), 0);
    }
    assert_eq!(read_rows(&mut reader, 5).await.len(), 5);
}

#[tokio::test]
async fn metrics_include_the_connections_to_the_database() {
    let Some(pair) = Pair::start("metrics").await else { return };
    pair.insert(&pair.one, 0, 1.0).await;
    let text = status::counts(&pair.one).await;
    let first = "{for=\"rows\"";
    status::check(&text, &format!("database_lost{first}}}"), "0");
    assert!(text.contains(&format!("database_waiting{first}}} ")), "{text}");
    let n_open = format!("triptych_datasets_database_connections{first},state=\"open\"}} ");
    let n_open = text.lines().find_map(|line| line.strip_prefix(&n_open)).unwrap();
    assert!((1..=24).contains(&n_open.parse::<u32>().unwrap()), "{n_open}");
    assert!(!text.contains("store_bytes{"), "{text}");
}

#[tokio::test]
async fn read_only_service_rejects_writes_and_waits_for_commits_seen_by_the_client() {
    let Some(pair) = Pair::start("read_only").await else { return };
    let url: DatabaseUrl = pair.url.parse().unwrap();
    let store = run_blocking(move || PostgresStore::open_read_only(&url)).await.unwrap().unwrap();
    let service = service_on(&pair.base, store);
    let health = json!({"status": "healthy", "time": NOW, "database": "read-only"});
    assert_eq!(service.get("", "/health").await, (200, health));

    let row = json!({"timestamp": timestamp_of(0), "values": {"close": 1.0}});
    let body = Body::from(json!({"dataset": pair.dataset, "rows": [row]}).to_string());
    let response = service.send(&service.owner, "POST", "/api/rows/bulk_insert/", body).await;
    assert!(response.headers().contains_key(RETRY_AFTER));
    let (status, body) = json_of(response).await;
    assert_eq!(status, 503);
    assert!(body["error"].as_str().unwrap().contains("this service is read-only"), "{body}");

    let change = json!({"metadata": {"keep_days": "1"}});
    let path = format!("/api/datasets/{}/", pair.dataset);
    assert_eq!(pair.one.call(&pair.one.owner, "PATCH", &path, &change).await.0, 200);
    let deleted = delete_old(&service.app.datasets, service.clock.now()).await;
    assert!(matches!(deleted, Err(StoreError::ReadOnly)), "{deleted:?}");

    pair.insert(&pair.one, 0, 1.0).await;
    let read = async |seen: u64| {
        let path = format!("/api/rows/?dataset={}", pair.dataset);
        let seen = seen.to_string();
        let headers = [("X-API-Key", service.reader.as_str()), ("X-Revision", &seen)];
        let response = service.send_with(&headers, "GET", &path, Body::empty()).await;
        (response.status().as_u16(), response.headers().contains_key(RETRY_AFTER))
    };
    assert_eq!(read(1).await, (200, false));
    let (answer, ()) = tokio::join!(read(2), pair.insert(&pair.one, 1, 1.0));
    assert_eq!(answer, (200, false), "it waits for the commit");
    assert_eq!(read(3).await, (503, true), "it does not wait forever");
}

#[tokio::test]
async fn missing_privilege_is_named_in_responses_and_health() {
    let Some(pair) = Pair::start("denied").await else { return };
    let role = "DO $$ BEGIN CREATE ROLE viewer LOGIN PASSWORD 'viewer';
            EXCEPTION WHEN duplicate_object THEN END $$;
        GRANT USAGE ON SCHEMA datasets TO viewer;
        GRANT SELECT ON ALL TABLES IN SCHEMA datasets TO viewer";
    test_postgres::run(&pair.url, role);
    let (_, place) = pair.url.rsplit_once('@').unwrap();
    let service = replica_at(&pair.base, &format!("postgres://viewer:viewer@{place}")).await;
    let health = json!({"status": "unhealthy", "time": NOW, "database": "no privilege"});
    assert_eq!(service.get("", "/health").await, (503, health));
    let row = json!({"timestamp": timestamp_of(0), "values": {"close": 1.0}});
    let body = json!({"dataset": pair.dataset, "rows": [row]});
    let (status, body) = service.post(&service.owner, "/api/rows/bulk_insert/", &body).await;
    assert_eq!(status, 503);
    assert!(body["error"].as_str().unwrap().contains("lacks a privilege"), "{body}");
}
