//! Conversion between topics and their settings in the API.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use model::dataset::DatasetId;
use model::node::Subgroup;
use model::topic::{Address, SINGLE_LABEL, TopicId, decimal};
use wire::inference::cases::Decimal;
use wire::inference::network::{LossParameters, PredictorSettings, TopicSettings};

use super::{
    EPOCH_LENGTH_MIN, Judging, Keep, LABELS_PER_SUBMISSION_MAX, Labeling, Timing, Topic, TopicKind,
    TopicSource, ValueRange, WorkerWhitelist, canonical_label,
};
use crate::math::loss::{LossMethod, LossRule};
use crate::math::regret::ByRole;
use crate::math::sortition::{FORECASTERS_MAX_DEFAULT, INFERERS_MAX_DEFAULT};
use crate::network::addresses;
use crate::network::topic::truth::{DIRECTIONS, Truth};

/// Names of the loss functions in errors.
const LOSS_METHODS: &str =
    "mse (sqe), mae (abse), huber, logcosh, ce, bce, poisson, ztae, zptae or czar";

/// Default quantile for the share of newcomers, as in most of the chain's topics.
const QUANTILE_DEFAULT: f64 = 0.25;

/// Parses the numeric setting `name`, or returns the default if it is missing.
macro_rules! number {
    ($settings:ident.$name:ident, $default:expr) => {
        optional(stringify!($name), $settings.$name.as_ref())?.unwrap_or($default)
    };
}

/// Error for a setting that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what}: expected {want}")]
pub struct SettingError {
    /// Name of the setting.
    pub what: &'static str,
    /// Description of valid values.
    pub want: &'static str,
}

/// Creates the topic `id` of `creator` from `settings`. The result must still be validated with
/// [`Topic::check`].
///
/// # Errors
/// [`SettingError`] for the first setting that cannot be parsed.
pub fn topic(
    id: TopicId,
    creator: Option<Address>,
    settings: TopicSettings,
) -> Result<Topic, SettingError> {
    let is_multi = is_multi(&settings)?;
    let labeling = Labeling {
        is_multi,
        is_case_sensitive: settings.label_case_sensitive,
        default: number!(settings.label_default_value, 0.0),
        per_submission_max: settings.max_labels_per_submission.unwrap_or(if is_multi {
            LABELS_PER_SUBMISSION_MAX
        } else {
            1
        }),
    };
    // The default tolerates only rounding errors.
    let tolerance = number!(settings.unity_tolerance, 1e-6);
    if tolerance > 0.0 && settings.unity_tolerance.is_some() && !settings.require_unity {
        return Err(SettingError { what: "unity_tolerance", want: "require_unity, too" });
    }
    let epoch_length = settings.epoch_length.unwrap_or(EPOCH_LENGTH_MIN);
    let loss_method = settings.loss_method.as_deref();
    let loss_method = word("loss_method", LOSS_METHODS, loss_method, LossMethod::Mse)?;
    let kind = settings.topic_type.as_deref();
    Ok(Topic {
        id,
        kind: word("topic_type", "regression or classification", kind, TopicKind::Regression)?,
        labels: labels(&settings, labeling)?,
        labeling,
        creator,
        is_active: true,
        unity_tolerance: settings.require_unity.then_some(tolerance),
        active_quantiles: ByRole {
            inferer: number!(settings.active_inferer_quantile, QUANTILE_DEFAULT),
            forecaster: number!(settings.active_forecaster_quantile, QUANTILE_DEFAULT),
        },
        active_reputer_quantile: number!(settings.active_reputer_quantile, QUANTILE_DEFAULT),
        active_max: ByRole {
            inferer: settings.max_top_inferers_to_reward.unwrap_or(INFERERS_MAX_DEFAULT),
            forecaster: settings.max_top_forecasters_to_reward.unwrap_or(FORECASTERS_MAX_DEFAULT),
        },
        whitelist: whitelist(&settings)?,
        keep: Keep { bytes: settings.keep_bytes, days: settings.keep_days },
        is_experimental: settings.experimental,
        has_built_in_forecasters: settings.built_in_forecasters.unwrap_or(true),
        timing: Timing {
            epoch_length,
            worker_submission_window: settings
                .worker_submission_window
                .unwrap_or((epoch_length / 2).max(1)),
            ground_truth_lag: settings.ground_truth_lag.unwrap_or(epoch_length),
        },
        value_range: value_range(&settings, loss_method)?,
        judging: judging(&settings, loss_method)?,
        truth: truth(&settings)?,
        source: TopicSource {
            dataset_id: dataset_id(settings.dataset_id)?,
            dataset: settings.dataset,
            column: settings.column,
            horizon: Duration::from_secs(settings.horizon_seconds),
        },
        name: settings.metadata,
        predictor: settings.predictor.map(predictor).transpose()?,
    })
}

