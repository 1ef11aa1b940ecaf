//! Tests of `POST /api/rows/bulk_insert/`.

use futures::{FutureExt as _, StreamExt as _};
use model::key::KeyId;

use super::*;
use crate::key_limit::KeyPermit;

const PATH: &str = "/api/rows/bulk_insert/";

async fn bucket(service: &Service, resolution: &str) -> Value {
    let path = format!("/api/rows/?dataset=1&resolution={resolution}&limit=1");
    service.get(&service.reader, &path).await.1["results"][0].clone()
}

#[tokio::test]
async fn late_rows_and_corrections_update_buckets_immediately() {
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
    let body = service.rows().await;
    assert_eq!((&body["count"], &body["results"][2]["values"]["high"]), (&json!(3), &json!(99)));
}

#[tokio::test]
async fn inserting_in_merge_mode_changes_only_the_columns_of_the_row() {
    let service = Service::with_bars(0).await;
    // Inserts enough rows for chunks, then a later row and a late row, neither of which is in a chunk.
    service.insert((0..3_000).map(|n| bar(n * 2)).collect()).await;
    service.insert(vec![bar(6_001), bar(7)]).await;
    let part = |minute, values| json!({"timestamp": timestamp_of(minute), "values": values});
    let rows = json!([
        part(6_001, json!({"high": 9_999})),
        part(4, json!({"volume": 50})),
        part(7, json!({"close": null, "low": -5})),
        part(4, json!({"low": -7})),
        part(4, json!({"volume": 60})),
        part(5, json!({"open": 1, "close": 2})),
    ]);
    let path = format!("{PATH}?mode=merge");
    let body = json!({"dataset": 1, "rows": rows});
    let answer = service.post(&service.owner, &path, &body).await;
    assert_eq!(answer, (201, json!({"inserted": 4})));
    let row = async |minute: usize| {
        let at = timestamp_of(minute);
        let path = format!("/api/rows/?dataset=1&start={at}&end={at}");
        let (_, page) = service.get(&service.reader, &path).await;
        assert_eq!(page["count"], 1, "{page}");
        page["results"][0]["values"].clone()
    };
    let with = |minute: usize, changes: &[(&str, i64)]| {
        let mut values = bar(minute)["values"].take();
        for (column, value) in changes {
            values[*column] = json!(value);
        }
        values
    };
    let same = |got: &Value, want: &Value| {
        let numbers = |row: &Value| -> Vec<(String, f64)> {
            let columns = row.as_object().unwrap().iter();
            columns.map(|(name, value)| (name.clone(), value.as_f64().unwrap())).collect()
        };
        assert_eq!(numbers(got), numbers(want));
    };
    same(&row(6_001).await, &with(6_001, &[("high", 9_999)]));
    same(&row(4).await, &with(4, &[("volume", 60), ("low", -7)]));
    same(&row(7).await, &with(7, &[("low", -5)]));
    same(&row(5).await, &json!({"open": 1, "close": 2}));
    same(&row(6).await, &with(6, &[]));
    let (_, page) = service.get(&service.reader, "/api/rows/?dataset=1&resolution=5m&start=2026-07-29T00:00:00Z&end=2026-07-29T00:05:00Z").await;
    assert_eq!(page["results"][0]["low"], -7, "buckets follow: {page}");
    // Without `mode=merge`, the row replaces the stored row as a whole.
    service.insert(vec![part(4, json!({"low": 1}))]).await;
    same(&row(4).await, &json!({"low": 1}));
    let refused = service.post(&service.owner, &format!("{PATH}?mode=add"), &body).await;
    assert_eq!(refused, (400, refusal("mode must be replace or merge: bad request")));
    let many: Vec<_> = (0..10_001).map(|n| part(n, json!({"low": 1}))).collect();
    let body = json!({"dataset": 1, "rows": many});
    let (status, _) = service.post(&service.owner, &path, &body).await;
    assert_eq!(status, 413);
}

