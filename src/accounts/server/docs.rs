//! `GET /api/accounts/docs/`: the API reference of accounts as a page. Needs no session, and no
//! network.

use std::sync::LazyLock;

use axum::response::Response;
use web::api_docs;
use wire::paths::ACCOUNTS_OPENAPI;

use super::openapi::describe;

/// The page. What is described does not change while the program runs.
static PAGE: LazyLock<String> = LazyLock::new(|| api_docs::render(&describe(), ACCOUNTS_OPENAPI));

pub(super) async fn get() -> Response {
    api_docs::respond(PAGE.clone())
}
