//! Our own bodies of a network: settings of topics, submissions, and what stands beside a bundle.

use std::collections::BTreeMap;

use model::topic::SINGLE_LABEL;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Bundle, LabeledValue, cases::Decimal};

/// The function that workers of a cluster run to infer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorSettings {
    /// Its name or content id.
    pub function: String,
    /// The file to run inside it.
    pub method: String,
    /// The subgroup whose workers run it; any worker without.
    pub subgroup: Option<String>,
    /// How many workers are asked; 1 where it does not say.
    pub n_nodes: Option<u32>,
    /// How many of the newest rows they read; 100 where it does not say.
    pub n_rows: Option<u32>,
    /// Environment variables of the function.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The models the function stands for; without any, each worker that runs it is an inferer.
    #[serde(default)]
    pub models: Vec<PredictorModelSettings>,
}

/// A model that a predictor stands for: an inferer by its name, whichever worker runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictorModelSettings {
    /// Its name, which no other model of the topic has.
    pub name: String,
    /// Its environment, besides that of the predictor.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// A topic's settings. What is left out is as on most topics of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the chain's message has them")]
pub struct TopicSettings {
    /// What it predicts, for people.
    #[schema(required = true)]
    pub metadata: String,
    /// `regression` or `classification`, or the chain's names of them.
    pub topic_type: Option<String>,
    /// `single` or `multi`, or the chain's names of them.
    pub output_arity: Option<String>,
    /// The labels taken; empty where any is.
    pub label_whitelist: Vec<String>,
    /// Whether labels differ by case.
    pub label_case_sensitive: bool,
    /// What a label that was not submitted is.
    pub label_default_value: Option<Decimal>,
    /// The most labels of one payload.
    pub max_labels_per_submission: Option<u32>,
    /// Whether values must sum to 1.
    pub require_unity: bool,
    /// How far a sum may be from 1.
    pub unity_tolerance: Option<Decimal>,
    /// `mse`, `mae`, `huber`, `logcosh` or `ce`.
    pub loss_method: Option<String>,
    /// Whether losses are used as they are, not as logarithms.
    pub allow_negative: bool,
    /// The smallest loss that is distinguished from zero.
    pub loss_floor: Option<Decimal>,
    /// `mad-v0.17` or `stdev-oct2024`.
    pub algorithm: Option<String>,
    /// How sharply the best are preferred.
    pub p_norm: Option<Decimal>,
    /// The center of the weights' potential.
    pub c_norm: Option<Decimal>,
    /// The share of the newest loss in a regret.
    pub alpha_regret: Option<Decimal>,
    /// What keeps the scale of regrets from zero.
    pub epsilon: Option<Decimal>,
    /// The share of the newest score in its moving average.
    pub merit_sortition_alpha: Option<Decimal>,
    /// The quantile of active inferers' scores that the scores of resting ones move toward, and the
    /// share of the places that inferers without a score have at most.
    pub active_inferer_quantile: Option<Decimal>,
    /// The same of forecasters.
    pub active_forecaster_quantile: Option<Decimal>,
    /// The same of reputers. There is one.
    pub active_reputer_quantile: Option<Decimal>,
    /// How many inferers are active in an epoch at most: those with the best scores; 32 on the chain.
    pub max_top_inferers_to_reward: Option<u32>,
    /// How many forecasters are active in an epoch at most, besides the built-in ones; 6 on the chain.
    pub max_top_forecasters_to_reward: Option<u32>,
    /// Whether it takes submissions of the workers on its whitelist alone.
    pub enable_worker_whitelist: bool,
    /// The addresses of the workers on its whitelist.
    pub worker_whitelist: Vec<String>,
    /// How many experienced actors set the regret of newcomers; 10 on the chain.
    pub min_experienced: Option<u32>,
    /// Blocks in an epoch.
    pub epoch_length: Option<u64>,
    /// Blocks in which workers may submit; half the epoch where it does not say.
    pub worker_submission_window: Option<u64>,
    /// Blocks from an epoch's start until its truth is asked for; the epoch's length where it does
    /// not say.
    pub ground_truth_lag: Option<u64>,
    /// The name of the dataset that truth comes from.
    #[schema(required = true)]
    pub dataset: String,
    /// Its number. Without it the dataset is found by its name once, and its number kept.
    pub dataset_id: Option<i64>,
    /// The column of the dataset that is predicted.
    #[schema(required = true)]
    pub column: String,
    /// How far ahead the column is predicted, in seconds of the dataset's time: longer than the
    /// submission window lasts.
    #[schema(required = true)]
    pub horizon_seconds: u64,
    /// For `up`, `down` and `flat`: the relative move that is still flat.
    pub direction_threshold: Option<Decimal>,
    /// Smallest value that a submission may have; unlimited if omitted.
    pub value_min: Option<Decimal>,
    /// Largest value that a submission may have; unlimited if omitted.
    pub value_max: Option<Decimal>,
    /// Who infers by itself; nobody without.
    pub predictor: Option<PredictorSettings>,
    /// Whether the forecasters that every topic has built in take part; true without.
    pub built_in_forecasters: Option<bool>,
    /// The most bytes of past epochs that are kept, at least 1000000; as the service says without.
    pub keep_bytes: Option<u64>,
    /// The most days that an epoch is kept; as the service says without.
    pub keep_days: Option<u32>,
    /// Whether settings may be out of the chain's ranges: an `epoch_length` below 12, a `p_norm`
    /// outside 2.5 to 4.5, a horizon that ends within the submission window.
    pub experimental: bool,
}

