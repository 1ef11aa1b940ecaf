//! Requests for values of a topic that the chain's queries do not have: the latest bundle with weights
//! and intervals, past epochs, their export as a file, and the leaderboard.

use std::collections::VecDeque;
use std::io;
use std::iter::once;
use std::ops::RangeInclusive;
use std::time::Duration;

use accounts::gate::Admitted;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use formats::write::Output;
use formats::write::document::Document;
use futures::stream::try_unfold;
use model::block::{Block, Rows};
use model::dataset::{Column, DatasetId, Dtype};
use model::row::Value;
use model::timestamp::Timestamp;
use model::topic::{BlockHeight, TopicId, decimal};
use strum::VariantNames as _;
use task::causes::chain;
use tracing::warn;
use wire::inference::TopicHistory;
use wire::inference::network::{
    EpochActorBody, EpochBody, IntervalBody, LatestBody, Leaderboard, WeightsBody,
};
use wire::paths;

use super::bundle_body::{self, PairBody};
use super::emissions::loss_body;
use super::error::{ApiError, Result};
use super::request::Params;
use super::stream::{Permits, admit_stream};
use crate::Inference;
use crate::math::regret::{ByActor, Role, RoleValues};
use crate::math::synthesis::interval::PERCENTILES;
use crate::network::close::Interval;
use crate::network::leaderboard::{self, Period};
use crate::store::EpochActor;

/// Returns the latest bundle with all arrays, weights and confidence intervals.
#[utoipa::path(get, path = paths::TOPIC_LATEST, operation_id = "latest", tag = "network",
    responses((status = 200, description = "Bundle", body = LatestBody)))]
pub(super) async fn latest(params: Params) -> Result<Response> {
    let bundles = params.service.inference.latest(params.topic_id()?).await?;
    let head = LatestBody {
        network_inferences: bundles.bundle.bundle.clone(),
        weights: weights(&bundles.shares),
        confidence_intervals: intervals(&bundles.intervals),
        has_outliers: bundles.resistant.is_some(),
        closed_at: bundles.closed_at.to_string(),
    };
    bundle_body::response(&head, vec![PairBody::new(&bundles.bundle, false)])
}

fn weights(shares: &RoleValues) -> WeightsBody {
    let texts = |by_actor: &ByActor<f64>| {
        by_actor.iter().map(|(name, share)| (name.to_string(), decimal(*share))).collect()
    };
    WeightsBody { inferers: texts(&shares.inferer), forecasters: texts(&shares.forecaster) }
}

fn intervals(intervals: &[Interval]) -> Vec<IntervalBody> {
    let texts = |numbers: &[f64]| numbers.iter().copied().map(decimal).collect();
    let body = |interval: &Interval| IntervalBody {
        label_name: interval.label.clone(),
        percentiles: texts(&PERCENTILES),
        values: texts(&interval.values),
    };
    intervals.iter().map(body).collect()
}

/// Default number of epochs of a response.
const LIMIT_DEFAULT: u32 = 100;

/// Maximum number of epochs of a response.
const LIMIT_MAX: u32 = 1000;

/// Returns past epochs of a topic with their ground truth and losses, oldest first.
///
/// A response has at most 1000 epochs. For earlier epochs, set `to` to the first nonce of the response
/// minus 1.
#[utoipa::path(get, path = paths::TOPIC_HISTORY, operation_id = "history", tag = "network",
    params(("from" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "First nonce, inclusive; 0 by default."),
        ("to" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "Last nonce, inclusive; the latest by default."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000,
            description = "Maximum number of epochs, of which the latest are returned; 100 by default.")),
    responses((status = 200, description = "Epochs", body = TopicHistory)))]
pub(super) async fn history(params: Params) -> Result<Json<TopicHistory>> {
    let (id, limit) = (params.topic_id()?, params.limit("limit", LIMIT_DEFAULT, LIMIT_MAX)?);
    let nonces = params.nonces()?;
    let epochs = params.service.inference.history(id, nonces, limit).await?;
    Ok(Json(TopicHistory { topic_id: id.get(), epochs }))
}

