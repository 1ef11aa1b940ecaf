//! `POST /api/v1/topics/{topic_id}/submissions`: stores a worker's payload for an epoch.
//!
//! The worker of a payload is the address of the API key. A key has a different address for each
//! `model`, so it can submit for several workers.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Request;
use model::text::is_unprintable;
use model::topic::BlockHeight;
use web::extract::json;
use wire::error::InferenceError;
use wire::inference::network::{Accepted, SubmissionBody};
use wire::paths;

use super::error::{ApiError, Result};
use super::request::Params;
use super::topics::in_time;
use super::{Holder, Service};
use crate::math::sortition::Record;
use crate::network::submission::{Origin, Payload};
use crate::network::topic::Topic;
use crate::network::upstream::first_with_column;
use crate::network::{addresses, epoch};
use crate::{Inference, Sender};

/// Maximum length of a model's name in characters.
const MODEL_CHARS_MAX: usize = 64;

/// Submits an inference, a forecast or both for the open epoch.
///
/// The first payload of an address for an epoch is stored durably and cannot be changed. Submitting the
/// same payload again succeeds, even after the window if the body has its `nonce` and the actor was
/// active. The address belongs to the key, or to the key's `model`. Values are decimals of at most 64
/// characters, up to 1e40, which are stored as doubles. A forecast consists of predicted losses, in the
/// unit of the topic's losses. A submission counts only if its actor is active when the window closes. The active actors are those
/// with the best moving averages of scores, up to the topic's maximum. Only a part of these places is
/// available to new actors, and new actors with outlying values are not active. A submission is rejected
/// if the dataset already has the predicted row.
#[utoipa::path(post, path = paths::TOPIC_SUBMISSIONS, operation_id = "submit",
    tag = "participation", request_body = SubmissionBody,
    responses((status = 200, description = "Submission stored", body = Accepted),
        (status = 403, description = "Code 7: worker not on the topic's whitelist",
            body = InferenceError),
        (status = 409, description = "Code 6: the worker already submitted another payload for this \
            nonce; code 10: the maximum number of submissions is reached, of this account or in total",
            body = InferenceError)))]
pub(super) async fn post(params: Params, request: Request) -> Result<Json<Accepted>> {
    let topic = params.topic_id()?;
    let body: SubmissionBody = json(request).await?;
    let settings = params.topic()?;
    let (service, holder) = (params.service, params.holder);
    let inference = &service.inference;
    let is_name = |name: &String| {
        (1..=MODEL_CHARS_MAX).contains(&name.chars().count())
            && !name.chars().any(is_unprintable)
            && name.trim() == name
    };
    if body.model.as_ref().is_some_and(|model| !is_name(model)) {
        return Err(ApiError::invalid(format!(
            "model must have 1 to {MODEL_CHARS_MAX} printable characters, and no spaces at its ends"
        )));
    }
    let nonce = match &body.nonce {
        Some(text) => text.0.parse().map_err(|_| ApiError::syntax("nonce", &text.0))?,
        None => open(inference, &settings).await?,
    };
    let values: Vec<(String, String)> = body.labeled().collect();
    let mut forecast = BTreeMap::new();
    for (inferer, loss) in body.forecast {
        let inferer =
            addresses::checked(&inferer).map_err(|why| ApiError::mismatch("forecast", why))?;
        forecast.insert(inferer, loss.0);
    }
    if is_revealed(&service, holder, &settings, nonce).await? {
        return Err(ApiError::invalid(format!(
            "dataset {} already has the row that nonce {nonce} predicts; submit earlier in the window",
            settings.source.dataset
        )));
    }
    let worker = holder.address(body.model.as_deref());
    let sender = Sender { topic, nonce, worker: worker.clone(), name: body.model };
    let payload = Payload { values, forecast };
    let origin = Origin {
        submitter: holder.submitter(),
        quota: service.quota,
        record: Record::Newcomer,
        is_dry_run: body.dry_run,
    };
    match inference.submit_of(origin, sender, payload).await {
        Err(error @ crate::InferenceError::NotOpen(_)) => {
            let detail = match open(inference, &settings).await {
                Ok(nonce) => ApiError::invalid(format!("the open nonce is {nonce}")),
                Err(none) => none,
            };
            return Err(detail.about(&error.to_string()));
        }
        submitted => submitted?,
    }
    Ok(Json(Accepted {
        topic_id: topic.get(),
        nonce,
        worker: worker.to_string(),
        dry_run: body.dry_run,
        window_end_block: epoch::close_height(settings.timing, nonce).saturating_sub(1),
    }))
}

/// Returns true if the dataset of `topic` has the row that the open epoch `nonce` predicts, so that the
/// worker could submit the ground truth itself. Experimental topics allow this.
///
/// Rows can be ahead of the clock, so a submission before the time of this row is checked, too, unless
/// the key is an operator's. Operators' workers can then submit while the dataset service is unavailable.
async fn is_revealed(
    service: &Service,
    holder: Holder,
    topic: &Topic,
    nonce: BlockHeight,
) -> Result<bool> {
    let chain = service.inference.chain();
    let is_checked = !topic.is_experimental && epoch::is_open(topic.timing, nonce, chain.height());
    let Some(dataset) = topic.source.dataset_id.filter(|_| is_checked) else { return Ok(false) };
    let Some(input) = service.inference.input(topic.id, nonce).await? else { return Ok(false) };
    let (due, now) = (input.at + topic.source.horizon, chain.now());
    if holder.is_operators() && input.at <= now && due > now {
        return Ok(false);
    }
    let failure = format!("dataset {} cannot be read", topic.source.dataset);
    let span = due..=due + topic.source.horizon;
    let first = first_with_column(service.rows.as_ref(), dataset, &topic.source.column, span);
    Ok(in_time(&failure, first).await?.is_some())
}

/// Returns the nonce of the epoch that accepts submissions.
async fn open(inference: &Inference, topic: &Topic) -> Result<BlockHeight> {
    let progress = inference.progress(topic.id).await?;
    let (id, height) = (topic.id, inference.chain().height());
    let newest = progress.open.last().copied();
    newest.filter(|nonce| epoch::is_open(topic.timing, *nonce, height)).ok_or_else(|| {
        ApiError::invalid(if topic.is_active {
            let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
            format!(
                "no submission window of topic {id} is open at block {height}; the next one opens at \
                 block {next}"
            )
        } else {
            format!("no submission window of topic {id} is open, since it is paused")
        })
    })
}