#[tokio::test]
async fn batch_with_an_invalid_row_is_not_stored() {
    let service = Service::with_bars(1).await;
    let rows =
        json!([bar(1), {"timestamp": timestamp_of(2), "values": {"nothing": 1, "open": "high"}}]);
    let answer = service.try_insert(&rows).await;
    let want = json!({
        "details": {"total": 1, "rows": [
            {"row": 1, "column": "nothing", "reason": "there is no such column"},
            {"row": 1, "column": "open", "reason": "must be a number"},
        ]},
        "error": "rows do not fit the dataset: bad request",
    });
    assert_eq!(answer, (400, want));
    let rows = json!([bar(1), {"timestamp": "noon", "values": {}}]);
    let (status, answer) = service.try_insert(&rows).await;
    assert_eq!((status, &answer["details"]["rows"][0]["row"]), (400, &json!(1)));
    assert_eq!(service.rows().await["count"], 1);
}

#[tokio::test]
async fn row_without_values_does_not_erase_the_stored_row() {
    let service = Service::with_bars(1).await;
    let at = timestamp_of(0);
    assert_eq!(service.try_insert(&json!([{"timestamp": at}])).await.0, 400);
    assert_eq!(service.rows().await["results"][0]["values"]["close"], 0.5);
    service.insert(vec![json!({"timestamp": at, "values": {}})]).await;
    assert_eq!(service.rows().await["results"][0]["values"]["close"], Value::Null);
    // The timestamp can be among the values.
    for (at, values) in [
        (Value::Null, json!({"timestamp": at, "close": 1.5})),
        (json!(at), json!({"timestamp": null, "close": 2.5})),
    ] {
        let close = values["close"].clone();
        let mut row = json!({"values": values});
        if !at.is_null() {
            row["timestamp"] = at;
        }
        service.insert(vec![row]).await;
        assert_eq!(service.rows().await["results"][0]["values"]["close"], close);
    }
}

#[tokio::test]
async fn body_and_query_must_name_the_same_dataset() {
    let service = Service::with_bars(0).await;
    let body = json!({"dataset": 1, "rows": [bar(0)]});
    for (query, status) in [("dataset=1", 201), ("dataset=2", 400), ("dataset_name=other", 400)] {
        let path = format!("{PATH}?{query}");
        assert_eq!(service.post(&service.owner, &path, &body).await.0, status, "{query}");
    }
    let by_name = json!({"dataset_name": "btc", "rows": [bar(0)]});
    for (query, status) in [("", 201), ("dataset_name=btc", 201), ("dataset=1", 400)] {
        let path = format!("{PATH}?{query}");
        assert_eq!(service.post(&service.owner, &path, &by_name).await.0, status, "{query}");
    }
    let nowhere = json!({"rows": [bar(0)]});
    let want = refusal("one of dataset or dataset_name is required: bad request");
    assert_eq!(service.post(&service.owner, PATH, &nowhere).await, (400, want));
    service.create("other", &json!([])).await;
    let answer = service.post(&service.owner, &format!("{PATH}?dataset=2"), &body).await;
    assert_eq!(answer.0, 400, "{answer:?}");
}

#[tokio::test]
async fn unknown_members_of_a_body_are_rejected() {
    let service = Service::with_bars(1).await;
    let body = json!({"dataset": 1, "mode": "merge", "rows": [bar(0)]});
    let (status, answer) = service.post(&service.owner, PATH, &body).await;
    let error = answer["error"].as_str().unwrap();
    assert!(status == 400 && error.contains("unknown field `mode`"), "{answer}");
}

