//! The REST API of a head, by document 1, and what it tells beyond.
//!
//! An execution that was accepted answers HTTP 200 whatever came of it; the outcome is the `code` in
//! the body. A request that was not accepted answers another status and `{"message":"…"}`.

mod error;
mod execute;
mod functions;
mod health;
mod nodes;

use std::time::Duration;

use axum::{
    Router,
    http::header,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde::Serialize;
use web::request::{RequestOptions, layered};
use wire::paths;

use self::error::Refused;
use super::{Head, ROLL_CALL_WITHIN_MAX};

/// The longest request body taken, in bytes: a quarter below the longest message between nodes, since
/// a work order carries what the body carried and a little more.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The longest time until an answer: the longest roll call, 40 s of gathering, and a reserve.
const ANSWER_WITHIN: Duration = ROLL_CALL_WITHIN_MAX.saturating_add(Duration::from_secs(50));

/// Returns the routes of `head`.
pub fn router(head: Head) -> Router {
    let router = Router::new()
        .route(paths::FUNCTIONS_EXECUTE, post(execute::execute))
        .route(paths::NODES, get(nodes::nodes))
        .route(paths::FUNCTIONS, get(functions::functions))
        .route(paths::HEAD_HEALTH, get(health::health))
        .fallback(async || Refused::NotFound)
        .method_not_allowed_fallback(async || Refused::MethodNotAllowed)
        .with_state(head);
    let options = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        answer_within: ANSWER_WITHIN,
        refuse: error::refuse,
    };
    layered(router, options)
}

/// Answers HTTP 200 and a body of JSON and a line feed, as existing heads do.
fn answer(body: &impl Serialize) -> Response {
    let mut bytes = crate::message::json(body);
    bytes.push(b'\n');
    ([(header::CONTENT_TYPE, "application/json")], bytes).into_response()
}
