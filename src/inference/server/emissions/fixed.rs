//! Queries with constant responses: the chain's parameters, and features that this network does not
//! have, such as stakes, rewards, fees and global whitelists.
//!
//! Clients of the chain need them. The queries about missing features are routed and described from a
//! table in [`wire`].

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use wire::paths::emissions::fixed::{FixedQuery, QUERIES};
use wire::paths::emissions::windows::PARAMS;

use super::{Answer, App, ChainParams, FOUND, Params, Result, Version};
use crate::math::outlier;
use crate::math::sortition::{FORECASTERS_MAX_DEFAULT, INFERERS_MAX_DEFAULT};
use crate::network::submission::FORECAST_MAX;
use crate::network::topic::{EPOCH_LENGTH_MIN, LABEL_BYTES_MAX, LABELS_MAX, STRING_BYTES_MAX};

/// Group of these queries in the description.
const GROUP: &str = "constants";

/// Returns the router of all constant queries, with their description.
pub(super) fn api() -> OpenApiRouter<App> {
    let router = OpenApiRouter::with_openapi(description());
    QUERIES.iter().fold(router, |router, query| {
        router.route(
            query.path,
            get(move |params: Params| async move { respond(&params, query.body) }),
        )
    })
}

/// Returns the constant `body`, if the topic of the request exists.
fn respond(params: &Params, body: &'static str) -> Result<Response> {
    params.check_version()?;
    if params.has_part("topic_id") {
        params.topic()?;
    }
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// Returns the description of all constant queries. It is always valid, as a test checks.
fn description() -> OpenApi {
    let paths: Map<String, Value> =
        QUERIES.iter().map(|query| (query.path.to_owned(), operation(query))).collect();
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "", "version": ""},
        "paths": paths,
    });
    serde_json::from_value(document).unwrap_or_default()
}

fn operation(query: &FixedQuery) -> Value {
    let parts = query.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameters: Vec<Value> = parts.clone().map(parameter).collect();
    let name = query.path.split('/').filter(|part| !part.is_empty() && !part.starts_with('{'));
    let name: Vec<&str> = name.skip(1).collect();
    // Two queries of the chain differ only in their parameters.
    let id = format!("{}_{}", name.join("_"), parts.count());
    let body: Value = serde_json::from_str(query.body).unwrap_or_default();
    json!({"get": {
        "tags": [GROUP],
        "summary": query.summary,
        "operationId": id,
        "parameters": parameters,
        "responses": {"200": {
            "description": "Constant response",
            "content": {"application/json": {"schema": {"type": "object"}, "example": body}},
        }},
    }})
}

fn parameter(name: &str) -> Value {
    let (text, schema) = match name {
        "version" => {
            ("Version of the chain's API.", json!({"type": "string", "enum": ["v10", "v9"]}))
        }
        "topic_id" => {
            ("Id of the topic.", json!({"type": "integer", "format": "uint64", "minimum": 1}))
        }
        "block_height" => ("Height.", json!({"type": "integer", "format": "uint64", "minimum": 0})),
        _ => ("Address, or id of a topic.", json!({"type": "string"})),
    };
    json!({"name": name, "in": "path", "required": true, "description": text, "schema": schema})
}

/// Parameters without a meaning here: defaults of the chain as of v0.17 (`DefaultParams` in
/// `x/emissions/types/params.go`).
const OF_CHAIN: &[(&str, &str)] = &[
    ("beta_entropy", "0.25"),
    ("blocks_per_month", "864000"),
    ("c_norm", "0.75"),
    ("c_reward_forecast", "0.75"),
    ("c_reward_inference", "0.75"),
    ("default_page_limit", "100"),
    ("gradient_descent_max_iters", "10"),
    ("half_max_process_stake_removals_end_block", "40"),
    ("learning_rate", "0.05"),
    ("max_active_topics_per_block", "1"),
    ("max_gradient_threshold", "0.001"),
    ("max_page_limit", "1000"),
    ("max_samples_to_scale_scores", "10"),
    ("max_serialized_msg_length", "1000000"),
    ("max_unfulfilled_reputer_requests", "100"),
    ("max_unfulfilled_worker_requests", "100"),
    ("max_whitelist_input_array_length", "2000"),
    ("min_epoch_length_record_limit", "3"),
    ("min_stake_fraction", "0.5"),
    ("min_topic_weight", "100"),
    ("p_reward_forecast", "3"),
    ("p_reward_inference", "3"),
    ("p_reward_reputer", "1"),
    ("remove_stake_delay_window", "604800"),
    ("task_reward_alpha", "0.1"),
    ("topic_reward_alpha", "0.5"),
    ("topic_reward_fee_revenue_importance", "0.5"),
    ("topic_reward_stake_importance", "0.5"),
    ("validators_vs_allora_percent_reward", "0.25"),
];

/// Parameters with a meaning here, with the values of the chain. Fees and stakes are 0.
const OURS: &[(&str, &str)] = &[
    ("version", "v10"),
    ("create_topic_fee", "0"),
    ("data_sending_fee", "0"),
    ("epsilon_reputer", "0.01"),
    ("epsilon_safe_div", "0.0000001"),
    ("initial_regret_quantile", "0.25"),
    ("lambda_initial_score", "2"),
    ("max_top_reputers_to_reward", "1"),
    ("min_experienced_worker_regrets", "10"),
    ("min_weight_threshold_for_stdnorm", "0.000001"),
    ("p_norm_safe_div", "8.25"),
    ("registration_fee", "0"),
    ("required_minimum_stake", "0"),
];

/// Whitelists. Only operators' keys create topics.
const WHITELISTS: &[(&str, bool)] = &[
    ("global_admin_whitelist_appended", false),
    ("global_reputer_whitelist_enabled", false),
    ("global_whitelist_enabled", false),
    ("global_worker_whitelist_enabled", false),
    ("topic_creator_whitelist_enabled", true),
];

/// Returns the chain's parameters by name.
///
/// Limits are those of this network, the others those of the chain.
#[utoipa::path(get, path = PARAMS, tag = "windows", params(Version),
    responses((status = 200, description = FOUND, body = inline(ChainParams))))]
pub(super) async fn params(params: Params) -> Answer<Value> {
    params.check_version()?;
    let limits = [
        ("inference_outlier_detection_alpha", outlier::ALPHA.to_string()),
        ("inference_outlier_detection_threshold", outlier::THRESHOLD.to_string()),
        ("max_canonical_label_byte_length", LABEL_BYTES_MAX.to_string()),
        ("max_elements_per_forecast", FORECAST_MAX.to_string()),
        ("max_epoch_label_registry_size", crate::store::LABELS_MAX.to_string()),
        ("max_string_length", STRING_BYTES_MAX.to_string()),
        ("max_top_forecasters_to_reward", FORECASTERS_MAX_DEFAULT.to_string()),
        ("max_top_inferers_to_reward", INFERERS_MAX_DEFAULT.to_string()),
        ("max_topic_label_whitelist_size", LABELS_MAX.to_string()),
        ("min_epoch_length", EPOCH_LENGTH_MIN.to_string()),
    ];
    let texts = OF_CHAIN.iter().chain(OURS).map(|(name, text)| (*name, Value::from(*text)));
    let limits = limits.into_iter().map(|(name, text)| (name, Value::from(text)));
    let whitelists = WHITELISTS.iter().map(|(name, is_enabled)| (*name, Value::from(*is_enabled)));
    let all = texts.chain(limits).chain(whitelists);
    let params: Map<String, Value> = all.map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(Json(json!({ "params": params })))
}
