//! Describing an HTTP API as an `OpenAPI` document, from its handlers and the shapes in `wire`.
//!
//! An endpoint is described where it is handled:
//!
//! ```text
//! /// Renames a key.
//! ///
//! /// The first paragraph is the operation's summary; what follows, its description.
//! #[utoipa::path(patch, path = paths::ACCOUNTS_KEY, operation_id = "rename_key", tag = "keys",
//!     params(KeyPath), request_body = KeyName,
//!     responses((status = 200, description = "The key", body = KeyBody)))]
//! pub(super) async fn patch(…) -> … { … }
//! ```
//!
//! - **Shapes** derive `ToSchema` in `wire`; the docs of fields are their descriptions. A generic
//!   `Page<T>` is called `Page_T`. Examples of bodies are in `assets/examples/<room>.json`, by schema.
//! - **Parameters** are the structs that the handler reads from its query or path, which derive
//!   `IntoParams` beside `Deserialize`: `#[into_params(parameter_in = Query)]`, with
//!   `#[param(minimum = 1, inline)]` on fields. A type of its own needs `inline`: schemas of
//!   parameters are not collected.
//! - **Routes** are made from the same attribute, so that none is left out or made up:
//!   `OpenApiRouter::new().routes(routes!(key::patch, key::delete))`, methods of one path in one
//!   `routes!`. The room's `openapi.rs` gives that router's document to [`describe`].
//! - [`describe`] adds what all operations share: who may ask, where an operation has no `security`
//!   of its own (`security(())` is anybody), and refusals (of the key, by status, and the rest).

#[cfg(any(test, feature = "faults"))]
mod tests;

use axum::{
    body::Bytes,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};
use utoipa::{
    ToSchema,
    openapi::{Components, OpenApi, RefOr, Schema},
};

#[cfg(any(test, feature = "faults"))]
pub use self::tests::find_faults;
use crate::api_docs;

/// What an API's description says beside its operations.
#[derive(Debug)]
pub struct About<'a> {
    /// What the API is called.
    pub title: &'a str,
    /// What it is, for people, in paragraphs.
    pub text: &'a str,
    /// The groups of its operations, in their order: name, and what is in it.
    pub groups: &'a [(&'a str, &'a str)],
    /// The `security` of operations that have none of their own, such as `[{"key": []}]`.
    pub security: Value,
    /// The cookie that carries a session; empty where there are no sessions.
    pub session_cookie: &'a str,
    /// Refusals that several operations share.
    pub refusals: &'a [SharedRefusal<'a>],
    /// Examples of bodies, as a JSON object whose members are named as their schemas are.
    pub examples: &'a str,
}

/// A refusal of every operation below a path.
#[derive(Debug, Clone, Copy)]
pub struct SharedRefusal<'a> {
    /// How the paths begin.
    pub below: &'a str,
    /// The HTTP status, three digits.
    pub status: &'a str,
    /// What it says.
    pub text: &'a str,
}

/// A description as it is served: as a document, and as a page. Made once, since it does not change
/// while the program runs.
#[derive(Debug, Clone)]
pub struct Description {
    document: Bytes,
    page: String,
}

impl Description {
    /// Writes `document`, which is served at `url`, and its page.
    #[must_use]
    pub fn new(document: &Value, url: &str) -> Self {
        Self { document: document.to_string().into(), page: api_docs::render(document, url) }
    }

    /// Answers the document.
    #[must_use]
    pub fn document(&self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.document.clone()).into_response()
    }

    /// Answers the page.
    #[must_use]
    pub fn page(&self) -> Response {
        api_docs::respond(self.page.clone())
    }
}

/// Returns the document of `api`. A refused request is answered with a `Refusal`, one whose key is
/// missing or unknown with a `NoKey`.
#[must_use]
pub fn describe<Refusal: ToSchema, NoKey: ToSchema>(api: OpenApi, about: &About<'_>) -> Value {
    write_document(api, about, Shape::describe::<Refusal>(), Shape::describe::<NoKey>())
}

/// The schema of a type, and those that it refers to.
struct Shape {
    name: String,
    schemas: Vec<(String, RefOr<Schema>)>,
}

impl Shape {
    fn describe<T: ToSchema>() -> Self {
        let name = T::name().into_owned();
        let mut schemas = vec![(name.clone(), T::schema())];
        T::schemas(&mut schemas);
        Self { name, schemas }
    }
}

