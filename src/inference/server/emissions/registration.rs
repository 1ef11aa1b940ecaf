//! Who is known: workers and reputers by address.
//!
//! Nobody registers here. A worker counts as registered once it took part, as in the states of
//! windows. The dataset of a topic is its only reputer, and no losses are taken from anybody else.

use axum::Json;
use model::topic::{Address, TopicId};
use utoipa_axum::{router::OpenApiRouter, routes};
use wire::{
    inference::chain::{
        CanSubmitReputerPayload, CanUpdateTopicWhitelist, IsRegistered, IsWhitelistedTopicReputer,
        NodeInfo, OffchainNode,
    },
    paths::emissions::whitelist as of,
};

use super::{ActorAddress, ApiError, App, Asked, TopicPart, Version};
use crate::network::{addresses, topic::Topic};

/// The queries of this family.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(worker_registered))
        .routes(routes!(reputer_registered))
        .routes(routes!(worker_node_info))
        .routes(routes!(reputer_node_info))
        .routes(routes!(is_whitelisted_topic_reputer))
        .routes(routes!(can_submit_reputer_payload))
        .routes(routes!(can_update_topic_whitelist))
}

/// Whether a worker took part in a topic.
#[utoipa::path(get, path = of::WORKER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = "What was asked for", body = IsRegistered)))]
async fn worker_registered(asked: Asked) -> Result<Json<IsRegistered>, ApiError> {
    let (topic, worker) = (asked.topic()?, asked.address("address")?);
    Ok(Json(IsRegistered { is_registered: took_part(&asked, topic.id, &worker).await? }))
}

/// Whether an address is that of a topic's dataset, its only reputer.
#[utoipa::path(get, path = of::REPUTER_REGISTERED, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = "What was asked for", body = IsRegistered)))]
async fn reputer_registered(asked: Asked) -> Result<Json<IsRegistered>, ApiError> {
    let is_registered = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(IsRegistered { is_registered }))
}

/// The node of a worker.
///
/// A worker that took part in a topic is its own owner. Others are unknown.
#[utoipa::path(get, path = of::WORKER_NODE, tag = "windows",
    params(Version, ("address" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = "What was asked for", body = NodeInfo)))]
async fn worker_node_info(asked: Asked) -> Result<Json<NodeInfo>, ApiError> {
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
    responses((status = 200, description = "What was asked for", body = NodeInfo)))]
async fn reputer_node_info(asked: Asked) -> Result<Json<NodeInfo>, ApiError> {
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
    responses((status = 200, description = "What was asked for", body = IsWhitelistedTopicReputer)))]
async fn is_whitelisted_topic_reputer(
    asked: Asked,
) -> Result<Json<IsWhitelistedTopicReputer>, ApiError> {
    let is_whitelisted_topic_reputer = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(IsWhitelistedTopicReputer { is_whitelisted_topic_reputer }))
}

/// Whether a topic takes losses of an address: those of its dataset.
#[utoipa::path(get, path = of::CAN_SUBMIT_REPUTER, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "The reputer's address.")),
    responses((status = 200, description = "What was asked for", body = CanSubmitReputerPayload)))]
async fn can_submit_reputer_payload(
    asked: Asked,
) -> Result<Json<CanSubmitReputerPayload>, ApiError> {
    let can_submit_reputer_payload = is_reputer(&*asked.topic()?, &asked.address("address")?);
    Ok(Json(CanSubmitReputerPayload { can_submit_reputer_payload }))
}

/// Whether an address created a topic, and so changes its whitelist.
#[utoipa::path(get, path = of::CAN_UPDATE, tag = "windows",
    params(Version, TopicPart, ("address" = inline(ActorAddress), Path, description = "An address.")),
    responses((status = 200, description = "What was asked for", body = CanUpdateTopicWhitelist)))]
async fn can_update_topic_whitelist(
    asked: Asked,
) -> Result<Json<CanUpdateTopicWhitelist>, ApiError> {
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
