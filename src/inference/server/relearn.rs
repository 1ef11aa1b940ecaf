//! `POST /api/v1/topics/{topic_id}/relearn`: has a topic that the key created read the truth of past
//! epochs again, and learn from them again. Work that was begun goes on if the caller leaves.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, Request, State},
};
use task::causes::chain;
use tokio::sync::oneshot;
use web::extract::json;
use wire::inference::network::{RelearnBody, RelearnedBody};

use super::{
    Holder, Service,
    error::{ApiError, topic_id},
};
use crate::network::{
    relearn::{RelearnError, RelearnReport},
    rows::truth_after,
    runner::ROWS_WITHIN,
};

pub(super) async fn post(
    State(service): State<Service>,
    Path(topic): Path<String>,
    holder: Holder,
    request: Request,
) -> Result<Json<RelearnedBody>, ApiError> {
    let id = topic_id(&topic)?;
    let body: RelearnBody = json(request).await?;
    let from = body.from_nonce.0.trim().parse().map_err(|_| ApiError::Mismatch {
        parameter: "from_nonce",
        reason: "it is a height, such as 120".to_owned(),
    })?;
    let inference = service.inference;
    let topic = inference.owned(id, &holder.address(None)?)?;
    let inputs = inference.inputs_since(id, from).await?;
    let (rows, worker) = (service.rows.0, inference.clone());
    let (sender, done) = oneshot::channel::<Result<RelearnReport, ApiError>>();
    service.group.spawn("relearn", async move {
        let learn = async {
            let source = &topic.source;
            let unread = |why: String| {
                ApiError::Unchecked(format!("cannot read dataset {}: {why}", source.dataset))
            };
            let late = |_| unread(format!("no answer within {ROWS_WITHIN:?}"));
            let broken = |cause: crate::network::runs::Cause| unread(chain(cause.as_ref()));
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
    let stopped = |_| ApiError::Unchecked("the service is stopping".to_owned());
    let report = done.await.map_err(stopped)??;
    Ok(Json(RelearnedBody { n_epochs: report.n_epochs, n_changed: report.n_changed }))
}

impl From<RelearnError> for ApiError {
    fn from(error: RelearnError) -> Self {
        match error {
            RelearnError::Read(error) => Self::Read(error),
            RelearnError::TooFarBack { from, earliest } => Self::TooMany(earliest.map_or_else(
                || format!("cannot learn again from nonce {from}: nothing was learned yet"),
                |earliest| format!("cannot learn again from before nonce {earliest}"),
            )),
            RelearnError::Busy => Self::Unchecked(format!("cannot {error}: try again")),
        }
    }
}