/// Returns a topic's actors ranked by their mean loss, and the losses of the network's values next to
/// the losses of an uninformed baseline.
///
/// The mean loss of a ranked actor covers the epochs that all ranked actors have in common. To be
/// ranked, an actor must have been active in 10 of the latest 20 epochs.
///
/// With `actor`, `actors` has only the actor with this address, or else the actor that last used this
/// name. It has an entry for each of its roles, with its rank history and the calibration of its
/// probabilities. A name that several actors use is rejected.
#[utoipa::path(get, path = paths::TOPIC_LEADERBOARD, operation_id = "leaderboard",
    tag = "network", params(("epochs" = Option<u32>, Query, minimum = 1, maximum = 500,
        description = "Number of latest learned epochs to average; fewer for a topic with many actors, \
                       100 by default."),
        ("period" = Option<String>, Query,
            description = "`24h`, `7d`, `30d` or `all`: the epochs that opened since then, at most \
                       10 000, instead of `epochs`. Both together are rejected."),
        ("actor" = Option<String>, Query,
            description = "Address or name of the only actor to return, with details; all by default.")),
    responses((status = 200, description = "Leaderboard", body = Leaderboard)))]
pub(super) async fn leaderboard(params: Params) -> Result<Json<Leaderboard>> {
    let (id, inference) = (params.topic_id()?, &params.service.inference);
    let n_epochs = params.limit("epochs", leaderboard::EPOCHS_DEFAULT, leaderboard::EPOCHS_MAX)?;
    let period = params.find("period")?;
    if period.is_some() && params.find("epochs")?.is_some() {
        return Err(ApiError::mismatch("epochs", "cannot be combined with period"));
    }
    let period = match period.as_deref() {
        None => Period::Latest(n_epochs),
        Some("24h") => Period::Last(Duration::from_hours(24)),
        Some("7d") => Period::Last(Duration::from_hours(7 * 24)),
        Some("30d") => Period::Last(Duration::from_hours(30 * 24)),
        Some("all") => Period::All,
        Some(_) => {
            return Err(ApiError::mismatch("period", format_args!("expected 24h, 7d, 30d or all")));
        }
    };
    Ok(Json(inference.ranking(id, period, params.find("actor")?).await?))
}

/// Returns a past epoch with its bundle, weights, ground truth, losses and scores.
#[utoipa::path(get, path = paths::TOPIC_EPOCH, operation_id = "epoch", tag = "network",
    responses((status = 200, description = "Epoch", body = EpochBody)))]
pub(super) async fn epoch(params: Params) -> Result<Response> {
    let (topic, nonce) = (params.topic_id()?, params.read("nonce")?);
    let (settings, inference) = (params.topic()?, &params.service.inference);
    let bundles = inference.bundle_at(topic, nonce).await?;
    let truth = inference.history(topic, nonce..=nonce, 1).await?.pop();
    let losses = inference.losses_at(topic, nonce).await?;
    let texts = |by_actor: ByActor<f64>| {
        by_actor.into_iter().map(|(name, score)| (name.to_string(), decimal(score))).collect()
    };
    let scores = |role| losses.as_ref().map(|losses| losses.scores(role));
    let [inferers, forecasters] = Role::ALL.map(|role| texts(scores(role).unwrap_or_default()));
    let mut pairs = vec![PairBody::new(&bundles.bundle, false)];
    pairs.extend(losses.as_ref().map(PairBody::of_losses));
    let head = EpochBody {
        network_inferences: bundles.bundle.bundle,
        weights: weights(&bundles.shares),
        confidence_intervals: intervals(&bundles.intervals),
        truth: truth.map(|epoch| epoch.truth).unwrap_or_default(),
        losses: losses.map(|losses| loss_body(&settings, nonce, "", &losses)),
        inferer_scores: inferers,
        forecaster_scores: forecasters,
    };
    bundle_body::response(&head, pairs)
}

/// Default number of epochs of a response.
const EXPORTED_DEFAULT: u32 = 1_000;

/// Maximum number of epochs of a response.
const EXPORTED_MAX: u32 = 10_000;

