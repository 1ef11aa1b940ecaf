//! An `OpenAPI` document as one page of HTML, for people.
//!
//! The page is made here and asks nobody for anything: no script, no font, no picture. It serves
//! where there is no network, and its policy says that nothing else may be loaded.

use std::fmt::Write as _;

use axum::{
    http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value};

/// How the page looks.
const STYLE: &str = include_str!("../../assets/reference.css");

/// What a browser may load for the page: the style that is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The methods of a path, in the order in which they are shown.
const METHODS: [&str; 6] = ["get", "post", "put", "patch", "delete", "head"];

/// Answers a page made by [`render`].
#[must_use]
pub fn respond(page: String) -> Response {
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, POLICY)];
    (headers, page).into_response()
}

/// Returns `document` as a page. `document_url` is where the document itself is to be had.
#[must_use]
pub fn render(document: &Value, document_url: &str) -> String {
    let (info, schemas) = (&document["info"], &document["components"]["schemas"]);
    let (title, version) = (text(&info["title"]), text(&info["version"]));
    let (mut nav, mut main) = (String::new(), String::new());
    for group in document["tags"].as_array().into_iter().flatten() {
        let name = text(&group["name"]);
        push(&mut nav, format_args!("<h2>{name}</h2><ul>"));
        let about = prose(&group["description"]);
        push(&mut main, format_args!("<h2 class=group>{name}</h2>{about}"));
        for (method, path, operation) in operations(document, &group["name"]) {
            let (id, path) = (text(&operation["operationId"]), escaped(path));
            push(
                &mut nav,
                format_args!(
                    "<li><a href=\"#{id}\"><b class={method}>{method}</b> {path}</a></li>"
                ),
            );
            push_operation(&mut main, method, &path, operation);
        }
        nav.push_str("</ul>");
    }
    nav.push_str("<h2>Schemas</h2><ul>");
    main.push_str("<h2 class=group>Schemas</h2>");
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        let name = escaped(name);
        push(&mut nav, format_args!("<li><a href=\"#schema-{name}\">{name}</a></li>"));
        push(&mut main, format_args!("<section id=\"schema-{name}\"><h3>{name}</h3>"));
        push_schema(&mut main, schema);
        main.push_str("</section>");
    }
    nav.push_str("</ul>");
    let about = prose(&info["description"]);
    format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\
         <nav aria-label=Contents><details><summary>Contents</summary>{nav}</details></nav><main><header><h1>{title}</h1>\
         <p>Version {version} · <a href=\"{url}\">{url}</a></p>{about}</header>\
         {main}</main></body></html>\n",
        url = escaped(document_url),
    )
}

/// The operations of a group, in the order of the document.
fn operations<'a>(
    document: &'a Value,
    group: &'a Value,
) -> impl Iterator<Item = (&'static str, &'a String, &'a Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let all = paths.flat_map(|(path, methods)| {
        METHODS.iter().filter_map(move |method| Some((*method, path, methods.get(method)?)))
    });
    all.filter(|(_, _, operation)| operation["tags"][0] == *group)
}

fn push_operation(to: &mut String, method: &str, path: &str, operation: &Value) {
    let (id, summary) = (text(&operation["operationId"]), inline(&operation["summary"]));
    push(
        to,
        format_args!(
            "<section id=\"{id}\"><h3><b class={method}>{method}</b> <code>{path}</code></h3>\
             <p class=summary>{summary}</p>"
        ),
    );
    to.push_str(&prose(&operation["description"]));
    let wanted = &operation["security"];
    if wanted[0].as_object().is_none_or(Map::is_empty) {
        to.push_str("<p class=note>Needs no key.</p>");
    } else if wanted[0]["session"].is_array() {
        to.push_str("<p class=note>Wants the cookie of a session instead of a key.</p>");
    } else if wanted[0]["operator"].is_array() {
        to.push_str("<p class=note>Wants the operator's token instead of a key.</p>");
    }
    let parameters = operation["parameters"].as_array().map_or(&[][..], Vec::as_slice);
    if !parameters.is_empty() {
        to.push_str("<h4>Parameters</h4><table>");
        for parameter in parameters {
            let place = text(&parameter["in"]);
            let must = if parameter["required"] == true { ", required" } else { "" };
            let (name, kind) = (text(&parameter["name"]), kind(&parameter["schema"]));
            let about = inline(&parameter["description"]);
            push(
                to,
                format_args!(
                    "<tr><th scope=row><code>{name}</code><small>{place}{must}</small></th>\
                     <td>{kind}</td><td>{about}</td></tr>"
                ),
            );
        }
        to.push_str("</table>");
    }
    if let Some(contents) = operation["requestBody"]["content"].as_object() {
        to.push_str("<h4>Body</h4>");
        push_contents(to, contents);
    }
    to.push_str("<h4>Answers</h4><table>");
    for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
        let (status, about) = (escaped(status), inline(&answer["description"]));
        push(to, format_args!("<tr><th scope=row>{status}</th><td>{about}</td><td>"));
        if let Some(contents) = answer["content"].as_object() {
            push_contents(to, contents);
        }
        to.push_str("</td></tr>");
    }
    to.push_str("</table></section>");
}

