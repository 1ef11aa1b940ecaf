//! `GET /api/docs/`: the description of the API as a page for people. Needs no key, and no network.

use std::sync::LazyLock;

use axum::response::Response;
use web::api_docs;
use wire::paths::OPENAPI;

use super::openapi::described;

/// The page. What is described does not change while the program runs.
static PAGE: LazyLock<String> = LazyLock::new(|| api_docs::render(&described(), OPENAPI));

pub(super) async fn get() -> Response {
    api_docs::respond(PAGE.clone())
}
