//! `GET /`: links for people who open the service's address in a browser. Needs no key.

use axum::response::Response;
use web::api_docs;
use wire::paths::{DOCS, HEALTH, PORTAL};

/// The response with links: to the portal if it is served here, and to the description of the API.
pub(super) fn respond(has_portal: bool) -> Response {
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
