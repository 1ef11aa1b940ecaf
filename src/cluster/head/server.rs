//! The REST API of a head, by document 1, and what it tells beyond.
//!
//! An execution that was accepted answers HTTP 200 whatever came of it; the outcome is the `code` in
//! the body. A request that was not accepted answers another status and `{"message":"…"}`. Who may
//! ask for what is in `auth.rs`.

mod auth;
mod bodies;
mod error;
mod events;
mod evict;
mod execute;
mod executions;
mod functions;
mod health;
mod install;
mod metrics;
mod nodes;
mod openapi;
mod result;

use std::time::Duration;

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRef},
    http::header,
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Serialize;
use task::group::Group;
use utoipa_axum::{
    router::{OpenApiRouter, UtoipaMethodRouterExt as _},
    routes,
};
use web::{
    host_names::HostNames,
    middleware::{RequestOptions, add_layers, wrap},
    query_names::check_query_names,
};
use wire::paths;

pub use self::auth::{RestToken, RestTokenError};
use self::{
    bodies::{BODY_WITHIN, Bodies},
    error::Refused,
};
use super::{Head, order::ROLL_CALL_WITHIN_MAX};
use content::CAR_BYTES_MAX;

/// The longest request body taken, in bytes: a quarter below the longest message between nodes, since
/// a work order carries what the body carried and a little more.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How much longer an answer may take than the longest roll call and two workers' time.
const ANSWER_RESERVE: Duration = Duration::from_secs(10);

/// How a REST API is served: by default without a token, under any address and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct RestOptions {
    /// What requests must bear; none for an API that is open.
    pub token: Option<RestToken>,
    /// The names under which the API is reached.
    pub hosts: HostNames,
    /// Whether programs of this machine need not bear the token.
    pub is_loopback_trusted: bool,
}

/// What handlers are given.
#[derive(Debug, Clone)]
struct Rest {
    head: Head,
    /// Stopped, it ends endless answers.
    group: Group,
    bodies: Bodies,
}

impl FromRef<Rest> for Head {
    fn from_ref(rest: &Rest) -> Self {
        rest.head.clone()
    }
}

/// Returns the routes of `head`, whose endless answers end with `group`.
pub fn router(head: Head, options: RestOptions, group: &Group) -> Router {
    let answer_within = ROLL_CALL_WITHIN_MAX
        + head.0.compile_within
        + head.0.answer_within * 2
        + BODY_WITHIN
        + ANSWER_RESERVE;
    let (router, description) = api().split_for_parts();
    let router =
        check_query_names(router, &description, &[], |error| Refused::from(error).into_response())
            .fallback(async || Refused::NOT_FOUND)
            .method_not_allowed_fallback(async || Refused::METHOD_NOT_ALLOWED)
            .with_state(Rest { head, group: group.clone(), bodies: Bodies::new() });
    let router = wrap(router, move |request, next| auth::check(&options, request, next));
    let options =
        RequestOptions { body_bytes_max: BODY_BYTES_MAX, answer_within, refuse: error::refuse };
    add_layers(router, options)
}

/// Every path of the API.
fn api() -> OpenApiRouter<Rest> {
    let uploads = DefaultBodyLimit::max(CAR_BYTES_MAX);
    OpenApiRouter::new()
        .routes(routes!(execute::execute))
        .routes(routes!(install::install))
        .routes(routes!(evict::evict))
        .routes(routes!(result::result))
        .routes(routes!(executions::executions))
        .routes(routes!(executions::execution, executions::cancel))
        .routes(routes!(events::events))
        .routes(routes!(nodes::nodes))
        .routes(routes!(nodes::node, nodes::change))
        .routes(routes!(functions::functions, functions::upload).layer(uploads))
        .routes(routes!(functions::function, functions::remove))
        .routes(routes!(health::health))
        .routes(routes!(metrics::metrics))
        .routes(routes!(openapi::openapi))
}

/// Returns the one route of a node that is no head, under `hosts`: its counts, as `text` tells them.
pub fn metrics_router(
    text: impl Fn() -> String + Clone + Send + Sync + 'static,
    hosts: &HostNames,
) -> Router {
    let route = get(async move || web::metrics::respond(text()));
    let router = Router::new()
        .route(paths::METRICS, route)
        .fallback(async || Refused::NOT_FOUND)
        .method_not_allowed_fallback(async || Refused::METHOD_NOT_ALLOWED);
    let options = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        answer_within: ANSWER_RESERVE,
        refuse: error::refuse,
    };
    add_layers(hosts.wrap(router, error::refuse), options)
}

/// Answers HTTP 200 and a body of JSON and a line feed, as existing heads do.
fn answer(body: &impl Serialize) -> Response {
    let mut bytes = crate::message::json(body);
    bytes.push(b'\n');
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}
