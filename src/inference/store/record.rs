//! Records: the JSON that the inference file keeps, and its conversions.

use std::{collections::BTreeMap, str::FromStr, sync::Arc};

use model::topic::Address;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use wire::inference::{Bundle, LabeledValue, LatestBundle};

use super::{StoreError, pairs, past_epochs};
use crate::{
    math::regret::{ByActor, ByRole, Losses, Regrets, RoleValues},
    network::{
        close::Interval,
        learned::{Experience, Learned},
        submission::Submission,
    },
};

/// A number as the shortest text that reads back as the same: JSON's own numbers may come back off
/// by the last bit, and then an epoch could not be computed again.
#[derive(Clone, Copy)]
struct Exact(f64);

/// Numbers by address.
type Numbers = BTreeMap<String, Exact>;

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
struct SubmissionRecord {
    name: Option<String>,
    inference: Vec<LabeledValue>,
}

/// What a list of epochs shows of a bundle.
#[derive(Serialize, Deserialize)]
pub(super) struct SummaryRecord {
    pub combined_value: Vec<LabeledValue>,
    pub naive_value: Vec<LabeledValue>,
    pub n_inferers: u64,
    pub n_forecasters: u64,
}

/// The actors of a bundle, which are read without their values.
#[derive(Deserialize)]
struct BundleActors {
    network_inferences: ActorLists,
}

#[derive(Deserialize)]
struct ActorLists {
    inferer_values: Vec<ActorRecord>,
    forecaster_values: Vec<ActorRecord>,
}

#[derive(Deserialize)]
struct ActorRecord {
    worker: String,
}

#[derive(Serialize, Deserialize)]
struct RoleValuesRecord {
    inferer: Numbers,
    forecaster: Numbers,
}

#[derive(Serialize, Deserialize)]
struct RegretsRecord {
    ordinary: RoleValuesRecord,
    naive: Numbers,
}

#[derive(Serialize, Deserialize)]
struct ExperienceRecord {
    n_epochs: u32,
    last_nonce: u64,
}

#[derive(Serialize, Deserialize)]
struct LearnedRecord {
    nonce: Option<u64>,
    n_learned: u64,
    regrets: RegretsRecord,
    regret_scale: Option<Exact>,
    initial_regret: Exact,
    combined_loss: Option<Exact>,
    losses: RoleValuesRecord,
    scores: RoleValuesRecord,
    loss_averages: Numbers,
    resting_target_inferer: Option<Exact>,
    resting_target_forecaster: Option<Exact>,
    inferers: BTreeMap<String, ExperienceRecord>,
    forecasters: BTreeMap<String, ExperienceRecord>,
}

#[derive(Serialize, Deserialize)]
struct LossesRecord {
    combined: Exact,
    naive: Exact,
    inferer: Numbers,
    forecaster: Numbers,
    one_out_inferer: Numbers,
    one_out_forecaster: Numbers,
    one_in_forecaster: Numbers,
}

#[derive(Serialize, Deserialize)]
struct IntervalRecord {
    label: String,
    values: Vec<Exact>,
}

/// The text of `record`.
pub(super) fn write(record: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(record).map_err(StoreError::Record)
}

/// The record in `text`.
pub(super) fn read<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(StoreError::Record)
}

/// The word that `text` is.
pub(super) fn word<T: FromStr>(text: &str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Word { text: text.chars().take(90).collect() })
}

/// `values` under the texts of their addresses.
fn texts<T, U>(values: &BTreeMap<Address, T>, convert: impl Fn(&T) -> U) -> BTreeMap<String, U> {
    values.iter().map(|(name, value)| (name.to_string(), convert(value))).collect()
}

/// `values` under the addresses that their texts are.
fn addresses<T, U>(
    values: BTreeMap<String, T>,
    convert: impl Fn(T) -> Result<U, StoreError>,
) -> Result<BTreeMap<Address, U>, StoreError> {
    values.into_iter().map(|(name, value)| Ok((word(&name)?, convert(value)?))).collect()
}

fn numbers(by_actor: &ByActor<f64>) -> Numbers {
    texts(by_actor, |number| Exact(*number))
}

fn by_actor(numbers: Numbers) -> Result<ByActor<f64>, StoreError> {
    addresses(numbers, |Exact(number)| Ok(number))
}

impl From<&RoleValues> for RoleValuesRecord {
    fn from(values: &RoleValues) -> Self {
        let RoleValues { inferer, forecaster } = values;
        Self { inferer: numbers(inferer), forecaster: numbers(forecaster) }
    }
}

