//! `GET /api/v1/topics`: every topic with its clock and its actors.
//!
//! The actors of a topic are written once for each bundle and lesson, and sent as they are: those of a
//! thousand inferers take more than the rest of the answer.

use axum::{extract::State, response::Response};
use model::{dataset::DatasetId, topic::BlockHeight};
use wire::{
    inference::{TopicList, TopicSummary},
    paths,
};

use super::{App, bundle_body::json, error::ApiError, topic::type_name};
use crate::network::{epoch, overview::Overview};

/// Where a topic's summary has its actors. In a text its quotes would be escaped.
const PLACE: &str = "\"actors\":[";

/// Every topic with its clock and its actors.
#[utoipa::path(get, path = paths::TOPICS, operation_id = "list_topics", tag = "network",
    responses((status = 200, description = "All topics, by number", body = TopicList)))]
pub(super) async fn get(State(service): State<App>) -> Result<Response, ApiError> {
    let inference = &service.inference;
    let overviews = inference.overviews().await?;
    let block_height = inference.chain().height();
    let block_time_ms =
        u64::try_from(inference.chain().block_time().as_millis()).unwrap_or(u64::MAX);
    let summary = |overview: &Overview| {
        let problems = inference.problems(overview.topic.id).into_iter();
        let problem = problems.map(|p| format!("it fails to {}: {}", p.failing, p.reason));
        summary(overview, block_height, problem.reduce(|all, next| format!("{all}; {next}")))
    };
    let topics = overviews.iter().map(summary).collect();
    let list = TopicList { block_height, block_time_ms, topics };
    let list = serde_json::to_string(&list)?;
    let mut body = String::new();
    let mut overviews_left = overviews.iter();
    for part in list.split_inclusive(PLACE) {
        body.push_str(part);
        if let Some(Overview { actors, .. }) = overviews_left.next() {
            body.push_str(&actors.elements);
        }
    }
    Ok(json(body))
}

/// A topic without its actors.
fn summary(overview: &Overview, height: BlockHeight, problem: Option<String>) -> TopicSummary {
    let Overview { topic, progress, actors } = overview;
    let timing = topic.timing;
    let open = progress.open.last().copied();
    TopicSummary {
        topic_id: topic.id.get(),
        name: topic.name.clone(),
        topic_type: type_name(topic.kind),
        labels: topic.labels.clone(),
        dataset: topic.source.dataset.clone(),
        dataset_id: topic.source.dataset_id.map(DatasetId::get),
        column: topic.source.column.clone(),
        subgroup: topic
            .predictor
            .as_ref()
            .and_then(|predictor| predictor.subgroup.as_ref())
            .map(ToString::to_string),
        is_paused: !topic.is_active,
        problem,
        epoch_length: timing.epoch_length,
        worker_submission_window: timing.worker_submission_window,
        ground_truth_lag: timing.ground_truth_lag,
        next_epoch_height: epoch::next_nonce(timing, progress.last_nonce, height),
        open_nonce: open,
        close_height: open.map(|nonce| epoch::close_height(timing, nonce)),
        last_nonce: actors.last_nonce,
        n_learned: actors.n_learned,
        actors: Vec::new(),
    }
}
