//! `POST /api/v1/functions/execute`: runs a function on nodes of the cluster.

use std::{num::NonZeroUsize, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    response::Response,
};
use model::{
    function::{FunctionId, Method},
    node::{GENERAL_TOPIC, PeerId, Subgroup},
};
use serde_json::Value;
use tokio::time::timeout;
use web::extract::{self, Unreadable};
use wire::functions::{ClusterBody, ExecuteRequest, ExecuteResponse};

use super::{
    super::{
        Execution, Head, Order, ROLL_CALL_WITHIN, ROLL_CALL_WITHIN_MAX, THRESHOLD_DEFAULT, Wanted,
    },
    answer,
    error::Refused,
};

/// How long a body may take to arrive: 3 MiB over a line of 2 Mbit/s.
const BODY_WITHIN: Duration = Duration::from_secs(15);

/// Answers how the execution went.
pub(super) async fn execute(
    State(head): State<Head>,
    request: Request,
) -> Result<Response, Refused> {
    let is_json = says_json(request.headers());
    let body = timeout(BODY_WITHIN, extract::bytes(request)).await;
    let body = body.unwrap_or(Err(Unreadable::Broken)).map_err(Refused::Unreadable)?;
    // Existing heads take an empty body, of any type, as a request without fields.
    let request = match body.as_ref() {
        [] => ExecuteRequest::default(),
        _ if !is_json => return Err(Refused::NotJson),
        bytes => read(bytes)?,
    };
    let order = order(&request).map_err(Refused::Invalid)?;
    let execution = head.execute(order).await.map_err(Refused::Unavailable)?;
    Ok(answer(&response(execution)))
}

fn says_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// Reads a request. Null stands for a field that is left out, as for existing heads.
fn read(bytes: &[u8]) -> Result<ExecuteRequest, Refused> {
    // A list would be read as the fields in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let reason = "expected an object, found a list".to_owned();
        return Err(Refused::Unreadable(Unreadable::Json { reason }));
    }
    serde_json::from_slice(bytes).or_else(|error| {
        let lenient = serde_json::from_slice(bytes).ok().map(without_nulls);
        lenient
            .and_then(|value| serde_json::from_value(value).ok())
            .ok_or_else(|| Refused::Unreadable(Unreadable::Json { reason: error.to_string() }))
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        other => other,
    }
}

/// Checks a request, and returns the order in it or all that is wrong with it.
fn order(request: &ExecuteRequest) -> Result<Order, Vec<String>> {
    let mut wrong = Vec::new();
    let function = parsed::<FunctionId>(&request.function_id, "function ID", &mut wrong);
    let method = parsed::<Method>(&request.method, "method", &mut wrong);
    let config = &request.config;
    let nodes = match config.number_of_nodes {
        -1 => Some(Wanted::Everyone),
        n => usize::try_from(n)
            .ok()
            .map(|n| Wanted::Exactly(NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN))),
    };
    if nodes.is_none() {
        wrong.push("number of nodes must be 1 or more, or -1 for all that report".to_owned());
    }
    let subgroup = match request.group() {
        None | Some(GENERAL_TOPIC) => None,
        Some(name) => match name.parse::<Subgroup>() {
            Ok(subgroup) => Some(subgroup),
            Err(error) => {
                wrong.push(format!("could not {error}"));
                None
            }
        },
    };
    let consensus = config.consensus_algorithm.as_deref().unwrap_or_default();
    if !consensus.is_empty() {
        wrong.push(format!(
            "consensus algorithm {} is not supported: leave it out, and compare the result groups",
            consensus.chars().take(40).collect::<String>()
        ));
    }
    let roll_call_within = match config.timeout {
        0 => ROLL_CALL_WITHIN,
        seconds => Duration::from_secs(seconds).min(ROLL_CALL_WITHIN_MAX),
    };
    let threshold = config.threshold.filter(|share| *share > 0.0 && *share <= 1.0);
    match (function, method, nodes) {
        (Some(function), Some(method), Some(nodes)) if wrong.is_empty() => Ok(Order {
            function,
            method,
            arguments: request.arguments(),
            environment: config.environment(),
            stdin: config.stdin.clone(),
            nodes,
            subgroup,
            roll_call_within,
            threshold: threshold.unwrap_or(THRESHOLD_DEFAULT),
            attributes: config.attributes.clone(),
        }),
        _ => Err(wrong),
    }
}

fn parsed<T>(text: &str, what: &str, wrong: &mut Vec<String>) -> Option<T>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    if text.is_empty() {
        wrong.push(format!("{what} is required"));
        return None;
    }
    text.parse().map_err(|error| wrong.push(format!("{what}: could not {error}"))).ok()
}

fn response(execution: Execution) -> ExecuteResponse {
    let Execution { code, request_id, message, groups, peers } = execution;
    ExecuteResponse {
        code: code.as_str().to_owned(),
        request_id,
        message,
        results: groups.into_iter().map(Into::into).collect(),
        cluster: ClusterBody { peers: peers.iter().map(PeerId::to_string).collect() },
    }
}

#[cfg(test)]
mod tests;