/// Returns the settings of `topic` without its whitelist of workers.
pub fn from_topic(topic: &Topic) -> TopicSettings {
    // The range of probabilities is the default. As an explicit range, it would remain if the loss changes.
    let ValueRange { min, max } = topic.value_range;
    let has_probabilities =
        topic.unity_tolerance.is_some() || topic.judging.loss.method.takes_probabilities();
    let is_default = has_probabilities && (min, max) == (Some(0.0), Some(1.0));
    let range = if is_default { ValueRange::default() } else { topic.value_range };
    let Topic { timing, judging, source, active_quantiles, labeling, .. } = topic;
    let text = |number: f64| Some(Decimal(decimal(number)));
    let is_multi = labeling.is_multi;
    let of_loss = judging.loss.parameters;
    let Ok(of_loss) = of_loss.try_map(|_, it| Ok::<_, Infallible>(Decimal(decimal(it))));
    TopicSettings {
        metadata: topic.name.clone(),
        topic_type: Some(topic.kind.to_string()),
        output_arity: Some(if is_multi { "multi" } else { "single" }.to_owned()),
        label_whitelist: if is_multi { topic.labels.clone() } else { Vec::new() },
        label_case_sensitive: labeling.is_case_sensitive,
        label_default_value: text(labeling.default),
        max_labels_per_submission: Some(labeling.per_submission_max),
        require_unity: topic.unity_tolerance.is_some(),
        unity_tolerance: topic.unity_tolerance.and_then(text),
        loss_method: Some(judging.loss.method.to_string()),
        loss_parameters: Some(of_loss).filter(|given| *given != LossParameters::default()),
        allow_negative: judging.loss.allow_negative,
        loss_floor: text(judging.loss.floor),
        algorithm: Some(judging.generation.to_string()),
        p_norm: text(judging.p_norm),
        c_norm: text(judging.c_norm),
        alpha_regret: text(judging.alpha_regret),
        epsilon: text(judging.epsilon),
        merit_sortition_alpha: text(judging.merit_sortition_alpha),
        active_inferer_quantile: text(active_quantiles.inferer),
        active_forecaster_quantile: text(active_quantiles.forecaster),
        active_reputer_quantile: text(topic.active_reputer_quantile),
        max_top_inferers_to_reward: Some(topic.active_max.inferer),
        max_top_forecasters_to_reward: Some(topic.active_max.forecaster),
        enable_worker_whitelist: topic.whitelist.is_enabled,
        worker_whitelist: Vec::new(),
        min_experienced: u32::try_from(judging.n_experienced_min).ok(),
        epoch_length: Some(timing.epoch_length),
        worker_submission_window: Some(timing.worker_submission_window),
        ground_truth_lag: Some(timing.ground_truth_lag),
        dataset: source.dataset.clone(),
        dataset_id: source.dataset_id.map(DatasetId::get),
        column: source.column.clone(),
        horizon_seconds: source.horizon.as_secs(),
        direction_threshold: match topic.truth {
            Truth::Direction { threshold } => text(threshold),
            _ => None,
        },
        target: topic.truth.target().map(str::to_owned),
        value_min: range.min.and_then(text),
        value_max: range.max.and_then(text),
        predictor: topic.predictor.clone(),
        built_in_forecasters: Some(topic.has_built_in_forecasters),
        keep_bytes: topic.keep.bytes,
        keep_days: topic.keep.days,
        experimental: topic.is_experimental,
    }
}

