//! An `OpenAPI` document as one page of HTML, for people.
//!
//! The page is made here, of a template, and asks nobody for anything: no script, no font, no picture.
//! It serves where there is no network, and its policy says that nothing else may be loaded.

use std::error::Error;

use axum::{
    http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use minijinja::{Environment, UndefinedBehavior, context, escape_formatter};
use serde_json::Value;
use tracing::error;

/// What the page is made of.
const TEMPLATE: &str = include_str!("../../assets/reference.html");

/// How the page looks.
const STYLE: &str = include_str!("../../assets/reference.css");

/// What a browser may load for the page: the style that is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Answers a page made by [`render`].
#[must_use]
pub fn respond(page: String) -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, page).into_response()
}

/// Returns `document` as a page. `document_url` is where the document itself is to be had.
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
        Some(text) if !value.is_safe() => Ok(out.write_str(&escaped(text))?),
        _ => escape_formatter(out, state, value),
    });
    let about = context! { style => STYLE, url => document_url };
    let all = context! { ..about, ..minijinja::Value::from_serialize(document) };
    match pages.render_named_str("reference.html", TEMPLATE, all) {
        Ok(page) => page,
        Err(error) => {
            error!(error = &error as &dyn Error, "failed to make the page of an API");
            String::new()
        }
    }
}

/// Escapes what means something in HTML, inside quoted attributes too.
///
/// Minijinja's own escapes slashes as well, of which paths and media types are full.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_shows_operations_and_schemas_and_loads_nothing() {
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