impl TryFrom<RoleValuesRecord> for RoleValues {
    type Error = StoreError;

    fn try_from(record: RoleValuesRecord) -> Result<Self, Self::Error> {
        Ok(Self { inferer: by_actor(record.inferer)?, forecaster: by_actor(record.forecaster)? })
    }
}

impl From<&Regrets> for RegretsRecord {
    fn from(regrets: &Regrets) -> Self {
        Self { ordinary: (&regrets.ordinary).into(), naive: numbers(&regrets.naive) }
    }
}

impl TryFrom<RegretsRecord> for Regrets {
    type Error = StoreError;

    fn try_from(record: RegretsRecord) -> Result<Self, Self::Error> {
        let (ordinary, naive) = (record.ordinary.try_into()?, by_actor(record.naive)?);
        Ok(Self { ordinary, naive, ..Self::default() })
    }
}

/// The columns of what was learned.
pub(super) fn write_learned(learned: &Learned) -> Result<LearnedColumns, StoreError> {
    let regrets = pairs::write_regrets(&learned.regrets);
    Ok((write_learned_record(learned)?, regrets, past_epochs::write(&learned.past)))
}

/// The first of the columns of what was learned.
pub(super) fn write_learned_record(learned: &Learned) -> Result<String, StoreError> {
    let experience = |seen: &Experience| ExperienceRecord {
        n_epochs: seen.n_epochs,
        last_nonce: seen.last_nonce,
    };
    write(&LearnedRecord {
        nonce: learned.nonce,
        n_learned: learned.n_learned,
        regrets: (&learned.regrets).into(),
        regret_scale: learned.regret_scale.map(Exact),
        initial_regret: Exact(learned.initial_regret),
        combined_loss: learned.combined_loss.map(Exact),
        losses: (&learned.losses).into(),
        scores: (&learned.scores).into(),
        loss_averages: numbers(&learned.loss_averages),
        resting_target_inferer: learned.resting_targets.inferer.map(Exact),
        resting_target_forecaster: learned.resting_targets.forecaster.map(Exact),
        inferers: texts(&learned.experience.inferer, experience),
        forecasters: texts(&learned.experience.forecaster, experience),
    })
}

/// What was learned is kept in three columns: a record, the regrets of [pairs], and the
/// [past epochs](past_epochs).
pub(super) type LearnedColumns = (String, Vec<u8>, Vec<u8>);

/// What was learned, in `columns`.
pub(super) fn read_learned(columns: LearnedColumns) -> Result<Learned, StoreError> {
    let (text, pairs, past) = columns;
    let record: LearnedRecord = read(&text)?;
    let mut regrets = record.regrets.try_into()?;
    pairs::read_regrets(&pairs, &mut regrets)?;
    let experience = |seen: ExperienceRecord| {
        Ok(Experience { n_epochs: seen.n_epochs, last_nonce: seen.last_nonce })
    };
    Ok(Learned {
        nonce: record.nonce,
        n_learned: record.n_learned,
        regrets,
        regret_scale: record.regret_scale.map(|Exact(number)| number),
        initial_regret: record.initial_regret.0,
        combined_loss: record.combined_loss.map(|Exact(number)| number),
        losses: record.losses.try_into()?,
        scores: record.scores.try_into()?,
        loss_averages: by_actor(record.loss_averages)?,
        past: past_epochs::read(&past)?,
        resting_targets: ByRole {
            inferer: record.resting_target_inferer.map(|Exact(number)| number),
            forecaster: record.resting_target_forecaster.map(|Exact(number)| number),
        },
        experience: ByRole {
            inferer: addresses(record.inferers, experience)?,
            forecaster: addresses(record.forecasters, experience)?,
        },
    })
}

pub(super) fn write_losses(losses: &Losses) -> Result<String, StoreError> {
    write(&LossesRecord {
        combined: Exact(losses.combined),
        naive: Exact(losses.naive),
        inferer: numbers(&losses.inferer),
        forecaster: numbers(&losses.forecaster),
        one_out_inferer: numbers(&losses.one_out_inferer),
        one_out_forecaster: numbers(&losses.one_out_forecaster),
        one_in_forecaster: numbers(&losses.one_in_forecaster),
    })
}

/// The losses of pairs of `losses`; none of none.
pub(super) fn write_pairs(losses: &Losses) -> Option<Vec<u8>> {
    pairs::write(&losses.one_out_inferer_forecaster)
}

