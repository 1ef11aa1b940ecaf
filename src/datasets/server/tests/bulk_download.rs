//! Tests of `GET /api/rows/bulk_download/`.

use std::io::Read as _;

use axum::http::HeaderMap;

use super::*;
use crate::download::{DOWNLOADS_MAX, DOWNLOADS_OF_KEY_MAX};

const PATH: &str = "/api/rows/bulk_download/?dataset=1";

/// Path of a download that is sent while it is read, without a spooled file.
const STREAMED_PATH: &str = "/api/rows/bulk_download/?dataset=1&output=arrow";

#[tokio::test]
async fn json_download_is_an_array_of_flat_rows() {
    let service = Service::with_bars(5000).await;
    let (body, content_type) = service.text(PATH).await;
    assert_eq!(content_type, "application/json");
    let rows: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(rows.len(), 5000, "all of them, however many days");
    let last = json!({"close": 4999.5, "high": 5000, "low": 4998, "open": 4999,
        "timestamp": timestamp_of(4999), "volume": 2});
    assert_eq!(rows[4999], last);
    let empty = service.text(&format!("{PATH}&start=2030-01-01T00:00:00Z")).await.0;
    assert_eq!(empty, "[]");
}

#[tokio::test]
async fn csv_download_has_a_header_and_a_line_per_row() {
    let service = Service::with_bars(3000).await;
    let bounds = format!("start={}&end={}", timestamp_of(1), timestamp_of(2));
    let (body, content_type) = service.text(&format!("{PATH}&{bounds}&output=csv")).await;
    assert_eq!(content_type, "text/csv; charset=utf-8");
    assert_eq!(
        body,
        "timestamp,open,high,low,close,volume\n\
         2026-07-29T00:01:00Z,1,2,0,1.5,2\n\
         2026-07-29T00:02:00Z,2,3,1,2.5,2\n"
    );
    let day = "start=2026-07-29T00:00:00Z&end=2026-07-30T00:00:00Z&resolution=1h&output=csv";
    let (body, _) = service.text(&format!("{PATH}&{day}")).await;
    let lines: Vec<_> = body.lines().collect();
    assert_eq!(lines.len(), 25, "a header and a day of hours");
    assert_eq!(lines[0], "timestamp,open,high,low,close,volume,count");
    assert_eq!(lines[1], "2026-07-29T00:00:00Z,0,60,-1,59.5,120,60");
}

#[tokio::test]
async fn client_that_disconnects_releases_its_download_permit() {
    let service = Service::with_bars(20_000).await;
    for _ in 0..3 * DOWNLOADS_MAX {
        let download = async || {
            let response = service.send(&service.reader, "GET", STREAMED_PATH, Body::empty()).await;
            if response.status() == 200 { Ok(()) } else { Err(response.status()) }
        };
        task::wait::until(Duration::from_secs(20), download).await.unwrap();
    }
}

#[tokio::test]
async fn stalled_downloads_of_a_key_do_not_block_downloads_of_other_keys() {
    let service = Service::with_bars(20_000).await;
    let open_one = async |key: &str| service.send(key, "GET", STREAMED_PATH, Body::empty()).await;
    let mut open = Vec::new();
    for _ in 0..DOWNLOADS_OF_KEY_MAX {
        open.push(open_one(&service.reader).await);
    }
    let refused = open_one(&service.reader).await;
    assert_eq!(
        (refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()),
        (503, &b"5"[..])
    );
    assert_eq!(open_one(&service.owner).await.status(), 200);
    let body = to_bytes(open.pop().unwrap().into_body(), usize::MAX).await.unwrap();
    assert!(body.len() > 20_000 * 8, "all of it: {}", body.len());
}

#[tokio::test]
async fn body_of_an_interrupted_download_ends_with_an_error() {
    let service = Service::with_bars(20_000).await;
    let response = service.send(&service.reader, "GET", STREAMED_PATH, Body::empty()).await;
    service.group.stop();
    to_bytes(response.into_body(), usize::MAX).await.unwrap_err();
}

#[tokio::test]
async fn unknown_output_format_is_rejected() {
    let service = Service::with_bars(1).await;
    let answer = service.get(&service.reader, &format!("{PATH}&output=xml")).await;
    assert_eq!(
        answer,
        (400, refusal("output must be one of json, csv, ndjson, parquet, arrow: bad request"))
    );
}

