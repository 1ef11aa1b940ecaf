//! Describing an HTTP API as an `OpenAPI` document, out of a table of its operations.
//!
//! A room says what its operations are; the schemas of bodies come from the shapes in `wire`.
//! Schemas of parameters are written down as JSON, since they are short.

use std::collections::BTreeSet;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// An API to be described.
#[derive(Debug)]
pub struct Api<'a> {
    /// What it is called.
    pub title: &'a str,
    /// The version of the API.
    pub version: &'a str,
    /// What it is, for people.
    pub text: &'a str,
    /// The groups of its operations, in their order: name, and what is in it.
    pub groups: &'a [(&'a str, &'a str)],
    /// The operations, in groups.
    pub operations: &'a [&'a [Operation]],
    /// The schemas that operations name.
    pub schemas: Map<String, Value>,
    /// The schema of the answer to a request that is refused.
    pub refusal: &'a str,
    /// The schema of the answer where the key is missing or unknown.
    pub no_key: &'a str,
    /// The header that carries the key.
    pub key_header: &'a str,
    /// The cookie that says who is logged in.
    pub session_cookie: &'a str,
}

/// An operation: a method of a path.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// In small letters, such as `get`.
    pub method: &'static str,
    /// With `{…}` where a request fills something in.
    pub path: &'static str,
    /// Its name in programs that are made from the description. No two are alike.
    pub id: &'static str,
    /// The group it belongs to.
    pub group: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What else there is to know; may be empty.
    pub text: &'static str,
    /// Parameters of path, query and header.
    pub parameters: &'static [Parameter],
    /// Forms of its body: none without one.
    pub body: &'static [Content],
    /// Answers that are no refusals.
    pub answers: &'static [Answer],
    /// Who may ask.
    pub caller: Caller,
}

/// Who may ask for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// Who sends an API key.
    Key,
    /// Who is logged in, which a cookie shows.
    Session,
    /// Who has the operator's token.
    Operator,
    /// Anybody, without credentials.
    Anybody,
}

/// A parameter of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// `path`, `query` or `header`.
    pub place: &'static str,
    /// The parameter's name.
    pub name: &'static str,
    /// Its schema, as JSON.
    pub schema: &'static str,
    /// What it means.
    pub text: &'static str,
}

/// A form of a body.
#[derive(Debug, Clone, Copy)]
pub struct Content {
    /// The media type.
    pub kind: &'static str,
    /// The name of its schema.
    pub schema: &'static str,
}

/// A response of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// The HTTP status, three digits.
    pub status: &'static str,
    /// What it says.
    pub text: &'static str,
    /// The forms of its body: none without one.
    pub contents: &'static [Content],
}

/// A parameter of the query that may be left out.
#[must_use]
pub const fn query(name: &'static str, schema: &'static str, text: &'static str) -> Parameter {
    Parameter { place: "query", name, schema, text }
}

/// A part of the path.
#[must_use]
pub const fn part(name: &'static str, schema: &'static str, text: &'static str) -> Parameter {
    Parameter { place: "path", name, schema, text }
}

/// A header that may be left out.
#[must_use]
pub const fn header(name: &'static str, schema: &'static str, text: &'static str) -> Parameter {
    Parameter { place: "header", name, schema, text }
}

/// A body that is JSON of `schema`.
#[must_use]
pub const fn json_of(schema: &'static str) -> Content {
    Content { kind: "application/json", schema }
}

/// An answer of `status`.
#[must_use]
pub const fn answer(
    status: &'static str,
    text: &'static str,
    contents: &'static [Content],
) -> Answer {
    Answer { status, text, contents }
}