/// Names no type, so that it is compiled once and not in each room that describes an API.
fn write_document(mut api: OpenApi, about: &About<'_>, refusal: Shape, no_key: Shape) -> Value {
    let components = api.components.get_or_insert_with(Components::new);
    components.schemas.extend(refusal.schemas);
    components.schemas.extend(no_key.schemas);
    let mut document = serde_json::to_value(&api).unwrap_or_default();
    tidy_schemas(&mut document);
    share_items(&mut document["components"]["schemas"]);
    let paths = document["paths"].as_object_mut();
    for (path, methods) in paths.into_iter().flatten() {
        for operation in methods.as_object_mut().into_iter().flat_map(Map::values_mut) {
            let responses = operation["responses"].as_object_mut().into_iter();
            for response in responses.flat_map(Map::values_mut) {
                describe_bytes(response);
            }
            if let Some(body) = operation.get_mut("requestBody") {
                describe_bytes(body);
            }
            if operation["security"].is_null() {
                operation["security"] = about.security.clone();
            }
            let is_by_key = operation["security"][0]["key"].is_array();
            let mut refuse = |status: &str, text: &str, schema: &str| {
                // An operation may say more of its own.
                if operation["responses"][status].is_null() {
                    let schema = format!("#/components/schemas/{schema}");
                    let content = json!({"application/json": {"schema": {"$ref": schema}}});
                    operation["responses"][status] =
                        json!({"description": text, "content": content});
                }
            };
            for SharedRefusal { below, status, text } in about.refusals {
                if path.starts_with(below) {
                    refuse(status, text, &refusal.name);
                }
            }
            refuse("default", "Refused: the text says why", &refusal.name);
            if is_by_key {
                refuse("401", "The key is missing or unknown", &no_key.name);
                refuse("429", "The key, or the network, asked too often", &refusal.name);
                operation["responses"]["429"]["headers"] = limit_headers();
            }
        }
    }
    // A test of each document finds examples that are none.
    let examples: Map<String, Value> = serde_json::from_str(about.examples).unwrap_or_default();
    for (name, example) in examples {
        document["components"]["schemas"][name]["example"] = example;
    }
    let groups = about.groups.iter().map(|(name, text)| json!({"name": name, "description": text}));
    document["tags"] = groups.collect();
    document["info"] = json!({
        "title": about.title,
        "version": env!("CARGO_PKG_VERSION"),
        "description": about.text,
    });
    document["components"]["securitySchemes"] = schemes(&document, about.session_cookie);
    document
}

/// Says of the contents of a body which are bytes: those that are neither JSON nor text.
fn describe_bytes(body: &mut Value) {
    let contents = body.get_mut("content").and_then(Value::as_object_mut);
    for (media_type, content) in contents.into_iter().flatten() {
        if !media_type.contains("json") && !media_type.starts_with("text/") {
            content["schema"] = json!({"type": "string", "format": "binary"});
        }
    }
}

/// The ways in that any operation asks for.
fn schemes(document: &Value, session_cookie: &str) -> Value {
    let mut schemes = json!({
        "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        "session": {"type": "apiKey", "in": "cookie", "name": session_cookie},
        "operator": {"type": "http", "scheme": "bearer"},
        "token": {"type": "http", "scheme": "bearer"},
    });
    let paths = document["paths"].to_string();
    if let Some(schemes) = schemes.as_object_mut() {
        schemes.retain(|name, _| paths.contains(&format!("{{\"{name}\":[]}}")));
    }
    schemes
}

/// The headers that tell what is left, and when to come again.
fn limit_headers() -> Value {
    let header =
        |text: &str| json!({"description": text, "schema": {"type": "integer", "minimum": 0}});
    json!({
        "Retry-After": header("Seconds until there may be another request."),
        "RateLimit-Limit": header("The limit on requests that was hit, where it is one."),
        "RateLimit-Remaining": header("What is left of it: 0."),
        "RateLimit-Reset": header("Seconds until there may be another request."),
    })
}

/// Refers to the items of each `Page_T` by their name; utoipa writes them out.
fn share_items(schemas: &mut Value) {
    let Some(schemas) = schemas.as_object_mut() else { return };
    let is_page = |name: &&String| name.starts_with("Page_");
    let pages: Vec<String> = schemas.keys().filter(is_page).cloned().collect();
    for page in pages {
        let name = page.trim_start_matches("Page_").to_owned();
        let items = &mut schemas[&page]["properties"]["results"]["items"];
        let reference = json!({"$ref": format!("#/components/schemas/{name}")});
        let item = std::mem::replace(items, reference);
        schemas.entry(name).or_insert(item);
    }
}

/// Makes lines of each paragraph one, since docs are wrapped for readers of the code; says what a
/// value is that may be null beside its types, not within the first; and lets a value be of several
/// alternatives at once, as an empty page is of rows and of buckets.
fn tidy_schemas(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(mut alternatives) = members.remove("oneOf") {
                if alternatives[1] == json!({"type": "null"})
                    && let Some(first) = alternatives[0].as_object_mut()
                    && let Some(text) = first.remove("description")
                {
                    members.insert("description".to_owned(), text);
                }
                members.insert("anyOf".to_owned(), alternatives);
            }
            // A flattened part that is none leaves its fields out.
            for part in members.get_mut("allOf").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if part["oneOf"][1] == json!({"type": "null"}) {
                    part["oneOf"][1] = json!({"type": "object"});
                }
            }
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("summary" | "description", Value::String(text)) => {
                        let paragraphs = text.split("\n\n").map(|one| one.replace('\n', " "));
                        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
                    }
                    (_, member) => tidy_schemas(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_schemas),
        _ => {}
    }
}
