//! The chain's queries: a file for each of its families, named as in [`wire::paths::emissions`].

mod bundles;
mod losses;
mod scores;
mod submissions;
mod weights;
mod whitelist;
mod windows;

use std::{str::FromStr, sync::Arc};

use axum::{Router, http::Uri, routing::get};
use model::topic::{Address, BlockHeight};
use web::extract::pairs;
use wire::paths::{EMISSIONS_NEW, EMISSIONS_OLD, emissions as paths};

pub(super) use self::{
    bundles::{Bodies, latest},
    losses::body as loss_body,
};
use super::{
    Service,
    error::{ApiError, served, topic_id},
};
use crate::{Inference, ReadError, network::topic::Topic};

/// Every query of the chain but the few that are older here.
pub(super) fn router() -> Router<Service> {
    Router::new()
        .merge(of_bundles())
        .merge(of_losses())
        .merge(of_windows())
        .merge(of_scores())
        .merge(of_whitelist())
}

fn of_bundles() -> Router<Service> {
    Router::new()
        .route(paths::bundles::LATEST_OUTLIER_RESISTANT, get(bundles::latest_outlier_resistant))
        .route(paths::bundles::AT_BLOCK, get(bundles::at_block))
        .route(paths::bundles::AT_BLOCK_OUTLIER_RESISTANT, get(bundles::at_block_outlier_resistant))
        .route(paths::submissions::INFERENCES, get(submissions::inferences))
        .route(paths::submissions::LATEST_INFERENCES, get(submissions::latest_inferences))
        .route(paths::submissions::FORECASTS, get(submissions::forecasts))
        .route(paths::submissions::LATEST_INPUT_INFERENCE, get(submissions::latest_input_inference))
        .route(paths::submissions::LATEST_INFERENCE, get(submissions::latest_inference))
}

fn of_losses() -> Router<Service> {
    use paths::losses as of;
    Router::new()
        .route(of::NETWORK_LOSS, get(losses::network_loss))
        .route(of::REPUTER_LOSS_BUNDLES, get(losses::reputer_loss_bundles))
        .route(of::INFERER_REGRET, get(losses::inferer_regret))
        .route(of::FORECASTER_REGRET, get(losses::forecaster_regret))
        .route(of::ONE_IN_FORECASTER_REGRET, get(losses::one_in_forecaster_regret))
        .route(of::NAIVE_REGRET, get(losses::naive_regret))
        .route(of::NATIVE_REGRET, get(losses::naive_regret))
        .route(of::ONE_OUT_INFERER_INFERER_REGRET, get(losses::one_out_inferer_inferer_regret))
        .route(
            of::ONE_OUT_INFERER_FORECASTER_REGRET,
            get(losses::one_out_inferer_forecaster_regret),
        )
        .route(
            of::ONE_OUT_FORECASTER_INFERER_REGRET,
            get(losses::one_out_forecaster_inferer_regret),
        )
        .route(
            of::ONE_OUT_FORECASTER_FORECASTER_REGRET,
            get(losses::one_out_forecaster_forecaster_regret),
        )
        .route(paths::weights::REGRET_STDNORM, get(weights::regret_stdnorm))
        .route(paths::weights::INFERER_WEIGHT, get(weights::inferer_weight))
        .route(paths::weights::FORECASTER_WEIGHT, get(weights::forecaster_weight))
}

fn of_windows() -> Router<Service> {
    use paths::windows as of;
    Router::new()
        .route(of::PARAMS, get(windows::params))
        .route(of::TOPIC_EXISTS, get(windows::topic_exists))
        .route(of::IS_TOPIC_ACTIVE, get(windows::is_topic_active))
        .route(of::ACTIVE_TOPICS, get(windows::active_topics))
        .route(of::NEXT_CHURNING_BLOCK, get(windows::next_churning_block))
        .route(of::IS_WORKER_NONCE_UNFULFILLED, get(windows::is_worker_nonce_unfulfilled))
        .route(of::IS_REPUTER_NONCE_UNFULFILLED, get(windows::is_reputer_nonce_unfulfilled))
        .route(of::UNFULFILLED_WORKER_NONCES, get(windows::unfulfilled_worker_nonces))
        .route(of::UNFULFILLED_REPUTER_NONCES, get(windows::unfulfilled_reputer_nonces))
        .route(of::OPEN_WORKER_WINDOWS, get(windows::open_worker_windows))
        .route(of::OPEN_REPUTER_WINDOWS, get(windows::open_reputer_windows))
        .route(of::WORKER_WINDOW_STATUS, get(windows::worker_window_status))
        .route(of::REPUTER_WINDOW_STATUS, get(windows::reputer_window_status))
        .route(of::LAST_WORKER_COMMIT, get(windows::last_worker_commit))
        .route(of::LAST_REPUTER_COMMIT, get(windows::last_reputer_commit))
        .route(of::REWARD_NONCE, get(windows::reward_nonce))
}

