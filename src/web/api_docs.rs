//! Renders an `OpenAPI` document as an HTML page.
//!
//! The template of the page has no scripts, fonts or pictures, so it works without a network. The page's
//! content security policy forbids loading anything.

use std::error::Error;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use minijinja::{Environment, UndefinedBehavior, context, escape_formatter};
use serde_json::Value;
use tracing::error;

/// Template of the page.
const TEMPLATE: &str = include_str!("../../assets/reference.html");

/// Style sheet of the page.
const STYLE: &str = include_str!("../../assets/reference.css");

/// Content security policy of the page: only its inline style is allowed.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Responds with a page made by [`render`].
#[must_use]
pub fn respond(page: String) -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, page).into_response()
}

/// Renders `document` as a page. `document_url` is the address of the document itself.
#[must_use]
pub fn render(document: &Value, document_url: &str) -> String {
    let mut pages = Environment::new();
    pages.set_keep_trailing_newline(true);
    pages.set_undefined_behavior(UndefinedBehavior::Chainable);
    let json = |value: minijinja::Value| serde_json::to_string(&value).unwrap_or_default();
    pages.add_filter("plain", move |value: minijinja::Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => json(value),
    });
    pages.add_filter("pretty", |value: minijinja::Value| {
        serde_json::to_string_pretty(&value).unwrap_or_default()
    });
    pages.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if !value.is_safe() => Ok(out.write_str(&escape_html(text))?),
        _ => escape_formatter(out, state, value),
    });
    let about = context! { style => STYLE, url => document_url };
    let all = context! { ..about, ..minijinja::Value::from_serialize(document) };
    match pages.render_named_str("reference.html", TEMPLATE, all) {
        Ok(page) => page,
        Err(error) => {
            error!(error = &error as &dyn Error, "failed to render the page of an API");
            String::new()
        }
    }
}

/// Escapes text for HTML, including quoted attributes.
///
/// Minijinja would also escape slashes, which are frequent in paths and media types.
fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn page_of_the_api_shows_operations_and_schemas_without_loading_files() {
        let document = json!({
            "info": {"title": "A <b>", "version": "1", "description": "Read `this`.\n\nAnd that."},
            "tags": [{"name": "rows", "description": ""}],
            "paths": {"/rows/": {"get": {
                "operationId": "rows", "tags": ["rows"], "summary": "Rows", "security": [{}],
                "parameters": [{
                    "in": "query", "name": "limit", "required": false, "description": "",
                    "schema": {"type": "integer", "minimum": 1},
                }],
                "responses": {"200": {"description": "Rows", "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Row"}},
                }}},
            }}},
            "components": {"schemas": {"Row": {
                "type": "object", "required": ["id"],
                "properties": {"id": {"type": ["integer", "null"], "description": "Its id."}},
            }}},
        });
        let page = render(&document, "/openapi.json");
        for part in [
            "<h1>A &lt;b&gt;</h1>",
            "<p>Read <code>this</code>.</p><p>And that.</p>",
            "<section id=\"rows\">",
            "integer, at least 1",
            "<a href=\"#schema-Row\">Row</a>",
            "<code>id</code><small>required</small></th><td>integer or null</td><td>Its id.</td>",
            "Needs no key.",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        for loading in ["<script", "src=", "@import", "url(", "http:", "https:"] {
            assert!(!page.contains(loading), "{loading} is in the page");
        }
    }
}