impl Api<'_> {
    /// The ways in that any operation asks for.
    fn schemes(&self) -> Value {
        let mut schemes = json!({
            "key": {"type": "apiKey", "in": "header", "name": self.key_header},
            "session": {"type": "apiKey", "in": "cookie", "name": self.session_cookie},
            "operator": {"type": "http", "scheme": "bearer"},
        });
        if let Some(schemes) = schemes.as_object_mut() {
            let operations = || self.operations.iter().copied().flatten();
            schemes.retain(|name, _| {
                operations().any(|asked| asked.caller.scheme() == Some(name.as_str()))
            });
        }
        schemes
    }

    /// Returns the document, of version 3.1 of `OpenAPI`.
    #[must_use]
    pub fn describe(self) -> Value {
        let mut paths = Map::new();
        for operation in self.operations.iter().copied().flatten() {
            let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
            if let Some(methods) = methods.as_object_mut() {
                methods.insert(operation.method.to_owned(), operation.describe(&self));
            }
        }
        let groups =
            self.groups.iter().map(|(name, text)| json!({"name": name, "description": text}));
        json!({
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": self.version, "description": self.text},
            "tags": groups.collect::<Vec<_>>(),
            "paths": paths,
            "components": {
                "schemas": self.schemas,
                "securitySchemes": self.schemes(),
            },
        })
    }
}

impl Caller {
    /// The name of the way in; none where anybody is let in.
    const fn scheme(self) -> Option<&'static str> {
        match self {
            Self::Key => Some("key"),
            Self::Session => Some("session"),
            Self::Operator => Some("operator"),
            Self::Anybody => None,
        }
    }
}

impl Operation {
    fn describe(&self, api: &Api<'_>) -> Value {
        let mut responses = Map::new();
        for answer in self.answers {
            let mut described = json!({"description": answer.text});
            if !answer.contents.is_empty() {
                described["content"] = contents(answer.contents);
            }
            responses.insert(answer.status.to_owned(), described);
        }
        let mut refuse = |status: &str, text: &str, schema: &str| {
            let body = json!({"application/json": {"schema": reference(schema)}});
            let told = || json!({"description": text, "content": body});
            // An operation may say more of its own.
            responses.entry(status).or_insert_with(told);
        };
        if self.caller == Caller::Key {
            refuse("401", "The key is missing or unknown", api.no_key);
            refuse("429", "The key, or the network, asked too often", api.refusal);
        }
        refuse("default", "Refused: the text says why", api.refusal);
        if let Some(limited) = responses.get_mut("429") {
            limited["headers"] = limit_headers();
        }
        let mut operation = json!({
            "operationId": self.id,
            "tags": [self.group],
            "summary": self.summary,
            "parameters": self.parameters.iter().map(Parameter::describe).collect::<Vec<_>>(),
            "responses": responses,
            "security": self.caller.scheme().map(|name| json!({name: []})).into_iter().collect::<Value>(),
        });
        if !self.text.is_empty() {
            operation["description"] = json!(self.text);
        }
        if !self.body.is_empty() {
            operation["requestBody"] = json!({"required": true, "content": contents(self.body)});
        }
        operation
    }
}

impl Parameter {
    fn describe(&self) -> Value {
        // A test of each table reads all of them.
        let schema: Value = serde_json::from_str(self.schema).unwrap_or_default();
        let is_required = self.place == "path" || schema["x-required"] == json!(true);
        let mut schema = schema;
        if let Some(schema) = schema.as_object_mut() {
            schema.remove("x-required");
        }
        json!({
            "in": self.place,
            "name": self.name,
            "required": is_required,
            "description": self.text,
            "schema": schema,
        })
    }
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

fn contents(contents: &[Content]) -> Value {
    let content =
        |content: &Content| (content.kind.to_owned(), json!({"schema": reference(content.schema)}));
    contents.iter().map(content).collect::<Map<_, _>>().into()
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// How schemas are made for bodies that are read, or written: what is read need not hold what has a
/// default, what is written does.
#[must_use]
pub fn settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        "/components/schemas".clone_into(settings.definitions_path.to_mut());
    })
}

/// The faults of `document`, where `served` are the paths and methods that there are.
#[must_use]
pub fn find_table_faults(document: &Value, served: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, _) in methods.as_object().into_iter().flatten() {
            described.insert((path.clone(), method.clone()));
        }
    }
    let missing = served.difference(&described).map(|route| format!("{route:?} is not described"));
    let invented = described.difference(served).map(|route| format!("{route:?} is not served"));
    missing.chain(invented).chain(super::find_faults(document)).collect()
}
