//! Actors of a topic: permitted, known and active.
//!
//! Registration does not exist. A worker counts as registered once it was active. The dataset of a topic
//! is its only reputer.

use axum::Json;
use model::topic::{Address, TopicId};
use wire::inference::chain::{
    ActiveForecasters, ActiveInferers, CanSubmitReputerPayload, CanSubmitWorkerPayload,
    CanUpdateTopicWhitelist, IsRegistered, IsTopicWorkerWhitelistEnabled,
    IsWhitelistedTopicReputer, IsWhitelistedTopicWorker, NodeInfo, OffchainNode,
};

use super::{Answer, ApiError, App, OpenApiRouter, Params, Result, routes};
use crate::math::regret::ByRole;
use crate::network::addresses;
use crate::network::topic::Topic;
use crate::{Inference, InferenceError};

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(is_topic_worker_whitelist_enabled))
        .routes(routes!(is_whitelisted_topic_worker))
        .routes(routes!(can_submit_worker_payload))
        .routes(routes!(active_inferers))
        .routes(routes!(active_forecasters))
        .routes(routes!(worker_registered))
        .routes(routes!(reputer_registered))
        .routes(routes!(worker_node_info))
        .routes(routes!(reputer_node_info))
        .routes(routes!(is_whitelisted_topic_reputer))
        .routes(routes!(can_submit_reputer_payload))
        .routes(routes!(can_update_topic_whitelist))
}

/// Returns whether only workers on the whitelist can submit to a topic.
#[utoipa::path(get, path = "/is_topic_worker_whitelist_enabled/{topic_id}",
    tag = "windows", responses((status = 200, body = IsTopicWorkerWhitelistEnabled)))]
async fn is_topic_worker_whitelist_enabled(
    params: Params,
) -> Answer<IsTopicWorkerWhitelistEnabled> {
    let is_topic_worker_whitelist_enabled = params.topic()?.whitelist.is_enabled;
    Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
}

/// Returns whether a worker is on a topic's whitelist.
#[utoipa::path(get, path = "/is_whitelisted_topic_worker/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = IsWhitelistedTopicWorker)))]
async fn is_whitelisted_topic_worker(params: Params) -> Answer<IsWhitelistedTopicWorker> {
    let is_whitelisted_topic_worker =
        params.topic()?.whitelist.workers.contains(&params.address("address")?);
    Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
}

/// Returns whether a worker can submit to a topic.
///
/// True if the whitelist is disabled, or contains the worker.
#[utoipa::path(get, path = "/can_submit_worker_payload/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = CanSubmitWorkerPayload)))]
async fn can_submit_worker_payload(params: Params) -> Answer<CanSubmitWorkerPayload> {
    let can_submit_worker_payload = params.topic()?.whitelist.admits(&params.address("address")?);
    Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
}

/// Returns the active inferers of the newest closed epoch.
///
/// Empty before the first.
#[utoipa::path(get, path = "/active_inferers/{topic_id}",
    tag = "windows", responses((status = 200, body = ActiveInferers)))]
async fn active_inferers(params: Params) -> Answer<ActiveInferers> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(Json(ActiveInferers { inferers: texts(&active.inferer) }))
}

/// Returns the active forecasters of the newest closed epoch, including built-in ones.
///
/// Empty before the first.
#[utoipa::path(get, path = "/active_forecasters/{topic_id}",
    tag = "windows", responses((status = 200, body = ActiveForecasters)))]
async fn active_forecasters(params: Params) -> Answer<ActiveForecasters> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(Json(ActiveForecasters { forecasters: texts(&active.forecaster) }))
}

/// Returns the active actors of the latest closed epoch. Empty before the first.
pub(super) async fn active(inference: &Inference, topic: &Topic) -> Result<ByRole<Vec<Address>>> {
    let bundles = match inference.latest(topic.id).await {
        Ok(bundles) => bundles,
        Err(InferenceError::NoBundle { .. }) => return Ok(ByRole::default()),
        Err(error) => return Err(error.into()),
    };
    let nonce = bundles.bundle.nonce;
    let inferer = bundles.bundle.inferer_values.iter().map(|own| own.worker.clone()).collect();
    Ok(ByRole { inferer, forecaster: inference.forecasting(topic.id, nonce).await? })
}

