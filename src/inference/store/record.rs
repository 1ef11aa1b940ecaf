//! Records: the JSON that the inference file keeps, and its conversions.

use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use model::topic::Address;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, Visitor},
};
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

/// Numbers by address. They are read without a map of texts in between: a thousand inferers and fifty
/// forecasters have 50 000 in each epoch.
struct Numbers<'a>(Cow<'a, ByActor<f64>>);

/// Reads numbers by address, in whose order they are. Names that are among these are shared.
struct NumbersReader<'k>(&'k ByActor<f64>);

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

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, number)| (name.as_str(), Exact(*number))))
    }
}

impl<'de> Deserialize<'de> for Numbers<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NumbersReader(&ByActor::new())
            .deserialize(deserializer)
            .map(|numbers| Self(Cow::Owned(numbers)))
    }
}

impl<'de> DeserializeSeed<'de> for NumbersReader<'_> {
    type Value = ByActor<f64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for NumbersReader<'_> {
    type Value = ByActor<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers by address")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut known = self.0.keys().peekable();
        let mut numbers = Vec::with_capacity(self.0.len());
        while let Some((text, Exact(number))) = map.next_entry::<&str, Exact>()? {
            while known.next_if(|name| name.as_str() < text).is_some() {}
            let name = match known.next_if(|name| name.as_str() == text) {
                Some(name) => name.clone(),
                None => text.parse().map_err(de::Error::custom)?,
            };
            numbers.push((name, number));
        }
        Ok(numbers.into_iter().collect())
    }
}

impl<'a> From<&'a ByActor<f64>> for Numbers<'a> {
    fn from(numbers: &'a ByActor<f64>) -> Self {
        Self(Cow::Borrowed(numbers))
    }
}

impl From<Numbers<'_>> for ByActor<f64> {
    fn from(numbers: Numbers<'_>) -> Self {
        numbers.0.into_owned()
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

#[derive(Serialize, Deserialize)]
struct RoleValuesRecord<'a> {
    inferer: Numbers<'a>,
    forecaster: Numbers<'a>,
}

#[derive(Serialize, Deserialize)]
struct RegretsRecord<'a> {
    ordinary: RoleValuesRecord<'a>,
    naive: Numbers<'a>,
}

#[derive(Serialize, Deserialize)]
struct ExperienceRecord {
    n_epochs: u32,
    last_nonce: u64,
}

#[derive(Serialize, Deserialize)]
struct LearnedRecord<'a> {
    nonce: Option<u64>,
    n_learned: u64,
    regrets: RegretsRecord<'a>,
    regret_scale: Option<Exact>,
    initial_regret: Exact,
    combined_loss: Option<Exact>,
    losses: RoleValuesRecord<'a>,
    scores: RoleValuesRecord<'a>,
    loss_averages: Numbers<'a>,
    resting_target_inferer: Option<Exact>,
    resting_target_forecaster: Option<Exact>,
    inferers: BTreeMap<String, ExperienceRecord>,
    forecasters: BTreeMap<String, ExperienceRecord>,
}

#[derive(Serialize, Deserialize)]
struct LossesRecord<'a> {
    combined: Exact,
    naive: Exact,
    inferer: Numbers<'a>,
    forecaster: Numbers<'a>,
    one_out_inferer: Numbers<'a>,
    one_out_forecaster: Numbers<'a>,
    one_in_forecaster: Numbers<'a>,
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

impl<'a> From<&'a RoleValues> for RoleValuesRecord<'a> {
    fn from(values: &'a RoleValues) -> Self {
        Self { inferer: (&values.inferer).into(), forecaster: (&values.forecaster).into() }
    }
}

impl From<RoleValuesRecord<'_>> for RoleValues {
    fn from(record: RoleValuesRecord<'_>) -> Self {
        Self { inferer: record.inferer.into(), forecaster: record.forecaster.into() }
    }
}

/// The columns of what was learned.
pub(super) fn write_learned(learned: &Learned) -> Result<LearnedColumns, StoreError> {
    let regrets = pairs::write_regrets(&learned.regrets);
    Ok((write_learned_record(learned)?, regrets, past_epochs::write(&learned.past)))
}

/// The first of the columns of what was learned.
pub(super) fn write_learned_record(learned: &Learned) -> Result<String, StoreError> {
    let experience = |by_actor: &ByActor<Experience>| {
        let record = |(name, seen): (&Address, &Experience)| {
            let Experience { n_epochs, last_nonce } = *seen;
            (name.to_string(), ExperienceRecord { n_epochs, last_nonce })
        };
        by_actor.iter().map(record).collect()
    };
    write(&LearnedRecord {
        nonce: learned.nonce,
        n_learned: learned.n_learned,
        regrets: RegretsRecord {
            ordinary: (&learned.regrets.ordinary).into(),
            naive: (&learned.regrets.naive).into(),
        },
        regret_scale: learned.regret_scale.map(Exact),
        initial_regret: Exact(learned.initial_regret),
        combined_loss: learned.combined_loss.map(Exact),
        losses: (&learned.losses).into(),
        scores: (&learned.scores).into(),
        loss_averages: (&learned.loss_averages).into(),
        resting_target_inferer: learned.resting_targets.inferer.map(Exact),
        resting_target_forecaster: learned.resting_targets.forecaster.map(Exact),
        inferers: experience(&learned.experience.inferer),
        forecasters: experience(&learned.experience.forecaster),
    })
}

