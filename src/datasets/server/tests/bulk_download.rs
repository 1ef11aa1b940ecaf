//! `GET /api/rows/bulk_download/`

use super::*;
use crate::read::DOWNLOADS_MAX;

const PATH: &str = "/api/rows/bulk_download/?dataset=1";

#[tokio::test]
async fn json_is_one_array_of_flat_rows() {
    let service = Service::with_bars(5000).await;
    let (body, content_type) = service.text(PATH).await;
    assert_eq!(content_type, "application/json");
    let rows: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(rows.len(), 5000, "all of them, however many days");
    let last = json!({"close": 4999.5, "high": 5000, "low": 4998, "open": 4999,
        "timestamp": moment(4999), "volume": 2});
    assert_eq!(rows[4999], last);
    let empty = service.text(&format!("{PATH}&start=2030-01-01T00:00:00Z")).await.0;
    assert_eq!(empty, "[]");
}

#[tokio::test]
async fn csv_has_a_header_and_a_line_for_each_row() {
    let service = Service::with_bars(3000).await;
    let bounds = format!("start={}&end={}", moment(1), moment(2));
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
async fn a_reader_that_leaves_gives_its_place_to_others() {
    let service = Service::with_bars(20_000).await;
    for _ in 0..3 * DOWNLOADS_MAX {
        let download = async || {
            let response = service.send(&service.reader, "GET", PATH, Body::empty()).await;
            if response.status() == 200 { Ok(()) } else { Err(response.status()) }
        };
        task::wait::until(Duration::from_secs(20), download).await.unwrap();
    }
}

#[tokio::test]
async fn readers_that_stall_hold_their_places_and_one_more_is_sent_away() {
    let service = Service::with_bars(20_000).await;
    let mut open = Vec::new();
    for _ in 0..DOWNLOADS_MAX {
        open.push(service.send(&service.reader, "GET", PATH, Body::empty()).await);
    }
    let refused = service.send(&service.reader, "GET", PATH, Body::empty()).await;
    assert_eq!(
        (refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()),
        (503, &b"5"[..])
    );
    let body = to_bytes(open.pop().unwrap().into_body(), usize::MAX).await.unwrap();
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&body).unwrap().len(), 20_000);
}

#[tokio::test]
async fn a_download_that_is_broken_off_does_not_look_whole() {
    let service = Service::with_bars(20_000).await;
    let response = service.send(&service.reader, "GET", PATH, Body::empty()).await;
    service.group.stop();
    to_bytes(response.into_body(), usize::MAX).await.unwrap_err();
}

#[tokio::test]
async fn an_unknown_output_is_refused() {
    let service = Service::with_bars(1).await;
    let answer = service.get(&service.reader, &format!("{PATH}&output=xml")).await;
    assert_eq!(answer, (400, refusal("output must be json or csv: bad request")));
}
