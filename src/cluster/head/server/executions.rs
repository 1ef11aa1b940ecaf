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
use wire::executions::ExecutionsResponse;

use super::{
    super::{Found, Head},
    answer,
    error::Refused,
};

/// Executions listed unless the request says otherwise.
const LIMIT_DEFAULT: usize = 100;

/// How long a canceled execution may take to end before its state is served unchanged. It needs no more
/// than a turn of its task, unless the machine is overloaded.
const CANCELED_WITHIN: Duration = Duration::from_secs(1);

/// The query of the list.
#[derive(Debug, Deserialize)]
struct Query {
    limit: Option<usize>,
}

/// Answers the newest executions, the newest first, without their results.
pub(super) async fn executions(State(head): State<Head>, uri: Uri) -> Result<Response, Refused> {
    let query: Query = extract::query(&uri).map_err(Refused::Unreadable)?;
    let executions = head.executions(query.limit.unwrap_or(LIMIT_DEFAULT));
    Ok(answer(&ExecutionsResponse { executions }))
}

/// Answers one execution, with its results.
pub(super) async fn execution(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    head.execution(&id).map(|execution| answer(&execution)).ok_or(Refused::UnknownExecution)
}

/// Cancels an execution, also on its workers, and answers what is known of it. One that has ended
/// stays as it is.
pub(super) async fn cancel(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    head.cancel(&id).ok_or(Refused::UnknownExecution)?;
    let ended = wait::until(CANCELED_WITHIN, || async {
        if matches!(head.find_execution(&id), Some(Found::UnderWay)) {
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
