//! JSON records of the inference store and their conversions.

use std::str::FromStr;
use std::sync::Arc;

use serde::de::DeserializeSeed as _;
use serde::{Deserialize, Serialize};
use wire::inference::network::TopicSettings;
use wire::inference::{Bundle, LabeledValue, LatestBundle};

use super::{Result, StoreError, pairs};
use crate::math::exact::{ActorsReader, Text};
use crate::math::regret::{ByActor, Losses};
use crate::network::learned::Learned;
use crate::network::submission::Submission;
use crate::network::topic::{Topic, WorkerWhitelist, settings};

#[derive(Serialize, Deserialize)]
struct SubmissionRecord {
    name: Option<String>,
    inference: Vec<LabeledValue>,
}

/// Summary of a bundle for lists of epochs.
#[derive(Serialize, Deserialize)]
pub(super) struct SummaryRecord {
    pub combined_value: Vec<LabeledValue>,
    pub naive_value: Vec<LabeledValue>,
    pub n_inferers: u64,
    pub n_forecasters: u64,
}

/// Serializes `record`.
pub(super) fn write(record: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(record)?)
}

/// Parses a record.
pub(super) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T> {
    Ok(serde_json::from_str(text)?)
}

/// Parses a text in a record.
pub(super) fn word<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| StoreError::Record(text.chars().take(90).collect()))
}

/// Columns of a learned state: a record, the regrets of [pairs], and past epochs.
pub(super) type LearnedColumns = (String, Vec<u8>, Vec<u8>);

pub(super) fn write_learned(learned: &Learned) -> Result<LearnedColumns> {
    let regrets = pairs::write_regrets(&learned.regrets);
    Ok((write(learned)?, regrets, pairs::write_past(&learned.past)))
}

pub(super) fn read_learned(columns: LearnedColumns) -> Result<Learned> {
    let (text, regrets, past) = columns;
    let mut learned: Learned = read(&text)?;
    pairs::read_regrets(&regrets, &mut learned.regrets)?;
    learned.past = pairs::read_past(&past)?;
    Ok(learned)
}

/// Parses losses, with the losses of pairs in `bytes`.
pub(super) fn read_losses(text: &str, bytes: Option<&[u8]>) -> Result<Losses> {
    Ok(Losses { one_out_inferer_forecaster: pairs::read(bytes)?, ..read(text)? })
}

/// Serializes the inference and the forecast of `submission`.
pub(super) fn write_submission(submission: &Submission) -> Result<(String, Option<String>)> {
    let own = write(&SubmissionRecord {
        name: submission.name.clone(),
        inference: submission.inference.clone(),
    })?;
    let forecast = Some(&*submission.forecast).filter(|forecast| !forecast.is_empty());
    let forecast = forecast.map(|forecast| write(&Text(forecast))).transpose()?;
    Ok((own, forecast))
}

/// Parses the submission of `worker`. Its forecast shares the addresses in `known`.
pub(super) fn read_submission(
    worker: &str,
    text: &str,
    forecast: Option<&str>,
    known: &ByActor<f64>,
) -> Result<Submission> {
    let SubmissionRecord { name, inference } = read(text)?;
    let forecast = forecast.map(|text| {
        let mut json = serde_json::Deserializer::from_str(text);
        let forecast = ActorsReader(known).deserialize(&mut json);
        Ok::<_, StoreError>(forecast.and_then(|forecast| json.end().map(|()| forecast))?)
    });
    let forecast = Arc::new(forecast.transpose()?.unwrap_or_default());
    Ok(Submission { worker: word(worker)?, name, inference, forecast })
}

/// Parses the worker's name in a submission.
pub(super) fn read_name(text: &str) -> Result<Option<String>> {
    Ok(read::<SubmissionRecord>(text)?.name)
}

pub(super) fn write_summary(bundle: &Bundle) -> Result<String> {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    write(&SummaryRecord {
        combined_value: bundle.combined_value.clone(),
        naive_value: bundle.naive_value.clone(),
        n_inferers: count(bundle.inferer_values.len()),
        n_forecasters: count(bundle.forecaster_values.len()),
    })
}

/// Serializes a bundle in the form in which it is served, with all arrays.
pub(super) fn write_bundle(bundle: Bundle) -> Result<String> {
    write(&LatestBundle { block_height: bundle.nonce, bundle })
}

pub(super) fn read_bundle(text: &str) -> Result<Bundle> {
    Ok(read::<LatestBundle>(text)?.bundle)
}

#[derive(Serialize, Deserialize)]
struct TopicRecord {
    id: u64,
    creator: Option<String>,
    is_active: bool,
    /// Whitelist, which is not validated again.
    workers: Vec<String>,
    settings: TopicSettings,
}

pub(super) fn write_topic(topic: &Topic) -> Result<String> {
    write(&TopicRecord {
        id: topic.id.get(),
        creator: topic.creator.as_ref().map(ToString::to_string),
        is_active: topic.is_active,
        workers: topic.whitelist.workers.iter().map(ToString::to_string).collect(),
        settings: settings::from_topic(topic),
    })
}

pub(super) fn read_topic(text: &str) -> Result<Topic> {
    let TopicRecord { id, creator, is_active, workers, settings } = read(text)?;
    let creator = creator.as_deref().map(word).transpose()?;
    let topic = settings::topic(word(&id.to_string())?, creator, settings);
    let topic = topic.map_err(|error| StoreError::Record(error.to_string()))?;
    let workers = workers.iter().map(|worker| word(worker)).collect::<Result<_, _>>()?;
    let whitelist = WorkerWhitelist { workers, ..topic.whitelist };
    Ok(Topic { is_active, whitelist, ..topic })
}
