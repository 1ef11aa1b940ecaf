//! `GET /api/accounts/docs/`: the API reference of accounts as a page. Needs no session, and no
//! network.

use axum::response::Response;
use wire::paths;

use super::openapi::DESCRIPTION;

/// This description as a page, which needs no network.
#[utoipa::path(get, path = paths::ACCOUNTS_DOCS, operation_id = "show_accounts", tag = "services",
    security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn get() -> Response {
    DESCRIPTION.page()
}
