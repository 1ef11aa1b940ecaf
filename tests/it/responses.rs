//! Headers that every response of the three services must have.

use std::collections::BTreeSet;

use crate::support::http::Http;
use crate::support::up::Up;

/// Requests to the dataset service, as method, path and body.
const DATASETS: [(&str, &str, &str); 24] = [
    ("GET", "/health", ""),
    ("GET", "/api/datasets/", ""),
    ("HEAD", "/api/datasets/", ""),
    ("OPTIONS", "/api/datasets/", ""),
    ("PUT", "/api/datasets/", ""),
    ("POST", "/api/datasets/", "no json"),
    ("GET", "/api/datasets/999999/", ""),
    ("GET", "/api/rows/?limt=1", ""),
    ("GET", "/api/%ff", ""),
    ("GET", "/api/rows/?dataset_name=machine_cpu", ""),
    ("GET", "/api/rows/live/?dataset_name=machine_cpu", ""),
    ("GET", "/api/rows/stream/?dataset_name=machine_cpu", ""),
    ("GET", "/api/rows/bulk_download/?dataset_name=machine_cpu", ""),
    ("GET", "/api/rows/bulk_download/?dataset_name=machine_cpu&output=csv", ""),
    ("GET", "/api/rows/bulk_download/?dataset_name=machine_cpu&output=parquet", ""),
    ("GET", "/api/openapi.json", ""),
    ("GET", "/api/docs/", ""),
    ("GET", "/metrics", ""),
    ("GET", "/portal", ""),
    ("GET", "/portal/style.css", ""),
    ("GET", "/portal/script.js", ""),
    ("GET", "/api/accounts/me", ""),
    ("GET", "/api/accounts/docs/", ""),
    ("GET", "/nowhere", ""),
];

/// Requests to the inference service, as method, path and body.
const INFERENCE: [(&str, &str, &str); 13] = [
    ("GET", "/health", ""),
    ("GET", "/api/v1/topics", ""),
    ("HEAD", "/api/v1/topics", ""),
    ("POST", "/api/v1/topics", "no json"),
    ("DELETE", "/api/v1/topics", ""),
    ("GET", "/api/v1/topics/1/stream", ""),
    ("GET", "/api/v1/topics/1/history", ""),
    ("GET", "/api/v1/topics/999/latest", ""),
    ("GET", "/emissions/v10/topics/1", ""),
    ("GET", "/v2/allora/testnet/topics", ""),
    ("GET", "/api/openapi.json", ""),
    ("GET", "/api/docs/", ""),
    ("GET", "/nowhere", ""),
];

/// Requests to the head, as method, path and body.
const HEAD: [(&str, &str, &str); 13] = [
    ("GET", "/api/v1/health", ""),
    ("GET", "/api/v1/nodes", ""),
    ("HEAD", "/api/v1/nodes", ""),
    ("GET", "/api/v1/functions", ""),
    ("GET", "/api/v1/functions/nothing", ""),
    ("POST", "/api/v1/functions/execute", "no json"),
    ("DELETE", "/api/v1/functions/execute", ""),
    ("POST", "/api/v1/functions/requests/result", r#"{"id":"nothing"}"#),
    ("GET", "/api/v1/executions", ""),
    ("GET", "/api/v1/events", ""),
    ("GET", "/api/v1/openapi.json", ""),
    ("GET", "/metrics", ""),
    ("GET", "/nowhere", ""),
];

/// Checks that all responses have the header, and that each status in `want` occurs.
async fn check(http: &Http, requests: &[(&str, &str, &str)], want: &[u16]) {
    let mut statuses = BTreeSet::new();
    for (method, path, body) in requests {
        let response = http.send(method, path, body).await;
        let options: Vec<_> = response.headers().get_all("x-content-type-options").iter().collect();
        assert_eq!(options, ["nosniff"], "{method} {path}: {}", response.status());
        statuses.insert(response.status().as_u16());
    }
    assert!(want.iter().all(|status| statuses.contains(status)), "{statuses:?}");
}

#[tokio::test]
async fn http_responses_forbid_content_sniffing() {
    let up = Up::shared();
    check(&up.datasets(), &DATASETS, &[200, 400, 404, 405]).await;
    check(&up.inference(), &INFERENCE, &[200, 400, 404, 501]).await;
    check(&up.head(), &HEAD, &[200, 404]).await;
    for http in [up.datasets(), up.inference()] {
        check(&http.without_key(), &[("GET", "/nowhere", "")], &[401]).await;
    }
}