fn of_whitelist() -> Router<Service> {
    use paths::whitelist as of;
    Router::new()
        .route(of::IS_ENABLED, get(whitelist::is_enabled))
        .route(of::IS_WHITELISTED, get(whitelist::is_whitelisted))
        .route(of::CAN_SUBMIT, get(whitelist::can_submit))
        .route(of::ACTIVE_INFERERS, get(whitelist::active_inferers))
        .route(of::ACTIVE_FORECASTERS, get(whitelist::active_forecasters))
}

fn of_scores() -> Router<Service> {
    use paths::scores as of;
    Router::new()
        .route(of::INFERER_EMA, get(scores::inferer_ema))
        .route(of::FORECASTER_EMA, get(scores::forecaster_ema))
        .route(of::REPUTER_EMA, get(scores::reputer_ema))
        .route(of::INFERERS_UNTIL, get(scores::inferers_until))
        .route(of::FORECASTERS_UNTIL, get(scores::forecasters_until))
        .route(of::INFERERS_AT, get(scores::inferers_at))
        .route(of::FORECASTERS_AT, get(scores::forecasters_at))
        .route(of::REPUTERS_AT, get(scores::reputers_at))
        .route(of::LOWEST_INFERER, get(scores::lowest_inferer))
        .route(of::LOWEST_FORECASTER, get(scores::lowest_forecaster))
        .route(of::LOWEST_REPUTER, get(scores::lowest_reputer))
        .route(of::INFERER_INCLUSIONS, get(scores::inferer_inclusions))
        .route(of::FORECASTER_INCLUSIONS, get(scores::forecaster_inclusions))
}

/// The topic that a path names, in a version that is served.
fn topic(inference: &Inference, version: &str, text: &str) -> Result<Arc<Topic>, ApiError> {
    served(version)?;
    let topic = topic_id(text)?;
    inference.topic(topic).ok_or_else(|| ReadError::UnknownTopic { topic }.into())
}

/// The refusal of what the old version has no place for.
fn no_form(topic: &Topic) -> ApiError {
    let id = topic.id;
    ApiError::Invalid(format!(
        "topic {id} has several labels, which {EMISSIONS_OLD} has no form for: use {EMISSIONS_NEW}"
    ))
}

/// Reads a part of a path or a query.
pub(super) fn read<T: FromStr>(parameter: &'static str, text: &str) -> Result<T, ApiError> {
    text.parse().map_err(|_| ApiError::Mismatch {
        parameter,
        reason: format!("parsing {:?}: invalid syntax", text.chars().take(96).collect::<String>()),
    })
}

fn height(text: &str) -> Result<BlockHeight, ApiError> {
    read("block_height", text)
}

fn address(parameter: &'static str, text: &str) -> Result<Address, ApiError> {
    read(parameter, text)
}

/// The address that `name` is in a query string, which has to be there.
fn queried(uri: &Uri, name: &'static str) -> Result<Address, ApiError> {
    address(name, &needed(uri, name)?)
}

/// The value of `name` in a query string, if it is there.
pub(super) fn in_query(uri: &Uri, name: &'static str) -> Result<Option<String>, ApiError> {
    let pairs = pairs(uri)
        .map_err(|error| ApiError::Mismatch { parameter: name, reason: error.to_string() })?;
    Ok(pairs.into_iter().find(|(other, _)| other == name).map(|(_, value)| value))
}

/// The value of `name` in a query string, which has to be there.
fn needed(uri: &Uri, name: &'static str) -> Result<String, ApiError> {
    in_query(uri, name)?
        .ok_or_else(|| ApiError::Mismatch { parameter: name, reason: "it is missing".to_owned() })
}
