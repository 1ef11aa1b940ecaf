//! Topics as their creators change them: `POST /api/v1/topics`, and what is below a topic's path.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Request, State},
    http::StatusCode,
};
use model::{timestamp::Timestamp, topic::TopicId};
use task::causes::chain;
use tokio::{sync::oneshot, time::timeout};
use web::extract::json;
use wire::{
    error::InferenceError,
    inference::{
        TopicResponse,
        network::{RelearnBody, RelearnedBody, TopicActive, TopicSettings},
    },
    paths,
};

use super::{
    App, Holder,
    error::ApiError,
    openapi::{
        DENIED, OF_TOPIC, UNCHECKED, UNFIT,
        parameters::{ActorAddress, TopicPart},
    },
    request::Asked,
    topics,
};
use crate::{
    Inference,
    network::{
        addresses,
        runner::ROWS_WITHIN,
        topic::{Topic, settings},
        topics::ListChange,
        upstream::{Cause, DatasetColumn, Described, Rows, truth_after},
    },
};

/// Creates a topic, which belongs to the key. Its first epoch opens with the next block.
///
/// Needed are `metadata`, `dataset`, `column` and `horizon_seconds`; what else is left out is as on
/// most topics of the chain. The dataset, the column and rows less than a horizon apart have to be
/// there. Its truth is the column's value that many seconds after the newest row there was when the
/// epoch opened, looked for once `ground_truth_lag` blocks have passed. The horizon has to be longer
/// than the submission window lasts, unless the topic is `experimental`: else workers could read the
/// truth before they submit.
#[utoipa::path(post, path = paths::TOPICS, operation_id = "create_topic", tag = "taking part",
    request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 400, description = UNFIT, body = InferenceError),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 409, body = InferenceError,
            description = "Code 10: there are as many topics as may be, of this key or in all"),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn create(
    State(service): State<App>,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = &service.inference;
    let described = described(inference, request, inference.next_topic_id(), &holder).await?;
    check_source(&service.rows, &described).await?;
    let created = inference.create_topic(described).await?;
    topics::respond(inference, &created, false).await
}

/// Returns the settings of a topic, as they were given or as they are by default.
///
/// Variables of a predictor are for operators' keys: they are left out for others.
#[utoipa::path(get, path = paths::TOPIC_SETTINGS, operation_id = "topic_settings",
    tag = "taking part", params(TopicPart),
    responses((status = 200, description = "The settings", body = TopicSettings)))]
pub(super) async fn get(asked: Asked, holder: Holder) -> Result<Json<TopicSettings>, ApiError> {
    let topic = asked.topic()?;
    let mut settings = settings::from_topic(&topic);
    settings.worker_whitelist = topic.whitelist.workers.iter().map(ToString::to_string).collect();
    if let Some(predictor) = settings.predictor.as_mut().filter(|_| !holder.is_operators()) {
        predictor.env.clear();
    }
    Ok(Json(settings))
}

/// Replaces all settings of a topic that the key created. Type, arity, unity and case stay.
///
/// Needed are `metadata`, `dataset`, `column` and `horizon_seconds`; what else is left out is as on
/// most topics of the chain. The dataset, the column and rows less than a horizon apart have to be
/// there. Its truth is the column's value that many seconds after the newest row there was when the
/// epoch opened, looked for once `ground_truth_lag` blocks have passed. The horizon has to be longer
/// than the submission window lasts, unless the topic is `experimental`: else workers could read the
/// truth before they submit.
#[utoipa::path(put, path = paths::TOPIC_SETTINGS, operation_id = "update_topic",
    tag = "taking part", params(TopicPart), request_body = TopicSettings,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError),
        (status = 503, description = UNCHECKED, body = InferenceError)))]
pub(super) async fn update(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let inference = &asked.service.inference;
    let described = described(inference, request, asked.topic_id()?, &holder).await?;
    check_source(&asked.service.rows, &described).await?;
    let updated = inference.update_topic(described, &holder.address(None)).await?;
    topics::respond(inference, &updated, false).await
}

