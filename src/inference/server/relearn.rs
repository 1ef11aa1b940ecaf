//! `POST /api/v1/topics/{topic_id}/relearn`: has a topic that the key created read the truth of past
//! epochs again, and learn from them again. Work that was begun goes on if the caller leaves.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json, extract::Request};
use task::causes::chain;
use tokio::sync::oneshot;
use web::extract::json;
use wire::{
    error::InferenceError,
    inference::network::{RelearnBody, RelearnedBody},
    paths,
};

use super::{
    Holder,
    error::ApiError,
    openapi::{DENIED, UNCHECKED, parameters::TopicPart},
    request::Asked,
};
use crate::network::{rows::truth_after, runner::ROWS_WITHIN, runs::Cause};

/// Has a topic that the key created learn again from past epochs, after corrections.
///
/// The truth of past epochs is read again from the dataset, and regrets, scores and losses follow
/// from it. Bundles stay as they were served. Epochs that were thinned cannot be learned from again.
#[utoipa::path(post, path = paths::TOPIC_RELEARN, operation_id = "relearn", tag = "taking part",
    params(TopicPart), request_body = RelearnBody,
    responses((status = 200, description = "What came of it", body = RelearnedBody),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, description = "Code 10: not all is kept from there on",
            body = InferenceError),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn post(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<RelearnedBody>, ApiError> {
    let id = asked.topic_id()?;
    let body: RelearnBody = json(request).await?;
    let from = body.from_nonce.0.trim().parse();
    let from = from.map_err(|_| ApiError::mismatch("from_nonce", "it is a height, such as 120"))?;
    let service = asked.service;
    let inference = service.inference.clone();
    let topic = inference.owned(id, &holder.address(None))?;
    let inputs = inference.inputs_since(id, from).await?;
    let (rows, worker) = (Arc::clone(&service.rows), inference.clone());
    let (sender, done) = oneshot::channel::<Result<RelearnedBody, ApiError>>();
    service.group.spawn("relearn", async move {
        let learn = async {
            let source = &topic.source;
            let unread = |why: String| {
                ApiError::unavailable(format!("cannot read dataset {}: {why}", source.dataset))
            };
            let late = |_| unread(format!("no answer within {ROWS_WITHIN:?}"));
            let broken = |cause: Cause| unread(chain(cause.as_ref()));
            let dataset = match source.dataset_id {
                Some(dataset) => dataset,
                None => rows.find(&source.dataset).await.map_err(broken)?,
            };
            let mut outcomes = BTreeMap::new();
            for (nonce, input) in inputs {
                let truth = truth_after(rows.as_ref(), dataset, source, input.at);
                let truth = tokio::time::timeout(ROWS_WITHIN, truth).await.map_err(late)?;
                outcomes.extend(truth.map_err(broken)?.map(|truth| (nonce, truth)));
            }
            Ok(worker.relearn(id, from, outcomes).await?)
        };
        // Nobody may wait any more.
        sender.send(learn.await).ok();
    });
    let stopped = |_| ApiError::unavailable("the service is stopping");
    Ok(Json(done.await.map_err(stopped)??))
}