fn labels(settings: &TopicSettings, labeling: Labeling) -> Result<Vec<String>, SettingError> {
    let labels = &settings.label_whitelist;
    if !labeling.is_multi {
        return match labels.as_slice() {
            [] => Ok(vec![SINGLE_LABEL.to_owned()]),
            [label] if label == SINGLE_LABEL => Ok(labels.clone()),
            _ => Err(SettingError {
                what: "label_whitelist",
                want: "no labels for a single output, or output_arity multi",
            }),
        };
    }
    if labels.is_empty() && settings.direction_threshold.is_some() {
        return Ok(DIRECTIONS.map(str::to_owned).to_vec());
    }
    let error = SettingError { what: "label_whitelist", want: "short names of letters and digits" };
    let canonical =
        labels.iter().map(|label| canonical_label(label, labeling).ok_or_else(|| error.clone()));
    canonical.collect()
}

fn truth(settings: &TopicSettings) -> Result<Truth, SettingError> {
    let threshold = optional("direction_threshold", settings.direction_threshold.as_ref())?;
    match (settings.target.as_deref(), threshold) {
        (None, Some(threshold)) => Ok(Truth::Direction { threshold }),
        (None | Some("value"), None) => Ok(Truth::Value),
        (Some("log_return"), None) => Ok(Truth::LogReturn),
        (Some("volatility"), None) => Ok(Truth::Volatility),
        (Some(_), _) => Err(SettingError {
            what: "target",
            want: "value, log_return or volatility, without a direction_threshold",
        }),
    }
}

/// Returns the range of values, which is 0 to 1 by default if they are probabilities.
fn value_range(settings: &TopicSettings, loss: LossMethod) -> Result<ValueRange, SettingError> {
    let are_probabilities = settings.require_unity || loss.takes_probabilities();
    let bound = |number: f64| are_probabilities.then_some(number);
    Ok(ValueRange {
        min: optional("value_min", settings.value_min.as_ref())?.or(bound(0.0)),
        max: optional("value_max", settings.value_max.as_ref())?.or(bound(1.0)),
    })
}

fn judging(settings: &TopicSettings, method: LossMethod) -> Result<Judging, SettingError> {
    let usual = Judging::usual(method, number!(settings.loss_floor, 1e-12));
    let algorithm = settings.algorithm.as_deref();
    let n_experienced_min = match settings.min_experienced {
        Some(0) => return Err(SettingError { what: "min_experienced", want: "at least 1" }),
        n_min => n_min.and_then(|n| usize::try_from(n).ok()),
    };
    let parameters = settings.loss_parameters.clone().unwrap_or_default();
    Ok(Judging {
        generation: word("algorithm", "mad-v0.17 or stdev-oct2024", algorithm, usual.generation)?,
        loss: LossRule {
            parameters: parameters.try_map(|what, text| decimal_of(what, &text))?,
            allow_negative: settings.allow_negative,
            ..usual.loss
        },
        p_norm: number!(settings.p_norm, usual.p_norm),
        c_norm: number!(settings.c_norm, usual.c_norm),
        alpha_regret: number!(settings.alpha_regret, usual.alpha_regret),
        merit_sortition_alpha: number!(settings.merit_sortition_alpha, usual.merit_sortition_alpha),
        epsilon: number!(settings.epsilon, usual.epsilon),
        n_experienced_min: n_experienced_min.unwrap_or(usual.n_experienced_min),
    })
}

fn dataset_id(number: Option<i64>) -> Result<Option<DatasetId>, SettingError> {
    let error = SettingError { what: "dataset_id", want: "a dataset id" };
    number.map(|number| DatasetId::new(number).ok_or(error)).transpose()
}

fn whitelist(settings: &TopicSettings) -> Result<WorkerWhitelist, SettingError> {
    let error = SettingError {
        what: "worker_whitelist",
        want: "addresses such as allo1… with a valid checksum",
    };
    let workers = settings.worker_whitelist.iter().map(|worker| addresses::checked(worker));
    Ok(WorkerWhitelist {
        is_enabled: settings.enable_worker_whitelist,
        workers: workers.collect::<Result<_, _>>().map_err(|_| error)?,
    })
}

/// Checks the subgroup of a predictor and sets the defaults of missing settings.
fn predictor(settings: PredictorSettings) -> Result<PredictorSettings, SettingError> {
    let subgroup = settings.subgroup.as_deref().map(str::parse::<Subgroup>).transpose();
    subgroup.map_err(|_| SettingError { what: "subgroup", want: "a subgroup's name" })?;
    Ok(PredictorSettings {
        n_nodes: Some(settings.n_nodes.unwrap_or(1).max(1)),
        n_rows: Some(settings.n_rows.unwrap_or(100).max(1)),
        ..settings
    })
}

