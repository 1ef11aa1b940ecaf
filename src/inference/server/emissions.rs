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

use std::collections::BTreeMap;

use axum::Json;
use axum::routing::{MethodRouter, get};
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
use super::openapi::bodies::{AtBlock, ByVersion};
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
    fn get<T, F>(self, id: &str, handler: fn(Params) -> F) -> Self
    where
        T: ToSchema + Serialize + 'static,
        F: Future<Output = Answer<T>> + Send + 'static,
    {
        self.add::<T>(id, &json!(T::schema()), get(handler))
    }

    /// Adds a query as [`Self::get`] does. Its response is an object whose only member, `member`, is
    /// the result of `handler`.
    fn member<T, F>(self, id: &str, member: &'static str, handler: fn(Params) -> F) -> Self
    where
        T: ToSchema + Serialize + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let properties = json!({member: T::schema()});
        let schema = json!({"type": "object", "required": [member], "properties": properties});
        let answer = move |params: Params| async move {
            handler(params).await.map(|value| Json(BTreeMap::from([(member, value)])))
        };
        self.add::<T>(id, &schema, get(answer))
    }

    /// Adds the query `id`, whose response has the schema `schema` and refers to the schemas of `T`.
    fn add<T: ToSchema>(mut self, id: &str, schema: &Value, route: MethodRouter<App>) -> Self {
        let mut schemas = Vec::new();
        T::schemas(&mut schemas);
        if let Some(text) = QueryText::all().find(|text| text.id == id) {
            let paths = text.describe(self.tag, "Result", &json!({"schema": schema}));
            self.router = self.router.routes((schemas, paths, route));
        }
        self
    }
}

/// Description of a query.
pub(super) struct QueryText<'t> {
    /// Id of the operation in the API description.
    pub(super) id: &'t str,
    /// Path after the version, then `?` and the names of query parameters, separated by `&`. A `?` after
    /// a name marks it as optional.
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
        let describe = |name: &str| match name.strip_suffix('?') {
            Some(name) => json!({"name": name, "in": "query", "required": false}),
            None => json!({"name": name, "in": "query", "required": true}),
        };
        let names = query.split('&').filter(|name| !name.is_empty());
        let parameters: Vec<Value> = names.map(describe).collect();
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
