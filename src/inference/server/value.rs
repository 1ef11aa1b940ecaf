//! `GET /api/v1/topics/{topic_id}/value`: one number of the newest bundle, for who wants no array.

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use model::bundle::decimal;
use wire::inference::network::ScalarBody;

use super::{
    emissions::in_query,
    error::{ApiError, topic_id},
};
use crate::Inference;

pub(super) async fn get(
    State(inference): State<Inference>,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<Json<ScalarBody>, ApiError> {
    let topic = topic_id(&topic)?;
    let label = in_query(&uri, "label")?;
    let bundles = inference.latest(topic).await?;
    let values = &bundles.bundle.combined_value;
    let found = match &label {
        Some(label) => values.iter().find(|value| value.label_name == *label),
        None => values.first().filter(|_| values.len() == 1),
    };
    let value = found.ok_or_else(|| {
        let labels: Vec<&str> = values.iter().map(|value| value.label_name.as_str()).collect();
        ApiError::Invalid(format!(
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
