//! Tests the access to every path of the owner, a holder of a tag, a key without access, and an invalid
//! key.

use super::*;

/// A request to a service with dataset 1, which belongs to the owner and has the tag `public`.
struct Walk {
    method: &'static str,
    path: &'static str,
    body: Value,
    /// Expected statuses for the owner, a holder, and a key without access. If the last status is 404,
    /// the response must be the same as for a missing dataset.
    want: [u16; 3],
}

fn walk(method: &'static str, path: &'static str, body: Value, want: [u16; 3]) -> Walk {
    Walk { method, path, body, want }
}

/// Returns a request to each path. Requests that delete something come last.
fn walks() -> Vec<Walk> {
    let (tag, none) = (json!({"tag_name": "mine"}), Value::Null);
    let access = json!({"dataset_id": 1, "require_write": true});
    let rows = json!({"dataset": 1, "rows": [bar(7)]});
    let column = json!({"dataset": 1, "name": "note", "dtype": "string"});
    let by_name = json!({"dataset_name": "btc", "name": "note", "dtype": "string"});
    let range = "/api/rows/?dataset=1&start=2026-07-29T00:00:00Z&end=2026-07-29T00:01:00Z";
    vec![
        walk("GET", "/api/tags/", none.clone(), [200, 200, 200]),
        walk("GET", "/api/datasets/", none.clone(), [200, 200, 200]),
        walk("GET", "/api/datasets/search/?ticker=btcusd", none.clone(), [200, 200, 200]),
        walk("POST", "/api/access/check/", access, [200, 200, 200]),
        walk("GET", "/api/datasets/1/", none.clone(), [200, 200, 404]),
        walk("GET", "/api/datasets/1/tags/", none.clone(), [200, 200, 404]),
        walk("GET", "/api/columns/?dataset=1", none.clone(), [200, 200, 404]),
        walk("GET", "/api/columns/?dataset_name=btc", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/?dataset=1", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/?dataset_name=btc", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/?dataset=1&resolution=1d", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/bulk_download/?dataset=1", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/live/?dataset=1", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/live/?dataset_name=btc", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/stream/?dataset=1", none.clone(), [200, 200, 404]),
        walk("GET", "/api/rows/stream/?dataset_name=btc", none.clone(), [200, 200, 404]),
        walk("POST", "/api/rows/bulk_insert/", rows, [201, 403, 404]),
        walk(
            "POST",
            "/api/rows/bulk_insert/?dataset_name=btc",
            json!({"rows": []}),
            [201, 403, 404],
        ),
        walk("POST", "/api/columns/", column, [201, 403, 404]),
        walk("POST", "/api/columns/", by_name, [409, 403, 404]),
        walk("POST", "/api/datasets/1/tags/", tag, [201, 403, 404]),
        walk("GET", "/api/tags/mine/holders/", none.clone(), [200, 404, 404]),
        walk("POST", "/api/tags/mine/holders/", json!({"key": 1}), [201, 404, 404]),
        walk("DELETE", "/api/tags/mine/holders/1/", none.clone(), [200, 404, 404]),
        walk("DELETE", "/api/datasets/1/tags/mine/", none.clone(), [200, 403, 404]),
        walk("PATCH", "/api/datasets/1/", json!({"description": "New"}), [200, 403, 404]),
        walk("PUT", "/api/datasets/1/", json!({"name": "btc"}), [200, 403, 404]),
        walk("DELETE", range, none.clone(), [200, 403, 404]),
        walk("DELETE", "/api/datasets/1/", none, [200, 403, 404]),
        walk("POST", "/api/datasets/", json!({"name": "more"}), [201, 201, 201]),
        walk("POST", "/api/tags/acquire/", json!({"tag_name": "public"}), [409, 409, 200]),
    ]
}

async fn status(service: &Service, key: &str, walk: &Walk) -> u16 {
    let body = if walk.body.is_null() { String::new() } else { walk.body.to_string() };
    service.send(key, walk.method, walk.path, Body::from(body)).await.status().as_u16()
}

#[tokio::test]
async fn every_path_enforces_the_role_of_the_key() {
    let service = Service::with_bars(3).await;
    let (_, stranger) = service.accounts.create_key("stranger").await.unwrap();
    let (revoked_id, revoked) = service.accounts.create_key("revoked").await.unwrap();
    service.accounts.revoke_key(accounts::Scope::All, revoked_id).await.unwrap();
    let empty = Service::start().await;
    for walk in walks() {
        let what = format!("{} {}", walk.method, walk.path);
        for key in ["", "nonsense", "UP-0123456789abcdef01234567", revoked.reveal()] {
            let error = if key.is_empty() { "Missing API key" } else { "Invalid API key" };
            let response = service.call(key, walk.method, walk.path, &walk.body).await;
            assert_eq!(response, (401, json!({"error": error})), "{what} with {key:?}");
        }
        // The owner comes last, since its requests succeed and can delete things that the other keys
        // request.
        let [owner, holder, other] = walk.want;
        if other == 404 {
            let response =
                service.call(stranger.reveal(), walk.method, walk.path, &walk.body).await;
            let without = empty.call(&empty.owner, walk.method, walk.path, &walk.body).await;
            assert_eq!(response, without, "{what} as if there were none");
        }
        assert_eq!(status(&service, stranger.reveal(), &walk).await, other, "{what} by a stranger");
        assert_eq!(status(&service, &service.reader, &walk).await, holder, "{what} by a holder");
        assert_eq!(status(&service, &service.owner, &walk).await, owner, "{what} by the owner");
    }
}

#[tokio::test]
async fn lists_are_empty_for_a_key_without_access() {
    let service = Service::with_bars(3).await;
    let (_, stranger) = service.accounts.create_key("stranger").await.unwrap();
    for path in ["", "?search=btc", "?search=b", "search/?ticker=btcusd"] {
        let path = format!("/api/datasets/{path}");
        let (status, body) = service.get(stranger.reveal(), &path).await;
        assert_eq!(
            (status, &body["count"], &body["results"]),
            (200, &json!(0), &json!([])),
            "{path}"
        );
        assert_eq!(service.get(&service.reader, &path).await.1["count"], 1, "{path}");
    }
    let body = json!({"dataset_id": 1});
    let unknown = json!({"dataset_id": 999});
    let response = service.post(stranger.reveal(), "/api/access/check/", &body).await;
    assert_eq!(response, service.post(stranger.reveal(), "/api/access/check/", &unknown).await);
    assert_eq!(response.1["has_access"], false);
}