/// Returns the body and the headers of a download with `accept` as its `Accept-Encoding`.
async fn download_as(service: &Service, path: &str, accept: &str) -> (Vec<u8>, HeaderMap) {
    let headers = [("X-API-Key", service.reader.as_str()), ("Accept-Encoding", accept)];
    let response = service.send_with(&headers, "GET", path, Body::empty()).await;
    assert_eq!(response.status(), 200, "{path}");
    let headers = response.headers().clone();
    (to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec(), headers)
}

/// Decompresses a body.
fn decompress(body: &[u8], coding: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap(),
        _ => zstd::Decoder::new(body).unwrap().read_to_end(&mut plain).unwrap(),
    };
    plain
}

#[tokio::test]
async fn bodies_of_cached_and_new_pieces_are_identical() {
    let service = Service::with_bars(7000).await;
    let bounds = format!("start={}&end={}", timestamp_of(1), timestamp_of(6990));
    for query in [bounds.clone(), format!("{bounds}&output=csv"), format!("{bounds}&output=ndjson")]
    {
        let path = format!("{PATH}&{query}");
        let plain = service.text(&path).await.0.into_bytes();
        for coding in ["gzip", "zstd"] {
            let (first, headers) = download_as(&service, &path, coding).await;
            assert_eq!(headers["content-encoding"], coding);
            assert!(decompress(&first, coding) == plain, "{path} {coding}");
            assert!(first.len() < plain.len() / 2);
            let (again, _) = download_as(&service, &path, coding).await;
            assert!(again == first, "{path} {coding}");
        }
    }
    // Late, corrected and new rows, and a new column, are visible immediately.
    service.insert(vec![bar(3000), bar(8000)]).await;
    let mut corrected = bar(10);
    corrected["values"]["open"] = json!(-1.0);
    service.insert(vec![corrected]).await;
    let path = format!("{PATH}&output=csv");
    let plain = service.text(&path).await.0.into_bytes();
    assert!(String::from_utf8_lossy(&plain).contains("T00:10:00Z,-1,"));
    for coding in ["gzip", "zstd"] {
        assert!(decompress(&download_as(&service, &path, coding).await.0, coding) == plain);
    }
}

#[tokio::test]
async fn compressed_download_of_texts_that_hardly_compress_is_complete() {
    let service = Service::with_bars(0).await;
    let columns = json!([{"name": "text", "dtype": "string"}]);
    let body = json!({"name": "texts", "tags": ["public"], "columns": columns});
    assert_eq!(service.post(&service.owner, "/api/datasets/", &body).await.0, 201);
    let mut state = 1_u32;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'0' + state.to_be_bytes()[0] / 4)
    };
    for n_letters in (3000..5000).step_by(200) {
        let row = |minute: usize| {
            let n_letters = if minute == 0 { n_letters } else { 5000 };
            let text: String = (0..n_letters).map(|_| letter()).collect();
            json!({"timestamp": timestamp_of(minute), "values": {"text": text}})
        };
        let rows: Vec<Value> = (0..12).map(row).collect();
        let body = json!({"dataset": 2, "rows": rows});
        assert_eq!(service.post(&service.owner, "/api/rows/bulk_insert/", &body).await.0, 201);
        let path = "/api/rows/bulk_download/?dataset=2&output=csv";
        let plain = service.text(path).await.0.into_bytes();
        for coding in ["gzip", "zstd"] {
            assert!(decompress(&download_as(&service, path, coding).await.0, coding) == plain);
        }
    }
}

