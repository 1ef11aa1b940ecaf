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
use wire::paths::emissions::whitelist as of;

use super::{ActorAddress, Answer, ApiError, FOUND, Params, Result, TopicPart, Version};
use crate::math::regret::ByRole;
use crate::network::addresses;
use crate::network::topic::Topic;
use crate::{Inference, InferenceError};

/// Returns whether only workers on the whitelist can submit to a topic.
#[utoipa::path(get, path = of::IS_ENABLED, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = IsTopicWorkerWhitelistEnabled)))]
pub(super) async fn is_topic_worker_whitelist_enabled(
    params: Params,
) -> Answer<IsTopicWorkerWhitelistEnabled> {
    let is_topic_worker_whitelist_enabled = params.topic()?.whitelist.is_enabled;
    Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
}

/// Returns whether a worker is on a topic's whitelist.
#[utoipa::path(get, path = of::IS_WHITELISTED, tag = "windows", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "Address of the worker.")),
    responses((status = 200, description = FOUND, body = IsWhitelistedTopicWorker)))]
pub(super) async fn is_whitelisted_topic_worker(
    params: Params,
) -> Answer<IsWhitelistedTopicWorker> {
    let is_whitelisted_topic_worker =
        params.topic()?.whitelist.workers.contains(&params.address("address")?);
    Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
}

/// Returns whether a worker can submit to a topic.
///
/// True if the whitelist is disabled, or contains the worker.
#[utoipa::path(get, path = of::CAN_SUBMIT, tag = "windows", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "Address of the worker.")),
    responses((status = 200, description = FOUND, body = CanSubmitWorkerPayload)))]
pub(super) async fn can_submit_worker_payload(params: Params) -> Answer<CanSubmitWorkerPayload> {
    let can_submit_worker_payload = params.topic()?.whitelist.admits(&params.address("address")?);
    Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
}

/// Returns the active inferers of the newest closed epoch.
///
/// Empty before the first.
#[utoipa::path(get, path = of::ACTIVE_INFERERS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ActiveInferers)))]
pub(super) async fn active_inferers(params: Params) -> Answer<ActiveInferers> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(Json(ActiveInferers { inferers: texts(&active.inferer) }))
}

/// Returns the active forecasters of the newest closed epoch, including built-in ones.
///
/// Empty before the first.
#[utoipa::path(get, path = of::ACTIVE_FORECASTERS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ActiveForecasters)))]
pub(super) async fn active_forecasters(params: Params) -> Answer<ActiveForecasters> {
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
#[utoipa::path(get, path = of::WORKER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "Address of the worker.")),
    responses((status = 200, description = FOUND, body = IsRegistered)))]
pub(super) async fn worker_registered(params: Params) -> Answer<IsRegistered> {
    let (topic, worker) = (params.topic()?, params.address("address")?);
    Ok(Json(IsRegistered { is_registered: took_part(&params, topic.id, &worker).await? }))
}

/// Returns whether an address belongs to a topic's dataset, its only reputer.
#[utoipa::path(get, path = of::REPUTER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "Address of the reputer.")),
    responses((status = 200, description = FOUND, body = IsRegistered)))]
pub(super) async fn reputer_registered(params: Params) -> Answer<IsRegistered> {
    let is_registered = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsRegistered { is_registered }))
}

/// Returns the node of a worker.
///
/// A worker that was active in a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = of::WORKER_NODE, tag = "windows",
    params(Version, ("address" = inline(ActorAddress), Path, description = "Address of the worker.")),
    responses((status = 200, description = FOUND, body = NodeInfo)))]
pub(super) async fn worker_node_info(params: Params) -> Answer<NodeInfo> {
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
#[utoipa::path(get, path = of::REPUTER_NODE, tag = "windows",
    params(Version, ("address" = inline(ActorAddress), Path, description = "Address of the reputer.")),
    responses((status = 200, description = FOUND, body = NodeInfo)))]
pub(super) async fn reputer_node_info(params: Params) -> Answer<NodeInfo> {
    params.check_version()?;
    let reputer = params.address("address")?;
    if params.service.inference.topics().iter().any(|topic| is_reputer(topic, &reputer)) {
        return Ok(node(&reputer));
    }
    Err(ApiError::not_found(format!("reputer {reputer} not found")))
}

/// Returns whether an address belongs to a topic's dataset, its only reputer.
#[utoipa::path(get, path = of::IS_WHITELISTED_REPUTER, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "Address of the reputer.")),
    responses((status = 200, description = FOUND, body = IsWhitelistedTopicReputer)))]
pub(super) async fn is_whitelisted_topic_reputer(
    params: Params,
) -> Answer<IsWhitelistedTopicReputer> {
    let is_whitelisted_topic_reputer = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsWhitelistedTopicReputer { is_whitelisted_topic_reputer }))
}

/// Returns whether an address can submit losses to a topic: only its dataset can.
#[utoipa::path(get, path = of::CAN_SUBMIT_REPUTER, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "Address of the reputer.")),
    responses((status = 200, description = FOUND, body = CanSubmitReputerPayload)))]
pub(super) async fn can_submit_reputer_payload(params: Params) -> Answer<CanSubmitReputerPayload> {
    let can_submit_reputer_payload = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(CanSubmitReputerPayload { can_submit_reputer_payload }))
}

/// Returns whether an address created a topic, and so can change its whitelist.
#[utoipa::path(get, path = of::CAN_UPDATE, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "Address.")),
    responses((status = 200, description = FOUND, body = CanUpdateTopicWhitelist)))]
pub(super) async fn can_update_topic_whitelist(params: Params) -> Answer<CanUpdateTopicWhitelist> {
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
