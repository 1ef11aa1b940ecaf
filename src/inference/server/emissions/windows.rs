//! Topics, their submission windows, and their permitted, known and active actors.
//!
//! Unlike on the chain, actors do not register: a worker is reported as registered after it was active
//! once. The dataset of a topic appears as its only reputer.

use std::sync::Arc;

use axum::Json;
use model::topic::{Address, BlockHeight, TopicId};
use wire::inference::chain::{
    ActiveTopics, Commit, Nonce, NonceList, OffchainNode, Pagination, ReputerNonce, WindowStatus,
};

use super::super::topics;
use super::{Answer, ApiError, App, OpenApiRouter, Params, Queries, Result};
use crate::math::regret::{ByRole, Role};
use crate::network::addresses;
use crate::network::epoch::{self, EpochProgress};
use crate::network::topic::{Timing, Topic};
use crate::{Inference, InferenceError};

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("windows")
        .member("topic_exists", "exists", topic_exists)
        .member("is_topic_active", "is_active", is_topic_active)
        .get("active_topics_at_block", active_topics_at_block)
        .member("next_churning_block_by_topic_id", "block_height", next_churning_block)
        .member("is_worker_nonce_unfulfilled", "is_worker_nonce_unfulfilled", is_open)
        .member("is_reputer_nonce_unfulfilled", "is_reputer_nonce_unfulfilled", is_unlearned)
        .member("topic_last_worker_commit_info", "last_commit", last_closed)
        .member("topic_last_reputer_commit_info", "last_commit", last_learned)
        .member("topic_reward_nonce", "nonce", reward_nonce)
        .member(
            "is_topic_worker_whitelist_enabled",
            "is_topic_worker_whitelist_enabled",
            is_whitelist_enabled,
        )
        .member("is_whitelisted_topic_worker", "is_whitelisted_topic_worker", is_whitelisted)
        .member("can_submit_worker_payload", "can_submit_worker_payload", can_submit)
        .member("active_inferers", "inferers", |params| active_in(params, Role::Inferer))
        .member("active_forecasters", "forecasters", |params| active_in(params, Role::Forecaster))
        .member("worker_registered", "is_registered", worker_registered)
        .member("reputer_registered", "is_registered", is_reputer)
        .member("worker_node_info", "node_info", worker_node_info)
        .member("reputer_node_info", "node_info", reputer_node_info)
        .member("is_whitelisted_topic_reputer", "is_whitelisted_topic_reputer", is_reputer)
        .member("can_submit_reputer_payload", "can_submit_reputer_payload", is_reputer)
        .member("can_update_topic_whitelist", "can_update_topic_whitelist", is_creator)
        .member("unfulfilled_worker_nonces", "nonces", unfulfilled_worker_nonces)
        .member("unfulfilled_reputer_nonces", "nonces", unfulfilled_reputer_nonces)
        .member("open_worker_submission_windows", "nonces", open_worker_windows)
        .member("open_reputer_submission_windows", "nonces", open_reputer_windows)
        .get("worker_submission_window_status", worker_window_status)
        .get("reputer_submission_window_status", reputer_window_status)
        .router
}

async fn topic_exists(params: Params) -> Result<bool> {
    Ok(params.service.inference.topic(params.topic_id()?).is_some())
}

async fn is_topic_active(params: Params) -> Result<bool> {
    Ok(params.topic()?.is_active)
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

async fn next_churning_block(params: Params) -> Result<String> {
    Ok(Standing::read(&params).await?.next_nonce().unwrap_or_default().to_string())
}

async fn is_open(params: Params) -> Result<bool> {
    Ok(Standing::read(&params).await?.progress.open.contains(&params.height()?))
}

async fn is_unlearned(params: Params) -> Result<bool> {
    Ok(Standing::read(&params).await?.progress.unlearned.contains(&params.height()?))
}

async fn unfulfilled_worker_nonces(params: Params) -> Result<NonceList<Nonce>> {
    let open = Standing::read(&params).await?.progress.open;
    Ok(NonceList { nonces: open.into_iter().map(Nonce::new).collect() })
}

async fn unfulfilled_reputer_nonces(params: Params) -> Result<NonceList<ReputerNonce>> {
    let unlearned = Standing::read(&params).await?.progress.unlearned;
    Ok(NonceList { nonces: unlearned.into_iter().map(ReputerNonce::new).collect() })
}

async fn open_worker_windows(params: Params) -> Result<NonceList<Nonce>> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let open = progress.open.into_iter();
    let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
    Ok(NonceList { nonces: open.map(Nonce::new).collect() })
}

async fn open_reputer_windows(params: Params) -> Result<NonceList<ReputerNonce>> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let due = progress.unlearned.into_iter();
    let due = due.filter(|nonce| reputers(topic.timing, *nonce).0 <= height);
    Ok(NonceList { nonces: due.map(ReputerNonce::new).collect() })
}

