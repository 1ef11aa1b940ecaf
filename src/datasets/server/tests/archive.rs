//! Tests that a service returns the same rows with and without an archive.

use std::fs;

use tsdb::archive::objects::Objects;
use tsdb::archive::{ArchiveOptions, ArchivedStore};

use super::stream::Reader;
use super::*;

/// Number of one-minute rows: three days of July and some hours of August.
const MINUTES: usize = 4_700;

/// Time at which July is old enough to be archived, but not August.
const ARCHIVED_AT: &str = "2026-08-20T00:00:00Z";

/// Restarts a service with an archive and moves July to the archive.
async fn with_archive(service: Service) -> (Service, Arc<ArchivedStore>) {
    let Service { app, accounts, router: old, clock, group, owner, reader, folder } = service;
    group.shutdown().await;
    drop((app, old));
    let path = folder.path().to_owned();
    let open = move || {
        let archive = path.join("archive");
        fs::create_dir_all(&archive).unwrap();
        let url = format!("file://{}", archive.display());
        let objects = Objects::open(&url.parse().unwrap()).unwrap();
        let store = SqliteStore::open(&path.join("datasets.sqlite")).unwrap();
        let options = ArchiveOptions { after: Duration::ZERO, grace: Duration::ZERO };
        Arc::new(ArchivedStore::new(Arc::new(store), objects, options))
    };
    let store = run_blocking(open).await.unwrap();
    let (app, group) = app_on(Arc::clone(&store) as _, folder.path(), &accounts, &clock);
    let router = router(Arc::clone(&app), None, &[]);
    (Service { app, accounts, router, clock, group, owner, reader, folder }, store)
}

/// Reads all rows of dataset 1 over HTTP in every way.
async fn read_all(service: &Service) -> Vec<String> {
    let mut found = Vec::new();
    for query in [
        "limit=1000&ordering=timestamp",
        "limit=1000&ordering=-timestamp",
        "limit=700&ordering=timestamp&offset=3000",
        "limit=1000&resolution=5m",
        "limit=50&resolution=1h&ordering=timestamp",
        "resolution=1d",
    ] {
        let mut path = Some(format!("/api/rows/?dataset=1&{query}"));
        while let Some(next) = path {
            let (page, _) = service.text(&next).await;
            let body: Value = serde_json::from_str(&page).unwrap();
            path = body["next"].as_str().map(str::to_owned);
            found.push(page);
        }
    }
    let range = format!("start={}&end={}", timestamp_of(4_000), timestamp_of(4_400));
    for path in [
        format!("/api/rows/?dataset=1&after={}&ordering=timestamp&limit=900", timestamp_of(4_000)),
        format!("/api/rows/?dataset=1&{range}&limit=20"),
        "/api/rows/bulk_download/?dataset=1&output=csv".to_owned(),
        "/api/rows/bulk_download/?dataset=1&output=ndjson".to_owned(),
        format!("/api/rows/bulk_download/?dataset=1&output=csv&{range}"),
        "/api/rows/bulk_download/?dataset=1&output=csv&resolution=1h".to_owned(),
        "/api/rows/live/?dataset=1&limit=1000".to_owned(),
    ] {
        found.push(service.text(&path).await.0);
    }
    found
}

/// Reads the rows that a stream replays after the event `last_id`, and returns two fields of each.
async fn replay(service: &Service, last_id: &str, n_rows: usize) -> Vec<(Value, Value)> {
    let path = "/api/rows/stream/?dataset=1";
    let mut reader = Reader::of(&service.router, &service.reader, path, Some(last_id)).await;
    assert_eq!(reader.next().await.unwrap().0, "connected");
    let mut rows = Vec::new();
    for _ in 0..n_rows {
        let (name, data) = reader.next().await.unwrap();
        assert_eq!(name, "data", "{data}");
        rows.push((data["timestamp"].clone(), data["open"].clone()));
    }
    rows
}

#[tokio::test]
async fn reads_of_archived_rows_equal_reads_of_stored_rows() {
    let plain = Service::with_bars(MINUTES).await;
    let (archived, store) = with_archive(Service::with_bars(MINUTES).await).await;
    let want = read_all(&plain).await;
    let archive = async || {
        let store = Arc::clone(&store);
        let now = ARCHIVED_AT.parse().unwrap();
        run_blocking(move || store.archive(now)).await.unwrap().unwrap().unwrap()
    };
    let report = archive().await;
    assert_eq!((report.n_files, report.n_rows), (1, 4_320));
    assert_eq!(read_all(&archived).await, want);

    // Adds late rows and corrections to archived months, and deletes archived rows.
    let last_id = async |service: &Service| {
        let path = "/api/rows/stream/?dataset=1";
        let mut reader = Reader::of(&service.router, &service.reader, path, None).await;
        assert_eq!(reader.next().await.unwrap().0, "connected");
        service.insert(vec![bar(MINUTES)]).await;
        assert_eq!(reader.next().await.unwrap().0, "data");
        reader.last_id.unwrap()
    };
    let ids = [last_id(&plain).await, last_id(&archived).await];
    for service in [&plain, &archived] {
        let mut corrected = bar(77);
        corrected["values"]["open"] = json!(1_000.5);
        service.insert(vec![corrected, bar(4_310)]).await;
        let mut late = bar(20);
        late["timestamp"] = json!("2026-07-10T00:00:30Z");
        service.insert(vec![late]).await;
        let path = format!(
            "/api/rows/?dataset=1&start={}&end={}",
            timestamp_of(1_000),
            timestamp_of(1_499)
        );
        let (status, deleted) = service.delete(&service.owner, &path).await;
        assert_eq!((status, &deleted["deleted"]), (200, &json!(500)), "{deleted}");
    }
    let want = read_all(&plain).await;
    assert_eq!(read_all(&archived).await, want);
    let report = archive().await;
    assert_eq!((report.n_files, report.n_rows), (1, 3_821), "rewritten, since rows were deleted");
    assert_eq!(read_all(&archived).await, want);

    let want = replay(&plain, &ids[0], 3).await;
    assert_eq!(replay(&archived, &ids[1], 3).await, want, "replayed out of the file");
}
