//! Queries of the chain, grouped by subject.
//!
//! The description of most queries is in `assets/chain-queries.txt`. The remaining queries are described
//! at their handlers.

mod bundles;
mod fixed;
mod losses;
mod scores;
mod submissions;
mod windows;

use axum::Json;
use axum::routing::get;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;
use utoipa::openapi::path::{Operation, Paths};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::paths::{EMISSIONS_NEW, EMISSIONS_OLD};

pub(super) use self::bundles::Bodies;
#[cfg(test)]
pub(super) use self::fixed::constant_queries;
pub(super) use self::losses::body as loss_body;
use super::App;
use super::error::{ApiError, Result};
use super::openapi::parameters::{AddressMember, AtBlock, ByVersion, ChainParams, LeaveOut};
use super::request::Params;
use crate::network::topic::Topic;

/// Result of a query.
type Answer<T> = Result<Json<T>>;

/// Returns the router of all queries.
pub(super) fn api() -> OpenApiRouter<App> {
    let queries = fixed::api()
        .merge(submissions::api())
        .merge(bundles::api())
        .merge(losses::api())
        .merge(windows::api())
        .merge(scores::api());
    OpenApiRouter::new()
        .routes(routes!(bundles::latest_network_inferences))
        .routes(routes!(bundles::latest_network_inferences_outlier_resistant))
        .nest("/emissions/{version}", queries)
}

/// Router of a group of queries, with their descriptions.
struct Queries {
    /// Name of the group.
    tag: &'static str,
    router: OpenApiRouter<App>,
}

impl Queries {
    /// Creates a group without queries.
    fn new(tag: &'static str) -> Self {
        Self { tag, router: OpenApiRouter::new() }
    }

    /// Adds a query with its `handler`. Its path and description come from the entry `id` in
    /// `assets/chain-queries.txt`.
    fn get<T, F>(mut self, id: &str, handler: fn(Params) -> F) -> Self
    where
        T: ToSchema + Serialize + 'static,
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        let mut schemas = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut schemas);
        let reference = format!("#/components/schemas/{}", T::name());
        let content = json!({"schema": {"$ref": reference}});
        for text in QueryText::all().filter(|text| text.id == id) {
            let paths = text.describe(self.tag, "Result", &content);
            self.router = self.router.routes((schemas.clone(), paths, get(handler)));
        }
        self
    }
}

/// Description of a query.
pub(super) struct QueryText<'t> {
    /// Id of the operation in the API description.
    pub(super) id: &'t str,
    /// Path after the version, then `?` and the names of required query parameters, separated by `&`.
    pub(super) path: &'t str,
    summary: &'t str,
    description: Option<&'t str>,
}

impl QueryText<'static> {
    /// Returns the queries in `assets/chain-queries.txt`.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let lines = include_str!("../../../assets/chain-queries.txt").lines();
        lines.filter_map(|line| {
            let mut columns = line.split(" | ");
            Some(Self {
                id: columns.next()?,
                path: columns.next()?,
                summary: columns.next()?,
                description: columns.next(),
            })
        })
    }
}

impl QueryText<'_> {
    /// Returns the API description of the query in the group `tag`, with a JSON response.
    fn describe(&self, tag: &str, response: &str, content: &Value) -> Paths {
        let (path, query) = self.path.split_once('?').unwrap_or((self.path, ""));
        let parameters = query.split('&').filter(|name| !name.is_empty());
        let parameters: Vec<Value> =
            parameters.map(|name| json!({"name": name, "in": "query", "required": true})).collect();
        let operation = json!({
            "tags": [tag],
            "summary": self.summary,
            "description": self.description,
            "operationId": self.id,
            "parameters": parameters,
            "responses": {"200": {
                "description": response,
                "content": {"application/json": content},
            }},
        });
        let mut paths = Paths::new();
        // The JSON is always valid, which a test checks.
        let operation: Operation = serde_json::from_value(operation).unwrap_or_default();
        paths.add_path_operation(path, vec![HttpMethod::Get], operation);
        paths
    }
}

/// Returns the error for a topic with several labels, which the old version cannot represent.
fn no_form(topic: &Topic) -> ApiError {
    let id = topic.id;
    ApiError::invalid(format!(
        "topic {id} has several labels, which {EMISSIONS_OLD} cannot represent; use {EMISSIONS_NEW}"
    ))
}
