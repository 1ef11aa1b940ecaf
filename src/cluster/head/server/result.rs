//! `POST /api/v1/functions/requests/result`: the answer to an earlier execution, once more.

use axum::{
    extract::{Request, State},
    response::Response,
};
use wire::functions::ResultRequest;

use super::{
    super::{Found, Head},
    answer,
    bodies::Bodies,
    error::Refused,
    execute,
};

/// Answers what the execution was answered; code 202 while it is under way.
pub(super) async fn result(
    State(head): State<Head>,
    State(bodies): State<Bodies>,
    request: Request,
) -> Result<Response, Refused> {
    let ResultRequest { id } = bodies.read(request).await?;
    if id.is_empty() {
        return Err(Refused::MissingId);
    }
    match head.find_execution(&id) {
        Some(Found::Ended(execution)) => Ok(answer(&execute::response(&execution))),
        Some(Found::UnderWay) => Ok(answer(&execute::under_way(id))),
        None => Err(Refused::UnknownResult),
    }
}
