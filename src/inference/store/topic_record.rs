//! Records of topics' settings: the JSON that the inference file keeps, and its conversions.
//!
//! As with other [records](super::record), a member that an older file lacks has a default.

use std::{collections::BTreeMap, time::Duration};

use model::{dataset::DatasetId, topic::SINGLE_LABEL};
use serde::{Deserialize, Serialize};

use super::{
    StoreError,
    record::{read, word, write},
};
use crate::{
    math::loss::LossRule,
    network::topic::{
        ActiveMax, ActiveQuantiles, Judging, Keep, Labeling, Predictor, PredictorModel, Source,
        Timing, Topic, TopicKind, Truth, WorkerWhitelist,
    },
};

#[derive(Serialize, Deserialize)]
struct PredictorRecord {
    function: String,
    method: String,
    subgroup: Option<String>,
    n_nodes: u32,
    n_rows: u32,
    env: BTreeMap<String, String>,
    /// Names and environments.
    #[serde(default)]
    models: Vec<(String, BTreeMap<String, String>)>,
}

#[derive(Serialize, Deserialize)]
struct TopicRecord {
    id: u64,
    name: String,
    is_classification: bool,
    labels: Vec<String>,
    unity_tolerance: Option<f64>,
    epoch_length: u64,
    worker_submission_window: u64,
    ground_truth_lag: u64,
    generation: String,
    loss_method: String,
    allow_negative: bool,
    loss_floor: f64,
    p_norm: f64,
    c_norm: f64,
    alpha_regret: f64,
    merit_sortition_alpha: f64,
    epsilon: f64,
    n_experienced_min: usize,
    dataset: String,
    #[serde(default)]
    dataset_id: Option<i64>,
    column: String,
    horizon_ms: u64,
    direction_threshold: Option<f64>,
    predictor: Option<PredictorRecord>,
    #[serde(default)]
    rest: Option<RestRecord>,
}

/// What topics of the first files did not have.
#[derive(Serialize, Deserialize)]
struct RestRecord {
    is_multi: bool,
    is_case_sensitive: bool,
    label_default: f64,
    labels_per_submission_max: u32,
    creator: Option<String>,
    is_active: bool,
    active_quantiles: (f64, f64, f64),
    #[serde(default)]
    active_max: Option<(u32, u32)>,
    #[serde(default)]
    whitelist: WhitelistRecord,
    #[serde(default)]
    own: OwnRecord,
}

/// What topics of the chain do not have.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct OwnRecord {
    keep_bytes: Option<u64>,
    keep_days: Option<u32>,
    is_experimental: bool,
    without_built_in_forecasters: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct WhitelistRecord {
    is_enabled: bool,
    workers: Vec<String>,
}

pub(super) fn write_topic(topic: &Topic) -> Result<String, StoreError> {
    let Topic { timing, judging, source, .. } = topic;
    write(&TopicRecord {
        id: topic.id.get(),
        name: topic.name.clone(),
        is_classification: topic.kind == TopicKind::Classification,
        labels: topic.labels.clone(),
        unity_tolerance: topic.unity_tolerance,
        epoch_length: timing.epoch_length,
        worker_submission_window: timing.worker_submission_window,
        ground_truth_lag: timing.ground_truth_lag,
        generation: judging.generation.to_string(),
        loss_method: judging.loss.method.to_string(),
        allow_negative: judging.loss.allow_negative,
        loss_floor: judging.loss.floor,
        p_norm: judging.p_norm,
        c_norm: judging.c_norm,
        alpha_regret: judging.alpha_regret,
        merit_sortition_alpha: judging.merit_sortition_alpha,
        epsilon: judging.epsilon,
        n_experienced_min: judging.n_experienced_min,
        dataset: source.dataset.clone(),
        dataset_id: source.dataset_id.map(DatasetId::get),
        column: source.column.clone(),
        horizon_ms: u64::try_from(source.horizon.as_millis()).unwrap_or(u64::MAX),
        direction_threshold: match topic.truth {
            Truth::Value => None,
            Truth::Direction { threshold } => Some(threshold),
        },
        predictor: topic.predictor.as_ref().map(|predictor| PredictorRecord {
            function: predictor.function.clone(),
            method: predictor.method.clone(),
            subgroup: predictor.subgroup.as_ref().map(ToString::to_string),
            n_nodes: predictor.n_nodes,
            n_rows: predictor.n_rows,
            env: predictor.env.clone(),
            models: (predictor.models.iter())
                .map(|model| (model.name.clone(), model.env.clone()))
                .collect(),
        }),
        rest: Some(rest(topic)),
    })
}

