//! Topics, their submission windows, and their permitted, known and active actors.
//!
//! Unlike on the chain, actors do not register: a worker is reported as registered after it was active
//! once. The dataset of a topic appears as its only reputer.

use std::sync::Arc;

use axum::Json;
use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::chain::{
    ActiveForecasters, ActiveInferers, ActiveTopics, CanSubmitReputerPayload,
    CanSubmitWorkerPayload, CanUpdateTopicWhitelist, Commit, IsRegistered,
    IsReputerNonceUnfulfilled, IsTopicActive, IsTopicWorkerWhitelistEnabled,
    IsWhitelistedTopicReputer, IsWhitelistedTopicWorker, IsWorkerNonceUnfulfilled, LastCommit,
    NextChurningBlock, NodeInfo, Nonce, Nonces, OffchainNode, Pagination, ReputerNonce,
    RewardNonce, TopicExists, WindowStatus,
};

use super::super::topics;
use super::{AddressMember, Answer, ApiError, App, OpenApiRouter, Params, Queries, Result, routes};
use crate::math::regret::{ByRole, Role};
use crate::network::addresses;
use crate::network::epoch::{self, EpochProgress};
use crate::network::topic::{Timing, Topic};
use crate::{Inference, InferenceError};

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("windows")
        .get("topic_exists", topic_exists)
        .get("is_topic_active", is_topic_active)
        .get("active_topics_at_block", active_topics_at_block)
        .get("next_churning_block_by_topic_id", next_churning_block_by_topic_id)
        .get("is_worker_nonce_unfulfilled", is_worker_nonce_unfulfilled)
        .get("is_reputer_nonce_unfulfilled", is_reputer_nonce_unfulfilled)
        .get("topic_last_worker_commit_info", topic_last_worker_commit_info)
        .get("topic_last_reputer_commit_info", topic_last_reputer_commit_info)
        .get("topic_reward_nonce", topic_reward_nonce)
        .get("is_topic_worker_whitelist_enabled", is_topic_worker_whitelist_enabled)
        .get("is_whitelisted_topic_worker", is_whitelisted_topic_worker)
        .get("can_submit_worker_payload", can_submit_worker_payload)
        .get("active_inferers", active_inferers)
        .get("active_forecasters", active_forecasters)
        .get("worker_registered", worker_registered)
        .get("reputer_registered", reputer_registered)
        .get("worker_node_info", worker_node_info)
        .get("reputer_node_info", reputer_node_info)
        .get("is_whitelisted_topic_reputer", is_whitelisted_topic_reputer)
        .get("can_submit_reputer_payload", can_submit_reputer_payload)
        .get("can_update_topic_whitelist", can_update_topic_whitelist)
        .router
        .routes(routes!(unfulfilled_worker_nonces))
        .routes(routes!(unfulfilled_reputer_nonces))
        .routes(routes!(open_worker_submission_windows))
        .routes(routes!(open_reputer_submission_windows))
        .routes(routes!(worker_submission_window_status))
        .routes(routes!(reputer_submission_window_status))
}

async fn topic_exists(params: Params) -> Answer<TopicExists> {
    let exists = params.service.inference.topic(params.topic_id()?).is_some();
    Ok(Json(TopicExists { exists }))
}

async fn is_topic_active(params: Params) -> Answer<IsTopicActive> {
    Ok(Json(IsTopicActive { is_active: params.topic()?.is_active }))
}

async fn active_topics_at_block(params: Params) -> Answer<ActiveTopics> {
    params.check_version()?;
    params.height()?;
    let inference = &params.service.inference;
    let mut topics = Vec::new();
    for topic in inference.topics().iter().filter(|topic| topic.is_active) {
        topics.push(topics::body(inference, topic, params.is_old()).await?);
    }
    Ok(Json(ActiveTopics { topics, pagination: Pagination { next_key: None } }))
}

async fn next_churning_block_by_topic_id(params: Params) -> Answer<NextChurningBlock> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    Ok(Json(NextChurningBlock { block_height: next.to_string() }))
}

async fn is_worker_nonce_unfulfilled(params: Params) -> Answer<IsWorkerNonceUnfulfilled> {
    let progress = Standing::read(&params).await?.progress;
    let is_worker_nonce_unfulfilled = progress.open.contains(&params.height()?);
    Ok(Json(IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled }))
}

async fn is_reputer_nonce_unfulfilled(params: Params) -> Answer<IsReputerNonceUnfulfilled> {
    let progress = Standing::read(&params).await?.progress;
    let is_reputer_nonce_unfulfilled = progress.unlearned.contains(&params.height()?);
    Ok(Json(IsReputerNonceUnfulfilled { is_reputer_nonce_unfulfilled }))
}

