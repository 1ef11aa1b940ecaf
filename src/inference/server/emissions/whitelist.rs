//! Who may take part in a topic, and who did.

use axum::Json;
use model::topic::Address;
use wire::{
    inference::chain::{
        ActiveForecasters, ActiveInferers, CanSubmitWorkerPayload, IsTopicWorkerWhitelistEnabled,
        IsWhitelistedTopicWorker,
    },
    paths::emissions::whitelist as of,
};

use super::ApiError;
use crate::{Inference, InferenceError, math::regret::ByRole, network::topic::Topic};

queries! {
    "windows";

    /// Whether a topic takes submissions of the workers on its whitelist alone.
    IS_ENABLED[TopicPart]
    is_topic_worker_whitelist_enabled(asked) -> IsTopicWorkerWhitelistEnabled = {
        let is_topic_worker_whitelist_enabled = asked.topic()?.whitelist.is_enabled;
        Ok(Json(IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled }))
    };

    /// Whether a worker is on a topic's whitelist.
    IS_WHITELISTED[TopicPart; Path "address" = "The worker's address."]
    is_whitelisted_topic_worker(asked) -> IsWhitelistedTopicWorker = {
        let is_whitelisted_topic_worker =
            asked.topic()?.whitelist.workers.contains(&asked.address("address")?);
        Ok(Json(IsWhitelistedTopicWorker { is_whitelisted_topic_worker }))
    };

    /// Whether a topic takes submissions of a worker.
    ///
    /// It does if the worker is on its whitelist, or that is not enabled.
    CAN_SUBMIT[TopicPart; Path "address" = "The worker's address."]
    can_submit_worker_payload(asked) -> CanSubmitWorkerPayload = {
        let can_submit_worker_payload = asked.topic()?.whitelist.admits(&asked.address("address")?);
        Ok(Json(CanSubmitWorkerPayload { can_submit_worker_payload }))
    };

    /// The active inferers of the newest epoch that closed.
    ///
    /// None before the first.
    ACTIVE_INFERERS[TopicPart] active_inferers(asked) -> ActiveInferers = {
        let active = active(&asked.service.inference, &*asked.topic()?).await?;
        Ok(Json(ActiveInferers { inferers: texts(&active.inferer) }))
    };

    /// The active forecasters of the newest epoch that closed.
    ///
    /// None before the first. Those that every topic has built in are among them.
    ACTIVE_FORECASTERS[TopicPart] active_forecasters(asked) -> ActiveForecasters = {
        let active = active(&asked.service.inference, &*asked.topic()?).await?;
        Ok(Json(ActiveForecasters { forecasters: texts(&active.forecaster) }))
    };
}

/// Who is active in the newest epoch that closed with a bundle; none before it.
pub(super) async fn active(
    inference: &Inference,
    topic: &Topic,
) -> Result<ByRole<Vec<Address>>, ApiError> {
    let bundles = match inference.latest(topic.id).await {
        Ok(bundles) => bundles,
        Err(InferenceError::NoBundle { .. }) => return Ok(ByRole::default()),
        Err(error) => return Err(error.into()),
    };
    let nonce = bundles.bundle.nonce;
    let inferer = bundles.bundle.inferer_values.iter().map(|own| own.worker.clone()).collect();
    Ok(ByRole { inferer, forecaster: inference.forecasting(topic.id, nonce).await? })
}

fn texts(names: &[Address]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
