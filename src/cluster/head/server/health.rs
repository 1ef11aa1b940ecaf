//! `GET /api/v1/health`: says that a head serves.

use axum::response::Response;
use wire::{functions::HeadHealth, paths};

use super::answer;

/// Says that the head serves.
#[utoipa::path(get, path = paths::HEAD_HEALTH, tag = "cluster",
    responses((status = 200, description = "It does", body = HeadHealth)))]
pub(super) async fn health() -> Response {
    answer(&HeadHealth { code: 200, kind: "MsgHealthCheck".to_owned() })
}
