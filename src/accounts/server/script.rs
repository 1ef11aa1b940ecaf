//! `GET /portal/script.js`: the portal's script.

use axum::http::{HeaderName, header::CONTENT_TYPE};

/// The portal's JavaScript, compiled in.
const SCRIPT: &str = include_str!("../../../assets/portal/script.js");

pub(super) async fn get() -> ([(HeaderName, &'static str); 1], &'static str) {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}
