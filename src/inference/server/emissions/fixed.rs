//! Queries about what this network does not have: stakes, rewards, fees and global whitelists.
//!
//! Clients of the chain ask them before they work. Each has one response in the chain's shape, which
//! a table in [`wire`] holds. Nothing is computed, so they are routed and described from that table
//! instead of by a handler each.

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use wire::paths::emissions::fixed::{FixedQuery, QUERIES};

use super::{ApiError, App, Asked};

/// The group of these queries in the description.
const GROUP: &str = "not here";

/// Returns the router of all fixed queries, with their description.
pub(super) fn api() -> OpenApiRouter<App> {
    let router = OpenApiRouter::with_openapi(description());
    QUERIES.iter().fold(router, |router, query| {
        router
            .route(query.path, get(move |asked: Asked| async move { respond(&asked, query.body) }))
    })
}

/// Returns the fixed `body` to a request for a topic that exists, or for no topic.
fn respond(asked: &Asked, body: &'static str) -> Result<Response, ApiError> {
    asked.check_version()?;
    if asked.has_part("topic_id") {
        asked.topic()?;
    }
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns the description of all fixed queries. It is valid by construction, and a test reads it.
fn description() -> OpenApi {
    let paths: serde_json::Map<String, Value> =
        QUERIES.iter().map(|query| (query.path.to_owned(), operation(query))).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "", "version": ""},
        "paths": paths,
    });
    serde_json::from_value(document).unwrap_or_default()
}

fn operation(query: &FixedQuery) -> Value {
    let parts = query.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = parts.clone().map(parameter).collect();
    let name = query.path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{'));
    let name: Vec<&str> = name.skip(1).collect();
    // Two queries of the chain differ by their parts alone.
    let id = format!("{}_{}", name.join("_"), parts.count());
    let body: Value = serde_json::from_str(query.body).unwrap_or_default();
    json!({"get": {
        "tags": [GROUP],
        "summary": query.summary,
        "operationId": id,
        "parameters": parameters,
        "responses": {"200": {
            "description": "Always the same",
            "content": {"application/json": {"schema": {"type": "object"}, "example": body}},
        }},
    }})
}

fn parameter(name: &str) -> Value {
    let (text, schema) = match name {
        "version" => {
            ("The version of the chain's API.", json!({"type": "string", "enum": ["v10", "v9"]}))
        }
        "topic_id" => {
            ("The topic's number.", json!({"type": "integer", "format": "uint64", "minimum": 1}))
        }
        "block_height" => {
            ("A height.", json!({"type": "integer", "format": "uint64", "minimum": 0}))
        }
        _ => ("An address, or a topic's number.", json!({"type": "string"})),
    };
    json!({"name": name, "in": "path", "required": true, "description": text, "schema": schema})
}
