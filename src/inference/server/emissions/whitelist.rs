//! Actors of a topic: who is allowed to take part, who is known, and who did take part.
//!
//! Nobody registers here. A worker counts as registered once it took part, as in the states of
//! windows. The dataset of a topic is its only reputer, and losses are accepted from nobody else.

use axum::Json;
use model::topic::{Address, TopicId};
use wire::{
    inference::chain::{
        ActiveForecasters, ActiveInferers, CanSubmitReputerPayload, CanSubmitWorkerPayload,
        CanUpdateTopicWhitelist, IsRegistered, IsTopicWorkerWhitelistEnabled,
        IsWhitelistedTopicReputer, IsWhitelistedTopicWorker, NodeInfo, OffchainNode,
    },
    paths::emissions::whitelist as of,
};

use super::{ActorAddress, Answer, ApiError, Asked, FOUND, TopicPart, Version};
use crate::{
    Inference, InferenceError,
    math::regret::ByRole,
    network::{addresses, topic::Topic},
};

/// Whether a topic takes submissions of the workers on its whitelist alone.
#[utoipa::path(get, path = of::IS_ENABLED, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = IsTopicWorkerWhitelistEnabled)))]
pub(super) async fn is_topic_worker_whitelist_enabled(
    asked: Asked,
) -> Answer<IsTopicWorkerWhitelistEnabled> {
    let is_topic_worker_whitelist_enabled = asked.topic()?.whitelist.is_enabled;
    Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
}

/// Whether a worker is on a topic's whitelist.
#[utoipa::path(get, path = of::IS_WHITELISTED, tag = "windows", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = IsWhitelistedTopicWorker)))]
pub(super) async fn is_whitelisted_topic_worker(asked: Asked) -> Answer<IsWhitelistedTopicWorker> {
    let is_whitelisted_topic_worker =
        asked.topic()?.whitelist.workers.contains(&asked.address("address")?);
    Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
}

/// Whether a topic takes submissions of a worker.
///
/// It does if the worker is on its whitelist, or that is not enabled.
#[utoipa::path(get, path = of::CAN_SUBMIT, tag = "windows", params(Version, TopicPart,
    ("address" = inline(ActorAddress), Path,
        description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = CanSubmitWorkerPayload)))]
pub(super) async fn can_submit_worker_payload(asked: Asked) -> Answer<CanSubmitWorkerPayload> {
    let can_submit_worker_payload = asked.topic()?.whitelist.admits(&asked.address("address")?);
    Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
}

/// The active inferers of the newest epoch that closed.
///
/// None before the first.
#[utoipa::path(get, path = of::ACTIVE_INFERERS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ActiveInferers)))]
pub(super) async fn active_inferers(asked: Asked) -> Answer<ActiveInferers> {
    let active = active(&asked.service.inference, &*asked.topic()?).await?;
    Ok(Json(ActiveInferers { inferers: texts(&active.inferer) }))
}

/// The active forecasters of the newest epoch that closed.
///
/// None before the first. Those that every topic has built in are among them.
#[utoipa::path(get, path = of::ACTIVE_FORECASTERS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ActiveForecasters)))]
pub(super) async fn active_forecasters(asked: Asked) -> Answer<ActiveForecasters> {
    let active = active(&asked.service.inference, &*asked.topic()?).await?;
    Ok(Json(ActiveForecasters { forecasters: texts(&active.forecaster) }))
}

/// Who is active in the newest epoch that closed with a bundle; none before it.
pub(super) async fn active(
    inference: &Inference,
    topic: &Topic,
) -> Result<ByRole<Vec<Address>>, ApiError> {
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

/// Whether a worker took part in a topic.
#[utoipa::path(get, path = of::WORKER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = IsRegistered)))]
pub(super) async fn worker_registered(asked: Asked) -> Answer<IsRegistered> {
    let (topic, worker) = (asked.topic()?, asked.address("address")?);
    Ok(Json(IsRegistered { is_registered: took_part(&asked, topic.id, &worker).await? }))
}

/// Whether an address is that of a topic's dataset, its only reputer.
#[utoipa::path(get, path = of::REPUTER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = FOUND, body = IsRegistered)))]
pub(super) async fn reputer_registered(asked: Asked) -> Answer<IsRegistered> {
    let is_registered = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(IsRegistered { is_registered }))
}

/// The node of a worker.
///
/// A worker that took part in a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = of::WORKER_NODE, tag = "windows",
    params(Version, ("address" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = NodeInfo)))]
pub(super) async fn worker_node_info(asked: Asked) -> Answer<NodeInfo> {
    asked.check_version()?;
    let worker = asked.address("address")?;
    for topic in asked.service.inference.topics() {
        if took_part(&asked, topic.id, &worker).await? {
            return Ok(node(&worker));
        }
    }
    Err(ApiError::not_found(format!("worker {worker} not found")))
}

/// The node of a reputer.
///
/// The dataset of a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = of::REPUTER_NODE, tag = "windows",
    params(Version, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = FOUND, body = NodeInfo)))]
pub(super) async fn reputer_node_info(asked: Asked) -> Answer<NodeInfo> {
    asked.check_version()?;
    let reputer = asked.address("address")?;
    if asked.service.inference.topics().iter().any(|topic| is_reputer(topic, &reputer)) {
        return Ok(node(&reputer));
    }
    Err(ApiError::not_found(format!("reputer {reputer} not found")))
}

/// Whether an address is that of a topic's dataset, its only reputer.
#[utoipa::path(get, path = of::IS_WHITELISTED_REPUTER, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = FOUND, body = IsWhitelistedTopicReputer)))]
pub(super) async fn is_whitelisted_topic_reputer(
    asked: Asked,
) -> Answer<IsWhitelistedTopicReputer> {
    let is_whitelisted_topic_reputer = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(IsWhitelistedTopicReputer { is_whitelisted_topic_reputer }))
}

/// Whether a topic takes losses of an address: those of its dataset.
#[utoipa::path(get, path = of::CAN_SUBMIT_REPUTER, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = FOUND, body = CanSubmitReputerPayload)))]
pub(super) async fn can_submit_reputer_payload(asked: Asked) -> Answer<CanSubmitReputerPayload> {
    let can_submit_reputer_payload = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(CanSubmitReputerPayload { can_submit_reputer_payload }))
}

/// Whether an address created a topic, and so changes its whitelist.
#[utoipa::path(get, path = of::CAN_UPDATE, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "An address.")),
    responses((status = 200, description = FOUND, body = CanUpdateTopicWhitelist)))]
pub(super) async fn can_update_topic_whitelist(asked: Asked) -> Answer<CanUpdateTopicWhitelist> {
    let (topic, address) = (asked.topic()?, asked.address("address")?);
    let can_update_topic_whitelist = topic.creator.as_ref() == Some(&address);
    Ok(Json(CanUpdateTopicWhitelist { can_update_topic_whitelist }))
}

/// Returns true if `worker` took part in an epoch of the topic that was learned from.
async fn took_part(asked: &Asked, topic: TopicId, worker: &Address) -> Result<bool, ApiError> {
    let learned = asked.service.inference.learned(topic).await?;
    Ok(learned.is_scored(worker))
}

fn is_reputer(topic: &Topic, address: &Address) -> bool {
    addresses::of_reputer(&topic.source.dataset) == *address
}

fn node(address: &Address) -> Json<NodeInfo> {
    let address = address.to_string();
    Json(NodeInfo { node_info: OffchainNode { owner: address.clone(), node_address: address } })
}
