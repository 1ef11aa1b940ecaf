//! Describes an HTTP API as an `OpenAPI` document, from its handlers and the types in `wire`.
//!
//! An endpoint is described at its handler:
//!
//! ```text
//! /// Renames a key.
//! ///
//! /// The first paragraph is the operation's summary, and the rest its description.
//! #[utoipa::path(patch, path = paths::ACCOUNTS_KEY, operation_id = "rename_key", tag = "keys",
//!     params(KeyPath), request_body = KeyName,
//!     responses((status = 200, description = "The key", body = KeyBody)))]
//! pub(super) async fn patch(…) -> … { … }
//! ```
//!
//! - **Types** derive `ToSchema` in `wire`. The docs of their fields are the descriptions. A generic
//!   `Page<T>` is called `Page_T`. Examples of bodies are in `assets/examples/<crate>.json`, by schema.
//! - **Parameters** are the structs that the handler reads from its query or path. They derive
//!   `IntoParams` in addition to `Deserialize`: `#[into_params(parameter_in = Query)]`, with
//!   `#[param(minimum = 1, inline)]` on fields. A custom type needs `inline`, since schemas of
//!   parameters are not collected.
//! - **Routes** are created from the same attribute, so that they are complete:
//!   `OpenApiRouter::new().routes(routes!(key::patch, key::delete))`, with all methods of a path in one
//!   `routes!`. The crate's `openapi.rs` passes that router's document to [`describe`].
//! - [`describe`] adds the parts that operations share: `security` to operations that do not declare it
//!   (`security(())` means no authentication), and the error responses that an operation does not
//!   describe itself. These are the [`SharedRefusal`]s of its path, 401 and 429 if it needs a key, and
//!   `default`.

#[cfg(any(test, feature = "faults"))]
mod tests;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{Components, OpenApi, RefOr, Schema};

#[cfg(any(test, feature = "faults"))]
pub use self::tests::find_faults;
use crate::api_docs;

/// General properties of an API's description.
#[derive(Debug)]
pub struct About<'a> {
    /// Name of the API.
    pub title: &'a str,
    /// Introduction for human readers, in paragraphs.
    pub text: &'a str,
    /// Names and descriptions of the groups of operations, in the order of the document.
    pub groups: &'a [(&'a str, &'a str)],
    /// Value of `security` for operations that do not declare it, such as `[{"key": []}]`.
    pub security: Value,
    /// Name of the session cookie. Empty if the API has no sessions.
    pub session_cookie: &'a str,
    /// Error responses that several operations share.
    pub refusals: &'a [SharedRefusal<'a>],
    /// Examples of bodies: a JSON object with a member for each schema, named like the schema.
    pub examples: &'a str,
}

/// Error response that all operations below a path share.
#[derive(Debug, Clone, Copy)]
pub struct SharedRefusal<'a> {
    /// Prefix of the operations' paths.
    pub below: &'a str,
    /// HTTP status as three digits.
    pub status: &'a str,
    /// Description of the response.
    pub text: &'a str,
}

/// Rendered description, as a document and as a page. It is created once, since it does not change while
/// the program runs.
#[derive(Debug, Clone)]
pub struct Description {
    document: Bytes,
    page: String,
}

impl Description {
    /// Renders `document`, which is served at `url`, and its page.
    #[must_use]
    pub fn new(document: &Value, url: &str) -> Self {
        Self { document: document.to_string().into(), page: api_docs::render(document, url) }
    }

    /// Responds with the document.
    #[must_use]
    pub fn document(&self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.document.clone()).into_response()
    }

    /// Responds with the page.
    #[must_use]
    pub fn page(&self) -> Response {
        api_docs::respond(self.page.clone())
    }
}

/// Returns the document of `api`. A rejected request gets a body `Refusal`, or a body `NoKey` if its key
/// is missing or unknown.
#[must_use]
pub fn describe<Refusal: ToSchema, NoKey: ToSchema>(api: OpenApi, about: &About<'_>) -> Value {
    write_document(api, about, Shape::describe::<Refusal>(), Shape::describe::<NoKey>())
}

/// Schema of a type, with the schemas that it references.
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

/// Completes the document. This function is not generic, so that it is compiled only once.
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
                // The response is added only if the operation does not already describe it more
                // specifically.
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
            refuse("default", "Rejected. The text has the reason", &refusal.name);
            if is_by_key {
                refuse("401", "The key is missing or unknown", &no_key.name);
                refuse("429", "The key or the network sent too many requests", &refusal.name);
                operation["responses"]["429"]["headers"] = limit_headers();
            }
        }
    }
    // If the examples are not valid JSON, a test of each document fails.
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

/// Describes bodies that are neither JSON nor text as bytes.
fn describe_bytes(body: &mut Value) {
    let contents = body.get_mut("content").and_then(Value::as_object_mut);
    for (media_type, content) in contents.into_iter().flatten() {
        if !media_type.contains("json") && !media_type.starts_with("text/") {
            content["schema"] = json!({"type": "string", "format": "binary"});
        }
    }
}

/// Returns the authentication schemes that the operations use.
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

/// Returns the headers that describe the state of the rate limit.
fn limit_headers() -> Value {
    let header =
        |text: &str| json!({"description": text, "schema": {"type": "integer", "minimum": 0}});
    json!({
        "Retry-After": header("Seconds until the next request is possible."),
        "RateLimit-Limit": header("The limit on requests that was reached, if it is one."),
        "RateLimit-Remaining": header("Remaining requests: 0."),
        "RateLimit-Reset": header("Seconds until the next request is possible."),
    })
}

/// Replaces the item type of each `Page_T` with a reference by name, since utoipa writes the type
/// inline.
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

/// Joins the lines of each paragraph, since doc comments are wrapped for the code. Moves the description
/// of a nullable value from its first alternative to the value itself. Allows a value to match several
/// alternatives, since an empty page matches both pages of rows and pages of buckets.
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
            // utoipa describes an optional flattened part as an object or null. If such a part is
            // missing, the surrounding value is still an object without the part's fields, so null is
            // replaced by any object.
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
