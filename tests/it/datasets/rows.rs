//! `GET /api/rows/`: returns pages of raw rows or of buckets.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use task::wait;

use super::{COLUMNS, assert_needs_key, create, insert, members, minute_row, timestamp};
use crate::support::up::Up;

/// Maximum time in which the market's history is written at the first start. Without optimizations, this
/// takes about 10 seconds of processor time.
const HISTORY_WITHIN: Duration = Duration::from_mins(1);

#[tokio::test]
async fn raw_rows_are_paged_to_the_end() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it raw rows").await;
    let rows: Vec<_> = (0..25).map(minute_row).collect();
    insert(&http, dataset, &rows).await;

    let (start, end) = (timestamp(0), timestamp(1439));
    let mut path =
        format!("/api/rows/?dataset={dataset}&start={start}&end={end}&limit=10&ordering=timestamp");
    let (mut got, mut n_pages) = (Vec::new(), 0);
    loop {
        let page = http.get_ok(&path).await;
        assert_eq!(members(&page), ["count", "next", "previous", "results"]);
        assert_eq!(page["count"], 25);
        got.extend(page["results"].as_array().unwrap().iter().cloned());
        n_pages += 1;
        match page["next"].as_str() {
            Some(next) => path = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((n_pages, got.len()), (3, 25));
    for (got, sent) in got.iter().zip(&rows) {
        assert_eq!(members(got), ["created_at", "dataset_id", "id", "timestamp", "values"]);
        assert_eq!(got["dataset_id"], dataset);
        assert_eq!(got["timestamp"], sent["timestamp"]);
        for column in COLUMNS {
            assert_eq!(got["values"][column].as_f64(), sent["values"][column].as_f64(), "{column}");
        }
    }

    let path = format!("/api/rows/?dataset={dataset}&limit=1&ordering=-timestamp");
    assert_eq!(http.get_ok(&path).await["results"][0]["timestamp"], timestamp(24));
}

#[tokio::test]
async fn buckets_are_exact_after_a_late_row_and_a_correction() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it buckets").await;
    let on_time: Vec<_> = [0, 1, 3, 4, 5, 6].map(minute_row).into();
    insert(&http, dataset, &on_time).await;
    let mut corrected = minute_row(4);
    corrected["values"]["close"] = json!(250.0);
    corrected["values"]["high"] = json!(260.0);
    insert(&http, dataset, &[minute_row(2), corrected]).await;

    let (start, end) = (timestamp(0), timestamp(60));
    let path = format!(
        "/api/rows/?dataset={dataset}&start={start}&end={end}&resolution=5m&ordering=timestamp"
    );
    let page = http.get_ok(&path).await;
    let [first, second] = page["results"].as_array().unwrap().as_slice() else {
        panic!("two buckets: {page}");
    };
    assert_eq!(
        members(first),
        ["close", "count", "dataset_id", "high", "low", "open", "timestamp", "volume"],
    );
    // Contains minutes 0 to 4, of which the last was corrected. The next bucket has minutes 5 and 6.
    check_bucket(first, &timestamp(0), [100.5, 260.0, 98.75, 250.0, 11.25], 5);
    check_bucket(second, &timestamp(5), [100.5, 106.5, 103.75, 106.0, 11.5], 2);
}

#[track_caller]
fn check_bucket(bucket: &Value, start: &str, want: [f64; 5], count: u64) {
    let got = COLUMNS.map(|column| bucket[column].as_f64().unwrap());
    assert_eq!((bucket["timestamp"].as_str(), got), (Some(start), want), "{bucket}");
    assert_eq!(bucket["count"], count);
}

#[tokio::test]
async fn too_wide_range_is_rejected_with_the_documented_text() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it wide range").await;
    let (start, end) = (timestamp(0), timestamp(2 * 1440));
    let path = format!("/api/rows/?dataset={dataset}&start={start}&end={end}");
    let (status, body) = http.get_json(&path).await;
    assert_eq!(status, 400);
    let text = "time range exceeds maximum of 24h0m0s for resolution=raw; \
                use a coarser resolution: bad request";
    assert_eq!(body, json!({"details": null, "error": text}));
}

