//! `PUT` and `DELETE /api/v1/topics/{topic_id}/whitelist/{worker}`: adds a worker to a topic's
//! whitelist, or takes it away, for the key that created the topic. Both answer with the topic.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::inference::TopicResponse;

use super::{
    Holder,
    emissions::read,
    error::{ApiError, topic_id},
    topic,
};
use crate::{
    Inference,
    network::{addresses, topics::ListChange},
};

pub(super) async fn put(
    State(inference): State<Inference>,
    Path(path): Path<(String, String)>,
    holder: Holder,
) -> Result<Json<TopicResponse>, ApiError> {
    change(inference, path, holder, ListChange::Add).await
}

pub(super) async fn delete(
    State(inference): State<Inference>,
    Path(path): Path<(String, String)>,
    holder: Holder,
) -> Result<Json<TopicResponse>, ApiError> {
    change(inference, path, holder, ListChange::Remove).await
}

async fn change(
    inference: Inference,
    path: (String, String),
    holder: Holder,
    change: ListChange,
) -> Result<Json<TopicResponse>, ApiError> {
    let id = topic_id(&path.0)?;
    let worker = match change {
        ListChange::Add => addresses::checked(&path.1)
            .map_err(|why| ApiError::Mismatch { parameter: "worker", reason: why.to_string() })?,
        ListChange::Remove => read("worker", &path.1)?,
    };
    let changed = inference.change_whitelist(id, worker, change, &holder.address(None)?).await?;
    topic::answer(&inference, &changed).await
}
