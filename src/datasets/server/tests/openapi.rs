//! `GET /api/openapi.json` and the page that shows it.

use super::*;

#[tokio::test]
async fn the_description_and_its_page_need_no_key() {
    let service = Service::start().await;
    let (status, document) = service.get("", "/api/openapi.json").await;
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    // Readers of the description send the header as it is written here.
    let key = &document["components"]["securitySchemes"]["key"];
    assert_eq!(key["name"], "X-API-Key");
    // An empty page is of rows and of buckets.
    assert!(document["components"]["schemas"]["RowsPage"]["anyOf"].is_array());
    let response = service.send("", "GET", "/api/docs/", Body::empty()).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
    let policy = response.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let page = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let page = String::from_utf8(page.to_vec()).unwrap();
    for path in document["paths"].as_object().unwrap().keys() {
        assert!(page.contains(path), "{path} is on the page");
    }
}
