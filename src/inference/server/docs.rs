//! `GET /api/docs/`: the description of the API as a page for people. Needs no key, and no network.

use axum::{extract::State, response::Response};
use wire::paths;

use super::App;

/// This description as a page for people.
#[utoipa::path(get, path = paths::DOCS, operation_id = "docs", tag = "service", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn get(State(service): State<App>) -> Response {
    service.description.get().page()
}