#[tokio::test]
async fn download_has_the_same_etag_until_a_row_in_its_range_changes() {
    let service = Service::with_bars(3000).await;
    let tag = async |query: &str| {
        let (_, headers) = download_as(&service, &format!("{PATH}&{query}"), "gzip").await;
        (headers["etag"].to_str().unwrap().to_owned(), headers["x-row-count"].clone())
    };
    let unchanged = async |query: &str, tag: &str| {
        let headers = [("X-API-Key", service.reader.as_str()), ("If-None-Match", tag)];
        let path = format!("{PATH}&{query}");
        let response = service.send_with(&headers, "GET", &path, Body::empty()).await;
        let status = response.status();
        if status == 304 {
            assert_eq!(response.headers()["etag"], tag);
            assert!(to_bytes(response.into_body(), 9).await.unwrap().is_empty());
        }
        status == 304
    };
    let range = format!("start={}&end={}", timestamp_of(5), timestamp_of(2500));
    let (before, n_rows) = tag(&range).await;
    assert_eq!(n_rows, "2496");
    assert_ne!(tag(&format!("{range}&output=csv")).await.0, before);
    assert!(unchanged(&range, &before).await);
    service.insert(vec![bar(4), bar(4000)]).await;
    assert!(unchanged(&range, &before).await, "what lies outside does not matter");
    assert_eq!(tag(&range).await.0, before);
    service.insert(vec![bar(2000)]).await;
    assert!(!unchanged(&range, &before).await, "a row was replaced");
    let (after, n_rows) = tag(&range).await;
    assert_eq!(n_rows, "2496");
    assert!(after != before && unchanged(&range, &after).await);
    let hours = format!("{range}&resolution=1h");
    let (before, n_rows) = tag(&hours).await;
    assert!(n_rows == "41" && unchanged(&hours, &before).await, "{n_rows:?}");
    service.insert(vec![bar(7)]).await;
    assert!(!unchanged(&hours, &before).await);
}

#[tokio::test]
async fn download_has_a_file_name_and_can_be_parquet_or_arrow() {
    let service = Service::with_bars(20).await;
    let range = format!("start={}&end={}", timestamp_of(5), timestamp_of(7));
    for (output, content_type, extension, magic) in [
        ("parquet", "application/vnd.apache.parquet", "parquet", &b"PAR1"[..]),
        ("arrow", "application/vnd.apache.arrow.stream", "arrows", &b"\xff\xff\xff\xff"[..]),
    ] {
        let path = format!("{PATH}&{range}&output={output}");
        let (body, headers) = download_as(&service, &path, "gzip").await;
        assert_eq!(headers["content-type"], content_type);
        assert!(!headers.contains_key("content-encoding"));
        assert!(body.starts_with(magic));
        let name = format!("attachment; filename=\"btc_raw_2026-07-29_2026-07-29.{extension}\"");
        assert_eq!(headers["content-disposition"], name);
    }
    let path = format!("{PATH}&resolution=1d&time_zone=America/New_York&output=csv");
    let (_, headers) = download_as(&service, &path, "gzip").await;
    let name = "attachment; filename=\"btc_1d_America_New_York.csv\"";
    assert_eq!(headers["content-disposition"], name, "days in another zone are another file");
    let body = json!({"name": "ünï 価格", "tags": ["public"]});
    assert_eq!(service.call(&service.owner, "POST", "/api/datasets/", &body).await.0, 201);
    let (_, headers) =
        download_as(&service, "/api/rows/bulk_download/?dataset=2&output=csv", "").await;
    let name = "attachment; filename=\"_n_____raw.csv\"; \
                filename*=UTF-8''%C3%BCn%C3%AF_%E4%BE%A1%E6%A0%BC_raw.csv";
    assert_eq!(headers["content-disposition"], name);
}

/// Tools that scan files over HTTP first request the length, then parts of the file.
#[tokio::test]
async fn downloads_can_be_read_in_byte_ranges() {
    for (output, begin) in
        [("parquet", "PAR1"), ("csv", "timestamp,open,"), ("ndjson", "{\""), ("json", "[{\"")]
    {
        check_parts(output, begin.as_bytes()).await;
    }
}

