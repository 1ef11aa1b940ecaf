//! `GET /health`: whether the service and its store answer. Needs no key.

use axum::{
    Json,
    extract::State,
    response::{IntoResponse as _, Response},
};
use web::answer::Unavailable;
use wire::datasets::HealthBody;

use super::App;

pub(super) async fn get(State(app): State<App>) -> Response {
    let time = app.clock.now().to_string();
    let body = |status: &str, database: &str| HealthBody {
        status: status.to_owned(),
        time,
        database: database.to_owned(),
    };
    match app.datasets.tags().await {
        Ok(_) => Json(body("healthy", "connected")).into_response(),
        Err(_) => Unavailable(body("unhealthy", "disconnected")).into_response(),
    }
}
