//! Topics and their windows.

use std::sync::Arc;

use axum::Json;
use model::topic::{Address, BlockHeight};
use wire::inference::chain::{
    ActiveTopics, Commit, IsReputerNonceUnfulfilled, IsTopicActive, IsWorkerNonceUnfulfilled,
    LastCommit, NextChurningBlock, Nonce, Nonces, Pagination, ReputerNonce, RewardNonce,
    TopicExists, WindowStatus,
};

use super::super::topics;
use super::{AddressMember, Answer, App, OpenApiRouter, Params, Result, routes};
use crate::math::regret::Role;
use crate::network::addresses;
use crate::network::epoch::{self, EpochProgress};
use crate::network::topic::{Timing, Topic};

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(topic_exists))
        .routes(routes!(is_topic_active))
        .routes(routes!(active_topics_at_block))
        .routes(routes!(next_churning_block_by_topic_id))
        .routes(routes!(is_worker_nonce_unfulfilled))
        .routes(routes!(is_reputer_nonce_unfulfilled))
        .routes(routes!(unfulfilled_worker_nonces))
        .routes(routes!(unfulfilled_reputer_nonces))
        .routes(routes!(open_worker_submission_windows))
        .routes(routes!(open_reputer_submission_windows))
        .routes(routes!(worker_submission_window_status))
        .routes(routes!(reputer_submission_window_status))
        .routes(routes!(topic_last_worker_commit_info))
        .routes(routes!(topic_last_reputer_commit_info))
        .routes(routes!(topic_reward_nonce))
}

/// Returns whether a topic exists.
#[utoipa::path(get, path = "/topic_exists/{topic_id}",
    tag = "windows", responses((status = 200, body = TopicExists)))]
async fn topic_exists(params: Params) -> Answer<TopicExists> {
    let exists = params.service.inference.topic(params.topic_id()?).is_some();
    Ok(Json(TopicExists { exists }))
}

/// Returns whether a topic is active.
#[utoipa::path(get, path = "/is_topic_active/{topic_id}",
    tag = "windows", responses((status = 200, body = IsTopicActive)))]
async fn is_topic_active(params: Params) -> Answer<IsTopicActive> {
    Ok(Json(IsTopicActive { is_active: params.topic()?.is_active }))
}

/// Returns the active topics.
///
/// The history is not stored: the result is the same for all heights.
#[utoipa::path(get, path = "/active_topics_at_block/{block_height}",
    tag = "windows", responses((status = 200, body = ActiveTopics)))]
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

/// Returns the height at which a topic's next epoch opens.
#[utoipa::path(get, path = "/next_churning_block_by_topic_id/{topic_id}",
    tag = "windows", responses((status = 200, body = NextChurningBlock)))]
async fn next_churning_block_by_topic_id(params: Params) -> Answer<NextChurningBlock> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    Ok(Json(NextChurningBlock { block_height: next.to_string() }))
}

/// Returns whether an epoch is open.
#[utoipa::path(get, path = "/is_worker_nonce_unfulfilled/{topic_id}/{block_height}",
    tag = "windows", responses((status = 200, body = IsWorkerNonceUnfulfilled)))]
async fn is_worker_nonce_unfulfilled(params: Params) -> Answer<IsWorkerNonceUnfulfilled> {
    let progress = Standing::read(&params).await?.progress;
    let is_worker_nonce_unfulfilled = progress.open.contains(&params.height()?);
    Ok(Json(IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled }))
}

/// Returns whether an epoch is closed but not learned yet.
#[utoipa::path(get, path = "/is_reputer_nonce_unfulfilled/{topic_id}/{block_height}",
    tag = "windows", responses((status = 200, body = IsReputerNonceUnfulfilled)))]
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

/// Returns the epochs of a topic that are not learned yet.
#[utoipa::path(get, path = "/unfulfilled_reputer_nonces/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<ReputerNonce>)))]
async fn unfulfilled_reputer_nonces(params: Params) -> Answer<Nonces<ReputerNonce>> {
    let unlearned = Standing::read(&params).await?.progress.unlearned;
    Ok(Json(Nonces::new(unlearned.into_iter().map(ReputerNonce::new))))
}

/// Returns the epochs of a topic that accept submissions.
#[utoipa::path(get, path = "/open_worker_submission_windows/{topic_id}",
    tag = "windows", responses((status = 200, body = Nonces<Nonce>)))]
async fn open_worker_submission_windows(params: Params) -> Answer<Nonces<Nonce>> {
    let Standing { topic, progress, height } = Standing::read(&params).await?;
    let open = progress.open.into_iter();
    let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
    Ok(Json(Nonces::new(open.map(Nonce::new))))
}

/// Returns the epochs of a topic that wait for their truth.
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

/// Returns the current and the next window of a topic's reputer.
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

/// Returns the newest closed epoch of a topic.
#[utoipa::path(get, path = "/topic_last_worker_commit_info/{topic_id}",
    tag = "windows", responses((status = 200, body = LastCommit)))]
async fn topic_last_worker_commit_info(params: Params) -> Answer<LastCommit> {
    let topic = params.topic()?;
    let newest = params.service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
    let commit = |nonce| Commit {
        block_height: epoch::close_height(topic.timing, nonce).to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: newest.last().copied().map(commit) }))
}

/// Returns the newest learned epoch of a topic.
#[utoipa::path(get, path = "/topic_last_reputer_commit_info/{topic_id}",
    tag = "windows", responses((status = 200, body = LastCommit)))]
async fn topic_last_reputer_commit_info(params: Params) -> Answer<LastCommit> {
    let topic = params.topic()?;
    let nonce = params.service.inference.learned(topic.id).await?.nonce;
    let commit = |nonce| Commit {
        block_height: reputers(topic.timing, nonce).0.to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: nonce.map(commit) }))
}

/// Returns the nonce of the newest learned epoch of a topic; 0 before the first.
#[utoipa::path(get, path = "/topic_reward_nonce/{topic_id}",
    tag = "windows", responses((status = 200, body = RewardNonce)))]
async fn topic_reward_nonce(params: Params) -> Answer<RewardNonce> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(Json(RewardNonce { nonce: learned.nonce.unwrap_or_default().to_string() }))
}

/// Topic, its progress and the height of the chain.
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

/// Returns the first and the last block in which reputers report for `nonce`.
fn reputers(timing: Timing, nonce: BlockHeight) -> (BlockHeight, BlockHeight) {
    let start = nonce.saturating_add(timing.ground_truth_lag);
    (start, start.saturating_add(timing.epoch_length))
}

/// Returns the address of a request, if it has one.
fn read_address(params: &Params) -> Result<Option<Address>> {
    let text = params.find("address")?.filter(|text| !text.is_empty());
    text.map(|_| params.address("address")).transpose()
}