fn is_multi(settings: &TopicSettings) -> Result<bool, SettingError> {
    match settings.output_arity.as_deref() {
        Some("single" | "TOPIC_OUTPUT_ARITY_SINGLE") => Ok(false),
        Some("multi" | "TOPIC_OUTPUT_ARITY_MULTI") => Ok(true),
        Some(_) => Err(SettingError { what: "output_arity", want: "single or multi" }),
        None => Ok(settings.direction_threshold.is_some()),
    }
}

fn word<T: FromStr>(
    what: &'static str,
    want: &'static str,
    text: Option<&str>,
    default: T,
) -> Result<T, SettingError> {
    text.map_or(Ok(default), str::parse).map_err(|_| SettingError { what, want })
}

fn optional(what: &'static str, text: Option<&Decimal>) -> Result<Option<f64>, SettingError> {
    text.map(|text| decimal_of(what, text)).transpose()
}

fn decimal_of(what: &'static str, text: &Decimal) -> Result<f64, SettingError> {
    let number = text.0.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or(SettingError { what, want: "a decimal number" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(settings: &str) -> Result<Topic, SettingError> {
        let settings: TopicSettings = serde_json::from_str(settings).unwrap();
        topic(TopicId::FIRST, Some("allo1me".parse().unwrap()), settings)
    }

    #[test]
    fn omitted_topic_settings_have_defaults() {
        let topic = check(
            r#"{"metadata":"load","dataset":"machine_cpu","column":"load_percent",
                "horizon_seconds":60,"p_norm":"2.5"}"#,
        );
        let topic = topic.unwrap();
        assert_eq!(topic.check(), Ok(()));
        assert!(topic.is_single() && topic.is_active);
        assert!((topic.judging.p_norm - 2.5).abs() < 1e-12);
        let Timing { epoch_length, worker_submission_window, ground_truth_lag } = topic.timing;
        assert_eq!((epoch_length, worker_submission_window, ground_truth_lag), (12, 6, 12));
    }

    #[test]
    fn settings_with_a_direction_threshold_create_a_classification_topic() {
        let topic = check(
            r#"{"metadata":"market","dataset":"btc","column":"close","horizon_seconds":1800,
                "topic_type":"classification","label_whitelist":["Up","down","flat"],
                "require_unity":true,"direction_threshold":0.001}"#,
        );
        let topic = topic.unwrap();
        assert_eq!((topic.check(), topic.is_single()), (Ok(()), false));
        assert_eq!(topic.labels, ["up", "down", "flat"]);
        assert_eq!(topic.unity_tolerance, Some(1e-6));
    }

    #[test]
    fn direction_has_three_labels_by_default() {
        let topic = check(
            r#"{"metadata":"market","dataset":"btc","column":"close","horizon_seconds":1800,
                "direction_threshold":"0.001"}"#,
        );
        let topic = topic.unwrap();
        assert_eq!((topic.check(), topic.labels), (Ok(()), DIRECTIONS.map(str::to_owned).to_vec()));
    }

    #[test]
    fn invalid_topic_settings_are_rejected() {
        for (settings, what) in [
            (r#"{"topic_type":"other"}"#, "topic_type"),
            (r#"{"output_arity":"many"}"#, "output_arity"),
            (r#"{"loss_method":"rmse"}"#, "loss_method"),
            (r#"{"algorithm":"median"}"#, "algorithm"),
            (r#"{"epsilon":"little"}"#, "epsilon"),
            (r#"{"min_experienced":0}"#, "min_experienced"),
            (r#"{"worker_whitelist":["me"]}"#, "worker_whitelist"),
            (r#"{"output_arity":"multi","label_whitelist":["größe"]}"#, "label_whitelist"),
            (r#"{"label_whitelist":["a","b"]}"#, "label_whitelist"),
            (r#"{"unity_tolerance":"0.1"}"#, "unity_tolerance"),
        ] {
            assert_eq!(check(settings).unwrap_err().what, what);
        }
    }
}
