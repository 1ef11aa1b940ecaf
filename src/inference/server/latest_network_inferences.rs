//! `GET /emissions/{version}/latest_network_inferences/{topic_id}`: the newest bundle of a topic.
//!
//! On a single-output topic the three arrays about forecasters are empty, as the document says.
//! A topic that is unknown, or has no bundle yet, is a 404: the chain answers an empty bundle, and
//! its clients fall over the missing value.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::inference::LatestNetworkInferences;

use super::error::{ApiError, served, topic_id};
use crate::Inference;

pub(super) async fn get(
    State(inference): State<Inference>,
    Path((version, topic)): Path<(String, String)>,
) -> Result<Json<LatestNetworkInferences>, ApiError> {
    served(&version)?;
    let id = topic_id(&topic)?;
    let mut bundle = inference.latest(id).await?;
    if inference.topic(id).is_some_and(|topic| topic.is_single()) {
        bundle.one_out_forecaster_values.clear();
        bundle.one_in_forecaster_values.clear();
        bundle.one_out_inferer_forecaster_values.clear();
    }
    Ok(Json(bundle.into()))
}
