//! `GET /v2/allora/{network}/topics?continuation_token=`: topics, page by page.

use axum::Json;
use wire::{
    inference::consumer::{ConsumerTopic, ConsumerTopics, Envelope},
    paths,
};

use super::{
    consumer::wrapped,
    error::{ApiError, ConsumerError},
    openapi::parameters::{ConsumerRefusal, NetworkPart},
    request::Asked,
};
use crate::{Inference, InferenceError, network::topic::Topic};

/// How many topics a page has.
const PAGE: usize = 100;

/// The networks' names that clients ask for. Both are this one.
const NETWORKS: [&str; 2] = ["allora-testnet-1", "allora-mainnet-1"];

/// Topics, 100 a page. Both networks are this one.
#[utoipa::path(get, path = paths::CONSUMER_TOPICS, operation_id = "consumer_topics",
    tag = "consumer", params(NetworkPart,
        ("continuation_token" = Option<String>, Query,
            description = "What the page before says; on the last page there is none.")),
    responses((status = 200, description = "A page of topics", body = Envelope<ConsumerTopics>),
        (status = 400, description = "The token is none", body = ConsumerRefusal),
        (status = 404, description = "There is no such network", body = ConsumerRefusal)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Envelope<ConsumerTopics>>, ConsumerError> {
    if !NETWORKS.contains(&asked.text("network")?.as_str()) {
        let message = format!("network not served, use one of: {}", NETWORKS.join(", "));
        return Err(ApiError::not_found(message).into());
    }
    let token = asked.find("continuation_token")?.filter(|token| !token.is_empty());
    let after: Option<u64> = token
        .map(|token| token.parse())
        .transpose()
        .map_err(|_| ApiError::mismatch("continuation_token", "it is what the page before says"))?;
    let after = after.unwrap_or_default();
    let inference = &asked.service.inference;
    let topics = inference.topics();
    let mut rest = topics.iter().filter(|topic| topic.id.get() > after);
    let mut page = Vec::new();
    for topic in rest.by_ref().take(PAGE) {
        page.push(body(inference, topic).await?);
    }
    let last = page.last().map(|topic| topic.topic_id.to_string());
    let continuation_token = rest.next().and(last);
    Ok(wrapped(ConsumerTopics { topics: page, continuation_token }))
}

async fn body(inference: &Inference, topic: &Topic) -> Result<ConsumerTopic, InferenceError> {
    // Without a bundle nobody has taken part yet.
    let newest = inference.latest(topic.id).await.ok();
    let n_workers = newest.as_ref().map_or(0, |bundles| {
        bundles.bundle.inferer_values.len() + bundles.bundle.forecaster_values.len()
    });
    let updated_at = newest.map_or_else(|| inference.chain().now(), |bundles| bundles.closed_at);
    Ok(ConsumerTopic {
        topic_id: topic.id.get(),
        topic_name: topic.name.clone(),
        description: Some(format!("{} of {}", topic.source.column, topic.source.dataset)),
        epoch_length: topic.timing.epoch_length,
        ground_truth_lag: topic.timing.ground_truth_lag,
        loss_method: topic.judging.loss.method.to_string(),
        worker_submission_window: topic.timing.worker_submission_window,
        worker_count: u64::try_from(n_workers).unwrap_or(u64::MAX),
        reputer_count: 1,
        total_staked_allo: 0,
        total_emissions_allo: 0,
        is_active: topic.is_active,
        updated_at: updated_at.to_string(),
    })
}
