//! `GET /api/v1/functions/{id}`: one function and its files; `DELETE` has the head forget it.
//!
//! Workers that hold it keep it.

use axum::{
    extract::{Path, State},
    response::Response,
};
use content::Function;
use model::function::FunctionId;
use wire::{
    functions::{FunctionBody, FunctionDetail},
    paths,
};

use super::{super::Head, answer, error::Refused};

/// One function and its files.
#[utoipa::path(get, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "The function", body = FunctionDetail)))]
pub(super) async fn function(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let detail = head.0.context.functions.detail(find(&head, &id)?.id).await?;
    Ok(answer(&detail.ok_or(Refused::UNKNOWN_FUNCTION)?))
}

/// Has the head forget a function. Workers that hold it keep it.
#[utoipa::path(delete, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "What was removed", body = FunctionBody)))]
pub(super) async fn remove(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let function = find(&head, &id)?;
    head.0.context.functions.remove(function.id).await?;
    Ok(answer(&function.body()))
}

/// The function by the id that the path names.
fn find(head: &Head, id: &str) -> Result<Function, Refused> {
    let id = FunctionId::parse_any(id).map_err(|_| Refused::UNKNOWN_FUNCTION)?;
    head.0.context.functions.get(id).ok_or(Refused::UNKNOWN_FUNCTION)
}
