//! Who may take part in a topic, and who did.

use axum::{
    Json,
    extract::{Path, State},
};
use model::topic::Address;
use wire::inference::chain::{
    ActiveForecasters, ActiveInferers, CanSubmitWorkerPayload, IsTopicWorkerWhitelistEnabled,
    IsWhitelistedTopicWorker,
};

use super::{Service, address, topic};
use crate::{Inference, ReadError, network::topic::Topic, server::error::ApiError};

pub(super) async fn is_enabled(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<IsTopicWorkerWhitelistEnabled>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let is_topic_worker_whitelist_enabled = topic.whitelist.is_enabled;
    Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
}

pub(super) async fn is_whitelisted(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<IsWhitelistedTopicWorker>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let name = address("address", &name)?;
    let is_whitelisted_topic_worker = topic.whitelist.workers.contains(&name);
    Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
}

pub(super) async fn can_submit(
    State(service): State<Service>,
    Path((version, id, name)): Path<(String, String, String)>,
) -> Result<Json<CanSubmitWorkerPayload>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let can_submit_worker_payload = topic.whitelist.admits(&address("address", &name)?);
    Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
}

pub(super) async fn active_inferers(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ActiveInferers>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let (inferers, _) = active(&service.inference, &topic).await?;
    Ok(Json(ActiveInferers { inferers: texts(&inferers) }))
}

pub(super) async fn active_forecasters(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
) -> Result<Json<ActiveForecasters>, ApiError> {
    let topic = topic(&service.inference, &version, &id)?;
    let (_, forecasters) = active(&service.inference, &topic).await?;
    Ok(Json(ActiveForecasters { forecasters: texts(&forecasters) }))
}

/// The inferers and the forecasters of the newest epoch that closed with a bundle; none before it.
pub(super) async fn active(
    inference: &Inference,
    topic: &Topic,
) -> Result<(Vec<Address>, Vec<Address>), ApiError> {
    let bundles = match inference.latest(topic.id).await {
        Ok(bundles) => bundles,
        Err(ReadError::NoBundle { .. }) => return Ok((Vec::new(), Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let nonce = bundles.bundle.nonce;
    let inferers = bundles.bundle.inferer_values.iter().map(|own| own.worker.clone()).collect();
    Ok((inferers, inference.forecasting(topic.id, nonce).await?))
}

fn texts(names: &[Address]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