/// Returns the open epochs of a topic.
#[utoipa::path(get, path = "/unfulfilled_worker_nonces/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<Nonce>)))]
async fn unfulfilled_worker_nonces(params: Params) -> Answer<Nonces<Nonce>> {
    let open = Standing::read(&params).await?.progress.open;
    Ok(Json(Nonces::new(open.into_iter().map(Nonce::new))))
}

/// Returns the closed epochs of a topic from which the network has not learned yet.
#[utoipa::path(get, path = "/unfulfilled_reputer_nonces/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<ReputerNonce>)))]
async fn unfulfilled_reputer_nonces(params: Params) -> Answer<Nonces<ReputerNonce>> {
    let unlearned = Standing::read(&params).await?.progress.unlearned;
    Ok(Json(Nonces::new(unlearned.into_iter().map(ReputerNonce::new))))
}

/// Returns the epochs of a topic that accept submissions now.
#[utoipa::path(get, path = "/open_worker_submission_windows/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<Nonce>)))]
async fn open_worker_submission_windows(params: Params) -> Answer<Nonces<Nonce>> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let open = progress.open.into_iter();
    let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
    Ok(Json(Nonces::new(open.map(Nonce::new))))
}

/// Returns the epochs of a topic of which the ground truth is due but not known yet.
#[utoipa::path(get, path = "/open_reputer_submission_windows/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<ReputerNonce>)))]
async fn open_reputer_submission_windows(params: Params) -> Answer<Nonces<ReputerNonce>> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let due = progress.unlearned.into_iter();
    let due = due.filter(|nonce| reputers(topic.timing, *nonce).0 <= height);
    Ok(Json(Nonces::new(due.map(ReputerNonce::new))))
}

/// Returns the current and the next submission window of a topic's workers.
#[utoipa::path(get, path = "/worker_submission_window_status/{topic_id}",
    tag = "windows", params(AddressMember), responses((status = 200, body = WindowStatus)))]
async fn worker_submission_window_status(params: Params) -> Answer<WindowStatus> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    let open = progress.open.last().copied();
    let current = open.or(progress.last_nonce).unwrap_or_default();
    let last = |nonce| epoch::close_height(topic.timing, nonce).saturating_sub(1);
    let address = read_address(&params)?;
    let learned = params.service.inference.learned(topic.id).await?;
    Ok(Json(WindowStatus {
        is_open: open.is_some_and(|nonce| epoch::is_open(topic.timing, nonce, height)),
        current_nonce_block_height: current.to_string(),
        window_start_block: current.to_string(),
        window_end_block: if current == 0 { 0 } else { last(current) }.to_string(),
        next_window_start_block: next.to_string(),
        next_window_end_block: last(next).to_string(),
        is_registered: address.as_ref().is_some_and(|name| {
            Role::ALL.iter().any(|role| learned.experience[*role].contains_key(name))
        }),
        is_whitelisted: address.is_some_and(|name| topic.whitelist.admits(&name)),
        is_topic_active: topic.is_active,
    }))
}

/// Returns the current and the next window in which a topic's reputer reports losses.
#[utoipa::path(get, path = "/reputer_submission_window_status/{topic_id}",
    tag = "windows", params(AddressMember), responses((status = 200, body = WindowStatus)))]
async fn reputer_submission_window_status(params: Params) -> Answer<WindowStatus> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let current = progress.unlearned.first().copied();
    let next = progress
        .unlearned
        .get(1)
        .copied()
        .unwrap_or_else(|| epoch::next_nonce(topic.timing, progress.last_nonce, height));
    let (start, end) = current.map_or((0, 0), |nonce| reputers(topic.timing, nonce));
    let (next_start, next_end) = reputers(topic.timing, next);
    let address = read_address(&params)?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    Ok(Json(WindowStatus {
        is_open: current.is_some() && start <= height,
        current_nonce_block_height: current.unwrap_or_default().to_string(),
        window_start_block: start.to_string(),
        window_end_block: end.to_string(),
        next_window_start_block: next_start.to_string(),
        next_window_end_block: next_end.to_string(),
        is_registered: address.as_ref() == Some(&reputer),
        is_whitelisted: address.as_ref() == Some(&reputer),
        is_topic_active: topic.is_active,
    }))
}

async fn topic_last_worker_commit_info(params: Params) -> Answer<LastCommit> {
    let topic = params.topic()?;
    let newest = params.service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
    let commit = |nonce| Commit {
        block_height: epoch::close_height(topic.timing, nonce).to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: newest.last().copied().map(commit) }))
}

async fn topic_last_reputer_commit_info(params: Params) -> Answer<LastCommit> {
    let topic = params.topic()?;
    let nonce = params.service.inference.learned(topic.id).await?.nonce;
    let commit = |nonce| Commit {
        block_height: reputers(topic.timing, nonce).0.to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: nonce.map(commit) }))
}

