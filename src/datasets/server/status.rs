//! `/`, `/health`, `/metrics` and `/api/docs/`: state and description of the service. These requests
//! need no key.

use std::error::Error;

use accounts::AccountsError;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use db::postgres::fault::Rejection;
use tsdb::store::StoreError;
use web::api_docs;
use wire::datasets::HealthBody;
use wire::paths::{self, DOCS, HEALTH, PORTAL};

use super::App;
use super::openapi::DESCRIPTION;
use crate::error::{OperationError, Result};

/// True if the service also serves the portal.
#[derive(Debug, Clone, Copy)]
pub(super) struct HasPortal(pub(super) bool);

/// Links to the pages for people: the portal, if this service has it, and this description.
#[utoipa::path(get, path = paths::ROOT, operation_id = "root", tag = "service", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn root(Extension(HasPortal(has_portal)): Extension<HasPortal>) -> Response {
    let portal = if has_portal {
        format!("<li><a href=\"{PORTAL}\">Portal</a>: sign up, and make API keys\n")
    } else {
        String::new()
    };
    api_docs::respond(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Triptych datasets</title>\n<h1>Triptych datasets</h1>\n<ul>\n{portal}\
         <li><a href=\"{DOCS}\">API reference</a>: every path, with examples\n\
         <li><a href=\"{HEALTH}\">Health</a>\n</ul>\n</html>\n"
    ))
}

/// Reports the health of the service and its store.
#[utoipa::path(get, path = HEALTH, operation_id = "health", tag = "service", security(()),
    responses((status = 200, body = HealthBody, description = "Healthy, or read-only and readable"),
        (status = 503, description = "A file cannot be used, or was removed", body = HealthBody),
        (status = 507, description = "The disk is full. Reads still work", body = HealthBody)))]
pub(super) async fn health(State(app): State<App>) -> Response {
    let Health { code, status, database } = app.health.get(check(&app)).await;
    let body =
        HealthBody { status: status.to_owned(), time: app.clock.now().to_string(), database };
    (code, Json(body)).into_response()
}

/// Outcome of a health check.
#[derive(Debug, Clone)]
pub(super) struct Health {
    code: StatusCode,
    status: &'static str,
    database: String,
}

async fn check(app: &App) -> Health {
    let found =
        |code, status, database: &str| Health { code, status, database: database.to_owned() };
    let state = match app.datasets.check().await {
        Ok(()) => app.gate.keys().check_file().await.err().map(|error| {
            let state = match error {
                AccountsError::Full => "full",
                AccountsError::Replaced => "replaced",
                error => rejection_state(&error),
            };
            format!("accounts: {state}")
        }),
        Err(StoreError::Full) => Some("full".to_owned()),
        Err(StoreError::Replaced) => Some("replaced".to_owned()),
        Err(StoreError::NoArchive) => Some("archive missing".to_owned()),
        Err(error) => Some(rejection_state(&error).to_owned()),
    };
    match state {
        None if app.datasets.is_read_only() => found(StatusCode::OK, "healthy", "read-only"),
        None => found(StatusCode::OK, "healthy", "connected"),
        Some(state) => {
            let is_full = state.ends_with("full");
            let code = if is_full {
                StatusCode::INSUFFICIENT_STORAGE
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            found(code, "unhealthy", &state)
        }
    }
}

/// Returns the state of a database that failed with `error`.
fn rejection_state(error: &(dyn Error + 'static)) -> &'static str {
    Rejection::of(error).map_or("disconnected", |rejection| rejection.state)
}

/// Returns metrics as Prometheus text.
#[utoipa::path(get, path = paths::METRICS, operation_id = "metrics", tag = "service", security(()),
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(app): State<App>) -> Result<Response> {
    let text = app.datasets.render_metrics(app.gate.keys()).await;
    let text = text.map_err(OperationError::Store)?;
    Ok(web::metrics::respond(text).await)
}

/// Returns this description as a page for people.
#[utoipa::path(get, path = DOCS, operation_id = "docs", tag = "service", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    DESCRIPTION.page()
}
