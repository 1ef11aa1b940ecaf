//! Bodies of our extensions of the chain's API: settings of topics, submissions, and bundles with more
//! values.

use std::collections::BTreeMap;

use model::topic::SINGLE_LABEL;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cases::Decimal;
use super::{Bundle, LabeledValue};

/// Predictor of a topic: a function that workers of a cluster run to infer values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorSettings {
    /// Name or content id of the function.
    pub function: String,
    /// File to run inside the function.
    pub method: String,
    /// Subgroup of the workers that run the function; any worker if omitted.
    pub subgroup: Option<String>,
    /// Number of workers, 1 by default.
    pub n_nodes: Option<u32>,
    /// Number of rows in the function's input, 100 by default: the latest rows with the topic's column.
    pub n_rows: Option<u32>,
    /// Environment variables of the function.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Models of the function. Each model is an inferer. Without models, each worker that runs the
    /// function is an inferer.
    #[serde(default)]
    pub models: Vec<PredictorModelSettings>,
}

/// A model of a predictor: an inferer that keeps its address, no matter which worker runs the function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorModelSettings {
    /// Name of the model, unique within the topic.
    pub name: String,
    /// Environment variables, in addition to the predictor's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Parameters of a loss. Each method has some of these parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LossParameters<T = Decimal> {
    /// Error up to which `huber` squares; 1 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta: Option<T>,
    /// Smallest probability of `bce` (1e-15 by default), smallest count of `poisson` (1e-7), or ground
    /// truth in standard deviations below which `czar` is softer (1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<T>,
    /// Standard deviation of the ground truth for `ztae`, `zptae` and `czar`. By default, the standard
    /// deviation of the topic's latest 100 ground truths, or 1 until there are 10 ground truths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std: Option<T>,
    /// Mean of the ground truth for `ztae`, `zptae` and `czar`; 0 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<T>,
    /// Exponent of large errors of `zptae` (0.25 by default), or share of a quadratic term of `czar`
    /// (0.01).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<T>,
    /// Steepness of `zptae`; 2 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta: Option<T>,
    /// Exponent of the penalty of `zptae`; 4 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma: Option<T>,
    /// Scale of the penalty of `zptae`; 0.01 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mse_norm: Option<T>,
    /// Width of the transition at `epsilon` of `czar`; 0.05 by default, 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<T>,
}

