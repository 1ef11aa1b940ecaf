//! `GET /api/accounts/openapi.json`: describes the paths of accounts. Needs no session.
//!
//! What is described is public: a service that has accounts beside it describes them, too.

use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;
use web::openapi::{About, Description, describe};
use wire::{error::DatasetsError, paths};

/// What accounts are, at the head of their description.
const ABOUT: &str = "People who make API keys of their own.\n\n\
    Signing up or logging in sets the cookie `triptych_session`, which the other operations want. A \
    request that a page of another site makes is refused with 403; too many attempts are with 429, \
    and `Retry-After` tells when to come again. So it does with 503, where the database of the accounts \
    does not answer.";

/// Groups of operations.
pub const GROUPS: [(&str, &str); 3] = [
    ("accounts", "Signing up, logging in, passwords."),
    ("keys", "The keys of the account that is logged in."),
    ("services", "For services of other machines."),
];

/// The description as it is served.
static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| Description::new(&document(), paths::ACCOUNTS_OPENAPI));

/// Every operation of accounts with its shapes, for the description of a service that serves them, too.
#[must_use]
pub fn operations() -> OpenApi {
    super::api().merge(super::verify_api()).into_openapi()
}

fn document() -> Value {
    let about = About {
        title: "Accounts",
        text: ABOUT,
        groups: &GROUPS,
        security: json!([{}]),
        session_cookie: super::COOKIE,
        refusals: &[],
        examples: "{}",
    };
    describe::<DatasetsError, DatasetsError>(operations(), &about)
}

/// Describes the API, as this document.
#[utoipa::path(get, path = paths::ACCOUNTS_OPENAPI, operation_id = "describe_accounts",
    tag = "services", security(()),
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn get() -> Response {
    DESCRIPTION.document()
}

/// This description as a page, which needs no network.
#[utoipa::path(get, path = paths::ACCOUNTS_DOCS, operation_id = "show_accounts", tag = "services",
    security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    DESCRIPTION.page()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described() {
        let document = document();
        assert_eq!(web::openapi::find_faults(&document), Vec::<String>::new());
        let schemes = &document["components"]["securitySchemes"];
        assert_eq!(schemes["session"]["name"], super::super::COOKIE);
        assert_eq!(schemes["operator"]["scheme"], "bearer");
    }
}
