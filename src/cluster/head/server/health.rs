//! `GET /api/v1/health`: says that a head serves.

use axum::response::Response;
use serde_json::json;

use super::answer;

/// Answers what existing heads answer.
pub(super) async fn health() -> Response {
    answer(&json!({"code": 200, "type": "MsgHealthCheck"}))
}
