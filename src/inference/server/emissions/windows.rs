//! Topics and their windows: what is open, what is due, what came last.

use std::sync::Arc;

use axum::Json;
use model::topic::{Address, BlockHeight};
use wire::{
    inference::chain::{
        ActiveTopics, Commit, IsReputerNonceUnfulfilled, IsTopicActive, IsWorkerNonceUnfulfilled,
        LastCommit, NextChurningBlock, Nonce, Nonces, Pagination, ReputerNonce, RewardNonce,
        TopicExists, WindowStatus,
    },
    paths::emissions::windows as of,
};

use super::{
    super::topics, Answer, ApiError, Asked, AskedAddress, FOUND, HeightPart, TopicPart, Version,
};
use crate::{
    math::regret::Role,
    network::{
        addresses,
        epoch::{self, Progress},
        topic::{Timing, Topic},
    },
};

/// Whether there is such a topic.
#[utoipa::path(get, path = of::TOPIC_EXISTS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = TopicExists)))]
pub(super) async fn topic_exists(asked: Asked) -> Answer<TopicExists> {
    let exists = asked.service.inference.topic(asked.topic_id()?).is_some();
    Ok(Json(TopicExists { exists }))
}

/// Whether a topic's epochs open.
#[utoipa::path(get, path = of::IS_TOPIC_ACTIVE, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = IsTopicActive)))]
pub(super) async fn is_topic_active(asked: Asked) -> Answer<IsTopicActive> {
    Ok(Json(IsTopicActive { is_active: asked.topic()?.is_active }))
}

/// The topics whose epochs open now.
///
/// What was at other heights is not kept: every height gives the same answer.
#[utoipa::path(get, path = of::ACTIVE_TOPICS, tag = "windows", params(Version, HeightPart),
    responses((status = 200, description = FOUND, body = ActiveTopics)))]
pub(super) async fn active_topics_at_block(asked: Asked) -> Answer<ActiveTopics> {
    asked.check_version()?;
    asked.height()?;
    let inference = &asked.service.inference;
    let mut topics = Vec::new();
    for topic in inference.topics().iter().filter(|topic| topic.is_active) {
        topics.push(topics::body(inference, topic, asked.is_old()).await?);
    }
    Ok(Json(ActiveTopics { topics, pagination: Pagination { next_key: None } }))
}

/// The height at which a topic's next epoch opens.
#[utoipa::path(get, path = of::NEXT_CHURNING_BLOCK, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = NextChurningBlock)))]
pub(super) async fn next_churning_block_by_topic_id(asked: Asked) -> Answer<NextChurningBlock> {
    let Standing { topic, progress, height } = Standing::read(&asked).await?;
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    Ok(Json(NextChurningBlock { block_height: next.to_string() }))
}

/// Whether an epoch is open.
#[utoipa::path(get, path = of::IS_WORKER_NONCE_UNFULFILLED, tag = "windows", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = IsWorkerNonceUnfulfilled)))]
pub(super) async fn is_worker_nonce_unfulfilled(asked: Asked) -> Answer<IsWorkerNonceUnfulfilled> {
    let progress = Standing::read(&asked).await?.progress;
    let is_worker_nonce_unfulfilled = progress.open.contains(&asked.height()?);
    Ok(Json(IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled }))
}

/// Whether an epoch has closed and is still to be learned from.
#[utoipa::path(get, path = of::IS_REPUTER_NONCE_UNFULFILLED, tag = "windows", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = IsReputerNonceUnfulfilled)))]
pub(super) async fn is_reputer_nonce_unfulfilled(
    asked: Asked,
) -> Answer<IsReputerNonceUnfulfilled> {
    let progress = Standing::read(&asked).await?.progress;
    let is_reputer_nonce_unfulfilled = progress.unlearned.contains(&asked.height()?);
    Ok(Json(IsReputerNonceUnfulfilled { is_reputer_nonce_unfulfilled }))
}

/// The epochs of a topic that are open.
#[utoipa::path(get, path = of::UNFULFILLED_WORKER_NONCES, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = Nonces<Nonce>)))]
pub(super) async fn unfulfilled_worker_nonces(asked: Asked) -> Answer<Nonces<Nonce>> {
    let open = Standing::read(&asked).await?.progress.open;
    Ok(Json(Nonces::new(open.into_iter().map(Nonce::new))))
}

/// The epochs of a topic that are to be learned from.
#[utoipa::path(get, path = of::UNFULFILLED_REPUTER_NONCES, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = Nonces<ReputerNonce>)))]
pub(super) async fn unfulfilled_reputer_nonces(asked: Asked) -> Answer<Nonces<ReputerNonce>> {
    let unlearned = Standing::read(&asked).await?.progress.unlearned;
    Ok(Json(Nonces::new(unlearned.into_iter().map(ReputerNonce::new))))
}

