//! Topics and their windows: what is open, what is due, what came last.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use model::topic::{Address, BlockHeight};
use wire::inference::chain::{
    ActiveTopics, Commit, IsReputerNonceUnfulfilled, IsTopicActive, IsWorkerNonceUnfulfilled,
    LastCommit, NextChurningBlock, Nonce, Nonces, Pagination, ReputerNonce, RewardNonce,
    TopicExists, WindowStatus,
};

use super::{Service, height, in_query, topic};
use crate::{
    math::{
        outlier,
        sortition::{FORECASTERS_MAX_DEFAULT, INFERERS_MAX_DEFAULT},
    },
    network::{
        epoch::{self, Progress},
        topic::{
            EPOCH_LENGTH_MIN, LABELS_MAX, STRING_BYTES_MAX, Timing, Topic, label::LABEL_BYTES_MAX,
        },
    },
    server::{
        error::{ApiError, served, topic_id},
        topic::body,
    },
};

/// The chain's parameters by name. Those that this network takes are its own; the others are what
/// the chain's are, so that clients which read them find them.
pub(super) async fn params(
    State(_): State<Service>,
    Path(version): Path<String>,
) -> Result<Json<BTreeMap<&'static str, BTreeMap<&'static str, String>>>, ApiError> {
    served(&version)?;
    let known = [
        ("version", "0.17.0".to_owned()),
        ("min_epoch_length", EPOCH_LENGTH_MIN.to_string()),
        ("max_string_length", STRING_BYTES_MAX.to_string()),
        ("max_canonical_label_byte_length", LABEL_BYTES_MAX.to_string()),
        ("max_topic_label_whitelist_size", LABELS_MAX.to_string()),
        ("max_epoch_label_registry_size", crate::store::LABELS_MAX.to_string()),
        ("max_elements_per_forecast", crate::network::submission::FORECAST_MAX.to_string()),
        ("max_top_inferers_to_reward", INFERERS_MAX_DEFAULT.to_string()),
        ("max_top_forecasters_to_reward", FORECASTERS_MAX_DEFAULT.to_string()),
        ("max_top_reputers_to_reward", "1".to_owned()),
        ("epsilon_safe_div", "0.0000001".to_owned()),
        ("inference_outlier_detection_threshold", outlier::THRESHOLD.to_string()),
        ("inference_outlier_detection_alpha", outlier::ALPHA.to_string()),
        ("initial_regret_quantile", "0.25".to_owned()),
        ("p_norm_safe_div", "8.25".to_owned()),
        ("required_minimum_stake", "0".to_owned()),
    ];
    Ok(Json(BTreeMap::from([("params", BTreeMap::from(known))])))
}