/// What was learned is kept in three columns: a record, the regrets of [pairs], and the
/// [past epochs](past_epochs).
pub(super) type LearnedColumns = (String, Vec<u8>, Vec<u8>);

/// What was learned, in `columns`.
pub(super) fn read_learned(columns: LearnedColumns) -> Result<Learned, StoreError> {
    let (text, pairs, past) = columns;
    let record: LearnedRecord<'_> = read(&text)?;
    let RegretsRecord { ordinary, naive } = record.regrets;
    let mut regrets =
        Regrets { ordinary: ordinary.into(), naive: naive.into(), ..Regrets::default() };
    pairs::read_regrets(&pairs, &mut regrets)?;
    let experience = |by_actor: BTreeMap<String, ExperienceRecord>| {
        let seen = |(name, record): (String, ExperienceRecord)| {
            let ExperienceRecord { n_epochs, last_nonce } = record;
            Ok((word(&name)?, Experience { n_epochs, last_nonce }))
        };
        by_actor.into_iter().map(seen).collect::<Result<_, StoreError>>()
    };
    Ok(Learned {
        nonce: record.nonce,
        n_learned: record.n_learned,
        regrets,
        regret_scale: record.regret_scale.map(|Exact(number)| number),
        initial_regret: record.initial_regret.0,
        combined_loss: record.combined_loss.map(|Exact(number)| number),
        losses: record.losses.into(),
        scores: record.scores.into(),
        loss_averages: record.loss_averages.into(),
        past: past_epochs::read(&past)?,
        resting_targets: ByRole {
            inferer: record.resting_target_inferer.map(|Exact(number)| number),
            forecaster: record.resting_target_forecaster.map(|Exact(number)| number),
        },
        experience: ByRole {
            inferer: experience(record.inferers)?,
            forecaster: experience(record.forecasters)?,
        },
    })
}

pub(super) fn write_losses(losses: &Losses) -> Result<String, StoreError> {
    write(&LossesRecord {
        combined: Exact(losses.combined),
        naive: Exact(losses.naive),
        inferer: (&losses.inferer).into(),
        forecaster: (&losses.forecaster).into(),
        one_out_inferer: (&losses.one_out_inferer).into(),
        one_out_forecaster: (&losses.one_out_forecaster).into(),
        one_in_forecaster: (&losses.one_in_forecaster).into(),
    })
}

/// The losses in `text`, with those of pairs in `bytes`.
pub(super) fn read_losses(text: &str, bytes: Option<&[u8]>) -> Result<Losses, StoreError> {
    let record: LossesRecord<'_> = read(text)?;
    Ok(Losses {
        combined: record.combined.0,
        naive: record.naive.0,
        inferer: record.inferer.into(),
        forecaster: record.forecaster.into(),
        one_out_inferer: record.one_out_inferer.into(),
        one_out_forecaster: record.one_out_forecaster.into(),
        one_in_forecaster: record.one_in_forecaster.into(),
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
    Ok(read::<RoleValuesRecord<'_>>(text)?.into())
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
    let forecast = forecast.map(|forecast| write(&Numbers::from(forecast))).transpose()?;
    Ok((own, forecast))
}

/// The submission of `worker`, whose forecast shares the names that are `known` from another one.
pub(super) fn read_submission(
    worker: &str,
    text: &str,
    forecast: Option<&str>,
    known: &ByActor<f64>,
) -> Result<Submission, StoreError> {
    let SubmissionRecord { name, inference } = read(text)?;
    let forecast = forecast.map(|text| {
        let mut json = serde_json::Deserializer::from_str(text);
        let forecast = NumbersReader(known).deserialize(&mut json);
        forecast.and_then(|forecast| json.end().map(|()| forecast)).map_err(StoreError::Record)
    });
    let forecast = Arc::new(forecast.transpose()?.unwrap_or_default());
    Ok(Submission { worker: word(worker)?, name, inference, forecast })
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

/// A bundle is kept in the form it is served in, with everything filled that a client may ask for.
pub(super) fn write_bundle(bundle: Bundle) -> Result<String, StoreError> {
    write(&LatestBundle { block_height: bundle.nonce, bundle })
}

pub(super) fn read_bundle(text: &str) -> Result<Bundle, StoreError> {
    Ok(read::<LatestBundle>(text)?.bundle)
}