#[tokio::test]
async fn rejected_first_rows_create_no_columns() {
    let service = Service::start().await;
    service.create("bare", &json!([])).await;
    let row = |minute, value| json!({"timestamp": timestamp_of(minute), "values": {"load": value}});
    let rows = json!([row(0, json!(3)), row(1, json!("high"))]);
    let (status, answer) = service.try_insert(&rows).await;
    assert_eq!((status, &answer["details"]["rows"][0]["row"]), (400, &json!(1)));
    let columns = "/api/columns/?dataset=1";
    assert_eq!(service.get(&service.owner, columns).await.1["count"], 0);
    service.insert(vec![row(0, json!("low"))]).await;
    assert_eq!(service.get(&service.owner, columns).await.1["results"][0]["dtype"], "string");
}

/// Acquires as many permits as `key` can have.
async fn all_of(service: &Service, key: i64) -> KeyPermit {
    let mut room = service.app.inserts.empty_permit(KeyId::new(key));
    let n_permits = BODY_BYTES_MAX / crate::server::bulk_insert::PERMIT_BYTES;
    room.acquire(n_permits.try_into().unwrap()).await;
    room
}

#[tokio::test]
async fn insert_waits_until_memory_for_its_body_is_free() {
    let service = Service::with_bars(0).await;
    let (one, _two) = (all_of(&service, 8).await, all_of(&service, 9).await);
    let insert = service.insert(vec![bar(0)]);
    tokio::pin!(insert);
    assert!(futures::poll!(&mut insert).is_pending());
    assert_eq!(service.rows().await["count"], 0);
    assert!(futures::poll!(&mut insert).is_pending());
    drop(one);
    insert.await;
}

#[tokio::test]
async fn memory_for_inserts_is_limited_per_key_without_affecting_other_keys() {
    let service = Service::with_bars(0).await;
    let _own = all_of(&service, 1).await;
    let own = service.insert(vec![bar(0)]);
    tokio::pin!(own);
    assert!(futures::poll!(&mut own).is_pending());
    service.post(&service.reader, "/api/datasets/", &json!({"name": "of another key"})).await;
    let body = json!({"dataset": 2, "rows": [bar(0)]});
    assert_eq!(service.post(&service.reader, PATH, &body).await.0, 201);
    assert!(futures::poll!(&mut own).is_pending());
    tokio::time::pause();
    let crowded = service.try_insert(&json!([])).await;
    assert_eq!(crowded, (503, refusal("too many rows are being inserted: unavailable")));
}

/// Sends a request to dataset 1 that declares a body of maximum length but contains only `first`.
async fn begin(service: &Service, key: &str, first: &'static str) -> Response {
    let parts = futures::stream::iter([Ok::<_, io::Error>(first)]);
    let body = Body::from_stream(parts.chain(futures::stream::pending()));
    let length = BODY_BYTES_MAX.to_string();
    let headers = [NDJSON, ("X-API-Key", key), ("Content-Length", &length)];
    service.send_with(&headers, "POST", &format!("{PATH}?dataset=1"), body).await
}

#[tokio::test]
async fn body_reserves_memory_as_it_arrives_and_releases_it_after_a_timeout() {
    let service = Service::with_bars(0).await;
    let stalled = begin(&service, &service.owner, "{\"timestamp\":");
    tokio::pin!(stalled);
    let begun = async || {
        let n_acquired = service.app.inserts.n_acquired();
        if n_acquired == 1 { Ok(()) } else { Err(n_acquired) }
    };
    let waiting = task::wait::until(Duration::from_secs(20), begun);
    tokio::select! {
        biased;
        response = &mut stalled => panic!("{response:?}"),
        begun = waiting => begun.unwrap(),
    }
    service.insert(vec![bar(0)]).await;
    tokio::time::pause();
    let answer = json_of(stalled.await).await;
    assert_eq!(answer, (408, refusal("the body stopped arriving")));
    assert_eq!(service.app.inserts.n_acquired(), 0);
}

#[tokio::test]
async fn long_body_of_an_unauthorized_key_is_rejected_early() {
    let service = Service::with_bars(0).await;
    let answer = json_of(begin(&service, &service.reader, "").await).await;
    let refused = refusal("only the owner of the dataset can do this: forbidden");
    assert_eq!(answer, (403, refused));
}