fn rest(topic: &Topic) -> RestRecord {
    let Labeling { is_multi, is_case_sensitive, default, per_submission_max } = topic.labeling;
    let ActiveQuantiles { inferer, forecaster, reputer } = topic.active_quantiles;
    RestRecord {
        is_multi,
        is_case_sensitive,
        label_default: default,
        labels_per_submission_max: per_submission_max,
        creator: topic.creator.as_ref().map(ToString::to_string),
        is_active: topic.is_active,
        active_quantiles: (inferer, forecaster, reputer),
        active_max: Some((topic.active_max.inferers, topic.active_max.forecasters)),
        whitelist: WhitelistRecord {
            is_enabled: topic.whitelist.is_enabled,
            workers: topic.whitelist.workers.iter().map(ToString::to_string).collect(),
        },
        own: OwnRecord {
            keep_bytes: topic.keep.bytes,
            keep_days: topic.keep.days,
            is_experimental: topic.is_experimental,
            without_built_in_forecasters: !topic.has_built_in_forecasters,
        },
    }
}

pub(super) fn read_topic(text: &str) -> Result<Topic, StoreError> {
    let record: TopicRecord = read(text)?;
    let judging = judging(&record)?;
    let is_multi = record.labels != [SINGLE_LABEL];
    let rest = record.rest.unwrap_or(RestRecord {
        is_multi,
        is_case_sensitive: false,
        label_default: 0.0,
        labels_per_submission_max: Labeling::MULTI.per_submission_max,
        creator: None,
        is_active: true,
        active_quantiles: (0.25, 0.25, 0.25),
        active_max: None,
        whitelist: WhitelistRecord::default(),
        own: OwnRecord::default(),
    });
    let active_max = rest
        .active_max
        .map_or(ActiveMax::USUAL, |(inferers, forecasters)| ActiveMax { inferers, forecasters });
    let (inferer, forecaster, reputer) = rest.active_quantiles;
    Ok(Topic {
        labeling: Labeling {
            is_multi: rest.is_multi,
            is_case_sensitive: rest.is_case_sensitive,
            default: rest.label_default,
            per_submission_max: rest.labels_per_submission_max,
        },
        creator: rest.creator.as_deref().map(word).transpose()?,
        is_active: rest.is_active,
        active_quantiles: ActiveQuantiles { inferer, forecaster, reputer },
        active_max,
        whitelist: whitelist(&rest.whitelist)?,
        keep: Keep { bytes: rest.own.keep_bytes, days: rest.own.keep_days },
        is_experimental: rest.own.is_experimental,
        has_built_in_forecasters: !rest.own.without_built_in_forecasters,
        id: word(&record.id.to_string())?,
        name: record.name,
        kind: if record.is_classification {
            TopicKind::Classification
        } else {
            TopicKind::Regression
        },
        labels: record.labels,
        unity_tolerance: record.unity_tolerance,
        timing: Timing {
            epoch_length: record.epoch_length,
            worker_submission_window: record.worker_submission_window,
            ground_truth_lag: record.ground_truth_lag,
        },
        judging,
        source: Source {
            dataset: record.dataset,
            dataset_id: record.dataset_id.and_then(DatasetId::new),
            column: record.column,
            horizon: Duration::from_millis(record.horizon_ms),
        },
        truth: record
            .direction_threshold
            .map_or(Truth::Value, |threshold| Truth::Direction { threshold }),
        predictor: record.predictor.map(predictor).transpose()?,
    })
}

fn judging(record: &TopicRecord) -> Result<Judging, StoreError> {
    Ok(Judging {
        generation: word(&record.generation)?,
        loss: LossRule {
            method: word(&record.loss_method)?,
            allow_negative: record.allow_negative,
            floor: record.loss_floor,
        },
        p_norm: record.p_norm,
        c_norm: record.c_norm,
        alpha_regret: record.alpha_regret,
        merit_sortition_alpha: record.merit_sortition_alpha,
        epsilon: record.epsilon,
        n_experienced_min: record.n_experienced_min,
    })
}

fn predictor(record: PredictorRecord) -> Result<Predictor, StoreError> {
    Ok(Predictor {
        function: record.function,
        method: record.method,
        subgroup: record.subgroup.as_deref().map(word).transpose()?,
        n_nodes: record.n_nodes,
        n_rows: record.n_rows,
        env: record.env,
        models: (record.models.into_iter())
            .map(|(name, env)| PredictorModel { name, env })
            .collect(),
    })
}

fn whitelist(record: &WhitelistRecord) -> Result<WorkerWhitelist, StoreError> {
    let workers = record.workers.iter().map(|worker| word(worker)).collect::<Result<_, _>>()?;
    Ok(WorkerWhitelist { is_enabled: record.is_enabled, workers })
}
