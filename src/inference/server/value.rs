//! `GET /api/v1/topics/{topic_id}/value`: one number of the newest bundle, for who wants no array.

use axum::Json;
use model::bundle::decimal;
use wire::{inference::network::ScalarBody, paths};

use super::{error::ApiError, openapi::parameters::TopicPart, request::Asked};

/// One number of the newest bundle, for who wants no array.
#[utoipa::path(get, path = paths::TOPIC_VALUE, operation_id = "value", tag = "network",
    params(TopicPart, ("label" = Option<String>, Query,
        description = "The label, on a topic with several.")),
    responses((status = 200, description = "The combined value", body = ScalarBody)))]
pub(super) async fn get(asked: Asked) -> Result<Json<ScalarBody>, ApiError> {
    let (topic, label) = (asked.topic_id()?, asked.find("label")?);
    let bundles = asked.service.inference.latest(topic).await?;
    let values = &bundles.bundle.combined_value;
    let found = match &label {
        Some(label) => values.iter().find(|value| value.label_name == *label),
        None => values.first().filter(|_| values.len() == 1),
    };
    let value = found.ok_or_else(|| {
        let labels: Vec<&str> = values.iter().map(|value| value.label_name.as_str()).collect();
        ApiError::invalid(format!(
            "topic {topic} has no such label: use ?label= {}",
            labels.join(", ")
        ))
    })?;
    Ok(Json(ScalarBody {
        topic_id: topic.get(),
        nonce: bundles.bundle.nonce,
        label_name: value.label_name.clone(),
        value: decimal(value.value),
    }))
}
