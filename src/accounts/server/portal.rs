//! `/portal`: the page where people sign up and manage their keys.
//!
//! The page, its style and its script are compiled in, and the headers keep a browser from requesting
//! anything from other hosts.

use axum::{
    Router,
    extract::Request,
    http::{HeaderName, HeaderValue, header::CONTENT_TYPE},
    response::Response,
    routing::get,
};
use web::middleware::{Next, wrap};
use wire::paths;

/// The page, its style and its script: path, media type, content.
const FILES: [(&str, &str, &str); 3] = [
    (paths::PORTAL, "text/html; charset=utf-8", include_str!("../../../assets/portal/index.html")),
    (
        paths::PORTAL_STYLE,
        "text/css; charset=utf-8",
        include_str!("../../../assets/portal/style.css"),
    ),
    (
        paths::PORTAL_SCRIPT,
        "text/javascript; charset=utf-8",
        include_str!("../../../assets/portal/script.js"),
    ),
];

/// Headers of the page: no content of other sites, no frames, no sniffing, no referrer,
/// and revalidation of each load, since a newer program brings a newer page.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cache-control"), HeaderValue::from_static("no-cache")),
];

/// Returns the router of the page and its files.
pub(super) fn router() -> Router {
    let file = |router: Router, (path, media_type, content): (&str, &'static str, &'static str)| {
        router.route(path, get(async move || ([(CONTENT_TYPE, media_type)], content)))
    };
    wrap(FILES.into_iter().fold(Router::new(), file), set_headers)
}

async fn set_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().extend(HEADERS);
    response
}