/// From which epoch on a topic learns again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RelearnBody {
    /// The first epoch whose truth is read again: a height, as a number or a text.
    pub from_nonce: Decimal,
}

/// What came of learning again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct RelearnedBody {
    /// How many epochs were learned from again; some before the first are among them.
    pub n_epochs: u64,
    /// How many of them came to another truth.
    pub n_changed: u64,
}

/// Whether a topic works, and what it keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicHealth {
    /// The topic's number, from 1.
    pub topic_id: u64,
    /// `working`, `failing` or `paused`.
    pub state: String,
    /// What it fails to do.
    pub problems: Vec<ProblemBody>,
    /// What it keeps of its past epochs.
    pub retention: RetentionBody,
}

/// Something that a topic fails to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProblemBody {
    /// The step that fails.
    pub failing: String,
    /// Why, as of the last time.
    pub reason: String,
    /// When it first failed, RFC 3339 in UTC.
    pub since: String,
}

/// What a topic keeps of its past epochs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetentionBody {
    /// The most bytes of closed epochs. Past half of it, the oldest ones lose forecasts and
    /// `one_out_inferer_forecaster_values`.
    pub keep_bytes: u64,
    /// The most days; null for no limit.
    pub keep_days: Option<u64>,
    /// Closed epochs that are kept.
    pub n_epochs: u64,
    /// About how many bytes they take.
    pub n_bytes: u64,
    /// The oldest epoch, a number as text; null without one.
    pub oldest_nonce: Option<String>,
    /// The oldest epoch that has everything; null without one.
    pub oldest_full_nonce: Option<String>,
}

/// Whether the service serves, and which topics fail. What they fail to do is for callers with a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceHealth {
    /// Topics that fail to do something now: `/api/v1/topics/{topic_id}/health` says what and why.
    pub failing_topics: Vec<u64>,
    /// True if the service was started with `--read-only`: writes fail.
    #[serde(default)]
    pub is_read_only: bool,
}

/// Whether a topic's epochs open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicActive {
    /// Whether they do.
    pub active: bool,
}

/// What a worker submits for one epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SubmissionBody {
    /// The nonce; the open one where it does not say. A number or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Decimal>,
    /// Tells several workers of one key apart; each has an address of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its value on a topic with one output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Decimal>,
    /// Its values by label.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Decimal>,
    /// The losses it expects of inferers, by address.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forecast: BTreeMap<String, Decimal>,
    /// Whether it is only checked: nothing is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl SubmissionBody {
    /// Its values by label.
    pub fn labeled(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let one = self.value.iter().map(|value| (SINGLE_LABEL.to_owned(), value.0.clone()));
        one.chain(self.values.iter().map(|(label, value)| (label.clone(), value.0.clone())))
    }
}

/// The answer to a submission: it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Accepted {
    /// The topic's number, from 1.
    pub topic_id: u64,
    /// The nonce: the block at which the epoch opened.
    pub nonce: u64,
    /// The address that it counts for.
    pub worker: String,
    /// Whether it was only checked, and would be kept.
    #[serde(default)]
    pub dry_run: bool,
    /// The last block of the window.
    pub window_end_block: u64,
}

/// Who signs values for contracts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignerBody {
    /// The address of the account that signs, `0x…`.
    pub address: String,
    /// The contract that checks its values, by the name of each chain that is served.
    pub contracts: BTreeMap<String, String>,
}

/// Where the values of a label lie, counted by their weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IntervalBody {
    /// The label, `y` on a topic with a single output.
    pub label_name: String,
    /// The percentiles, 0 to 100.
    pub percentiles: Vec<String>,
    /// The value at each.
    pub values: Vec<String>,
}

/// How much each actor counted, 0 to 1, by address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct WeightsBody {
    /// The inferers' weights, by address.
    pub inferers: BTreeMap<String, String>,
    /// The forecasters' weights, by address.
    pub forecasters: BTreeMap<String, String>,
}

