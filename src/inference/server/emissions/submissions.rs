//! Submissions, as they came. Those of an epoch that is open are not told before it closes: who
//! looks at the others' values first could repeat them.

use axum::{
    Json,
    extract::{Path, State},
};
use model::topic::BlockHeight;
use wire::inference::chain::{
    ForecastBody, ForecastElement, Forecasts, ForecastsAtBlock, InferenceBody, Inferences,
    InferencesAtBlock, LatestInference, LatestInferences, LatestInputInference,
};

use super::{Service, address, height, topic};
use crate::{epoch::is_open, server::error::ApiError, submission::Submission, topic::Topic};

pub(super) async fn inferences(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<InferencesAtBlock>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let inferences = at(&service, &topic, height(&nonce)?).await?;
    Ok(Json(InferencesAtBlock { inferences }))
}

pub(super) async fn latest_inferences(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<LatestInferences>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = service.inference.latest(topic.id).await?.bundle.nonce;
    let inferences = at(&service, &topic, nonce).await?;
    Ok(Json(LatestInferences { inferences, block_height: nonce.to_string() }))
}

pub(super) async fn forecasts(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<ForecastsAtBlock>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = height(&nonce)?;
    let submissions = told(&service, &topic, nonce).await?;
    let forecasting = submissions.into_iter().filter(|submission| !submission.forecast.is_empty());
    let forecasts = forecasting
        .map(|submission| ForecastBody {
            topic_id: topic.id.to_string(),
            block_height: nonce.to_string(),
            forecaster: submission.worker.to_string(),
            forecast_elements: submission
                .forecast
                .into_iter()
                .map(|(name, value)| ForecastElement { inferer: name.to_string(), value })
                .collect(),
            extra_data: None,
        })
        .collect();
    Ok(Json(ForecastsAtBlock { forecasts: Forecasts { forecasts } }))
}

pub(super) async fn latest_input_inference(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<LatestInputInference>, ApiError> {
    newest(&service, parts)
        .await
        .map(|latest_input_inference| Json(LatestInputInference { latest_input_inference }))
}

pub(super) async fn latest_inference(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Json<LatestInference>, ApiError> {
    newest(&service, parts).await.map(|latest_inference| Json(LatestInference { latest_inference }))
}

async fn newest(
    service: &Service,
    (version, id, worker): (String, String, String),
) -> Result<InferenceBody, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let worker = address("worker_address", &worker)?;
    let found = service.inference.newest_of(topic.id, worker.clone()).await?;
    let found = found.filter(|found| !found.submission.inference.is_empty());
    let found = found.ok_or_else(|| {
        ApiError::NotFound(format!("no inference of {worker} for topic {}", topic.id))
    })?;
    Ok(body(&topic, found.nonce, found.submission))
}

async fn at(service: &Service, topic: &Topic, nonce: BlockHeight) -> Result<Inferences, ApiError> {
    let submissions = told(service, topic, nonce).await?;
    let inferring = submissions.into_iter().filter(|submission| !submission.inference.is_empty());
    Ok(Inferences { inferences: inferring.map(|own| body(topic, nonce, own)).collect() })
}

/// What was submitted for `nonce`; nothing while its window is open.
async fn told(
    service: &Service,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<Vec<Submission>, ApiError> {
    if is_open(topic.timing, nonce, service.inference.chain().height()) {
        return Ok(Vec::new());
    }
    Ok(service.inference.submissions(topic.id, nonce).await?)
}

fn body(topic: &Topic, nonce: BlockHeight, submission: Submission) -> InferenceBody {
    let values: Vec<String> = submission.inference.into_iter().map(|value| value.value).collect();
    let value = values.first().filter(|_| topic.is_single()).cloned();
    InferenceBody {
        topic_id: topic.id.to_string(),
        block_height: nonce.to_string(),
        inferer: submission.worker.to_string(),
        value: value.unwrap_or_else(|| "0".to_owned()),
        values,
        extra_data: None,
        proof: String::new(),
    }
}