#[tokio::test]
async fn synthetic_market_has_months_of_history_and_is_labeled() {
    let up = Up::shared();
    let http = up.datasets();
    let found = http.get_ok("/api/datasets/?search=synthetic&limit=250").await;
    let market = found["results"].as_array().unwrap().iter();
    let market = market.clone().find(|dataset| dataset["name"] == "synthetic_btcusd");
    assert_eq!(market.unwrap()["metadata"]["source"], "synthetic", "{found}");

    let path = "/api/rows/?dataset_name=synthetic_btcusd&resolution=1d&limit=1000";
    let look = || async {
        let n_days = http.get_ok(path).await["results"].as_array().map_or(0, Vec::len);
        if n_days > 60 { Ok(()) } else { Err(n_days) }
    };
    wait::until(HISTORY_WITHIN, look).await.unwrap();
}

#[tokio::test]
async fn rows_require_a_key() {
    let up = Up::shared();
    let paths =
        ["/api/rows/?dataset=1", "/api/datasets/", "/api/rows/stream/?dataset=1", "/api/columns/"];
    for path in paths {
        assert_needs_key(&up.datasets(), path).await;
    }
}

#[tokio::test]
async fn responses_have_the_revision_that_they_include() {
    let up = Up::shared();
    let http = up.datasets();
    let dataset = create(&http, "it revisions").await;
    insert(&http, dataset, &(0..25).map(minute_row).collect::<Vec<_>>()).await;
    let revision = |response: &reqwest::Response| -> Option<u64> {
        response.headers().get("x-revision")?.to_str().ok()?.parse().ok()
    };
    let page = format!("/api/rows/?dataset={dataset}");
    let download = format!("/api/rows/bulk_download/?dataset={dataset}");
    let parquet = format!("{download}&output=parquet");
    let last = revision(&http.send("GET", &page, "").await).unwrap();
    for resolution in ["raw", "1h"] {
        let path = format!("{download}&resolution={resolution}");
        let answer = http.send("GET", &path, "").await;
        assert_eq!((answer.status().as_u16(), revision(&answer)), (200, Some(last)), "{path}");
        let tag = answer.headers()["etag"].clone();
        let again = http.request(Method::GET, &path).header("if-none-match", tag);
        let again = again.send().await.unwrap();
        assert_eq!((again.status().as_u16(), revision(&again)), (304, Some(last)), "{path}");
    }
    let part = http.request(Method::GET, &parquet).header("range", "bytes=0-3");
    let part = part.send().await.unwrap();
    assert_eq!((part.status().as_u16(), revision(&part)), (206, Some(last)));

    let rows = |minute| format!("{page}&start={}&end={}", timestamp(minute), timestamp(minute + 1));
    let gone = http.send("DELETE", &rows(7), "").await;
    assert_eq!((gone.status().as_u16(), revision(&gone)), (200, Some(last + 1)));
    let head = http.send("HEAD", &parquet, "").await;
    assert_eq!((head.status().as_u16(), revision(&head)), (200, Some(last + 1)));

    // After a commit that does not change the range, the file is the same, but its revision includes the
    // commit.
    let until = format!("{parquet}&end={}", timestamp(20));
    let spooled = revision(&http.send("HEAD", &until, "").await);
    insert(&http, dataset, &[minute_row(30)]).await;
    let newer = revision(&http.send("HEAD", &until, "").await);
    assert_eq!((spooled, newer), (Some(last + 1), Some(last + 2)));

    for path in [&page, &download, &parquet] {
        let refused = http.request(Method::GET, path).header("x-revision", "many");
        assert_eq!(refused.send().await.unwrap().status().as_u16(), 400, "{path}");
    }
}
