//! Revisions in responses, and the history of the synthetic market.

use std::time::Duration;

use reqwest::Method;
use task::wait;

use super::{create, insert, minute_row, timestamp};
use crate::support::up::Up;

/// Maximum time in which the market's history is written at the first start. Without optimizations, this
/// takes about 10 seconds of processor time.
const HISTORY_WITHIN: Duration = Duration::from_mins(1);

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
async fn revision_header_is_the_commit_that_a_response_includes() {
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
