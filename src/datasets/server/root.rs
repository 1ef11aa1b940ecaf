//! `GET /`: links for people who open the service's address in a browser. Needs no key.

use axum::{Extension, response::Response};
use web::api_docs;
use wire::paths::{self, DOCS, HEALTH, PORTAL};

/// Whether the portal is served beside the paths of document 2.
#[derive(Debug, Clone, Copy)]
pub(super) struct HasPortal(pub(super) bool);

/// Links to the pages for people: the portal, if it is served here, and this description.
#[utoipa::path(get, path = paths::ROOT, operation_id = "root", tag = "service", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn get(Extension(HasPortal(has_portal)): Extension<HasPortal>) -> Response {
    let portal = if has_portal {
        format!("<li><a href=\"{PORTAL}\">Portal</a>: sign up, and make API keys\n")
    } else {
        String::new()
    };
    api_docs::respond(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Triptych datasets</title>\n<h1>Triptych datasets</h1>\n<ul>\n{portal}\
         <li><a href=\"{DOCS}\">API reference</a>: every path, with examples\n\
         <li><a href=\"{HEALTH}\">Health</a>\n</ul>\n</html>\n"
    ))
}
