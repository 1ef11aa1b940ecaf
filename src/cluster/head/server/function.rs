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
    functions::{FileBody, FunctionBody, FunctionDetail},
    paths,
};

use super::{super::Head, answer, error::Refused, functions::body};

/// One function and its files.
#[utoipa::path(get, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "The function", body = FunctionDetail)))]
pub(super) async fn function(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let (id, function) = find(&head, &id)?;
    let files = head.store().files(id).await?;
    let files = files.ok_or(Refused::UNKNOWN_FUNCTION)?.into_iter().map(|file| FileBody {
        path: file.path,
        bytes: file.size_bytes as u64,
        runs: file.is_method,
    });
    Ok(answer(&FunctionDetail { function: body(function), files: files.collect() }))
}

/// Has the head forget a function. Workers that hold it keep it.
#[utoipa::path(delete, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "What was removed", body = FunctionBody)))]
pub(super) async fn remove(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let (id, function) = find(&head, &id)?;
    head.store().remove(id).await?;
    Ok(answer(&body(function)))
}

/// The function by the id that the path names.
fn find(head: &Head, id: &str) -> Result<(FunctionId, Function), Refused> {
    let id = FunctionId::parse_any(id).map_err(|_| Refused::UNKNOWN_FUNCTION)?;
    head.store().get(id).map(|function| (id, function)).ok_or(Refused::UNKNOWN_FUNCTION)
}
