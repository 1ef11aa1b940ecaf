//! Submissions, as they came. Those of an epoch that is open are not told before it closes: who
//! looks at the others' values first could repeat them.

use axum::Json;
use model::topic::{Address, BlockHeight, decimal};
use wire::{
    inference::{
        LabeledValue,
        chain::{
            ForecastBody, ForecastElement, Forecasts, ForecastsAtBlock, InferenceBody, Inferences,
            InferencesAtBlock, InputInferenceBody, InputLabeledValueBody, LatestInference,
            LatestInferences, LatestInputInference,
        },
    },
    paths::emissions::submissions as of,
};

use super::{
    ActorAddress, Answer, ApiError, Asked, FOUND, HeightPart, TopicPart, Version, no_form,
};
use crate::network::{epoch::is_open, submission::Submission, topic::Topic};

/// The inferences of one epoch.
///
/// None while its window is open: who looks at the others' values first could repeat them.
#[utoipa::path(get, path = of::INFERENCES, tag = "submissions", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = InferencesAtBlock)))]
pub(super) async fn inferences_at_block(asked: Asked) -> Answer<InferencesAtBlock> {
    let topic = asked.topic()?;
    let inferences = read_inferences(&asked, &topic, asked.height()?).await?;
    Ok(Json(InferencesAtBlock { inferences }))
}

/// The inferences of the newest epoch that closed.
#[utoipa::path(get, path = of::LATEST_INFERENCES, tag = "submissions", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = LatestInferences)))]
pub(super) async fn latest_inferences(asked: Asked) -> Answer<LatestInferences> {
    let topic = asked.topic()?;
    let nonce = asked.service.inference.latest(topic.id).await?.bundle.nonce;
    let inferences = read_inferences(&asked, &topic, nonce).await?;
    Ok(Json(LatestInferences { inferences, block_height: nonce.to_string() }))
}

/// The forecasts of one epoch.
///
/// None while its window is open.
#[utoipa::path(get, path = of::FORECASTS, tag = "submissions", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = ForecastsAtBlock)))]
pub(super) async fn forecasts_at_block(asked: Asked) -> Answer<ForecastsAtBlock> {
    let (topic, nonce) = (asked.topic()?, asked.height()?);
    let submissions = read_closed(&asked, &topic, nonce).await?;
    let forecasting = submissions.into_iter().filter(|submission| !submission.forecast.is_empty());
    let forecasts = forecasting
        .map(|submission| ForecastBody {
            topic_id: topic.id.to_string(),
            block_height: nonce.to_string(),
            forecaster: submission.worker.to_string(),
            forecast_elements: submission
                .forecast
                .iter()
                .map(|(name, value)| ForecastElement {
                    inferer: name.to_string(),
                    value: decimal(*value),
                })
                .collect(),
            extra_data: None,
        })
        .collect();
    Ok(Json(ForecastsAtBlock { forecasts: Forecasts { forecasts } }))
}

/// The newest inference of a worker.
///
/// That of an open window is shown to the key that submitted it alone, else the one before.
#[utoipa::path(get, path = of::LATEST_INPUT_INFERENCE, tag = "submissions", params(Version, TopicPart,
    ("worker" = inline(ActorAddress), Path,
        description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = LatestInputInference)))]
pub(super) async fn latest_input_inference(asked: Asked) -> Answer<LatestInputInference> {
    let topic = asked.topic()?;
    let (nonce, submission) = newest(&asked, &topic).await?;
    let labeled = |value: LabeledValue| InputLabeledValueBody {
        label: value.label_name,
        value: decimal(value.value),
    };
    Ok(Json(LatestInputInference {
        latest_input_inference: InputInferenceBody {
            topic_id: topic.id.to_string(),
            block_height: nonce.to_string(),
            inferer: submission.worker.to_string(),
            value: only(&topic, &submission).unwrap_or_else(|| "0".to_owned()),
            values: submission.inference.into_iter().map(labeled).collect(),
            extra_data: None,
            proof: String::new(),
        },
    }))
}

/// The same as it was called up to `v9`.
#[utoipa::path(get, path = of::LATEST_INFERENCE, tag = "submissions", params(Version, TopicPart,
    ("worker" = inline(ActorAddress), Path,
        description = "The worker's address.")),
    responses((status = 200, description = FOUND, body = LatestInference)))]
pub(super) async fn latest_inference(asked: Asked) -> Answer<LatestInference> {
    let topic = asked.topic()?;
    let (nonce, submission) = newest(&asked, &topic).await?;
    let latest_inference = body(&topic, asked.is_old(), nonce, submission)?;
    Ok(Json(LatestInference { latest_inference }))
}

async fn newest(asked: &Asked, topic: &Topic) -> Result<(BlockHeight, Submission), ApiError> {
    let text = asked.text("worker")?;
    let worker: Address = text.parse().map_err(|_| ApiError::syntax("worker_address", &text))?;
    let inference = &asked.service.inference;
    let mut found = inference.newest_of(topic.id, worker.clone(), BlockHeight::MAX).await?;
    let height = inference.chain().height();
    let is_hidden = |(nonce, submission): &(BlockHeight, Submission)| {
        is_open(topic.timing, *nonce, height)
            && asked.holder.address(submission.name.as_deref()) != worker
    };
    if let Some((nonce, _)) = found.as_ref().filter(|newest| is_hidden(newest)) {
        // Windows do not overlap, so the one before is closed.
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

async fn read_inferences(
    asked: &Asked,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<Inferences, ApiError> {
    let submissions = read_closed(asked, topic, nonce).await?;
    let inferring = submissions.into_iter().filter(|submission| !submission.inference.is_empty());
    let bodies = inferring.map(|own| body(topic, asked.is_old(), nonce, own));
    Ok(Inferences { inferences: bodies.collect::<Result<_, _>>()? })
}

/// What was submitted for `nonce`; nothing while its window is open.
async fn read_closed(
    asked: &Asked,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<Vec<Submission>, ApiError> {
    let inference = &asked.service.inference;
    if is_open(topic.timing, nonce, inference.chain().height()) {
        return Ok(Vec::new());
    }
    Ok(inference.submissions(topic.id, nonce).await?)
}

/// The inference of `submission`; one number where it `is_old`.
fn body(
    topic: &Topic,
    is_old: bool,
    nonce: BlockHeight,
    submission: Submission,
) -> Result<InferenceBody, ApiError> {
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

/// The value of `submission` on a topic with one output.
fn only(topic: &Topic, submission: &Submission) -> Option<String> {
    submission.inference.first().filter(|_| topic.is_single()).map(|value| decimal(value.value))
}
