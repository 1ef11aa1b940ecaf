//! `GET /portal/style.css`: the portal's style.

use axum::http::{HeaderName, header::CONTENT_TYPE};

/// The style sheet.
const STYLE: &str = include_str!("../../../assets/portal/style.css");

pub(super) async fn get() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}
