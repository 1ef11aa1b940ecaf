//! `GET /health`: whether the service's files take writes and answer. Needs no key.

use accounts::AccountsError;
use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use tsdb::store::StoreError;
use wire::{datasets::HealthBody, paths};

use super::App;

/// What is lost where old rows cannot be read.
const COLD: &str = "S3, with old rows";

/// Tells whether the service and its store answer.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, body = HealthBody, description = "They do; `degraded` while standbys of the \
            database serve reads and writes fail, or a further server of the store, or S3, is lost"),
        (status = 503, description = "A file does not answer, or was removed", body = HealthBody),
        (status = 507, description = "The disk is full: reads go on", body = HealthBody)))]
pub(super) async fn get(State(app): State<App>) -> Response {
    let time = app.clock.now().to_string();
    let body = |status: &str, database: &str| HealthBody {
        status: status.to_owned(),
        time,
        database: database.to_owned(),
    };
    let state = match app.datasets.check().await {
        Ok(()) => app.gate.keys().check_file().await.err().map(|error| match error {
            AccountsError::Full => "accounts: full",
            AccountsError::Replaced => "accounts: replaced",
            _ => "accounts: disconnected",
        }),
        Err(_) if app.datasets.is_read_only() => {
            return Json(body("degraded", "read-only")).into_response();
        }
        Err(StoreError::Full) => Some("full"),
        Err(StoreError::Replaced) => Some("replaced"),
        Err(_) => Some("disconnected"),
    };
    match state {
        None => {
            let mut lost = app.datasets.lost_servers().await;
            if app.datasets.is_cold_lost() {
                lost.push(COLD.to_owned());
            }
            if lost.is_empty() {
                return Json(body("healthy", "connected")).into_response();
            }
            Json(body("degraded", &format!("lost: {}", lost.join(", ")))).into_response()
        }
        Some(state) => {
            let is_full = state.ends_with("full");
            let status = if is_full {
                StatusCode::INSUFFICIENT_STORAGE
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            (status, Json(body("unhealthy", state))).into_response()
        }
    }
}
