//! REST API of a head, according to document 1, with extensions.
//!
//! The response to an accepted execution always has status 200. Its outcome is the `code` in the body. A
//! request that is not accepted gets another status and `{"message":"…"}`. `auth.rs` controls access.

mod auth;
mod bodies;
mod error;
mod execute;
mod executions;
mod functions;
mod nodes;
mod results;

use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRef, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use content::CAR_BYTES_MAX;
use serde::Serialize;
use serde_json::{Value, json};
use task::group::Group;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt as _};
use utoipa_axum::routes;
use web::host_names::HostNames;
use web::middleware::{RequestOptions, add_layers, wrap};
use web::openapi::{About, describe};
use web::query_names::check_query_names;
use wire::error::HeadError;
use wire::functions::HeadHealth;
use wire::paths;

pub use self::auth::{RestToken, RestTokenError};
use self::bodies::{BODY_WITHIN, Bodies};
use self::error::RestError;
use self::results::Results;
use super::Head;
use super::order::ROLL_CALL_WITHIN_MAX;

/// Maximum length of a request body, in bytes. It is a quarter below the maximum size of a message
/// between nodes, since a work order contains the body and a little more.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Time that a response can take in addition to the longest roll call and twice the time limit of a
/// worker.
const RESPONSE_RESERVE: Duration = Duration::from_secs(10);

/// Options of the REST API. By default there is no token, and the host name can be any IP address or
/// `localhost`.
#[derive(Debug, Clone, Default)]
pub struct RestOptions {
    /// Token that requests must carry; `None` for an open API.
    pub token: Option<RestToken>,
    /// Host names of the API.
    pub hosts: HostNames,
    /// True if programs on this machine need no token.
    pub is_loopback_trusted: bool,
}

/// State of the handlers.
#[derive(Debug, Clone)]
struct Rest {
    head: Head,
    /// Ends endless responses when the group stops.
    group: Group,
    bodies: Bodies,
    results: Results,
}

impl FromRef<Rest> for Head {
    fn from_ref(rest: &Rest) -> Self {
        rest.head.clone()
    }
}

/// Returns the routes of `head`. Endless responses end with `group`.
pub fn router(head: Head, options: RestOptions, group: &Group) -> Router {
    let response_within = ROLL_CALL_WITHIN_MAX
        + head.0.compile_within
        + head.0.response_within * 2
        + BODY_WITHIN
        + RESPONSE_RESERVE;
    let (router, description) = api().split_for_parts();
    let router = check_query_names(router, &description, &[], |error| {
        RestError::from(error).into_response()
    })
    .fallback(async || RestError::NOT_FOUND)
    .method_not_allowed_fallback(async || RestError::METHOD_NOT_ALLOWED)
    .with_state(Rest {
        head,
        group: group.clone(),
        bodies: Bodies::new(),
        results: Results::new(group.clone()),
    });
    let router = wrap(router, move |request, next| auth::check(&options, request, next));
    let options =
        RequestOptions { body_bytes_max: BODY_BYTES_MAX, response_within, refuse: error::refuse };
    add_layers(router, options)
}

/// Returns the routes with their descriptions.
fn api() -> OpenApiRouter<Rest> {
    let uploads = DefaultBodyLimit::max(CAR_BYTES_MAX);
    OpenApiRouter::new()
        .routes(routes!(execute::execute))
        .routes(routes!(functions::install))
        .routes(routes!(functions::evict))
        .routes(routes!(execute::result))
        .routes(routes!(executions::executions))
        .routes(routes!(executions::execution, executions::cancel))
        .routes(routes!(executions::events))
        .routes(routes!(nodes::nodes))
        .routes(routes!(nodes::node, nodes::change))
        .routes(routes!(functions::functions, functions::upload).layer(uploads))
        .routes(routes!(functions::function, functions::remove))
        .routes(routes!(health))
        // The path of health checks on the other services.
        .route(paths::HEALTH, get(health))
        .routes(routes!(metrics))
        .routes(routes!(openapi))
}

/// Returns the router of a node that is not a head. Its only route responds with the metrics that
/// `text` returns.
pub fn metrics_router(
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
    hosts: &HostNames,
) -> Router {
    let route = get(async move || web::metrics::respond(text()).await);
    let router = Router::new()
        .route(paths::METRICS, route)
        .fallback(async || RestError::NOT_FOUND)
        .method_not_allowed_fallback(async || RestError::METHOD_NOT_ALLOWED);
    let options = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        response_within: RESPONSE_RESERVE,
        refuse: error::refuse,
    };
    add_layers(hosts.wrap(router, error::refuse), options)
}

/// Returns a response with status 200 and JSON followed by a line feed, as existing heads do.
fn respond(body: &impl Serialize) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], encode(body)).into_response()
}

fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = crate::message::json(body);
    bytes.push(b'\n');
    bytes
}

/// Reports that the head serves.
#[utoipa::path(get, path = paths::HEAD_HEALTH, tag = "cluster",
    responses((status = 200, description = "It does", body = HeadHealth)))]
async fn health() -> Response {
    respond(&HeadHealth { code: 200, kind: "MsgHealthCheck".to_owned() })
}

/// Metrics in the Prometheus text format.
#[utoipa::path(get, path = paths::METRICS, tag = "cluster",
    responses((status = 200, description = "Metrics", body = String)))]
async fn metrics(State(head): State<Head>) -> Response {
    web::metrics::respond(head.metrics_text()).await
}

/// Description of the API: this document.
#[utoipa::path(get, path = paths::HEAD_OPENAPI, tag = "cluster",
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
async fn openapi() -> Response {
    respond(&document())
}

fn document() -> Value {
    let about = About {
        title: "Function execution cluster: a head",
        text: "",
        groups: &[
            ("functions", "Running and installing functions, and those that the head holds."),
            ("executions", "Executions in progress, and those that ended."),
            ("cluster", "The nodes, the events, and the state of the head."),
        ],
        security: json!([{"token": []}, {}]),
        session_cookie: "",
        refusals: &[],
        // One example of each body with all its fields, by the name of its schema.
        examples: include_str!("../../../assets/examples/cluster.json"),
    };
    let mut document = describe::<HeadError, HeadError>(api().into_openapi(), &about);
    // A request to install needs a `cid` or a `uri`.
    document["components"]["schemas"]["InstallRequest"]["anyOf"] =
        json!([{"required": ["cid"]}, {"required": ["uri"]}]);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_api_is_described() {
        let document = document();
        assert_eq!(web::openapi::find_faults(&document), Vec::<String>::new());
        let required = &document["components"]["schemas"]["ExecuteRequest"]["required"];
        assert_eq!(required, &json!(["function_id", "method"]));
    }
}
