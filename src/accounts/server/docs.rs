//! `GET /api/accounts/docs/`: the paths of accounts as a page for people. Needs no session, and no
//! network.

use std::sync::LazyLock;

use axum::response::Response;
use web::reference;
use wire::paths::ACCOUNTS_OPENAPI;

use super::openapi::described;

/// The page. What is described does not change while the program runs.
static PAGE: LazyLock<String> = LazyLock::new(|| reference::page(&described(), ACCOUNTS_OPENAPI));

pub(super) async fn get() -> Response {
    reference::answer(PAGE.clone())
}
