//! `POST /api/v1/functions/execute`: runs a function on nodes of the cluster.
//!
//! With `Prefer: respond-async`, or `async` in the configuration, the answer is 202 and the request's
//! id at once, and the execution goes on: the path in `Location` tells how it goes.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use model::node::PeerId;
use web::address::{AddressSource, Network};
use wire::{
    functions::{ClusterBody, ExecuteRequest, ExecuteResponse},
    paths,
};

use super::{
    super::{Client, Execution, order::Order},
    Rest, answer,
    error::{Refused, accepted},
};
use crate::message::Code;

/// The header by which a client asks not to wait (RFC 7240).
const PREFER: &str = "prefer";

/// Runs a function on nodes of the cluster.
///
/// The answer is 200 whatever came of it: see `code`. It is 202 at once with `Prefer:
/// respond-async` or `config.async`.
#[utoipa::path(post, path = paths::FUNCTIONS_EXECUTE, tag = "functions",
    params(("Prefer" = Option<String>, Header,
        description = "`respond-async` for an answer at once.")), request_body = ExecuteRequest,
    responses((status = 200, description = "The outcome", body = ExecuteResponse),
        (status = 202, description = "It goes on", body = ExecuteResponse)))]
pub(super) async fn execute(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, Refused> {
    let client = client(&request);
    let prefers_async = prefers_async(request.headers());
    let request: ExecuteRequest = rest.bodies.read(request).await?;
    let order = Order::read(&request).map_err(|wrong| Refused::invalid(&wrong))?;
    if !prefers_async && request.config.is_async != Some(true) {
        let execution = rest.head.execute(&client, order).await?;
        return Ok(answer(&response(&execution)));
    }
    let request_id = rest.head.execute_soon(&client, order)?;
    let location = paths::EXECUTION.replace("{id}", &request_id);
    let mut response = accepted(&under_way(request_id));
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Whose turn in the queue a request takes.
fn client(request: &Request) -> Client {
    let caller = AddressSource::Connection.caller(request.headers(), request.extensions());
    caller.map_or(Client::Program, |address| Client::Network(Network::from_address(address)))
}

fn prefers_async(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
    preferences
        .flat_map(|value| value.split([',', ';']))
        .any(|preference| preference.trim().eq_ignore_ascii_case("respond-async"))
}

/// The body for an execution that is under way.
pub(super) fn under_way(request_id: String) -> ExecuteResponse {
    let code = Code::ACCEPTED.as_str().to_owned();
    ExecuteResponse { code, request_id, ..ExecuteResponse::default() }
}

/// The body for an execution that has ended.
pub(super) fn response(execution: &Execution) -> ExecuteResponse {
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
    fn a_client_prefers_not_to_wait_in_any_spelling() {
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
