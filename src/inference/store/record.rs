//! Conversion of records in the inference store. Most are JSON. Past epochs and the values and regrets
//! of pairs have a binary format: names, followed by numbers as little-endian bytes.

use std::str::FromStr;
use std::sync::Arc;

use model::topic::Address;
use serde::de::DeserializeSeed as _;
use serde::{Deserialize, Serialize};
use wire::inference::network::TopicSettings;
use wire::inference::{Bundle, LabeledValue, LatestBundle};

use super::{Result, StoreError};
use crate::math::exact::{ActorsReader, Text};
use crate::math::pair_values::PairValues;
use crate::math::regret::{ByActor, Losses, PairwiseRegrets, Regrets};
use crate::network::forecast::{Past, PastEpoch};
use crate::network::learned::Learned;
use crate::network::submission::Submission;
use crate::network::topic::{Topic, WorkerWhitelist, settings};

#[derive(Serialize, Deserialize)]
struct SubmissionRecord {
    name: Option<String>,
    inference: Vec<LabeledValue>,
}

/// Summary of a bundle, which is read for lists of epochs.
#[derive(Serialize, Deserialize)]
pub(super) struct SummaryRecord {
    pub combined_value: Vec<LabeledValue>,
    pub naive_value: Vec<LabeledValue>,
    pub n_inferers: u64,
    pub n_forecasters: u64,
}

pub(super) fn write(record: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(record)?)
}

/// Parses a record.
pub(super) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T> {
    Ok(serde_json::from_str(text)?)
}

/// Parses a single value in a record.
pub(super) fn word<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| StoreError::Record(text.chars().take(90).collect()))
}

/// Columns of a learned state: the JSON record, the regrets of pairs, and the past epochs.
pub(super) type LearnedColumns = (String, Vec<u8>, Vec<u8>);

pub(super) fn write_learned(learned: &Learned) -> Result<LearnedColumns> {
    let regrets = write_regrets(&learned.regrets);
    Ok((write(learned)?, regrets, write_past(&learned.past)))
}

pub(super) fn read_learned(columns: LearnedColumns) -> Result<Learned> {
    let (text, regrets, past) = columns;
    let mut learned: Learned = read(&text)?;
    read_regrets(&regrets, &mut learned.regrets)?;
    learned.past = read_past(&past)?;
    Ok(learned)
}

/// Parses the losses in `text`, and the losses of pairs in `bytes`.
pub(super) fn read_losses(text: &str, bytes: Option<&[u8]>) -> Result<Losses> {
    Ok(Losses { one_out_inferer_forecaster: read_pairs(bytes)?, ..read(text)? })
}

/// Serializes a submission to two columns: the name and inference, and the forecast if there is one.
pub(super) fn write_submission(submission: &Submission) -> Result<(String, Option<String>)> {
    let own = write(&SubmissionRecord {
        name: submission.name.clone(),
        inference: submission.inference.clone(),
    })?;
    let forecast = Some(&*submission.forecast).filter(|forecast| !forecast.is_empty());
    let forecast = forecast.map(|forecast| write(&Text(forecast))).transpose()?;
    Ok((own, forecast))
}

/// Parses the submission of `worker`. Addresses in its forecast that are keys of `known` are shared
/// instead of allocated.
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

/// Returns the beginning of the records of all submissions with the worker's name `name`.
pub(super) fn name_prefix(name: &str) -> Result<String> {
    Ok(format!("{{\"name\":{},", write(&name)?))
}

/// Parses only the worker's name in a submission.
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

/// Serializes a bundle in the form in which it is served with all arrays.
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
    /// Workers on the whitelist. They are stored separately from the settings, so that their addresses
    /// are not validated again.
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

/// Version of the binary format: the first byte of each value.
const FORM: u8 = 1;

/// Encodes `pairs`. Returns `None` if there are no pairs.
pub(super) fn write_pairs(pairs: &PairValues) -> Option<Vec<u8>> {
    if pairs.is_empty() {
        return None;
    }
    let mut bytes = vec![FORM];
    put_pairs(&mut bytes, pairs);
    Some(bytes)
}

/// Encodes the pairwise regrets in `regrets`.
fn write_regrets(regrets: &Regrets) -> Vec<u8> {
    let Regrets { one_out_inferer, one_out_forecaster, one_in_forecaster, .. } = regrets;
    let mut bytes = vec![FORM];
    for PairwiseRegrets { inferer, forecaster } in
        [one_out_inferer, one_out_forecaster, one_in_forecaster]
    {
        put_pairs(&mut bytes, inferer);
        put_pairs(&mut bytes, forecaster);
    }
    bytes
}

fn put_pairs(bytes: &mut Vec<u8>, pairs: &PairValues) {
    for names in [pairs.rows(), pairs.columns()] {
        put_count(bytes, names.len());
        for name in names {
            put_name(bytes, name);
        }
    }
    put_count(bytes, pairs.width());
    bytes.extend(pairs.numbers().iter().flat_map(|number| number.to_le_bytes()));
}

