//! Bodies of extensions of the chain's API: settings of topics, submissions, and additions to bundles.

use std::collections::BTreeMap;

use model::topic::SINGLE_LABEL;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::cases::Decimal;
use super::{Bundle, LabeledValue};

/// Function that workers of a cluster run to infer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorSettings {
    /// Name or content id of the function.
    pub function: String,
    /// File to run inside the function.
    pub method: String,
    /// Subgroup whose workers run the function; any worker if omitted.
    pub subgroup: Option<String>,
    /// Number of workers, 1 by default.
    pub n_nodes: Option<u32>,
    /// Number of latest rows in the function's input, 100 by default.
    pub n_rows: Option<u32>,
    /// Environment variables of the function.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Models of the function. Without models, each worker that runs the function is an inferer.
    #[serde(default)]
    pub models: Vec<PredictorModelSettings>,
}

/// A model of a predictor: an inferer identified by this name, whichever worker runs the function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorModelSettings {
    /// Name, unique within the topic.
    pub name: String,
    /// Environment variables, in addition to the predictor's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Settings of a topic. Defaults are those of most topics on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the chain's message has them")]
pub struct TopicSettings {
    /// Human-readable description of the prediction.
    #[schema(required = true)]
    pub metadata: String,
    /// `regression` or `classification`, or the chain's names of them.
    pub topic_type: Option<String>,
    /// `single` or `multi`, or the chain's names of them.
    pub output_arity: Option<String>,
    /// Accepted labels; empty to accept all.
    pub label_whitelist: Vec<String>,
    /// True if labels are case-sensitive.
    pub label_case_sensitive: bool,
    /// Value of a label that was not submitted.
    pub label_default_value: Option<Decimal>,
    /// Maximum number of labels per payload.
    pub max_labels_per_submission: Option<u32>,
    /// True if values must sum to 1.
    pub require_unity: bool,
    /// Maximum distance of the sum from 1.
    pub unity_tolerance: Option<Decimal>,
    /// `mse`, `mae`, `huber`, `logcosh` or `ce`.
    pub loss_method: Option<String>,
    /// True to use losses as they are instead of their logarithms.
    pub allow_negative: bool,
    /// Smallest loss that is distinguished from zero.
    pub loss_floor: Option<Decimal>,
    /// `mad-v0.17` or `stdev-oct2024`.
    pub algorithm: Option<String>,
    /// Preference for the best actors.
    pub p_norm: Option<Decimal>,
    /// Center of the weights' potential.
    pub c_norm: Option<Decimal>,
    /// Weight of the latest loss in a regret.
    pub alpha_regret: Option<Decimal>,
    /// Minimum scale of regrets.
    pub epsilon: Option<Decimal>,
    /// Weight of the latest score in its moving average.
    pub merit_sortition_alpha: Option<Decimal>,
    /// Quantile of active inferers' scores, toward which the scores of inactive inferers move. Also
    /// the maximum share of places for inferers without a score.
    pub active_inferer_quantile: Option<Decimal>,
    /// Quantile of active forecasters' scores, with the same effects for forecasters.
    pub active_forecaster_quantile: Option<Decimal>,
    /// Quantile of active reputers' scores. There is only one reputer.
    pub active_reputer_quantile: Option<Decimal>,
    /// Maximum number of active inferers per epoch, chosen by score; 32 on the chain.
    pub max_top_inferers_to_reward: Option<u32>,
    /// Maximum number of active forecasters per epoch, in addition to the built-in forecasters; 6
    /// on the chain.
    pub max_top_forecasters_to_reward: Option<u32>,
    /// True to accept submissions only from workers on the whitelist.
    pub enable_worker_whitelist: bool,
    /// Addresses of the workers on the whitelist.
    pub worker_whitelist: Vec<String>,
    /// Number of experienced actors that determine the regret of newcomers; 10 on the chain.
    pub min_experienced: Option<u32>,
    /// Blocks per epoch.
    pub epoch_length: Option<u64>,
    /// Blocks in which workers can submit; half the epoch by default.
    pub worker_submission_window: Option<u64>,
    /// Blocks from the start of an epoch until its ground truth is read; the epoch's length by
    /// default.
    pub ground_truth_lag: Option<u64>,
    /// Name of the dataset with the ground truth.
    #[schema(required = true)]
    pub dataset: String,
    /// Id of the dataset. By default, the dataset is found by its name once, and its id stored.
    pub dataset_id: Option<i64>,
    /// Predicted column of the dataset.
    #[schema(required = true)]
    pub column: String,
    /// Distance of the prediction, in seconds of the dataset's time. Must be longer than the
    /// submission window.
    #[schema(required = true)]
    pub horizon_seconds: u64,
    /// Relative change that still counts as `flat`, for the labels `up`, `down` and `flat`.
    pub direction_threshold: Option<Decimal>,
    /// Smallest value that a submission can have; unlimited if omitted.
    pub value_min: Option<Decimal>,
    /// Largest value that a submission can have; unlimited if omitted.
    pub value_max: Option<Decimal>,
    /// Function that infers in each epoch, if any.
    pub predictor: Option<PredictorSettings>,
    /// True (default) if the built-in forecasters take part.
    pub built_in_forecasters: Option<bool>,
    /// Maximum size of past epochs, at least 1000000 bytes; the service's setting by default.
    pub keep_bytes: Option<u64>,
    /// Maximum age of past epochs, in days; the service's setting by default.
    pub keep_days: Option<u32>,
    /// True to allow settings outside of the chain's ranges: an `epoch_length` below 12, a `p_norm`
    /// outside 2.5 to 4.5, a horizon that ends within the submission window.
    pub experimental: bool,
}