pub(super) async fn topic_exists(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<TopicExists>, ApiError> {
    served(&version)?;
    let exists = service.inference.topic(topic_id(&id)?).is_some();
    Ok(Json(TopicExists { exists }))
}

pub(super) async fn is_topic_active(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<IsTopicActive>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    Ok(Json(IsTopicActive { is_active: topic.is_active }))
}

pub(super) async fn active_topics(
    State(service): State<Service>,
    Path((version, at)): Path<(String, String)>,
) -> Result<Json<ActiveTopics>, ApiError> {
    served(&version)?;
    height(&at)?;
    let mut topics = Vec::new();
    for topic in service.inference.topics().iter().filter(|topic| topic.is_active) {
        topics.push(body(&service.inference, topic, &version).await?);
    }
    Ok(Json(ActiveTopics { topics, pagination: Pagination { next_key: None } }))
}

pub(super) async fn next_churning_block(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<NextChurningBlock>, ApiError> {
    let (topic, progress) = find_progress(&service, &version, &id).await?;
    let height = service.inference.chain().height();
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    Ok(Json(NextChurningBlock { block_height: next.to_string() }))
}

pub(super) async fn is_worker_nonce_unfulfilled(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<IsWorkerNonceUnfulfilled>, ApiError> {
    let (_, progress) = find_progress(&service, &version, &id).await?;
    let is_worker_nonce_unfulfilled = progress.open.contains(&height(&nonce)?);
    Ok(Json(IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled }))
}

pub(super) async fn is_reputer_nonce_unfulfilled(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<IsReputerNonceUnfulfilled>, ApiError> {
    let (_, progress) = find_progress(&service, &version, &id).await?;
    let is_reputer_nonce_unfulfilled = progress.unlearned.contains(&height(&nonce)?);
    Ok(Json(IsReputerNonceUnfulfilled { is_reputer_nonce_unfulfilled }))
}

pub(super) async fn unfulfilled_worker_nonces(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<Nonces<Nonce>>, ApiError> {
    let (_, progress) = find_progress(&service, &version, &id).await?;
    Ok(Json(Nonces::new(progress.open.into_iter().map(Nonce::new))))
}

pub(super) async fn unfulfilled_reputer_nonces(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<Nonces<ReputerNonce>>, ApiError> {
    let (_, progress) = find_progress(&service, &version, &id).await?;
    Ok(Json(Nonces::new(progress.unlearned.into_iter().map(ReputerNonce::new))))
}

pub(super) async fn open_worker_windows(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<Nonces<Nonce>>, ApiError> {
    let (topic, progress) = find_progress(&service, &version, &id).await?;
    let height = service.inference.chain().height();
    let open = progress.open.into_iter();
    let open = open.filter(|nonce| epoch::is_open(topic.timing, *nonce, height));
    Ok(Json(Nonces::new(open.map(Nonce::new))))
}

pub(super) async fn open_reputer_windows(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<Nonces<ReputerNonce>>, ApiError> {
    let (topic, progress) = find_progress(&service, &version, &id).await?;
    let height = service.inference.chain().height();
    let due =
        progress.unlearned.into_iter().filter(|nonce| reputers(topic.timing, *nonce).0 <= height);
    Ok(Json(Nonces::new(due.map(ReputerNonce::new))))
}

pub(super) async fn worker_window_status(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<WindowStatus>, ApiError> {
    let (topic, progress) = find_progress(&service, &version, &id).await?;
    let height = service.inference.chain().height();
    let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
    let open = progress.open.last().copied();
    let current = open.or(progress.last_nonce).unwrap_or_default();
    let last = |nonce| epoch::close_height(topic.timing, nonce).saturating_sub(1);
    let address = read_address(&uri)?;
    let learned = service.inference.learned(topic.id).await?;
    Ok(Json(WindowStatus {
        is_open: open.is_some_and(|nonce| epoch::is_open(topic.timing, nonce, height)),
        current_nonce_block_height: current.to_string(),
        window_start_block: current.to_string(),
        window_end_block: if current == 0 { 0 } else { last(current) }.to_string(),
        next_window_start_block: next.to_string(),
        next_window_end_block: last(next).to_string(),
        is_registered: address.as_ref().is_some_and(|name| {
            learned.inferers.contains_key(name) || learned.forecasters.contains_key(name)
        }),
        is_whitelisted: address.is_some_and(|name| topic.whitelist.admits(&name)),
        is_topic_active: topic.is_active,
    }))
}

pub(super) async fn reputer_window_status(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<WindowStatus>, ApiError> {
    let (topic, progress) = find_progress(&service, &version, &id).await?;
    let height = service.inference.chain().height();
    let current = progress.unlearned.first().copied();
    let next = progress
        .unlearned
        .get(1)
        .copied()
        .unwrap_or_else(|| epoch::next_nonce(topic.timing, progress.last_nonce, height));
    let (start, end) = current.map_or((0, 0), |nonce| reputers(topic.timing, nonce));
    let (next_start, next_end) = reputers(topic.timing, next);
    let address = read_address(&uri)?;
    let reputer = crate::network::addresses::of_reputer(&topic.source.dataset)?;
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

pub(super) async fn last_worker_commit(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<LastCommit>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let newest = service.inference.nonces(topic.id, 0..=BlockHeight::MAX, 1).await?;
    let commit = |nonce| Commit {
        block_height: epoch::close_height(topic.timing, nonce).to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: newest.last().copied().map(commit) }))
}

pub(super) async fn last_reputer_commit(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<LastCommit>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = service.inference.learned(topic.id).await?.nonce;
    let commit = |nonce| Commit {
        block_height: reputers(topic.timing, nonce).0.to_string(),
        nonce: Nonce::new(nonce),
    };
    Ok(Json(LastCommit { last_commit: nonce.map(commit) }))
}

pub(super) async fn reward_nonce(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<RewardNonce>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = service.inference.learned(topic.id).await?.nonce.unwrap_or_default();
    Ok(Json(RewardNonce { nonce: nonce.to_string() }))
}

/// The topic that a path names, and where it stands.
async fn find_progress(
    service: &Service,
    version: &str,
    id: &str,
) -> Result<(Arc<Topic>, Progress), ApiError> {
    let topic = topic(&service.inference, version, id)?;
    let progress = service.inference.progress(topic.id).await?;
    Ok((topic, progress))
}

/// The first and the last block in which reputers report for `nonce`.
fn reputers(timing: Timing, nonce: BlockHeight) -> (BlockHeight, BlockHeight) {
    let start = nonce.saturating_add(timing.ground_truth_lag);
    (start, start.saturating_add(timing.epoch_length))
}

/// The address that is asked about.
fn read_address(uri: &Uri) -> Result<Option<Address>, ApiError> {
    let text = in_query(uri, "address")?.filter(|text| !text.is_empty());
    text.map(|text| super::address("address", &text)).transpose()
}
