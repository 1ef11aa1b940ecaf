//! Submissions, as they came. Those of an epoch that is open are not told before it closes: who
//! looks at the others' values first could repeat them.

use axum::{
    Json,
    extract::{Path, State},
};
use model::bundle::decimal;
use model::topic::BlockHeight;
use wire::{
    inference::chain::{
        ForecastBody, ForecastElement, Forecasts, ForecastsAtBlock, InferenceBody, Inferences,
        InferencesAtBlock, InputInferenceBody, InputLabeledValueBody, LatestInference,
        LatestInferences, LatestInputInference,
    },
    paths::EMISSIONS_OLD,
};

use wire::inference::LabeledValue;

use super::{Service, address, height, no_form, topic};
use crate::{
    network::{epoch::is_open, submission::Submission, topic::Topic},
    server::error::ApiError,
    store::Received,
};

pub(super) async fn inferences(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<InferencesAtBlock>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let inferences = read_inferences(&service, &topic, &version, height(&nonce)?).await?;
    Ok(Json(InferencesAtBlock { inferences }))
}

pub(super) async fn latest_inferences(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<LatestInferences>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = service.inference.latest(topic.id).await?.bundle.nonce;
    let inferences = read_inferences(&service, &topic, &version, nonce).await?;
    Ok(Json(LatestInferences { inferences, block_height: nonce.to_string() }))
}

pub(super) async fn forecasts(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Json<ForecastsAtBlock>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = height(&nonce)?;
    let submissions = read_closed(&service, &topic, nonce).await?;
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

pub(super) async fn latest_input_inference(
    State(service): State<Service>,
    Path((version, id, worker)): Path<(String, String, String)>,
) -> Result<Json<LatestInputInference>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let Received { nonce, submission } = newest(&service, &topic, &worker).await?;
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

pub(super) async fn latest_inference(
    State(service): State<Service>,
    Path((version, id, worker)): Path<(String, String, String)>,
) -> Result<Json<LatestInference>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let Received { nonce, submission } = newest(&service, &topic, &worker).await?;
    let latest_inference = body(&topic, &version, nonce, submission)?;
    Ok(Json(LatestInference { latest_inference }))
}

async fn newest(service: &Service, topic: &Topic, worker: &str) -> Result<Received, ApiError> {
    let worker = address("worker_address", worker)?;
    let found = service.inference.newest_of(topic.id, worker.clone()).await?;
    found.filter(|found| !found.submission.inference.is_empty()).ok_or_else(|| {
        ApiError::NotFound(format!("no inference of {worker} for topic {}", topic.id))
    })
}

async fn read_inferences(
    service: &Service,
    topic: &Topic,
    version: &str,
    nonce: BlockHeight,
) -> Result<Inferences, ApiError> {
    let submissions = read_closed(service, topic, nonce).await?;
    let inferring = submissions.into_iter().filter(|submission| !submission.inference.is_empty());
    let inferences =
        inferring.map(|own| body(topic, version, nonce, own)).collect::<Result<_, _>>()?;
    Ok(Inferences { inferences })
}

/// What was submitted for `nonce`; nothing while its window is open.
async fn read_closed(
    service: &Service,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<Vec<Submission>, ApiError> {
    if is_open(topic.timing, nonce, service.inference.chain().height()) {
        return Ok(Vec::new());
    }
    Ok(service.inference.submissions(topic.id, nonce).await?)
}

/// The inference of `submission`, in the form of a version.
fn body(
    topic: &Topic,
    version: &str,
    nonce: BlockHeight,
    submission: Submission,
) -> Result<InferenceBody, ApiError> {
    let is_old = version == EMISSIONS_OLD;
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