impl<T> LossParameters<T> {
    /// Converts each parameter that is given. `convert` gets its path in a topic's settings, such as
    /// `loss_parameters.delta`.
    ///
    /// # Errors
    /// The first error of `convert`.
    pub fn try_map<U, E>(
        self,
        mut convert: impl FnMut(&'static str, T) -> Result<U, E>,
    ) -> Result<LossParameters<U>, E> {
        let mut of = |name, value: Option<T>| value.map(|value| convert(name, value)).transpose();
        Ok(LossParameters {
            delta: of("loss_parameters.delta", self.delta)?,
            epsilon: of("loss_parameters.epsilon", self.epsilon)?,
            std: of("loss_parameters.std", self.std)?,
            mean: of("loss_parameters.mean", self.mean)?,
            alpha: of("loss_parameters.alpha", self.alpha)?,
            beta: of("loss_parameters.beta", self.beta)?,
            gamma: of("loss_parameters.gamma", self.gamma)?,
            mse_norm: of("loss_parameters.mse_norm", self.mse_norm)?,
            tau: of("loss_parameters.tau", self.tau)?,
        })
    }
}

/// Settings of a topic. Most topics on the chain use the default values.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the chain's message has them")]
pub struct TopicSettings {
    /// Human-readable description of the prediction.
    #[schema(required = true)]
    pub metadata: String,
    /// `regression` or `classification`, or the chain's name for either.
    pub topic_type: Option<String>,
    /// `single` or `multi`, or the chain's name for either.
    pub output_arity: Option<String>,
    /// Accepted labels of a topic with several outputs. A direction has `up`, `down` and `flat`, which
    /// are the default.
    pub label_whitelist: Vec<String>,
    /// True if labels are case-sensitive.
    pub label_case_sensitive: bool,
    /// Value of a label that was not submitted.
    pub label_default_value: Option<Decimal>,
    /// Maximum number of labels per payload.
    pub max_labels_per_submission: Option<u32>,
    /// True if values must be from 0 to 1 and sum to 1.
    pub require_unity: bool,
    /// Maximum difference between the sum of the values and 1.
    pub unity_tolerance: Option<Decimal>,
    /// `mse` (or `sqe`), `mae` (or `abse`), `huber`, `logcosh`, `ce`, `bce`, `poisson`, `ztae`, `zptae`
    /// or `czar`, with the definitions of the chain's reputers. `bce` needs values from 0 to 1, `ce` also
    /// `require_unity`, and `poisson` values of at least 0 and `allow_negative`.
    pub loss_method: Option<String>,
    /// Parameters of the loss; the defaults of the chain's reputers if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_parameters: Option<LossParameters>,
    /// True to use losses as they are instead of their logarithms. A topic whose `allow_negative`,
    /// `loss_method` or `loss_parameters` change learns from the start: regrets, scores and the leaderboard do
    /// not include epochs with other losses, until they are relearned.
    pub allow_negative: bool,
    /// Lower bound of losses before the logarithm.
    pub loss_floor: Option<Decimal>,
    /// `mad-v0.17` or `stdev-oct2024`.
    pub algorithm: Option<String>,
    /// Exponent with which the preference for the best actors increases.
    pub p_norm: Option<Decimal>,
    /// Regret, in units of the scale, from which weights increase strongly.
    pub c_norm: Option<Decimal>,
    /// Weight of the latest loss in a regret.
    pub alpha_regret: Option<Decimal>,
    /// Number added to the scale of regrets.
    pub epsilon: Option<Decimal>,
    /// Weight of the latest score in its moving average.
    pub merit_sortition_alpha: Option<Decimal>,
    /// Quantile of active inferers' scores, toward which the scores of inactive inferers move. The same
    /// number is the maximum share of inferers without a score among the active inferers.
    pub active_inferer_quantile: Option<Decimal>,
    /// Quantile of active forecasters' scores, with the same effects for forecasters.
    pub active_forecaster_quantile: Option<Decimal>,
    /// Quantile of active reputers' scores. No effect, since there is only one reputer.
    pub active_reputer_quantile: Option<Decimal>,
    /// Maximum number of active inferers per epoch. The inferers with the best scores are active. 32 on
    /// the chain.
    pub max_top_inferers_to_reward: Option<u32>,
    /// Maximum number of active forecasters per epoch, in addition to the built-in forecasters. 6 on
    /// the chain.
    pub max_top_forecasters_to_reward: Option<u32>,
    /// True to accept submissions only from workers on the whitelist.
    pub enable_worker_whitelist: bool,
    /// Addresses of the workers on the whitelist.
    pub worker_whitelist: Vec<String>,
    /// Minimum number of experienced actors for which the regret of newcomers is computed from the
    /// regrets of experienced actors only. 10 on the chain.
    pub min_experienced: Option<u32>,
    /// Blocks per epoch.
    pub epoch_length: Option<u64>,
    /// Blocks after the opening of an epoch in which workers can submit; half the epoch by default.
    pub worker_submission_window: Option<u64>,
    /// Blocks from the opening of an epoch until its ground truth is read; the epoch's length by
    /// default.
    pub ground_truth_lag: Option<u64>,
    /// Name of the dataset with the topic's inputs and ground truth.
    #[schema(required = true)]
    pub dataset: String,
    /// Id of the dataset. By default, the dataset is found once by its name, and its id is stored.
    pub dataset_id: Option<i64>,
    /// Predicted column of the dataset.
    #[schema(required = true)]
    pub column: String,
    /// Time from the latest row at the opening of an epoch to the predicted row, in seconds of the
    /// rows' timestamps. Must be longer than the submission window. If the dataset lags behind the
    /// clock, the predicted row can arrive within the window. Submissions are then rejected, unless the
    /// row's timestamp is in the future or the topic is `experimental`.
    #[schema(required = true)]
    pub horizon_seconds: u64,
    /// Maximum relative change that is still `flat`. If set, the topic predicts the direction with the
    /// labels `up`, `down` and `flat`. Otherwise the topic predicts the `target`.
    pub direction_threshold: Option<Decimal>,
    /// Ground truth without a `direction_threshold`. `value` (default) is the column at the horizon.
    /// `log_return` is the logarithm of `value` divided by the latest value at the opening of the epoch.
    /// `volatility` is the standard deviation of the log returns from row to row until the horizon,
    /// times the square root of the number of returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Smallest value that a submission can have. If omitted, it is 0 for probabilities (`ce`, `bce` or
    /// `require_unity`) and otherwise unlimited.
    pub value_min: Option<Decimal>,
    /// Largest value that a submission can have. If omitted, it is 1 for probabilities and otherwise
    /// unlimited.
    pub value_max: Option<Decimal>,
    /// Function that infers values in each epoch; only submissions are combined if omitted.
    pub predictor: Option<PredictorSettings>,
    /// True (the default) if the built-in forecasters take part.
    pub built_in_forecasters: Option<bool>,
    /// Maximum size of past epochs, at least 1000000 bytes; the service's setting by default.
    pub keep_bytes: Option<u64>,
    /// Maximum age of past epochs, in days, from an hour after the service's start; the service's setting
    /// by default.
    pub keep_days: Option<u32>,
    /// True to allow settings outside the chain's ranges: an `epoch_length` below 12, a `p_norm`
    /// outside 2.5 to 4.5, or a predicted row that arrives within the submission window.
    pub experimental: bool,
}

/// Topics that are created together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicBatch {
    /// Settings of each topic; 1 to 64 topics.
    pub topics: Vec<TopicSettings>,
}