/// First epoch from which a topic learns again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelearnBody {
    /// First epoch whose ground truth is read again: a height, as number or text.
    pub from_nonce: Decimal,
}

/// Result of learning again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RelearnedBody {
    /// Number of epochs learned from again, including some before the first one.
    pub n_epochs: u64,
    /// Number of these with a different ground truth.
    pub n_changed: u64,
}

/// Health of a topic, and its retention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicHealth {
    /// Id of the topic, from 1.
    pub topic_id: u64,
    /// `working`, `failing` or `paused`.
    pub state: String,
    /// Current problems.
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
    /// Maximum size of closed epochs, in bytes. Above half of this size, the oldest epochs lose
    /// forecasts and `one_out_inferer_forecaster_values`.
    pub keep_bytes: u64,
    /// Maximum age in days; null for no limit.
    pub keep_days: Option<u64>,
    /// Number of stored closed epochs.
    pub n_epochs: u64,
    /// Approximate size of these epochs, in bytes.
    pub n_bytes: u64,
    /// Nonce of the oldest epoch, as text; null without epochs.
    pub oldest_nonce: Option<String>,
    /// Nonce of the oldest complete epoch, as text; null without epochs.
    pub oldest_full_nonce: Option<String>,
}

/// Health of the service, and failing topics. The problems of topics are shown only to clients with
/// a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceHealth {
    /// Ids of failing topics. `/api/v1/topics/{topic_id}/health` has their problems.
    pub failing_topics: Vec<u64>,
    /// True if the service was started with `--read-only`, so that writes fail.
    #[serde(default)]
    pub is_read_only: bool,
}

/// Switch for opening a topic's epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicActive {
    /// True to open epochs.
    pub active: bool,
}

/// Payload of a worker for an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubmissionBody {
    /// Nonce as number or text; the open nonce by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Decimal>,
    /// Name that distinguishes several workers of one key. Each has its own address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Value on a topic with a single output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Decimal>,
    /// Values by label.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Decimal>,
    /// Expected losses of inferers, by address.
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
    /// Last block of the window.
    pub window_end_block: u64,
}

/// Account that signs values for contracts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignerBody {
    /// Address of the account, `0x…`.
    pub address: String,
    /// Contracts that verify its values, by name of the chain.
    pub contracts: BTreeMap<String, String>,
}

/// Weighted percentiles of a label's values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntervalBody {
    /// Name of the label, `y` on a topic with a single output.
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

/// Latest bundle of a topic, with weights and intervals from the same regrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatestBody {
    /// Bundle with all arrays.
    pub network_inferences: Bundle,
    /// Weights of the actors.
    pub weights: WeightsBody,
    /// Confidence intervals by label; empty without weights.
    pub confidence_intervals: Vec<IntervalBody>,
    /// True if outliers were found, so that the outlier-resistant bundle differs.
    pub has_outliers: bool,
    /// Closing time of the epoch, in RFC 3339.
    pub closed_at: String,
}

