//! Tests of `GET /`, and of requests by pages of other sites.

use axum::http::HeaderMap;
use axum::routing::get;

use super::*;

const SITE: &str = "https://example.com";

/// Sends a request with the `Origin` header `origin`. Returns the status and the headers of the
/// response.
async fn of_page(
    router: &Router,
    origin: &str,
    request: axum::http::request::Builder,
) -> (u16, HeaderMap) {
    let request = request.header("origin", origin).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), response.headers().clone())
}

/// Sends the preflight request that a browser sends before `method` with a key.
async fn preflight(router: &Router, path: &str, origin: &str, method: &str) -> (u16, HeaderMap) {
    let request = Request::builder().method("OPTIONS").uri(path);
    let request = request
        .header("access-control-request-method", method)
        .header("access-control-request-headers", "x-api-key,authorization");
    of_page(router, origin, request).await
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn web_pages_of_configured_sites_can_read_but_not_write() {
    let service = Service::with_bars(1).await;
    let portal = Router::new().route("/portal", get(async || "portal"));
    let sites = [SITE, "http://localhost:3000"].map(|text| text.parse().unwrap());
    let router = router(Arc::clone(&service.app), Some(portal), &sites);
    for origin in [SITE, "http://localhost:3000"] {
        let (status, headers) = preflight(&router, "/api/rows/", origin, "GET").await;
        assert_eq!(status, 200, "without a key");
        assert_eq!(text(&headers, "access-control-allow-origin"), Some(origin));
        let methods = text(&headers, "access-control-allow-methods");
        assert_eq!(methods, Some("GET,HEAD"), "nothing that writes");
        let taken = text(&headers, "access-control-allow-headers").unwrap();
        assert!(["x-api-key", "authorization"].iter().all(|name| taken.contains(name)), "{taken}");
        assert_eq!(text(&headers, "access-control-allow-credentials"), None, "no cookies");
    }
    let get = |path: &str, key: &str| Request::builder().uri(path).header("x-api-key", key);
    for (path, key, want) in [
        ("/api/rows/?dataset=1", service.owner.as_str(), 200),
        ("/api/rows/?dataset=9", &service.owner, 404),
        ("/api/rows/?dataset=1", "", 401),
        ("/api/openapi.json", "", 200),
    ] {
        let (status, headers) = of_page(&router, SITE, get(path, key)).await;
        assert_eq!(status, want, "{path}");
        assert_eq!(text(&headers, "access-control-allow-origin"), Some(SITE), "{path}");
        let shown = text(&headers, "access-control-expose-headers").unwrap();
        assert!(shown.contains("etag") && shown.contains("ratelimit-remaining"), "{shown}");
        let (_, headers) = of_page(&router, "https://example.org", get(path, key)).await;
        assert_eq!(text(&headers, "access-control-allow-origin"), None, "another site");
    }
    let (status, headers) = of_page(&router, SITE, get("/portal", "")).await;
    assert_eq!((status, text(&headers, "access-control-allow-origin")), (200, None));
}

#[tokio::test]
async fn web_pages_of_other_sites_can_read_only_if_all_sites_are_allowed() {
    let service = Service::with_bars(1).await;
    let get = || Request::builder().uri("/api/rows/?dataset=1").header("x-api-key", &service.owner);
    let (status, headers) = of_page(&service.router, SITE, get()).await;
    assert_eq!((status, text(&headers, "access-control-allow-origin")), (200, None));
    let (_, headers) = preflight(&service.router, "/api/rows/", SITE, "GET").await;
    assert_eq!(text(&headers, "access-control-allow-origin"), None);
    let open = router(Arc::clone(&service.app), None, &["*".parse().unwrap()]);
    let (status, headers) = of_page(&open, SITE, get()).await;
    assert_eq!((status, text(&headers, "access-control-allow-origin")), (200, Some("*")));
}

#[tokio::test]
async fn root_page_links_to_portal_and_api_description() {
    let service = Service::start().await;
    for (portal, has_portal) in [(Some(Router::new()), true), (None, false)] {
        let router = router(Arc::clone(&service.app), portal, &[]);
        let request = Request::get("/").header("host", "127.0.0.1:8081");
        let response = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/html; charset=utf-8");
        let page = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let page = String::from_utf8(page.to_vec()).unwrap();
        assert!(page.contains("href=\"/api/docs/\""), "{page}");
        assert_eq!(page.contains("href=\"/portal\""), has_portal, "{page}");
    }
}
