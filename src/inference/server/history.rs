//! `GET /api/v1/topics/{topic_id}/history?limit=`: a topic's newest epochs, oldest first. Ours.

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use web::extract::pairs;
use wire::inference::{HistoryEpoch, TopicHistory};

use super::error::{ApiError, topic_id};
use crate::{Inference, store::EpochView};

/// How many epochs are returned where the request does not say.
const LIMIT_DEFAULT: u32 = 100;

/// The most epochs returned at once: enough for a line across any screen.
const LIMIT_MAX: u32 = 1000;

pub(super) async fn get(
    State(inference): State<Inference>,
    Path(topic): Path<String>,
    uri: Uri,
) -> Result<Json<TopicHistory>, ApiError> {
    let id = topic_id(&topic)?;
    let epochs = inference.history(id, 0..=u64::MAX, limit(&uri)?).await?;
    let epochs = epochs.into_iter().map(epoch).collect();
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}

fn limit(uri: &Uri) -> Result<u32, ApiError> {
    let mismatch = |reason| ApiError::Mismatch { parameter: "limit", reason };
    let pairs = pairs(uri).map_err(|error| mismatch(error.to_string()))?;
    let Some((_, text)) = pairs.into_iter().find(|(name, _)| name == "limit") else {
        return Ok(LIMIT_DEFAULT);
    };
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| mismatch(format!("it is a number from 1 to {LIMIT_MAX}")))
}

fn epoch(view: EpochView) -> HistoryEpoch {
    HistoryEpoch {
        nonce: view.nonce,
        opened_at: view.opened_at.to_string(),
        n_inferers: view.n_inferers,
        n_forecasters: view.n_forecasters,
        combined_value: view.combined_value,
        naive_value: view.naive_value,
        truth: view.truth,
        combined_loss: view.combined_loss,
        naive_loss: view.naive_loss,
    }
}