#[tokio::test]
async fn highly_compressed_body_is_accepted_up_to_the_maximum_length() {
    let service = Service::with_bars(0).await;
    let line = format!("{{\"timestamp\":\"{}\",\"open\":1}}\n", timestamp_of(0));
    let headers = [NDJSON, ("Content-Encoding", "zstd")];
    let body = |n_bytes: usize| {
        let text = line.clone() + &" ".repeat(n_bytes);
        zstd::encode_all(text.as_bytes(), 1).unwrap()
    };
    let answer = send(&service, "?dataset=1", &headers, body(BODY_BYTES_MAX / 2)).await;
    assert_eq!(answer, (201, json!({"inserted": 1})));
    assert_eq!(send(&service, "?dataset=1", &headers, body(BODY_BYTES_MAX)).await.0, 413);
    assert_eq!(service.app.inserts.n_acquired(), 0);
}

#[tokio::test]
async fn too_late_and_too_long_rows_are_rejected_with_a_reason() {
    let service = Service::start().await;
    let columns = ["a", "b"].map(|name| json!({"name": name, "dtype": "string"}));
    service.create("texts", &json!(columns)).await;
    let check = async |timestamp: &str, n_bytes: usize, want: Option<&str>| {
        let text = "x".repeat(n_bytes);
        let row = json!({"timestamp": timestamp, "values": {"a": text, "b": text}});
        let (_, answer) = service.try_insert(&json!([row])).await;
        let reason = answer["details"]["rows"][0]["reason"].as_str();
        assert_eq!(reason, want, "{timestamp} {answer}");
    };
    let late = Some("must not be after 9999-12-29");
    check("9999-12-29T23:59:59.999999Z", 1, None).await;
    check("9999-12-30T00:00:00Z", 1, late).await;
    check("9999-12-29T23:00:00-02:00", 1, late).await;
    check("9999-12-31T23:59:59.999Z", 1, late).await;
    check(FIRST, 8192, None).await;
    check(FIRST, 8193, Some("all texts of a row must be at most 16384 bytes")).await;
}

#[tokio::test]
async fn first_rows_create_the_columns_of_an_empty_dataset() {
    let service = Service::start().await;
    service.create("bare", &json!([])).await;
    let row = json!({"timestamp": timestamp_of(0), "values": {"load": 3, "host": "a", "up": true, "gone": null}});
    service.insert(vec![row]).await;
    let body = service.rows().await;
    assert_eq!(body["results"][0]["values"], json!({"host": "a", "load": 3, "up": true}));
    let (_, body) = service.get(&service.owner, "/api/rows/?dataset=1&resolution=5m").await;
    let bucket = &body["results"][0];
    assert_eq!((&bucket["close"], &bucket["volume"]), (&json!(3), &json!(0)));
}

