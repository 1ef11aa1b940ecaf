//! `GET /health`: says that the service serves. Needs no key.

use axum::http::StatusCode;

pub(super) async fn get() -> StatusCode {
    StatusCode::OK
}
