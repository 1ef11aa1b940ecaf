//! Responses with a status other than 200, named so that a handler needs no numbers.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// 201 and a body: something new is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created<T>(pub T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}
