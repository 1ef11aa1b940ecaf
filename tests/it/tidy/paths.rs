//! One path three times: a URL's last fixed segment names the file of its handler.

use std::fs;

use super::check;
use crate::support::ROOT;

/// Folders of handlers, and the URLs that they answer: by how those begin.
const SERVERS: [(&str, &[&str]); 4] = [
    (
        "src/cluster/head/server",
        &[
            "/api/v1/functions",
            "/api/v1/executions",
            "/api/v1/events",
            "/api/v1/nodes",
            "/api/v1/health",
            "/api/v1/openapi.json",
            "/metrics",
        ],
    ),
    ("src/accounts/server", &["/api/accounts/", "/portal"]),
    (
        "src/inference/server",
        &[
            "/emissions/",
            "/api/v1/topics",
            "/api/v1/signer",
            "/v2/allora/",
            "/api/openapi.json",
            "/api/docs/",
            "/health",
        ],
    ),
    (
        "src/datasets/server",
        &[
            "/",
            "/api/tags/",
            "/api/datasets/",
            "/api/columns/",
            "/api/rows/",
            "/api/access/",
            "/api/openapi.json",
            "/api/docs/",
            "/health",
            "/metrics",
        ],
    ),
];

/// The endpoints' names and URLs. Other constants beside them hold no `/` in front.
fn endpoints() -> Vec<(String, String)> {
    let rooms = ["accounts", "datasets", "executions", "functions", "inference", "paths"];
    let text: String = rooms
        .iter()
        .map(|room| fs::read_to_string(format!("{ROOT}/src/wire/{room}.rs")).unwrap())
        .collect();
    let constants = text.split("pub const ").skip(1).filter_map(|constant| {
        let (name, rest) = constant.split_once(": &str =")?;
        let url = rest.split('"').nth(1)?;
        url.starts_with('/').then(|| (name.to_owned(), url.to_owned()))
    });
    constants.collect()
}

/// Whether `url` begins with `start`, which at the root is all of it.
fn begins(url: &str, start: &str) -> bool {
    if start == "/" { url == start } else { url.starts_with(start) }
}

/// The names a handler's file may have: the last fixed segment, in the singular where it stands
/// for one of many, or the constant's own name where two URLs end alike.
fn names(constant: &str, url: &str) -> Vec<String> {
    let segments: Vec<_> = url.split('/').filter(|segment| !segment.is_empty()).collect();
    let fixed = segments.iter().rposition(|segment| !segment.starts_with('{'));
    let last = fixed.and_then(|index| segments.get(index)).copied().unwrap_or_default();
    // `openapi.json` is made in `openapi.rs`.
    let last = last.split('.').next().unwrap_or_default();
    let is_one_of_many = fixed.is_some_and(|index| index + 1 < segments.len());
    let mut names = vec![last.to_owned(), constant.to_lowercase()];
    if is_one_of_many {
        names.push(last.trim_end_matches('s').to_owned());
    }
    names
}

#[test]
fn every_url_names_its_handler() {
    let endpoints = endpoints();
    assert!(endpoints.len() >= 60, "the paths are found: {endpoints:?}");
    let lost = endpoints.iter().flat_map(|(constant, url)| {
        let names = names(constant, url);
        let servers: Vec<_> = SERVERS
            .iter()
            .filter(|(_, starts)| starts.iter().any(|start| begins(url, start)))
            .collect();
        assert!(!servers.is_empty(), "{url} belongs to a server");
        let is_lost = |folder: &str| {
            !names.iter().any(|name| fs::exists(format!("{ROOT}/{folder}/{name}.rs")).unwrap())
        };
        let lost: Vec<_> = servers
            .into_iter()
            .filter(|(folder, _)| is_lost(folder))
            .map(|(folder, _)| format!("{url}: none of {names:?} in {folder}"))
            .collect();
        lost
    });
    check("a URL's last fixed segment names its handler's file", lost);
}

#[test]
fn names_follow_urls() {
    assert!(names("ROWS_STREAM", "/api/rows/stream/").contains(&"stream".to_owned()));
    assert!(names("DATASET", "/api/datasets/{id}/").contains(&"dataset".to_owned()));
    assert!(names("DATASET_TAGS", "/api/datasets/{id}/tags/").contains(&"dataset_tags".to_owned()));
}
