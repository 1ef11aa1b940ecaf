//! `POST /api/v1/functions/execute` runs a function on nodes of the cluster.
//! `POST /api/v1/functions/requests/result` returns the response to an earlier execution.
//!
//! With `Prefer: respond-async`, or `async` in the configuration, the response is immediate: status
//! 202 and the id of the request. `Location` is then the path of the execution.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use model::node::PeerId;
use web::address::{AddressSource, Network};
use wire::functions::{ClusterBody, ExecuteRequest, ExecuteResponse, ResultRequest};
use wire::paths;

use super::super::order::Order;
use super::super::{Client, Execution, ExecutionStatus};
use super::error::{RestError, accepted};
use super::{Rest, respond};
use crate::message::Code;

/// Header with which a client requests an immediate response (RFC 7240).
const PREFER: &str = "prefer";

/// Runs a function on nodes of the cluster.
///
/// The status is 200 for any outcome, which is described by `code`. With `Prefer: respond-async` or
/// `config.async`, the response is sent immediately with status 202.
#[utoipa::path(post, path = paths::FUNCTIONS_EXECUTE, tag = "functions",
    params(("Prefer" = Option<String>, Header,
        description = "`respond-async` for an immediate response.")), request_body = ExecuteRequest,
    responses((status = 200, description = "The outcome", body = ExecuteResponse),
        (status = 202, description = "The execution is in progress", body = ExecuteResponse)))]
pub(super) async fn execute(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, RestError> {
    let client = client(&request);
    let prefers_async = prefers_async(request.headers());
    let request: ExecuteRequest = rest.bodies.read(request).await?;
    let is_async = prefers_async || request.config.is_async == Some(true);
    let order = Order::read(request).map_err(|errors| RestError::invalid(&errors))?;
    if !is_async {
        let execution = rest.head.execute(&client, order).await?;
        let memory = rest.results.reserve_or_exceed(execution.n_output_bytes()).await;
        return Ok(memory.respond(response(&execution)).await);
    }
    let request_id = rest.head.execute_soon(&client, order)?;
    let location = paths::EXECUTION.replace("{id}", &request_id);
    let mut response = accepted(&in_progress(request_id));
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Response to an earlier execution.
///
/// Its `code` is 202 while the execution is in progress.
#[utoipa::path(post, path = paths::FUNCTIONS_RESULT, tag = "functions",
    request_body = ResultRequest,
    responses((status = 200, description = "The response", body = ExecuteResponse),
        (status = 404, description = "The execution is not remembered")))]
pub(super) async fn result(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, RestError> {
    let ResultRequest { id } = rest.bodies.read(request).await?;
    if id.is_empty() {
        return Err(RestError::MISSING_ID);
    }
    match rest.head.executions().find(&id) {
        Some(ExecutionStatus::Ended(execution)) => {
            let memory = rest.results.reserve(execution.n_output_bytes()).await?;
            Ok(memory.respond(response(&execution)).await)
        }
        Some(ExecutionStatus::InProgress) => Ok(respond(&in_progress(id))),
        None => Err(RestError::UNKNOWN_RESULT),
    }
}

/// Returns the client that a request is counted for.
pub(super) fn client(request: &Request) -> Client {
    let caller = AddressSource::Connection.caller(request.headers(), request.extensions());
    caller.map_or(Client::Program, |address| Client::Network(Network::from_address(address)))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    preferences
        .flat_map(|value| value.split([',', ';']))
        .any(|preference| preference.trim().eq_ignore_ascii_case("respond-async"))
}

/// Returns the body for an execution in progress.
fn in_progress(request_id: String) -> ExecuteResponse {
    let code = Code::ACCEPTED.as_str().to_owned();
    ExecuteResponse { code, request_id, ..ExecuteResponse::default() }
}

/// Returns the body for a completed execution.
fn response(execution: &Execution) -> ExecuteResponse {
    let Execution { code, request_id, message, groups, peers, .. } = execution;
    ExecuteResponse {
        code: code.as_str().to_owned(),
        request_id: request_id.clone(),
        message: message.clone(),
        results: groups.iter().cloned().map(Into::into).collect(),
        cluster: ClusterBody { peers: peers.iter().map(PeerId::to_string).collect() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn respond_async_preference_is_recognized_in_any_case() {
        let prefers = |value: &'static str| {
            prefers_async(&HeaderMap::from_iter([(
                header::HeaderName::from_static(PREFER),
                HeaderValue::from_static(value),
            )]))
        };
        assert!(prefers("respond-async") && prefers("wait=10, Respond-Async"));
        assert!(!prefers("respond-sync") && !prefers("") && !prefers_async(&HeaderMap::new()));
    }
}