/// A page of a topic's past bundles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkInferencesPage {
    /// Bundles, oldest first.
    pub network_inferences: Vec<Bundle>,
    /// Value of `to` for the page before; null on the oldest page.
    pub next_to: Option<String>,
}

/// A past epoch with its inputs and results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochBody {
    /// Bundle with all arrays.
    pub network_inferences: Bundle,
    /// Weights of the actors.
    pub weights: WeightsBody,
    /// Confidence intervals by label.
    pub confidence_intervals: Vec<IntervalBody>,
    /// Ground truth; empty until it is known.
    pub truth: Vec<LabeledValue>,
    /// Losses of all values; null until the ground truth is known.
    pub losses: Option<super::chain::ValueBundle>,
    /// Increase of the loss without each inferer.
    pub inferer_scores: BTreeMap<String, String>,
    /// Increase of the loss without each forecaster.
    pub forecaster_scores: BTreeMap<String, String>,
}

/// An actor in a past epoch, with one label: an element of the response to
/// `GET /api/v1/topics/{topic_id}/epochs/`.
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
    /// Name of the label, `y` on a topic with a single output.
    pub label: String,
    /// Value that the actor inferred or implied.
    pub value: Option<f64>,
    /// Weight of the actor in the combined value, 0 to 1; null without weights.
    pub weight: Option<f64>,
    /// Loss of the actor as used for learning; null until the ground truth is known, like the other
    /// losses and scores.
    pub loss: Option<f64>,
    /// Increase of the loss without the actor.
    pub score: Option<f64>,
    /// Ground truth.
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
    /// Latest epochs learned from, oldest first.
    pub epochs: Vec<EpochLosses>,
    /// Number of epochs that an actor needs for a rank. Only twice that number of latest epochs
    /// count.
    pub min_epochs: u64,
    /// Number of epochs in which all ranked actors took part, and by which they are compared.
    pub n_common_epochs: u64,
    /// True if `mean_loss` is a mean of base-10 logarithms.
    pub is_logarithmic: bool,
    /// Actors of these epochs: ranked actors by rank, then the others.
    pub actors: Vec<RankedActor>,
}

/// Losses of the values of an epoch, not logarithmic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochLosses {
    /// Block at which it opened.
    pub nonce: u64,
    /// Opening time, in RFC 3339.
    pub opened_at: String,
    /// Loss of the combined value.
    pub combined: f64,
    /// Loss of the naive value.
    pub naive: f64,
    /// Loss of an uninformed prediction: equal probabilities for all labels, or the mean of earlier
    /// ground truths. Null before the first.
    pub uninformed: Option<f64>,
}

/// An actor with its mean loss, over the common epochs if ranked, else over its own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct RankedActor {
    /// Address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Name of the actor in its latest epoch, if known.
    pub name: Option<String>,
    /// Rank by mean loss, from 1. Null if it has too few epochs in common with the others.
    pub rank: Option<u64>,
    /// Number of epochs in which it took part.
    pub n_epochs: u64,
    /// Number of epochs that count for its rank, or toward `min_epochs` if it is not ranked.
    pub n_counted_epochs: u64,
    /// Mean of its losses as used for learning.
    pub mean_loss: f64,
    /// Mean of its losses, not logarithmic.
    pub mean_plain_loss: f64,
    /// Median of its losses as used for learning.
    #[serde(default)]
    pub median_loss: f64,
    /// Share of epochs in which its loss was below that of the naive value, 0 to 1.
    #[serde(default)]
    pub better_than_naive: Option<f64>,
    /// Increase of the network's loss without the actor, in percent: a geometric mean. Null if the
    /// topic allows negative losses.
    #[serde(default)]
    pub contribution: Option<f64>,
    /// Share of epochs in which it predicted the direction from the ground truth before, or the right
    /// label, 0 to 1.
    #[serde(default)]
    pub directional_accuracy: Option<f64>,
    /// Correlation of its predicted changes, or probabilities, with those of the combined value, −1 to
    /// 1.
    #[serde(default)]
    pub correlation: Option<f64>,
    /// Number of latest epochs that it missed in a row.
    #[serde(default)]
    pub missed_epochs: u64,
}