async fn topic_reward_nonce(params: Params) -> Answer<RewardNonce> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(Json(RewardNonce { nonce: learned.nonce.unwrap_or_default().to_string() }))
}

/// State of a topic at the current height of the chain.
struct Standing {
    topic: Arc<Topic>,
    progress: EpochProgress,
    height: BlockHeight,
}

impl Standing {
    async fn read(params: &Params) -> Result<Self> {
        let (topic, inference) = (params.topic()?, &params.service.inference);
        let progress = inference.progress(topic.id).await?;
        Ok(Self { topic, progress, height: inference.chain().height() })
    }
}

/// Returns the first and the last block in which the reputer reports losses of the epoch `nonce`.
fn reputers(timing: Timing, nonce: BlockHeight) -> (BlockHeight, BlockHeight) {
    let start = nonce.saturating_add(timing.ground_truth_lag);
    (start, start.saturating_add(timing.epoch_length))
}

/// Returns the optional parameter `address` of a request.
fn read_address(params: &Params) -> Result<Option<Address>> {
    let text = params.find("address")?.filter(|text| !text.is_empty());
    text.map(|_| params.address("address")).transpose()
}

async fn is_topic_worker_whitelist_enabled(
    params: Params,
) -> Answer<IsTopicWorkerWhitelistEnabled> {
    let is_topic_worker_whitelist_enabled = params.topic()?.whitelist.is_enabled;
    Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
}

async fn is_whitelisted_topic_worker(params: Params) -> Answer<IsWhitelistedTopicWorker> {
    let is_whitelisted_topic_worker =
        params.topic()?.whitelist.workers.contains(&params.address("address")?);
    Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
}

async fn can_submit_worker_payload(params: Params) -> Answer<CanSubmitWorkerPayload> {
    let can_submit_worker_payload = params.topic()?.whitelist.admits(&params.address("address")?);
    Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
}

async fn active_inferers(params: Params) -> Answer<ActiveInferers> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(Json(ActiveInferers { inferers: texts(&active.inferer) }))
}

async fn active_forecasters(params: Params) -> Answer<ActiveForecasters> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(Json(ActiveForecasters { forecasters: texts(&active.forecaster) }))
}

/// Returns the active actors of the latest epoch with a bundle. Empty if there is none yet.
pub(super) async fn active(inference: &Inference, topic: &Topic) -> Result<ByRole<Vec<Address>>> {
    let bundles = match inference.latest(topic.id).await {
        Ok(bundles) => bundles,
        Err(InferenceError::NoBundle(_)) => return Ok(ByRole::default()),
        Err(error) => return Err(error.into()),
    };
    let nonce = bundles.bundle.nonce;
    let inferer = bundles.bundle.inferer_values.iter().map(|own| own.worker.clone()).collect();
    Ok(ByRole { inferer, forecaster: inference.forecasting(topic.id, nonce).await? })
}

fn texts(names: &[Address]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

async fn worker_registered(params: Params) -> Answer<IsRegistered> {
    let (topic, worker) = (params.topic()?, params.address("address")?);
    Ok(Json(IsRegistered { is_registered: took_part(&params, topic.id, &worker).await? }))
}

async fn reputer_registered(params: Params) -> Answer<IsRegistered> {
    let is_registered = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsRegistered { is_registered }))
}

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

async fn reputer_node_info(params: Params) -> Answer<NodeInfo> {
    params.check_version()?;
    let reputer = params.address("address")?;
    if params.service.inference.topics().iter().any(|topic| is_reputer(topic, &reputer)) {
        return Ok(node(&reputer));
    }
    Err(ApiError::not_found(format!("reputer {reputer} not found")))
}

async fn is_whitelisted_topic_reputer(params: Params) -> Answer<IsWhitelistedTopicReputer> {
    let is_whitelisted_topic_reputer = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(IsWhitelistedTopicReputer { is_whitelisted_topic_reputer }))
}

async fn can_submit_reputer_payload(params: Params) -> Answer<CanSubmitReputerPayload> {
    let can_submit_reputer_payload = is_reputer(&*params.topic()?, &params.address("address")?);
    Ok(Json(CanSubmitReputerPayload { can_submit_reputer_payload }))
}

async fn can_update_topic_whitelist(params: Params) -> Answer<CanUpdateTopicWhitelist> {
    let (topic, address) = (params.topic()?, params.address("address")?);
    let can_update_topic_whitelist = topic.creator.as_ref() == Some(&address);
    Ok(Json(CanUpdateTopicWhitelist { can_update_topic_whitelist }))
}

/// Returns true if the topic learned from an epoch in which `worker` was active.
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
