//! `GET /api/accounts/openapi.json`: the `OpenAPI` description of the accounts API. The request needs
//! no session.
//!
//! A service that includes the accounts API adds these operations to its own description.

use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;
use web::openapi::{About, Description, describe};
use wire::error::DatasetsError;
use wire::paths;

/// Introduction of the description.
const ABOUT: &str = "Accounts for people who create their own API keys.\n\n\
    Signing up or logging in sets the cookie `triptych_session`, which the other operations require. \
    Requests from pages of other sites are rejected with 403. Too many attempts are rejected with 429 \
    and `Retry-After`, and so are requests with 503 while the database of the accounts is unavailable.";

/// Groups of operations.
pub const GROUPS: [(&str, &str); 3] = [
    ("accounts", "Signing up, logging in, passwords."),
    ("keys", "Keys of the account that is logged in."),
    ("services", "For services on other machines."),
];

/// Description of the accounts API, created on the first request.
static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| Description::new(&document(), paths::ACCOUNTS_OPENAPI));

/// Returns the operations of the accounts API, for the description of a service that includes them.
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

/// Returns this description of the API, an `OpenAPI` document.
#[utoipa::path(get, path = paths::ACCOUNTS_OPENAPI, operation_id = "describe_accounts",
    tag = "services", security(()),
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn get() -> Response {
    DESCRIPTION.document()
}

/// Returns this description as an HTML page that loads nothing from other sites.
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
    fn every_operation_of_the_api_is_described() {
        let document = document();
        assert_eq!(web::openapi::find_faults(&document), Vec::<String>::new());
        let schemes = &document["components"]["securitySchemes"];
        assert_eq!(schemes["session"]["name"], super::super::COOKIE);
        assert_eq!(schemes["operator"]["scheme"], "bearer");
    }
}
