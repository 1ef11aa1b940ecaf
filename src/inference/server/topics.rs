//! `GET /api/v1/topics`: every topic with its clock and its actors. Ours, for who watches it.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use model::{
    bundle::WorkerValues,
    dataset::DatasetId,
    topic::{Address, BlockHeight},
};
use wire::inference::{ActorSummary, TopicList, TopicSummary};

use super::{error::ApiError, topic::type_name};
use crate::{
    Inference, Overview, epoch,
    regret::Family,
    store::{ActorView, Recent},
};

pub(super) async fn get(State(inference): State<Inference>) -> Result<Json<TopicList>, ApiError> {
    let overviews = inference.overviews().await?;
    let block_height = inference.chain().height();
    let block_time_ms =
        u64::try_from(inference.chain().block_time().as_millis()).unwrap_or(u64::MAX);
    let summary = |overview: &Overview| summary(overview, block_height);
    let topics = overviews.iter().map(summary).collect();
    Ok(Json(TopicList { block_height, block_time_ms, topics }))
}

fn summary(overview: &Overview, height: BlockHeight) -> TopicSummary {
    let Overview { topic, progress, recent, learned } = overview;
    let timing = topic.timing;
    let open = progress.open.last();
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
        epoch_length: timing.epoch_length,
        worker_submission_window: timing.worker_submission_window,
        ground_truth_lag: timing.ground_truth_lag,
        next_epoch_height: epoch::next_nonce(timing, progress.last_nonce, height),
        close_height: open.map(|nonce| epoch::close_height(timing, *nonce)),
        last_nonce: recent.as_ref().map(|recent| recent.bundle.nonce),
        n_learned: learned.n_learned,
        actors: recent.as_ref().map(|recent| actors(overview, recent)).unwrap_or_default(),
    }
}

/// What is known of one role's actors, by address.
struct Known<'a> {
    role: &'static str,
    shares: &'a Family,
    regrets: &'a Family,
    losses: &'a Family,
    scores: &'a Family,
}

fn actors(overview: &Overview, recent: &Recent) -> Vec<ActorSummary> {
    let learned = &overview.learned;
    let names: BTreeMap<&Address, &ActorView> =
        recent.actors.iter().map(|actor| (&actor.worker, actor)).collect();
    let inferers = Known {
        role: "inferer",
        shares: &recent.shares.inferer,
        regrets: &learned.regrets.ordinary.inferer,
        losses: &learned.losses.inferer,
        scores: &learned.scores.inferer,
    };
    let forecasters = Known {
        role: "forecaster",
        shares: &recent.shares.forecaster,
        regrets: &learned.regrets.ordinary.forecaster,
        losses: &learned.losses.forecaster,
        scores: &learned.scores.forecaster,
    };
    let actor = |known: &Known<'_>, values: &WorkerValues| {
        let worker = &values.worker;
        ActorSummary {
            worker: worker.to_string(),
            role: known.role.to_owned(),
            name: names.get(worker).and_then(|actor| actor.name.clone()),
            weight: known.shares.get(worker).copied(),
            regret: known.regrets.get(worker).copied(),
            loss: known.losses.get(worker).copied(),
            score: known.scores.get(worker).copied(),
        }
    };
    let bundle = &recent.bundle;
    let inferers = bundle.inferer_values.iter().map(|values| actor(&inferers, values));
    let forecasters = bundle.forecaster_values.iter().map(|values| actor(&forecasters, values));
    inferers.chain(forecasters).collect()
}
