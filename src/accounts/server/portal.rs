//! `GET /portal`: the page where people sign up and manage their keys.
//!
//! The page, its style and its script come from the program itself, and the headers here keep a
//! browser from asking anybody else.

use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue},
    response::{Html, Response},
};
use web::middleware::Next;

/// The portal's HTML, compiled in.
const PAGE: &str = include_str!("../../../assets/portal/index.html");

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

pub(super) async fn get() -> Html<&'static str> {
    Html(PAGE)
}

/// Answers with [`HEADERS`].
pub(super) async fn set_page_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().extend(HEADERS);
    response
}
