//! The chain's parameters, all 57 of its message `emissions.v9.Params`, which v10 still has.

use axum::Json;
use serde_json::{Map, Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::paths::emissions::windows as of;

use super::{ApiError, App, Asked, ChainParams, Version};
use crate::{
    math::{
        outlier,
        sortition::{FORECASTERS_MAX_DEFAULT, INFERERS_MAX_DEFAULT},
    },
    network::{
        submission::FORECAST_MAX,
        topic::{EPOCH_LENGTH_MIN, LABELS_MAX, STRING_BYTES_MAX, label::LABEL_BYTES_MAX},
    },
};

/// Parameters that mean nothing here, by the defaults of the chain as of v0.17 (`DefaultParams` in
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

/// Parameters that hold here, as on the chain. Nothing costs anything, and nothing is staked.
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

/// Whitelists, of which only that of topic creators exists: keys of operators create topics.
const WHITELISTS: &[(&str, bool)] = &[
    ("global_admin_whitelist_appended", false),
    ("global_reputer_whitelist_enabled", false),
    ("global_whitelist_enabled", false),
    ("global_worker_whitelist_enabled", false),
    ("topic_creator_whitelist_enabled", true),
];

/// The router of this query.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(params))
}

/// The chain's parameters by name.
///
/// Those that this network takes are its own, the others are as on the chain.
#[utoipa::path(get, path = of::PARAMS, tag = "windows", params(Version),
    responses((status = 200, description = "What was asked for", body = inline(ChainParams))))]
async fn params(asked: Asked) -> Result<Json<Value>, ApiError> {
    asked.check_version()?;
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