fn texts(names: &[Address]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Returns whether a worker was active in a topic.
#[utoipa::path(get, path = "/worker_registered/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = IsRegistered)))]
async fn worker_registered(params: Params) -> Answer<IsRegistered> {
    let (topic, worker) = (params.topic()?, params.address("address")?);
    Ok(Json(IsRegistered { is_registered: took_part(&params, topic.id, &worker).await? }))
}

/// Returns whether an address belongs to a topic's dataset, its only reputer.
#[utoipa::path(get, path = "/reputer_registered/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = IsRegistered)))]
async fn reputer_registered(params: Params) -> Answer<IsRegistered> {
    let is_registered = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsRegistered { is_registered }))
}

/// Returns the node of a worker.
///
/// A worker that was active in a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = "/worker/{address}",
    tag = "windows", responses((status = 200, body = NodeInfo)))]
async fn worker_node_info(params: Params) -> Answer<NodeInfo> {
    params.check_version()?;
    let worker = params.address("address")?;
    for topic in params.service.inference.topics() {
        if took_part(&params, topic.id, &worker).await? {
            return Ok(node(&worker));
        }
    }
    Err(ApiError::not_found(format!("worker {worker} not found")))
}

/// Returns the node of a reputer.
///
/// The dataset of a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = "/reputer/{address}",
    tag = "windows", responses((status = 200, body = NodeInfo)))]
async fn reputer_node_info(params: Params) -> Answer<NodeInfo> {
    params.check_version()?;
    let reputer = params.address("address")?;
    if params.service.inference.topics().iter().any(|topic| is_reputer(topic, &reputer)) {
        return Ok(node(&reputer));
    }
    Err(ApiError::not_found(format!("reputer {reputer} not found")))
}

/// Returns whether an address belongs to a topic's dataset, its only reputer.
#[utoipa::path(get, path = "/is_whitelisted_topic_reputer/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = IsWhitelistedTopicReputer)))]
async fn is_whitelisted_topic_reputer(params: Params) -> Answer<IsWhitelistedTopicReputer> {
    let is_whitelisted_topic_reputer = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsWhitelistedTopicReputer { is_whitelisted_topic_reputer }))
}

/// Returns whether an address can submit losses to a topic: only its dataset can.
#[utoipa::path(get, path = "/can_submit_reputer_payload/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = CanSubmitReputerPayload)))]
async fn can_submit_reputer_payload(params: Params) -> Answer<CanSubmitReputerPayload> {
    let can_submit_reputer_payload = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(CanSubmitReputerPayload { can_submit_reputer_payload }))
}

/// Returns whether an address created a topic, and so can change its whitelist.
#[utoipa::path(get, path = "/can_update_topic_whitelist/{topic_id}/{address}",
    tag = "windows", responses((status = 200, body = CanUpdateTopicWhitelist)))]
async fn can_update_topic_whitelist(params: Params) -> Answer<CanUpdateTopicWhitelist> {
    let (topic, address) = (params.topic()?, params.address("address")?);
    let can_update_topic_whitelist = topic.creator.as_ref() == Some(&address);
    Ok(Json(CanUpdateTopicWhitelist { can_update_topic_whitelist }))
}

/// Returns true if `worker` was active in a learned epoch of the topic.
async fn took_part(params: &Params, topic: TopicId, worker: &Address) -> Result<bool> {
    let learned = params.service.inference.learned(topic).await?;
    Ok(learned.is_scored(worker))
}

fn is_reputer(topic: &Topic, address: &Address) -> bool {
    addresses::of_reputer(&topic.source.dataset) == *address
}

fn node(address: &Address) -> Json<NodeInfo> {
    let address = address.to_string();
    Json(NodeInfo { node_info: OffchainNode { owner: address.clone(), node_address: address } })
}