fn push_contents(to: &mut String, contents: &Map<String, Value>) {
    to.push_str("<ul class=contents>");
    for (media, content) in contents {
        let (media, kind) = (escaped(media), kind(&content["schema"]));
        push(to, format_args!("<li><code>{media}</code> {kind}</li>"));
    }
    to.push_str("</ul>");
}

fn push_schema(to: &mut String, schema: &Value) {
    to.push_str(&prose(&schema["description"]));
    let parts = schema["allOf"].as_array().map_or(&[][..], Vec::as_slice);
    let fields = schema["properties"].as_object();
    if !parts.is_empty() {
        for part in parts {
            push_schema(to, part);
        }
    } else if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        to.push_str("<table>");
        for (name, field) in fields {
            let is_required = required.iter().any(|one| one.as_str() == Some(name));
            let must = if is_required { "required" } else { "" };
            let (name, kind, about) = (escaped(name), kind(field), inline(&field["description"]));
            push(
                to,
                format_args!(
                    "<tr><th scope=row><code>{name}</code><small>{must}</small></th>\
                     <td>{kind}</td><td>{about}</td></tr>"
                ),
            );
        }
        to.push_str("</table>");
    } else {
        push(to, format_args!("<p>{}</p>", kind(schema)));
    }
    if let Some(example) = schema.get("example") {
        let example = serde_json::to_string_pretty(example).unwrap_or_default();
        push(to, format_args!("<pre>{}</pre>", escaped(&example)));
    }
}

/// The type of a schema, in a few words.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    for any in ["anyOf", "oneOf", "allOf"] {
        if let Some(kinds) = schema[any].as_array() {
            let glue = if any == "allOf" { " and " } else { " or " };
            return kinds.iter().map(kind).collect::<Vec<_>>().join(glue);
        }
    }
    let mut words = match &schema["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" && schema["additionalProperties"].is_object() => {
            format!("object of {}", kind(&schema["additionalProperties"]))
        }
        Value::String(name) => escaped(name),
        Value::Array(names) => names.iter().map(text).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    };
    if let Some(values) = schema["enum"].as_array() {
        let value = |value: &Value| format!("<code>{}</code>", plain(value));
        words = values.iter().map(value).collect::<Vec<_>>().join(", ");
    }
    for (name, shown) in [
        ("format", ""),
        ("pattern", "pattern "),
        ("minimum", "at least "),
        ("maximum", "at most "),
        ("maxLength", "length at most "),
        ("maxItems", "items at most "),
        ("default", "default "),
    ] {
        if let Some(value) = schema.get(name).filter(|value| !value.is_null()) {
            push(&mut words, format_args!(", {shown}{}", plain(value)));
        }
    }
    words
}

/// A value as it is meant: a text without its quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| escaped(&value.to_string()), escaped)
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// Paragraphs, with code between backticks.
fn prose(value: &Value) -> String {
    let paragraphs = value.as_str().unwrap_or_default().split("\n\n").filter(|one| !one.is_empty());
    paragraphs.map(|one| format!("<p>{}</p>", marked(one))).collect::<Vec<_>>().concat()
}

fn inline(value: &Value) -> String {
    marked(value.as_str().unwrap_or_default())
}

/// Escapes `text`, and makes code of what stands between backticks.
fn marked(text: &str) -> String {
    let mut html = String::new();
    for (idx, piece) in text.split('`').enumerate() {
        let piece = escaped(piece);
        if idx % 2 == 1 {
            push(&mut html, format_args!("<code>{piece}</code>"));
        } else {
            html.push_str(&piece);
        }
    }
    html
}

/// Escapes what means something in HTML, inside quoted attributes too.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

fn push(to: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    to.write_fmt(what).unwrap_or_default();
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
