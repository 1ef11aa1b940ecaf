//! `GET /emissions/{version}/next_topic_id`: one more than the highest topic number.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::inference::NextTopicId;

use super::error::{ApiError, served};
use crate::Inference;

pub(super) async fn get(
    State(inference): State<Inference>,
    Path(version): Path<String>,
) -> Result<Json<NextTopicId>, ApiError> {
    served(&version)?;
    Ok(Json(NextTopicId { next_topic_id: inference.next_topic_id().to_string() }))
}
