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

use super::{super::topic, ApiError, Asked};
use crate::{
    math::regret::Role,
    network::{
        addresses,
        epoch::{self, Progress},
        topic::{Timing, Topic},
    },
};

queries! {
    "windows";

    /// Whether there is such a topic.
    TOPIC_EXISTS[TopicPart] topic_exists(asked) -> TopicExists = {
        let exists = asked.service.inference.topic(asked.topic_id()?).is_some();
        Ok(Json(TopicExists { exists }))
    };

    /// Whether a topic's epochs open.
    IS_TOPIC_ACTIVE[TopicPart] is_topic_active(asked) -> IsTopicActive =
        Ok(Json(IsTopicActive { is_active: asked.topic()?.is_active }));

    /// The topics whose epochs open now.
    ///
    /// What was at other heights is not kept: every height gives the same answer.
    ACTIVE_TOPICS[HeightPart] active_topics_at_block(asked) -> ActiveTopics = {
        asked.check_version()?;
        asked.height()?;
        let inference = &asked.service.inference;
        let mut topics = Vec::new();
        for topic in inference.topics().iter().filter(|topic| topic.is_active) {
            topics.push(topic::body(inference, topic, asked.is_old()).await?);
        }
        Ok(Json(ActiveTopics { topics, pagination: Pagination { next_key: None } }))
    };

    /// The height at which a topic's next epoch opens.
    NEXT_CHURNING_BLOCK[TopicPart] next_churning_block_by_topic_id(asked) -> NextChurningBlock = {
        let Standing { topic, progress, height } = Standing::read(&asked).await?;
        let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
        Ok(Json(NextChurningBlock { block_height: next.to_string() }))
    };

    /// Whether an epoch is open.
    IS_WORKER_NONCE_UNFULFILLED[TopicPart, HeightPart]
    is_worker_nonce_unfulfilled(asked) -> IsWorkerNonceUnfulfilled = {
        let progress = Standing::read(&asked).await?.progress;
        let is_worker_nonce_unfulfilled = progress.open.contains(&asked.height()?);
        Ok(Json(IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled }))
    };

    /// Whether an epoch has closed and is still to be learned from.
    IS_REPUTER_NONCE_UNFULFILLED[TopicPart, HeightPart]
    is_reputer_nonce_unfulfilled(asked) -> IsReputerNonceUnfulfilled = {
        let progress = Standing::read(&asked).await?.progress;
        let is_reputer_nonce_unfulfilled = progress.unlearned.contains(&asked.height()?);
        Ok(Json(IsReputerNonceUnfulfilled { is_reputer_nonce_unfulfilled }))
    };

    /// The epochs of a topic that are open.
    UNFULFILLED_WORKER_NONCES[TopicPart] unfulfilled_worker_nonces(asked) -> Nonces<Nonce> = {
        let open = Standing::read(&asked).await?.progress.open;
        Ok(Json(Nonces::new(open.into_iter().map(Nonce::new))))
    };

    /// The epochs of a topic that are to be learned from.
    UNFULFILLED_REPUTER_NONCES[TopicPart]
    unfulfilled_reputer_nonces(asked) -> Nonces<ReputerNonce> = {
        let unlearned = Standing::read(&asked).await?.progress.unlearned;
        Ok(Json(Nonces::new(unlearned.into_iter().map(ReputerNonce::new))))
    };

    /// The epochs of a topic that take submissions now.
    OPEN_WORKER_WINDOWS[TopicPart] open_worker_submission_windows(asked) -> Nonces<Nonce> = {
        let Standing { topic, progress, height } = Standing::read(&asked).await?;
        let open = progress.open.into_iter();
        let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
        Ok(Json(Nonces::new(open.map(Nonce::new))))
    };

    /// The epochs of a topic whose truth is asked for now.
    OPEN_REPUTER_WINDOWS[TopicPart] open_reputer_submission_windows(asked) -> Nonces<ReputerNonce> = {
        let Standing { topic, progress, height } = Standing::read(&asked).await?;
        let due = progress.unlearned.into_iter();
        let due = due.filter(|nonce| reputers(topic.timing, *nonce).0 <= height);
        Ok(Json(Nonces::new(due.map(ReputerNonce::new))))
    };

    /// Where a topic's workers stand: this window and the next.
    WORKER_WINDOW_STATUS[TopicPart, AskedAddress]
    worker_submission_window_status(asked) -> WindowStatus = {
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
    };

    /// Where a topic's reputer stands: this window and the next.
    REPUTER_WINDOW_STATUS[TopicPart, AskedAddress]
    reputer_submission_window_status(asked) -> WindowStatus = {
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
    };

    /// The newest epoch of a topic that closed.
    LAST_WORKER_COMMIT[TopicPart] topic_last_worker_commit_info(asked) -> LastCommit = {
        let topic = asked.topic()?;
        let newest = asked.service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
        let commit = |nonce| Commit {
            block_height: epoch::close_height(topic.timing, nonce).to_string(),
            nonce: Nonce::new(nonce),
        };
        Ok(Json(LastCommit { last_commit: newest.last().copied().map(commit) }))
    };

    /// The newest epoch of a topic that was learned from.
    LAST_REPUTER_COMMIT[TopicPart] topic_last_reputer_commit_info(asked) -> LastCommit = {
        let topic = asked.topic()?;
        let nonce = asked.service.inference.learned(topic.id).await?.nonce;
        let commit = |nonce| Commit {
            block_height: reputers(topic.timing, nonce).0.to_string(),
            nonce: Nonce::new(nonce),
        };
        Ok(Json(LastCommit { last_commit: nonce.map(commit) }))
    };

    /// The nonce that a topic learned from last; 0 before the first.
    REWARD_NONCE[TopicPart] topic_reward_nonce(asked) -> RewardNonce = {
        let learned = asked.service.inference.learned(asked.topic_id()?).await?;
        Ok(Json(RewardNonce { nonce: learned.nonce.unwrap_or_default().to_string() }))
    };
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