/// Request to learn again from past epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelearnBody {
    /// First epoch whose ground truth is read again: a height, as number or text.
    pub from_nonce: Decimal,
}

/// Result of learning again from past epochs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RelearnedBody {
    /// Number of epochs from which the network learned again. This includes epochs before `from_nonce`
    /// that are repeated, since not every learned state is stored.
    pub n_epochs: u64,
    /// Number of these epochs whose ground truth had changed since the network learned from them.
    pub n_changed: u64,
    /// Number of epochs since `from_nonce` that keep their earlier ground truth, since the dataset has
    /// none for them now, or has one from which losses cannot be computed.
    #[serde(default)]
    pub n_kept: u64,
}

/// Health of a topic and retention of its epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicHealth {
    /// Id of the topic, from 1.
    pub topic_id: u64,
    /// `working`, `failing` or `paused`.
    pub state: String,
    /// Problems that the topic has now.
    pub problems: Vec<ProblemBody>,
    /// Retention of past epochs.
    pub retention: RetentionBody,
}

/// A problem of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// Step that fails.
    pub failing: String,
    /// Reason for the latest failure.
    pub reason: String,
    /// Time of the first failure, RFC 3339 in UTC.
    pub since: String,
}

/// Retention of a topic's past epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetentionBody {
    /// Maximum size of closed epochs, in bytes. If half of this size is exceeded, the oldest epochs
    /// lose their forecasts and `one_out_inferer_forecaster_values`.
    pub keep_bytes: u64,
    /// Maximum age in days; null for no limit.
    pub keep_days: Option<u64>,
    /// Number of stored closed epochs.
    pub n_epochs: u64,
    /// Approximate size of these epochs, in bytes.
    pub n_bytes: u64,
    /// Nonce of the oldest epoch, as text; null if there are no epochs.
    pub oldest_nonce: Option<String>,
    /// Nonce of the oldest epoch that still has all its values, as text; null if there is no such epoch.
    pub oldest_full_nonce: Option<String>,
}

/// Health of the service, with the failing topics. Their problems are not included, since the request
/// needs no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceHealth {
    /// Ids of failing topics. `/api/v1/topics/{topic_id}/health` returns their problems.
    pub failing_topics: Vec<u64>,
    /// True if the service was started with `--read-only`, so writes fail.
    #[serde(default)]
    pub is_read_only: bool,
}

/// Request to resume or pause a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicActive {
    /// True to resume the topic, so that epochs open, and false to pause it.
    pub active: bool,
}

/// Payload of a worker for an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubmissionBody {
    /// Nonce of the epoch as number or text; the open epoch by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Decimal>,
    /// Name that distinguishes several workers of one key. Each name has its own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Value for a topic with a single output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Decimal>,
    /// Values by label.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Decimal>,
    /// Predicted loss of each inferer, by address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forecast: BTreeMap<String, Decimal>,
    /// True to validate the payload without storing it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl SubmissionBody {
    /// Returns all values, each with its label.
    pub fn labeled(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let one = self.value.iter().map(|value| (SINGLE_LABEL.to_owned(), value.0.clone()));
        one.chain(self.values.iter().map(|(label, value)| (label.clone(), value.0.clone())))
    }
}

