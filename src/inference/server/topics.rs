//! `GET /api/v1/topics`: every topic with its clock and its actors. Ours, for who watches it.

use axum::{Json, extract::State};
use model::{dataset::DatasetId, topic::BlockHeight};
use wire::inference::{ActorSummary, TopicList, TopicSummary};

use super::{error::ApiError, topic::type_name};
use crate::{
    Inference,
    network::{
        epoch,
        overview::{ActorView, Overview},
    },
};

pub(super) async fn get(State(inference): State<Inference>) -> Result<Json<TopicList>, ApiError> {
    let overviews = inference.overviews().await?;
    let block_height = inference.chain().height();
    let block_time_ms =
        u64::try_from(inference.chain().block_time().as_millis()).unwrap_or(u64::MAX);
    let summary = |overview: &Overview| {
        let problems = inference.problems(overview.topic.id).into_iter();
        let problem = problems.map(|p| format!("it fails to {}: {}", p.failing.text(), p.reason));
        summary(overview, block_height, problem.reduce(|all, next| format!("{all}; {next}")))
    };
    let topics = overviews.iter().map(summary).collect();
    Ok(Json(TopicList { block_height, block_time_ms, topics }))
}

fn summary(overview: &Overview, height: BlockHeight, problem: Option<String>) -> TopicSummary {
    let Overview { topic, progress, actors } = overview;
    let timing = topic.timing;
    let open = progress.open.last().copied();
    TopicSummary {
        topic_id: topic.id.get(),
        name: topic.name.clone(),
        topic_type: type_name(topic.kind).to_owned(),
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
        actors: actors.actors.iter().map(actor).collect(),
    }
}

fn actor(view: &ActorView) -> ActorSummary {
    ActorSummary {
        worker: view.worker.to_string(),
        role: if view.is_forecaster { "forecaster" } else { "inferer" }.to_owned(),
        name: view.name.clone(),
        weight: view.weight,
        regret: view.regret,
        loss: view.loss,
        score: view.score,
    }
}