/// The epochs of a topic that take submissions now.
#[utoipa::path(get, path = of::OPEN_WORKER_WINDOWS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = Nonces<Nonce>)))]
pub(super) async fn open_worker_submission_windows(asked: Asked) -> Answer<Nonces<Nonce>> {
    let Standing { topic, progress, height } = Standing::read(&asked).await?;
    let open = progress.open.into_iter();
    let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
    Ok(Json(Nonces::new(open.map(Nonce::new))))
}

/// The epochs of a topic whose truth is asked for now.
#[utoipa::path(get, path = of::OPEN_REPUTER_WINDOWS, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = Nonces<ReputerNonce>)))]
pub(super) async fn open_reputer_submission_windows(asked: Asked) -> Answer<Nonces<ReputerNonce>> {
    let Standing { topic, progress, height } = Standing::read(&asked).await?;
    let due = progress.unlearned.into_iter();
    let due = due.filter(|nonce| reputers(topic.timing, *nonce).0 <= height);
    Ok(Json(Nonces::new(due.map(ReputerNonce::new))))
}

/// Where a topic's workers stand: this window and the next.
#[utoipa::path(get, path = of::WORKER_WINDOW_STATUS, tag = "windows", params(Version, TopicPart, AskedAddress),
    responses((status = 200, description = FOUND, body = WindowStatus)))]
pub(super) async fn worker_submission_window_status(asked: Asked) -> Answer<WindowStatus> {
    let Standing { topic, progress, height } = Standing::read(&asked).await?;
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    let open = progress.open.last().copied();
    let current = open.or(progress.last_nonce).unwrap_or_default();
    let last = |nonce| epoch::close_height(topic.timing, nonce).saturating_sub(1);
    let address = read_address(&asked)?;
    let learned = asked.service.inference.learned(topic.id).await?;
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

/// Where a topic's reputer stands: this window and the next.
#[utoipa::path(get, path = of::REPUTER_WINDOW_STATUS, tag = "windows", params(Version, TopicPart, AskedAddress),
    responses((status = 200, description = FOUND, body = WindowStatus)))]
pub(super) async fn reputer_submission_window_status(asked: Asked) -> Answer<WindowStatus> {
    let Standing { topic, progress, height } = Standing::read(&asked).await?;
    let current = progress.unlearned.first().copied();
    let next = progress
        .unlearned
        .get(1)
        .copied()
        .unwrap_or_else(|| epoch::next_nonce(topic.timing, progress.last_nonce, height));
    let (start, end) = current.map_or((0, 0), |nonce| reputers(topic.timing, nonce));
    let (next_start, next_end) = reputers(topic.timing, next);
    let address = read_address(&asked)?;
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

/// The newest epoch of a topic that closed.
#[utoipa::path(get, path = of::LAST_WORKER_COMMIT, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = LastCommit)))]
pub(super) async fn topic_last_worker_commit_info(asked: Asked) -> Answer<LastCommit> {
    let topic = asked.topic()?;
    let newest = asked.service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
    let commit = |nonce| Commit {
        block_height: epoch::close_height(topic.timing, nonce).to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: newest.last().copied().map(commit) }))
}

/// The newest epoch of a topic that was learned from.
#[utoipa::path(get, path = of::LAST_REPUTER_COMMIT, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = LastCommit)))]
pub(super) async fn topic_last_reputer_commit_info(asked: Asked) -> Answer<LastCommit> {
    let topic = asked.topic()?;
    let nonce = asked.service.inference.learned(topic.id).await?.nonce;
    let commit = |nonce| Commit {
        block_height: reputers(topic.timing, nonce).0.to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: nonce.map(commit) }))
}

/// The nonce that a topic learned from last; 0 before the first.
#[utoipa::path(get, path = of::REWARD_NONCE, tag = "windows", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = RewardNonce)))]
pub(super) async fn topic_reward_nonce(asked: Asked) -> Answer<RewardNonce> {
    let learned = asked.service.inference.learned(asked.topic_id()?).await?;
    Ok(Json(RewardNonce { nonce: learned.nonce.unwrap_or_default().to_string() }))
}

/// A topic, where its epochs stand, and the height of the chain.
struct Standing {
    topic: Arc<Topic>,
    progress: Progress,
    height: BlockHeight,
}

impl Standing {
    async fn read(asked: &Asked) -> Result<Self, ApiError> {
        let (topic, inference) = (asked.topic()?, &asked.service.inference);
        let progress = inference.progress(topic.id).await?;
        Ok(Self { topic, progress, height: inference.chain().height() })
    }
}

/// The first and the last block in which reputers report for `nonce`.
fn reputers(timing: Timing, nonce: BlockHeight) -> (BlockHeight, BlockHeight) {
    let start = nonce.saturating_add(timing.ground_truth_lag);
    (start, start.saturating_add(timing.epoch_length))
}

/// The address that is asked about.
fn read_address(asked: &Asked) -> Result<Option<Address>, ApiError> {
    let text = asked.find("address")?.filter(|text| !text.is_empty());
    text.map(|_| asked.address("address")).transpose()
}