/// Response to an accepted submission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// Id of the topic, from 1.
    pub topic_id: u64,
    /// Nonce: the block at which the epoch opened.
    pub nonce: u64,
    /// Address of the worker.
    pub worker: String,
    /// True if the payload was only validated.
    #[serde(default)]
    pub dry_run: bool,
    /// Last block of the submission window.
    pub window_end_block: u64,
}

/// Account that signs values for contracts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignerBody {
    /// Address of the account, `0x…`.
    pub address: String,
    /// Addresses of the contracts that verify the account's signatures, by name of the chain.
    pub contracts: BTreeMap<String, String>,
}

/// Weighted percentiles of a label's values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntervalBody {
    /// Name of the label: `y` for a topic with a single output.
    pub label_name: String,
    /// Percentiles, 0 to 100.
    pub percentiles: Vec<String>,
    /// Values at the percentiles.
    pub values: Vec<String>,
}

/// Weights of actors, 0 to 1, by address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct WeightsBody {
    /// Weights of inferers, by address.
    pub inferers: BTreeMap<String, String>,
    /// Weights of forecasters, by address.
    pub forecasters: BTreeMap<String, String>,
}

/// Latest bundle of a topic, with weights and confidence intervals of the same epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatestBody {
    /// Bundle with all arrays.
    pub network_inferences: Bundle,
    /// Weights of the actors.
    pub weights: WeightsBody,
    /// Confidence intervals by label; empty if there are no weights, as with a single inferer.
    pub confidence_intervals: Vec<IntervalBody>,
    /// True if the epoch has outliers, so the outlier-resistant bundle differs from this bundle.
    pub has_outliers: bool,
    /// Time at which the epoch closed, in RFC 3339.
    pub closed_at: String,
}

/// A past epoch with its values and results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochBody {
    /// Bundle with all arrays.
    pub network_inferences: Bundle,
    /// Weights of the actors.
    pub weights: WeightsBody,
    /// Confidence intervals by label.
    pub confidence_intervals: Vec<IntervalBody>,
    /// Ground truth; empty until the ground truth is known.
    pub truth: Vec<LabeledValue>,
    /// Losses of all values; null until the ground truth is known.
    pub losses: Option<super::chain::ValueBundle>,
    /// Increase of the network's loss if the inferer were absent, by the inferer's address.
    pub inferer_scores: BTreeMap<String, String>,
    /// Increase of the network's loss if the forecaster were absent, by the forecaster's address.
    pub forecaster_scores: BTreeMap<String, String>,
}

/// Values of an actor in a past epoch for one label: an element of the response to `GET
/// /api/v1/topics/{topic_id}/epochs/`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochActorBody {
    /// Time at which the epoch opened, in RFC 3339.
    pub timestamp: String,
    /// Block at which the epoch opened.
    pub nonce: u64,
    /// Address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Name of the actor; null if unknown.
    pub name: Option<String>,
    /// Name of the label: `y` for a topic with a single output.
    pub label: String,
    /// Value that the actor inferred or implied.
    pub value: Option<f64>,
    /// Weight of the actor in the combined value, 0 to 1; null if the actor has no weight.
    pub weight: Option<f64>,
    /// Loss of the actor as used for learning, by the topic's loss function at that time. All losses
    /// and scores are null until the ground truth is known.
    pub loss: Option<f64>,
    /// Increase of the network's loss if the actor were absent.
    pub score: Option<f64>,
    /// Ground truth; null until the ground truth is known.
    pub truth: Option<f64>,
    /// Value combined from inferers and forecasters.
    pub combined_value: Option<f64>,
    /// Value combined from inferers only.
    pub naive_value: Option<f64>,
    /// Loss of the combined value.
    pub combined_loss: Option<f64>,
    /// Loss of the naive value.
    pub naive_loss: Option<f64>,
}

/// Response to `GET /api/v1/topics/{topic_id}/leaderboard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leaderboard {
    /// Id of the topic.
    pub topic_id: u64,
    /// Latest epochs from which the network learned, oldest first. Epochs with another loss function
    /// than the topic's present one are left out.
    pub epochs: Vec<EpochLosses>,
    /// Minimum number of epochs in which an actor must have been active to be ranked. Only the latest
    /// `2 * min_epochs` epochs are considered.
    pub min_epochs: u64,
    /// Number of epochs in which all ranked actors were active. The mean losses of ranked actors cover
    /// these epochs.
    pub n_common_epochs: u64,
    /// True if `mean_loss` is a mean of base-10 logarithms.
    pub is_logarithmic: bool,
    /// Actors of the epochs: ranked actors by rank, then the remaining actors.
    pub actors: Vec<RankedActor>,
}

