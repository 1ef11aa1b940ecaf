//! `POST /api/v1/topics/{topic_id}/submissions`: takes a worker's payload for an epoch. On the answer
//! it is durable.
//!
//! With `dry_run` it is only checked. A payload counts for the address of the key that sends it. A key that names `model` has an
//! address for each name, so that it can run several workers.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::{Path, Request, State},
};
use model::{text::is_unprintable, topic::BlockHeight};
use web::extract::json;
use wire::inference::network::{Accepted, SubmissionBody};

use super::{
    Holder, Service,
    error::{ApiError, topic_id},
};
use crate::{
    Inference, ReadError, Sender,
    math::sortition::Record,
    network::{
        addresses, epoch,
        submission::{Origin, Payload},
        topic::Topic,
    },
};

/// The longest name of a model, in characters.
const MODEL_CHARS_MAX: usize = 64;

pub(super) async fn post(
    State(service): State<Service>,
    Path(topic): Path<String>,
    holder: Holder,
    request: Request,
) -> Result<Json<Accepted>, ApiError> {
    let (topic, inference) = (topic_id(&topic)?, service.inference);
    let body: SubmissionBody = json(request).await?;
    let settings = inference.topic(topic).ok_or(ReadError::UnknownTopic { topic })?;
    let is_name = |name: &String| {
        (1..=MODEL_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(is_unprintable)
    };
    if body.model.as_ref().is_some_and(|model| !is_name(model)) {
        return Err(ApiError::Invalid(format!("model is 1 to {MODEL_CHARS_MAX} plain characters")));
    }
    let nonce = match &body.nonce {
        Some(text) => text.0.parse().map_err(|_| ApiError::Mismatch {
            parameter: "nonce",
            reason: format!(
                "parsing {:?}: invalid syntax",
                text.0.chars().take(32).collect::<String>()
            ),
        })?,
        None => open(&inference, &settings).await?,
    };
    let values: Vec<(String, String)> = body.labeled().collect();
    let mut forecast = BTreeMap::new();
    for (inferer, loss) in body.forecast {
        let inferer = addresses::checked(&inferer)
            .map_err(|why| ApiError::Mismatch { parameter: "forecast", reason: why.to_string() })?;
        forecast.insert(inferer, loss.0);
    }
    let worker = holder.address(body.model.as_deref())?;
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
        ApiError::Invalid(if topic.is_active {
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
