//! `POST /api/v1/functions/requests/result`: the answer to an earlier execution, once more.

use axum::{
    extract::{Request, State},
    response::Response,
};
use wire::{
    functions::{ExecuteResponse, ResultRequest},
    paths,
};

use super::{super::ExecutionStatus, Rest, answer, error::Refused, execute};

/// The answer to an earlier execution.
///
/// Its `code` is 202 while the execution is under way.
#[utoipa::path(post, path = paths::FUNCTIONS_RESULT, tag = "functions",
    request_body = ResultRequest,
    responses((status = 200, description = "The answer", body = ExecuteResponse),
        (status = 404, description = "It is not remembered")))]
pub(super) async fn result(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, Refused> {
    let ResultRequest { id } = rest.bodies.read(request).await?;
    if id.is_empty() {
        return Err(Refused::MISSING_ID);
    }
    match rest.head.executions().find(&id) {
        Some(ExecutionStatus::Ended(execution)) => Ok(answer(&execute::response(&execution))),
        Some(ExecutionStatus::UnderWay) => Ok(answer(&execute::under_way(id))),
        None => Err(Refused::UNKNOWN_RESULT),
    }
}