async fn check_parts(output: &str, begin: &[u8]) {
    let service = Service::with_bars(300).await;
    let path = format!("{PATH}&output={output}");
    let ask = async |method: &str, headers: &[(&str, &str)]| {
        let bearer = format!("Bearer {}", service.owner);
        let headers = [headers, &[("Authorization", bearer.as_str())]].concat();
        let response = service.send_with(&headers, method, &path, Body::empty()).await;
        let (parts, body) = response.into_parts();
        let header = move |name: &str| parts.headers[name].to_str().unwrap().to_owned();
        (parts.status.as_u16(), header, to_bytes(body, usize::MAX).await.unwrap())
    };
    let (status, header, whole) = ask("GET", &[]).await;
    assert!(status == 200 && whole.starts_with(begin) && header("accept-ranges") == "bytes");
    if output != "parquet" {
        assert_eq!(header("content-length"), whole.len().to_string());
    }
    let (status, header, body) = ask("HEAD", &[("Accept-Encoding", "gzip")]).await;
    assert_eq!((status, body.len()), (200, 0));
    assert_eq!(header("content-length"), whole.len().to_string());
    let tag = header("etag");
    let n = whole.len();
    for (range, part) in [("bytes=0-3", 0..4), ("bytes=-8", n - 8..n), ("bytes=4-", 4..n)] {
        let headers = [("Range", range), ("If-Range", &tag), ("Accept-Encoding", "gzip")];
        let (status, header, body) = ask("GET", &headers).await;
        assert_eq!((status, &body), (206, &whole.slice(part.clone())), "{range}");
        let want = format!("bytes {}-{}/{n}", part.start, part.end - 1);
        assert_eq!((header("content-range"), header("etag")), (want, tag.clone()));
    }
    let (status, header, body) = ask("GET", &[("Range", &format!("bytes={n}-"))]).await;
    assert_eq!((status, header("content-range")), (416, format!("bytes */{n}")));
    assert_eq!(header("content-type"), "application/json");
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body, refusal("Range begins beyond the end of the file"));
    let other = [("Range", "bytes=0-3"), ("If-Range", "\"other\"")];
    let (status, _, body) = ask("GET", &other).await;
    assert_eq!((status, body), (200, whole));
    assert_eq!(ask("GET", &[("If-Match", "\"other\"")]).await.0, 412);
    assert_eq!(ask("GET", &[("If-Match", &tag), ("Range", "bytes=0-3")]).await.0, 206);
    assert_eq!(ask("HEAD", &[("If-Match", &tag), ("If-None-Match", &tag)]).await.0, 304);
    // A tool that cannot send the key in a header sends it in the query.
    let query = format!("{path}&api_key={}", service.owner);
    let range = [("Range", "bytes=-4")];
    let response = service.send_with(&range, "GET", &query, Body::empty()).await;
    assert_eq!(response.status(), 206);
    // New rows make a new version of the file.
    service.insert(vec![bar(300)]).await;
    let (_, header, _) = ask("HEAD", &[]).await;
    assert_ne!(header("etag"), tag);
    assert_eq!(ask("GET", &[("If-Match", &tag)]).await.0, 412);
}

#[tokio::test]
async fn write_request_with_if_match_is_rejected() {
    let service = Service::with_bars(1).await;
    let headers = [("X-API-Key", service.owner.as_str()), ("If-Match", "\"x\"")];
    let path = "/api/datasets/1/";
    let response = service.send_with(&headers, "DELETE", path, Body::empty()).await;
    assert_eq!(response.status(), 412);
    assert_eq!(service.get(&service.owner, "/api/datasets/1/").await.0, 200);
}

#[tokio::test]
async fn live_endpoint_returns_the_newest_rows_first() {
    let service = Service::with_bars(150).await;
    let (body, content_type) = service.text("/api/rows/live/?dataset_name=btc&limit=2").await;
    assert_eq!(content_type, "application/x-ndjson");
    assert_eq!(
        body,
        concat!(
            r#"{"close":149.5,"high":150,"low":148,"open":149,"timestamp":"2026-07-29T02:29:00Z","#,
            "\"volume\":2}\n",
            r#"{"close":148.5,"high":149,"low":147,"open":148,"timestamp":"2026-07-29T02:28:00Z","#,
            "\"volume\":2}\n"
        )
    );
    assert_eq!(service.text("/api/rows/live/?dataset=1").await.0.lines().count(), 100);
    let bounds = format!("start={}&end={}", timestamp_of(3), timestamp_of(5));
    let (body, _) = service.text(&format!("/api/rows/live/?dataset=1&{bounds}")).await;
    assert_eq!(body.lines().count(), 3);
}

#[tokio::test]
async fn download_of_a_stopping_service_returns_503_with_retry_after() {
    let service = Service::with_bars(1).await;
    service.group.stop();
    let headers = [("X-API-Key", service.reader.as_str())];
    let response = service.send_with(&headers, "GET", PATH, Body::empty()).await;
    assert!(response.headers().contains_key("Retry-After"));
    let (status, body) = json_of(response).await;
    let error = "this service is stopping: a change may or may not be stored; send the request again: \
        unavailable";
    assert_eq!((status, body), (503, refusal(error)));
}
