//! `/api/v1/executions`, and `/{id}` below it: looks at executions, and cancels one.

use std::time::Duration;

use axum::{
    extract::{Path, State},
    http::Uri,
    response::Response,
};
use serde::Deserialize;
use task::wait;
use tracing::warn;
use web::extract;
use wire::{
    executions::{ExecutionBody, ExecutionsResponse},
    paths,
};

use super::{
    super::{ExecutionStatus, Head},
    answer,
    error::Refused,
};

/// The query of the list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Query {
    /// How many to list at most; 100 where it is left out.
    limit: Option<usize>,
}

/// The newest executions, the newest first, without their results.
#[utoipa::path(get, path = paths::EXECUTIONS, tag = "executions", params(Query),
    responses((status = 200, description = "Executions", body = ExecutionsResponse)))]
pub(super) async fn executions(State(head): State<Head>, uri: Uri) -> Result<Response, Refused> {
    let query: Query = extract::query(&uri)?;
    let executions = head.executions().list(query.limit.unwrap_or(100));
    Ok(answer(&ExecutionsResponse { executions }))
}

/// One execution, with its results.
#[utoipa::path(get, path = paths::EXECUTION, tag = "executions",
    params(("id" = String, Path, description = "The id of the request.")),
    responses((status = 200, description = "The execution", body = ExecutionBody)))]
pub(super) async fn execution(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    head.executions().get(&id).map(|execution| answer(&execution)).ok_or(Refused::UNKNOWN_EXECUTION)
}

/// Cancels an execution, also on its workers. One that has ended stays unchanged.
#[utoipa::path(delete, path = paths::EXECUTION, tag = "executions",
    params(("id" = String, Path, description = "The id of the request.")),
    responses((status = 200, description = "The execution", body = ExecutionBody)))]
pub(super) async fn cancel(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    head.executions().cancel(&id).ok_or(Refused::UNKNOWN_EXECUTION)?;
    // Ending takes one turn of the execution's task, unless the machine is overloaded.
    let ended = wait::until(Duration::from_secs(1), || async {
        if matches!(head.executions().find(&id), Some(ExecutionStatus::UnderWay)) {
            Err("under way")
        } else {
            Ok(())
        }
    });
    if ended.await.is_err() {
        warn!(request = %id, "a canceled execution has not ended yet");
    }
    execution(State(head), Path(id)).await
}
