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

/// Tells whether the service and its store answer.
#[utoipa::path(get, path = paths::HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, body = HealthBody, description = "They do, or the service is read-only and \
            reads work"),
        (status = 503, description = "A file does not answer, or was removed", body = HealthBody),
        (status = 507, description = "The disk is full: reads go on", body = HealthBody)))]
pub(super) async fn get(State(app): State<App>) -> Response {
    let Health { code, status, database } = app.health.get(check(&app)).await;
    let body =
        HealthBody { status: status.to_owned(), time: app.clock.now().to_string(), database };
    (code, Json(body)).into_response()
}

/// What was found of the service.
#[derive(Debug, Clone)]
pub(super) struct Health {
    code: StatusCode,
    status: &'static str,
    database: String,
}

async fn check(app: &App) -> Health {
    let health =
        |code, status, database: &str| Health { code, status, database: database.to_owned() };
    let state = match app.datasets.check().await {
        Ok(()) => app.gate.keys().check_file().await.err().map(|error| match error {
            AccountsError::Full => "accounts: full",
            AccountsError::Replaced => "accounts: replaced",
            _ => "accounts: disconnected",
        }),
        Err(StoreError::Full) => Some("full"),
        Err(StoreError::Replaced) => Some("replaced"),
        Err(_) => Some("disconnected"),
    };
    match state {
        None if app.datasets.is_read_only() => health(StatusCode::OK, "healthy", "read-only"),
        None => health(StatusCode::OK, "healthy", "connected"),
        Some(state) => {
            let is_full = state.ends_with("full");
            let code = if is_full {
                StatusCode::INSUFFICIENT_STORAGE
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            health(code, "unhealthy", state)
        }
    }
}