/// Losses of an epoch before the logarithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochLosses {
    /// Block at which the epoch opened.
    pub nonce: u64,
    /// Time at which the epoch opened, in RFC 3339.
    pub opened_at: String,
    /// Loss of the combined value.
    pub combined: f64,
    /// Loss of the naive value.
    pub naive: f64,
    /// Loss of an uninformed prediction: equal probabilities for all labels, 0 for a log return, or the
    /// mean ground truth of the latest 100 epochs whose horizon had passed when this epoch opened. Null
    /// if there is no such prediction.
    pub uninformed: Option<f64>,
}

/// An actor of the leaderboard. The statistics cover the epochs that all ranked actors have in common,
/// or all epochs of the actor if the actor is not ranked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct RankedActor {
    /// Address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Name of the actor in its latest epoch; null if unknown.
    pub name: Option<String>,
    /// Rank by mean loss, from 1; null if the actor has too few epochs in common with the other actors.
    /// Actors with equal mean losses share a rank.
    pub rank: Option<u64>,
    /// Number of epochs in which the actor was active.
    pub n_epochs: u64,
    /// Number of epochs that the mean loss covers. For an actor without a rank, the number that counts
    /// toward `min_epochs`.
    pub n_counted_epochs: u64,
    /// Mean of the actor's losses as used for learning.
    pub mean_loss: f64,
    /// Mean of the actor's losses before the logarithm.
    pub mean_plain_loss: f64,
    /// Median of the actor's losses as used for learning.
    #[serde(default)]
    pub median_loss: f64,
    /// Share of epochs in which the actor's loss was below the loss of the naive value, 0 to 1.
    pub better_than_naive: Option<f64>,
    /// Increase of the network's loss if the actor were absent, in percent, as a geometric mean. Null
    /// if the topic allows negative losses.
    pub contribution: Option<f64>,
    /// Share of epochs in which the actor predicted the right label, the right sign of a log return, or
    /// the right direction from the latest value at the opening of the epoch, 0 to 1. Epochs without a
    /// change are left out. Null for a volatility.
    pub directional_accuracy: Option<f64>,
    /// Correlation of the actor's predictions with the combined values, −1 to 1. For a predicted value,
    /// the changes from the latest value at the opening of the epoch are compared.
    pub correlation: Option<f64>,
    /// Number of epochs since the actor was last active.
    #[serde(default)]
    pub missed_epochs: u64,
    /// Reliability of its probabilities over the same epochs. Only with `actor`, on a topic with
    /// several labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Ranks at no more than 100 epochs of the period, oldest first. Only with `actor`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rank_history: Vec<RankPoint>,
}

/// Rank of an actor on the leaderboard of the 100 epochs up to an epoch, or of fewer epochs if the
/// period has fewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankPoint {
    /// Block at which the latest of these epochs opened.
    pub nonce: u64,
    /// Opening time, in RFC 3339.
    pub opened_at: String,
    /// Rank by mean loss, from 1. Null if the actor was not ranked.
    pub rank: Option<u64>,
    /// Number of ranked actors.
    pub n_ranked: u64,
    /// Mean loss over the common epochs if ranked, else over its own. Null without any.
    pub mean_loss: Option<f64>,
}

/// Reliability of an actor's probabilities, all labels together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Calibration {
    /// Expected calibration error, 0 to 1: the mean difference between the mean probability and the
    /// observed frequency of a bin, weighted by the bin's number of predictions.
    pub expected_error: f64,
    /// Ten bins of equal width, from probability 0 to 1.
    pub bins: Vec<ReliabilityBin>,
}

/// Predictions with similar probabilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReliabilityBin {
    /// Lowest probability of the bin.
    pub from: f64,
    /// Probability at which the next bin begins; 1, inclusive, for the last bin.
    pub to: f64,
    /// Number of predictions. The probability of each label of an epoch is a prediction.
    pub n_predictions: u64,
    /// Mean predicted probability; null without predictions.
    pub mean_probability: Option<f64>,
    /// Share of the predicted labels that came true, 0 to 1; null without predictions.
    pub observed_frequency: Option<f64>,
}