/// Compresses `text` with gzip.
fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Sends a body to dataset 1, with these headers.
async fn send(
    service: &Service,
    query: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (u16, Value) {
    let headers = [headers, &[("X-API-Key", service.owner.as_str())]].concat();
    json_of(service.send_with(&headers, "POST", &format!("{PATH}{query}"), body.into()).await).await
}

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");
const CSV: (&str, &str) = ("Content-Type", "text/csv; charset=utf-8");

#[tokio::test]
async fn rows_are_accepted_as_ndjson_and_csv_and_compressed() {
    let service = Service::with_bars(0).await;
    let line = |minute: usize| {
        format!("{{\"timestamp\":\"{}\",\"open\":{minute}.5}}\n", timestamp_of(minute))
    };
    let plain = line(0) + &line(1);
    let answer = send(&service, "?dataset=1", &[NDJSON], plain.clone().into_bytes()).await;
    assert_eq!(answer, (201, json!({"inserted": 2})));
    let again = send(&service, "?dataset_name=btc", &[NDJSON], plain.into_bytes()).await;
    assert_eq!(again, (201, json!({"inserted": 2})), "a batch sent again does no harm");
    let csv = format!("timestamp,open\r\n{},2.5\r\n", timestamp_of(2));
    assert_eq!(send(&service, "?dataset=1", &[CSV], csv.into_bytes()).await.0, 201);
    let headers = [NDJSON, ("Content-Encoding", "gzip")];
    assert_eq!(send(&service, "?dataset=1", &headers, gzip(&line(3))).await.0, 201);
    let zstd =
        zstd::encode_all(format!("timestamp,open\n{},4.5", timestamp_of(4)).as_bytes(), 1).unwrap();
    let headers = [CSV, ("Content-Encoding", "zstd")];
    assert_eq!(send(&service, "?dataset=1", &headers, zstd).await.0, 201);
    let rows = json!([bar(5)]);
    let json = json!({"rows": rows}).to_string().into_bytes();
    assert_eq!(send(&service, "?dataset_name=btc", &[], json).await.0, 201);
    let body = service.rows().await;
    let rows = body["results"].as_array().unwrap().iter();
    let opens: Vec<_> = rows.map(|row| row["values"]["open"].as_f64().unwrap()).collect();
    assert_eq!(opens, [0.5, 1.5, 2.5, 3.5, 4.5, 5.0]);
}

#[tokio::test]
async fn body_that_does_not_fit_query_or_headers_is_rejected() {
    let service = Service::with_bars(0).await;
    let check = async |query: &str, headers: &[(&str, &str)], body: &[u8], want: &str| {
        let (status, answer) = send(&service, query, headers, body.to_vec()).await;
        let text = answer["error"].as_str().unwrap();
        assert!(status == 400 && text.contains(want), "{status} {text}");
    };
    check("?dataset=1", &[CSV], b"open\n1\n", "the header has no timestamp").await;
    check("", &[CSV], b"timestamp\n", "one of dataset or dataset_name is required").await;
    check("", &[], b"{\"rows\":[]}", "one of dataset or dataset_name is required").await;
    check("", &[], b"{\"dataset\":1,\"rows\":[}", "invalid JSON: ").await;
    check("", &[], b"{\"dataset\":1,\"rows\":{}}", "rows must be a list").await;
    check("?dataset=1", &[NDJSON], b"\xff", "not valid UTF-8 at byte 0").await;
    let gzip = ("Content-Encoding", "gzip");
    check("?dataset=1", &[NDJSON, gzip], b"{}", "decompression failed").await;
    let brotli = ("Content-Encoding", "br");
    check("?dataset=1", &[NDJSON, brotli], b"{}", "content-encoding must be gzip or zstd").await;
}

#[tokio::test]
async fn parquet_is_detected_by_content_type_or_first_bytes() {
    let service = Service::with_bars(5).await;
    let path = "/api/rows/bulk_download/?dataset=1&output=parquet";
    let download = service.send(&service.owner, "GET", path, Body::empty()).await;
    let file = to_bytes(download.into_body(), usize::MAX).await.unwrap().to_vec();
    service.create("copy", &json!([])).await;
    let parquet = ("Content-Type", "application/vnd.apache.parquet");
    for headers in [&[][..], &[parquet]] {
        let answer = send(&service, "?dataset=2", headers, file.clone()).await;
        assert_eq!(answer, (201, json!({"inserted": 5})), "{headers:?}");
    }
    let values = async |id: i64| {
        let path = format!("/api/rows/?dataset={id}");
        let (_, page) = service.get(&service.owner, &path).await;
        let rows = page["results"].as_array().unwrap().clone();
        rows.iter().map(|row| (row["timestamp"].clone(), row["values"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(values(2).await, values(1).await);
    let (status, answer) = send(&service, "", &[parquet], file.clone()).await;
    assert_eq!(
        (status, &answer["error"]),
        (400, &json!("one of dataset or dataset_name is required: bad request"))
    );
    let (status, answer) = send(&service, "?dataset=2", &[parquet], file[..99].to_vec()).await;
    assert!(
        status == 400 && answer["error"].as_str().unwrap().contains("invalid Parquet"),
        "{answer}"
    );
}

#[tokio::test]
async fn concurrent_inserts_of_first_rows_create_columns_once() {
    let service = Service::start().await;
    service.create("bare", &json!([])).await;
    let row = |minute| json!({"timestamp": timestamp_of(minute), "values": {"load": 1}});
    futures::join!(service.insert(vec![row(0)]), service.insert(vec![row(1)]));
    let columns = "/api/columns/?dataset=1";
    assert_eq!(service.get(&service.owner, columns).await.1["count"], 1);
    assert_eq!(service.rows().await["count"], 2);
}

/// Inserts bars of these minutes into dataset 1 with an idempotency key.
async fn insert_named(service: &Service, name: &str, minutes: &[usize]) -> (u16, Value) {
    let rows: Vec<_> = minutes.iter().copied().map(bar).collect();
    let body = json!({"dataset": 1, "rows": rows}).to_string();
    send(service, "", &[("Idempotency-Key", name)], body.into()).await
}

/// Returns the expected response to an insert of `n_rows` rows.
fn stored_response(n_rows: usize, revision: u64) -> (u16, Value) {
    (201, json!({"inserted": n_rows, "revision": revision}))
}

#[tokio::test]
async fn request_with_an_idempotency_key_is_stored_once() {
    let service = Service::with_bars(0).await;
    assert_eq!(insert_named(&service, "\"a-1\"", &[0, 1]).await, stored_response(2, 1));
    let mut corrected = bar(1);
    corrected["values"]["high"] = json!(99);
    service.insert(vec![corrected]).await;
    for service in [&service, &service] {
        assert_eq!(insert_named(service, "a-1", &[0, 1]).await, stored_response(2, 1), "as it was");
    }
    let service = service.restart().await;
    assert_eq!(insert_named(&service, "a-1", &[0, 1]).await, stored_response(2, 1));
    let page = service.rows().await;
    let last = page["results"].as_array().unwrap().last().unwrap();
    assert_eq!(last["values"]["high"], 99, "what came later stays");

    let refused = "Idempotency-Key was sent before with another request; use a new key for each \
        batch: unprocessable content";
    assert_eq!(insert_named(&service, "a-1", &[0]).await, (422, refusal(refused)));
    let body = json!({"dataset": 1, "rows": [bar(0), bar(1)]}).to_string();
    let header = [("Idempotency-Key", "a-1")];
    let answer = send(&service, "?mode=merge", &header, body.clone().into()).await;
    assert_eq!(answer, (422, refusal(refused)), "the query counts, too");
    let header = [("X-API-Key", service.reader.as_str()), ("Idempotency-Key", "a-1")];
    let answer = service.send_with(&header, "POST", PATH, body.into()).await;
    assert_eq!(answer.status(), 403, "another key's are others");

    // A rejected request is not recorded, so its idempotency key can be used again.
    let header = [("Idempotency-Key", "b")];
    let bad = json!({"dataset": 1, "rows": [{"timestamp": "never"}]}).to_string();
    assert_eq!(send(&service, "", &header, bad.into()).await.0, 400);
    assert_eq!(insert_named(&service, "b", &[2]).await, stored_response(1, 3));
}

#[tokio::test]
async fn concurrent_identical_requests_are_stored_once() {
    let service = Service::with_bars(0).await;
    let insert = |n: usize| {
        let service = &service;
        async move {
            match n % 3 {
                0 => insert_named(service, "other", &[2]).await,
                _ => insert_named(service, "same", &[0, 1]).await,
            }
        }
    };
    let answers = futures::future::join_all((0..60).map(insert)).await;
    for (n, answer) in answers.iter().enumerate() {
        let like = &answers[usize::from(n % 3 > 0)];
        assert_eq!((answer, answer.0), (like, 201));
    }
    let revisions = [0, 1].map(|n: usize| answers[n].1["revision"].as_u64().unwrap());
    assert!(revisions.iter().all(|revision| (1..=2).contains(revision)), "{revisions:?}");
    let after = insert_named(&service, "after", &[3]).await.1["revision"].as_u64();
    assert_eq!(after, revisions.iter().max().map(|last| last + 1), "nothing else was committed");
}

#[tokio::test]
async fn repeated_insert_of_first_rows_with_an_idempotency_key_is_stored_once() {
    let service = Service::start().await;
    service.create("bare", &json!([])).await;
    for _ in 0..2 {
        assert_eq!(insert_named(&service, "first", &[0, 1]).await, stored_response(2, 1));
    }
}

#[tokio::test]
async fn invalid_idempotency_key_is_rejected() {
    let service = Service::with_bars(0).await;
    let want = "idempotency key must have 1 to 128 visible ASCII characters other than quotes \
        and backslashes: bad request";
    let long = "x".repeat(129);
    for name in ["", "\"\"", "a b", "\"a", &long] {
        assert_eq!(insert_named(&service, name, &[0]).await, (400, refusal(want)), "{name}");
    }
    let twice = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")];
    assert_eq!(send(&service, "", &twice, Vec::new()).await, (400, refusal(want)));
}

/// The body has some kilobytes, which decompress to a header with millions of fields.
#[tokio::test]
async fn oversized_header_in_a_compressed_body_is_rejected_early() {
    let service = Service::with_bars(0).await;
    let body = gzip(&format!("timestamp{}", ",a".repeat(20_000_000)));
    assert!(body.len() < 100_000, "{}", body.len());
    let headers = [("Content-Type", "text/csv"), ("Content-Encoding", "gzip")];
    let (status, answer) = send(&service, "?dataset=1", &headers, body).await;
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["error"], "the header has more than 1025 fields: bad request");
}

#[tokio::test]
async fn rows_times_columns_of_a_request_are_limited() {
    let service = Service::start().await;
    let columns = (0..1024).map(|n| json!({"name": format!("c{n}"), "dtype": "float"}));
    service.create("wide", &columns.collect()).await;
    let insert = async |n_rows| {
        let rows = (0..n_rows).map(|minute| json!({"timestamp": timestamp_of(minute), "c7": 1}));
        let lines: Vec<_> = rows.map(|row| row.to_string()).collect();
        send(&service, "?dataset=1", &[NDJSON], lines.join("\n").into()).await
    };
    // The body is too short for this many cells, so it is parsed again with more memory.
    assert_eq!(insert(200).await, (201, json!({"inserted": 200})));
    let error =
        "rows times columns exceed 10000000 in one request; send fewer rows per request: too large";
    assert_eq!(insert(9_766).await, (413, refusal(error)));
    let permits = service.app.inserts.n_acquired();
    assert_eq!(permits, 0, "all permits are released");
}

#[tokio::test]
async fn cancelled_insert_holds_its_permits_until_its_rows_are_stored() {
    let service = Service::with_bars(0).await;
    let mut call = Box::pin(service.insert(vec![bar(0)]));
    while service.app.inserts.n_acquired() == 0 {
        assert!((&mut call).now_or_never().is_none(), "not inserted yet");
        tokio::task::yield_now().await;
    }
    drop(call);
    assert_eq!(service.app.inserts.n_acquired(), 1);
    let released = async || match service.app.inserts.n_acquired() {
        0 => Ok(()),
        n_acquired => Err(n_acquired),
    };
    task::wait::until(Duration::from_mins(1), released).await.unwrap();
    assert_eq!(service.rows().await["count"], 1);
}