async fn worker_window_status(params: Params) -> Answer<WindowStatus> {
    let standing = Standing::read(&params).await?;
    let next = standing.next_nonce();
    let Standing { topic, progress, height } = standing;
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
        next_window_start_block: next.unwrap_or_default().to_string(),
        next_window_end_block: next.map_or(0, last).to_string(),
        is_registered: address.as_ref().is_some_and(|name| {
            Role::ALL.iter().any(|role| learned.experience[*role].contains_key(name))
        }),
        is_whitelisted: address.is_some_and(|name| topic.whitelist.admits(&name)),
        is_topic_active: topic.is_active,
    }))
}

async fn reputer_window_status(params: Params) -> Answer<WindowStatus> {
    let standing = Standing::read(&params).await?;
    let next = standing.progress.unlearned.get(1).copied().or_else(|| standing.next_nonce());
    let Standing { topic, progress, height } = standing;
    let current = progress.unlearned.first().copied();
    let window = |nonce: Option<_>| nonce.map_or((0, 0), |nonce| reputers(topic.timing, nonce));
    let ((start, end), (next_start, next_end)) = (window(current), window(next));
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

async fn last_closed(params: Params) -> Result<Option<Commit>> {
    let topic = params.topic()?;
    let newest = params.service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
    Ok(newest.last().map(|nonce| commit(epoch::close_height(topic.timing, *nonce), *nonce)))
}

async fn last_learned(params: Params) -> Result<Option<Commit>> {
    let topic = params.topic()?;
    let nonce = params.service.inference.learned(topic.id).await?.nonce;
    Ok(nonce.map(|nonce| commit(reputers(topic.timing, nonce).0, nonce)))
}

fn commit(height: BlockHeight, nonce: BlockHeight) -> Commit {
    Commit { block_height: height.to_string(), nonce: Nonce::new(nonce) }
}

async fn reward_nonce(params: Params) -> Result<String> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(learned.nonce.unwrap_or_default().to_string())
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

    /// Returns the height at which the next epoch opens, or `None` if the topic is paused.
    fn next_nonce(&self) -> Option<BlockHeight> {
        let Self { topic, progress, height } = self;
        let next = || epoch::next_nonce(topic.timing, progress.last_nonce, *height);
        topic.is_active.then(next)
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

async fn is_whitelist_enabled(params: Params) -> Result<bool> {
    Ok(params.topic()?.whitelist.is_enabled)
}

async fn is_whitelisted(params: Params) -> Result<bool> {
    Ok(params.topic()?.whitelist.workers.contains(&params.address("address")?))
}

async fn can_submit(params: Params) -> Result<bool> {
    Ok(params.topic()?.whitelist.admits(&params.address("address")?))
}

async fn active_in(params: Params, role: Role) -> Result<Vec<String>> {
    let active = active(&params.service.inference, &*params.topic()?).await?;
    Ok(active[role].iter().map(ToString::to_string).collect())
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

async fn worker_registered(params: Params) -> Result<bool> {
    let (topic, worker) = (params.topic()?, params.address("address")?);
    took_part(&params, topic.id, &worker).await
}

async fn worker_node_info(params: Params) -> Result<OffchainNode> {
    params.check_version()?;
    let worker = params.address("address")?;
    for topic in params.service.inference.topics() {
        if took_part(&params, topic.id, &worker).await? {
            return Ok(node(&worker));
        }
    }
    Err(ApiError::not_found(format!("worker {worker} not found")))
}

async fn reputer_node_info(params: Params) -> Result<OffchainNode> {
    params.check_version()?;
    let reputer = params.address("address")?;
    let mut topics = params.service.inference.topics().into_iter();
    if topics.any(|topic| addresses::of_reputer(&topic.source.dataset) == reputer) {
        return Ok(node(&reputer));
    }
    Err(ApiError::not_found(format!("reputer {reputer} not found")))
}

async fn is_reputer(params: Params) -> Result<bool> {
    let topic = params.topic()?;
    Ok(addresses::of_reputer(&topic.source.dataset) == params.address("address")?)
}

async fn is_creator(params: Params) -> Result<bool> {
    Ok(params.topic()?.creator.as_ref() == Some(&params.address("address")?))
}

/// Returns true if the topic learned from an epoch in which `worker` was active.
async fn took_part(params: &Params, topic: TopicId, worker: &Address) -> Result<bool> {
    let learned = params.service.inference.learned(topic).await?;
    Ok(learned.is_scored(worker))
}

fn node(address: &Address) -> OffchainNode {
    let address = address.to_string();
    OffchainNode { owner: address.clone(), node_address: address }
}