/// The newest bundle of a topic, with what follows from the same regrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatestBody {
    /// The bundle, with every array.
    pub network_inferences: Bundle,
    /// How much each actor counted for it.
    pub weights: WeightsBody,
    /// Where the values lie, for each label; empty where there are no weights.
    pub confidence_intervals: Vec<IntervalBody>,
    /// Whether outliers were found, so that the resistant bundle is another.
    pub has_outliers: bool,
    /// When the epoch closed, in RFC 3339.
    pub closed_at: String,
}

/// One number of the newest bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScalarBody {
    /// The topic's number, from 1.
    pub topic_id: u64,
    /// The nonce: the block at which the epoch opened.
    pub nonce: u64,
    /// The label, `y` on a topic with a single output.
    pub label_name: String,
    /// The combined value.
    pub value: String,
}

/// A page of a topic's past bundles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NetworkInferencesPage {
    /// The bundles, oldest first.
    pub network_inferences: Vec<Bundle>,
    /// What `to` is on the page before this one; null on the oldest.
    pub next_to: Option<String>,
}

/// One past epoch with all that led to it and came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochBody {
    /// The bundle, with every array.
    pub network_inferences: Bundle,
    /// How much each actor counted for it.
    pub weights: WeightsBody,
    /// Where the values lie.
    pub confidence_intervals: Vec<IntervalBody>,
    /// What came true; empty until it is known.
    pub truth: Vec<LabeledValue>,
    /// What it cost each quantity; null until it is known.
    pub losses: Option<super::chain::ValueBundle>,
    /// How much worse it would have been without each inferer.
    pub inferer_scores: BTreeMap<String, String>,
    /// How much worse it would have been without each forecaster.
    pub forecaster_scores: BTreeMap<String, String>,
}

/// An actor in one past epoch, under one label: an element of the response to
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
    /// Name of the actor; absent if it has none.
    pub name: Option<String>,
    /// Label of the values, `y` on a topic with a single output.
    pub label: String,
    /// Value that the actor inferred or implied.
    pub value: Option<f64>,
    /// Share of the actor in the combined value, 0 to 1; absent while there are no weights.
    pub weight: Option<f64>,
    /// Loss of the actor as the network learns from it; absent until the truth is known, as all that
    /// follow from it.
    pub loss: Option<f64>,
    /// How much more the network would have lost without the actor.
    pub score: Option<f64>,
    /// Value that came true.
    pub truth: Option<f64>,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Option<f64>,
    /// The inferers alone, weighted by their naive regrets.
    pub naive_value: Option<f64>,
    /// Loss of the combined value.
    pub combined_loss: Option<f64>,
    /// Loss of the naive value.
    pub naive_loss: Option<f64>,
}

/// The answer to `GET /api/v1/topics/{topic_id}/leaderboard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Leaderboard {
    /// The topic's number.
    pub topic_id: u64,
    /// The newest epochs that were learned from, oldest first.
    pub epochs: Vec<EpochLosses>,
    /// Epochs that an actor needs to be ranked: so many of twice as many newest ones.
    pub min_epochs: u64,
    /// Epochs in which all ranked actors took part: those that they are compared in.
    pub n_common_epochs: u64,
    /// True if `mean_loss` is of base-10 logarithms.
    pub is_logarithmic: bool,
    /// The actors that took part in the epochs: those that are ranked by their rank, then the others.
    pub actors: Vec<RankedActor>,
}

/// Losses of the values of one epoch, none of them a logarithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpochLosses {
    /// The block at which it opened.
    pub nonce: u64,
    /// When it opened, in RFC 3339.
    pub opened_at: String,
    /// Of the combined value.
    pub combined: f64,
    /// Of the naive value.
    pub naive: f64,
    /// Of one that knows nothing of the rows: the same probability for each label, or the mean of
    /// the values that came true in earlier epochs. Null before the first such value.
    pub uninformed: Option<f64>,
}

/// One actor and its mean loss: over the common epochs if it is ranked, else over its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RankedActor {
    /// The address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Its name in the newest epoch in which it took part, where that is known.
    pub name: Option<String>,
    /// Its place by its mean loss, from 1. Null if it has too few epochs in common with the others.
    pub rank: Option<u64>,
    /// Epochs in which it took part.
    pub n_epochs: u64,
    /// Epochs that count for its rank, or toward `min_epochs` if it is not ranked.
    pub n_counted_epochs: u64,
    /// The mean of its losses as the network learns from them.
    pub mean_loss: f64,
    /// The mean of its losses, none of them a logarithm.
    pub mean_plain_loss: f64,
}