/// Column of an exported file: its name, its type, and the function that returns its value in a row.
type Field = (&'static str, Dtype, fn(&EpochActor) -> Option<Value>);

/// Columns of an exported file after the first, `timestamp`, which is the time at which the epoch
/// opened.
const FIELDS: [Field; 14] = [
    ("nonce", Dtype::Integer, |row| i64::try_from(row.nonce).ok().map(Value::Integer)),
    ("worker", Dtype::String, |row| Some(Value::String(row.worker.clone()))),
    ("role", Dtype::String, |row| Some(Value::String(row.role.name().to_owned()))),
    ("name", Dtype::String, |row| row.name.clone().map(Value::String)),
    ("label", Dtype::String, |row| Some(Value::String(row.label.clone()))),
    ("value", Dtype::Float, |row| finite(Some(row.value))),
    ("weight", Dtype::Float, |row| finite(row.weight)),
    ("loss", Dtype::Float, |row| finite(row.loss)),
    ("score", Dtype::Float, |row| finite(row.score)),
    ("truth", Dtype::Float, |row| finite(row.truth)),
    ("combined_value", Dtype::Float, |row| finite(row.combined_value)),
    ("naive_value", Dtype::Float, |row| finite(row.naive_value)),
    ("combined_loss", Dtype::Float, |row| finite(row.combined_loss)),
    ("naive_loss", Dtype::Float, |row| finite(row.naive_loss)),
];

/// Export that is written while it is sent.
struct Export {
    inference: Inference,
    topic: TopicId,
    /// Address of the only actor to export, or `None` to export all.
    actor: Option<String>,
    document: Document,
    /// Parts of the file that are not written yet.
    parts: VecDeque<FilePart>,
    _permits: Permits,
}

enum FilePart {
    Begin,
    /// Rows of the epochs with these nonces, which are read in one query.
    Rows(RangeInclusive<BlockHeight>),
    End,
}

/// Exports a topic's latest past epochs, oldest first: a row for each epoch, actor and label.
///
/// `timestamp` is the time at which the epoch opened. Losses are base-10 logarithms unless the topic
/// allows negative losses. The ground truth, losses and scores are absent until the ground truth is
/// known. A response has at most 10 000 epochs. For earlier epochs, set `to` to the first nonce of the
/// response minus 1. With `actor`, exports only the actor with this address, or else the actor that
/// last used this name in these epochs. A name that several actors use is rejected.
#[utoipa::path(get, path = paths::TOPIC_EPOCHS, operation_id = "epochs", tag = "network",
    params(("from" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "First nonce, inclusive; 0 by default."),
        ("to" = Option<u64>, Query, minimum = 0, format = "uint64",
            description = "Last nonce, inclusive; the latest by default."),
        ("actor" = Option<String>, Query,
            description = "Address or name of the only actor to export; all by default."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 10_000,
            description = "Maximum number of epochs, of which the latest are exported; 1000 by default."),
        ("output" = Option<String>, Query,
            description = "`json` (the default), `ndjson`, `csv`, `parquet` or `arrow`.")),
    responses((status = 200, description = "Rows, oldest epoch first", content(
        (Vec<EpochActorBody> = "application/json"), (String = "text/csv"),
        (String = "application/x-ndjson"), (Vec<u8> = "application/vnd.apache.parquet"),
        (Vec<u8> = "application/vnd.apache.arrow.stream")))))]
pub(super) async fn epochs(
    Extension(Admitted { key, .. }): Extension<Admitted>,
    params: Params,
) -> Result<Response> {
    let topic = params.topic_id()?;
    let limit = params.limit("limit", EXPORTED_DEFAULT, EXPORTED_MAX)?;
    let nonces = params.nonces()?;
    let output = read_output(&params)?;
    let permits = admit_stream(&params.service, &key)?;
    let inference = params.service.inference.clone();
    let sizes = inference.read(topic, move |store| store.epoch_sizes(topic, nonces, limit)).await?;
    let ends = sizes.first().zip(sizes.last());
    let nonces = ends.map(|((first, _), (last, _))| *first..=*last);
    let actor = inference.find_actor(topic, nonces, params.find("actor")?).await?;
    let rows = batches(&sizes).into_iter().map(FilePart::Rows);
    let export = Export {
        inference,
        topic,
        actor,
        document: Document::new(output, DatasetId::FIRST, &columns(), None),
        parts: once(FilePart::Begin).chain(rows).chain([FilePart::End]).collect(),
        _permits: permits,
    };
    let body = Body::from_stream(try_unfold(export, Export::next));
    let name = format!("attachment; filename=\"topic-{topic}-epochs.{}\"", output.extension());
    let headers = [
        (header::CONTENT_TYPE, output.content_type().to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, body).into_response())
}

