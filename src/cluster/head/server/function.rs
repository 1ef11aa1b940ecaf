//! `GET /api/v1/functions/{id}`: one function and its files; `DELETE` has the head forget it.
//!
//! Workers that hold it keep it.

use axum::{
    extract::{Path, State},
    response::Response,
};
use model::function::FunctionId;
use wire::functions::{FileBody, FunctionDetail};

use super::{super::Head, answer, error::Refused, functions::body};

/// Answers what the function is and has.
pub(super) async fn function(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let id = FunctionId::parse_any(&id).map_err(|_| Refused::UnknownFunction)?;
    let function = head.store().get(id).ok_or(Refused::UnknownFunction)?;
    let files = head.store().files(id).await.map_err(Refused::Function)?;
    let files = files.ok_or(Refused::UnknownFunction)?.into_iter().map(|file| FileBody {
        path: file.path,
        bytes: file.size_bytes as u64,
        runs: file.is_method,
    });
    Ok(answer(&FunctionDetail { function: body(function), files: files.collect() }))
}

/// Answers what was removed.
pub(super) async fn remove(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let id = FunctionId::parse_any(&id).map_err(|_| Refused::UnknownFunction)?;
    let function = head.store().get(id).ok_or(Refused::UnknownFunction)?;
    head.store().remove(id).await.map_err(Refused::Function)?;
    Ok(answer(&body(function)))
}
