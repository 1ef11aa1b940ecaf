//! Queries of the chain, grouped as in [`wire::paths::emissions`].

mod bundles;
mod fixed;
mod losses;
mod scores;
mod submissions;
mod whitelist;
mod windows;

use axum::Json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wire::paths::{EMISSIONS_NEW, EMISSIONS_OLD};

pub(super) use self::bundles::Bodies;
pub(super) use self::losses::body as loss_body;
use super::App;
use super::error::{ApiError, Result};
use super::openapi::parameters::{
    ActorAddress, AddressMember, AtBlock, ByVersion, ChainParams, HeightPart, LeaveOut,
    PageMembers, TopicMember, TopicPart, Version,
};
use super::request::Params;
use crate::network::topic::Topic;

/// Description of a successful response.
const FOUND: &str = "Result";

/// Result of a query.
type Answer<T> = Result<Json<T>>;

/// Returns the router of all queries.
pub(super) fn api() -> OpenApiRouter<App> {
    epochs_api().merge(actors_api())
}

/// Returns the queries for topics and their epochs.
fn epochs_api() -> OpenApiRouter<App> {
    fixed::api()
        .routes(routes!(fixed::params))
        .routes(routes!(submissions::inferences_at_block))
        .routes(routes!(submissions::latest_inferences))
        .routes(routes!(submissions::forecasts_at_block))
        .routes(routes!(submissions::latest_input_inference))
        .routes(routes!(submissions::latest_inference))
        .routes(routes!(bundles::latest_network_inferences))
        .routes(routes!(bundles::latest_network_inferences_outlier_resistant))
        .routes(routes!(bundles::network_inferences_at_block))
        .routes(routes!(bundles::network_inferences_at_block_outlier_resistant))
        .routes(routes!(bundles::network_inferences))
        .routes(routes!(losses::network_loss))
        .routes(routes!(losses::reputer_loss_bundles))
        .routes(routes!(losses::inferer_network_regret))
        .routes(routes!(losses::forecaster_network_regret))
        .routes(routes!(losses::one_in_forecaster_network_regret))
        .routes(routes!(losses::naive_inferer_network_regret))
        .routes(routes!(losses::native_inferer_network_regret))
        .routes(routes!(losses::one_out_inferer_inferer_network_regret))
        .routes(routes!(losses::one_out_inferer_forecaster_network_regret))
        .routes(routes!(losses::one_out_forecaster_inferer_network_regret))
        .routes(routes!(losses::one_out_forecaster_forecaster_network_regret))
        .routes(routes!(losses::latest_regret_stdnorm))
        .routes(routes!(losses::latest_inferer_weight))
        .routes(routes!(losses::latest_forecaster_weight))
        .routes(routes!(windows::topic_exists))
        .routes(routes!(windows::is_topic_active))
        .routes(routes!(windows::active_topics_at_block))
        .routes(routes!(windows::next_churning_block_by_topic_id))
        .routes(routes!(windows::is_worker_nonce_unfulfilled))
        .routes(routes!(windows::is_reputer_nonce_unfulfilled))
        .routes(routes!(windows::unfulfilled_worker_nonces))
        .routes(routes!(windows::unfulfilled_reputer_nonces))
        .routes(routes!(windows::open_worker_submission_windows))
        .routes(routes!(windows::open_reputer_submission_windows))
        .routes(routes!(windows::worker_submission_window_status))
        .routes(routes!(windows::reputer_submission_window_status))
        .routes(routes!(windows::topic_last_worker_commit_info))
        .routes(routes!(windows::topic_last_reputer_commit_info))
        .routes(routes!(windows::topic_reward_nonce))
}

/// Returns the queries for actors: their scores and permissions.
fn actors_api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(scores::inferer_score_ema))
        .routes(routes!(scores::forecaster_score_ema))
        .routes(routes!(scores::reputer_score_ema))
        .routes(routes!(scores::inference_scores_until_block))
        .routes(routes!(scores::forecast_scores_until_block))
        .routes(routes!(scores::worker_inference_scores_at_block))
        .routes(routes!(scores::worker_forecast_scores_at_block))
        .routes(routes!(scores::reputers_scores_at_block))
        .routes(routes!(scores::current_lowest_inferer_score))
        .routes(routes!(scores::current_lowest_forecaster_score))
        .routes(routes!(scores::current_lowest_reputer_score))
        .routes(routes!(scores::count_inferer_inclusions_in_topic))
        .routes(routes!(scores::count_forecaster_inclusions_in_topic))
        .routes(routes!(scores::topic_quantile_inferer_score_ema))
        .routes(routes!(scores::topic_quantile_forecaster_score_ema))
        .routes(routes!(scores::topic_quantile_reputer_score_ema))
        .routes(routes!(scores::initial_inferer_ema_score))
        .routes(routes!(scores::initial_forecaster_ema_score))
        .routes(routes!(scores::initial_reputer_ema_score))
        .routes(routes!(whitelist::is_topic_worker_whitelist_enabled))
        .routes(routes!(whitelist::is_whitelisted_topic_worker))
        .routes(routes!(whitelist::can_submit_worker_payload))
        .routes(routes!(whitelist::active_inferers))
        .routes(routes!(whitelist::active_forecasters))
        .routes(routes!(whitelist::worker_registered))
        .routes(routes!(whitelist::reputer_registered))
        .routes(routes!(whitelist::worker_node_info))
        .routes(routes!(whitelist::reputer_node_info))
        .routes(routes!(whitelist::is_whitelisted_topic_reputer))
        .routes(routes!(whitelist::can_submit_reputer_payload))
        .routes(routes!(whitelist::can_update_topic_whitelist))
}

/// Error of a topic with several labels, which the old version cannot represent.
fn no_form(topic: &Topic) -> ApiError {
    let id = topic.id;
    ApiError::invalid(format!(
        "topic {id} has several labels, which {EMISSIONS_OLD} cannot represent; use {EMISSIONS_NEW}"
    ))
}
