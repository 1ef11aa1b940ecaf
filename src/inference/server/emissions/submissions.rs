//! Submissions of closed epochs. Those of an open epoch are not returned, since other actors could copy
//! them.

use std::collections::BTreeSet;

use axum::Json;
use model::topic::{Address, BlockHeight, decimal};
use wire::inference::LabeledValue;
use wire::inference::chain::{
    ForecastBody, ForecastElement, Forecasts, InferenceBody, Inferences, InputInferenceBody,
    InputLabeledValueBody, LatestInferences,
};

use super::{Answer, ApiError, App, OpenApiRouter, Params, Queries, Result, no_form};
use crate::network::epoch::is_open;
use crate::network::submission::Submission;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("submissions")
        .member("inferences_at_block", "inferences", inferences_at_block)
        .get("latest_inferences", latest_inferences)
        .member("forecasts_at_block", "forecasts", forecasts_at_block)
        .member("latest_input_inference", "latest_input_inference", latest_input_inference)
        .member("latest_inference", "latest_inference", latest_inference)
        .router
}

async fn inferences_at_block(params: Params) -> Result<Inferences> {
    let topic = params.topic()?;
    read_inferences(&params, &topic, params.height()?).await
}

async fn latest_inferences(params: Params) -> Answer<LatestInferences> {
    let topic = params.topic()?;
    let nonce = params.service.inference.latest(topic.id).await?.bundle.nonce;
    let inferences = read_inferences(&params, &topic, nonce).await?;
    Ok(Json(LatestInferences { inferences, block_height: nonce.to_string() }))
}

async fn forecasts_at_block(params: Params) -> Result<Forecasts> {
    let (topic, nonce) = (params.topic()?, params.height()?);
    let submissions = read_closed(&params, &topic, nonce).await?;
    let inferring = submissions.iter().filter(|submission| !submission.inference.is_empty());
    let inferers: BTreeSet<&Address> = inferring.map(|submission| &submission.worker).collect();
    let mut forecasts: Vec<ForecastBody> = submissions
        .iter()
        .map(|submission| ForecastBody {
            topic_id: topic.id.to_string(),
            block_height: nonce.to_string(),
            forecaster: submission.worker.to_string(),
            forecast_elements: submission
                .forecast
                .iter()
                // As on the chain, an element for an absent inferer is dropped.
                .filter(|(name, _)| inferers.contains(*name))
                .map(|(name, value)| ForecastElement {
                    inferer: name.to_string(),
                    value: decimal(*value),
                })
                .collect(),
            extra_data: None,
        })
        .collect();
    forecasts.retain(|forecast| !forecast.forecast_elements.is_empty());
    Ok(Forecasts { forecasts })
}

async fn latest_input_inference(params: Params) -> Result<InputInferenceBody> {
    let topic = params.topic()?;
    let (nonce, submission) = newest(&params, &topic).await?;
    let labeled = |value: LabeledValue| InputLabeledValueBody {
        label: value.label_name,
        value: decimal(value.value),
    };
    Ok(InputInferenceBody {
        topic_id: topic.id.to_string(),
        block_height: nonce.to_string(),
        inferer: submission.worker.to_string(),
        value: only(&topic, &submission).unwrap_or_else(|| "0".to_owned()),
        values: submission.inference.into_iter().map(labeled).collect(),
        extra_data: None,
        proof: String::new(),
    })
}

async fn latest_inference(params: Params) -> Result<InferenceBody> {
    let topic = params.topic()?;
    let (nonce, submission) = newest(&params, &topic).await?;
    body(&topic, params.is_old(), nonce, submission)
}

async fn newest(params: &Params, topic: &Topic) -> Result<(BlockHeight, Submission)> {
    let text = params.text("worker")?;
    let worker: Address = text.parse().map_err(|_| ApiError::syntax("worker_address", &text))?;
    let inference = &params.service.inference;
    let mut found = inference.newest_of(topic.id, worker.clone(), BlockHeight::MAX).await?;
    let height = inference.chain().height();
    let is_hidden = |(nonce, submission): &(BlockHeight, Submission)| {
        is_open(topic.timing, *nonce, height)
            && params.holder.address(submission.name.as_deref()) != worker
    };
    if let Some((nonce, _)) = found.as_ref().filter(|newest| is_hidden(newest)) {
        // The latest submission is for an epoch that is still open. Reads the previous submission:
        // windows do not overlap, so its epoch is closed.
        let before = nonce.checked_sub(1);
        found = match before {
            Some(before) => inference.newest_of(topic.id, worker.clone(), before).await?,
            None => None,
        };
    }
    found.filter(|(_, submission)| !submission.inference.is_empty()).ok_or_else(|| {
        ApiError::not_found(format!("no inference of {worker} for topic {}", topic.id))
    })
}

async fn read_inferences(params: &Params, topic: &Topic, nonce: BlockHeight) -> Result<Inferences> {
    let submissions = read_closed(params, topic, nonce).await?;
    let inferring = submissions.into_iter().filter(|submission| !submission.inference.is_empty());
    let bodies = inferring.map(|own| body(topic, params.is_old(), nonce, own));
    Ok(Inferences { inferences: bodies.collect::<Result<_, _>>()? })
}

/// Returns the submissions for the epoch `nonce`, or an empty list while its window is open.
async fn read_closed(
    params: &Params,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<Vec<Submission>> {
    let inference = &params.service.inference;
    if is_open(topic.timing, nonce, inference.chain().height()) {
        return Ok(Vec::new());
    }
    Ok(inference.submissions(topic.id, nonce).await?)
}

/// Returns the inference of `submission` in the form of the API: a single number if `is_old`, otherwise
/// a list of labeled values.
fn body(
    topic: &Topic,
    is_old: bool,
    nonce: BlockHeight,
    submission: Submission,
) -> Result<InferenceBody> {
    let value = only(topic, &submission).filter(|_| is_old);
    if is_old && value.is_none() {
        return Err(no_form(topic));
    }
    let values = submission.inference.into_iter().map(|value| decimal(value.value));
    Ok(InferenceBody {
        topic_id: topic.id.to_string(),
        block_height: nonce.to_string(),
        inferer: submission.worker.to_string(),
        value,
        values: (!is_old).then(|| values.collect()),
        extra_data: None,
        proof: String::new(),
    })
}

/// Returns the value of `submission`, or `None` if the topic has several labels or the submission has
/// no inference.
fn only(topic: &Topic, submission: &Submission) -> Option<String> {
    submission.inference.first().filter(|_| topic.is_single()).map(|value| decimal(value.value))
}