/// Deletes a topic that the key created.
///
/// Its epochs go with it, and its number is not given to another topic.
#[utoipa::path(delete, path = paths::TOPIC_SETTINGS, operation_id = "delete_topic",
    tag = "taking part", params(TopicPart),
    responses((status = 204, description = "It is gone"),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn delete(asked: Asked, holder: Holder) -> Result<StatusCode, ApiError> {
    let (topic, by) = (asked.topic_id()?, holder.address(None));
    asked.service.inference.delete_topic(topic, &by).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn described(
    inference: &Inference,
    request: Request,
    id: TopicId,
    holder: &Holder,
) -> Result<Topic, ApiError> {
    let settings: TopicSettings = json(request).await?;
    // Topics read datasets and run functions with the rights of the service itself.
    if !holder.is_operators() {
        return Err(ApiError::denied("topics are made with an operator's key"));
    }
    let topic = settings::topic(id, Some(holder.address(None)), settings);
    let topic = topic.map_err(|error| ApiError::invalid(error.to_string()))?;
    inference.check_topic(&topic)?;
    Ok(topic)
}

/// Has epochs of a topic that the key created open, or not.
#[utoipa::path(put, path = paths::TOPIC_ACTIVE, operation_id = "set_active", tag = "taking part",
    params(TopicPart), request_body = TopicActive,
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn set_active(
    asked: Asked,
    holder: Holder,
    request: Request,
) -> Result<Json<TopicResponse>, ApiError> {
    let TopicActive { active } = json(request).await?;
    let (inference, by) = (&asked.service.inference, holder.address(None));
    let topic = inference.set_active(asked.topic_id()?, active, &by).await?;
    topics::respond(inference, &topic, false).await
}

/// Adds a worker to the whitelist of a topic that the key created.
#[utoipa::path(put, path = paths::TOPIC_WHITELISTED, operation_id = "add_to_whitelist",
    tag = "taking part", params(TopicPart,
        ("worker" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn add_to_whitelist(
    asked: Asked,
    holder: Holder,
) -> Result<Json<TopicResponse>, ApiError> {
    change_whitelist(asked, holder, ListChange::Add).await
}

/// Takes a worker off the whitelist of a topic that the key created.
#[utoipa::path(delete, path = paths::TOPIC_WHITELISTED, operation_id = "remove_from_whitelist",
    tag = "taking part", params(TopicPart,
        ("worker" = inline(ActorAddress), Path, description = "The worker's address.")),
    responses((status = 200, description = OF_TOPIC, body = TopicResponse),
        (status = 403, description = DENIED, body = InferenceError)))]
pub(super) async fn remove_from_whitelist(
    asked: Asked,
    holder: Holder,
) -> Result<Json<TopicResponse>, ApiError> {
    change_whitelist(asked, holder, ListChange::Remove).await
}

async fn change_whitelist(
    asked: Asked,
    holder: Holder,
    change: ListChange,
) -> Result<Json<TopicResponse>, ApiError> {
    let id = asked.topic_id()?;
    let worker = match change {
        ListChange::Add => addresses::checked(&asked.text("worker")?)
            .map_err(|why| ApiError::mismatch("worker", why))?,
        ListChange::Remove => asked.address("worker")?,
    };
    let inference = &asked.service.inference;
    let changed = inference.change_whitelist(id, worker, change, &holder.address(None)).await?;
    topics::respond(inference, &changed, false).await
}

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
pub(super) async fn relearn(
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
                let truth = timeout(ROWS_WITHIN, truth).await.map_err(late)?;
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

/// How many of the newest rows show how far apart they are: with fewer than three there is no telling.
const N_ROWS: u32 = 20;

/// Refuses a `topic` whose dataset or column does not exist, or whose horizon is shorter than rows
/// are apart.
///
/// # Errors
/// An [`ApiError`] that says what exists, or that the dataset service does not answer.
async fn check_source(rows: &Arc<dyn Rows>, topic: &Topic) -> Result<(), ApiError> {
    let source = &topic.source;
    let (name, column) = (&source.dataset, &source.column);
    let unchecked =
        |why: String| ApiError::unavailable(format!("cannot check dataset {name}: {why}"));
    let late = |_| unchecked(format!("no answer within {ROWS_WITHIN:?}"));
    let described = timeout(ROWS_WITHIN, rows.describe(name, source.dataset_id)).await;
    let (id, columns) = match described.map_err(late)? {
        Err(cause) => return Err(unchecked(chain(cause.as_ref()))),
        Ok(Described::Missing { others }) => {
            return Err(ApiError::invalid(format!(
                "there is no dataset {name} that this service's key may read; {}",
                list("it may read", &others)
            )));
        }
        Ok(Described::Ambiguous { ids }) => {
            return Err(ApiError::invalid(format!(
                "several datasets are called {name}: set dataset_id to one of {}",
                ids.join(", ")
            )));
        }
        Ok(Described::Found { id, columns }) => (id, columns),
    };
    let of_numbers = || columns.iter().filter(|column| column.is_numeric);
    let numbers: Vec<String> = of_numbers().map(|column| column.name.clone()).collect();
    let is_column = |known: &&DatasetColumn| known.name == *column;
    let what = match columns.iter().find(is_column) {
        Some(known) if known.is_numeric => None,
        Some(_) => Some(format!("column {column} of dataset {name} does not hold numbers")),
        None => Some(format!("dataset {name} has no column {column}")),
    };
    if let Some(what) = what {
        let numbers = list("columns of numbers are", &numbers);
        return Err(ApiError::invalid(format!("{what}; {numbers}")));
    }
    let newest = timeout(ROWS_WITHIN, rows.newest(id, N_ROWS)).await.map_err(late)?;
    let newest = newest.map_err(|cause| unchecked(chain(cause.as_ref())))?;
    let apart = spacing(newest.iter().map(|row| row.timestamp).collect());
    match apart.filter(|apart| *apart > source.horizon) {
        Some(apart) => Err(ApiError::invalid(format!(
            "horizon_seconds is {} and rows of dataset {name} are {} seconds apart: no row would say \
             what came true; it is at least {}",
            source.horizon.as_secs(),
            apart.as_secs(),
            apart.as_secs()
        ))),
        None => Ok(()),
    }
}

/// How far apart most of `timestamps` are; none where there are too few.
fn spacing(mut timestamps: Vec<Timestamp>) -> Option<Duration> {
    timestamps.sort();
    let mut apart: Vec<Duration> =
        timestamps.iter().zip(timestamps.iter().skip(1)).map(|(a, b)| b.since(*a)).collect();
    apart.sort();
    if apart.len() < 2 { None } else { apart.get(apart.len() / 2).copied() }
}

fn list(what: &str, names: &[String]) -> String {
    if names.is_empty() { format!("{what} none") } else { format!("{what} {}", names.join(", ")) }
}
