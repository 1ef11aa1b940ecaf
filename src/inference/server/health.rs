//! `GET /health`: whether the service's files answer and take writes. Needs no key.

use accounts::gate::Gate;
use axum::{
    Extension,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::error::ApiError;
use crate::Inference;

pub(super) async fn get(
    State(inference): State<Inference>,
    Extension(gate): Extension<Gate>,
) -> Response {
    if let Err(error) = inference.check_file().await {
        return ApiError::from(error).into_response();
    }
    if let Err(error) = gate.check_file().await {
        return ApiError::Accounts(error).into_response();
    }
    StatusCode::OK.into_response()
}