/// The losses in `text`, with those of pairs in `bytes`.
pub(super) fn read_losses(text: &str, bytes: Option<&[u8]>) -> Result<Losses, StoreError> {
    let record: LossesRecord = read(text)?;
    Ok(Losses {
        combined: record.combined.0,
        naive: record.naive.0,
        inferer: by_actor(record.inferer)?,
        forecaster: by_actor(record.forecaster)?,
        one_out_inferer: by_actor(record.one_out_inferer)?,
        one_out_forecaster: by_actor(record.one_out_forecaster)?,
        one_in_forecaster: by_actor(record.one_in_forecaster)?,
        one_out_inferer_forecaster: pairs::read(bytes)?,
    })
}

pub(super) fn write_intervals(intervals: &[Interval]) -> Result<String, StoreError> {
    let record = |interval: &Interval| IntervalRecord {
        label: interval.label.clone(),
        values: interval.values.iter().copied().map(Exact).collect(),
    };
    write(&intervals.iter().map(record).collect::<Vec<_>>())
}

pub(super) fn read_intervals(text: &str) -> Result<Vec<Interval>, StoreError> {
    let records: Vec<IntervalRecord> = read(text)?;
    let interval = |record: IntervalRecord| Interval {
        label: record.label,
        values: record.values.into_iter().map(|Exact(number)| number).collect(),
    };
    Ok(records.into_iter().map(interval).collect())
}

pub(super) fn write_role_values(values: &RoleValues) -> Result<String, StoreError> {
    write(&RoleValuesRecord::from(values))
}

pub(super) fn read_role_values(text: &str) -> Result<RoleValues, StoreError> {
    read::<RoleValuesRecord>(text)?.try_into()
}

/// What `submission` infers, and what it forecasts if it does.
pub(super) fn write_submission(
    submission: &Submission,
) -> Result<(String, Option<String>), StoreError> {
    let own = write(&SubmissionRecord {
        name: submission.name.clone(),
        inference: submission.inference.clone(),
    })?;
    let forecast = Some(&*submission.forecast).filter(|forecast| !forecast.is_empty());
    let forecast = forecast.map(|forecast| write(&numbers(forecast))).transpose()?;
    Ok((own, forecast))
}

pub(super) fn read_submission(
    worker: &str,
    text: &str,
    forecast: Option<&str>,
) -> Result<Submission, StoreError> {
    let record: SubmissionRecord = read(text)?;
    let forecast: BTreeMap<&str, Exact> = forecast.map(read).transpose()?.unwrap_or_default();
    let forecast = forecast.into_iter().map(|(name, Exact(loss))| Ok((word(name)?, loss)));
    Ok(Submission {
        worker: word(worker)?,
        name: record.name,
        inference: record.inference,
        forecast: Arc::new(forecast.collect::<Result<_, StoreError>>()?),
    })
}

/// Who a submission in `text` says it is from.
pub(super) fn read_name(text: &str) -> Result<Option<String>, StoreError> {
    Ok(read::<SubmissionRecord>(text)?.name)
}

pub(super) fn write_summary(bundle: &Bundle) -> Result<String, StoreError> {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    write(&SummaryRecord {
        combined_value: bundle.combined_value.clone(),
        naive_value: bundle.naive_value.clone(),
        n_inferers: count(bundle.inferer_values.len()),
        n_forecasters: count(bundle.forecaster_values.len()),
    })
}

pub(super) fn read_summary(text: &str) -> Result<SummaryRecord, StoreError> {
    read(text)
}

/// The inferers and the forecasters of the bundle in `text`.
pub(super) fn read_actors(text: &str) -> Result<ByRole<Vec<Address>>, StoreError> {
    let ActorLists { inferer_values, forecaster_values } =
        read::<BundleActors>(text)?.network_inferences;
    let names = |actors: Vec<ActorRecord>| {
        actors.iter().map(|actor| word(&actor.worker)).collect::<Result<_, _>>()
    };
    Ok(ByRole { inferer: names(inferer_values)?, forecaster: names(forecaster_values)? })
}

/// A bundle is kept in the form it is served in, with everything filled that a client may ask for.
pub(super) fn write_bundle(bundle: Bundle) -> Result<String, StoreError> {
    write(&LatestBundle { block_height: bundle.nonce, bundle })
}

pub(super) fn read_bundle(text: &str) -> Result<Bundle, StoreError> {
    Ok(read::<LatestBundle>(text)?.bundle)
}

pub(super) fn write_values(values: &[LabeledValue]) -> Result<String, StoreError> {
    write(&values)
}

pub(super) fn read_values(text: &str) -> Result<Vec<LabeledValue>, StoreError> {
    read(text)
}