fn put_count(bytes: &mut Vec<u8>, n: usize) {
    // Never saturates, since names and their letters are far fewer.
    bytes.extend(u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_name(bytes: &mut Vec<u8>, name: &Address) {
    put_count(bytes, name.as_str().len());
    bytes.extend(name.as_str().as_bytes());
}

/// Decodes pairs. `None` results in no pairs: the epoch had none, or they were deleted to save space.
pub(super) fn read_pairs(bytes: Option<&[u8]>) -> Result<PairValues> {
    let Some(bytes) = bytes else { return Ok(PairValues::default()) };
    let mut reader = PairReader { bytes };
    let pairs = reader.form().and_then(|()| reader.pairs());
    pairs
        .filter(|_| reader.bytes.is_empty())
        .ok_or_else(|| StoreError::Record("an epoch's values of pairs".to_owned()))
}

/// Decodes the pairwise regrets and stores them in `regrets`.
fn read_regrets(bytes: &[u8], regrets: &mut Regrets) -> Result<()> {
    let mut reader = PairReader { bytes };
    let mut read = || {
        reader.form()?;
        regrets.one_out_inferer = reader.pairwise()?;
        regrets.one_out_forecaster = reader.pairwise()?;
        regrets.one_in_forecaster = reader.pairwise()?;
        reader.bytes.is_empty().then_some(())
    };
    read().ok_or_else(|| StoreError::Record("a topic's regrets".to_owned()))
}

struct PairReader<'b> {
    bytes: &'b [u8],
}

impl<'b> PairReader<'b> {
    fn names(&mut self) -> Option<Vec<Address>> {
        let n_names = self.count()?;
        let mut names = Vec::new();
        for _ in 0..n_names {
            let n_bytes = self.count()?;
            names.push(str::from_utf8(self.take(n_bytes)?).ok()?.parse().ok()?);
        }
        Some(names)
    }

    fn form(&mut self) -> Option<()> {
        matches!(self.take(1)?, [FORM]).then_some(())
    }

    fn pairs(&mut self) -> Option<PairValues> {
        let (rows, columns): (Vec<Address>, Vec<Address>) = (self.names()?, self.names()?);
        let width = self.count()?;
        let n_numbers = rows.len().checked_mul(columns.len())?.checked_mul(width)?;
        if n_numbers == 0 {
            return Some(PairValues::default());
        }
        PairValues::new(rows, columns, width, self.numbers(n_numbers)?)
    }

    fn pairwise(&mut self) -> Option<PairwiseRegrets> {
        Some(PairwiseRegrets { inferer: self.pairs()?, forecaster: self.pairs()? })
    }

    fn take(&mut self, n_bytes: usize) -> Option<&'b [u8]> {
        let (taken, left) = self.bytes.split_at_checked(n_bytes)?;
        self.bytes = left;
        Some(taken)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.take(4)?.try_into().ok()?)).ok()
    }

    /// Reads the next `n` numbers.
    fn numbers(&mut self, n: usize) -> Option<Vec<f64>> {
        let (numbers, rest) = self.take(n.checked_mul(8)?)?.as_chunks::<8>();
        rest.is_empty().then(|| numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
    }
}

/// Marker before a past epoch that has the same inferers as the previous epoch and omits their names.
const SAME_NAMES: u8 = 0;

/// Marker before a past epoch that begins with its inferers.
const NEW_NAMES: u8 = 1;

fn write_past(past: &Past) -> Vec<u8> {
    let mut bytes = vec![FORM];
    put_count(&mut bytes, past.epochs().len());
    let mut before: Option<&Arc<[Address]>> = None;
    for epoch in past.epochs() {
        if before.is_some_and(|before| *before == epoch.names) {
            bytes.push(SAME_NAMES);
        } else {
            bytes.push(NEW_NAMES);
            put_count(&mut bytes, epoch.names.len());
            for name in epoch.names.iter() {
                put_name(&mut bytes, name);
            }
        }
        before = Some(&epoch.names);
        put_count(&mut bytes, epoch.n_labels());
        let numbers = epoch.losses.iter().chain(&epoch.offsets);
        bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
    }
    bytes
}

/// Decodes past epochs.
fn read_past(bytes: &[u8]) -> Result<Past> {
    let unfit = || StoreError::Record("a topic's past epochs".to_owned());
    let mut reader = PairReader { bytes };
    let epochs = read_epochs(&mut reader).ok_or_else(unfit)?;
    if reader.bytes.is_empty() { Ok(Past::new(epochs)) } else { Err(unfit()) }
}

fn read_epochs(reader: &mut PairReader<'_>) -> Option<Vec<PastEpoch>> {
    let [FORM] = reader.take(1)? else { return None };
    let n_epochs = reader.count()?;
    let mut epochs: Vec<PastEpoch> = Vec::new();
    for _ in 0..n_epochs {
        let names = match reader.take(1)? {
            [SAME_NAMES] => Arc::clone(&epochs.last()?.names),
            [NEW_NAMES] => reader.names()?.into(),
            _ => return None,
        };
        let n_offsets = names.len().checked_mul(reader.count()?)?;
        let losses = reader.numbers(names.len())?;
        epochs.push(PastEpoch { names, losses, offsets: reader.numbers(n_offsets)? });
    }
    Some(epochs)
}