fn read_output(params: &Params) -> Result<Output> {
    let Some(text) = params.find("output")? else { return Ok(Output::Json) };
    let names = Output::VARIANTS.join(", ");
    text.parse().map_err(|_| ApiError::mismatch("output", format_args!("expected one of {names}")))
}

fn columns() -> Vec<Column> {
    let column = |(name, dtype, _): &Field| Column {
        id: 0,
        dataset_id: DatasetId::FIRST,
        name: (*name).to_owned(),
        dtype: *dtype,
        created_at: Timestamp::default(),
    };
    FIELDS.iter().map(column).collect()
}

/// Divides epochs, given with their sizes in bytes, into ranges that are read in one query.
fn batches(sizes: &[(BlockHeight, u64)]) -> Vec<RangeInclusive<BlockHeight>> {
    let mut batches: Vec<RangeInclusive<BlockHeight>> = Vec::new();
    let mut n_bytes = 0;
    for &(nonce, size) in sizes {
        n_bytes += size;
        match batches.last_mut() {
            // The size of a range is limited, since exporting a range needs several times as much
            // memory.
            Some(last) if n_bytes <= 4 << 20 => *last = *last.start()..=nonce,
            _ => {
                batches.push(nonce..=nonce);
                n_bytes = size;
            }
        }
    }
    batches
}

fn finite(number: Option<f64>) -> Option<Value> {
    number.filter(|number| number.is_finite()).map(Value::Float)
}

impl Export {
    /// Returns the next piece of the file, or `None` after the last.
    async fn next(mut self) -> io::Result<Option<(Bytes, Self)>> {
        while let Some(part) = self.parts.pop_front() {
            let mut piece = Vec::new();
            match part {
                FilePart::Begin => self.document.begin(&mut piece),
                FilePart::Rows(nonces) => (self, piece) = self.write(nonces).await?,
                FilePart::End => self.document.end(&mut piece),
            }
            // Skips an empty piece. A range can have no rows of the requested actor, and a format can
            // buffer rows until a group is full.
            if !piece.is_empty() {
                return Ok(Some((piece.into(), self)));
            }
        }
        Ok(None)
    }

    /// Reads the epochs in `nonces` and writes their rows, on a blocking thread.
    async fn write(self, nonces: RangeInclusive<BlockHeight>) -> io::Result<(Self, Vec<u8>)> {
        let (inference, topic) = (self.inference.clone(), self.topic);
        let written = inference.read(topic, move |store| {
            let mut export = self;
            let actors = store.epoch_actors(topic, &nonces)?;
            let mut piece = Vec::new();
            export.document.rows(&mut piece, &Rows::Raw(export.block(&actors)));
            Ok((export, piece))
        });
        written.await.map_err(|error| {
            warn!(cause = chain(&error), topic = %topic, "export of epochs failed, and its response is incomplete");
            io::Error::other(error)
        })
    }

    /// Returns the rows of the actors to export in the form of columns.
    fn block(&self, actors: &[EpochActor]) -> Block {
        let dtypes = FIELDS.map(|(_, dtype, _)| dtype);
        let mut block = Block::new(&dtypes);
        let is_wanted =
            |row: &&EpochActor| self.actor.as_ref().is_none_or(|wanted| row.worker == *wanted);
        for row in actors.iter().filter(is_wanted) {
            block.times.push(row.opened_at);
            for ((.., value), series) in FIELDS.iter().zip(&mut block.columns) {
                if value(row).and_then(|value| series.push(value)).is_none() {
                    series.push_missing(1);
                }
            }
        }
        block
    }
}
