//! `POST /api/v1/topics/{topic_id}/submissions`: takes a worker's payload for an epoch. On the answer
//! it is durable.
//!
//! With `dry_run` it is only checked. A payload counts for the address of the key that sends it. A
//! key that names `model` has an address for each name, so that it can run several workers.

use std::collections::BTreeMap;

use axum::{Json, extract::Request};
use model::{text::is_unprintable, topic::BlockHeight};
use web::extract::json;
use wire::{
    error::InferenceError,
    inference::network::{Accepted, SubmissionBody},
    paths,
};

use super::{Holder, error::ApiError, openapi::parameters::TopicPart, request::Asked};
use crate::{
    Inference, Sender,
    math::sortition::Record,
    network::{
        addresses, epoch,
        submission::{Origin, Payload},
        topic::Topic,
    },
};

/// The longest name of a model, in characters.
const MODEL_CHARS_MAX: usize = 64;

/// Submits an inference, a forecast or both for the epoch that is open. On the answer it is durable.
///
/// One payload is taken for each address and epoch; what came first stays. The same payload again, as
/// after a lost response, succeeds, also after the window if it names its `nonce`. The address is that
/// of the key, or of the key's `model`. A value is a decimal of at most 64 characters, up to 1e40, kept as a
/// double. A forecast is of losses, in the unit of the topic's. What is kept counts if its actor is
/// active when the window closes: the best by the moving average of their scores are, as many as the
/// topic has places; actors without a score share a part of these, and those far from all others'
/// values rest.
#[utoipa::path(post, path = paths::TOPIC_SUBMISSIONS, operation_id = "submit",
    tag = "taking part", params(TopicPart), request_body = SubmissionBody,
    responses((status = 200, description = "It is kept", body = Accepted),
        (status = 403, description = "Code 7: the worker is not on the topic's whitelist",
            body = InferenceError),
        (status = 409, description = "Code 6: this worker submitted another payload for this nonce; \
            code 10: the epoch has all it takes, of this account or of all",
            body = InferenceError)))]
pub(super) async fn post(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<Accepted>, ApiError> {
    let topic = asked.topic_id()?;
    let body: SubmissionBody = json(request).await?;
    let settings = asked.topic()?;
    let service = asked.service;
    let inference = &service.inference;
    let is_name = |name: &String| {
        (1..=MODEL_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(is_unprintable)
    };
    if body.model.as_ref().is_some_and(|model| !is_name(model)) {
        return Err(ApiError::invalid(format!("model is 1 to {MODEL_CHARS_MAX} plain characters")));
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
    let worker = holder.address(body.model.as_deref());
    let sender = Sender { topic, nonce, worker: worker.clone(), name: body.model };
    let payload = Payload { values, forecast };
    let origin = Origin {
        submitter: holder.submitter(),
        quota: service.quota,
        record: Record::Newcomer,
        is_dry_run: body.dry_run,
    };
    inference.submit_of(origin, sender, payload).await?;
    Ok(Json(Accepted {
        topic_id: topic.get(),
        nonce,
        worker: worker.to_string(),
        dry_run: body.dry_run,
        window_end_block: epoch::close_height(settings.timing, nonce).saturating_sub(1),
    }))
}

/// The nonce whose window is open.
async fn open(inference: &Inference, topic: &Topic) -> Result<BlockHeight, ApiError> {
    let progress = inference.progress(topic.id).await?;
    let (id, height) = (topic.id, inference.chain().height());
    let newest = progress.open.last().copied();
    newest.filter(|nonce| epoch::is_open(topic.timing, *nonce, height)).ok_or_else(|| {
        ApiError::invalid(if topic.is_active {
            let next = epoch::next_nonce(topic.timing, progress.last_nonce, height);
            format!(
                "no submission window of topic {id} is open: the next opens with block {next}, and \
                 this is block {height}"
            )
        } else {
            format!("no submission window of topic {id} is open: it is paused")
        })
    })
}
