//! Queries with constant responses: for the chain's parameters, and for features that this network does
//! not have, such as stakes, rewards, fees and global whitelists.
//!
//! The chain's clients send these queries. Those about missing features are read from
//! `assets/constant-queries.txt`.

use std::collections::BTreeMap;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use wire::inference::chain::ChainParam;

use super::{App, OpenApiRouter, Params, Queries, QueryText, Result};
use crate::math::outlier;
use crate::math::sortition::{FORECASTERS_MAX_DEFAULT, INFERERS_MAX_DEFAULT};
use crate::network::submission::FORECAST_MAX;
use crate::network::topic::{EPOCH_LENGTH_MIN, LABEL_BYTES_MAX, LABELS_MAX, STRING_BYTES_MAX};

/// Returns the path, the summary and the response of each query in `assets/constant-queries.txt`.
pub(in crate::server) fn constant_queries() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = include_str!("../../../../assets/constant-queries.txt").lines();
    lines.filter_map(|line| line.split(" | ").collect::<Vec<_>>().try_into().ok())
}

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    let router = Queries::new("windows").member("params", "params", params).router;
    constant_queries().fold(router, |router, [path, summary, body]| {
        let (parts, words): (Vec<&str>, Vec<&str>) =
            path.split('/').skip(1).partition(|part| part.starts_with('{'));
        // The number of path segments makes the id unique, since two queries of the chain differ only
        // in their path parameters.
        let id = format!("{}_{}", words.join("_"), parts.len() + 1);
        let text = QueryText { id: &id, path, summary, description: None };
        let example: Value = serde_json::from_str(body).unwrap_or_default();
        let content = json!({"schema": {"type": "object"}, "example": example});
        let paths = text.describe("constants", "Constant response", &content);
        let handler = move |params: Params| async move { respond(&params, body) };
        router.routes((Vec::new(), paths, get(handler)))
    })
}

/// Returns the constant `body`, or an error if the topic of the request does not exist.
fn respond(params: &Params, body: &'static str) -> Result<Response> {
    params.check_version()?;
    if params.has_part("topic_id") {
        params.topic()?;
    }
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns the chain's parameters by name. Limits have the values of this network.
async fn params(params: Params) -> Result<BTreeMap<String, ChainParam>> {
    params.check_version()?;
    let limits = [
        ("inference_outlier_detection_alpha", outlier::ALPHA.to_string()),
        ("inference_outlier_detection_threshold", outlier::THRESHOLD.to_string()),
        ("max_canonical_label_byte_length", LABEL_BYTES_MAX.to_string()),
        ("max_elements_per_forecast", FORECAST_MAX.to_string()),
        ("max_epoch_label_registry_size", "32768".to_owned()),
        ("max_string_length", STRING_BYTES_MAX.to_string()),
        ("max_top_forecasters_to_reward", FORECASTERS_MAX_DEFAULT.to_string()),
        ("max_top_inferers_to_reward", INFERERS_MAX_DEFAULT.to_string()),
        ("max_topic_label_whitelist_size", LABELS_MAX.to_string()),
        ("min_epoch_length", EPOCH_LENGTH_MIN.to_string()),
    ];
    let limits = limits.into_iter().map(|(name, text)| (name.to_owned(), ChainParam::Text(text)));
    // The file has the chain's defaults as of v0.17 (`DefaultParams` in `x/emissions/types/params.go`),
    // with fees and stakes of 0, and with topics that only operators' keys can create.
    let mut params: BTreeMap<String, ChainParam> =
        serde_json::from_str(include_str!("../../../../assets/chain-params.json"))?;
    params.extend(limits);
    Ok(params)
}
