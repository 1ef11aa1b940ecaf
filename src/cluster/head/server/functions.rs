//! `GET /api/v1/functions`: lists the functions a head holds.

use axum::{extract::State, response::Response};
use wire::functions::{FunctionBody, FunctionsResponse};

use super::{super::Head, answer};
use crate::functions::Function;

/// Answers the functions by name.
pub(super) async fn functions(State(head): State<Head>) -> Response {
    let functions = head.functions().into_iter().map(body).collect();
    answer(&FunctionsResponse { functions })
}

fn body(function: Function) -> FunctionBody {
    FunctionBody {
        name: function.name,
        function_id: function.id.to_string(),
        method: function.method.to_string(),
        bytes: function.size_bytes,
    }
}
